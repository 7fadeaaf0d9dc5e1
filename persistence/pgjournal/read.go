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

// ask sends queries in one round trip. The call has entered the journal, and can be repeated. The error is ErrUnavailable, or
// ErrNotFound or ErrFenced when read returns that.
func (j *Journal) ask(ctx context.Context, b *pgx.Batch, read func(pgx.BatchResults) error) error {
	ctx, cancel := context.WithTimeout(ctx, j.slack*queryTimeout)
	defer cancel()
	lost, err := j.exchange(ctx, b, read)
	if lost {
		_, err = j.exchange(ctx, b, read)
	}
	if err == nil || errors.Is(err, persistence.ErrNotFound) || errors.Is(err, persistence.ErrFenced) {
		return err
	}
	// The error of a query that was given up does not say why.
	return unavailable(errors.Join(err, ctx.Err()))
}

// exchange sends queries over one connection. When that is lost, the other idle ones are too, or may be: they are given up.
func (j *Journal) exchange(ctx context.Context, b *pgx.Batch, read func(pgx.BatchResults) error) (lost bool, err error) {
	conn, err := j.pool.Acquire(ctx)
	if err != nil {
		j.lost(err)
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

// look reads documents of a shard. The head is read after them and shown before they are: no read shows what is above the head.
func (j *Journal) look(ctx context.Context, id ident.Shard, read func(pgx.BatchResults) error, sql string, args ...any) error {
	if err := j.enter(ctx); err != nil {
		return err
	}
	defer j.leave()
	b := &pgx.Batch{}
	b.Queue(sql, args...)
	b.Queue(sqlHead, int16(id))
	asked := j.known.now()
	return j.ask(ctx, b, func(results pgx.BatchResults) error {
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

// Events implements persistence.Journal. It shows events up to the head that this process knows; the newest come from memory.
func (j *Journal) Events(ctx context.Context, id ident.Shard, past uint64, limit int) ([]persistence.Event, error) {
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
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
	err := j.ask(ctx, b, func(results pgx.BatchResults) (err error) {
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
			return nil, fmt.Errorf("event %d is there where %d is due", events[i].Position, past)
		}
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("event %d is not there", past+1)
	}
	return events, nil
}

// List implements persistence.Journal.
func (j *Journal) List(
	ctx context.Context, slot ident.Slot, kind, workspace, parent string, page persistence.Page,
) ([]persistence.Record, error) {
	shard, limit := slot.Shard(), persistence.PageLimit(page.Limit)
	if page.AfterPosition == 0 && page.AfterOrdinal == 0 {
		return j.records(ctx, shard, kind, sqlList, int16(shard), kind, workspace, parent, limit)
	}
	return j.records(ctx, shard, kind, sqlListAfter, int16(shard), kind, workspace, parent, limit,
		int64(page.AfterPosition), int64(page.AfterOrdinal))
}

// Records implements persistence.Journal.
func (j *Journal) Records(ctx context.Context, id ident.Shard, kind, after string, limit int) ([]persistence.Record, error) {
	return j.records(ctx, id, kind, sqlRecords, int16(id), kind, after, persistence.PageLimit(limit))
}

func (j *Journal) records(ctx context.Context, id ident.Shard, kind, sql string, args ...any) ([]persistence.Record, error) {
	var records []persistence.Record
	err := j.look(ctx, id, func(results pgx.BatchResults) error {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		var r recordRow
		_, err = pgx.ForEachRow(rows, r.columns(), func() error {
			records = append(records, r.record(kind))
			return nil
		})
		return err
	}, sql, args...)
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

// Once implements persistence.Journal.
func (j *Journal) Once(
	ctx context.Context, id ident.Shard, scope string, hash [32]byte, now time.Time,
) (persistence.Once, bool, error) {
	var once persistence.Once
	err := j.look(ctx, id, func(results pgx.BatchResults) error {
		var fingerprint, answer []byte
		var expires *time.Time
		err := results.QueryRow().Scan(&fingerprint, &expires, &answer)
		if errors.Is(err, pgx.ErrNoRows) {
			return persistence.ErrNotFound
		}
		once = onceOf(scope, hash[:], fingerprint, expires, answer)
		return err
	}, sqlOnce, int16(id), scope, hash[:])
	switch {
	case errors.Is(err, persistence.ErrNotFound), err == nil && !held(once, now):
		return persistence.Once{}, false, nil
	case err != nil:
		return persistence.Once{}, false, err
	}
	return once, true, nil
}

// Sweep implements persistence.Journal. Every sweepShards shards are a transaction of their own; an error leaves those before it
// swept.
func (j *Journal) Sweep(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := j.enter(ctx); err != nil {
		return 0, err
	}
	defer j.leave()
	swept := 0
	for from := 0; from < ident.Shards; from += sweepShards {
		b := &pgx.Batch{}
		b.Queue(sqlSweep, from, from+sweepShards, now, persistence.PageLimit(limit))
		err := j.ask(ctx, b, func(results pgx.BatchResults) error {
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
