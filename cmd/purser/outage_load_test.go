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

// outageTimes is how long the stores are away, stopping included, and how many swipes a second come before, meanwhile and after. What
// comes after is what a machine may stand still meanwhile: the dollars of the swipes cannot be counted before the stores are back.
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
	// mostTimeouts is how many of a hundred swipes may be declined for a machine that does not come to them within 150 ms.
	// Swipes that waited for a store would all be.
	maxTimeoutPercent = 7
	// probedAnew is until the server has asked the journal once more: a second, and two that it waits for an answer.
	probeTimeout = 4 * time.Second
)

// outage is a server under load whose stores are taken away.
type outage struct {
	program
	outageTimes
	data   string
	p      *process
	tenant *tenant
	cards  int // that the tenant has
}

// TestSwipesDoNotNoticeAnOutage takes Postgres, Kafka and both away from the program under a steady stream of swipes.
func TestSwipesDoNotNoticeAnOutage(t *testing.T) {
	o := &outage{program: onPostgresAndKafka(t, buildProgram(t)), outageTimes: shortOutage, data: filepath.Join(t.TempDir(), "data")}
	if o.database == nil {
		return
	}
	o.env = append(o.env, "PURSER_AUTHORIZER_SYNC=false") // the stores are the test's matter, and not the disk that they share
	full := os.Getenv(fullLengthVariable) != ""
	if full {
		o.outageTimes = fullOutage
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
		{"Kafka is stopped", false, true, o.broker.stop, o.broker.restart, false},
		{"both are stopped", true, true, func() error { return errors.Join(o.broker.stop(), stopDatabase()) }, o.broker.restart, false},
		{"Postgres crashes", true, false, o.database.Crash, startDatabase, true},
		{"Postgres is frozen", true, false, o.database.Pause, o.database.Resume, true},
	} {
		if c.full && !full {
			continue
		}
		passed := t.Run(c.name, func(t *testing.T) {
			load := o.startSwipes(t)
			until := time.Now().Add(o.away) // by the clock of the swipes
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
			require.NoError(t, c.give())
			require.Greater(t, decided, float64(outageClients), "swipes go on")
			o.awaitRecovery(t, frozen, backlog)
			o.checkSwipeLoad(t, load, timeouts)
			o.requireStreams(t, o.p, o.data)
		})
		if !passed {
			return
		}
	}
	require.Empty(t, o.p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, o.program, o.data, "audit"), "authorizer and book agree to the cent", "of the stores at rest")
}

// swipeLoad is what bench says of a stream of swipes when it has ended.
type swipeLoad struct {
	report bench.Report
	err    error
	ended  chan struct{}
}

// startSwipes begins a stream of swipes; it returns when the time before the outage is over.
func (o *outage) startSwipes(t *testing.T) *swipeLoad {
	t.Helper()
	l, begun := &swipeLoad{ended: make(chan struct{})}, make(chan struct{})
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

func (o *outage) createCard(t *testing.T) (id string) {
	t.Helper()
	o.cards++
	return o.tenant.mustPost(t, o.p, "/api/cards", cardRequest(), 200).answer.Text("card", "id")
}

// sendDuringOutage asks for a read and for changes until the outage is over. Without Postgres all are refused; without Kafka everything
// goes on.
func (o *outage) sendDuringOutage(t *testing.T, until time.Time, card string, database bool) {
	t.Helper()
	for {
		if database {
			o.p.requireUnavailable(t, o.tenant.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"}, freezeRequest(card),
				apiclient.Request{Method: "POST", Path: "/api/cards", IdempotencyKey: apiclient.NewIdempotencyKey(), Body: marshal(cardRequest())},
				apiclient.Request{Method: "POST", Path: "/api/treasury/deposits", IdempotencyKey: apiclient.NewIdempotencyKey(),
					Body: marshal(depositRequest(1_00))})
		} else {
			o.createCard(t)
		}
		if !time.Now().Before(until) {
			return
		}
		require.True(t, persistence.Pause(t.Context(), 20*pollInterval))
	}
}

// awaitDecisions waits, at the end of the outage, for more decisions than there were swipes on their way. A stream whose time was up
// before that has ended with an answer to each swipe, which judge looks at; it does not end while swipes hang.
func (o *outage) awaitDecisions(t *testing.T, l *swipeLoad) {
	t.Helper()
	before, _ := o.decisionCounts(t)
	o.p.await(t, "swipes that go on", func() bool {
		select {
		case <-l.ended:
			return true
		default:
		}
		now, _ := o.decisionCounts(t)
		return now > before+outageClients
	})
}

// checkHealthReports looks at what the server says of itself: without Postgres that it is not ready, without Kafka alone that it is, and that
// Kafka is missed.
func (o *outage) checkHealthReports(t *testing.T, database, kafka bool) {
	t.Helper()
	if database {
		o.p.await(t, "that it is not ready", func() bool {
			seen := o.p.scrape(t)
			return len(seen) > 0 && seen["purser_ready"] == 0 && seen["purser_journal_up"] == 0 && o.p.adminPage("/readyz") == ""
		})
		o.p.await(t, "a backlog", func() bool { return o.p.scrape(t)["purser_backlog_entries"] > 0 })
	} else if !o.ready(t) { // a slow machine may have been late to ask the journal once
		require.True(t, persistence.Pause(t.Context(), probeTimeout))
		require.True(t, o.ready(t), "it is not ready in two looks running")
	}
	if kafka && !database {
		o.awaitPublisherDown(t)
		o.p.await(t, "what is to be published", func() bool { return o.p.scrape(t)["purser_outbox_lag_events"] > 0 })
	}
}

// awaitPublisherDown waits until the server says so, which is when there is something to publish: not while Postgres is away. A broker that
// is frozen is missed when the request that it has runs out of time.
func (o *outage) awaitPublisherDown(t *testing.T) {
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

func freezeRequest(card string) apiclient.Request {
	return apiclient.Request{Method: "PATCH", Path: "/api/cards/" + card, Body: marshal(fields{"state": "frozen"})}
}

// awaitRecovery waits until the server has caught up with the swipes, which go on, and looks for traces of what was refused.
func (o *outage) awaitRecovery(t *testing.T, card string, backlog float64) {
	t.Helper()
	began := time.Now()
	o.p.awaitWithin(t, recoveryTimeout, "readiness", func() bool { return o.p.adminPage("/readyz") != "" })
	ready := time.Since(began)
	o.p.awaitWithin(t, recoveryTimeout, "the relay", func() bool { return o.p.backlog(t) < float64(o.rate) })
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

// decisionCounts counts what was decided, and of it the swipes that were declined because that did not come in time.
func (o *outage) decisionCounts(t *testing.T) (all, timeouts float64) {
	t.Helper()
	page := ""
	o.p.await(t, "the metrics", func() bool { page = o.p.adminPage("/metrics"); return page != "" })
	return sumMetrics(t, page)["purser_decisions_total"], sumLabelled(page, "purser_decisions_total", `reason="timeout"`)
}

// sumLabelled adds up the metrics of a name that have a label.
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

// compareRules waits for the end of the swipes: each was answered, as it had to be, and the dollars add up.
func (o *outage) checkSwipeLoad(t *testing.T, l *swipeLoad, timeouts float64) {
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
	require.Less(t, 100*s.Outcomes["timeout"], maxTimeoutPercent*all)
}

// requireStreams waits until the consumers of a running server have caught up, and compares all there is: the stores and the
// book with each other, and the topic with the journal.
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
	return sumMetrics(t, p.adminPage("/metrics"))
}
