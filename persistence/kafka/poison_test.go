package kafka_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"

	"purser/persistence/kafka"
)

// produceBatch appends a batch to a partition as it is.
func (f *fixture) produceBatch(partition int, batch []byte) {
	f.t.Helper()
	size := len(batch)
	set := append([]byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}, batch...)
	answer, err := f.client().RawProduce(f.ctx, &kafkago.RawProduceRequest{Topic: f.name, Partition: partition,
		RequiredAcks: kafkago.RequireAll, MessageVersion: 2, RawRecords: protocol.RawRecordSet{Reader: bytes.NewReader(set)}})
	require.NoError(f.t, err)
	require.NoError(f.t, answer.Error)
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// poisons are batches of a few kilobytes that a decoder would make hundreds of megabytes of, and
// plain ones with too much.
func poisons() map[string][]byte {
	const most = kafka.MaxMessageBytes - 4096
	all := map[string][]byte{
		"headers":                kafka.HeaderBomb(0, 100_000), // of more, the broker itself runs out of memory
		"records":                kafka.RecordBomb(0, 20*kafka.FullEvents),
		"one record too many":    kafka.RecordBomb(0, kafka.FullEvents+1),
		"zstd window of 128 MiB": kafka.WindowBomb(27),
	}
	for name, c := range map[string]kafkago.Compression{"gzip": kafkago.Gzip, "snappy": kafkago.Snappy,
		"lz4": kafkago.Lz4, "zstd": kafkago.Zstd} {
		all[name+" headers"] = kafka.HeaderBomb(c, most/2)
		all[name+" records"] = kafka.RecordBomb(c, 20*kafka.FullEvents)
		all[name+" bytes"] = kafka.ByteBomb(c, 16<<20)
	}
	return all
}

// TestAPoisonedPlaceIsSteppedOver: batches of a hostile producer take no memory to speak of, and
// the true messages before and behind them come from the topic once each and in order. The journal
// is not to be read.
func TestAPoisonedPlaceIsSteppedOver(t *testing.T) {
	const poisoned, mostAllocated = 4, 512 << 20
	for name, batch := range poisons() {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			everyKafka(t, func(t *testing.T, brokers []string) {
				f := newFixture(t, brokers)
				c := &memoryConsumer{}
				f.publish(f.topic, f.journal.Journal, nil)
				f.tailing(never, c)
				f.journal.blind.Store(true)
				f.append(5, 2, `{"before":1}`)
				f.handled(c)
				before := allocated()
				for range poisoned {
					f.produceBatch(5, batch)
					f.append(5, 1, `{"between":1}`)
					f.published()
				}
				f.append(37, 2, `{"behind":1}`)
				f.handled(c)
				require.Less(t, allocated()-before, uint64(mostAllocated))
				f.eventually(func() bool { return c.forged.Load() == poisoned }, "no listener gets the refusals")
				require.Zero(t, c.gaps.Load()+c.foreign.Load()+c.repeated.Load())
				require.NoError(t, c.found())
			})
		})
	}
}
