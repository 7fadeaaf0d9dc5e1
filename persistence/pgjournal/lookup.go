package pgjournal

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"purser/persistence"
	"purser/persistence/ident"
)

// lookup is one Record on its way through a reader.
type lookup struct {
	ctx      context.Context
	shard    ident.Shard
	kind, id string
	record   persistence.Record
	sure     bool // the shard was this process's when the record was read
	err      error
	answered chan struct{}
}

// Record implements persistence.Journal. A record that is in memory is answered from there, except under AsStored.
func (j *Journal) Record(ctx context.Context, slot ident.Slot, kind, id string) (record persistence.Record, err error) {
	if err := j.enter(ctx); err != nil {
		return record, err
	}
	defer j.leave()
	key := recordKey{slot.Shard(), kind, id}
	if persistence.IsAsStored(ctx) {
		record, _, err = j.lookUp(ctx, key)
		return record, err
	}
	record, under, err := j.known.ask(key)
	if under == nil {
		return record, err
	}
	record, sure, err := j.lookUp(ctx, key)
	if sure {
		j.known.answer(key, under, record, err)
	} else {
		j.known.answer(key, under, record, errUnsure)
	}
	return record, err
}

// errUnsure: what was read may be of a standby, or of another process by now.
var errUnsure = errors.New("it is not known whose the shard is")

// lookUp asks the server for a record. What is asked for while the readers are under way is read together by the next.
func (j *Journal) lookUp(ctx context.Context, key recordKey) (record persistence.Record, sure bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.slack*queryTimeout)
	defer cancel()
	l := &lookup{ctx: ctx, shard: key.shard, kind: key.kind, id: key.id, answered: make(chan struct{})}
	select {
	case j.lookups <- l:
	case <-ctx.Done():
		return record, false, unavailable(ctx.Err())
	}
	select {
	case <-l.answered:
		return l.record, l.sure, l.err
	case <-ctx.Done():
		return record, false, unavailable(ctx.Err())
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
	asked := j.known.now()
	return j.ask(context.Background(), b, func(results pgx.BatchResults) error {
		if err := readLookups(results, some); err != nil {
			return err
		}
		sure, err := j.readHeadsOf(results, asked)
		for _, l := range some {
			l.sure = sure[l.shard]
		}
		return err
	})
}

// readHeadsOf shows heads, and tells which shards are this process's for sure. When another has taken one that is ErrFenced.
func (j *Journal) readHeadsOf(results pgx.BatchResults, asked time.Time) (sure map[ident.Shard]bool, err error) {
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	sure = make(map[ident.Shard]bool)
	var id int16
	var epoch, position int64
	var recovering bool
	_, err = pgx.ForEachRow(rows, []any{&id, &epoch, &position, &recovering}, func() error {
		shard, found := ident.Shard(id), persistence.Head{Position: uint64(position), Epoch: uint64(epoch)}
		if j.shards[id].takenBy(found.Epoch) {
			return j.refuse(errTaken(shard, found))
		}
		sure[shard] = j.meet(shard, found, recovering, asked)
		return nil
	})
	return sure, err
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
