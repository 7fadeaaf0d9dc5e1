package kafka_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"purser/persistence/ident"
	"purser/persistence/kafka"
)

// headersInOrder are those of a message.
var headersInOrder = []string{"content-type", "ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time",
	"purser-store",
	"purser-shard", "purser-position", "purser-kind", "purser-stream", "purser-version", "purser-proof"}

// produceRaw appends messages to a partition, as every program with the right to produce can.
func (f *fixture) produceRaw(partition int, compression kafkago.Compression, messages ...message) {
	f.t.Helper()
	records := make([]kafkago.Record, 0, len(messages))
	for _, m := range messages {
		r := kafkago.Record{Key: kafkago.NewBytes([]byte(m.key)), Value: kafkago.NewBytes([]byte(m.value))}
		for _, key := range headersInOrder {
			if value, has := m.headers[key]; has {
				r.Headers = append(r.Headers, kafkago.Header{Key: key, Value: []byte(value)})
			}
		}
		records = append(records, r)
	}
	answer, err := f.client().Produce(f.ctx, &kafkago.ProduceRequest{Topic: f.name, Partition: partition,
		RequiredAcks: kafkago.RequireAll, Records: kafkago.NewRecordReader(records...), Compression: compression})
	require.NoError(f.t, err)
	require.NoError(f.t, answer.Error)
}

// messageOf returns the message of a position that the topic has.
func (f *fixture) messageOf(shard ident.Shard, position uint64) message {
	for _, m := range f.messages(kafka.Partition(shard)) {
		if m.headers["purser-shard"] == strconv.Itoa(int(shard)) &&
			m.headers["purser-position"] == strconv.FormatUint(position, 10) {
			return m
		}
	}
	f.t.Fatalf("the topic has no event %d of shard %d", position, shard)
	return message{}
}

func (m message) withHeader(header, value string) message {
	headers := map[string]string{header: value}
	for key, value := range m.headers {
		if key != header {
			headers[key] = value
		}
	}
	m.headers = headers
	return m
}

func (m message) withoutHeader(header string) message {
	m = m.withHeader(header, "")
	delete(m.headers, header)
	return m
}

// TestForgedMessagesHaveNoEffect: a stranger produces the next event of a shard before the journal
// has it, and events far ahead.
func TestForgedMessagesHaveNoEffect(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		const shard, partition = 37, 5
		f := newFixture(t, brokers)
		c := &memoryConsumer{}
		stop := f.publish(f.topic, f.journal.Journal, nil)
		f.tailing(never, c)
		f.append(shard, 2, `{"cents":1}`)
		f.handled(c)
		f.published()
		stop() // so that the forged ones are before the true ones
		next := f.messageOf(shard, 2).withHeader("purser-position", "3").withHeader("purser-version", "3")
		next.value = `{"cents":1000000}`
		forged := []message{next, next.withHeader("purser-proof", "1 "+fmt.Sprintf("%032x", 1)+" 00"),
			next.withHeader("purser-position", "4"), next.withHeader("purser-position", strconv.FormatUint(1<<40, 10)),
			next.withHeader("purser-position", "18446744073709551615"),
			next.withHeader("ce_type", "checkout.completed.v1")}
		f.produceRaw(partition, 0, forged...)
		f.produceRaw(partition, 0, next.withoutHeader("purser-proof"))
		f.eventually(func() bool { return c.forged.Load() >= int64(len(forged)) && c.unproven.Load() > 0 },
			"nobody says that a message does not check")
		require.EqualValues(t, 2, c.position(shard))
		f.append(shard, 3, `{"cents":2}`)
		f.append(5, 1, `{}`) // this shard has the same partition
		f.journal.blind.Store(true)
		f.publish(f.topic, f.journal.Journal, nil)
		f.handled(c)
		require.Zero(t, c.gaps.Load())
		require.NoError(t, c.found())
	})
}

// TestReplayedMessagesHaveNoEffect: true messages of this run and of an earlier one are written
// again.
func TestReplayedMessagesHaveNoEffect(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		const shard, partition = 37, 5
		f := newFixture(t, brokers)
		current := f.proof
		f.proof.Run = ident.UUID{77}
		earlier, _ := f.connect()
		f.proof = current
		f.append(shard, 2, `{}`)
		stop := f.publish(earlier, f.journal.Journal, nil)
		f.published()
		stop()
		c := &memoryConsumer{}
		f.publish(f.topic, f.journal.Journal, nil)
		f.tailing(never, c)
		f.append(shard, 1, `{}`)
		f.handled(c)
		f.produceRaw(partition, 0, f.messageOf(shard, 1), f.messageOf(shard, 2), f.messageOf(shard, 3))
		f.append(shard, 1, `{}`)
		f.handled(c)
		// A publisher that waits too long for an answer sends a message again: there may be more.
		f.eventually(func() bool { return c.unproven.Load() >= 2 && c.repeated.Load() >= 1 },
			"the repeats did not come")
		f.handled(c)
	})
}

// TestMessagesWithoutAProofAreReadFromTheJournal: a publisher of an earlier version wrote them.
func TestMessagesWithoutAProofAreReadFromTheJournal(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		const shard, partition = 37, 5
		f := newFixture(t, brokers)
		f.append(shard, 1, `{}`)
		stop := f.publish(f.topic, f.journal.Journal, nil)
		f.published()
		stop()
		c := &memoryConsumer{}
		f.tailing(never, c)
		f.append(shard, 2, `{"true":1}`)
		old := f.messageOf(shard, 1).withoutHeader("purser-proof")
		old.value = `{"true":0}`
		f.produceRaw(partition, 0, old.withHeader("purser-position", "2"), old.withHeader("purser-position", "3"))
		f.handled(c)
		require.EqualValues(t, 2, c.unproven.Load())
	})
}

// TestInflatedBatchIsRefused: a few kilobytes that would be 32 MiB in memory hold no consumer up.
func TestInflatedBatchIsRefused(t *testing.T) {
	for name, compression := range map[string]kafkago.Compression{"gzip": kafkago.Gzip, "zstd": kafkago.Zstd} {
		t.Run(name, func(t *testing.T) {
			everyKafka(t, func(t *testing.T, brokers []string) {
				f := newFixture(t, brokers)
				c := &memoryConsumer{}
				f.publish(f.topic, f.journal.Journal, nil)
				f.tailing(never, c)
				f.append(5, 1, `{}`)
				f.handled(c)
				f.produceRaw(5, compression, message{value: string(make([]byte, 32<<20))})
				f.append(5, 1, `{}`)
				f.handled(c)
				f.eventually(func() bool { return c.forged.Load() > 0 }, "nobody says that the batch is refused")
			})
		})
	}
}

// TestBatchOfTinyRecordsIsRefused: memory grows with the records of a batch, which may be tiny.
func TestBatchOfTinyRecordsIsRefused(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		c := &memoryConsumer{}
		f.publish(f.topic, f.journal.Journal, nil)
		f.tailing(never, c)
		f.append(5, 1, `{}`)
		f.handled(c)
		f.produceRaw(5, kafkago.Gzip, make([]message, 200_000)...)
		f.append(5, 1, `{}`)
		f.handled(c)
		f.eventually(func() bool { return c.forged.Load() > 0 }, "no listener gets the refusal")
		require.EqualValues(t, 1, c.forged.Load(), "the batch is refused as a whole")
		require.Zero(t, c.foreign.Load(), "no record of the batch is read")
	})
}

// TestTopicMadeAnewIsTold: to publisher and consumers, idle or not, and nothing is lost or repeated
// in effect.
func TestTopicMadeAnewIsTold(t *testing.T) {
	everyKafka(t, func(t *testing.T, brokers []string) {
		f := newFixture(t, brokers)
		o, c := &outlet{}, &memoryConsumer{}
		f.publish(f.topic, f.journal, o)
		f.tailing(50*time.Millisecond, c)
		f.appendEverywhere(3)
		f.handled(c)
		f.published()
		require.Zero(t, o.replaced.Load()+c.replaced.Load())
		deleted, err := f.client().DeleteTopics(f.ctx, &kafkago.DeleteTopicsRequest{Topics: []string{f.name}})
		require.NoError(t, err)
		require.NoError(t, deleted.Errors[f.name])
		f.eventually(func() bool { return f.topic.Prepare(f.ctx) == nil && f.probe(0, 1) == nil },
			"the topic is not made anew")
		f.eventually(func() bool { return c.replaced.Load() > 0 },
			"an idle consumer does not see that the topic is another one")
		f.appendEverywhere(2)
		f.handled(c)
		f.published()
		f.eventually(func() bool { return o.replaced.Load() > 0 },
			"the publisher does not see that the topic is another one")
	})
}

// TestEncryptedAndAuthenticated: events go over TLS to brokers that ask for a name and a password,
// and nowhere with a wrong one.
func TestEncryptedAndAuthenticated(t *testing.T) {
	server, roots := makeCertificate(t)
	for _, mechanism := range kafka.Mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			fake := startFake(t, kfake.TLS(server), kfake.EnableSASL(), kfake.Superuser(mechanism, "purser", "right"))
			topic := func(password string, config *tls.Config) *kafka.Topic {
				sasl, err := kafka.Mechanism(mechanism, "purser", password)
				require.NoError(t, err)
				topic, err := kafka.New(kafka.Options{Brokers: fake.ListenAddrs(), TLS: config, SASL: sasl})
				require.NoError(t, err)
				t.Cleanup(topic.Close)
				return topic
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, topic("right", roots).Prepare(ctx))
			require.Error(t, topic("wrong", roots).Prepare(ctx))
			require.ErrorContains(t, topic("right", &tls.Config{}).Prepare(ctx), "certificate")
			require.Error(t, topic("right", nil).Prepare(ctx))
		})
	}
	_, err := kafka.Mechanism("GSSAPI", "purser", "right")
	require.ErrorContains(t, err, "SCRAM-SHA-512")
}

// makeCertificate makes a certificate for the loopback, and the configuration of a client that
// trusts it.
func makeCertificate(t *testing.T) (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{RootCAs: roots}
}
