package main

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"purser/cmd/purser/loadtest"
	"purser/persistence/ident"
	"purser/persistence/kafka"
	"purser/persistence/retry"
)

// The addresses of a running Apache Kafka that the process tests use in place of kfake, and the id
// of its process. .ci/kafka sets both. The tests ignore one without the other, because they have to
// suspend the process.
const (
	brokersVariable       = "KAFKA_BROKERS_TEST"
	brokerProcessVariable = "KAFKA_PROCESS_TEST"
)

// broker is a Kafka of the test's own that the test stops and restarts. Its messages survive a
// stop.
type broker struct {
	addresses     string
	stop, restart func() error
}

func startBroker(t *testing.T) *broker {
	t.Helper()
	if addresses, process := os.Getenv(brokersVariable), os.Getenv(brokerProcessVariable); addresses != "" &&
		process != "" {
		return useApacheKafka(t, addresses, process)
	}
	dir := t.TempDir()
	addresses, err := loadtest.FreeAddresses(1) // the broker listens on the same port after a restart
	require.NoError(t, err)
	_, text, err := net.SplitHostPort(addresses[0])
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.Ports(port))
	require.NoError(t, err)
	t.Cleanup(func() { cluster.Close() })
	b := &broker{addresses: cluster.ListenAddrs()[0]}
	b.stop = func() error { cluster.Close(); return nil }
	b.restart = func() error {
		for deadline := time.Now().Add(stateTimeout); ; { // the system may release the port late
			again, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.Ports(port))
			if err == nil {
				cluster = again
			}
			if err == nil || time.Now().After(deadline) {
				return err
			}
			if !retry.Pause(t.Context(), pollInterval) {
				return t.Context().Err()
			}
		}
	}
	return b
}

// useApacheKafka returns the running Apache Kafka and deletes the topic of an earlier test. The
// broker's stop suspends the Kafka process, and restart resumes it.
func useApacheKafka(t *testing.T, addresses, process string) *broker {
	t.Helper()
	client := kafkaClient(t, addresses)
	request := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(kafka.DefaultTopic)
	request.Topics, request.TopicNames = append(request.Topics, topic), []string{kafka.DefaultTopic}
	response, err := request.RequestWith(t.Context(), client)
	require.NoError(t, err)
	if code := response.Topics[0].ErrorCode; code != kerr.UnknownTopicOrPartition.Code {
		require.NoError(t, kerr.ErrorForCode(code))
	}
	id, err := strconv.Atoi(process)
	require.NoError(t, err, brokerProcessVariable)
	t.Cleanup(func() { _ = syscall.Kill(id, syscall.SIGCONT) })
	return &broker{addresses: addresses, stop: func() error { return syscall.Kill(id, syscall.SIGSTOP) },
		restart: func() error { return syscall.Kill(id, syscall.SIGCONT) }}
}

func kafkaClient(t *testing.T, addresses string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(more, kgo.SeedBrokers(strings.Split(addresses, ",")...))...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// consumedEvent holds the fields of an event that an independent consumer compares.
type consumedEvent struct{ id, workspace, kind string }

// requireTopic reads the topic from its beginning with a Kafka client of its own and compares it
// with the journal. The topic has every event at least once, in the order of the event's shard.
// Without repeats, the positions of a shard have no gap.
func requireTopic(t *testing.T, addresses, databaseURL string) {
	t.Helper()
	want := journalEvents(t, databaseURL)
	client := kafkaClient(t, addresses, kgo.ConsumeTopics(kafka.DefaultTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), stateTimeout)
	defer cancel()
	var got [ident.Shards][]consumedEvent
	missing, repeats := 0, 0
	for _, events := range want {
		missing += len(events)
	}
	for missing > 0 {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err(), "%d events are not in the topic", missing)
		fetches.EachRecord(func(r *kgo.Record) {
			shard, position, event := readRecord(t, r)
			require.Equal(t, kafka.Partition(shard), int(r.Partition))
			if known := len(got[shard]); position <= known {
				repeats++
				require.Equal(t, got[shard][position-1], event,
					"another event at position %d of shard %d", position, shard)
				return
			}
			require.Equal(t, len(got[shard])+1, position, "a gap in shard %d", shard)
			if got[shard] = append(got[shard], event); position <= len(want[shard]) {
				missing--
			}
		})
	}
	// A running server may have committed and published more events since the first read.
	all, now := 0, journalEvents(t, databaseURL)
	for shard := range got {
		require.LessOrEqual(t, len(got[shard]), len(now[shard]), "shard %d", shard)
		require.Equal(t, now[shard][:len(got[shard])], got[shard], "shard %d", shard)
		all += len(got[shard])
	}
	t.Logf("the topic has all %d events of the journal in order, %d of them more than once", all, repeats)
}

func readRecord(t *testing.T, r *kgo.Record) (shard ident.Shard, position int, e consumedEvent) {
	t.Helper()
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	number, err := strconv.ParseUint(headers["purser-shard"], 10, 8)
	require.NoError(t, err)
	position, err = strconv.Atoi(headers["purser-position"])
	require.NoError(t, err)
	return ident.Shard(number), position, consumedEvent{id: headers["ce_id"], workspace: string(r.Key),
		kind: headers["ce_type"]}
}

// journalEvents reads the events of a journal on Postgres directly from its table.
func journalEvents(t *testing.T, databaseURL string) (events [ident.Shards][]consumedEvent) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	rows, err := conn.Query(t.Context(),
		`SELECT shard, id, workspace, type FROM journal_event ORDER BY shard, position`)
	require.NoError(t, err)
	var shard int16
	var e consumedEvent
	_, err = pgx.ForEachRow(rows, []any{&shard, &e.id, &e.workspace, &e.kind}, func() error {
		events[shard] = append(events[shard], e)
		return nil
	})
	require.NoError(t, err)
	return events
}
