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
	"purser/persistence/ident"
)

// Limits of the relay.
const (
	relayRead = relayRun         // entries read from the log at a time
	relayRun  = balance.MaxRelay // entries of one workspace in one event
	// relayAtOnce is how many entries are on their way to the journal, over all shards: what they become there is several times
	// as long, and after a storm the shards together would hold a gigabyte of it.
	relayAtOnce = 16 * relayRead
	// relayWithin ends a round whose entries are not taken. Its shard then shares relayAtOnce more with others like it until a round
	// of its own is taken: shards that stand must not keep the rest from sending.
	relayWithin = 10 * time.Second
	relayCursor = "relay"
	retryPause  = 100 * time.Millisecond
	// relayEvery is how far apart rounds are that have read all there was, so that the entries of a busy shard share events and
	// commits: without it nearly every entry had an event of its own, and the journal took twice the processor time that the swipes
	// took. The shards have their turns one after the other in it. Who waits for the journal to show an entry ends the rest, but for
	// relayRest: a workspace that is read all the time has its entries share events too.
	relayEvery = 250 * time.Millisecond
	relayRest  = 50 * time.Millisecond
	// relayResidues is how many groups of shards have their turns one after the other.
	relayResidues = 32
)

// relay carries the authorizer's log to the journal: each workspace's run of entries to its balance actor, which commits them
// whole. Only what is synced is read, in order; an entry that was already committed is dropped by its number, so a crash repeats
// nothing. A workspace whose entries are refused is set aside (aside.go).
func (s *System) relay(ctx context.Context, sh *shard) {
	places := s.relaying
	for {
		if err := s.authorizer.WaitSynced(ctx, sh.id, sh.relayed.load()); err != nil {
			if ctx.Err() != nil {
				return
			}
			s.Complain("relay", err, "shard", sh.id)
			if !pause(ctx, retryPause) {
				return
			}
			continue
		}
		more, err := s.relayOnce(ctx, sh, places)
		late := errors.Is(err, errRelayLate)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			if !late { // the actor or the journal has logged why a round is late
				s.Complain("relay", err, "shard", sh.id)
			}
		}
		if places = s.relaying; late {
			places = s.relayingLate
		}
		rested := more
		switch {
		case err != nil:
			rested = pause(ctx, retryPause)
		case !more:
			rested = s.rest(ctx, sh)
		}
		if !rested {
			return
		}
	}
}

// rest is the pause after a round, until the shard's next turn; false when the context ended.
func (s *System) rest(ctx context.Context, sh *shard) bool {
	if !pause(ctx, relayRest) {
		return false
	}
	every := s.config.RelayEvery
	turn := every * time.Duration(relayTurn(sh.id)) / ident.Shards
	passed := time.Duration(s.clock().UnixNano()) % every
	select {
	case <-ctx.Done():
		return false
	case <-sh.wanted:
	case <-time.After(1 + (turn-passed+every-1)%every):
	}
	return true
}

// relayTurn is the place of a shard's turn among the shards'. Those of one residue follow each other: a store that parts its shards
// so, as Postgres's lanes do and a topic's partitions, has them together and takes several at a time.
func relayTurn(id ident.Shard) int {
	return int(id)%relayResidues*(ident.Shards/relayResidues) + int(id)/relayResidues
}

// awaitRelayed waits until the journal has what was decided by now.
func (s *System) awaitRelayed(ctx context.Context, sh *shard) error {
	decided := s.authorizer.Synced(sh.id)
	if sh.relayed.load() < decided {
		select {
		case sh.wanted <- struct{}{}:
		default: // the relay has been told already
		}
	}
	return sh.relayed.wait(ctx, decided)
}

// relayOnce is one round, as soon as there are places for its entries. It tells whether there are more for another at once.
func (s *System) relayOnce(ctx context.Context, sh *shard, places *semaphore.Weighted) (more bool, err error) {
	select {
	case <-sh.wanted: // this round brings what is waited for
	default:
	}
	waiting := int64(min(relayRead, s.authorizer.Synced(sh.id)-sh.relayed.load()))
	queued := !places.TryAcquire(waiting)
	if queued {
		if err := places.Acquire(ctx, waiting); err != nil {
			return false, err
		}
	}
	defer places.Release(waiting)
	sh.asides.turn.Lock()
	defer sh.asides.turn.Unlock()
	entries, err := s.authorizer.ReadLog(sh.id, sh.relayed.load(), int(waiting))
	if err != nil || len(entries) == 0 {
		return false, err
	}
	taken, err := s.relayAll(ctx, sh, entries)
	if err != nil {
		return false, err
	}
	last := entries[len(entries)-1]
	if err := s.markRelayed(ctx, sh, last.Seq); err != nil {
		return false, err
	}
	sh.exposure.subtractRelayed(entries)
	sh.relayed.advance(last.Seq)
	s.listener.Relayed(taken, time.UnixMilli(entries[0].At))
	// What came while the round had to queue has rested already.
	return len(entries) == relayRead || queued && s.authorizer.Synced(sh.id) > last.Seq, nil
}

// relayAll has each workspace take its entries, but for those that are set aside, and returns how
// many were taken. A workspace that refuses its entries is set aside. errRelayLate: not all have
// taken theirs within relayWithin.
func (s *System) relayAll(ctx context.Context, sh *shard, entries []hold.Entry) (taken int, err error) {
	within, cancel := context.WithTimeoutCause(ctx, s.config.RelayWithin, errRelayLate)
	defer cancel()
	runs := splitByWorkspace(entries)
	rests, errs := make([][]hold.Entry, len(runs)), make([]error, len(runs))
	var wg sync.WaitGroup
	for i, r := range runs {
		if sh.asides.passesBy(r) {
			rests[i] = r.entries
			continue
		}
		wg.Go(func() { rests[i], errs[i] = s.relayRun(within, sh, r.workspace, r.entries) })
	}
	wg.Wait()
	for i, r := range runs {
		if errors.Is(errs[i], errRelayRefused) {
			s.setAside(sh, r.workspace, rests[i], errs[i])
			errs[i] = nil
		}
		taken += len(r.entries) - len(rests[i])
	}
	return taken, errors.Join(errs...)
}

// run is what one workspace has in a round, in the order of the log.
type workspaceRun struct {
	workspace ident.UUID
	entries   []hold.Entry
}

// byWorkspace parts a round into its runs, in the order in which they begin. Entries are long: they are counted first, so that
// each is copied once, and none when all are of one workspace. Nobody may change them afterwards, for a balance that did not
// answer in time may still read them.
func splitByWorkspace(entries []hold.Entry) []workspaceRun {
	var runs []workspaceRun
	var lengths []int
	at := make(map[ident.UUID]int) // of a workspace: which run is its
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

// errRelayRefused: the journal or the balance refuses a fact. That is a bug, and the workspace is
// set aside until a repair. errRelayLate: the outcome of an entry is not known in time; the entry
// is sent again.
var (
	errRelayRefused = errors.New("entries refused")
	errRelayLate    = errors.New("entries not taken in time")
)

// relayRun commits one workspace's entries, and returns those that were not committed. Entries are
// facts: one with an unknown outcome is sent again, and the balance drops repeats by their numbers.
func (s *System) relayRun(ctx context.Context, sh *shard, workspace ident.UUID, entries []hold.Entry) ([]hold.Entry,
	error) {
	id := workspace.Format(ident.Workspace)
	for unknown := 0; len(entries) > 0; {
		n := min(relayRun, len(entries))
		_, err := s.Ask(ctx, Envelope{Kind: "balance", Stream: id, Workspace: id, Command: balance.Relay{Entries: entries[:n]}})
		if s.notTaken(ctx, sh, err) {
			unknown++
		}
		switch {
		case err == nil:
			entries, unknown = entries[n:], 0
		case unknown < maxUnknownRelays && (fault.Is(err, fault.Unavailable) || fault.Is(err, fault.OutcomeUnknown)):
			if !pause(ctx, retryPause) {
				return entries, context.Cause(ctx)
			}
		default:
			return entries, fmt.Errorf("%w: %s: %w", errRelayRefused, id, err)
		}
	}
	return nil, nil
}

// pause waits; false when the context ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
