package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"purser/actors/fault"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// A workspace whose entries the journal or its balance refuses is set aside: the relay of its shard
// continues with the entries of the other workspaces. The authorizer's log keeps every entry from
// the first refused one, because the mark in both stores stays before it. A start therefore sends
// these entries again, and the balances drop accepted ones by their numbers. A workspace that is
// set aside is retried every asideEvery and by `purser relay retry`.

// asideEvery is the interval of retries of workspaces that are set aside.
const asideEvery = time.Minute

// maxUnknownRelays is the number of consecutive outcome_unknown answers, in a shard whose commits
// are resolved, that count as a refusal: a balance that panics gives no other answer.
const maxUnknownRelays = 8

// SetAside is a workspace that the relay skips. From is the first refused entry of the shard's log,
// Entries the number of the workspace's waiting entries.
type SetAside struct {
	Workspace string    `json:"workspace"`
	Shard     int       `json:"shard"`
	From      uint64    `json:"from"`
	Entries   int64     `json:"entries"`
	Since     time.Time `json:"since"`
	Reason    string    `json:"reason"`
}

// aside is the state of one workspace that is set aside. entries counts its entries up to through.
type aside struct {
	from, through uint64
	entries       int64
	since         time.Time
	err           error
}

// asides are the workspaces of a shard that are set aside.
type asides struct {
	turn sync.Mutex // held by a round of the relay and by a step of a retry
	// saved is the mark that both stores have; its holder has the turn.
	saved uint64

	mu  sync.Mutex
	all map[ident.UUID]*aside
}

// skipsRun reports whether a run's workspace is set aside. If so it counts the run's entries.
func (a *asides) skipsRun(r workspaceRun) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := a.all[r.workspace]
	if kept == nil {
		return false
	}
	kept.countEntries(r.entries)
	return true
}

func (a *aside) countEntries(entries []hold.Entry) {
	for i := range entries {
		if entries[i].Seq > a.through {
			a.through = entries[i].Seq
			a.entries++
		}
	}
}

// setAside sets a workspace aside from the first of the entries on; there must be at least one. err
// is the refusal and since its time; SetAside reports both.
func (a *asides) setAside(workspace ident.UUID, entries []hold.Entry, since time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[ident.UUID]*aside)
	}
	kept := &aside{from: entries[0].Seq, since: since, err: err}
	kept.countEntries(entries)
	a.all[workspace] = kept
}

// relayMark returns the number up to which no workspace has refused an entry of the log, at most
// through. markRelayed stores it.
func (a *asides) relayMark(through uint64) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, kept := range a.all {
		through = min(through, kept.from-1)
	}
	return through
}

// firstRefused returns the log number of the first entry that a workspace refused. is is false when
// the workspace is not set aside. A retry reads the log from there.
func (a *asides) firstRefused(workspace ident.UUID) (seq uint64, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := a.all[workspace]
	if kept == nil {
		return 0, false
	}
	return kept.from, true
}

// noteTaken notes that a workspace has accepted so many entries: all of its entries before next.
// With all, the workspace is no longer set aside.
func (a *asides) noteTaken(workspace ident.UUID, entries int, next uint64, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if all {
		delete(a.all, workspace)
		return
	}
	kept := a.all[workspace]
	kept.from, kept.entries = next, kept.entries-int64(entries)
}

// noteRefusal notes the reason of the last refusal.
func (a *asides) noteRefusal(workspace ident.UUID, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[workspace].err = err
}

// list returns the workspaces of a shard that are set aside, sorted by id.
func (a *asides) list(shard ident.Shard) (all []SetAside) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for workspace, kept := range a.all {
		all = append(all, SetAside{Workspace: workspace.Format(ident.Workspace), Shard: int(shard), From: kept.from,
			Entries: kept.entries, Since: kept.since.UTC(), Reason: kept.err.Error()})
	}
	slices.SortFunc(all, func(x, y SetAside) int { return cmp.Compare(x.Workspace, y.Workspace) })
	return all
}

// SetAside returns the workspaces that are set aside from the relay, by shard and then by id.
// `purser relay list` shows them.
func (s *System) SetAside() []SetAside {
	all := []SetAside{}
	for _, sh := range s.shards {
		all = append(all, sh.asides.list(sh.id)...)
	}
	return all
}

// RetrySetAside sends a workspace that is set aside its entries again; "" means every such
// workspace. The error joins, by workspace, refusals and failures to read the log or save the
// cursor. A workspace that is not set aside is no error.
func (s *System) RetrySetAside(ctx context.Context, workspace string) error {
	var faults []error
	for _, one := range s.SetAside() {
		if workspace != "" && one.Workspace != workspace {
			continue
		}
		id, err := ident.Parse(ident.Workspace, one.Workspace)
		if err == nil {
			err = s.relayer.retryAside(ctx, s.shards[one.Shard], id)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// retryAsides retries every workspace that is set aside, and logs the refusals.
func (s *System) retryAsides(ctx context.Context) {
	if err := s.RetrySetAside(ctx, ""); err != nil && ctx.Err() == nil {
		s.Complain("a workspace stays set aside from the relay; `purser relay list` shows it", err)
	}
}

// retryAside sends a workspace its entries, one run after another, until it has all of them. The
// relay of the shard may run between two runs. It returns the first error of retryAsideOnce.
func (l *relayer) retryAside(ctx context.Context, sh *shard, workspace ident.UUID) error {
	for {
		done, err := l.retryAsideOnce(ctx, sh, workspace)
		if done || err != nil {
			return err
		}
	}
}

// retryAsideOnce sends a workspace the next run of its entries. done reports that the workspace is
// no longer set aside. It fails when the log cannot be read, when the run is refused or late, after
// which the workspace stays set aside, and when markRelayed fails.
func (l *relayer) retryAsideOnce(ctx context.Context, sh *shard, workspace ident.UUID) (done bool, err error) {
	sh.asides.turn.Lock()
	defer sh.asides.turn.Unlock()
	from, is := sh.asides.firstRefused(workspace)
	if !is {
		return true, nil
	}
	passed := sh.relayed.load()
	log, err := l.authorizer.ReadLog(sh.id, from-1, int(min(relayRead, passed+1-from)))
	if err != nil {
		return false, fmt.Errorf("shard %d: decision log: %w", sh.id, err)
	}
	entries := make([]hold.Entry, 0, len(log))
	next := passed + 1
	for i := range log {
		if log[i].Workspace == workspace {
			entries = append(entries, log[i])
		}
		next = log[i].Seq + 1
	}
	within, cancel := context.WithTimeoutCause(ctx, l.within, errRelayLate)
	defer cancel()
	if _, err := l.sendRun(within, sh, workspace, entries); err != nil {
		sh.asides.noteRefusal(workspace, err)
		return false, err
	}
	done = next > passed
	sh.asides.noteTaken(workspace, len(entries), next, done)
	if done {
		l.log.Info("the relay has a workspace back that was set aside", "workspace", workspace.Format(ident.Workspace))
	}
	return done, l.markRelayed(ctx, sh, passed)
}

// setAside makes the relay skip a workspace from the first of the entries on.
func (l *relayer) setAside(sh *shard, workspace ident.UUID, entries []hold.Entry, err error) {
	sh.asides.setAside(workspace, entries, l.clock(), err)
	l.log.Error("a workspace is set aside from the relay: its entries are refused; they are kept and sent again, "+
		"and `purser relay retry` sends them at once", "workspace", workspace.Format(ident.Workspace), "shard", sh.id,
		"entry", entries[0].Seq, "err", err)
}

// markRelayed stores in both stores the position from which a start reads the log. Entries up to
// through are accepted or set aside, and leave the backlog. It fails with the error of the store
// that did not take it. The caller has locked asides.turn.
func (l *relayer) markRelayed(ctx context.Context, sh *shard, through uint64) error {
	mark := sh.asides.relayMark(through)
	if mark < through {
		if err := l.authorizer.PassRelayed(sh.id, through); err != nil {
			return err
		}
	}
	if mark > sh.asides.saved {
		if err := l.authorizer.MarkRelayed(sh.id, mark); err != nil {
			return err
		}
		if err := l.journal.SaveCursor(ctx, relayCursor, sh.id, mark); err != nil {
			return err
		}
		sh.asides.saved = mark
	}
	return nil
}

// outcomeLeftOpen reports whether the answer to a run is outcome_unknown although the context has
// not ended and the shard has no unresolved commit, as after a panic of the balance.
func outcomeLeftOpen(ctx context.Context, sh *shard, err error) bool {
	return fault.Is(err, fault.OutcomeUnknown) && ctx.Err() == nil && !sh.lost.Load()
}
