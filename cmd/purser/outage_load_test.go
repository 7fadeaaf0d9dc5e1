package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/bench"
	"purser/cmd/purser/apiclient"
	"purser/persistence"
)

// extent is how long the stores are away, stopping included, and how many swipes a second come before, meanwhile and after. What
// comes after is what a machine may stand still meanwhile: the dollars of the swipes cannot be counted before the stores are back.
type extent struct {
	rate                int
	before, away, after time.Duration
}

var (
	shortOutage = extent{rate: 300, before: time.Second / 2, away: 5 * time.Second, after: 3 * time.Second}
	fullOutage  = extent{rate: 2000, before: 5 * time.Second, away: 30 * time.Second, after: 15 * time.Second}
)

const (
	outageClients = 64
	recoverWithin = 3 * time.Minute
	// mostTimeouts is how many of a hundred swipes may be declined for a machine that does not come to them within 150 ms.
	// Swipes that waited for a store would all be.
	mostTimeouts = 7
	// probedAnew is until the server has asked the journal once more: a second, and two that it waits for an answer.
	probedAnew = 4 * time.Second
)

// outage is a server under load whose stores are taken away.
type outage struct {
	program
	extent
	data   string
	p      *process
	tenant *tenant
	cards  int // that the tenant has
}

// TestSwipesDoNotNoticeAnOutage takes Postgres, Kafka and both away from the program under a steady stream of swipes.
func TestSwipesDoNotNoticeAnOutage(t *testing.T) {
	o := &outage{program: onPostgresAndKafka(t, buildProgram(t)), extent: shortOutage, data: filepath.Join(t.TempDir(), "data")}
	if o.database == nil {
		return
	}
	o.env = append(o.env, "PURSER_AUTHORIZER_SYNC=false") // the stores are the test's matter, and not the disk that they share
	full := os.Getenv(fullLengthVariable) != ""
	if full {
		o.extent = fullOutage
	}
	o.p = launch(t, o.program, o.data)
	o.tenant = &tenant{bearer: signUp(t, o.p, 0)}
	stopDatabase, startDatabase := o.database.Stop, o.database.Restart
	for _, c := range []struct {
		name            string
		database, kafka bool // which are away
		stop, give      func() error
		full            bool // in the full form only
	}{
		{"Postgres is stopped", true, false, stopDatabase, startDatabase, false},
		{"Kafka is stopped", false, true, o.broker.stop, o.broker.give, false},
		{"both are stopped", true, true, func() error { return errors.Join(o.broker.stop(), stopDatabase()) }, o.broker.give, false},
		{"Postgres crashes", true, false, o.database.Crash, startDatabase, true},
		{"Postgres is frozen", true, false, o.database.Pause, o.database.Resume, true},
	} {
		if c.full && !full {
			continue
		}
		passed := t.Run(c.name, func(t *testing.T) {
			load := o.swipe(t)
			until := time.Now().Add(o.away) // by the clock of the swipes
			frozen := o.newCard(t)
			require.NoError(t, c.stop())
			decidedBefore, timeoutsBefore := o.decisions(t)
			o.endure(t, until, frozen, c.database)
			o.swipesGoOn(t, load)
			o.tells(t, c.database, c.kafka)
			decided, timeouts := o.decisions(t)
			decided, timeouts = decided-decidedBefore, timeouts-timeoutsBefore
			backlog := o.p.scrape(t)["purser_backlog_entries"]
			if c.database && c.kafka {
				require.NoError(t, startDatabase())
				o.missesKafka(t)
			}
			require.NoError(t, c.give())
			require.Greater(t, decided, float64(outageClients), "swipes go on")
			o.recover(t, frozen, backlog)
			o.judge(t, load, timeouts)
			o.requireStreams(t, o.p, o.data)
		})
		if !passed {
			return
		}
	}
	require.Empty(t, o.p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, o.program, o.data, "audit"), "authorizer and book agree to the cent", "of the stores at rest")
}

// load is what bench says of a stream of swipes when it has ended.
type load struct {
	report bench.Report
	err    error
	ended  chan struct{}
}

// swipe begins a stream of swipes; it returns when the time before the outage is over.
func (o *outage) swipe(t *testing.T) *load {
	t.Helper()
	l, begun := &load{ended: make(chan struct{})}, make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	config := bench.Config{Cards: 40, Workspaces: 8, YardstickFor: time.Millisecond, DiskDir: o.data,
		Target: bench.Target{REST: o.p.rest, Network: o.p.network, Admin: o.p.admin, Secret: o.p.secret},
		Loads: []bench.Load{{Workload: bench.Authorize, Connections: outageClients, Rate: o.rate,
			Duration: o.before + o.away + o.after}},
		Progress: func(p bench.Progress) {
			if p.Stage == bench.Authorize {
				begin()
			}
		}}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(l.ended)
		l.report, l.err = bench.Run(ctx, config)
	}()
	t.Cleanup(func() {
		cancel()
		<-l.ended
	})
	select {
	case <-begun:
	case <-l.ended:
		require.FailNow(t, "no swipes", "%v", l.err)
	}
	require.True(t, persistence.Pause(t.Context(), o.before))
	return l
}

func (o *outage) newCard(t *testing.T) (id string) {
	t.Helper()
	o.cards++
	return o.tenant.mustPost(t, o.p, "/api/cards", cardRequest(), 200).answer.Text("card", "id")
}

// endure asks for a read and for changes until the outage is over. Without Postgres all are refused; without Kafka everything
// goes on.
func (o *outage) endure(t *testing.T, until time.Time, card string, database bool) {
	t.Helper()
	for {
		if database {
			o.p.refuses(t, o.tenant.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"}, freeze(card),
				apiclient.Request{Method: "POST", Path: "/api/cards", IdempotencyKey: apiclient.NewIdempotencyKey(), Body: marshal(cardRequest())},
				apiclient.Request{Method: "POST", Path: "/api/treasury/deposits", IdempotencyKey: apiclient.NewIdempotencyKey(),
					Body: marshal(depositRequest(1_00))})
		} else {
			o.newCard(t)
		}
		if !time.Now().Before(until) {
			return
		}
		require.True(t, persistence.Pause(t.Context(), 20*pollInterval))
	}
}

// swipesGoOn waits, at the end of the outage, for more decisions than there were swipes on their way. A stream whose time was up
// before that has ended with an answer to each swipe, which judge looks at; it does not end while swipes hang.
func (o *outage) swipesGoOn(t *testing.T, l *load) {
	t.Helper()
	before, _ := o.decisions(t)
	o.p.await(t, "swipes that go on", func() bool {
		select {
		case <-l.ended:
			return true
		default:
		}
		now, _ := o.decisions(t)
		return now > before+outageClients
	})
}

// tells looks at what the server says of itself: without Postgres that it is not ready, without Kafka alone that it is, and that
// Kafka is missed.
func (o *outage) tells(t *testing.T, database, kafka bool) {
	t.Helper()
	if database {
		o.p.await(t, "that it is not ready", func() bool {
			seen := o.p.scrape(t)
			return len(seen) > 0 && seen["purser_ready"] == 0 && seen["purser_journal_up"] == 0 && o.p.adminPage("/readyz") == ""
		})
		o.p.await(t, "a backlog", func() bool { return o.p.scrape(t)["purser_backlog_entries"] > 0 })
	} else if !o.ready(t) { // a slow machine may have been late to ask the journal once
		require.True(t, persistence.Pause(t.Context(), probedAnew))
		require.True(t, o.ready(t), "it is not ready in two looks running")
	}
	if kafka && !database {
		o.missesKafka(t)
		o.p.await(t, "what is to be published", func() bool { return o.p.scrape(t)["purser_outbox_lag_events"] > 0 })
	}
}

// missesKafka waits until the server says so, which is when there is something to publish: not while Postgres is away. A broker that
// is frozen is missed when the request that it has runs out of time.
func (o *outage) missesKafka(t *testing.T) {
	t.Helper()
	o.p.await(t, "that Kafka is missed", func() bool {
		seen := o.p.scrape(t)
		return len(seen) > 0 && seen["purser_publisher_up"] == 0
	})
}

func (o *outage) ready(t *testing.T) bool {
	t.Helper()
	seen := o.p.scrape(t)
	return seen["purser_ready"] == 1 && seen["purser_journal_up"] == 1 && o.p.adminPage("/readyz") != ""
}

func freeze(card string) apiclient.Request {
	return apiclient.Request{Method: "PATCH", Path: "/api/cards/" + card, Body: marshal(fields{"state": "frozen"})}
}

// recover waits until the server has caught up with the swipes, which go on, and looks for traces of what was refused.
func (o *outage) recover(t *testing.T, card string, backlog float64) {
	t.Helper()
	began := time.Now()
	o.p.awaitWithin(t, recoverWithin, "readiness", func() bool { return o.p.adminPage("/readyz") != "" })
	ready := time.Since(began)
	o.p.awaitWithin(t, recoverWithin, "the relay", func() bool { return o.p.backlog(t) < float64(o.rate) })
	t.Logf("%.0f decisions were waiting when the stores came back; ready %v after that, the relay had caught up after %v",
		backlog, ready.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	a, err := o.p.sendToREST(o.tenant.bearer, apiclient.Request{Method: "GET", Path: "/api/cards/" + card})
	require.NoError(t, err)
	require.Equal(t, "active", a.Text("card", "state"), "a refused change has taken effect")
	cards := (&sameKeyRun{tenant: o.tenant}).countRows(t, o.p, "/api/cards", func(map[string]any) bool { return true })
	require.Equal(t, o.cards, cards, "a refused card is there")
	a, err = o.p.sendToREST(o.tenant.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
	require.NoError(t, err)
	has := apiclient.DollarBalance(a)
	require.Equal(t, "0 0", fmt.Sprintf("%v %v", has["availableCents"], has["incomingCents"]), "a refused deposit is there")
}

// decisions counts what was decided, and of it the swipes that were declined because that did not come in time.
func (o *outage) decisions(t *testing.T) (all, timeouts float64) {
	t.Helper()
	page := ""
	o.p.await(t, "the metrics", func() bool { page = o.p.adminPage("/metrics"); return page != "" })
	return sumsOf(t, page)["purser_decisions_total"], labelled(page, "purser_decisions_total", `reason="timeout"`)
}

// labelled adds up the metrics of a name that have a label.
func labelled(page, name, label string) (sum float64) {
	for line := range strings.Lines(page) {
		at := strings.LastIndexByte(line, ' ')
		if !strings.HasPrefix(line, name+"{") || !strings.Contains(line, label) {
			continue
		}
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err == nil {
			sum += value
		}
	}
	return sum
}

// compareRules waits for the end of the swipes: each was answered, as it had to be, and the dollars add up.
func (o *outage) judge(t *testing.T, l *load, timeouts float64) {
	t.Helper()
	<-l.ended
	require.NoError(t, l.err)
	s := l.report.Stages[0]
	require.Zero(t, l.report.Wrong, "%v", s.Differences)
	require.NotZero(t, s.Compared, "%v", s.Notes)
	for _, failure := range []string{"no answer", "system_unavailable", "backlog_full"} {
		require.Zero(t, s.Outcomes[failure], failure)
	}
	all := int64(0)
	for _, n := range s.Outcomes {
		all += n
	}
	t.Logf("%d swipes at %d a second, %d of them approved, %d that the client came too late to send, p99 %.1f ms; "+
		"%d timeouts, %.0f of them in the %v without the stores", all, o.rate, s.Outcomes["approved"], s.Unsent,
		s.Measures[0].P99Micros/1000, s.Outcomes["timeout"], timeouts, o.away)
	require.Less(t, 100*s.Outcomes["timeout"], mostTimeouts*all)
}

// requireStreams waits until the consumers of a running server have caught up, and compares all there is: the stores and the
// book with each other, and the topic with the journal.
func (purser program) requireStreams(t *testing.T, p *process, data string) {
	t.Helper()
	if purser.database == nil {
		return
	}
	p.awaitEmptyBacklog(t)
	p.awaitWithin(t, recoverWithin, "the consumers", func() bool {
		seen := p.scrape(t)
		return len(seen) > 0 && seen["purser_consumer_lag_events"] == 0 && seen["purser_publisher_up"] == 1
	})
	told := ""
	p.await(t, "the book", func() bool { // a deposit may have settled meanwhile
		told = requireSuccess(t, purser, data, "audit")
		return strings.Contains(told, "it is 0 events behind")
	})
	require.Contains(t, told, "authorizer and book agree to the cent")
	requireTopic(t, purser.broker.addresses, purser.database.URL("postgres"))
}

// backlog is how many decisions the journal does not have yet.
func (p *process) backlog(t *testing.T) float64 {
	t.Helper()
	if entries, told := p.scrape(t)["purser_backlog_entries"]; told {
		return entries
	}
	return math.Inf(1)
}

// scrape sums the metrics of each name; there are none when it is not answered.
func (p *process) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	return sumsOf(t, p.adminPage("/metrics"))
}
