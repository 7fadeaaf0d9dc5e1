package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
)

var concurrencyTests = map[string]func(*fixture){
	"many claim, one wins": func(f *fixture) {
		claim := once("http", "k", Start.Add(time.Hour))
		won := f.race(func(i int) *persistence.Batch { return batch(event("card", fmt.Sprint(i), 1), claim) }, func(err error) {
			var taken *persistence.OnceError
			require.ErrorAs(f.t, err, &taken)
		})
		require.Equal(f.t, 1, won)
	},
	"many write one version, one wins": func(f *fixture) {
		won := f.race(func(int) *persistence.Batch { return batch(event("card", "a", 1)) }, func(err error) {
			require.ErrorIs(f.t, err, persistence.ErrVersion)
		})
		require.Equal(f.t, 1, won)
	},
	"an epoch raised under a writer fences it between two batches": func(f *fixture) {
		const raises = 20
		f.now = Start
		writer := make(chan fenced, 1)
		go func() { writer <- f.writeUntilFenced() }()
		require.NoError(f.t, AwaitHead(f.ctx, f.j, f.shard, 3))
		var heads []persistence.Head
		var err error
		for range raises {
			heads, err = f.j.Raise(f.ctx, f.shard)
			require.NoError(f.t, err)
		}
		// The commits that the fenced writer knows of are at or below the first head that its
		// successor saw, and none came after.
		w := <-writer
		require.Contains(f.t, []uint64{w.told, w.asked}, heads[0].Position)
		require.Equal(f.t, heads[0].Position, f.j.Head(f.shard).Position)
	},
	"no advance is overlooked": func(f *fixture) {
		const lanes, appends = 8, 40
		work := make(chan error, lanes)
		for i := range lanes {
			slot := ident.Slot(0x100 + 16*i)
			heads, err := f.j.Raise(f.ctx, slot.Shard())
			require.NoError(f.t, err)
			go func() { work <- runLane(f, slot, heads[0].Epoch, appends) }()
		}
		for seen, advances, all := uint64(0), uint64(0), false; !all; seen = advances {
			var err error
			advances, err = f.j.WaitAdvance(f.ctx, seen) // never returns when the last advance is overlooked
			require.NoError(f.t, err)
			require.Greater(f.t, advances, seen)
			all = true
			for i := range lanes {
				all = all && f.j.Head(ident.Slot(0x100+16*i).Shard()).Position == 2*appends
			}
		}
		for range lanes {
			require.NoError(f.t, <-work)
		}
	},
	"lanes and followers": func(f *fixture) {
		const lanes, appends = 8, 40
		var work sync.WaitGroup
		errs := make(chan error, 3*lanes)
		for i := range lanes {
			slot := ident.Slot(0x100 + 16*i)
			heads, err := f.j.Raise(f.ctx, slot.Shard())
			require.NoError(f.t, err)
			work.Go(func() { errs <- runLane(f, slot, heads[0].Epoch, appends) })
			work.Go(func() { errs <- follow(f.ctx, f.j, slot.Shard(), 2*appends) })
			work.Go(func() { errs <- watch(f.ctx, f.j, slot, 2*appends) })
		}
		work.Wait()
		close(errs)
		for err := range errs {
			require.NoError(f.t, err)
		}
	},
}

// race appends batches from many callers at once and returns how many won; lost judges the others.
func (f *fixture) race(make func(i int) *persistence.Batch, lost func(error)) int {
	const callers = 16
	results := [callers]error{}
	var work sync.WaitGroup
	for i := range callers {
		work.Go(func() {
			outcomes, err := f.j.Append(f.ctx, f.shard, f.epoch, f.now, []*persistence.Batch{make(i)})
			if err == nil {
				err = outcomes[0].Err
			}
			results[i] = err
		})
	}
	work.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
			continue
		}
		lost(err)
	}
	require.EqualValues(f.t, won, f.j.Head(f.shard).Position)
	return won
}

// fenced has the last position that a fenced writer knows to be committed, and the last that may
// be. They differ when the writer was fenced in the middle of a commit.
type fenced struct{ told, asked uint64 }

// writeUntilFenced appends one event after another, and repeats those that were not written.
func (f *fixture) writeUntilFenced() fenced {
	for told := uint64(0); ; {
		outcomes, err := f.j.Append(f.ctx, f.shard, f.epoch, Start, []*persistence.Batch{batch(event("card", "a", told+1))})
		switch {
		case errors.Is(err, persistence.ErrUnavailable):
		case errors.Is(err, persistence.ErrAmbiguous):
			return fenced{told, told + 1}
		case err != nil || outcomes[0].Err != nil:
			return fenced{told, told}
		default:
			told++
		}
	}
}

// runLane appends groups of two batches: each an event, the state after it and a list entry. It
// fails with the journal's error and for an unexpected outcome.
func runLane(f *fixture, slot ident.Slot, epoch uint64, appends int) error {
	version := uint64(0)
	for range appends {
		var group []*persistence.Batch
		for range 2 {
			version++
			state := record("card", fmt.Sprint(slot), "", fmt.Sprint(version))
			state.Slot, state.Version = slot, version
			entry := record("entry", fmt.Sprint(slot, "-", version), "", `{}`)
			entry.Slot = slot
			group = append(group, &persistence.Batch{Workspace: workspace, Slot: slot,
				Events:  []persistence.Event{event("card", fmt.Sprint(slot), version)},
				Records: []persistence.Record{state, entry}})
		}
		outcomes, err := f.j.Append(f.ctx, slot.Shard(), epoch, Start, group)
		if err != nil {
			return err
		}
		if outcomes[1] != (persistence.Outcome{First: version, Last: version}) {
			return fmt.Errorf("version %d: outcome %+v", version, outcomes[1])
		}
		if head := f.j.Head(slot.Shard()).Position; head != version {
			return fmt.Errorf("head is %d after the answer of %d", head, version)
		}
	}
	return nil
}

// follow reads a shard as it grows, up to a position. It fails for a missing or repeated event, for
// one above the head, and with the journal's error.
func follow(ctx context.Context, j persistence.Journal, shard ident.Shard, to uint64) error {
	for at := uint64(0); at < to; {
		if err := AwaitHead(ctx, j, shard, at); err != nil {
			return err
		}
		events, err := j.Events(ctx, shard, at, 7)
		if err != nil {
			return err
		}
		head := j.Head(shard).Position
		if len(events) == 0 {
			return fmt.Errorf("nothing after %d at head %d", at, head)
		}
		for _, e := range events {
			if at++; e.Position != at || e.Version != at || at > head {
				return fmt.Errorf("event %d of version %d where %d is due, head %d", e.Position, e.Version, at, head)
			}
		}
	}
	return nil
}

// watch reads the documents of a shard as they change, until its head is at a position. It fails
// for documents of half a batch or above the head after the read, and with the journal's error.
func watch(ctx context.Context, j persistence.Journal, slot ident.Slot, to uint64) error {
	for seen := uint64(0); seen < to; {
		if err := AwaitHead(ctx, j, slot.Shard(), seen); err != nil {
			return err
		}
		state, err := j.Record(ctx, slot, "card", fmt.Sprint(slot))
		if err != nil {
			return err
		}
		entries, err := j.List(ctx, slot, "entry", workspace, "", persistence.Page{Limit: 1})
		if err != nil {
			return err
		}
		head := j.Head(slot.Shard()).Position
		if state.Version <= seen || len(entries) == 0 || entries[0].Position < state.Version {
			return errors.New("a read went back")
		}
		if state.Version > head || entries[0].Position > head {
			return fmt.Errorf("state %d and entry %d are shown before head %d", state.Version, entries[0].Position, head)
		}
		seen = state.Version
	}
	return nil
}
