package actors_test

import (
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
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
				if _, err := r.system.Ask(t.Context(), actors.Envelope{Kind: "counter", Stream: id, Workspace: workspace,
					Command: add{By: 1}}); err != nil {
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
