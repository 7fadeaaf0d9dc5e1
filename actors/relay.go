package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

// Limits of the relay.
const (
	relayRead = relayRun         // entries read from the log at a time
	relayRun  = balance.MaxRelay // entries of one workspace in one event
	// relayAtOnce bounds the entries of all shards that are being sent to the journal. The events
	// made of them are several times as long; without the bound a backlog of all shards would take
	// a gigabyte of memory.
	relayAtOnce = 16 * relayRead
	// relayWithin bounds a round whose entries are not accepted. Until a later round of its shard
	// succeeds, the shard uses a second set of relayAtOnce places with others like it, so that
	// stuck shards do not keep the rest from sending.
	relayWithin = 10 * time.Second
	relayCursor = "relay"
	retryPause  = 100 * time.Millisecond
	// relayEvery is the interval of rounds that empty the log, so that the entries of a busy shard
	// share events and commits. Without it nearly every entry had an event of its own, and the
	// journal took twice the processor time of the swipes. The shards take turns within the
	// interval. A read that waits for an entry ends the pause, but not before relayMinPause: the
	// entries of a workspace that is read all the time share events too.
	relayEvery    = 250 * time.Millisecond
	relayMinPause = 50 * time.Millisecond
	// relayResidues is the number of groups of shards whose turns follow each other.
	relayResidues = 32
)

// relayer sends the authorizer's log to the journal.
type relayer struct {
	*loops
	journal       persistence.Journal
	authorizer    Authorizer
	ask           func(context.Context, Envelope) (any, error)
	listener      Listener
	every, within time.Duration
	// places and latePlaces have relayAtOnce places each, one for each entry.
	places, latePlaces *semaphore.Weighted
}

func newRelayer(s *System) *relayer {
	return &relayer{loops: s.loops, journal: s.journal, authorizer: s.authorizer, ask: s.Ask, listener: s.listener,
		every: s.config.RelayEvery, within: s.config.RelayWithin,
		places: semaphore.NewWeighted(relayAtOnce), latePlaces: semaphore.NewWeighted(relayAtOnce)}
}

// wake starts run for a shard unless it runs. It never blocks.
func (l *relayer) wake(sh *shard) {
	if sh.relaying.CompareAndSwap(false, true) {
		l.Go(func(ctx context.Context) { l.run(ctx, sh) })
	}
}

// mayRest reports that the journal has the shard's log, or that wake has started another run. The
// goroutine then ends.
func (l *relayer) mayRest(sh *shard) bool {
	if l.hasUnrelayed(sh) {
		return false
	}
	sh.relaying.Store(false)
	// wake did nothing for an entry that came before the store; the entry is visible now.
	return !l.hasUnrelayed(sh) || !sh.relaying.CompareAndSwap(false, true)
}

func (l *relayer) hasUnrelayed(sh *shard) bool { return l.authorizer.Synced(sh.id) > sh.relayed.load() }

// run sends the authorizer's log to the journal: each workspace's run of entries goes to its
// balance actor, which commits the run whole. At most one run works on a shard at a time. It ends
// when the journal has the shard's log, or the System stops. It reads synced entries only, in
// order. A failed round is logged and tried again; the balance drops repeated entries by their
// numbers, so a repeat changes nothing. A workspace whose entries are refused is set aside
// (aside.go).
func (l *relayer) run(ctx context.Context, sh *shard) {
	places := l.places
	for rested := true; rested && !l.mayRest(sh); {
		more, err := l.relayRound(ctx, sh, places)
		late := errors.Is(err, errRelayLate)
		if err != nil && !late && ctx.Err() == nil { // the actor or the journal has logged why a run is late
			l.Complain("relay", err, "shard", sh.id)
		}
		if places = l.places; late {
			places = l.latePlaces
		}
		switch {
		case err != nil:
			rested = retry.Pause(ctx, retryPause)
		case !more:
			rested = l.pauseUntilTurn(ctx, sh)
		}
	}
}

// pauseUntilTurn pauses after a round until the shard's next turn, at least for relayMinPause. It
// returns false when the context has ended.
func (l *relayer) pauseUntilTurn(ctx context.Context, sh *shard) bool {
	if !retry.Pause(ctx, relayMinPause) {
		return false
	}
	every := l.every
	turn := every * time.Duration(relayTurn(sh.id)) / ident.Shards
	passed := time.Duration(l.clock().UnixNano()) % every
	select {
	case <-ctx.Done():
		return false
	case <-sh.wanted:
	case <-time.After(1 + (turn-passed+every-1)%every):
	}
	return true
}

// relayTurn returns the place of a shard's turn in the relay's interval, from 0 to ident.Shards-1.
// The shards of one residue follow each other: stores that partition shards by residue (the lanes
// of Postgres, the partitions of a topic) get them together and commit several at a time.
func relayTurn(id ident.Shard) int {
	return int(id)%relayResidues*(ident.Shards/relayResidues) + int(id)/relayResidues
}

// awaitRelayed waits until the journal has the decisions that were synced at the call, and ends the
// relay's pause. It fails only when the context ends first.
func (l *relayer) awaitRelayed(ctx context.Context, sh *shard) error {
	decided := l.authorizer.Synced(sh.id)
	if sh.relayed.load() < decided {
		select {
		case sh.wanted <- struct{}{}:
		default: // a wake-up is already pending
		}
	}
	return sh.relayed.wait(ctx, decided)
}

// relayRound sends the next entries of a shard's log, at most relayRead, once it has acquired
// places for them. more reports that another round should follow without a pause. It fails when the
// log cannot be read, when a run was not accepted in time (errRelayLate), and when the cursor
// cannot be stored; the next round then sends the entries again.
func (l *relayer) relayRound(ctx context.Context, sh *shard, places *semaphore.Weighted) (more bool, err error) {
	select {
	case <-sh.wanted: // this round sends the awaited entries
	default:
	}
	waiting := int64(min(relayRead, l.authorizer.Synced(sh.id)-sh.relayed.load()))
	queued := !places.TryAcquire(waiting)
	if queued {
		if err := places.Acquire(ctx, waiting); err != nil {
			return false, err
		}
	}
	defer places.Release(waiting)
	sh.asides.turn.Lock()
	defer sh.asides.turn.Unlock()
	entries, err := l.authorizer.ReadLog(sh.id, sh.relayed.load(), int(waiting))
	if err != nil || len(entries) == 0 {
		return false, err
	}
	taken, err := l.sendRuns(ctx, sh, entries)
	if err != nil {
		return false, err
	}
	last := entries[len(entries)-1]
	if err := l.markRelayed(ctx, sh, last.Seq); err != nil {
		return false, err
	}
	sh.exposure.subtractRelayed(entries)
	sh.relayed.advance(last.Seq)
	sh.pending.dropRelayed(last.Seq)
	l.listener.Relayed(taken, time.UnixMilli(entries[0].At))
	// Entries that arrived while the round waited for places have had their pause.
	return len(entries) == relayRead || queued && l.authorizer.Synced(sh.id) > last.Seq, nil
}

// sendRuns sends each workspace its run, except workspaces that are set aside, and returns the
// number of accepted entries. It sets aside a workspace that refuses its entries. The error is
// errRelayLate when not every run was accepted within Config.RelayWithin.
func (l *relayer) sendRuns(ctx context.Context, sh *shard, entries []hold.Entry) (taken int, err error) {
	within, cancel := context.WithTimeoutCause(ctx, l.within, errRelayLate)
	defer cancel()
	runs := splitByWorkspace(entries)
	rests, errs := make([][]hold.Entry, len(runs)), make([]error, len(runs))
	var wg sync.WaitGroup
	for i, r := range runs {
		if sh.asides.skipsRun(r) {
			rests[i] = r.entries
			continue
		}
		wg.Go(func() { rests[i], errs[i] = l.sendRun(within, sh, r.workspace, r.entries) })
	}
	wg.Wait()
	for i, r := range runs {
		if errors.Is(errs[i], errRelayRefused) {
			l.setAside(sh, r.workspace, rests[i], errs[i])
			errs[i] = nil
		}
		taken += len(r.entries) - len(rests[i])
	}
	return taken, errors.Join(errs...)
}

// workspaceRun is the entries of one workspace in a round, in the order of the log.
type workspaceRun struct {
	workspace ident.UUID
	entries   []hold.Entry
}

// splitByWorkspace splits a round into runs, in the order of their first entries. Entries are
// large: they are counted first and copied once, or not at all when the round has one workspace.
// The result must not be modified, because a balance that answers late may still read it.
func splitByWorkspace(entries []hold.Entry) []workspaceRun {
	var runs []workspaceRun
	var lengths []int
	at := make(map[ident.UUID]int) // index of a workspace's run
	for i := range entries {
		workspace := entries[i].Workspace
		r, there := at[workspace]
		if !there {
			r = len(runs)
			at[workspace] = r
			runs, lengths = append(runs, workspaceRun{workspace: workspace}), append(lengths, 0)
		}
		lengths[r]++
	}
	if len(runs) == 1 {
		runs[0].entries = entries
		return runs
	}
	room := make([]hold.Entry, len(entries))
	for r, n := range lengths {
		runs[r].entries, room = room[:0:n], room[n:]
	}
	for i := range entries {
		r := &runs[at[entries[i].Workspace]]
		r.entries = append(r.entries, entries[i])
	}
	return runs
}

// errRelayRefused: the journal or the balance refuses an entry, which is a bug. The workspace is
// set aside until a repair. errRelayLate: the outcome of an entry is unknown after
// Config.RelayWithin; the entry is sent again.
var (
	errRelayRefused = errors.New("entries refused")
	errRelayLate    = errors.New("entries not taken in time")
)

// sendRun commits one workspace's entries, at most relayRun in one command, and returns those that
// were not committed. A run that is answered unavailable or outcome_unknown is sent again: the
// balance drops repeats by their numbers. It fails with errRelayRefused for any other answer, or
// after maxUnknownRelays unknown outcomes, and with the context's cause (errRelayLate) when the
// time is over.
func (l *relayer) sendRun(ctx context.Context, sh *shard, workspace ident.UUID, entries []hold.Entry) ([]hold.Entry,
	error) {
	id := workspace.Format(ident.Workspace)
	for unknown := 0; len(entries) > 0; {
		n := min(relayRun, len(entries))
		_, err := l.ask(ctx, Envelope{Kind: KindBalance, Stream: id, Workspace: id,
			Command: balance.Relay{Entries: entries[:n]}})
		if outcomeLeftOpen(ctx, sh, err) {
			unknown++
		}
		switch {
		case err == nil:
			entries, unknown = entries[n:], 0
		case unknown < maxUnknownRelays && (fault.Is(err, fault.Unavailable) || fault.Is(err, fault.OutcomeUnknown)):
			if !retry.Pause(ctx, retryPause) {
				return entries, context.Cause(ctx)
			}
		default:
			return entries, fmt.Errorf("%w: %s: %w", errRelayRefused, id, err)
		}
	}
	return nil, nil
}
