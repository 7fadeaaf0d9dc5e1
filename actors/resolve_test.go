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

// watched is a counter that tells which commands it has decided.
type watched struct {
	counter
	decided chan<- any
}

func (s *watched) Decide(m decision.Meta, command any) (decision.Decision, error) {
	d, err := s.counter.Decide(m, command)
	s.decided <- command
	return d, err
}

// failingFirst is a rig whose first append, of an add of 7, is under way and will fail when opened. What is asked meanwhile is
// decided on the 7 that will not be.
func failingFirst(t *testing.T, id string) (r *rig, decided <-chan any, open func()) {
	seen := make(chan any, 100)
	r = newRig(t, func(c *actors.Config) {
		c.Kinds = []actors.Kind{{Name: "counter", New: func() actors.State { return &watched{decided: seen} }}}
	})
	gate, appends := make(chan struct{}), 0
	r.journal.set(func(f *faults) {
		f.gate = gate
		f.append = func(commit func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
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
	require.Eventually(t, func() bool { return r.journal.appends.Load() == 1 }, time.Minute, time.Millisecond)
	return r, seen, func() { close(gate) }
}

// A command without an event has no version that would refuse it with what it rests on: it must wait for that.
func TestARecordIsNotWrittenFromAStateThatIsRefused(t *testing.T) {
	id := stream(40)
	r, decided, open := failingFirst(t, id)
	replies := make(chan any, 1)
	go func() {
		reply, err := r.ask(id, noteOnly{Name: id}, nil)
		if err != nil {
			t.Error(err)
		}
		replies <- reply
	}()
	require.Equal(t, noteOnly{Name: id}, <-decided)
	open()
	require.EqualValues(t, 0, <-replies)
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	note, err := r.journal.Record(t.Context(), slot, "note", id)
	require.NoError(t, err)
	require.JSONEq(t, "0", string(note.Document))
}

// TestARecordThatIsSaidToBeNewIsNotLookedUp shows it by what comes of it when it is said wrongly: the record is listed again.
func TestARecordThatIsSaidToBeNewIsNotLookedUp(t *testing.T) {
	r, id := newRig(t, nil), stream(42)
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	for _, test := range []struct {
		new    bool
		listed int
	}{{true, 1}, {false, 1}, {true, 2}} {
		_, err := r.ask(id, noteOnly{Name: id, New: test.new}, nil)
		require.NoError(t, err)
		notes, err := r.journal.List(t.Context(), slot, "note", id, "", persistence.Page{})
		require.NoError(t, err)
		require.Len(t, notes, test.listed)
	}
}

func TestAReadIsDecidedAgainWhenWhatItRestsOnIsRefused(t *testing.T) {
	id := stream(41)
	r, decided, open := failingFirst(t, id)
	totals := make(chan int64, 1)
	go func() { totals <- r.total(id) }()
	require.Equal(t, decision.Read{}, <-decided)
	open()
	require.Zero(t, <-totals)
}

// A commit is lost, and before the fence another incarnation writes an event of the same version.
func TestAnotherIncarnationsEventIsNotTakenForOnesOwn(t *testing.T) {
	r := newRig(t, nil)
	id, first := stream(42), true
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	r.total(id)
	r.journal.set(func(f *faults) {
		f.append = func(commit func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
			if !first {
				return commit()
			}
			first = false
			r.anotherWrites(id, slot)
			return nil, persistence.ErrAmbiguous
		}
	})
	reply, err := r.ask(id, add{By: 3}, r.key("k", "body"))
	require.NoError(t, err)
	require.EqualValues(t, 103, reply)
	require.EqualValues(t, 103, r.total(id))
}

// anotherWrites takes the shard and adds 100 as the stream's first event.
func (r *rig) anotherWrites(id string, slot ident.Slot) {
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

// slowTimers is a journal that cannot say for one shard which timers are due, and for another not yet.
type slowTimers struct {
	persistence.Journal
	broken, stuck ident.Shard
	asked         atomic.Int64
}

func (s *slowTimers) Timers(
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

func TestAShardWithoutTimersHoldsUpNoOther(t *testing.T) {
	slow := &slowTimers{broken: 0, stuck: 1}
	r := newRig(t, func(c *actors.Config) {
		slow.Journal = c.Journal
		c.Journal = slow
	})
	id := stream(43)
	require.Greater(t, shardOf(t, id), slow.stuck)
	_, err := r.ask(id, alarm{At: r.clock.now()}, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		reply, err := r.ask(id, decision.Read{}, nil)
		require.NoError(t, err)
		return reply.(counter).Fired == 1 && slow.asked.Load() > 2
	}, time.Minute, time.Millisecond)
}
