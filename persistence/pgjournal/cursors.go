package pgjournal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/actors/ident"
	"purser/persistence"
	"purser/persistence/postgres"
)

// cursors are the places of subscribers that are not in the table yet: they are written behind, all that have moved in one
// statement every cursorEvery. A statement for each save would be most of what the server does, and a crash may lose one anyway.
//
// While they cannot be written, SaveCursor keeps nothing and answers why: who follows the journal stands and says so, as it does when
// anything else fails, and its place in the table stays within a moment of where it is. Were the answer nil, a relay whose journal
// takes entries and not the place would go on for days, and the next start would look in the authorizer's log for entries that are
// no longer kept.
type cursors struct {
	wake chan struct{} // holds one token when there is something to write
	turn sync.Mutex    // of who writes

	mu      sync.Mutex
	known   map[place]bool   // saved by this process; of others the first save does not wait
	dirty   map[place]uint64 // to be written
	writing map[place]uint64 // on their way; dirty has what was saved since
	failed  error            // of the last write; nil: it has succeeded
	fenced  bool             // Options.Fatal was told
}

// place is that of a subscriber in a shard.
type place struct {
	shard ident.Shard
	name  string
}

// errFenced: the places belong to another process, or to a database that was set back.
var errFenced = fmt.Errorf("%w: places are written no more", persistence.ErrFenced)

func newCursors() *cursors {
	return &cursors{wake: make(chan struct{}, 1), known: map[place]bool{}, dirty: map[place]uint64{}}
}

// fence ends all writing.
func (c *cursors) fence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fenced = true
}

// get returns a place that is not known to be in the table.
func (c *cursors) get(at place) (position uint64, kept bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if position, kept = c.dirty[at]; !kept {
		position, kept = c.writing[at]
	}
	return position, kept
}

// keep takes note of a place to write, or says why not; false: its save has to be written at once.
func (c *cursors) keep(at place, position uint64) (kept bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fenced {
		return false, errFenced
	}
	if !c.known[at] {
		return false, nil
	}
	if c.failed != nil {
		return true, c.failed
	}
	c.dirty[at] = position
	c.awake()
	return true, nil
}

func (c *cursors) awake() {
	select {
	case c.wake <- struct{}{}:
	default: // there is a token
	}
}

// know has later saves of a place kept, unless there are too many.
func (c *cursors) know(at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) < cursorPlaces {
		c.known[at] = true
	}
}

// take returns what is to be written. It is answered by get until settle is told how that went.
func (c *cursors) take() map[place]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing, c.dirty = c.dirty, map[place]uint64{}
	return c.writing
}

// settle has what could not be written tried again, but for what was saved since.
func (c *cursors) settle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed = err; err != nil {
		maps.Copy(c.writing, c.dirty)
		c.dirty = c.writing
		c.awake()
	}
	c.writing = nil
}

func (c *cursors) isFenced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fenced
}

// Cursor implements persistence.Journal. A name that was never saved is at 0. What is not written yet is answered from memory,
// except under AsStored.
func (j *Journal) Cursor(ctx context.Context, name string, id ident.Shard) (uint64, error) {
	if !persistence.IsAsStored(ctx) {
		if err := j.enter(ctx); err != nil {
			return 0, err
		}
		// Before the table is read: what is written between the two would be missed the other way round.
		position, kept := j.cursors.get(place{id, name})
		j.leave()
		if kept {
			return position, nil
		}
	}
	var position int64
	err := j.look(ctx, id, func(results pgx.BatchResults) error {
		err := results.QueryRow().Scan(&position)
		if errors.Is(err, pgx.ErrNoRows) {
			return persistence.ErrNotFound
		}
		return err
	}, sqlCursor, int16(id), name)
	if errors.Is(err, persistence.ErrNotFound) {
		return 0, nil
	}
	return uint64(position), err
}

// SaveCursor implements persistence.Journal. It does not wait for a sync, and only the first save of a place by this process
// waits for the server: a consumer that begins somewhere hears whether that is kept. The others are written behind. After
// ErrUnavailable the place may have been saved or not; ErrFenced: another process saves it now.
func (j *Journal) SaveCursor(ctx context.Context, name string, id ident.Shard, position uint64) error {
	if len(name) > persistence.MaxName {
		return fmt.Errorf("%w: cursor name of %d bytes", persistence.ErrTooLarge, len(name))
	}
	if err := j.enter(ctx); err != nil {
		return err
	}
	defer j.leave()
	at := place{id, name}
	if kept, err := j.cursors.keep(at, position); kept || err != nil {
		return err
	}
	err := j.putCursors(ctx, map[place]uint64{at: position}, []place{at})
	if err == nil {
		j.cursors.know(at)
	}
	return err
}

// writeBehind writes what was kept, cursorEvery after there is something, until the journal closes or is fenced.
func (j *Journal) writeBehind(alive context.Context) {
	failing := false
	for {
		select {
		case <-alive.Done():
			return
		case <-j.cursors.wake:
		}
		select {
		case <-alive.Done():
			return
		case <-time.After(cursorEvery):
		}
		// Close waits for a write under way, as it does for a commit: one that was given up could come after the last.
		err := j.writeCursors(context.Background())
		switch {
		case errors.Is(err, persistence.ErrFenced): // Fatal was told
			return
		case err != nil && !failing:
			j.note(fmt.Errorf("journal cannot write the places of subscribers: %w", err))
		}
		failing = err != nil
	}
}

// writeCursors writes every place that was kept before the call.
func (j *Journal) writeCursors(ctx context.Context) error {
	j.cursors.turn.Lock()
	defer j.cursors.turn.Unlock()
	kept := j.cursors.take()
	err := j.writeKept(ctx, kept)
	j.cursors.settle(err)
	return err
}

// writeKept looks at the heads first: who was succeeded meanwhile does not put back the places of the successor.
func (j *Journal) writeKept(ctx context.Context, kept map[place]uint64) error {
	if len(kept) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, j.slack*queryTimeout)
	defer cancel()
	if err := j.refresh(ctx); err != nil {
		j.lost(err)
		return unavailable(err)
	}
	// In one order, so that two processes do not wait for each other in a circle.
	places := slices.SortedFunc(maps.Keys(kept), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.name, b.name))
	})
	for some := range slices.Chunk(places, cursorMax) {
		if j.cursors.isFenced() {
			return errFenced
		}
		if err := j.putCursors(ctx, kept, some); err != nil {
			return err
		}
	}
	return nil
}

// putCursors writes places in one transaction, whose commit is not synced.
func (j *Journal) putCursors(ctx context.Context, positions map[place]uint64, places []place) error {
	shards, names, column := make([]int16, len(places)), make([]string, len(places)), make([]int64, len(places))
	for i, at := range places {
		shards[i], names[i], column[i] = int16(at.shard), at.name, int64(positions[at])
	}
	b := &pgx.Batch{}
	b.Queue(postgres.Lazily)
	b.Queue(sqlSaveCursors, shards, names, column)
	return j.ask(ctx, b, func(results pgx.BatchResults) error {
		_, err := results.Exec()
		if err == nil {
			_, err = results.Exec()
		}
		return err
	})
}
