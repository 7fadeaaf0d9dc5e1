package pgjournal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/pgjournal"
	"purser/persistence/pgjournal/pgtest"
)

var frozen = json.RawMessage(`{"cardId":"card_01h455vb4pex5vsknk084sn02q","state":"frozen","monthlyLimitUsdCents":500000}`)

// caller appends to a shard of its own.
type caller struct {
	j       *pgjournal.Journal
	slot    ident.Slot
	epoch   uint64
	version uint64
}

func newCallers(b *testing.B, n int) []*caller {
	b.Helper()
	server := pgtest.Own(b, "the journal's benchmarks", true)
	require.NotNil(b, server)
	j := open(b, pgjournal.Options{URL: server.URL("postgres"), Migrate: true})
	b.Cleanup(func() { require.NoError(b, j.Close()) })
	all := make([]*caller, n)
	for i := range all {
		slot := ident.Slot(16 * i)
		heads, err := j.Raise(b.Context(), slot.Shard())
		require.NoError(b, err)
		all[i] = &caller{j: j, slot: slot, epoch: heads[0].Epoch}
	}
	return all
}

// append writes a group of batches, each with one event and the state after it.
func (c *caller) append(group int) error {
	batches := make([]*persistence.Batch, group)
	for i := range batches {
		c.version++
		batches[i] = &persistence.Batch{
			Workspace: "ws_1", Slot: c.slot,
			Events: []persistence.Event{{
				ID: fmt.Sprint("evt_", c.version), Workspace: "ws_1", Kind: "card", Stream: "card_1", Version: c.version,
				Type: "card.frozen.v1", At: journaltest.Start, Payload: frozen,
			}},
			Records: []persistence.Record{{Kind: "card", ID: "card_1", Version: c.version, Document: frozen}},
		}
	}
	outcomes, err := c.j.Append(context.Background(), c.slot.Shard(), c.epoch, journaltest.Start, batches)
	if err != nil {
		return err
	}
	return outcomes[group-1].Err
}

// benchmarkAppend appends to a server with fsync.
func benchmarkAppend(b *testing.B, n, group int) {
	all := newCallers(b, n)
	var left atomic.Int64
	var work sync.WaitGroup
	errs := make([]error, n)
	b.ResetTimer()
	left.Store(int64(b.N))
	for i, c := range all {
		work.Go(func() {
			for errs[i] == nil && left.Add(-1) >= 0 {
				errs[i] = c.append(group)
			}
		})
	}
	work.Wait()
	b.StopTimer()
	for _, err := range errs {
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.N*group)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkAppend1Caller(b *testing.B)          { benchmarkAppend(b, 1, 1) }
func BenchmarkAppend64Callers(b *testing.B)        { benchmarkAppend(b, 64, 1) }
func BenchmarkAppend1CallerGroup64(b *testing.B)   { benchmarkAppend(b, 1, 64) }
func BenchmarkAppend64CallersGroup64(b *testing.B) { benchmarkAppend(b, 64, 64) }

// BenchmarkTimers reads the timers of a shard that has none due.
func BenchmarkTimers(b *testing.B) {
	c := newCallers(b, 1)[0]
	for b.Loop() {
		_, err := c.j.Timers(b.Context(), 7, journaltest.Start, persistence.Timer{}, 10)
		require.NoError(b, err)
	}
}

func BenchmarkRecord(b *testing.B) {
	c := newCallers(b, 1)[0]
	require.NoError(b, c.append(1))
	for b.Loop() {
		_, err := c.j.Record(b.Context(), c.slot, "card", "card_1")
		require.NoError(b, err)
	}
}
