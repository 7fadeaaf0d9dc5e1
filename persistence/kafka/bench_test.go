package kafka_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/kafka"
)

// everyBenchmark runs a benchmark on each Kafka there is.
func everyBenchmark(b *testing.B, run func(b *testing.B, f *fixture)) {
	b.Run("kfake", func(b *testing.B) {
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		require.NoError(b, err)
		defer c.Close()
		run(b, newFixture(b, c.ListenAddrs()))
	})
	if brokers := os.Getenv(brokersTest); brokers != "" {
		b.Run("apache", func(b *testing.B) { run(b, newFixture(b, strings.Split(brokers, ","))) })
	}
}

// load commits n events of 600 bytes over all shards.
func (f *fixture) load(n int) {
	payload := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", 592))
	for shard := range ident.Shards {
		if events := n*(shard+1)/ident.Shards - n*shard/ident.Shards; events > 0 {
			f.append(ident.Shard(shard), events, payload)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	everyBenchmark(b, func(b *testing.B, f *fixture) {
		require.NoError(b, f.topic.Prepare(f.ctx))
		f.load(b.N)
		b.ResetTimer()
		f.publish(f.topic, f.journal, nil)
		f.published()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
}

// BenchmarkConsume measures publishing and consuming at the same time: all events come through the topic.
func BenchmarkConsume(b *testing.B) {
	everyBenchmark(b, func(b *testing.B, f *fixture) {
		c := &memoryConsumer{}
		f.tailing(never, c)
		f.journal.blind.Store(true)
		f.load(b.N)
		b.ResetTimer()
		f.publish(f.topic, f.journal.Journal, nil)
		for shard := range ident.Shards {
			head := f.journal.Head(ident.Shard(shard)).Position
			f.eventually(func() bool { return c.position(ident.Shard(shard)) >= head }, "not all events come")
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
}

// BenchmarkOneEvent is the time from an append to its effect, through the topic, one at a time in changing partitions.
func BenchmarkOneEvent(b *testing.B) {
	everyBenchmark(b, func(b *testing.B, f *fixture) {
		c := &waiting{handled: make(chan struct{}, 1)}
		f.publish(f.topic, f.journal.Journal, nil)
		f.subscribe(f.topic, never, c)
		for i := range b.N {
			f.append(ident.Shard(i%kafka.Partitions), 1, `{}`)
			<-c.handled
		}
	})
}

// waiting is a consumer of single events that signals each handled one.
type waiting struct {
	memoryConsumer
	handled chan struct{}
}

func (w *waiting) Handle(ctx context.Context, shard ident.Shard, events []persistence.Event) error {
	err := w.memoryConsumer.Handle(ctx, shard, events)
	if err == nil {
		w.handled <- struct{}{}
	}
	return err
}
