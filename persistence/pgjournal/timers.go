package pgjournal

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/persistence"
	"purser/persistence/ident"
)

// TimersDue implements persistence.Journal.
func (j *Journal) TimersDue(id ident.Shard, now time.Time) bool {
	_, may := j.shards[id].due.MayBeDue(now)
	return may
}

// Timers implements persistence.Journal: it returns the timers due at now, earliest first. It
// queries the server only when a timer may be due. Raise makes it see the timers that another
// process has written. Timers of one instant are ordered by kind, stream and key. It fails only
// with ErrUnavailable.
func (j *Journal) Timers(
	ctx context.Context, id ident.Shard, now time.Time, after persistence.Timer, limit int,
) ([]persistence.Timer, error) {
	if err := j.beginCall(ctx); err != nil {
		return nil, err
	}
	defer j.endCall()
	s := &j.shards[id]
	changes, may := s.due.MayBeDue(now)
	if !may {
		return nil, nil
	}
	b := &pgx.Batch{}
	if after.Due.IsZero() {
		b.Queue(sqlTimers, int16(id), now, persistence.PageLimit(limit))
	} else {
		b.Queue(sqlTimersAfter, int16(id), now, persistence.PageLimit(limit), after.Due, after.Kind, after.Stream,
			after.Key)
	}
	b.Queue(sqlNextDue, int16(id))
	var timers []persistence.Timer
	err := j.queryBatch(ctx, b, func(results pgx.BatchResults) (err error) {
		if timers, err = readTimers(results); err != nil {
			return err
		}
		var first *time.Time
		if err := results.QueryRow().Scan(&first); err != nil {
			return err
		}
		s.due.Observe(changes, timeOrZero(first)) // the earliest of all, wherever the page begins
		return nil
	})
	return timers, err
}

// timeOrZero returns the zero time for NULL.
func timeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// readTimers reads timers from a result. It fails with the server's error.
func readTimers(results pgx.BatchResults) ([]persistence.Timer, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (persistence.Timer, error) {
		var t persistence.Timer
		var slot int16
		err := row.Scan(&t.Kind, &t.Stream, &t.Key, &t.Workspace, &slot, &t.Due)
		t.Slot, t.Due = ident.Slot(slot), t.Due.UTC()
		return t, err
	})
}
