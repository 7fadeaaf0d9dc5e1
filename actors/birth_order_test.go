package actors_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// dated is a counter whose total is the time of its last add, in Unix milliseconds.
type dated struct{ counter }

func (s *dated) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if _, is := command.(add); is {
		return decision.Decision{Events: []decision.Event{added{By: m.At.UnixMilli() - s.Total}}}, nil
	}
	return s.counter.Decide(m, command)
}

// A list has the streams that began at once in the order of their times. The clock moves with each
// reading, and its reader is often interrupted.
func TestStreamsBeginInTheOrderOfTheirTimes(t *testing.T) {
	ticking := newClock()
	r := newCounterSystem(t, func(c *actors.Config) {
		c.Kinds = []actors.Kind{{Name: "counter", New: func() actors.State { return new(dated) }}}
		c.Clock = func() time.Time {
			ticking.turn(time.Millisecond)
			now := ticking.now()
			for range rand.IntN(4) {
				runtime.Gosched()
			}
			return now
		}
	})
	const streams, together = 400, 16
	workspace := counterID(1)
	slot, err := ident.SlotOf(workspace)
	require.NoError(t, err)
	var asking sync.WaitGroup
	for first := range together {
		asking.Go(func() {
			for i := first; i < streams; i += together {
				id := ident.Derive(slot, time.UnixMilli(int64(i)), "dated").Format(ident.Workspace)
				if _, err := r.system.Ask(t.Context(), actors.Envelope{Kind: "counter", Stream: id,
					Workspace: workspace, Command: add{By: 1}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	asking.Wait()
	records, err := r.journal.List(t.Context(), slot, "counter", workspace, "", persistence.Page{})
	require.NoError(t, err)
	require.Len(t, records, streams)
	var newer dated
	for i, record := range records {
		var shown dated
		require.NoError(t, json.Unmarshal(record.Document, &shown))
		require.True(t, i == 0 || shown.Total <= newer.Total, "%d is newer than the one before it", i)
		newer = shown
	}
}

// A new stream whose decisions have no events yet fills its share of a lane while the journal
// stalls. It and the streams that begin beside it are answered once the journal is back.
func TestAFullLaneLetsStreamsBegin(t *testing.T) {
	r := newCounterSystem(t, func(c *actors.Config) { c.Slack = 1_000 }) // the stall has no end of its own
	id := counterID(1)
	appends, load := make(chan struct{}), make(chan struct{})
	var loading, asked atomic.Int64
	r.journal.configure(func(f *faultyJournal) {
		f.appendGate = appends
		f.onRecord = func() error { loading.Add(1); <-load; return nil }
	})
	var refused atomic.Int64
	ask := func(stream string, command any) {
		_, err := r.system.Ask(t.Context(), actors.Envelope{Kind: "counter", Stream: stream,
			Workspace: id, Command: command})
		if fault.Is(err, fault.Unavailable) {
			refused.Add(1)
		} else if err != nil {
			t.Error(err)
		}
	}
	var asking sync.WaitGroup
	for i := range 8_000 { // more than a workspace's share of a lane and a batch that waits
		asking.Go(func() {
			asked.Add(1)
			ask(id, writeNote{Name: fmt.Sprint("note ", i)})
		})
	}
	require.Eventually(t, func() bool { return loading.Load() == 1 && asked.Load() == 8_000 },
		eventuallyWithin, pollEvery)
	close(load)
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	other := ident.Derive(slot, r.clock.now(), "beside").Format(ident.Workspace)
	require.Eventually(t, func() bool {
		asking.Go(func() { ask(other, add{By: 1}) })
		return refused.Load() > 0
	}, eventuallyWithin, pollEvery)
	close(appends)
	asking.Wait()
	refused.Store(0)
	ask(other, add{By: 1})
	require.Zero(t, refused.Load())
}
