package actors

import (
	"context"
	"errors"
	"sync"
	"time"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/ident"
	"purser/authorizer/hold"
)

// Limits of the relay.
const (
	relayRead   = 2048             // entries read from the log at a time
	relayRun    = balance.MaxRelay // entries of one workspace in one event
	relayCursor = "relay"
	retryPause  = 100 * time.Millisecond
)

// relay carries the authorizer's log to the journal: each workspace's run of entries to its balance actor, which commits them
// whole. Only what is synced is read, in order; an entry that was already committed is dropped by its number, so a crash repeats nothing.
func (s *System) relay(ctx context.Context, sh *shard) {
	for {
		if err := s.authorizer.WaitSynced(ctx, sh.id, sh.relayed.load()); err != nil {
			if ctx.Err() != nil {
				return
			}
			s.log.Error("relay", "shard", sh.id, "err", err)
			if !pause(ctx, retryPause) {
				return
			}
			continue
		}
		if err := s.relayOnce(ctx, sh); err != nil {
			if ctx.Err() != nil {
				return
			}
			s.log.Error("relay", "shard", sh.id, "err", err)
			if !pause(ctx, retryPause) {
				return
			}
		}
	}
}

func (s *System) relayOnce(ctx context.Context, sh *shard) error {
	entries, err := s.authorizer.ReadLog(sh.id, sh.relayed.load(), relayRead)
	if err != nil || len(entries) == 0 {
		return err
	}
	runs, order := byWorkspace(entries)
	errs := make([]error, len(order))
	var wg sync.WaitGroup
	for i, workspace := range order {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = s.relayRun(ctx, workspace, runs[workspace])
		}()
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	last := entries[len(entries)-1]
	if err := s.authorizer.MarkRelayed(sh.id, last.Seq); err != nil {
		return err
	}
	if err := s.journal.SaveCursor(ctx, relayCursor, sh.id, last.Seq); err != nil {
		return err
	}
	sh.debt.paid(entries)
	sh.relayed.advance(last.Seq)
	s.listener.Relayed(len(entries), time.UnixMilli(entries[0].At))
	return nil
}

func byWorkspace(entries []hold.Entry) (map[ident.UUID][]hold.Entry, []ident.UUID) {
	runs := make(map[ident.UUID][]hold.Entry)
	var order []ident.UUID
	for _, e := range entries {
		if runs[e.Workspace] == nil {
			order = append(order, e.Workspace)
		}
		runs[e.Workspace] = append(runs[e.Workspace], e)
	}
	return runs, order
}

// relayRun commits one workspace's entries. They are facts: only time can refuse them, so an unknown outcome is sent again and the
// numbers sort out what was kept.
func (s *System) relayRun(ctx context.Context, workspace ident.UUID, entries []hold.Entry) error {
	id := workspace.Format(ident.Workspace)
	for len(entries) > 0 {
		n := min(relayRun, len(entries))
		_, err := s.Ask(ctx, Envelope{Kind: "balance", Stream: id, Workspace: id, Command: balance.Relay{Entries: entries[:n]}})
		switch {
		case err == nil:
			entries = entries[n:]
		case fault.Is(err, fault.Unavailable) || fault.Is(err, fault.OutcomeUnknown):
			if !pause(ctx, retryPause) {
				return ctx.Err()
			}
		default:
			return err
		}
	}
	return nil
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
