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

// Raise implements persistence.Journal. It raises all epochs in one transaction. It waits for the
// row locks of the shards, which every transaction of an earlier epoch holds from its first check
// to its end. It ends sessions that block it for longer than Options.EvictAfter. Once it holds the locks,
// no transaction of an earlier epoch can commit any more. After ErrAmbiguous the epochs may have
// been raised; a second Raise is safe. A shard that another process has raised since is not taken
// back: that is ErrFenced, and reported to Options.Fatal.
func (j *Journal) Raise(ctx context.Context, shards ...ident.Shard) ([]persistence.Head, error) {
	if err := j.beginCall(ctx); err != nil {
		return nil, err
	}
	defer j.endCall()
	if len(shards) == 0 {
		return []persistence.Head{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	ids := slices.Compact(slices.Sorted(slices.Values(shards)))
	asked := j.recordCache.now()
	for _, id := range ids {
		j.shards[id].beginRaise()
	}
	raised, err := j.raiseEpochs(ctx, ids)
	for _, id := range ids {
		if errors.Is(err, persistence.ErrAmbiguous) { // the next epoch may belong to this process or to another
			j.recordCache.suspendShard(id)
		}
		j.shards[id].endRaise(raised[id].Epoch, err)
	}
	if err != nil {
		j.noteUnreachable(err)
		return nil, err
	}
	heads := make([]persistence.Head, len(shards))
	for i, id := range shards {
		heads[i] = raised[id]
		// The last transaction of the earlier epoch may have changed timers and records.
		j.shards[id].due.Forget()
		j.recordCache.beginTerm(id, asked)
		j.heads.Advance(id, raised[id])
	}
	return heads, nil
}

// raiseEpochs makes one attempt of Raise, in one transaction. It fails with ErrUnavailable when
// nothing was raised, with ErrFenced for a shard that another process has taken, and with
// ErrAmbiguous when the answer to COMMIT is lost.
func (j *Journal) raiseEpochs(ctx context.Context, shards []ident.Shard) (map[ident.Shard]persistence.Head, error) {
	select {
	case j.raising <- struct{}{}:
		defer func() { <-j.raising }()
	case <-ctx.Done():
		return nil, unavailableError(ctx.Err())
	}
	conn, err := j.pool.Acquire(ctx)
	if err != nil {
		return nil, unavailableError(err)
	}
	defer conn.Release() // closes a connection that is still in a transaction
	stop := j.startEvicting(ctx, conn.Conn().PgConn().PID())
	heads, err := lockAndRaise(ctx, conn.Conn(), shards)
	stop()
	if err != nil {
		return nil, unavailableError(err)
	}
	for id, head := range heads {
		if err := j.checkLockedHead(id, head); err != nil {
			return nil, err
		}
	}
	if err := sendCommit(ctx, conn.Conn()); err != nil {
		return nil, err
	}
	return heads, nil
}

// lockAndRaise locks the shards in ascending order, as every transaction does, and raises their
// epochs, without a commit. It fails with the server's error, and when the journal lacks a shard.
func lockAndRaise(ctx context.Context, conn *pgx.Conn, shards []ident.Shard) (map[ident.Shard]persistence.Head, error) {
	ids := shardColumn(shards)
	b := &pgx.Batch{}
	b.Queue(sqlBegin)
	b.Queue(sqlLockShards, ids)
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

// readHeads reads shards' heads and epochs from a result. It fails with the server's error.
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

// startEvicting ends, every Options.EvictAfter until stop is called, the sessions of the journal that block
// session pid. The server names them at that moment: a stored process id may belong to another
// session by now.
func (j *Journal) startEvicting(ctx context.Context, pid uint32) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		ticker := time.NewTicker(j.evictAfter)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := j.evictBlockers(ctx, pid); err != nil && ctx.Err() == nil {
				j.reportError(fmt.Errorf("journal cannot end an old transaction: %w", err))
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

// evictBlockers ends the sessions of the journal that block session pid for longer than Options.EvictAfter,
// and reports each to Options.Note. It fails only with the server's error.
func (j *Journal) evictBlockers(ctx context.Context, pid uint32) error {
	rows, err := j.pool.Query(ctx, sqlEvict, int32(pid), application, j.evictAfter.Milliseconds())
	if err != nil {
		return err
	}
	var old int32
	var gone bool
	_, err = pgx.ForEachRow(rows, []any{&old, &gone}, func() error {
		j.reportError(fmt.Errorf("journal has ended the transaction of session %d, which held a shard (gone: %t)", old, gone))
		return nil
	})
	return err
}
