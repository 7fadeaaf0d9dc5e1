package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// till is a server with a stock. A kill closes all its connections after about half of their
// messages were decided. It then answers that it is starting until every connection of the storm
// has reconnected.
type till struct {
	mu         sync.Mutex
	answers    map[string]string // by message
	spent      []int64           // by workspace
	last       func()            // undoes the last spend
	lives      int
	connection map[uint64]int  // the life in which it was opened
	starting   map[string]bool // connections of the storm that got the answer "starting"
	knocks     int
	reads      int // reads of its figures
	evictions  int
	stopped    bool
	lie        func(l *till, id string) (answer string) // to others than the prober
	lieFirst   func(answer string) string               // to the prober
}

const (
	tillCards      = 10_000_000 // more than the loads come to
	tillWorkspaces = 3
	tillLines      = 4 // connections
	tillFull       = 3 // reads of its figures until it is full
	tillPatience   = 5000
)

func (l *till) Kill() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lives, l.starting, l.knocks = l.lives+1, map[string]bool{}, 0
	return nil
}

func (l *till) Start() error { return nil }

func (l *till) Stop() error {
	l.stopped = true
	return nil
}

func (l *till) PeakMemory() (int64, bool) { return 9 * mebibyte, true }

func (l *till) answer(ctx *fasthttp.RequestCtx) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if string(ctx.Path()) == "/metrics" {
		l.reads++
		fmt.Fprintf(ctx, "%s %d\n%s %d\n%s %d\n%s %d\n%s %d\n%s %d\n", residentGauge, 5*mebibyte, cacheGauge,
			min(l.reads, tillFull)*mebibyte, cacheLimitGauge, tillFull*mebibyte, evictionsGauge, l.evictions, hitsGauge, l.evictions,
			missesGauge, 3*l.evictions)
		return
	}
	id := string(textField(ctx.PostBody(), "id"))
	life, known := l.connection[ctx.ConnID()]
	switch {
	case !known:
		l.connection[ctx.ConnID()] = l.lives
	case life != l.lives:
		if len(l.answers)%2 == 0 {
			l.decide(ctx, id)
		}
		hangUp(ctx)
		return
	}
	if l.starting != nil && !strings.Contains(id, "again") {
		if l.knocks++; !strings.Contains(id, "first") {
			l.starting[strings.Join(strings.Split(id, "-")[:3], "-")] = true
		}
		if len(l.starting) < tillLines && l.knocks < tillPatience {
			ctx.Error(`{"error":"unavailable"}`, 503)
			return
		}
		l.starting = nil
	}
	answer := ""
	if l.lie != nil && !strings.Contains(id, "first") {
		answer = l.lie(l, id)
	}
	if answer == "" {
		answer = l.decide(ctx, id)
	}
	if l.lieFirst != nil && strings.Contains(id, "first") {
		answer, l.lieFirst = l.lieFirst(answer), nil
	}
	ctx.SetBodyString(answer)
}

func (l *till) decide(ctx *fasthttp.RequestCtx, id string) string {
	if answer, known := l.answers[id]; known {
		return answer
	}
	cents, _ := centsField(ctx.PostBody(), "amountCents")
	owner, _ := strconv.Atoi(string(textField(ctx.PostBody(), "cardToken")))
	owner %= tillWorkspaces
	l.spent[owner] += cents
	l.last = func() { l.spent[owner] -= cents }
	if l.reads >= tillFull {
		l.evictions++
	}
	l.answers[id] = fmt.Sprintf(`{"id":%q,"decision":"approved","reason":"approved","approvedAmountCents":%d}`, id, cents)
	return l.answers[id]
}

// tillStages returns the stages of a run over a till. It repeats the run with loads of twice the
// duration until every load had traffic, because a machine may pause.
func tillStages(t *testing.T, set func(l *till)) (l *till, all []Stage, during time.Duration) {
	for during = 20 * time.Millisecond; ; during *= 2 {
		l, all = tillRun(t, set, during)
		idle := func(s Stage) bool { return s.Outcomes["approved"] == 0 }
		if !slices.ContainsFunc(all, idle) || during > 4*time.Second {
			return l, all, during
		}
	}
}

func tillRun(t *testing.T, set func(l *till), during time.Duration) (*till, []Stage) {
	l := &till{answers: map[string]string{}, spent: make([]int64, tillWorkspaces), connection: map[uint64]int{}, evictions: 1000}
	set(l)
	url := listen(t, l.answer)
	r := &run{Config: Config{Target: Target{REST: url, Network: url, Admin: url, Secret: "s"}, Server: l, Cards: tillCards,
		Workspaces: tillWorkspaces, Stock: &Stock{Token: strconv.Itoa, Owner: func(i int) int { return i % tillWorkspaces },
			Spent: func() ([]int64, error) { return l.spent, nil }, Holds: "a till"}}.withDefaults()}
	r.cards = &portfolio{given: newGiven(r.Config)}
	all, err := r.runExistingCards(t.Context(), &Load{Name: Cards, Workload: Cards, Connections: tillLines, Duration: during,
		Spread: SpreadZipf})
	require.NoError(t, err)
	return l, all
}

// The run reads the server's memory after a load that evicts cards, measures a restart while every
// connection of the storm retries, and accounts for every cent at the end.
func TestARunOverAStock(t *testing.T) {
	l, all, during := tillStages(t, func(*till) {})
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
		require.Zero(t, s.Wrong, s.Differences)
		require.Zero(t, s.Outcomes[noAnswer], s.Name)
		require.Zero(t, s.Outcomes[whileDown], s.Name)
	}
	require.Equal(t, []string{"cards: cold", "cards: hot", "cards: memory full", "cards: kill 1", "cards: kill 2",
		"cards: kill 3"}, names)
	require.Contains(t, strings.Join(all[0].Notes, "\n"), "page cache")
	figures := map[string]float64{}
	for _, f := range all[2].Figures {
		figures[f.Name] = f.Value
	}
	require.EqualValues(t, all[2].Outcomes["approved"], figures["evictions"])
	delete(figures, "evictions")
	require.Equal(t, map[string]float64{ResidentMemory: 5, "highest resident memory": 9, "cache of cards": 3, CacheOfLimit: 1,
		"found in the cache, of what was looked up": 25}, figures)
	require.Contains(t, all[3].Notes, "a till")
	require.Contains(t, all[3].Notes, fmt.Sprintf("killed after %s of swipes; the loads before took %s each", during, during))
	require.True(t, l.stopped)
	require.Greater(t, all[5].Compared, tillWorkspaces, "the answer to the connection that came last is kept")
	require.Less(t, l.knocks, tillPatience, "all connections of the storm came again")
}

// The run finds money that differs from the answers, and a wrong answer while the server starts.
func TestALieAboutAStockIsFound(t *testing.T) {
	once := func(when func(l *till) bool, do func(l *till) string) func(*till, string) string {
		done := false
		return func(l *till, _ string) string {
			if done || !when(l) {
				return ""
			}
			done = true
			return do(l)
		}
	}
	always := func(*till) bool { return true }
	for name, lie := range map[string]func(*till, string) string{
		"a cent too much":  once(always, func(l *till) string { l.spent[1]++; return "" }),
		"lost in the kill": once(func(l *till) bool { return l.lives == 1 }, func(l *till) string { l.last(); return "" }),
		"held twice": func() func(l *till, id string) string { // a message that is sent again, after the kill
			done := false
			return func(l *till, id string) string {
				if _, known := l.answers[id]; known && !done {
					done = true
					delete(l.answers, id)
				}
				return ""
			}
		}(),
		"wrong at the start": once(func(l *till) bool { return l.lives == 2 }, func(*till) string {
			return `{"decision":"declined","reason":"insufficient_funds","approvedAmountCents":0}`
		}),
	} {
		_, all := tillRun(t, func(l *till) { l.lie = lie }, 20*time.Millisecond)
		wrong, _ := wrongOf(all)
		require.Positive(t, wrong, name)
	}
}

// A recovery ends with the first decision, and its answer is checked as every other.
func TestTheFirstSwipeAfterAKillIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		lie   func(answer string) string
		wrong int64
	}{
		"another's answer": {func(answer string) string { return strings.Replace(answer, `"id":"`, `"id":"x`, 1) }, 1},
		"declined": {func(string) string {
			return `{"decision":"declined","reason":"insufficient_funds","approvedAmountCents":0}`
		}, 1},
		"undecided": {func(string) string { return `{"decision":"declined","reason":"timeout","approvedAmountCents":0}` }, 0},
	} {
		_, all := tillRun(t, func(l *till) { l.lieFirst = c.lie }, 20*time.Millisecond)
		require.Equal(t, c.wrong, all[3].Wrong, name)
	}
}
