package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"purser/persistence"
	"purser/persistence/ident"
)

const (
	// DefaultTopic is the name of the topic.
	DefaultTopic = "purser.events.v1"
	// Partitions is the number of its partitions. It is part of the format: see Partition.
	Partitions = 32
	// MaxMessageBytes is the topic's max.message.bytes: the journal's largest payload with its key
	// and headers.
	MaxMessageBytes = persistence.MaxPayload + messageRoom

	messageRoom    = 64 << 10
	requestTimeout = 10 * time.Second // one request to Kafka
	metadataTTL    = 3 * time.Second  // bounds requests to a moved partition's old leader, and the wait for Kafka's metadata
	clientID       = "purser"

	configMaxMessage = "max.message.bytes"
)

// ErrFullDisk: a broker cannot write to its disk. The events stay in the journal, and are published
// when it can.
var ErrFullDisk = errors.New("the disk of a Kafka broker is full or broken: free space there")

// ErrTopic: the live topic cannot be used as it is, and no retry mends it.
var ErrTopic = errors.New("topic unusable")

// Partition returns the partition of a shard's events.
func Partition(shard ident.Shard) int { return int(shard) % Partitions }

// Options of New.
type Options struct {
	// Brokers are the host:port of one or more brokers, from which the others are found.
	Brokers []string
	// Topic is the topic's name; empty is DefaultTopic.
	Topic string
	// Replicas is the replication factor of a topic that has to be made; 0 is the cluster's own
	// default.
	Replicas int
	// Proof proves the messages of this process. A publisher and a subscription need one.
	Proof Proof
	// TLS encrypts the connections and may authenticate both ends; nil is plain TCP. SASL
	// authenticates this process; nil is none.
	TLS  *tls.Config
	SASL sasl.Mechanism
	// Transport carries the requests; nil is one with TLS and SASL. The faults of tests come in
	// here.
	Transport kafkago.RoundTripper
}

// EnsureDefaults sets the zero fields to their defaults.
func (o *Options) EnsureDefaults() {
	if o.Topic == "" {
		o.Topic = DefaultTopic
	}
	if o.Replicas == 0 {
		o.Replicas = -1
	}
	if o.Transport == nil {
		o.Transport = &kafkago.Transport{ClientID: clientID, MetadataTTL: metadataTTL,
			MetadataTopics: []string{o.Topic},
			TLS:            o.TLS, SASL: o.SASL}
	}
}

// Validate returns all faults of the options, joined: no brokers, a broker that is not host:port,
// fewer than -1 replicas.
func (o *Options) Validate() error {
	var faults []error
	if len(o.Brokers) == 0 {
		faults = append(faults, errors.New("kafka: no brokers"))
	}
	for _, broker := range o.Brokers {
		if _, _, err := net.SplitHostPort(broker); err != nil {
			faults = append(faults, fmt.Errorf("kafka: broker %q: %w", broker, err))
		}
	}
	if o.Replicas < -1 {
		faults = append(faults, fmt.Errorf("kafka: %d replicas", o.Replicas))
	}
	return errors.Join(faults...)
}

// Topic is the topic on a cluster. It is safe for concurrent use.
type Topic struct {
	o         Options
	client    *kafkago.Client
	inflaters chan *inflater // bounds the batches that are inflated at a time
	large     chan struct{}  // has a token for each reader that holds more than fetchBytes from Kafka
}

// New returns the topic without asking Kafka anything, so that a program starts while Kafka is
// down. It fails only for invalid options.
func New(o Options) (*Topic, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	client := &kafkago.Client{Addr: kafkago.TCP(o.Brokers...), Transport: o.Transport, Timeout: requestTimeout}
	t := &Topic{o: o, client: client, large: make(chan struct{}, maxLargeReads)}
	t.inflaters = make(chan *inflater, maxInflaters)
	for range maxInflaters {
		t.inflaters <- new(inflater)
	}
	return t, nil
}

// Close closes idle connections. Publishers and subscriptions have ended before.
func (t *Topic) Close() {
	if c, ok := t.o.Transport.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Prepare makes the topic when it is missing and checks it otherwise. It fails with ErrTopic, which
// is final, for a topic of other partitions or a lower message limit. Any other error means that
// Kafka could not be asked, and a retry may succeed. Publishers and subscriptions call it, and a
// program that refuses to start without the topic.
func (t *Topic) Prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	partitions, err := t.countPartitions(ctx)
	if errors.Is(err, kafkago.UnknownTopicOrPartition) {
		if err = t.createTopic(ctx); err == nil {
			partitions, err = t.countPartitions(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("topic %s: %w", t.o.Topic, err)
	}
	if partitions != Partitions {
		return fmt.Errorf("%w: %s has %d partitions, not %d", ErrTopic, t.o.Topic, partitions, Partitions)
	}
	return t.checkMaxMessage(ctx)
}

// countPartitions returns the number of the topic's partitions. It fails with
// UnknownTopicOrPartition when there is no such topic, and with the broker's error.
func (t *Topic) countPartitions(ctx context.Context) (int, error) {
	m, err := t.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{t.o.Topic}})
	if err != nil {
		return 0, err
	}
	for _, topic := range m.Topics {
		if topic.Name == t.o.Topic {
			return len(topic.Partitions), topic.Error
		}
	}
	return 0, kafkago.UnknownTopicOrPartition
}

// createTopic makes the topic. That another process was quicker is no error.
func (t *Topic) createTopic(ctx context.Context) error {
	answer, err := t.client.CreateTopics(ctx, &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{
		Topic: t.o.Topic, NumPartitions: Partitions, ReplicationFactor: t.o.Replicas,
		ConfigEntries: []kafkago.ConfigEntry{{ConfigName: configMaxMessage, ConfigValue: strconv.Itoa(MaxMessageBytes)}},
	}}})
	if err != nil {
		return err
	}
	if err = answer.Errors[t.o.Topic]; errors.Is(err, kafkago.TopicAlreadyExists) {
		return nil
	}
	return err
}

// checkMaxMessage fails with ErrTopic for a topic that would not take the largest event, and when
// Kafka does not answer. A cluster that does not report its limit passes.
func (t *Topic) checkMaxMessage(ctx context.Context) error {
	answer, err := t.client.DescribeConfigs(ctx,
		&kafkago.DescribeConfigsRequest{Resources: []kafkago.DescribeConfigRequestResource{{
			ResourceType: kafkago.ResourceTypeTopic, ResourceName: t.o.Topic, ConfigNames: []string{configMaxMessage},
		}}})
	if err != nil {
		return fmt.Errorf("topic %s: %w", t.o.Topic, err)
	}
	for _, resource := range answer.Resources {
		for _, entry := range resource.ConfigEntries {
			limit, err := strconv.Atoi(entry.ConfigValue)
			if entry.ConfigName == configMaxMessage && err == nil && limit < MaxMessageBytes {
				return fmt.Errorf("%w: %s of %s is %d, it has to be %d or more",
					ErrTopic, configMaxMessage, t.o.Topic, limit, MaxMessageBytes)
			}
		}
	}
	return nil
}

// produceMessages appends messages to a partition and returns the offset of the first one, when all
// replicas in sync have them. It fails with ErrFullDisk, or with Kafka's error; the messages may
// then be stored or not.
func (t *Topic) produceMessages(ctx context.Context, partition int, messages []kafkago.Record) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := t.client.Produce(ctx, &kafkago.ProduceRequest{
		Topic: t.o.Topic, Partition: partition, RequiredAcks: kafkago.RequireAll, Records: kafkago.NewRecordReader(messages...),
	})
	if err == nil {
		err = answer.Error
	}
	switch {
	case errors.Is(err, kafkago.KafkaStorageError):
		return 0, fmt.Errorf("publishing to partition %d: %w: %w", partition, ErrFullDisk, err)
	case errors.Is(err, kafkago.NotEnoughReplicas), errors.Is(err, kafkago.NotEnoughReplicasAfterAppend):
		return 0, fmt.Errorf("publishing to partition %d: a broker is away, or its disk is full: %w", partition, err)
	case errors.Is(err, kafkago.MessageSizeTooLarge):
		return 0, fmt.Errorf("publishing to partition %d: raise %s of %s to %d or more: %w",
			partition, configMaxMessage, t.o.Topic, MaxMessageBytes, err)
	case err != nil:
		return 0, fmt.Errorf("publishing to partition %d: %w", partition, err)
	}
	return answer.BaseOffset, nil
}

// endOffset returns the offset of the next message of a partition. It fails with the broker's
// error, and with UnknownTopicOrPartition.
func (t *Topic) endOffset(ctx context.Context, partition int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := t.client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{
		t.o.Topic: {kafkago.LastOffsetOf(partition)},
	}})
	if err != nil {
		return 0, fmt.Errorf("end of partition %d: %w", partition, err)
	}
	for _, p := range answer.Topics[t.o.Topic] {
		if p.Partition == partition {
			return p.LastOffset, p.Error
		}
	}
	return 0, fmt.Errorf("end of partition %d: %w", partition, kafkago.UnknownTopicOrPartition)
}
