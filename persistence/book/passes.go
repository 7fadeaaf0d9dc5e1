package book

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/postgres"
)

// passes are how far each shard is handled beyond its stored position, over events that book nothing, as most do beside swipes:
// those moves are written behind. A crash may lose some; the events are then handled again.
type passes struct {
	*postgres.Behind[ident.Shard, stretch]

	mu    sync.Mutex
	known [ident.Shards]stretch
}

// stretch is events of a shard that book nothing: those after one position, through another. That is so whoever handles them, so
// that a stored position anywhere in it may be moved to its end. The zero stretch is none.
type stretch struct{ after, through uint64 }

func newPasses(write func(context.Context, map[ident.Shard]stretch) error) *passes {
	return &passes{Behind: postgres.NewBehind(write)}
}

// before returns the stretch that ends before a page, or ErrMoved.
func (p *passes) before(page *page) (stretch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, _, err := p.locate(page)
	return s, err
}

// locate is before. Of a shard of which no stretch is known it is empty: the server has to be asked.
func (p *passes) locate(page *page) (s stretch, known bool, err error) {
	switch s = p.known[page.shard]; {
	case s.through == 0:
		return stretch{page.first - 1, page.first - 1}, false, nil
	case s.through != page.first-1:
		return s, true, persistence.ErrMoved
	}
	return s, true, nil
}

// extend takes a page that books nothing into the stretch before it, or says why not; false: the server has to be asked.
func (p *passes) extend(page *page) (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known, err := p.locate(page)
	if err != nil || !known {
		return false, err
	}
	s.through = page.last
	if err := p.Keep(page.shard, s); err != nil {
		return false, err
	}
	p.known[page.shard] = s
	return true, nil
}

func (p *passes) set(shard ident.Shard, s stretch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[shard] = s
}

// beyond returns how far a shard is handled whose stored position is this one.
func (p *passes) beyond(shard ident.Shard, stored uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[shard].beyond(stored)
}

func (s stretch) beyond(stored uint64) uint64 {
	if s.after <= stored {
		return max(stored, s.through)
	}
	return stored
}

// meet is beyond, and forgets a stretch in which the stored position is not: another process has moved it.
func (p *passes) meet(shard ident.Shard, stored uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.known[shard]
	if stored < s.after || s.through < stored {
		p.known[shard] = stretch{}
	}
	return s.beyond(stored)
}

// forget drops what is known of a shard, if it still begins where the stretch does.
func (p *passes) forget(shard ident.Shard, s stretch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[shard].after == s.after {
		p.known[shard] = stretch{}
	}
}

// writePasses moves the positions of several shards together and without a sync. A shard that another process has moved stays
// where it is, and what is known of it is forgotten. One that somebody holds is left for the next time: the others do not wait
// for it, nor a booking that comes meanwhile.
func (b *Book) writePasses(ctx context.Context, kept map[ident.Shard]stretch) error {
	ctx, cancel := context.WithTimeout(ctx, b.slack*passTimeout)
	defer cancel()
	defer context.AfterFunc(b.writes, cancel)()
	var free, moved map[ident.Shard]bool
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) (err error) {
		free, moved, err = movePasses(ctx, tx, b.identity.Store, kept)
		return err
	})
	if err != nil {
		return err
	}
	for shard, s := range kept {
		if !free[shard] {
			b.leave(shard, s)
			continue
		}
		delete(b.held, shard)
		if !moved[shard] {
			b.passes.forget(shard, s)
		}
	}
	return nil
}

// leave has a stretch written the next time, and says so when that has happened for a while. Close says it by itself.
func (b *Book) leave(shard ident.Shard, s stretch) {
	b.passes.Again(shard, s)
	if b.held[shard]++; b.held[shard] == heldOften && b.passes.Refusal() == nil {
		b.note(fmt.Errorf("position of shard %d stays at %d or after: %w", shard, s.after, errHeld))
	}
}

func movePasses(
	ctx context.Context, tx pgx.Tx, store ident.UUID, kept map[ident.Shard]stretch,
) (free, moved map[ident.Shard]bool, err error) {
	free, moved = make(map[ident.Shard]bool, len(kept)), make(map[ident.Shard]bool, len(kept))
	shards := make([]int16, 0, len(kept))
	for shard := range kept {
		shards = append(shards, int16(shard))
	}
	var first, second pgx.Batch
	first.Queue(postgres.Lazily)
	first.Queue(sqlHoldFree, shards).Query(readShards(free))
	if err := tx.SendBatch(ctx, &first).Close(); err != nil {
		return nil, nil, err
	}
	var m moves
	for shard := range free {
		m.add(shard, kept[shard].after, kept[shard].through, kept[shard].through)
	}
	m.queue(&second, store).Query(readShards(moved))
	return free, moved, tx.SendBatch(ctx, &second).Close()
}

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

// moves are changes of stored positions, one array per column.
type moves struct {
	shard                 []int16
	after, until, through []int64
}

// add moves a shard through a position, if it stands at or after one and not beyond another.
func (m *moves) add(shard ident.Shard, after, until, through uint64) {
	m.shard, m.after = append(m.shard, int16(shard)), append(m.after, int64(after))
	m.until, m.through = append(m.until, int64(until)), append(m.through, int64(through))
}

func (m *moves) queue(b *pgx.Batch, store ident.UUID) *pgx.QueuedQuery {
	return b.Queue(sqlMove, [16]byte(store), m.shard, m.after, m.until, m.through)
}
