package pgjournal

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/actors/ident"
	"purser/persistence"
)

// due is when the first timer of a shard is due, or an earlier instant: a shard of which it is in the future has nothing to
// tell. A commit brings it forward, a read that finds nothing puts it back, unless a commit came in between.
type due struct {
	known   bool
	at      time.Time // zero: there is no timer
	changes uint64
}

// dueAt takes note of a timer that was committed. A zero time, a removed timer, changes nothing: the next read will see.
func (s *shard) dueAt(at time.Time) {
	if at.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due.changes++
	if s.due.at.IsZero() || at.Before(s.due.at) {
		s.due.at = at
	}
}

// forgetDue makes the next call of Timers ask the server.
func (s *shard) forgetDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = due{changes: s.due.changes + 1}
}

// mayBeDue tells whether the server has to be asked, and what to pass to learnDue after that.
func (s *shard) mayBeDue(now time.Time) (changes uint64, may bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due.changes, !s.due.known || !s.due.at.IsZero() && !s.due.at.After(now)
}

func (s *shard) learnDue(changes uint64, first *time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due.changes != changes {
		return
	}
	s.due = due{known: true, changes: changes}
	if first != nil {
		s.due.at = *first
	}
}

func (j *Journal) loadDue(ctx context.Context) error {
	rows, err := j.pool.Query(ctx, sqlAllNextDue)
	if err != nil {
		return err
	}
	var id int16
	var first *time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &first}, func() error {
		j.shards[id].learnDue(0, first)
		return nil
	})
	return err
}

// Timers implements persistence.Journal. It asks the server only when a timer may be due; of timers that another process has
// written it knows after Raise. Timers of the same instant come in the order of kind, stream and key.
func (j *Journal) Timers(ctx context.Context, id ident.Shard, now time.Time, limit int) ([]persistence.Timer, error) {
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	s := &j.shards[id]
	changes, may := s.mayBeDue(now)
	if !may {
		return nil, nil
	}
	b := &pgx.Batch{}
	b.Queue(sqlTimers, int16(id), now, persistence.PageLimit(limit))
	b.Queue(sqlNextDue, int16(id))
	var timers []persistence.Timer
	err := j.ask(ctx, b, func(results pgx.BatchResults) (err error) {
		if timers, err = readTimers(results); err != nil {
			return err
		}
		var first *time.Time
		if err := results.QueryRow().Scan(&first); err != nil {
			return err
		}
		s.learnDue(changes, first)
		return nil
	})
	return timers, err
}

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
