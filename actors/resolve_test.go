package actors_test

import (
	"context"
	"encoding/json"
	"errors"
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

// decisionReportingCounter is a counter that sends each decided command to a channel.
type decisionReportingCounter struct {
	counter
	decided chan<- any
}

func (s *decisionReportingCounter) Decide(m decision.Meta, command any) (decision.Decision, error) {
	d, err := s.counter.Decide(m, command)
	s.decided <- command
	return d, err
}

// newSystemWithFailingAppend starts a system whose first append, of an add of 7, is in progress and
// fails when open is called. Commands asked meanwhile are decided on a total of 7.
func newSystemWithFailingAppend(t *testing.T, id string) (r *counterSystem, decided <-chan any, open func()) {
	seen := make(chan any, 100)
	r = newCounterSystem(t, func(c *actors.Config) {
		c.Kinds = []actors.Kind{{Name: "counter",
			New: func() actors.State { return &decisionReportingCounter{decided: seen} }}}
	})
	gate, appends := make(chan struct{}), 0
	r.journal.configure(func(f *faultyJournal) {
		f.appendGate = gate
		f.onAppend = func(commit func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
			if appends++; appends == 1 {
				return nil, persistence.ErrUnavailable
			}
			return commit()
		}
	})
	go func() {
		if _, err := r.ask(id, add{By: 7}, nil); !fault.Is(err, fault.Unavailable) {
			t.Errorf("the add: %v", err)
		}
	}()
	require.Equal(t, add{By: 7}, <-seen)
	require.Eventually(t, func() bool { return r.journal.appends.Load() == 1 }, eventuallyWithin, pollEvery)
	return r, seen, func() { close(gate) }
}

// TestARecordIsNotWrittenFromARefusedState: a command without an event has no stream version that
// would make the journal refuse it, so it waits until the state that it read is committed.
func TestARecordIsNotWrittenFromARefusedState(t *testing.T) {
	id := counterID(40)
	r, decided, open := newSystemWithFailingAppend(t, id)
	replies := make(chan any, 1)
	go func() {
		reply, err := r.ask(id, writeNote{Name: id}, nil)
		if err != nil {
			t.Error(err)
		}
		replies <- reply
	}()
	require.Equal(t, writeNote{Name: id}, <-decided)
	open()
	require.EqualValues(t, 0, <-replies)
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	note, err := r.journal.Record(t.Context(), slot, "note", id)
	require.NoError(t, err)
	require.JSONEq(t, "0", string(note.Document))
}

// TestARecordMarkedNewIsNotLookedUp marks an existing record as new: it is listed twice, because
// the journal did not look it up.
func TestARecordMarkedNewIsNotLookedUp(t *testing.T) {
	r, id := newCounterSystem(t, nil), counterID(42)
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	for _, test := range []struct {
		new    bool
		listed int
	}{{true, 1}, {false, 1}, {true, 2}} {
		_, err := r.ask(id, writeNote{Name: id, New: test.new}, nil)
		require.NoError(t, err)
		notes, err := r.journal.List(t.Context(), slot, "note", id, "", persistence.Page{})
		require.NoError(t, err)
		require.Len(t, notes, test.listed)
	}
}

func TestAReadIsDecidedAgainAfterItsBaseIsRefused(t *testing.T) {
	id := counterID(41)
	r, decided, open := newSystemWithFailingAppend(t, id)
	totals := make(chan int64, 1)
	go func() { totals <- r.readTotal(id) }()
	require.Equal(t, decision.Read{}, <-decided)
	open()
	require.Zero(t, <-totals)
}

// TestAnotherProcessesEventIsNotMistakenForOwn loses a commit; before the fence another process
// writes an event of the same version.
func TestAnotherProcessesEventIsNotMistakenForOwn(t *testing.T) {
	r := newCounterSystem(t, nil)
	id, first := counterID(42), true
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	r.readTotal(id)
	r.journal.configure(func(f *faultyJournal) {
		f.onAppend = func(commit func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
			if !first {
				return commit()
			}
			first = false
			r.writeAsAnotherProcess(id, slot)
			return nil, persistence.ErrAmbiguous
		}
	})
	reply, err := r.ask(id, add{By: 3}, r.idempotencyKey("k", "body"))
	require.NoError(t, err)
	require.EqualValues(t, 103, reply)
	require.EqualValues(t, 103, r.readTotal(id))
}

// writeAsAnotherProcess raises the shard's epoch and adds 100 as the stream's first event.
func (r *counterSystem) writeAsAnotherProcess(id string, slot ident.Slot) {
	ctx := context.Background()
	heads, err := r.journal.Journal.Raise(ctx, slot.Shard())
	require.NoError(r.t, err)
	b := &persistence.Batch{Workspace: id, Slot: slot,
		Events: []persistence.Event{{ID: "evt_another", Workspace: id, Kind: "counter", Stream: id, Version: 1,
			Type: (added{}).EventType(), At: r.clock.now(), Payload: json.RawMessage(`{"by":100}`)}},
		Records: []persistence.Record{{Kind: "counter", Workspace: id, ID: id, Slot: slot, Version: 1,
			Document: json.RawMessage(`{"total":100}`)}}}
	outcomes, err := r.journal.Journal.Append(ctx, slot.Shard(), heads[0].Epoch, r.clock.now(), []*persistence.Batch{b})
	require.NoError(r.t, err)
	require.NoError(r.t, outcomes[0].Err)
}

// brokenTimersJournal is a journal that fails to read the timers of one shard and blocks for
// another.
type brokenTimersJournal struct {
	persistence.Journal
	broken, stuck ident.Shard
	asked         atomic.Int64
}

func (s *brokenTimersJournal) Timers(
	ctx context.Context, shard ident.Shard, now time.Time, after persistence.Timer, limit int,
) ([]persistence.Timer, error) {
	switch shard {
	case s.broken:
		s.asked.Add(1)
		return nil, errors.New("broken")
	case s.stuck:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Journal.Timers(ctx, shard, now, after, limit)
}

func TestAShardWhoseTimersCannotBeReadDelaysNoOther(t *testing.T) {
	slow := &brokenTimersJournal{broken: 0, stuck: 1}
	r := newCounterSystem(t, func(c *actors.Config) {
		slow.Journal = c.Journal
		c.Journal = slow
	})
	id := counterID(43)
	require.Greater(t, shardOf(t, id), slow.stuck)
	_, err := r.ask(id, alarm{At: r.clock.now()}, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		reply, err := r.ask(id, decision.Read{}, nil)
		require.NoError(t, err)
		return reply.(counter).Fired == 1 && slow.asked.Load() > 2
	}, eventuallyWithin, pollEvery)
}
