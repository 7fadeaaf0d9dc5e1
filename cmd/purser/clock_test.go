package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/clock"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
)

const days = 24 * time.Hour

// stepped is a wall clock that a test sets by step while the time since boot continues. passed
// moves every clock.
type steppedClock struct {
	step, passed atomic.Int64
	synchronised atomic.Bool
}

func (s *steppedClock) clocks() machineClocks {
	c := systemClocks()
	passed := func() time.Duration { return time.Duration(s.passed.Load()) }
	boot, elapsed := c.boot, c.elapsed
	c.boot = func() time.Duration { return boot() + passed() }
	c.elapsed = func() time.Duration { return elapsed() + passed() }
	c.wall = func() time.Time { return time.Now().Add(time.Duration(s.step.Load()) + passed()) }
	c.synchronised = s.synchronised.Load
	return c
}

// startOnClock starts a server on a stepped wall clock.
func startOnClock(t *testing.T, data string, wall *steppedClock, change ...func(*settings.Config)) (*daemon, *process) {
	t.Helper()
	config := testConfig(t, data)
	config.SandboxDelay, config.RateLimits.Off = 0, true
	for _, f := range change {
		f(&config)
	}
	m := newDaemon(config, debugLogger())
	m.clocks = wall.clocks()
	return m, m.startWithClient(t)
}

// tenantWithHold is a workspace with a card that has a hold, and a deposit under an Idempotency-Key.
type tenantWithHold struct {
	*tenant
	p       *process
	token   string
	swipe   apiclient.Request
	swiped  apiclient.Answer
	deposit *restPost
}

func newTenantWithHold(t *testing.T, p *process) *tenantWithHold {
	t.Helper()
	tn := &tenant{bearer: signUp(t, p, 0)}
	v := &tenantWithHold{tenant: tn, p: p, deposit: tn.mustPost(t, p, "/api/treasury/deposits", depositRequest(50_00), 202)}
	v.token = tn.mustPost(t, p, "/api/cards", cardRequest(), 200).answer.Text("card", "partnerCardToken")
	p.await(t, "the deposit", func() bool { return v.availableCents(t) == 50_00 })
	v.swipe = apiclient.Request{Method: "POST", Path: "/v1/authorizations",
		Body: marshal(fields{"id": "once", "cardToken": v.token,
			"amountCents": 20_00, "currency": "USD", "merchant": fields{"name": "Cafe", "mcc": "5812"}})}
	v.swiped = v.repeatSwipe(t)
	require.Equal(t, "approved", v.swiped.Text("decision"), string(v.swiped.Raw))
	return v
}

func (v *tenantWithHold) repeatSwipe(t *testing.T) apiclient.Answer {
	t.Helper()
	a, err := v.p.client(v.p.network, v.p.secret).SendUntilDecided(t.Context(), v.swipe)
	require.NoError(t, err)
	return a
}

func (v *tenantWithHold) availableCents(t *testing.T) int64 {
	t.Helper()
	a, err := v.p.sendToREST(v.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
	require.NoError(t, err)
	require.Equal(t, 200, a.Status, string(a.Raw))
	cents, err := strconv.ParseInt(fmt.Sprint(apiclient.DollarBalance(a)["availableCents"]), 10, 64)
	require.NoError(t, err)
	return cents
}

// requireUnharmed requires that the server has forgotten, freed and repeated nothing, and still answers.
func (v *tenantWithHold) requireUnharmed(t *testing.T) {
	t.Helper()
	require.Equal(t, string(v.swiped.Raw), string(v.repeatSwipe(t).Raw), "the network's message is remembered")
	a, err := v.p.sendToREST(v.bearer, v.deposit.request)
	require.NoError(t, err)
	require.True(t, a.Replayed, "the Idempotency-Key is remembered: %s", a.Raw)
	require.Equal(t, string(v.deposit.answer.Raw), string(a.Raw))
	require.Equal(t, int64(30_00), v.availableCents(t), "the hold stands")
}

// awaitClockState waits until the server's guard has judged the wall clock, and checks metric and
// readiness.
func awaitClockState(t *testing.T, m *daemon, p *process, suspect bool) {
	t.Helper()
	p.await(t, "the guard", func() bool { return m.trusted.isSuspect() == suspect })
	require.Equal(t, oneIf(suspect), m.scrape(t)["purser_clock_suspect"])
	status, text := m.adminPage(t, "/readyz")
	require.Equal(t, suspect, status == http.StatusServiceUnavailable, text)
	require.Equal(t, suspect, strings.Contains(text, "purser clock accept"), text)
}

// A wall clock that is 45 days ahead forgets no network id and no Idempotency-Key and frees no
// hold, whether it is set back or the server is started again under it; an operator's word makes it
// the time.
func TestAttackWallClockAhead(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	m, p := startOnClock(t, data, wall)
	v := newTenantWithHold(t, p)
	wall.step.Store(int64(45 * days))
	awaitClockState(t, m, p, true)
	v.requireUnharmed(t)
	wall.step.Store(0)
	awaitClockState(t, m, p, false)
	v.requireUnharmed(t)
	require.NoError(t, p.stop())

	wall.step.Store(int64(45 * days))
	m, v.p = startOnClock(t, data, wall)
	awaitClockState(t, m, v.p, true)
	v.requireUnharmed(t)
	v.p.requireApproval(t, v.token, "goes-on")
	require.Contains(t, runAudit(t, data), "agree to the cent")

	var out strings.Builder
	require.NoError(t, run([]string{"clock", "--data-dir", data}, &out))
	require.Contains(t, out.String(), "suspect: the wall clock says")
	out.Reset()
	require.NoError(t, run([]string{"clock", "accept", "--data-dir", data}, &out))
	require.NotContains(t, out.String(), "suspect")
	awaitClockState(t, m, v.p, false)
	v.p.await(t, "holds that have run out", func() bool { return v.availableCents(t) == 50_00 })
	require.NoError(t, v.p.stop())
}

// A wall clock that is an hour behind refuses no caller: limits and decisions run on trusted time,
// over a restart too.
func TestAttackWallClockBehind(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	m, p := startOnClock(t, data, wall)
	v := newTenantWithHold(t, p)
	before := m.Clock()
	wall.step.Store(int64(-time.Hour))
	awaitClockState(t, m, p, true)
	v.requireUnharmed(t)
	require.False(t, m.Clock().Before(before))
	require.NoError(t, p.stop())

	m, v.p = startOnClock(t, data, wall)
	awaitClockState(t, m, v.p, true)
	require.False(t, m.Clock().Before(before))
	v.requireUnharmed(t)
	require.NoError(t, run([]string{"clock", "accept", "--data-dir", data}, &strings.Builder{}))
	awaitClockState(t, m, v.p, false)
	require.False(t, m.Clock().Before(before), "time does not run backward for an operator either")
	require.NoError(t, v.p.stop())

	m, v.p = startOnClock(t, data, wall) // the mark remembers an accepted step
	awaitClockState(t, m, v.p, false)
	v.requireUnharmed(t)
	require.NoError(t, v.p.stop())
}

// A minute after a limit was reached there is room again, though the wall clock was set back by an
// hour meanwhile.
func TestAttackWallClockBehindRefusesNobody(t *testing.T) {
	wall := &steppedClock{}
	m, p := startOnClock(t, t.TempDir(), wall, func(c *settings.Config) { c.RateLimits.Off, c.RateLimits.PerKey = false, 5 })
	bearer := signUp(t, p, 0)
	status := func() int {
		a, err := p.client(p.rest, bearer).Send(t.Context(), apiclient.Request{Method: "GET", Path: "/api/workspaces"})
		require.NoError(t, err)
		return a.Status
	}
	p.await(t, "the limit", func() bool { return status() == 429 })
	wall.step.Store(int64(-time.Hour))
	awaitClockState(t, m, p, true)
	require.Equal(t, 429, status())
	wall.passed.Store(int64(rateMinute))
	require.Equal(t, 200, status())
}

// A limit's minute is a minute of elapsed time, whichever time an operator accepts: an hour ahead
// ends it no earlier, an hour back no later.
func TestAnAcceptedStepChangesNoLimit(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	m, p := startOnClock(t, data, wall, func(c *settings.Config) { c.RateLimits.Off, c.RateLimits.PerKey = false, 5 })
	bearer := signUp(t, p, 0)
	status := func() int {
		a, err := p.client(p.rest, bearer).Send(t.Context(), apiclient.Request{Method: "GET", Path: "/api/workspaces"})
		require.NoError(t, err)
		return a.Status
	}
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		p.await(t, "the limit", func() bool { return status() == 429 })
		wall.step.Add(int64(step))
		awaitClockState(t, m, p, true)
		require.NoError(t, run([]string{"clock", "accept", "--data-dir", data}, &strings.Builder{}))
		awaitClockState(t, m, p, false)
		require.Equal(t, 429, status(), step)
		wall.passed.Add(int64(rateMinute))
		require.Equal(t, 200, status(), step)
	}
}

// rateMinute is the length of a limit's window, and a second.
const rateMinute = 61 * time.Second

// A machine starts without a word after a weekend, and after a month if its clock is synchronised.
func TestAStartAfterALongTime(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	_, p := startOnClock(t, data, wall)
	newTenantWithHold(t, p)
	require.NoError(t, p.stop())
	wall.step.Store(int64(64 * time.Hour))
	m, p := startOnClock(t, data, wall)
	awaitClockState(t, m, p, false)
	require.NoError(t, p.stop())
	wall.synchronised.Store(true)
	wall.step.Store(int64(45 * days))
	m, p = startOnClock(t, data, wall)
	awaitClockState(t, m, p, false)
	require.NoError(t, p.stop())
}

// Without a mark and without a swipe, trusted time starts no earlier than the journal's newest
// event.
func TestTimeIsNeverBeforeTheNewestEvent(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	m, p := startOnClock(t, data, wall)
	signUp(t, p, 0)
	before := m.Clock()
	require.NoError(t, p.stop())
	require.NoError(t, os.Remove(clockFile(data)))
	wall.step.Store(int64(-45 * days))
	m, p = startOnClock(t, data, wall)
	awaitClockState(t, m, p, true)
	require.Less(t, before.Sub(m.Clock()), time.Minute)
	require.NoError(t, p.stop())
}

// A deployment of an earlier program has no mark. Trusted time then starts no earlier than its
// newest decision.
func TestTimeIsNeverBeforeTheNewestDecision(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	m, p := startOnClock(t, data, wall)
	v := newTenantWithHold(t, p)
	before := m.Clock()
	require.NoError(t, p.stop())
	require.NoError(t, os.Remove(clockFile(data)))
	wall.step.Store(int64(-45 * days))
	m, v.p = startOnClock(t, data, wall)
	awaitClockState(t, m, v.p, true)
	require.Less(t, before.Sub(m.Clock()), time.Minute)
	v.requireUnharmed(t)
}

func TestAClockMarkThatIsNoneIsNamed(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, datadir.WriteChecksummed(clockFile(data), clockMarkForm, []byte(`{"trusted":"2026-01-01T00:00:00Z"}`)))
	require.ErrorContains(t, newDaemon(testConfig(t, data), debugLogger()).Start(t.Context()), clockFile(data))
}

// TestADamagedClockMarkIsRefused: with one damaged digit the trusted time was of the year 3026, in
// which every hold has expired.
func TestADamagedClockMarkIsRefused(t *testing.T) {
	data := t.TempDir()
	now := time.Date(2026, time.November, 25, 1, 2, 3, 4, time.UTC)
	mark := clock.Mark{Trusted: now, Wall: now, Suspect: true}
	require.NoError(t, writeClockMark(data, mark))
	got, err := readClockMark(data)
	require.NoError(t, err)
	require.Equal(t, mark, *got)
	forEachDamage(t, clockFile(data), func(damage string) {
		_, err := readClockMark(data)
		require.ErrorContains(t, err, clockFile(data), damage)
	})
}

// A start over the mark of a program that wrote no checksum goes without it.
func TestAMarkWithoutAChecksumIsNone(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.WriteFile(clockFile(data), []byte(`{"form":1,"trusted":"3026-11-25T01:02:03Z"}`), 0o600))
	mark, err := readClockMark(data)
	require.NoError(t, err)
	require.Nil(t, mark)
}
