package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/persistence"
	"purser/persistence/ident"
)

// queryBatch sends queries in one round trip, and once more after a lost connection: they must be
// repeatable. The caller has called beginCall. It fails with ErrNotFound or ErrFenced when read
// returns it, and else with ErrUnavailable.
func (j *Journal) queryBatch(ctx context.Context, b *pgx.Batch, read func(pgx.BatchResults) error) error {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	lost, err := j.sendBatch(ctx, b, read)
	if lost {
		_, err = j.sendBatch(ctx, b, read)
	}
	if err == nil || errors.Is(err, persistence.ErrNotFound) || errors.Is(err, persistence.ErrFenced) {
		return err
	}
	// The error of a cancelled query does not name the cause.
	return unavailableError(errors.Join(err, ctx.Err()))
}

// sendBatch sends queries over one connection. It fails with the server's error or that of read.
// When the connection is lost it resets the pool, because the idle ones are probably lost too.
func (j *Journal) sendBatch(
	ctx context.Context, b *pgx.Batch, read func(pgx.BatchResults) error,
) (lost bool, err error) {
	conn, err := j.pool.Acquire(ctx)
	if err != nil {
		j.noteUnreachable(err)
		return false, err
	}
	defer conn.Release()
	results := conn.SendBatch(ctx, b)
	err = read(results)
	if closing := results.Close(); err == nil {
		err = closing
	}
	if !conn.Conn().IsClosed() || ctx.Err() != nil {
		return false, err
	}
	j.pool.Reset()
	return true, err
}

// readWithHead reads documents of a shard and then its head, which it publishes first. So no read
// returns data above the published head. It fails with ErrNotFound when read returns it, with
// ErrFenced when another process has taken the shard, and else with ErrUnavailable.
func (j *Journal) readWithHead(
	ctx context.Context, id ident.Shard, read func(pgx.BatchResults) error, sql string, args ...any,
) error {
	if err := j.beginCall(ctx); err != nil {
		return err
	}
	defer j.endCall()
	b := &pgx.Batch{}
	b.Queue(sql, args...)
	b.Queue(sqlHead, int16(id))
	asked := j.recordCache.now()
	return j.queryBatch(ctx, b, func(results pgx.BatchResults) error {
		found := read(results)
		if found != nil && !errors.Is(found, persistence.ErrNotFound) {
			return found
		}
		if _, err := j.readHeadsOf(results, asked); err != nil {
			return err
		}
		return found
	})
}

// Events implements persistence.Journal: it returns events of a shard after a position, up to the
// head in memory, none at the head. The newest come from memory. It fails only with ErrUnavailable.
func (j *Journal) Events(ctx context.Context, id ident.Shard, past uint64, limit int) ([]persistence.Event, error) {
	if err := j.beginCall(ctx); err != nil {
		return nil, err
	}
	defer j.endCall()
	last := j.Head(id).Position
	if past >= last {
		return nil, nil
	}
	last = min(last, past+uint64(persistence.PageLimit(limit)))
	if !persistence.IsAsStored(ctx) {
		if events, kept := j.recent.Read(id, past, last, eventBytes); kept {
			return events, nil
		}
	}
	b := &pgx.Batch{}
	b.Queue(sqlEvents, int16(id), int64(past), int64(last), eventBytes)
	var events []persistence.Event
	err := j.queryBatch(ctx, b, func(results pgx.BatchResults) (err error) {
		events, err = readEvents(results, past)
		return err
	})
	return events, err
}

func readEvents(results pgx.BatchResults, past uint64) ([]persistence.Event, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	return collectEvents(rows, past)
}

// collectEvents reads the events after a position. It fails with the server's error, for a gap, and
// when there is no event.
func collectEvents(rows pgx.Rows, past uint64) ([]persistence.Event, error) {
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (persistence.Event, error) {
		var e persistence.Event
		var position, version int64
		err := row.Scan(&position, &e.ID, &e.Workspace, &e.Kind, &e.Stream, &version, &e.Type, &e.At, (*[]byte)(&e.Payload))
		e.Position, e.Version, e.At = uint64(position), uint64(version), e.At.UTC()
		return e, err
	})
	if err != nil {
		return nil, err
	}
	for i := range events {
		if past++; events[i].Position != past {
			return nil, fmt.Errorf("found event %d in place of event %d", events[i].Position, past)
		}
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("event %d is missing", past+1)
	}
	return events, nil
}

// List implements persistence.Journal: it returns a page of a workspace's records, newest first. It
// fails with ErrUnavailable, or with ErrFenced when another process has taken the shard. No record
// is an empty page.
func (j *Journal) List(
	ctx context.Context, slot ident.Slot, kind, workspace, parent string, page persistence.Page,
) ([]persistence.Record, error) {
	shard, limit := slot.Shard(), persistence.PageLimit(page.Limit)
	if page.AfterPosition == 0 && page.AfterOrdinal == 0 {
		return j.listRecords(ctx, shard, kind, sqlList, int16(shard), kind, workspace, parent, limit)
	}
	return j.listRecords(ctx, shard, kind, sqlListAfter, int16(shard), kind, workspace, parent, limit,
		int64(page.AfterPosition), int64(page.AfterOrdinal))
}

// Records implements persistence.Journal: it returns records of a kind after an id, in the order of
// their ids. It fails with ErrUnavailable, or with ErrFenced when another process has taken the
// shard.
func (j *Journal) Records(ctx context.Context, id ident.Shard, kind, after string, limit int) ([]persistence.Record, error) {
	return j.listRecords(ctx, id, kind, sqlRecords, int16(id), kind, after, persistence.PageLimit(limit))
}

// listRecords returns the records that a query selects. It fails with ErrUnavailable, or with
// ErrFenced when another process has taken the shard.
func (j *Journal) listRecords(ctx context.Context, id ident.Shard, kind, sql string, args ...any) ([]persistence.Record, error) {
	var records []persistence.Record
	err := j.readWithHead(ctx, id, func(results pgx.BatchResults) error {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		records, err = collectRecords(rows, kind)
		return err
	}, sql, args...)
	return records, err
}

func collectRecords(rows pgx.Rows, kind string) (records []persistence.Record, err error) {
	var r recordRow
	_, err = pgx.ForEachRow(rows, r.columns(), func() error {
		records = append(records, r.record(kind))
		return nil
	})
	return records, err
}

// recordRow is a row of recordColumns.
type recordRow struct {
	id, workspace, parent      string
	slot                       int16
	version, position, ordinal int64
	document                   []byte
}

func (r *recordRow) columns() []any {
	return []any{&r.id, &r.workspace, &r.parent, &r.slot, &r.version, &r.position, &r.ordinal, &r.document}
}

func (r *recordRow) record(kind string) persistence.Record {
	return persistence.Record{Kind: kind, Workspace: r.workspace, Parent: r.parent, ID: r.id, Slot: ident.Slot(r.slot),
		Document: r.document, Version: uint64(r.version), Position: uint64(r.position), Ordinal: uint32(r.ordinal)}
}

// Once implements persistence.Journal: it returns the once-key that holds at now, and whether there
// is one. It fails with ErrUnavailable, or with ErrFenced when another process has taken the shard.
func (j *Journal) Once(
	ctx context.Context, id ident.Shard, scope string, hash [32]byte, now time.Time,
) (persistence.Once, bool, error) {
	var once persistence.Once
	err := j.readWithHead(ctx, id, func(results pgx.BatchResults) error {
		var fingerprint, answer []byte
		var expires *time.Time
		err := results.QueryRow().Scan(&fingerprint, &expires, &answer)
		if errors.Is(err, pgx.ErrNoRows) {
			return persistence.ErrNotFound
		}
		once = newOnce(scope, hash[:], fingerprint, expires, answer)
		return err
	}, sqlOnce, int16(id), scope, hash[:])
	switch {
	case errors.Is(err, persistence.ErrNotFound), err == nil && !claimStands(once, now):
		return persistence.Once{}, false, nil
	case err != nil:
		return persistence.Once{}, false, err
	}
	return once, true, nil
}

// Sweep implements persistence.Journal: it removes expired once-keys, and returns how many. Each
// sweepShards shards are one transaction; after an error the shards before it are swept. It fails
// only with ErrUnavailable.
func (j *Journal) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := j.beginCall(ctx); err != nil {
		return 0, err
	}
	defer j.endCall()
	swept := 0
	for from := 0; from < ident.Shards; from += sweepShards {
		b := &pgx.Batch{}
		b.Queue(sqlSweep, from, from+sweepShards, now, persistence.PageLimit(limit))
		err := j.queryBatch(ctx, b, func(results pgx.BatchResults) error {
			tag, err := results.Exec()
			swept += int(tag.RowsAffected())
			return err
		})
		if err != nil {
			return swept, err
		}
	}
	return swept, nil
}
