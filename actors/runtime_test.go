package actors_test

import (
	"context"
	"errors"
	"fmt"
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

func TestCommittedStateOutlivesARestart(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(1)
	for i := range 5 {
		reply, err := r.ask(id, add{By: 2}, nil)
		require.NoError(t, err)
		require.EqualValues(t, 2*(i+1), reply)
	}
	r.restart()
	require.EqualValues(t, 10, r.readTotal(id))
	_, err := r.ask(id, add{By: -1}, nil)
	require.True(t, fault.Is(err, fault.InvalidBody), err)
}

func TestManyCommandsOfOneActorShareACommit(t *testing.T) {
	r := newCounterSystem(t, nil)
	id, gate := counterID(2), make(chan struct{})
	r.readTotal(id)
	r.journal.configure(func(f *faultyJournal) { f.appendGate = gate })
	const n = 200
	replies := make(chan int64, n)
	ask := func() {
		reply, err := r.ask(id, add{By: 1}, nil)
		if err != nil {
			replies <- -1
			return
		}
		replies <- reply.(int64)
	}
	go ask()
	require.Eventually(t, func() bool { return r.journal.appends.Load() == 1 }, eventuallyWithin, pollEvery)
	for range n - 1 {
		go ask()
	}
	require.Eventually(t, func() bool { h, err := r.system.Health(); return err == nil && h.LaneQueued == n-1 },
		eventuallyWithin,
		pollEvery)
	close(gate)
	seen := map[int64]bool{}
	for range n {
		v := <-replies
		require.False(t, seen[v], "reply %d came twice", v)
		seen[v] = true
	}
	require.True(t, seen[1] && seen[n])
	require.EqualValues(t, 2, r.journal.appends.Load(), "commands did not share commits")
}

func TestAReadWaitsForEarlierCommits(t *testing.T) {
	r := newCounterSystem(t, nil)
	id, gate := counterID(3), make(chan struct{})
	r.readTotal(id)
	r.journal.configure(func(f *faultyJournal) { f.appendGate = gate })
	go func() { _, _ = r.ask(id, add{By: 7}, nil) }()
	require.Eventually(t, func() bool { return r.journal.appends.Load() == 1 }, eventuallyWithin, pollEvery)
	var opened atomic.Bool
	early, read := make(chan bool, 1), make(chan int64, 1)
	go func() {
		v := r.readTotal(id)
		early <- !opened.Load()
		read <- v
	}()
	for i := range 50 { // reads of other actors are answered meanwhile
		r.readTotal(counterID(100 + i))
	}
	opened.Store(true)
	close(gate)
	require.False(t, <-early, "a read answered what was not committed")
	require.EqualValues(t, 7, <-read)
}

func TestOneIdempotencyKeyHasOneEffect(t *testing.T) { onEachJournal(t, askWithOneKey) }

func askWithOneKey(t *testing.T, database string) {
	r := newCounterSystemOn(t, database, nil)
	id := counterID(4)
	var wg sync.WaitGroup
	for range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			reply, err := r.ask(id, add{By: 5}, r.idempotencyKey("k", "body"))
			if err != nil {
				t.Error(err)
			}
			if replayed, ok := reply.(actors.Replayed); ok && string(replayed.Answer) != "5" {
				t.Errorf("replayed %s", replayed.Answer)
			}
		}()
	}
	wg.Wait()
	require.EqualValues(t, 5, r.readTotal(id))
	_, err := r.ask(id, add{By: 5}, r.idempotencyKey("k", "another"))
	require.True(t, fault.Is(err, fault.IdempotencyKeyMismatch), err)

	r.restart()
	reply, err := r.ask(id, add{By: 5}, r.idempotencyKey("k", "body"))
	require.NoError(t, err)
	require.Equal(t, actors.Replayed{Answer: []byte("5")}, reply)

	r.clock.turn(24*time.Hour + time.Minute)
	reply, err = r.ask(id, add{By: 5}, r.idempotencyKey("k", "body"))
	require.NoError(t, err)
	require.EqualValues(t, 10, reply)
}

// A key that is acquired before its command is prepared has one holder, also while the holder asks.
// The next one gets the answer.
func TestAnAcquiredKeyIsPreparedOnce(t *testing.T) {
	r := newCounterSystem(t, nil)
	acquire := func(ctx context.Context, key *actors.Key) (func(), any, error) {
		return r.system.AcquireKey(ctx, actors.Envelope{Kind: "counter", Stream: counterID(4), Workspace: counterID(4),
			Key: key})
	}
	first := r.idempotencyKey("k", "body")
	release, reply, err := acquire(t.Context(), first)
	require.NoError(t, err)
	require.Nil(t, reply)
	ended, end := context.WithCancel(t.Context())
	end()
	refused, _, err := acquire(ended, r.idempotencyKey("k", "body"))
	require.True(t, fault.Is(err, fault.Unavailable), err)
	require.Nil(t, refused)
	reply, err = r.ask(counterID(4), add{By: 5}, first)
	require.NoError(t, err)
	require.EqualValues(t, 5, reply)
	release()

	release, reply, err = acquire(t.Context(), r.idempotencyKey("k", "body"))
	require.NoError(t, err)
	require.Equal(t, actors.Replayed{Answer: []byte("5")}, reply)
	require.Nil(t, release)
	release, _, err = acquire(t.Context(), r.idempotencyKey("k", "another"))
	require.True(t, fault.Is(err, fault.IdempotencyKeyMismatch), err)
	require.Nil(t, release)
}

func TestARefusedCommandLeavesItsKeyFree(t *testing.T) {
	r := newCounterSystem(t, nil)
	_, err := r.ask(counterID(5), add{By: 0}, r.idempotencyKey("k", "body"))
	require.True(t, fault.Is(err, fault.InvalidBody), err)
	reply, err := r.ask(counterID(5), add{By: 1}, r.idempotencyKey("k", "body"))
	require.NoError(t, err)
	require.EqualValues(t, 1, reply)
}

func TestATakenClaimRefusesOnlyItsOwnCommand(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(6)
	_, err := r.ask(id, claim{Name: "a@b"}, nil)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if i%10 == 0 {
				if _, err := r.ask(id, claim{Name: "a@b"}, nil); !fault.Is(err, fault.EmailTaken) {
					t.Errorf("a taken claim answered %v", err)
				}
				return
			}
			if _, err := r.ask(id, add{By: 1}, nil); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	require.EqualValues(t, 91, r.readTotal(id))
}

func TestAnUnavailableJournalChangesNothing(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(7)
	_, err := r.ask(id, add{By: 1}, nil)
	require.NoError(t, err)
	r.journal.configure(func(f *faultyJournal) {
		f.onAppend = func(func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
			return nil, persistence.ErrUnavailable
		}
	})
	_, err = r.ask(id, add{By: 10}, nil)
	require.True(t, fault.Is(err, fault.Unavailable), err)
	r.journal.configure(func(f *faultyJournal) { f.onAppend = nil })
	require.EqualValues(t, 1, r.readTotal(id))
	reply, err := r.ask(id, add{By: 1}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, reply)
}

// TestAnAmbiguousCommitIsFencedAndResolved loses the answer of a commit, stored or not. After the
// fence the command has taken effect once.
func TestAnAmbiguousCommitIsFencedAndResolved(t *testing.T) {
	for _, landed := range []bool{true, false} {
		t.Run(fmt.Sprintf("landed=%v", landed), func(t *testing.T) {
			r := newCounterSystem(t, nil)
			id, raised := counterID(8), 0
			r.readTotal(id)
			first := true
			r.journal.configure(func(f *faultyJournal) {
				f.onRaise = func() error { raised++; return nil }
				f.onAppend = func(commit func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
					if !first {
						return commit()
					}
					first = false
					if landed {
						if _, err := commit(); err != nil {
							return nil, err
						}
					}
					return nil, persistence.ErrAmbiguous
				}
			})
			reply, err := r.ask(id, add{By: 3}, r.idempotencyKey("k", "body"))
			require.NoError(t, err)
			require.EqualValues(t, 3, reply)
			require.Positive(t, raised, "the outcome was read without a fence")
			require.EqualValues(t, 3, r.readTotal(id))
			reply, err = r.ask(id, add{By: 3}, r.idempotencyKey("k", "body"))
			require.NoError(t, err)
			require.Equal(t, actors.Replayed{Answer: []byte("3")}, reply)
		})
	}
}

func TestAnUnresolvedCommitAnswersOutcomeUnknown(t *testing.T) {
	r := newCounterSystem(t, func(c *actors.Config) { c.FenceWithin = 10 * time.Millisecond })
	id := counterID(9)
	r.readTotal(id)
	var late func() ([]persistence.Outcome, error)
	r.journal.configure(func(f *faultyJournal) {
		f.onRaise = func() error { return persistence.ErrUnavailable }
		f.onAppend = func(commit func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
			late = commit
			return nil, persistence.ErrAmbiguous
		}
	})
	_, err := r.ask(id, add{By: 3}, r.idempotencyKey("k", "body"))
	require.True(t, fault.Is(err, fault.OutcomeUnknown), err)
	require.Error(t, r.system.Ready())
	_, err = r.ask(id, add{By: 3}, r.idempotencyKey("k", "body"))
	require.True(t, fault.Is(err, fault.Unavailable), "answered before the fence: %v", err)

	_, err = late() // the old transaction commits before the fence
	_ = err
	r.journal.configure(func(f *faultyJournal) { f.onAppend, f.onRaise = nil, nil })
	require.Eventually(t, func() bool {
		_, err := r.ask(counterID(9), writeNote{Name: id}, nil)
		return err == nil
	}, eventuallyWithin, pollEvery)
	require.EqualValues(t, 3, r.readTotal(id))
	reply, err := r.ask(id, add{By: 3}, r.idempotencyKey("k", "body"))
	require.NoError(t, err)
	require.Equal(t, actors.Replayed{Answer: []byte("3")}, reply)
}

func reservation(i int) string {
	return ident.Derive(1, time.UnixMilli(int64(i)), "r").Format(ident.Reservation)
}

func TestADebitReservesFundsFirst(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(10)
	_, err := r.ask(id, debit{Reservation: reservation(1)}, nil)
	require.NoError(t, err)
	require.Equal(t, 1, r.authorizer.reservationCount())

	r.authorizer.mu.Lock()
	r.authorizer.refuse = true
	r.authorizer.mu.Unlock()
	_, err = r.ask(id, debit{Reservation: reservation(2)}, nil)
	require.True(t, fault.Is(err, fault.InsufficientFunds), err)
	require.EqualValues(t, 1, r.readTotal(id))

	r.authorizer.mu.Lock()
	r.authorizer.refuse = false
	r.authorizer.mu.Unlock()
	r.journal.configure(func(f *faultyJournal) {
		f.onAppend = func(func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
			return nil, persistence.ErrUnavailable
		}
	})
	_, err = r.ask(id, debit{Reservation: reservation(3)}, nil)
	require.True(t, fault.Is(err, fault.Unavailable), err)
	require.Equal(t, 1, r.authorizer.reservationCount(), "a refused debit keeps its reservation")
	r.journal.configure(func(f *faultyJournal) { f.onAppend = nil })

	r.restart()
	require.Zero(t, r.authorizer.reservationCount(), "the orphaned reservation was not released at the start")
}

// A debit with an unknown outcome keeps its reservation until the epoch is raised. A debit that was
// not committed then gives the cents back, without a restart. The outcome is unknown because the
// epoch could not be raised in time, or because the events could not be read after the raise.
func TestAnUnresolvedDebitGivesItsReservationBack(t *testing.T) {
	away := func() error { return persistence.ErrUnavailable }
	for name, fail := range map[string]func(f *faultyJournal){
		"raise": func(f *faultyJournal) { f.onRaise = away },
		"read":  func(f *faultyJournal) { f.onEvents = away },
	} {
		t.Run(name, func(t *testing.T) {
			r := newCounterSystem(t, func(c *actors.Config) { c.FenceWithin = 10 * time.Millisecond })
			id := counterID(10)
			r.readTotal(id)
			_, err := r.ask(id, add{By: 1}, nil)
			require.NoError(t, err)
			r.journal.configure(func(f *faultyJournal) {
				fail(f)
				f.onAppend = func(func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error) {
					return nil, persistence.ErrAmbiguous
				}
			})
			_, err = r.ask(id, debit{Reservation: reservation(1)}, nil)
			require.True(t, fault.Is(err, fault.OutcomeUnknown), err)
			if name == "raise" {
				require.Equal(t, 1, r.authorizer.reservationCount(), "the debit may still be committed")
			}
			r.journal.configure(func(f *faultyJournal) { f.onAppend, f.onRaise, f.onEvents = nil, nil, nil })
			require.Eventually(t, func() bool { return r.authorizer.reservationCount() == 0 }, eventuallyWithin,
				pollEvery, "the cents stay reserved")
			require.EqualValues(t, 1, r.readTotal(id))
		})
	}
}

func TestNoRequestIsLostUnderPassivation(t *testing.T) {
	r := newCounterSystem(t, func(c *actors.Config) { c.IdleAfter = time.Nanosecond })
	done := make(chan struct{})
	var passivating, wg sync.WaitGroup
	passivating.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				r.clock.turn(time.Millisecond)
				r.system.Passivate()
			}
		}
	})
	for w := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 200 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				id := counterID((w + i) % 8)
				_, err := r.system.Ask(ctx, actors.Envelope{Kind: "counter", Stream: id, Workspace: id,
					Command: add{By: 1}})
				cancel()
				if err != nil {
					t.Errorf("lost: %v", err)
				}
			}
		}()
	}
	wg.Wait()
	close(done)
	passivating.Wait()
	var sum int64
	for i := range 8 {
		sum += r.readTotal(counterID(i))
	}
	require.EqualValues(t, 16*200, sum)
}

func TestAPanicAnswersOutcomeUnknown(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(11)
	_, err := r.ask(id, panicInDecide{}, nil)
	require.True(t, fault.Is(err, fault.OutcomeUnknown), "as the first command of an incarnation: %v", err)
	_, err = r.ask(id, add{By: 4}, nil)
	require.NoError(t, err)
	_, err = r.ask(id, panicInDecide{}, nil)
	require.True(t, fault.Is(err, fault.OutcomeUnknown), err)
	require.EqualValues(t, 4, r.readTotal(id))
}

func TestATimerFiresOnceAndOutlivesARestart(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(12)
	_, err := r.ask(id, alarm{At: r.clock.now().Add(time.Hour)}, nil)
	require.NoError(t, err)
	r.restart()
	fired := func() int {
		reply, err := r.ask(id, decision.Read{}, nil)
		require.NoError(t, err)
		return reply.(counter).Fired
	}
	require.Zero(t, fired())
	r.clock.turn(time.Hour)
	require.Eventually(t, func() bool { return fired() == 1 }, eventuallyWithin, pollEvery)
	due, err := r.journal.Timers(t.Context(), shardOf(t, id), r.clock.now().Add(time.Hour), persistence.Timer{}, 10)
	require.NoError(t, err)
	require.Empty(t, due)
}

func shardOf(t *testing.T, id string) ident.Shard {
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	return slot.Shard()
}

func TestAnotherTenantsActorIsNotFound(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(13)
	_, err := r.ask(id, add{By: 1}, nil)
	require.NoError(t, err)
	_, err = r.system.Ask(t.Context(), actors.Envelope{Kind: "counter", Stream: id, Workspace: counterID(14),
		Command: decision.Read{}})
	require.True(t, fault.Is(err, fault.NotFound), err)
	r.restart()
	_, err = r.system.Ask(t.Context(), actors.Envelope{Kind: "counter", Stream: id, Workspace: counterID(14),
		Command: add{By: 1}})
	require.True(t, fault.Is(err, fault.NotFound), err)
}

func TestAFullActorRefusesTheNextRequest(t *testing.T) {
	r := newCounterSystem(t, nil)
	id, gate := counterID(15), make(chan struct{})
	r.readTotal(id)
	r.journal.configure(func(f *faultyJournal) { f.appendGate = gate })
	const over = 5000 // more than maxPendingPerActor
	errs := make(chan error, over)
	for range over {
		go func() {
			_, err := r.ask(id, add{By: 1}, nil)
			errs <- err
		}()
	}
	refused := 0
	require.True(t, fault.Is(<-errs, fault.Unavailable))
	refused++
	close(gate)
	for range over - 1 {
		if err := <-errs; err != nil {
			require.True(t, fault.Is(err, fault.Unavailable), err)
			refused++
		}
	}
	require.EqualValues(t, over-refused, r.readTotal(id))
}

func TestStopRefusesNewRequestsAndLosesNone(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(16)
	var kept int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	system := r.system
	for range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				_, err := system.Ask(context.Background(), actors.Envelope{Kind: "counter", Stream: id, Workspace: id,
					Command: add{By: 1}})
				var f *fault.Error
				if errors.As(err, &f) {
					return
				}
				mu.Lock()
				kept++
				mu.Unlock()
			}
		}()
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return kept > 200 }, eventuallyWithin,
		pollEvery)
	r.restart()
	wg.Wait()
	require.EqualValues(t, kept, r.readTotal(id))
}

// TestAnActorThatCannotBeLoadedAnswersAndRecovers: while the journal cannot be read, the actor
// answers unavailable at once, and loads again when it can.
func TestAnActorThatCannotBeLoadedAnswersAndRecovers(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(17)
	_, err := r.ask(id, add{By: 6}, nil)
	require.NoError(t, err)
	r.restart()
	var reads atomic.Int64
	r.journal.configure(func(f *faultyJournal) {
		f.onRecord = func() error { reads.Add(1); return persistence.ErrUnavailable }
	})
	for range 3 {
		_, err = r.ask(id, decision.Read{}, nil)
		require.True(t, fault.Is(err, fault.Unavailable), err)
	}
	require.LessOrEqual(t, reads.Load(), int64(4), "an actor that cannot be loaded must not spin")
	r.journal.configure(func(f *faultyJournal) { f.onRecord = nil })
	require.EqualValues(t, 6, r.readTotal(id))
}

// TestAnUnwritableDecisionLeavesNoTrace: a decision whose event fails to encode has already changed
// the staged state; no later command may be decided on that state.
func TestAnUnwritableDecisionLeavesNoTrace(t *testing.T) {
	r := newCounterSystem(t, nil)
	id, gate := counterID(18), make(chan struct{})
	r.readTotal(id)
	r.journal.configure(func(f *faultyJournal) { f.appendGate = gate })
	answers := make(chan error, 3)
	ask := func(command any, pending int) {
		go func() {
			_, err := r.ask(id, command, nil)
			answers <- err
		}()
		require.Eventually(t, func() bool { h, err := r.system.Health(); return err == nil && h.Pending == pending },
			eventuallyWithin, pollEvery)
	}
	ask(add{By: 1}, 1)
	require.Eventually(t, func() bool { return r.journal.appends.Load() == 1 }, eventuallyWithin, pollEvery)
	ask(addUnencodable{}, 2)
	ask(add{By: 1}, 3)
	close(gate)
	failed := 0
	for range 3 {
		if <-answers != nil {
			failed++
		}
	}
	require.Equal(t, 1, failed)
	require.EqualValues(t, 2, r.readTotal(id))
	r.restart()
	require.EqualValues(t, 2, r.readTotal(id))
}
