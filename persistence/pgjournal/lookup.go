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
	owned    bool // this process owned the shard when the record was read
	err      error
	answered chan struct{}
}

// Record implements persistence.Journal. It serves a cached record from memory, except under
// AsStored. It fails with ErrNotFound without such a record, with ErrFenced when another process
// has taken the shard, and else with ErrUnavailable.
func (j *Journal) Record(ctx context.Context, slot ident.Slot, kind, id string) (record persistence.Record, err error) {
	if err := j.beginCall(ctx); err != nil {
		return record, err
	}
	defer j.endCall()
	key := recordKey{slot.Shard(), kind, id}
	if persistence.IsAsStored(ctx) {
		record, _, err = j.lookUp(ctx, key)
		return record, err
	}
	record, pending, err := j.recordCache.lookUp(key)
	if pending == nil {
		return record, err
	}
	record, owned, err := j.lookUp(ctx, key)
	if owned {
		j.recordCache.completeRead(key, pending, record, err)
	} else {
		j.recordCache.completeRead(key, pending, record, errNotOwned)
	}
	return record, err
}

// errNotOwned: the record may come from a standby, or another process may own the shard.
var errNotOwned = errors.New("the owner of the shard is unknown")

// lookUp reads a record from the server. Lookups that arrive while the readers are busy share the
// next round trip. owned reports that this process owned the shard then. It fails as Record does.
func (j *Journal) lookUp(ctx context.Context, key recordKey) (record persistence.Record, owned bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	l := &lookup{ctx: ctx, shard: key.shard, kind: key.kind, id: key.id, answered: make(chan struct{})}
	select {
	case j.lookups <- l:
	case <-ctx.Done():
		return record, false, unavailableError(ctx.Err())
	}
	select {
	case <-l.answered:
		return l.record, l.owned, l.err
	case <-ctx.Done():
		return record, false, unavailableError(ctx.Err())
	}
}

// lookupReader answers the lookups of a journal. A journal has one for each lane.
type lookupReader struct{ *Journal }

// readRecords answers lookups until Close.
func (j *lookupReader) readRecords() {
	for first := range j.lookups {
		some := j.gatherLookups(first)
		j.answerLookups(some)
		for _, l := range some {
			close(l.answered)
		}
	}
}

// gatherLookups takes the lookups queued behind the first, up to lookupMax. It drops those whose
// context has ended.
func (j *lookupReader) gatherLookups(first *lookup) []*lookup {
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

// answerLookups reads the records of lookups in one round trip. If the server refuses a name as
// malformed, each lookup gets a round trip of its own.
func (j *lookupReader) answerLookups(some []*lookup) {
	err := j.fetchRecords(some)
	if err == nil {
		return
	}
	var refusal *pgconn.PgError
	alone := len(some) > 1 && errors.As(err, &refusal) && refusal.Code[:2] == classData
	for i, l := range some {
		if alone {
			j.answerLookups(some[i : i+1])
		} else {
			l.err = err
		}
	}
}

// fetchRecords reads the records and then the heads of their shards, which it publishes first. So
// no read returns data above the published head. Without an error each lookup has its record or
// ErrNotFound. It fails with ErrFenced or ErrUnavailable for all of them.
func (j *lookupReader) fetchRecords(some []*lookup) error {
	shards, kinds, ids := make([]int16, len(some)), make([]string, len(some)), make([]string, len(some))
	for i, l := range some {
		shards[i], kinds[i], ids[i] = int16(l.shard), l.kind, l.id
	}
	b := &pgx.Batch{}
	b.Queue(sqlLookUp, shards, kinds, ids)
	b.Queue(sqlHeadsOf, shards)
	asked := j.recordCache.now()
	return j.queryBatch(context.Background(), b, func(results pgx.BatchResults) error {
		if err := readLookups(results, some); err != nil {
			return err
		}
		owned, err := j.readHeadsOf(results, asked)
		for _, l := range some {
			l.owned = owned[l.shard]
		}
		return err
	})
}

// readHeadsOf publishes heads and returns the shards that this process certainly owns. It fails
// with ErrFenced for a shard taken by another process, and with the server's error.
func (j *Journal) readHeadsOf(results pgx.BatchResults, asked time.Time) (owned map[ident.Shard]bool, err error) {
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	owned = make(map[ident.Shard]bool)
	var id int16
	var epoch, position int64
	var recovering bool
	_, err = pgx.ForEachRow(rows, []any{&id, &epoch, &position, &recovering}, func() error {
		shard, found := ident.Shard(id), persistence.Head{Position: uint64(position), Epoch: uint64(epoch)}
		if j.shards[id].isForeignEpoch(found.Epoch) {
			return j.failFenced(errTaken(shard, found))
		}
		owned[shard] = j.showHead(shard, found, recovering, asked)
		return nil
	})
	return owned, err
}

// readLookups sets the record of each lookup, or ErrNotFound. It fails with the server's error, and
// the lookups are then invalid.
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
