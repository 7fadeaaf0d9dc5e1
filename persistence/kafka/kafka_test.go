package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/kafka"
)

// TestTopicHasEachEventInOrder reads the topic as a stranger would, with a plain client.
func TestTopicHasEachEventInOrder(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		f.appendEverywhere(3)
		o := &outlet{}
		f.publish(f.topic, f.journal, o)
		f.published()
		f.appendEverywhere(2)
		f.append(7, 2500, `{}`) // more than a request
		f.published()
		positions := map[string]uint64{}
		for partition := range kafka.Partitions {
			for _, m := range f.messages(partition) {
				h := m.headers
				shard, err := strconv.Atoi(h["purser-shard"])
				require.NoError(t, err)
				require.Equal(t, shard%32, partition)
				position, err := strconv.ParseUint(h["purser-position"], 10, 64)
				require.NoError(t, err)
				if position <= positions[h["purser-shard"]] {
					require.NotZero(t, o.failed.Load(), "a repeat though nothing failed")
					continue
				}
				require.Equal(t, positions[h["purser-shard"]]+1, position)
				positions[h["purser-shard"]]++
				require.Equal(t, fmt.Sprintf("ws_%03d", shard), m.key)
				require.Equal(t, "evt_"+m.key[3:]+"_"+h["purser-position"], h["ce_id"])
				require.Equal(t, "1.0", h["ce_specversion"])
				require.Equal(t, "card.frozen.v1", h["ce_type"])
				require.Regexp(t, "^urn:purser:[0-9a-f]{32}$", h["ce_source"])
				require.Regexp(t, `^2026-01-02T03:04:05\.\d+Z$`, h["ce_time"])
				require.Equal(t, "application/json", h["content-type"])
				require.Contains(t, []string{`{"spaces":  "kept", "n": 1.0}`, `{}`}, m.value)
			}
		}
		require.Len(t, positions, ident.Shards)
		require.EqualValues(t, 2505, positions["7"])
		require.EqualValues(t, 5, positions["8"])
	})
}

func TestConsumersReadFromTheTopic(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		f.appendEverywhere(2)
		f.publish(f.topic, f.journal.Journal, nil)
		book, webhooks := &memoryConsumer{}, &memoryConsumer{}
		f.tailing(never, book)
		f.tailing(never, webhooks)
		f.handled(book, webhooks)
		f.journal.blind.Store(true) // for the consumers, not for the publisher
		f.appendEverywhere(3)
		f.append(9, 1500, `{"a":1}`)
		f.handled(book, webhooks)
		require.Zero(t, f.journal.refused.Load(), "a consumer went to the journal")
		require.Zero(t, book.gaps.Load()+book.foreign.Load())
	})
}

// A stream of events costs a partition few requests, and each reader few reads.
func TestAStreamLeavesInBatches(t *testing.T) {
	const requests = 5
	f := newFixture(t, startFake(t).ListenAddrs())
	var sent atomic.Int64
	f.wire.onProduce(func(send func() (kafkago.Response, error)) (kafkago.Response, error) {
		sent.Add(1)
		return send()
	})
	f.publish(f.topic, f.journal.Journal, nil)
	begun := time.Now()
	f.eventually(func() bool {
		f.append(9, 1, `{}`)
		return sent.Load() > requests
	}, "nothing is published")
	require.GreaterOrEqual(t, time.Since(begun), (requests-1)*kafka.DefaultLinger)
	f.published()
}

// sparing shows one event at a time, as a journal does whose events are large.
type sparing struct{ persistence.Journal }

func (j sparing) Events(ctx context.Context, shard ident.Shard, past uint64, _ int) ([]persistence.Event, error) {
	return j.Journal.Events(ctx, shard, past, 1)
}

// A backlog is published without a pause, however little of it a request has.
func TestABacklogDoesNotLinger(t *testing.T) {
	f := newFixture(t, startFake(t).ListenAddrs())
	c := &memoryConsumer{}
	f.tailing(never, c)
	f.journal.blind.Store(true)
	f.append(9, 3, `{}`)
	p, err := f.topic.Publisher(kafka.PublisherOptions{Journal: sparing{f.journal.Journal}, Linger: never})
	require.NoError(t, err)
	f.run(p.Run)
	f.handled(c)
}

func TestLostAcknowledgementRepeatsNothingInEffect(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		lost := atomic.Int64{}
		f.wire.onProduce(func(send func() (kafkago.Response, error)) (kafkago.Response, error) {
			answer, err := send()
			if lost.Add(1)%2 == 1 {
				return nil, errRefused
			}
			return answer, err
		})
		c, o := &memoryConsumer{}, &outlet{}
		f.publish(f.topic, f.journal.Journal, o)
		f.tailing(never, c)
		f.journal.blind.Store(true)
		f.appendEverywhere(4)
		f.handled(c)
		f.eventually(func() bool { return c.repeated.Load() > 0 }, "no repeat came")
		require.NotZero(t, o.failed.Load())
		require.Zero(t, c.gaps.Load())
	})
}

func TestCrashBetweenPublishAndCursor(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		c := &memoryConsumer{}
		f.tailing(never, c)
		f.journal.forgets.Store(true)
		f.appendEverywhere(2)
		stop := f.publish(f.topic, f.journal, nil)
		f.handled(c)
		stop()
		f.journal.forgets.Store(false)
		f.appendEverywhere(1)
		f.publish(f.topic, f.journal, nil)
		f.handled(c)
		f.published()
		f.eventually(func() bool { return c.repeated.Load() >= 2*ident.Shards }, "the second publisher did not repeat")
		require.Zero(t, c.gaps.Load())
	})
}

// TestLostMessages: Kafka acknowledges and forgets, as after an unclean election of a leader.
func TestLostMessages(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		f.publish(f.topic, f.journal, nil)
		patient, quick := &memoryConsumer{}, &memoryConsumer{}
		f.tailing(never, patient)
		f.tailing(10*time.Millisecond, quick)
		f.wire.onProduce(func(func() (kafkago.Response, error)) (kafkago.Response, error) { return acknowledged(), nil })
		f.appendEverywhere(3)
		f.published()
		f.handled(quick) // at its check
		require.Zero(t, patient.position(5))
		f.wire.produce.Store(nil)
		f.appendEverywhere(1)
		f.handled(patient, quick) // by the gap
		require.GreaterOrEqual(t, patient.gaps.Load(), int64(ident.Shards))
	})
}

func TestKafkaDown(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		f.wire.down.Store(true)
		o, c := &outlet{}, &memoryConsumer{}
		f.publish(f.topic, f.journal, o)
		f.appendEverywhere(2)
		f.eventually(func() bool { return o.failed.Load() > 2*kafka.Partitions && o.behind.Load() > 0 },
			"nobody says that Kafka is down")
		f.wire.down.Store(false)
		f.published()
		stop := f.subscribe(f.topic, 10*time.Millisecond, c)
		f.handled(c)
		f.wire.down.Store(true)
		f.appendEverywhere(2)
		f.handled(c) // from the journal
		stop()
		f.wire.down.Store(false)
		f.published()
	})
}

func TestTwoInstancesOfOneConsumer(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		f.publish(f.topic, f.journal, nil)
		c := &memoryConsumer{}
		first := f.tailing(never, c)
		f.tailing(never, c)
		for range 3 {
			f.appendEverywhere(2)
			f.handled(c)
		}
		first()
		f.appendEverywhere(2)
		f.handled(c)
		f.tailing(never, c) // a restart
		f.appendEverywhere(2)
		f.handled(c)
		require.NoError(t, c.found(), "that the other has handled something is no failure, and nothing else went wrong")
	})
}

func TestFailingShardHoldsNothingUp(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		f.publish(f.topic, f.journal, nil)
		broken := atomic.Bool{}
		broken.Store(true)
		c := &memoryConsumer{refuse: func(shard ident.Shard) error {
			if shard == 33 && broken.Load() {
				return errRefused
			}
			return nil
		}}
		f.tailing(never, c)
		f.append(33, 1, `{}`)
		f.eventually(func() bool { return c.failed.Load() > 1 }, "shard 33 does not fail")
		f.append(1, 5, `{}`) // in the same partition
		f.eventually(func() bool { return c.position(1) == 5 }, "shard 1 waits for shard 33")
		require.Zero(t, c.position(33))
		broken.Store(false)
		f.append(33, 2, `{}`)
		f.handled(c)
	})
}

func TestLargestEvent(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		c := &memoryConsumer{}
		f.publish(f.topic, f.journal.Journal, nil)
		f.tailing(never, c)
		f.journal.blind.Store(true)
		large := `{"a":"` + strings.Repeat("x", persistence.MaxPayload-8) + `"}`
		f.append(3, 1, large)
		f.append(3, 20, `{"entries":"`+strings.Repeat("y", 400<<10)+`"}`)
		f.append(35, 1, large)
		f.append(3, 1, `{}`)
		f.handled(c)
		require.Zero(t, f.journal.refused.Load(), "the consumer went to the journal")
		require.Zero(t, c.gaps.Load())
	})
}

// TestMessageLimitLowered: an event that does not fit stops its partition alone, until the limit is
// raised.
func TestMessageLimitLowered(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		o, c := &outlet{}, &memoryConsumer{}
		f.publish(f.topic, f.journal.Journal, o)
		f.tailing(never, c)
		f.journal.blind.Store(true)
		f.appendEverywhere(1)
		f.handled(c) // so that the publisher has begun on every partition
		f.limit(100 << 10)
		f.eventually(func() bool { return errors.Is(f.probe(2, 150<<10), kafkago.MessageSizeTooLarge) },
			"the limit is not lowered")
		failed := o.failed.Load()
		f.append(2, 1, `{"a":"`+strings.Repeat("x", 200<<10)+`"}`)
		f.append(3, 1, `{}`)
		f.eventually(func() bool { return c.position(3) == 2 && o.failed.Load() > failed+1 }, "nobody says that it does not fit")
		require.ErrorContains(t, *o.failure.Load(), "raise max.message.bytes")
		f.append(2, 1, `{}`)
		require.EqualValues(t, 1, c.position(2)) // the event before it
		f.limit(kafka.MaxMessageBytes)
		f.handled(c)
		require.Zero(t, c.gaps.Load())
	})
}

func TestTopicDeleted(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		c := &memoryConsumer{}
		f.publish(f.topic, f.journal, nil)
		f.tailing(50*time.Millisecond, c)
		f.appendEverywhere(3)
		f.handled(c)
		answer, err := f.client().DeleteTopics(f.ctx, &kafkago.DeleteTopicsRequest{Topics: []string{f.name}})
		require.NoError(t, err)
		require.NoError(t, answer.Errors[f.name])
		f.appendEverywhere(2)
		f.handled(c)
		f.published()
	})
}

func TestUnusableTopics(t *testing.T) {
	for name, config := range map[string]kafkago.TopicConfig{
		"partitions": {NumPartitions: 31, ReplicationFactor: 1, ConfigEntries: []kafkago.ConfigEntry{
			{ConfigName: "max.message.bytes", ConfigValue: strconv.Itoa(kafka.MaxMessageBytes)}}},
		"size": {NumPartitions: kafka.Partitions, ReplicationFactor: 1, ConfigEntries: []kafkago.ConfigEntry{
			{ConfigName: "max.message.bytes", ConfigValue: strconv.Itoa(kafka.MaxMessageBytes - 1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			everyKafka(t, func(t *testing.T, brokers []string) {
				f := newFixture(t, brokers)
				config.Topic = f.name
				answer, err := f.client().CreateTopics(f.ctx, &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{config}})
				require.NoError(t, err)
				require.NoError(t, answer.Errors[f.name])
				f.eventually(func() bool { return errors.Is(f.topic.Prepare(f.ctx), kafka.ErrTopic) }, "the topic is taken")
				p, err := f.topic.Publisher(kafka.PublisherOptions{Journal: f.journal})
				require.NoError(t, err)
				require.ErrorIs(t, p.Run(f.ctx), kafka.ErrTopic)
				s, err := f.topic.Subscribe(kafka.SubscriptionOptions{
					Options: consumer.Options{Journal: f.journal}})
				require.NoError(t, err)
				require.ErrorIs(t, s.Run(f.ctx, &memoryConsumer{}), kafka.ErrTopic)
			})
		})
	}
}

// TestForeignMessages: another journal writes to the same topic, as after a restore from a backup.
func TestForeignMessages(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f, other := newFixture(t, brokers), newFixture(t, brokers)
		c := &memoryConsumer{}
		f.publish(f.topic, f.journal, nil)
		f.tailing(never, c)
		other.appendEverywhere(3)
		stop := other.publish(f.topic, other.journal, nil)
		f.eventually(func() bool { return c.foreign.Load() >= 3*ident.Shards }, "the other journal's messages did not come")
		stop()
		require.Zero(t, c.position(1))
		f.appendEverywhere(2)
		f.handled(c)
		require.Zero(t, c.gaps.Load())
	})
}

func TestConsumerAheadOfTheJournal(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		s, err := f.topic.Subscribe(kafka.SubscriptionOptions{
			Options: consumer.Options{Journal: f.journal}})
		require.NoError(t, err)
		c := &memoryConsumer{}
		c.effects[200] = make([]persistence.Event, 1)
		require.ErrorIs(t, s.Run(f.ctx, c), consumer.ErrAhead)
	})
}

func TestOptions(t *testing.T) {
	for _, o := range []kafka.Options{{}, {Brokers: []string{"localhost"}}, {Brokers: []string{"localhost:1"}, Replicas: -2}} {
		_, err := kafka.New(o)
		require.Error(t, err)
	}
	topic, err := kafka.New(kafka.Options{Brokers: []string{"localhost:1"}})
	require.NoError(t, err)
	_, err = topic.Publisher(kafka.PublisherOptions{})
	require.Error(t, err)
	_, err = topic.Subscribe(kafka.SubscriptionOptions{})
	require.Error(t, err)
}

// message is what a stranger reads.
type message struct {
	key, value string
	headers    map[string]string
}

func (f *fixture) client() *kafkago.Client {
	return &kafkago.Client{Addr: kafkago.TCP(f.brokers...), Transport: f.wire.RoundTripper, Timeout: patience}
}

// limit sets the topic's max.message.bytes.
func (f *fixture) limit(bytes int) {
	answer, err := f.client().IncrementalAlterConfigs(f.ctx, &kafkago.IncrementalAlterConfigsRequest{
		Resources: []kafkago.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafkago.ResourceTypeTopic, ResourceName: f.name,
			Configs: []kafkago.IncrementalAlterConfigsRequestConfig{{Name: "max.message.bytes", Value: strconv.Itoa(bytes)}},
		}}})
	require.NoError(f.t, err)
	require.NoError(f.t, answer.Resources[0].Error)
}

// probe publishes a message that is no event. The error is Kafka's, or that it was not asked.
func (f *fixture) probe(partition, bytes int) error {
	answer, err := f.client().Produce(f.ctx, &kafkago.ProduceRequest{
		Topic: f.name, Partition: partition, RequiredAcks: kafkago.RequireAll,
		Records: kafkago.NewRecordReader(kafkago.Record{Value: kafkago.NewBytes(make([]byte, bytes))}),
	})
	if err != nil {
		return err
	}
	return answer.Error
}

// messages reads a partition from its beginning to its end.
func (f *fixture) messages(partition int) []message {
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	var all []message
	offset, end := int64(0), int64(1)
	for offset < end {
		answer, err := f.client().Fetch(ctx, &kafkago.FetchRequest{
			Topic: f.name, Partition: partition, Offset: offset, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: time.Second})
		require.NoError(f.t, err)
		require.NoError(f.t, answer.Error)
		end = answer.HighWatermark
		for {
			record, err := answer.Records.ReadRecord()
			if err != nil {
				break
			}
			if record.Offset < offset {
				continue
			}
			m := message{headers: map[string]string{}}
			key, err := protocol.ReadAll(record.Key)
			require.NoError(f.t, err)
			value, err := protocol.ReadAll(record.Value)
			require.NoError(f.t, err)
			m.key, m.value = string(key), string(value)
			for _, h := range record.Headers {
				m.headers[h.Key] = string(h.Value)
			}
			all, offset = append(all, m), record.Offset+1
		}
	}
	return all
}
