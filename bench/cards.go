package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Limits of a run over existing cards.
const (
	hotCards   = 64
	coldStride = 982_451_653 // a prime, so that a walk with this step meets every card before it meets one again
	mostFills  = 100         // loads until the memory for cards is full
	fullCache  = 0.98        // of its limit; each shard has its own
	stormFor   = 5 * time.Second
)

// Metrics of the server that a run over many cards reads.
const (
	residentGauge   = "process_resident_memory_bytes"
	cacheGauge      = "purser_cache_bytes"
	cacheLimitGauge = "purser_cache_limit_bytes"
	hitsGauge       = "purser_cache_hits_total"
	missesGauge     = "purser_cache_misses_total"
	evictionsGauge  = "purser_cache_evictions_total"
	mebibyte        = 1 << 20
)

// Stock are cards that a server has before the run, in workspaces to which the run has no keys.
type Stock struct {
	// Token returns the token of a card, and Owner the index of its workspace.
	Token func(card int) string
	Owner func(card int) int
	// Spent reads from the stores of the stopped server how many cents each workspace has spent
	// since before the run.
	Spent func() ([]int64, error)
	// Holds describes the other contents of the stores, on which the time of a start depends.
	Holds string
}

// given are the cards of a stock and the expected spends of their workspaces.
type given struct {
	*Stock
	cards   int
	tenants []tenant
}

func newGiven(c Config) *given {
	return &given{Stock: c.Stock, cards: c.Cards, tenants: make([]tenant, c.Workspaces)}
}

func (g *given) card(i int) *card { return &card{token: g.Token(i), tenant: &g.tenants[g.Owner(i)]} }

// runExistingCards runs the workload cards over existing cards. It swipes cards that are in memory,
// cards that are not, and enough cards to fill the memory and evict others. Then it kills the
// server and compares the spends. A wrong answer ends it. It fails without the admin URL, and with
// errors of the server.
func (r *run) runExistingCards(ctx context.Context, l *Load) ([]Stage, error) {
	if r.Target.Admin == "" {
		return nil, fmt.Errorf("bench: %s reads the server's figures and needs its admin URL", Cards)
	}
	cold := &walk{cards: r.cards}
	all, err := r.runPart(ctx, l, "cold", 1, cold.pickNext, nil)
	if err != nil || foundWrong(all) {
		return all, err
	}
	hot, err := r.runPart(ctx, l, "hot", 1, hotPick(r.cards), nil)
	if all = append(all, hot...); err != nil || foundWrong(all) {
		return all, err
	}
	missCosts(&all[0], &all[1])
	filled, err := r.fillCache(ctx, l, cold)
	if all = append(all, filled...); err != nil || foundWrong(all) {
		return all, err
	}
	kills := *l
	kills.Duration = min(l.Duration, stormFor)
	killed, err := r.runRecovery(ctx, &kills)
	killed[0].Notes = append(killed[0].Notes, fmt.Sprintf("killed after %s of swipes; the loads before took %s each", kills.Duration,
		l.Duration), r.Stock.Holds)
	if err == nil && !foundWrong(killed) {
		err = r.compareSpent(&killed[len(killed)-1])
	}
	return append(all, killed...), err
}

// runPart runs one part of the workload cards over the picked cards. It fails only when ctx ends.
func (r *run) runPart(ctx context.Context, l *Load, name string, connections int, pick func(*worker) *card,
	w watch) ([]Stage, error) {
	load := *l
	load.Name, load.Connections = l.Name+": "+name, connections
	stages, err := r.runFlows(ctx, &load, w, flow{traffic: &swipes{run: r, pick: pick}, connections: connections})
	r.uncounted = r.uncounted || stages[0].hasFailed()
	return stages, err
}

// missCosts notes the additional latency of a swipe whose card is not in memory.
func missCosts(cold, hot *Stage) {
	c, h := cold.Measures[0], hot.Measures[0]
	cold.Figures = append(cold.Figures, newFigure("a miss, p50", c.P50Micros-h.P50Micros, "µs"),
		newFigure("a miss, p99", c.P99Micros-h.P99Micros, "µs"))
	cold.Notes = append(cold.Notes, "a miss is of the server's memory, not of a cold disk: pages of the store come from the "+
		"machine's page cache where it holds them")
}

// fillCache swipes new cards until the server's memory for cards is full or all cards were swiped.
// Then it swipes cards that are not in memory for as long again, each of which evicts another. It
// reports this last load with the server's memory, or the first load with a wrong or missing
// answer. It fails when the metrics cannot be read or ctx ends.
func (r *run) fillCache(ctx context.Context, l *Load, cold *walk) ([]Stage, error) {
	for i := range mostFills {
		stages, err := r.runPart(ctx, l, fmt.Sprintf("filling memory %d", i+1), l.Connections, cold.pickNext, nil)
		if err != nil || r.uncounted {
			return stages, err
		}
		told, err := r.readMemory(ctx)
		if err != nil {
			return stages, err
		}
		if cold.isOver() || told[cacheGauge] >= fullCache*told[cacheLimitGauge] {
			break
		}
	}
	before, err := r.readMemory(ctx)
	if err != nil {
		return nil, err
	}
	w := &backlog{gauges: newGauges(r.Target.Admin, func(name string) bool { return name == residentGauge })}
	stages, err := r.runPart(ctx, l, "memory full", l.Connections, cold.pickNext, w)
	if err != nil {
		return stages, err
	}
	after, err := r.readMemory(ctx)
	if err == nil {
		stages[0].tellMemory(before, after, r.Server)
	}
	return stages, err
}

// tellMemory adds the figures of the server's memory after a load, and of the cache during it.
// fillCache calls it.
func (s *Stage) tellMemory(before, after map[string]float64, server Server) {
	peak := after[residentGauge]
	for _, m := range s.Moments {
		peak = max(peak, m.Gauges[residentGauge])
	}
	if bytes, told := server.PeakMemory(); told {
		peak = max(peak, float64(bytes))
	}
	since := func(name string) float64 { return after[name] - before[name] }
	s.Figures = append(s.Figures, newFigure(ResidentMemory, after[residentGauge]/mebibyte, "MiB"),
		newFigure("highest "+ResidentMemory, peak/mebibyte, "MiB"), newFigure("cache of cards", after[cacheGauge]/mebibyte, "MiB"))
	if share, told := ratioOf(after[cacheGauge], after[cacheLimitGauge]); told {
		s.Figures = append(s.Figures, newFigure(CacheOfLimit, share, "×"))
		if share < fullCache {
			s.Notes = append(s.Notes, "the memory for cards is not full: there are too few cards, or the loads were too short")
		}
	}
	s.Figures = append(s.Figures, newFigure("evictions", since(evictionsGauge), ""))
	if share, told := ratioOf(since(hitsGauge), since(hitsGauge)+since(missesGauge)); told {
		s.Figures = append(s.Figures, newFigure("found in the cache, of what was looked up", 100*share, "%"))
	}
}

// walk visits all cards, over all connections, and repeats none before it has visited every card.
type walk struct {
	cards *portfolio
	steps atomic.Int64
}

func (k *walk) pickNext(*worker) *card {
	return k.cards.cardAt(int(k.steps.Add(1) * coldStride % int64(k.cards.count())))
}

// isOver reports whether every card was visited.
func (k *walk) isOver() bool { return k.steps.Load() >= int64(k.cards.count()) }

func hotPick(p *portfolio) func(*worker) *card {
	return func(w *worker) *card { return p.cardAt(w.random.IntN(min(hotCards, p.count()))) }
}

// readMemory reads the server's metrics of its memory. It fails when the admin port does not
// answer.
func (r *run) readMemory(ctx context.Context) (map[string]float64, error) {
	g := newGauges(r.Target.Admin, func(name string) bool {
		switch name {
		case residentGauge, cacheGauge, cacheLimitGauge, hitsGauge, missesGauge, evictionsGauge:
			return true
		}
		return false
	})
	return g.readGauges(ctx)
}

// compareSpent stops the server and compares the spend of each workspace of the stock, by the
// server's stores, with the approvals of the run. It fails when the server does not stop or its
// stores cannot be read; a difference is in the stage.
func (r *run) compareSpent(s *Stage) error {
	if r.uncounted {
		s.Notes = append(s.Notes, "not every request was answered rightly, so that the dollars could not be compared")
		return nil
	}
	r.Progress(Progress{Stage: s.Name + ": comparing the dollars", Done: 1})
	if err := r.Server.Stop(); err != nil {
		return err
	}
	spent, err := r.Stock.Spent()
	if err != nil {
		return err
	}
	tenants := r.cards.given.tenants
	if len(spent) != len(tenants) {
		return fmt.Errorf("bench: the stores have %d workspaces, the run has %d", len(spent), len(tenants))
	}
	var wrong differences
	for i := range tenants {
		if approved := -tenants[i].moved.Load(); spent[i] != approved {
			wrong.addSum("workspace %d of the stock has spent %d cents by the server's store, and %d were approved",
				i, spent[i], approved)
		}
	}
	s.addDifference(&wrong)
	s.Compared += len(tenants)
	s.Notes = append(s.Notes,
		fmt.Sprintf("what %d workspaces have spent since before the run compared in the stopped server's store", len(tenants)))
	return nil
}
