package book

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/postgres"
)

// skippedPositions holds, per shard, the range of events handled beyond the stored position. These
// events have no postings, as is usual beside card decisions. Their positions are written behind;
// after a crash the lost ones are handled again.
type skippedPositions struct {
	*postgres.WriteBehind[ident.Shard, positionRange]

	mu     sync.Mutex
	ranges [ident.Shards]positionRange
}

// positionRange is a range of events of one shard that have no postings: after is exclusive, end
// inclusive. Every process handles them without effect, so a stored position within the range may
// move to its end. The zero value means that no range is known.
type positionRange struct{ after, end uint64 }

func newSkippedPositions(
	interval time.Duration, write func(context.Context, map[ident.Shard]positionRange) error,
) *skippedPositions {
	return &skippedPositions{WriteBehind: postgres.NewWriteBehind(interval, write)}
}

// rangeBefore returns the range that ends just before a page; it is empty when none is known. It
// fails with ErrMoved when the known range ends elsewhere.
func (p *skippedPositions) rangeBefore(page *page) (positionRange, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, _, err := p.locateLocked(page)
	return s, err
}

// locateLocked implements rangeBefore; mu is held. known is false when no range is known: the
// returned range is empty and the stored position must be checked at the server. It fails with
// ErrMoved when the known range ends elsewhere.
func (p *skippedPositions) locateLocked(page *page) (s positionRange, known bool, err error) {
	switch s = p.ranges[page.shard]; {
	case s.end == 0:
		return positionRange{page.first - 1, page.first - 1}, false, nil
	case s.end != page.first-1:
		return s, true, consumer.ErrMoved
	}
	return s, true, nil
}

// extendOver adds a page without postings to the range before it. done is false when the position
// is unknown and must be moved at the server. It fails with ErrMoved when the range ends elsewhere,
// or with the error of an earlier write; the range is then unchanged.
func (p *skippedPositions) extendOver(page *page) (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known, err := p.locateLocked(page)
	if err != nil || !known {
		return false, err
	}
	s.end = page.last
	if err := p.Put(page.shard, s); err != nil {
		return false, err
	}
	p.ranges[page.shard] = s
	return true, nil
}

// setRange replaces the range of a shard.
func (p *skippedPositions) setRange(shard ident.Shard, s positionRange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ranges[shard] = s
}

// handledThrough returns the last handled position of a shard with this stored position. The reads
// of the book call it; Position calls reconcile.
func (p *skippedPositions) handledThrough(shard ident.Shard, stored uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ranges[shard].handledThrough(stored)
}

// handledThrough returns the end of the range when the stored position is not before it, and else
// the stored position.
func (s positionRange) handledThrough(stored uint64) uint64 {
	if s.after <= stored {
		return max(stored, s.end)
	}
	return stored
}

// reconcile returns the same as handledThrough. It also forgets a range that does not contain the
// stored position, because another process has moved it.
func (p *skippedPositions) reconcile(shard ident.Shard, stored uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.ranges[shard]
	if stored < s.after || s.end < stored {
		p.ranges[shard] = positionRange{}
	}
	return s.handledThrough(stored)
}

// forgetRange drops the range of a shard if it still begins at the same position as s.
func (p *skippedPositions) forgetRange(shard ident.Shard, s positionRange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ranges[shard].after == s.after {
		p.ranges[shard] = positionRange{}
	}
}

// writeSkipped moves the positions of several shards in one transaction, without a sync. When
// another process has moved a shard, its position stays and its range is forgotten. A shard that
// another session has locked is retried with the next write, so that neither other shards nor
// bookings wait for it. It fails with the server's error, and all are then written again.
func (b *Book) writeSkipped(ctx context.Context, ranges map[ident.Shard]positionRange) error {
	ctx, cancel := context.WithTimeout(ctx, b.slack*skippedTimeout)
	defer cancel()
	defer context.AfterFunc(b.writeContext, cancel)()
	var free, moved map[ident.Shard]bool
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) (err error) {
		free, moved, err = moveSkipped(ctx, tx, b.identity.Store, ranges)
		return err
	})
	if err != nil {
		return err
	}
	for shard, s := range ranges {
		if !free[shard] {
			b.retryLocked(shard, s)
			continue
		}
		delete(b.lockedRounds, shard)
		if !moved[shard] {
			b.skipped.forgetRange(shard, s)
		}
	}
	return nil
}

// retryLocked marks a locked shard for the next write. After lockedRoundsNoted rounds in a row it
// notes the error, unless Close has begun, which reports by itself.
func (b *Book) retryLocked(shard ident.Shard, s positionRange) {
	b.skipped.Retry(shard, s)
	if b.lockedRounds[shard]++; b.lockedRounds[shard] == lockedRoundsNoted && b.skipped.Refusal() == nil {
		b.reportError(fmt.Errorf("book cannot move the position of shard %d beyond %d: %w", shard, s.after, errLocked))
	}
}

// moveSkipped moves the positions of the shards whose rows no other session has locked (free), each
// from the start of its range to the end. moved has those whose stored position was in the range.
// It fails with the server's error.
func moveSkipped(
	ctx context.Context, tx pgx.Tx, store ident.UUID, ranges map[ident.Shard]positionRange,
) (free, moved map[ident.Shard]bool, err error) {
	free, moved = make(map[ident.Shard]bool, len(ranges)), make(map[ident.Shard]bool, len(ranges))
	shards := make([]int16, 0, len(ranges))
	for shard := range ranges {
		shards = append(shards, int16(shard))
	}
	var first, second pgx.Batch
	first.Queue(postgres.AsyncCommit)
	first.Queue(sqlLockFree, shards).Query(readShards(free))
	if err := tx.SendBatch(ctx, &first).Close(); err != nil {
		return nil, nil, err
	}
	var m positionMoves
	for shard := range free {
		m.addMove(shard, ranges[shard].after, ranges[shard].end, ranges[shard].end)
	}
	m.queueMoves(&second, store).Query(readShards(moved))
	return free, moved, tx.SendBatch(ctx, &second).Close()
}

// readShards returns a row reader that sets into[shard] for each shard of a result.
func readShards(into map[ident.Shard]bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var shard int16
		_, err := pgx.ForEachRow(rows, []any{&shard}, func() error {
			into[ident.Shard(shard)] = true
			return nil
		})
		return err
	}
}

// positionMoves are changes of stored positions, one array per column.
type positionMoves struct {
	shard                 []int16
	after, until, through []int64
}

// addMove moves a shard to end, if its stored position lies between after and until, both included.
func (m *positionMoves) addMove(shard ident.Shard, after, until, through uint64) {
	m.shard, m.after = append(m.shard, int16(shard)), append(m.after, int64(after))
	m.until, m.through = append(m.until, int64(until)), append(m.through, int64(through))
}

func (m *positionMoves) queueMoves(b *pgx.Batch, store ident.UUID) *pgx.QueuedQuery {
	return b.Queue(sqlMove, [16]byte(store), m.shard, m.after, m.until, m.through)
}
