package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Limits of a run over cards that are there already.
const (
	hotCards   = 64
	coldStride = 982_451_653 // a prime, so that a walk with this step meets every card before it meets one again
	mostFills  = 100         // loads until the memory for cards is full
	fullCache  = 0.95        // of its limit
)

// Figures of the server that a run over many cards reads.
const (
	residentGauge   = "process_resident_memory_bytes"
	cacheGauge      = "purser_cache_bytes"
	cacheLimitGauge = "purser_cache_limit_bytes"
	mebibyte        = 1 << 20
)

// stock runs over cards that the server has had before: swipes of cards that are in memory and of cards that are not; then of so
// many that they fill the memory for cards, and what the server's memory is then; then it kills the server.
func (r *run) stock(ctx context.Context, l *Load) ([]Stage, error) {
	if r.Target.Admin == "" {
		return nil, fmt.Errorf("bench: %s reads the server's figures and needs its admin URL", Cards)
	}
	cold := &walk{cards: r.cards}
	all, err := r.part(ctx, l, "cold", 1, cold.pick)
	if err != nil {
		return all, err
	}
	hot, err := r.part(ctx, l, "hot", 1, hotPick(r.cards))
	if all = append(all, hot...); err != nil {
		return all, err
	}
	missCosts(&all[0], &all[1])
	filled, err := r.fillCache(ctx, l, cold)
	if all = append(all, filled...); err != nil {
		return all, err
	}
	kills := *l
	kills.Duration = min(l.Duration, stormFor)
	killed, err := r.recovery(ctx, &kills)
	return append(all, killed...), err
}

// stormFor is how long a storm lasts before a kill.
const stormFor = 5 * time.Second

func (r *run) part(ctx context.Context, l *Load, name string, connections int, pick func(*worker) *card) ([]Stage, error) {
	load := *l
	load.Name, load.Connections = l.Name+": "+name, connections
	return r.drive(ctx, &load, nil, flow{traffic: &swipes{run: r, pick: pick}, connections: connections})
}

// missCosts tells how much longer a swipe takes whose card is not in memory.
func missCosts(cold, hot *Stage) {
	c, h := cold.Measures[0], hot.Measures[0]
	cold.Figures = append(cold.Figures, newFigure("a miss, p50", c.P50Micros-h.P50Micros, "µs"),
		newFigure("a miss, p99", c.P99Micros-h.P99Micros, "µs"))
}

// fillCache swipes ever more cards until the server's memory for them is full, or there are no more, and tells what its memory is.
// Of its loads the last one is reported, or the first one with a wrong answer.
func (r *run) fillCache(ctx context.Context, l *Load, cold *walk) ([]Stage, error) {
	for i := range mostFills {
		stages, err := r.part(ctx, l, fmt.Sprintf("filling memory %d", i+1), l.Connections, cold.pick)
		if err != nil {
			return stages, err
		}
		last := &stages[0]
		if last.Figures, err = r.memory(ctx); err != nil {
			return stages, err
		}
		full := slices.ContainsFunc(last.Figures, func(f Figure) bool { return f.Name == CacheOfLimit && f.Value >= fullCache })
		switch {
		case full || cold.over():
			last.Name = l.Name + ": memory full"
			return stages, nil
		case last.Wrong > 0:
			return stages, nil
		case i == mostFills-1:
			last.Notes = append(last.Notes, "the memory for cards is not full: the loads were too short")
			return stages, nil
		}
	}
	panic("BUG: the last load has been reported")
}

// walk goes over all cards, with all connections, and comes to none twice before it has come to every one.
type walk struct {
	cards *portfolio
	steps atomic.Int64
}

func (k *walk) pick(*worker) *card {
	return k.cards.card(int(k.steps.Add(1) * coldStride % int64(k.cards.count())))
}

// over tells whether it has come to every one.
func (k *walk) over() bool { return k.steps.Load() >= int64(k.cards.count()) }

func hotPick(p *portfolio) func(*worker) *card {
	return func(w *worker) *card { return p.card(w.random.IntN(min(hotCards, p.count()))) }
}

// memory is what the server says of its own.
func (r *run) memory(ctx context.Context) ([]Figure, error) {
	g := newGauges(r.Target.Admin, func(name string) bool {
		return name == residentGauge || name == cacheGauge || name == cacheLimitGauge
	})
	told, err := g.read(ctx)
	if err != nil {
		return nil, err
	}
	figures := []Figure{newFigure(ResidentMemory, told[residentGauge]/mebibyte, "MiB"),
		newFigure("cache of cards", told[cacheGauge]/mebibyte, "MiB")}
	if limit := told[cacheLimitGauge]; limit > 0 {
		figures = append(figures, newFigure(CacheOfLimit, told[cacheGauge]/limit, "×"))
	}
	return figures, nil
}
