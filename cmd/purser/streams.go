package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"purser/actors/processes"
	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/kafka"
	"purser/persistence/retry"
)

// namedConsumer follows all events of the journal, by way of Kafka when it is configured, else from
// the journal.
type namedConsumer struct {
	name string // in metrics and the log
	// open returns the handler when the stores and the actors are up, and pushes its cleanup. A nil
	// handler: this configuration does not have the consumer.
	open func(ctx context.Context, m *daemon) (consumer.Handler, error)
}

// consumers returns the table of the consumers that follow the journal's events: the ledger in
// Postgres and the outgoing webhooks.
func consumers() []namedConsumer {
	return []namedConsumer{
		{name: "book", open: openBook},
		{name: "webhooks", open: func(_ context.Context, m *daemon) (consumer.Handler, error) {
			return m.system.Announcer(processes.WebhookAnnouncements()), nil
		}},
	}
}

// restartAfter is the pause before a publisher or consumer is run again after an error that only an
// operator can repair.
const restartAfter = 30 * time.Second

// startPublisher publishes the journal's events to Kafka. An unreachable Kafka shows only in the
// metrics. The publisher creates a missing topic and continues from its cursors. It fails for
// settings that the Kafka client refuses.
func (m *daemon) startPublisher(context.Context) error {
	if len(m.config.Kafka.Brokers) == 0 {
		return nil
	}
	options := m.config.Kafka.TopicOptions()
	var err error
	if options.Proof, err = messageProof(m.config.DataKeys, m.Clock(), m.Entropy); err != nil {
		return err
	}
	topic, err := kafka.New(options)
	if err != nil {
		return err
	}
	m.topic = topic
	m.cleanup.push(func() error {
		m.topic = nil
		topic.Close()
		return nil
	})
	journal := m.journal
	m.cleanup.goUntilClosed(superviseForever(m.log, "the publisher", func(ctx context.Context) error {
		m.outbox.run(true)
		defer m.outbox.run(false)
		publisher, err := topic.Publisher(kafka.PublisherOptions{Journal: journal, Listener: m.outbox})
		if err != nil {
			return err
		}
		return publisher.Run(ctx)
	}))
	return nil
}

// messageProof returns the keys that prove the messages of this process. Consumers act on proven
// messages only. It fails only without entropy or for a data key of a wrong length.
func messageProof(dataKeys [][]byte, now time.Time, entropy io.Reader) (kafka.Proof, error) {
	run, err := ident.New(0, now, entropy)
	if err != nil {
		return kafka.Proof{}, err
	}
	proof := kafka.Proof{Run: run}
	for _, dataKey := range dataKeys {
		key, err := kafka.DeriveKey(dataKey)
		if err != nil {
			return kafka.Proof{}, err
		}
		proof.Keys = append(proof.Keys, key)
	}
	return proof, nil
}

// startConsumers starts every consumer in the background, where it is repeated after an error. A
// consumer that opens as nil is left out. It fails with a transient error when a consumer cannot be
// opened.
func (m *daemon) startConsumers(ctx context.Context) error {
	for i := range m.consumers {
		c := &m.consumers[i]
		handler, err := c.open(ctx, m)
		if err != nil {
			return fmt.Errorf("consumer %s: %w", c.name, asTransient(err))
		}
		if handler == nil {
			continue
		}
		followed := m.inbox.follow(c.name, handler, m.journal)
		subscription, err := subscribe(m.journal, m.topic, followed)
		if err != nil {
			return fmt.Errorf("consumer %s: %w", c.name, err)
		}
		m.cleanup.goUntilClosed(superviseForever(m.log, "consumer "+c.name,
			func(ctx context.Context) error { return subscription.Run(ctx, followed) }))
	}
	return nil
}

// subscribe follows the events of the journal by way of the topic, or of the journal when there is
// no topic. It fails for options that the subscription refuses.
func subscribe(
	journal persistence.Journal, topic *kafka.Topic, listener consumer.Listener,
) (consumer.Subscription, error) {
	o := consumer.Options{Journal: journal, Listener: listener}
	if topic == nil {
		return consumer.Subscribe(o)
	}
	return topic.Subscribe(kafka.SubscriptionOptions{Options: o})
}

// superviseForever returns a function that runs another until the context ends. It logs an error
// that ends the run early, and runs it again after restartAfter.
func superviseForever(log *slog.Logger, name string, run func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		for ctx.Err() == nil {
			if err := run(ctx); ctx.Err() == nil {
				log.Error(name+" has ended", "err", err, "again_after", restartAfter)
				retry.Pause(ctx, restartAfter)
			}
		}
	}
}
