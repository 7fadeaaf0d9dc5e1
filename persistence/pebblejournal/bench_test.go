package pebblejournal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/ident"
	"purser/persistence"
	"purser/persistence/journaltest"
	"purser/persistence/pebblejournal"
)

var payload = json.RawMessage(`{"cardId":"card_01h455vb4pex5vsknk084sn02q","state":"frozen","monthlyLimitUsdCents":500000}`)

// lane is one caller of the benchmarks with a shard of its own.
type lane struct {
	j       *pebblejournal.Journal
	slot    ident.Slot
	epoch   uint64
	version uint64
}

func lanes(b *testing.B, n int) []*lane {
	b.Helper()
	j, err := pebblejournal.Open(pebblejournal.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, j.Close()) })
	all := make([]*lane, n)
	for i := range all {
		slot := ident.Slot(16 * i)
		heads, err := j.Raise(b.Context(), slot.Shard())
		require.NoError(b, err)
		all[i] = &lane{j: j, slot: slot, epoch: heads[0].Epoch}
	}
	return all
}

// append writes a group of batches, each one event and the state after it.
func (l *lane) append(group int) error {
	batches := make([]*persistence.Batch, group)
	for i := range batches {
		l.version++
		batches[i] = &persistence.Batch{
			Workspace: "ws_1", Slot: l.slot,
			Events: []persistence.Event{{
				ID: fmt.Sprint("evt_", l.version), Workspace: "ws_1", Kind: "card", Stream: "card_1", Version: l.version,
				Type: "card.frozen.v1", At: journaltest.Start, Payload: payload,
			}},
			Records: []persistence.Record{{Kind: "card", ID: "card_1", Version: l.version, Document: payload}},
		}
	}
	outcomes, err := l.j.Append(context.Background(), l.slot.Shard(), l.epoch, journaltest.Start, batches)
	if err != nil {
		return err
	}
	return outcomes[group-1].Err
}

func benchmarkAppend(b *testing.B, callers, group int) {
	all := lanes(b, callers)
	var left atomic.Int64
	var work sync.WaitGroup
	errs := make([]error, callers)
	b.ResetTimer()
	left.Store(int64(b.N))
	for i, l := range all {
		work.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				errs[i] = l.append(group)
			}
		})
	}
	work.Wait()
	b.StopTimer()
	for _, err := range errs {
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.N*group)/b.Elapsed().Seconds(), "batches/s")
}

func BenchmarkAppend1Caller(b *testing.B)          { benchmarkAppend(b, 1, 1) }
func BenchmarkAppend64Callers(b *testing.B)        { benchmarkAppend(b, 64, 1) }
func BenchmarkAppend1CallerGroup64(b *testing.B)   { benchmarkAppend(b, 1, 64) }
func BenchmarkAppend64CallersGroup64(b *testing.B) { benchmarkAppend(b, 64, 64) }

// BenchmarkRecordBesideWrites reads a record of a shard that is idle, and of one that commits without a pause.
func BenchmarkRecordBesideWrites(b *testing.B) {
	for _, busy := range []bool{false, true} {
		b.Run(fmt.Sprintf("busy %t", busy), func(b *testing.B) {
			l := lanes(b, 1)[0]
			require.NoError(b, l.append(1))
			var stop atomic.Bool
			done := make(chan error, 1)
			go func() {
				var err error
				for busy && err == nil && !stop.Load() {
					err = l.append(1)
				}
				done <- err
			}()
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				start := time.Now()
				_, err := l.j.Record(context.Background(), l.slot, "card", "card_1")
				require.NoError(b, err)
				took = append(took, time.Since(start))
			}
			stop.Store(true)
			require.NoError(b, <-done)
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkOpen opens a journal of a million events, closed in order.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	o := pebblejournal.Options{Dir: dir}
	j, err := pebblejournal.Open(o)
	require.NoError(b, err)
	for i := range 16 {
		l := &lane{j: j, slot: ident.Slot(16 * i)}
		heads, err := j.Raise(b.Context(), l.slot.Shard())
		require.NoError(b, err)
		l.epoch = heads[0].Epoch
		for range 1_000_000 / 16 / 500 {
			require.NoError(b, l.append(500))
		}
	}
	require.NoError(b, j.Close())
	for b.Loop() {
		j, err := pebblejournal.Open(o)
		require.NoError(b, err)
		require.NoError(b, j.Close())
	}
}
