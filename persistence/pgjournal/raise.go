package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/persistence"
	"purser/persistence/ident"
)

// Raise implements persistence.Journal. The new epochs are one transaction. It waits for the shards' rows, which every
// transaction of an earlier epoch holds from before its first check until its end, and ends those that hold one for longer than
// evictAfter: when it has them, none that has not committed can. After ErrAmbiguous the epochs may have been raised; a second
// Raise is safe. A shard that another process has taken since is not taken back: that is ErrFenced, and told to Options.Fatal.
func (j *Journal) Raise(ctx context.Context, shards ...ident.Shard) ([]persistence.Head, error) {
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	if len(shards) == 0 {
		return []persistence.Head{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, j.slack*raiseTimeout)
	defer cancel()
	ids := slices.Compact(slices.Sorted(slices.Values(shards)))
	asked := j.known.now()
	for _, id := range ids {
		j.shards[id].beginRaise()
	}
	raised, err := j.raise(ctx, ids)
	for _, id := range ids {
		if errors.Is(err, persistence.ErrAmbiguous) { // the next epoch may be this process's, or another's
			j.known.doubt(id)
		}
		j.shards[id].endRaise(raised[id].Epoch, err)
	}
	if err != nil {
		j.lost(err)
		return nil, err
	}
	heads := make([]persistence.Head, len(shards))
	for i, id := range shards {
		heads[i] = raised[id]
		// What the earlier epoch's last transaction did to the timers and records is not known here.
		j.shards[id].due.Forget()
		j.known.raised(id, asked)
		j.shards[id].tip.Advance(raised[id])
	}
	return heads, nil
}

func (j *Journal) raise(ctx context.Context, shards []ident.Shard) (map[ident.Shard]persistence.Head, error) {
	select {
	case j.raising <- struct{}{}:
		defer func() { <-j.raising }()
	case <-ctx.Done():
		return nil, unavailable(ctx.Err())
	}
	conn, err := j.pool.Acquire(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	defer conn.Release() // ends the connection when it is still in a transaction
	stop := j.evicting(ctx, conn.Conn().PgConn().PID())
	heads, err := raiseHeld(ctx, conn.Conn(), shards)
	stop()
	if err != nil {
		return nil, unavailable(err)
	}
	for id, head := range heads {
		if err := j.judge(id, head); err != nil {
			return nil, err
		}
	}
	if err := sendCommit(ctx, conn.Conn()); err != nil {
		return nil, err
	}
	return heads, nil
}

// raiseHeld waits for the shards in the order in which everybody does, and raises their epochs.
func raiseHeld(ctx context.Context, conn *pgx.Conn, shards []ident.Shard) (map[ident.Shard]persistence.Head, error) {
	ids := shardColumn(shards)
	b := &pgx.Batch{}
	b.Queue(sqlBegin)
	b.Queue(sqlHold, ids)
	b.Queue(sqlRaise, ids)
	results := conn.SendBatch(ctx, b)
	_, err := results.Exec()
	if err == nil {
		_, err = results.Exec()
	}
	if err != nil {
		return nil, errors.Join(err, results.Close())
	}
	heads, err := readHeads(results)
	if err = errors.Join(err, results.Close()); err != nil {
		return nil, err
	}
	if len(heads) != len(shards) {
		return nil, fmt.Errorf("%d of %d shards are in the journal", len(heads), len(shards))
	}
	return heads, nil
}

func readHeads(results pgx.BatchResults) (map[ident.Shard]persistence.Head, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	heads := map[ident.Shard]persistence.Head{}
	var id int16
	var epoch, head int64
	_, err = pgx.ForEachRow(rows, []any{&id, &epoch, &head}, func() error {
		heads[ident.Shard(id)] = persistence.Head{Position: uint64(head), Epoch: uint64(epoch)}
		return nil
	})
	return heads, err
}

// evicting ends, again and again until stop is called, the sessions of the journal that keep the session pid waiting. Who they
// are is asked of the server at that moment: a number that was written down before may be another session's by now.
func (j *Journal) evicting(ctx context.Context, pid uint32) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		ticker := time.NewTicker(j.slack * evictAfter)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := j.evict(ctx, pid); err != nil && ctx.Err() == nil {
				j.note(fmt.Errorf("journal cannot end an old transaction: %w", err))
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

func (j *Journal) evict(ctx context.Context, pid uint32) error {
	rows, err := j.pool.Query(ctx, sqlEvict, int32(pid), application, (j.slack * evictAfter).Milliseconds())
	if err != nil {
		return err
	}
	var old int32
	var gone bool
	_, err = pgx.ForEachRow(rows, []any{&old, &gone}, func() error {
		j.note(fmt.Errorf("journal has ended the transaction of session %d, which held a shard (gone: %t)", old, gone))
		return nil
	})
	return err
}
