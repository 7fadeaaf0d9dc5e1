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

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/postgres"
)

// cursors holds the cursors that are not in the table yet: they are written behind. A crash may
// lose the last changes.
//
// While writes fail, SaveCursor stores nothing and returns the error. Subscribers then stop and
// report it, as with every other error, and the stored cursor stays close to the real one. If it
// returned nil instead, a relay could run for days with a stale cursor. The next start would then
// look in the authorizer's log for entries that are deleted already.
type cursors struct {
	*postgres.WriteBehind[cursorKey, uint64]

	mu    sync.Mutex
	saved map[cursorKey]bool // cursors that this process has written once
}

// cursorKey names the cursor of a subscriber in a shard.
type cursorKey struct {
	shard ident.Shard
	name  string
}

// errFenced: another process owns the cursors now, or the database has lost commits.
var errFenced = fmt.Errorf("%w: cursors are no longer written", persistence.ErrFenced)

func newCursors(interval time.Duration, write func(context.Context, map[cursorKey]uint64) error) *cursors {
	return &cursors{WriteBehind: postgres.NewWriteBehind(interval, write), saved: map[cursorKey]bool{}}
}

// keepPosition stores a position to be written behind. kept is false for the first save of a
// cursor, which has to be written at once. It fails with the error of an earlier write, or after
// the journal has stopped, and then stores nothing.
func (c *cursors) keepPosition(at cursorKey, position uint64) (kept bool, err error) {
	if err := c.Refusal(); err != nil {
		return false, err
	}
	c.mu.Lock()
	known := c.saved[at]
	c.mu.Unlock()
	if !known {
		return false, nil
	}
	return true, c.Put(at, position)
}

// markSaved notes that SaveCursor has written a cursor to the table: later saves are written
// behind. Of cursors beyond maxCursorsBehind it notes nothing, so each of their saves waits for
// the server.
func (c *cursors) markSaved(at cursorKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.saved) < maxCursorsBehind {
		c.saved[at] = true
	}
}

// Cursor implements persistence.Journal. A cursor that was never saved is 0. A position that is not
// written yet comes from memory, except under AsStored. It fails with ErrUnavailable, or with
// ErrFenced when another process has taken the shard.
func (j *Journal) Cursor(ctx context.Context, name string, id ident.Shard) (uint64, error) {
	if !persistence.IsAsStored(ctx) {
		if err := j.beginCall(ctx); err != nil {
			return 0, err
		}
		// Memory is read before the table. The other order would miss a position that is written in
		// between.
		position, kept := j.cursors.Get(cursorKey{id, name})
		j.endCall()
		if kept {
			return position, nil
		}
	}
	var position int64
	err := j.readWithHead(ctx, id, func(results pgx.BatchResults) error {
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

// SaveCursor implements persistence.Journal. Only the first save of a cursor by this process waits
// for the server, so that a new subscriber learns of an error. Later saves are written behind. No
// save waits for a sync. After ErrUnavailable the position may be saved or not. ErrFenced: another
// process owns the cursors.
func (j *Journal) SaveCursor(ctx context.Context, name string, id ident.Shard, position uint64) error {
	if len(name) > persistence.MaxName {
		return fmt.Errorf("%w: cursor name of %d bytes", persistence.ErrTooLarge, len(name))
	}
	if err := j.beginCall(ctx); err != nil {
		return err
	}
	defer j.endCall()
	at := cursorKey{id, name}
	if kept, err := j.cursors.keepPosition(at, position); kept || err != nil {
		return err
	}
	err := j.putCursors(ctx, map[cursorKey]uint64{at: position}, []cursorKey{at})
	if err == nil {
		j.cursors.markSaved(at)
	}
	return err
}

// writeCursors writes changed cursors; the goroutine that writes behind, Snapshot and Close call
// it. It reads the heads first, so that a fenced process does not overwrite the cursors of its
// successor. It fails with ErrUnavailable or ErrFenced; some cursors may then be written.
func (j *Journal) writeCursors(ctx context.Context, positions map[cursorKey]uint64) error {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	if err := j.refreshHeads(ctx); err != nil {
		j.noteUnreachable(err)
		return unavailableError(err)
	}
	// A common order of all processes excludes deadlocks.
	keys := slices.SortedFunc(maps.Keys(positions), func(a, b cursorKey) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.name, b.name))
	})
	for chunk := range slices.Chunk(keys, cursorMax) {
		if err := j.cursors.Refusal(); err != nil {
			return err
		}
		if err := j.putCursors(ctx, positions, chunk); err != nil {
			return err
		}
	}
	return nil
}

// putCursors writes positions in one transaction, whose commit is not synced. It fails only with
// ErrUnavailable.
func (j *Journal) putCursors(ctx context.Context, positions map[cursorKey]uint64, keys []cursorKey) error {
	shards, names, column := make([]int16, len(keys)), make([]string, len(keys)), make([]int64, len(keys))
	for i, at := range keys {
		shards[i], names[i], column[i] = int16(at.shard), at.name, int64(positions[at])
	}
	b := &pgx.Batch{}
	b.Queue(postgres.AsyncCommit)
	b.Queue(sqlSaveCursors, shards, names, column)
	return j.queryBatch(ctx, b, func(results pgx.BatchResults) error {
		_, err := results.Exec()
		if err == nil {
			_, err = results.Exec()
		}
		return err
	})
}
