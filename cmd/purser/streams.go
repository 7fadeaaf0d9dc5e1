package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"purser/actors/processes"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/kafka"
)

// consumer is one that follows all events of the journal besides the actors: by way of Kafka when there is one, else from the
// journal.
type consumer struct {
	name string // in metrics and the log
	// open makes the handler when the stores and the actors are up, and hands what it has opened to Main.onClose. nil: there is
	// none in this configuration.
	open func(ctx context.Context, m *Main) (persistence.Handler, error)
}

// consumers is the table of them.
func consumers() []consumer {
	return []consumer{
		{name: "book", open: openBook},
		{name: "webhooks", open: func(_ context.Context, m *Main) (persistence.Handler, error) {
			return m.system.Announcer(processes.WebhookAnnouncements()), nil
		}},
	}
}

// restartAfter is how long a publisher or consumer rests that has ended for a reason that only an operator mends.
const restartAfter = 30 * time.Second

// startPublisher begins to carry the journal's events to Kafka. Whether that is there shows in the metrics and nowhere else: it
// makes the topic when it is missing and goes on from its cursors when it can.
func (m *Main) startPublisher(context.Context) error {
	if len(m.config.Kafka.Brokers) == 0 {
		return nil
	}
	options := m.config.Kafka.TopicOptions()
	var err error
	if options.Proof, err = m.messageProof(); err != nil {
		return err
	}
	topic, err := kafka.New(options)
	if err != nil {
		return err
	}
	m.topic = topic
	m.onClose(func() error {
		m.topic = nil
		topic.Close()
		return nil
	})
	journal := m.journal
	m.keep("the publisher", func(ctx context.Context) error {
		m.outbox.run(true)
		defer m.outbox.run(false)
		publisher, err := topic.Publisher(kafka.PublisherOptions{Journal: journal, Listener: m.outbox})
		if err != nil {
			return err
		}
		return publisher.Run(ctx)
	})
	return nil
}

// messageProof is what the messages of this process are proven with: a consumer acts on no others.
func (m *Main) messageProof() (kafka.Proof, error) {
	run, err := ident.New(0, m.Clock(), m.Entropy)
	if err != nil {
		return kafka.Proof{}, err
	}
	proof := kafka.Proof{Run: run}
	for _, dataKey := range m.config.DataKeys {
		key, err := kafka.DeriveKey(dataKey)
		if err != nil {
			return kafka.Proof{}, err
		}
		proof.Keys = append(proof.Keys, key)
	}
	return proof, nil
}

func (m *Main) startConsumers(ctx context.Context) error {
	for i := range m.consumers {
		c := &m.consumers[i]
		handler, err := c.open(ctx, m)
		if err != nil {
			return fmt.Errorf("consumer %s: %w", c.name, mayPass(err))
		}
		if handler == nil {
			continue
		}
		followed := m.inbox.follow(c.name, handler, m.journal)
		subscription, err := m.subscribe(followed)
		if err != nil {
			return fmt.Errorf("consumer %s: %w", c.name, err)
		}
		m.keep("consumer "+c.name, func(ctx context.Context) error { return subscription.Run(ctx, followed) })
	}
	return nil
}

func (m *Main) subscribe(listener persistence.SubscriptionListener) (persistence.Subscription, error) {
	o := persistence.SubscriptionOptions{Journal: m.journal, Listener: listener}
	if m.topic == nil {
		return persistence.Subscribe(o)
	}
	return m.topic.Subscribe(kafka.SubscriptionOptions{SubscriptionOptions: o})
}

// keep runs what runs until its context ends, until Close. One that ends by itself is said to, and begins again after a rest.
func (m *Main) keep(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := run(ctx); ctx.Err() == nil {
				m.log.Error(name+" has ended", "err", err, "again_after", restartAfter)
				persistence.Pause(ctx, restartAfter)
			}
		}
	})
	m.onClose(func() error {
		cancel()
		running.Wait()
		return nil
	})
}
