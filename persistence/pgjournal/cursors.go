package pgjournal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/postgres"
)

// cursors are the places of subscribers that are not in the table yet: they are written behind. A crash may lose one anyway.
//
// While they cannot be written, SaveCursor keeps nothing and answers why: who follows the journal stands and says so, as it does
// when anything else fails, and its place in the table stays within a moment of where it is. Were the answer nil, a relay whose
// journal takes entries and not the place would go on for days, and the next start would look in the authorizer's log for entries
// that are no longer kept.
type cursors struct {
	*postgres.Behind[place, uint64]

	mu    sync.Mutex
	known map[place]bool // saved by this process; of others the first save does not wait
}

// place is that of a subscriber in a shard.
type place struct {
	shard ident.Shard
	name  string
}

// errFenced: the places belong to another process, or to a database that was set back.
var errFenced = fmt.Errorf("%w: places are written no more", persistence.ErrFenced)

func newCursors(write func(context.Context, map[place]uint64) error) *cursors {
	return &cursors{Behind: postgres.NewBehind(write), known: map[place]bool{}}
}

// keep takes note of a place to write, or says why not; false: its save has to be written at once.
func (c *cursors) keep(at place, position uint64) (kept bool, err error) {
	if err := c.Refusal(); err != nil {
		return false, err
	}
	c.mu.Lock()
	known := c.known[at]
	c.mu.Unlock()
	if !known {
		return false, nil
	}
	return true, c.Keep(at, position)
}

// know has later saves of a place kept, unless there are too many.
func (c *cursors) know(at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) < cursorPlaces {
		c.known[at] = true
	}
}

// Cursor implements persistence.Journal. A name that was never saved is at 0. What is not written yet is answered from memory,
// except under AsStored.
func (j *Journal) Cursor(ctx context.Context, name string, id ident.Shard) (uint64, error) {
	if !persistence.IsAsStored(ctx) {
		if err := j.enter(ctx); err != nil {
			return 0, err
		}
		// Before the table is read: what is written between the two would be missed the other way round.
		position, kept := j.cursors.Get(place{id, name})
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

// writeCursors looks at the heads first: who was succeeded meanwhile does not put back the places of the successor.
func (j *Journal) writeCursors(ctx context.Context, kept map[place]uint64) error {
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
		if err := j.cursors.Refusal(); err != nil {
			return err
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
