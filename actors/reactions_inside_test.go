package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/persistence"
	"purser/persistence/ident"
)

// reactionJournal holds one shard's events and the records of pending reactions.
type reactionJournal struct {
	persistence.Journal
	mu      sync.Mutex
	events  []persistence.Event
	records map[string]persistence.Record
}

func (j *reactionJournal) Events(_ context.Context, _ ident.Shard, past uint64, limit int,
) ([]persistence.Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events[past:min(past+uint64(limit), uint64(len(j.events)))]), nil
}

func (j *reactionJournal) Records(_ context.Context, _ ident.Shard, _, after string, limit int,
) ([]persistence.Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var page []persistence.Record
	for _, id := range slices.Sorted(maps.Keys(j.records)) {
		if id > after && len(page) < limit {
			page = append(page, j.records[id])
		}
	}
	return page, nil
}

// appendEvents commits events of a workspace with what addReactions adds.
func (j *reactionJournal) appendEvents(x *reactor, workspace string, types ...string,
) (b *persistence.Batch, first uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b = &persistence.Batch{Workspace: workspace}
	for _, kind := range types {
		j.events = append(j.events, persistence.Event{ID: fmt.Sprintf("%06d", 999_999-len(j.events)),
			Workspace: workspace, Type: kind, Position: uint64(len(j.events)) + 1})
		b.Events = append(b.Events, j.events[len(j.events)-1])
	}
	if err := x.addReactions(b); err != nil {
		panic(err)
	}
	last := uint64(len(j.events))
	for _, r := range b.Records {
		r.Position = last
		j.records[r.ID] = r
	}
	return b, last - uint64(len(types)) + 1
}

// newTestReactor returns a reactor over a journal, with one reaction, to deposits. Its removals
// fail when refuses says so.
func newTestReactor(j *reactionJournal, handle func(context.Context, persistence.Event) error,
	refuses func() bool) *reactor {
	l := newLoops(&Config{Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Slack: 1})
	x := newReactor(l, j, silent{}, []Reaction{{Name: "x", Events: []decision.Event{balance.DepositCreated{}},
		Handle: handle}})
	x.commit = func(_ context.Context, _ *shard, b *persistence.Batch) error {
		if refuses() {
			return persistence.ErrUnavailable
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.records, b.Records[0].ID)
		return nil
	}
	return x
}

func (x *reactor) stopLoops() {
	x.end()
	x.running.Wait()
}

// TestEveryCauseIsHandled: each cause is handled, those of a workspace in order and once each, but
// for the one that was being handled at a crash; its record then goes. Refusals, lost records of
// handled events, crashes and a memory that is too small are random.
func TestEveryCauseIsHandled(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var steps []func(step int)
		most := rapid.IntRange(1, 12).Draw(rt, "memory")
		refusals := rapid.SliceOfN(rapid.IntRange(0, 4), 64, 64).Draw(rt, "refusals")
		var j *reactionJournal
		var x *reactor
		var sh *shard
		var mu sync.Mutex
		handled, crashed, drawn, patient := map[string][]uint64{}, map[string]bool{}, 0, false
		refuses := func() bool {
			mu.Lock()
			defer mu.Unlock()
			drawn++
			return !patient && refusals[drawn%len(refusals)] == 0
		}
		start := func() {
			x = newTestReactor(j, func(_ context.Context, e persistence.Event) error {
				if refuses() {
					return errors.New("refused")
				}
				mu.Lock()
				defer mu.Unlock()
				got := handled[e.Workspace]
				if repeats := len(got) > 0 && got[len(got)-1] == e.Position; !repeats || !crashed[e.Workspace] {
					handled[e.Workspace] = append(got, e.Position)
				}
				crashed[e.Workspace] = false
				return nil
			}, refuses)
			sh = &shard{reactions: newPendingReactions(most)}
			require.NoError(rt, x.findAll(context.Background(), []*shard{sh}))
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			workspace := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "workspace")
			types := rapid.SliceOfN(rapid.SampledFrom([]string{balance.Relayed{}.EventType(),
				balance.DepositCreated{}.EventType()}), 1, 5).Draw(rt, "types")
			pause := time.Duration(rapid.IntRange(0, 3_000).Draw(rt, "pause")) * time.Millisecond
			crash := rapid.IntRange(0, 6).Draw(rt, "crash") == 0
			steps = append(steps, func(int) {
				b, first := j.appendEvents(x, workspace, types...)
				if crash { // before or after the reactor has learned of it
					x.stopLoops()
					crashed = map[string]bool{"a": true, "b": true, "c": true}
					start()
				} else {
					x.noteCommitted(sh, b, first)
				}
				time.Sleep(pause)
			})
		}
		synctest.Test(t, func(*testing.T) {
			j = &reactionJournal{records: map[string]persistence.Record{}}
			start()
			for i, step := range steps {
				step(i)
			}
			mu.Lock()
			patient = true
			mu.Unlock()
			time.Sleep(time.Hour)
			synctest.Wait()
			x.stopLoops()
		})
		want := map[string][]uint64{}
		for _, e := range j.events {
			if e.Type == (balance.DepositCreated{}).EventType() {
				want[e.Workspace] = append(want[e.Workspace], e.Position)
			}
		}
		require.Equal(rt, want, handled)
		require.Empty(rt, j.records)
		require.Zero(rt, sh.reactions.pendingCount())
	})
}

// TestWhatIsCommittedWhileRecordsAreReadIsFoundLater: it may be behind the page that was read.
func TestWhatIsCommittedWhileRecordsAreReadIsFoundLater(t *testing.T) {
	q := newPendingReactions(10)
	require.True(t, q.beginFind())
	require.False(t, q.beginFind(), "one reads at a time")
	_, begins := q.addNew(&pendingReaction{id: "1/x"})
	require.False(t, begins)
	require.Empty(t, q.endFind(nil, true))
	require.True(t, q.beginFind())
	require.Len(t, q.endFind([]*pendingReaction{{id: "1/x"}}, true), 1)
	require.False(t, q.beginFind())
	line, begins := q.addNew(&pendingReaction{id: "2/x", workspace: "other"})
	require.True(t, begins)
	require.Nil(t, q.removeFirst(line))
}

// TestARefusedCauseDelaysOnlyItsWorkspace: causes of other workspaces are handled.
func TestARefusedCauseDelaysOnlyItsWorkspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var handled []uint64
		refuses, j := true, &reactionJournal{records: map[string]persistence.Record{}}
		x := newTestReactor(j, func(_ context.Context, e persistence.Event) error {
			mu.Lock()
			defer mu.Unlock()
			if e.Workspace == "hostile" && refuses {
				return errors.New("refused")
			}
			handled = append(handled, e.Position)
			return nil
		}, func() bool { return false })
		defer x.stopLoops()
		sh := &shard{reactions: newPendingReactions(100)}
		require.NoError(t, x.findAll(t.Context(), []*shard{sh}))
		for _, workspace := range []string{"first", "hostile", "hostile", "other", "first"} {
			b, first := j.appendEvents(x, workspace, balance.DepositCreated{}.EventType())
			x.noteCommitted(sh, b, first)
		}
		synctest.Wait()
		require.ElementsMatch(t, []uint64{1, 4, 5}, handled)
		require.Len(t, j.records, 2)
		require.Equal(t, 2, sh.reactions.pendingCount())
		mu.Lock()
		refuses, handled = false, nil
		mu.Unlock()
		time.Sleep(reactPauseMax)
		synctest.Wait()
		require.Equal(t, []uint64{2, 3}, handled)
		require.Empty(t, j.records)
	})
}

// TestWhatCausesNothingHasNoRecord: swipes and limit changes cost a reaction nothing.
func TestWhatCausesNothingHasNoRecord(t *testing.T) {
	j := &reactionJournal{records: map[string]persistence.Record{}}
	x := newTestReactor(j, nil, nil)
	b, _ := j.appendEvents(x, "w", balance.Relayed{}.EventType(), card.LimitsChanged{}.EventType())
	require.Empty(t, b.Records)
}

// TestAnUnknownReactionKeepsItsRecord: a later version may have the reaction again.
func TestAnUnknownReactionKeepsItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &reactionJournal{records: map[string]persistence.Record{}}
		x := newTestReactor(j, func(context.Context, persistence.Event) error { return nil },
			func() bool { return false })
		j.appendEvents(x, "w", balance.DepositCreated{}.EventType())
		for id, r := range j.records {
			delete(j.records, id)
			r.ID = strings.TrimSuffix(id, "x") + "gone"
			j.records[r.ID] = r
		}
		sh := &shard{reactions: newPendingReactions(100)}
		require.NoError(t, x.findAll(t.Context(), []*shard{sh}))
		time.Sleep(time.Hour)
		x.stopLoops()
		require.Len(t, j.records, 1)
	})
}
