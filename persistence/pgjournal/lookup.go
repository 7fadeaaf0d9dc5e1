package pgjournal

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"purser/actors/ident"
	"purser/persistence"
)

// lookup is one Record on its way through a reader.
type lookup struct {
	ctx      context.Context
	shard    ident.Shard
	kind, id string
	record   persistence.Record
	err      error
	answered chan struct{}
}

// Record implements persistence.Journal. What is asked for while the readers are under way is read together by the next.
func (j *Journal) Record(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error) {
	if err := j.enter(ctx); err != nil {
		return persistence.Record{}, err
	}
	defer j.leave()
	ctx, cancel := context.WithTimeout(ctx, j.slack*queryTimeout)
	defer cancel()
	l := &lookup{ctx: ctx, shard: slot.Shard(), kind: kind, id: id, answered: make(chan struct{})}
	select {
	case j.lookups <- l:
	case <-ctx.Done():
		return persistence.Record{}, unavailable(ctx.Err())
	}
	select {
	case <-l.answered:
		return l.record, l.err
	case <-ctx.Done():
		return persistence.Record{}, unavailable(ctx.Err())
	}
}

// readRecords answers lookups until Close.
func (j *Journal) readRecords() {
	for first := range j.lookups {
		some := j.gather(first)
		j.answer(some)
		for _, l := range some {
			close(l.answered)
		}
	}
}

// gather takes what waits behind the first lookup. Whoever has given up needs no answer.
func (j *Journal) gather(first *lookup) []*lookup {
	some := []*lookup{first}
	for len(some) < lookupMax {
		select {
		case l, open := <-j.lookups:
			if !open {
				return some
			}
			if l.ctx.Err() == nil {
				some = append(some, l)
			}
		default:
			return some
		}
	}
	return some
}

// answer reads the records of lookups in one round trip; if the server refuses what one of them is named, each in its own.
func (j *Journal) answer(some []*lookup) {
	err := j.find(some)
	if err == nil {
		return
	}
	var refusal *pgconn.PgError
	alone := len(some) > 1 && errors.As(err, &refusal) && refusal.Code[:2] == classData
	for i, l := range some {
		if alone {
			j.answer(some[i : i+1])
		} else {
			l.err = err
		}
	}
}

// find reads the records, and after them the heads of their shards, which it shows first: no read shows what is above the head.
// Without an error each lookup has its record, or ErrNotFound.
func (j *Journal) find(some []*lookup) error {
	shards, kinds, ids := make([]int16, len(some)), make([]string, len(some)), make([]string, len(some))
	for i, l := range some {
		shards[i], kinds[i], ids[i] = int16(l.shard), l.kind, l.id
	}
	b := &pgx.Batch{}
	b.Queue(sqlLookUp, shards, kinds, ids)
	b.Queue(sqlHeadsOf, shards)
	return j.ask(context.Background(), b, func(results pgx.BatchResults) error {
		if err := readLookups(results, some); err != nil {
			return err
		}
		heads, err := readHeads(results)
		for id, head := range heads {
			j.shards[id].tip.Show(head)
		}
		return err
	})
}

func readLookups(results pgx.BatchResults, some []*lookup) error {
	for _, l := range some {
		l.record, l.err = persistence.Record{}, persistence.ErrNotFound
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	var n int64
	var r recordRow
	_, err = pgx.ForEachRow(rows, append([]any{&n}, r.columns()...), func() error {
		l := some[n-1]
		l.record, l.err = r.record(l.kind), nil
		return nil
	})
	return err
}
