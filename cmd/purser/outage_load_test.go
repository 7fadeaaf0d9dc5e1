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
	"purser/persistence/retry"
)

// outageTimes is the rate of swipes per second, and the duration of the load before, during and
// after an outage of the stores. The time to stop the stores is part of the outage. The load lasts
// longer than the outage because a slow machine may fall behind, and because bench can compare the
// balances only after the stores have restarted.
type outageTimes struct {
	rate                int
	before, away, after time.Duration
}

var (
	shortOutage = outageTimes{rate: 300, before: time.Second / 2, away: 5 * time.Second, after: 3 * time.Second}
	fullOutage  = outageTimes{rate: 2000, before: 5 * time.Second, away: 30 * time.Second, after: 15 * time.Second}
)

const (
	outageClients   = 64
	recoveryTimeout = 3 * time.Minute
	// maxTimeoutPercent is the share of swipes that a busy machine may decline because it does not
	// decide them within 150 ms. If swipes waited for a store, all of them would time out.
	maxTimeoutPercent = 7
	// probeTimeout covers the server's next probe of the journal: one second until it starts, and
	// two seconds until its answer.
	probeTimeout = 4 * time.Second
)

// outage is a server under load whose stores are stopped.
type outage struct {
	program
	outageTimes
	data   string
	p      *process
	tenant *tenant
	cards  int // the number of the tenant's cards
}

// TestSwipesDoNotNoticeAnOutage stops Postgres, Kafka and both under a steady load of swipes.
func TestSwipesDoNotNoticeAnOutage(t *testing.T) {
	onlyInFullLength(t)
	o := &outage{program: onPostgresAndKafka(t, buildProgram(t)), outageTimes: shortOutage,
		data: filepath.Join(t.TempDir(), "data")}
	if o.database == nil {
		return
	}
	// Without disk syncs, because the authorizer shares its disk with the stores of this test.
	o.env = append(append(o.env, "PURSER_AUTHORIZER_SYNC=false"), asShipped...)
	full := os.Getenv(fullLengthVariable) != ""
	if full {
		o.outageTimes = fullOutage
	}
	o.p = launch(t, o.program, o.data)
	o.tenant = &tenant{bearer: signUp(t, o.p, 0)}
	stopDatabase, startDatabase := o.database.Stop, o.database.Restart
	for _, c := range []struct {
		name            string
		database, kafka bool // the stores that are stopped
		stop, restart   func() error
		full            bool // only with fullLengthVariable
	}{
		{"Postgres is stopped", true, false, stopDatabase, startDatabase, false},
		{"Kafka is stopped", false, true, o.broker.stop, o.broker.restart, false},
		{"both are stopped", true, true, func() error { return errors.Join(o.broker.stop(), stopDatabase()) },
			o.broker.restart, false},
		{"Postgres crashes", true, false, o.database.Crash, startDatabase, true},
		{"Postgres is frozen", true, false, o.database.Pause, o.database.Resume, true},
	} {
		if c.full && !full {
			continue
		}
		passed := t.Run(c.name, func(t *testing.T) {
			load := o.startSwipes(t)
			until := time.Now().Add(o.away) // before the stop, which is part of the outage
			frozen := o.createCard(t)
			require.NoError(t, c.stop())
			decidedBefore, timeoutsBefore := o.decisionCounts(t)
			o.sendDuringOutage(t, until, frozen, c.database)
			o.awaitDecisions(t, load)
			o.checkHealthReports(t, c.database, c.kafka)
			decided, timeouts := o.decisionCounts(t)
			decided, timeouts = decided-decidedBefore, timeouts-timeoutsBefore
			backlog := o.p.scrape(t)["purser_backlog_entries"]
			if c.database && c.kafka {
				require.NoError(t, startDatabase())
				o.awaitPublisherDown(t)
			}
			require.NoError(t, c.restart())
			require.Greater(t, decided, float64(outageClients), "decisions during the outage")
			o.awaitRecovery(t, frozen, backlog)
			o.checkSwipeLoad(t, load, timeouts)
			o.requireStreams(t, o.p, o.data)
		})
		if !passed {
			return
		}
	}
	require.Empty(t, o.p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, o.program, o.data, "audit"), "authorizer and book agree to the cent",
		"audit of the stopped server's stores")
}

// swipeLoad is a running load of swipes by bench. report and err are valid after ended is closed.
type swipeLoad struct {
	report bench.Report
	err    error
	ended  chan struct{}
}

// startSwipes starts a load of swipes and returns when the outage is to begin.
func (o *outage) startSwipes(t *testing.T) *swipeLoad {
	t.Helper()
	l, started := &swipeLoad{ended: make(chan struct{})}, make(chan struct{})
	markStarted := sync.OnceFunc(func() { close(started) })
	swipes := bench.Stream{Kind: bench.Authorize, Connections: outageClients, Rate: o.rate}
	config := bench.Config{Cards: 40, Workspaces: 8, Declines: 10,
		Target: bench.Target{REST: o.p.rest, Network: o.p.network, Admin: o.p.admin, Secret: o.p.secret},
		Loads:  []bench.Load{{Streams: []bench.Stream{swipes}, Duration: o.before + o.away + o.after}},
		Progress: func(p bench.Progress) {
			if p.Stage == swipes.String() {
				markStarted()
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
	case <-started:
	case <-l.ended:
		require.FailNow(t, "no swipes", "%v", l.err)
	}
	require.True(t, retry.Pause(t.Context(), o.before))
	return l
}

func (o *outage) createCard(t *testing.T) (id string) {
	t.Helper()
	o.cards++
	return o.tenant.mustPost(t, o.p, "/api/cards", cardRequest(), 200).answer.Text("card", "id")
}

// sendDuringOutage sends requests to the REST API until the outage is over. Without Postgres it
// requires that reads and changes are refused; without Kafka it requires that cards are created.
func (o *outage) sendDuringOutage(t *testing.T, until time.Time, card string, database bool) {
	t.Helper()
	for {
		if database {
			o.p.requireUnavailable(t, o.tenant.bearer,
				apiclient.Request{Method: "GET", Path: "/api/treasury"}, freezeRequest(card),
				apiclient.Request{Method: "POST", Path: "/api/cards", IdempotencyKey: apiclient.NewIdempotencyKey(),
					Body: marshal(cardRequest())},
				apiclient.Request{Method: "POST", Path: "/api/treasury/deposits",
					IdempotencyKey: apiclient.NewIdempotencyKey(), Body: marshal(depositRequest(1_00))})
		} else {
			o.createCard(t)
		}
		if !time.Now().Before(until) {
			return
		}
		require.True(t, retry.Pause(t.Context(), 20*pollInterval))
	}
}

// awaitDecisions waits, at the end of the outage, for more decisions than swipes were in flight. A
// load that has ended by then has an answer to each swipe, which checkSwipeLoad compares.
func (o *outage) awaitDecisions(t *testing.T, l *swipeLoad) {
	t.Helper()
	before, _ := o.decisionCounts(t)
	o.p.await(t, "decisions of swipes", func() bool {
		select {
		case <-l.ended:
			return true
		default:
		}
		now, _ := o.decisionCounts(t)
		return now > before+outageClients
	})
}

// checkHealthReports requires that readiness and metrics report the outage: without Postgres the
// server is not ready, and without Kafka alone it is ready and its publisher is down.
func (o *outage) checkHealthReports(t *testing.T, database, kafka bool) {
	t.Helper()
	if database {
		o.p.await(t, "readiness to report the outage", func() bool {
			seen := o.p.scrape(t)
			return len(seen) > 0 && seen["purser_ready"] == 0 && seen["purser_journal_up"] == 0 &&
				o.p.adminPage("/readyz") == ""
		})
		o.p.await(t, "a backlog", func() bool { return o.p.scrape(t)["purser_backlog_entries"] > 0 })
	} else if !o.ready(t) { // a slow machine may have missed one probe of the journal
		require.True(t, retry.Pause(t.Context(), probeTimeout))
		require.True(t, o.ready(t), "the server is not ready after two probes of the journal")
	}
	if kafka && !database {
		o.awaitPublisherDown(t)
		o.p.await(t, "an outbox with events", func() bool { return o.p.scrape(t)["purser_outbox_lag_events"] > 0 })
	}
}

// awaitPublisherDown waits until the server reports that Kafka is down. That takes an event to
// publish, and so Postgres. A suspended broker is detected when the pending request times out.
func (o *outage) awaitPublisherDown(t *testing.T) {
	t.Helper()
	o.p.await(t, "purser_publisher_up 0", func() bool {
		seen := o.p.scrape(t)
		return len(seen) > 0 && seen["purser_publisher_up"] == 0
	})
}

func (o *outage) ready(t *testing.T) bool {
	t.Helper()
	seen := o.p.scrape(t)
	return seen["purser_ready"] == 1 && seen["purser_journal_up"] == 1 && o.p.adminPage("/readyz") != ""
}

func freezeRequest(card string) apiclient.Request {
	return apiclient.Request{Method: "PATCH", Path: "/api/cards/" + card, Body: marshal(fields{"state": "frozen"})}
}

// awaitRecovery waits until the relay has caught up with the swipes, which continue. It requires
// that no refused request has taken effect.
func (o *outage) awaitRecovery(t *testing.T, card string, backlog float64) {
	t.Helper()
	began := time.Now()
	o.p.awaitWithin(t, recoveryTimeout, "readiness", func() bool { return o.p.adminPage("/readyz") != "" })
	ready := time.Since(began)
	o.p.awaitWithin(t, recoveryTimeout, "the relay", func() bool { return o.p.backlog(t) < float64(o.rate) })
	t.Logf("%.0f decisions were in the backlog when the stores restarted; ready %v later, the relay caught up after %v",
		backlog, ready.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	a, err := o.p.sendToREST(o.tenant.bearer, apiclient.Request{Method: "GET", Path: "/api/cards/" + card})
	require.NoError(t, err)
	require.Equal(t, "active", a.Text("card", "state"), "a refused change has taken effect")
	cards := (&sameKeyRun{tenant: o.tenant}).countRows(t, o.p, "/api/cards", func(map[string]any) bool { return true })
	require.Equal(t, o.cards, cards, "a refused card was created")
	a, err = o.p.sendToREST(o.tenant.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
	require.NoError(t, err)
	has := apiclient.DollarBalance(a)
	require.Equal(t, "0 0", fmt.Sprintf("%v %v", has["availableCents"], has["incomingCents"]),
		"a refused deposit was announced")
}

// decisionCounts returns the number of decisions, and of those that were declined for a timeout.
func (o *outage) decisionCounts(t *testing.T) (all, timeouts float64) {
	t.Helper()
	page := ""
	o.p.await(t, "the metrics", func() bool { page = o.p.adminPage("/metrics"); return page != "" })
	return sumMetrics(t, page)["purser_decisions_total"],
		sumLabelled(page, "purser_decisions_total", `reason="timeout"`)
}

// sumLabelled returns the sum of the series of a metric that have a label.
func sumLabelled(page, name, label string) (sum float64) {
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

// checkSwipeLoad waits for the end of the load. It requires that every swipe was answered
// correctly, that the balances add up, and that few swipes timed out.
func (o *outage) checkSwipeLoad(t *testing.T, l *swipeLoad, timeouts float64) {
	t.Helper()
	<-l.ended
	require.NoError(t, l.err)
	s := l.report.Stages[0]
	require.Empty(t, l.report.Failure())
	for _, failure := range []string{"no answer", "system_unavailable", "backlog_full"} {
		require.Zero(t, s.Outcomes[failure], failure)
	}
	all := int64(0)
	for _, n := range s.Outcomes {
		all += n
	}
	t.Logf("%d swipes at %d a second, %d of them approved, %d not sent in time by bench, p99 %.1f ms; "+
		"%d timeouts, %.0f of them in the %v of the outage", all, o.rate, s.Outcomes["approved"], s.Unsent,
		s.Measures[0].P99Micros/1000, s.Outcomes["timeout"], timeouts, o.away)
	require.Less(t, 100*s.Outcomes["timeout"], maxTimeoutPercent*all)
}

// requireStreams waits until the consumers of a running server have caught up. It compares the
// stores with the book, and the topic with the journal. Without Postgres it does nothing.
func (purser program) requireStreams(t *testing.T, p *process, data string) {
	t.Helper()
	if purser.database == nil {
		return
	}
	p.awaitEmptyBacklog(t)
	p.awaitWithin(t, recoveryTimeout, "the consumers", func() bool {
		seen := p.scrape(t)
		return len(seen) > 0 && seen["purser_consumer_lag_events"] == 0 && seen["purser_publisher_up"] == 1
	})
	audit := ""
	p.await(t, "the book", func() bool { // a deposit may settle between two audits
		audit = requireSuccess(t, purser, data, "audit")
		return strings.Contains(audit, "it is 0 events behind")
	})
	require.Contains(t, audit, "authorizer and book agree to the cent")
	requireTopic(t, purser.broker.addresses, purser.database.URL("postgres"))
}

// backlog returns the number of decisions that are not in the journal, or infinity if the server
// does not report it.
func (p *process) backlog(t *testing.T) float64 {
	t.Helper()
	if entries, reported := p.scrape(t)["purser_backlog_entries"]; reported {
		return entries
	}
	return math.Inf(1)
}

// scrape returns the server's metrics by name, each summed over all labels. The map is empty if the
// admin port does not answer.
func (p *process) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	return sumMetrics(t, p.adminPage("/metrics"))
}
