package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// Load is a workload whose every step can be found in a journal afterwards, whole or not at all.
// Step appends to each of its shards in turn; Verify reads a journal, perhaps after a crash, and
// returns its faults.
//
// Batch n of a shard is two events (versions 2n−1 and 2n), the state record at version 2n, a list
// entry, a once and the shard's one timer moved to n seconds after Start. An entry older than keep
// batches is removed.
type Load struct {
	j persistence.Journal
	// epochs are what Raise last returned.
	epochs [loadShards]atomic.Uint64
	// asked and told count the batches of each shard that have begun, and those that were answered.
	asked, told [loadShards]atomic.Uint64
}

const (
	loadShards = 3
	loadGroup  = 2 // batches in one Append
	loadKeep   = 4 // entries of a shard that stay
)

func loadSlot(i int) ident.Slot { return ident.Slot(0x200 + 16*i) }

// Told has the answered batches of each shard, and its epoch.
type Told struct {
	batches, epochs [loadShards]uint64
}

// Told returns the counts of answered batches. It may be called while the workload runs.
func (l *Load) Told() Told {
	var told Told
	for i := range loadShards {
		told.batches[i], told.epochs[i] = l.told[i].Load(), l.epochs[i].Load()
	}
	return told
}

// Use continues the workload on a journal that was opened, and raises the epochs of its shards. It
// fails with the journal's error.
func (l *Load) Use(j persistence.Journal) error {
	l.j = j
	for i := range loadShards {
		heads, err := j.Raise(context.Background(), loadSlot(i).Shard())
		if err != nil {
			return err
		}
		l.epochs[i].Store(heads[0].Epoch)
	}
	return nil
}

// Continue takes the shards anew after a failed Step, on the same journal or on another, and
// continues after its events. A batch that was asked and not answered is there or not. No step may
// be under way. It fails with the journal's error, and when the journal lacks an answered batch.
func (l *Load) Continue(j persistence.Journal) error {
	if err := l.Use(j); err != nil {
		return err
	}
	for i := range loadShards {
		head := j.Head(loadSlot(i).Shard()).Position
		if told := l.told[i].Load(); head/2 < told {
			return fmt.Errorf("shard %d lost: %d batches are there, %d were answered", loadSlot(i).Shard(), head/2, told)
		}
		l.asked[i].Store(head / 2)
		l.told[i].Store(head / 2)
	}
	return nil
}

// Step appends one group of loadGroup batches to each shard. It fails with the journal's error, or
// the first one of a batch; Continue must then precede the next Step.
func (l *Load) Step() error {
	for i := range loadShards {
		var group []*persistence.Batch
		for range loadGroup {
			group = append(group, loadBatch(i, l.asked[i].Add(1)))
		}
		outcomes, err := l.j.Append(context.Background(), loadSlot(i).Shard(), l.epochs[i].Load(), Start, group)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			if o.Err != nil {
				return o.Err
			}
		}
		l.told[i].Add(loadGroup)
	}
	return nil
}

// loadBatch builds batch n of the i-th shard, as Load describes it.
func loadBatch(i int, n uint64) *persistence.Batch {
	stream := fmt.Sprint("card", i)
	state := record("card", stream, "", fmt.Sprint(n))
	state.Version = 2 * n
	b := &persistence.Batch{
		Workspace: workspace, Slot: loadSlot(i),
		Events:  []persistence.Event{event("card", stream, 2*n-1), event("card", stream, 2*n)},
		Records: []persistence.Record{state, record("entry", loadEntry(i, n), "", fmt.Sprint(n))},
		Onces:   []persistence.Once{loadOnce(i, n)},
		Timers:  []persistence.Timer{{Kind: "card", Stream: stream, Key: "t", Due: loadDue(n)}},
	}
	if n > loadKeep {
		b.Records = append(b.Records, persistence.Record{Kind: "entry", ID: loadEntry(i, n-loadKeep), Deleted: true})
	}
	for k := range b.Records {
		b.Records[k].Slot = b.Slot
	}
	return b
}

func loadEntry(i int, n uint64) string { return fmt.Sprintf("entry%d-%06d", i, n) }

func loadOnce(i int, n uint64) persistence.Once {
	return once("load", loadEntry(i, n), Start.Add(time.Hour))
}

func loadDue(n uint64) time.Time { return Start.Add(time.Duration(n) * time.Second) }

// Verify requires that the journal holds every answered batch, perhaps some more that were asked,
// each whole, and nothing else. It takes the result of Told at or before the crash. It returns the
// faults of all shards, joined.
func (l *Load) Verify(j persistence.Journal, told Told) error {
	var errs []error
	for i := range loadShards {
		if err := l.verify(j, i, told.batches[i], told.epochs[i]); err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", loadSlot(i).Shard(), err))
		}
	}
	return errors.Join(errs...)
}

// verify is Verify for the i-th shard. It fails for a lost epoch, for half a batch, for too few or
// too many batches, and with the errors of the four checks that it calls.
func (l *Load) verify(j persistence.Journal, i int, told, epoch uint64) error {
	head := j.Head(loadSlot(i).Shard())
	n := head.Position / 2
	switch {
	case head.Epoch < epoch:
		return fmt.Errorf("lost: epoch %d is there, %d was answered: a fenced writer is let in", head.Epoch, epoch)
	case head.Position%2 != 0:
		return fmt.Errorf("half a batch: head %d", head.Position)
	case n < told:
		return fmt.Errorf("lost: %d batches are there, %d were answered", n, told)
	case n > l.asked[i].Load():
		return fmt.Errorf("invented: %d batches are there, %d were asked", n, l.asked[i].Load())
	}
	return errors.Join(l.verifyEvents(j, i, n), l.verifyDocuments(j, i, n), l.verifyOnces(j, i, n), l.verifyTimer(j, i, n))
}

// verifyEvents requires that a shard has exactly the events of n batches. Any difference is an
// error. verify calls it.
func (l *Load) verifyEvents(j persistence.Journal, i int, n uint64) error {
	events, err := j.Events(context.Background(), loadSlot(i).Shard(), 0, persistence.MaxPage)
	if err != nil {
		return err
	}
	if uint64(len(events)) != 2*n {
		return fmt.Errorf("%d events at head %d", len(events), 2*n)
	}
	for k, e := range events {
		want := event("card", fmt.Sprint("card", i), uint64(k+1))
		if e.Position != uint64(k+1) || e.Version != want.Version || e.ID != want.ID ||
			string(e.Payload) != string(want.Payload) {
			return fmt.Errorf("event %d is %+v", k+1, e)
		}
	}
	return nil
}

// verifyDocuments requires that a shard has the state record and the list entries of n batches. Any
// difference is an error. verify calls it.
func (l *Load) verifyDocuments(j persistence.Journal, i int, n uint64) error {
	ctx, slot := context.Background(), loadSlot(i)
	state, err := j.Record(ctx, slot, "card", fmt.Sprint("card", i))
	if n == 0 && !errors.Is(err, persistence.ErrNotFound) {
		return fmt.Errorf("state %+v before the first batch: %w", state, err)
	}
	if n > 0 && (err != nil || state.Version != 2*n || string(state.Document) != fmt.Sprint(n)) {
		return fmt.Errorf("state of batch %d is %+v: %w", n, state, err)
	}
	entries, err := j.List(ctx, slot, "entry", workspace, "", persistence.Page{Limit: persistence.MaxPage})
	if err != nil {
		return err
	}
	walked, err := j.Records(ctx, slot.Shard(), "entry", "", persistence.MaxPage)
	if err != nil {
		return err
	}
	if want := min(n, loadKeep); uint64(len(entries)) != want || uint64(len(walked)) != want {
		return fmt.Errorf("%d entries listed and %d walked after batch %d", len(entries), len(walked), n)
	}
	for k, e := range entries {
		if want := loadEntry(i, n-uint64(k)); e.ID != want || walked[len(walked)-1-k].ID != want {
			return fmt.Errorf("entry %s where %s is due", e.ID, want)
		}
	}
	return nil
}

// verifyOnces requires that a shard has the once-keys of n batches and of no later ones. Any
// difference is an error. verify calls it.
func (l *Load) verifyOnces(j persistence.Journal, i int, n uint64) error {
	for k := uint64(1); k <= l.asked[i].Load(); k++ {
		want := loadOnce(i, k)
		got, ok, err := j.Once(context.Background(), loadSlot(i).Shard(), want.Scope, want.Hash, Start)
		if err != nil || ok != (k <= n) || ok && string(got.Answer) != string(want.Answer) {
			return fmt.Errorf("once of batch %d of %d is %+v, %t: %w", k, n, got, ok, err)
		}
	}
	return nil
}

// verifyTimer requires that a shard's one timer is the one of batch n. Any difference is an error.
// verify calls it.
func (l *Load) verifyTimer(j persistence.Journal, i int, n uint64) error {
	timers, err := j.Timers(context.Background(), loadSlot(i).Shard(), Start.Add(24*time.Hour), persistence.Timer{}, 10)
	if err != nil {
		return err
	}
	if n == 0 && len(timers) == 0 || n > 0 && len(timers) == 1 && timers[0].Due.Equal(loadDue(n)) {
		return nil
	}
	return fmt.Errorf("timers after batch %d: %+v", n, timers)
}
