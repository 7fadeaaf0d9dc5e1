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
	"purser/httpapi"
)

const days = 24 * time.Hour

// steppedClock is the clocks of a machine. A test moves the wall clock by step (ns) alone, and all
// clocks by passed (ns).
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

// startOnClock starts a server whose machine has a stepped clock.
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

// tenantWithHold is a workspace with a settled deposit of $50, made with an Idempotency-Key, and a
// card with a hold of $20.
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
	v := &tenantWithHold{tenant: tn, p: p}
	v.deposit = tn.mustPost(t, p, "/api/treasury/deposits", depositRequest(50_00), 202)
	v.token = tn.mustPost(t, p, "/api/cards", cardRequest(), 200).answer.Text("card", "partnerCardToken")
	p.await(t, "the deposit", func() bool { return v.availableCents(t) == 50_00 })
	// A swipe that found a busy machine keeps its answer "timeout": each attempt is another one.
	for n := 0; v.swiped.Text("decision") != "approved" && n < maxSwipes; n++ {
		v.swipe = apiclient.Request{Method: "POST", Path: "/v1/authorizations",
			Body: marshal(fields{"id": fmt.Sprint("once-", n), "cardToken": v.token,
				"amountCents": 20_00, "currency": "USD", "merchant": fields{"name": "Cafe", "mcc": "5812"}})}
		v.swiped = v.repeatSwipe(t)
	}
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

// requireUnharmed repeats the swipe and the deposit. It requires that both get their first answer
// and that the hold stands.
func (v *tenantWithHold) requireUnharmed(t *testing.T) {
	t.Helper()
	require.Equal(t, string(v.swiped.Raw), string(v.repeatSwipe(t).Raw), "the repeated swipe gets its first answer")
	a, err := v.p.sendToREST(v.bearer, v.deposit.request)
	require.NoError(t, err)
	require.True(t, a.Replayed, "the repeated deposit is a replay: %s", a.Raw)
	require.Equal(t, string(v.deposit.answer.Raw), string(a.Raw))
	v.p.await(t, "the balance below the hold", func() bool { return v.availableCents(t) == 30_00 })
}

// awaitClockState waits until the server trusts or suspects its wall clock. It requires that the
// metric and the readiness agree.
func awaitClockState(t *testing.T, m *daemon, p *process, suspect bool) {
	t.Helper()
	p.await(t, "the clock guard", func() bool { return m.trusted.isSuspect() == suspect })
	require.Equal(t, oneIf(suspect), m.scrape(t)["purser_clock_suspect"])
	status, text := m.adminPage(t, "/readyz")
	require.Equal(t, suspect, status == http.StatusServiceUnavailable, text)
	require.Equal(t, suspect, strings.Contains(text, "purser clock accept"), text)
}

// With a wall clock 45 days ahead no network id and no Idempotency-Key is forgotten and no hold
// expires, also after a restart. After `purser clock accept` the hold has expired.
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
	v.p.requireApproval(t, v.token, "suspect-clock")
	require.Contains(t, runAudit(t, data), "agree to the cent")

	var out strings.Builder
	require.NoError(t, run([]string{"clock", "--data-dir", data}, &out))
	require.Contains(t, out.String(), "suspect: the wall clock says")
	out.Reset()
	require.NoError(t, run([]string{"clock", "accept", "--data-dir", data}, &out))
	require.NotContains(t, out.String(), "suspect")
	awaitClockState(t, m, v.p, false)
	v.p.await(t, "the expiry of the hold", func() bool { return v.availableCents(t) == 50_00 })
	require.NoError(t, v.p.stop())
}

// A wall clock an hour behind harms no caller: trusted time, on which decisions and holds depend,
// never runs backward, also over a restart and an accepted step.
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
	require.False(t, m.Clock().Before(before), "an accepted step does not turn trusted time back")
	require.NoError(t, v.p.stop())

	m, v.p = startOnClock(t, data, wall) // the clock mark has the accepted step
	awaitClockState(t, m, v.p, false)
	v.requireUnharmed(t)
	require.NoError(t, v.p.stop())
}

// A first start with a wall clock that is an hour ahead, which is set right and accepted: a partner
// that signs by the true time is believed, though trusted time stays ahead for hours.
func TestReportSignedByTheAcceptedWallClockIsTaken(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	wall.step.Store(int64(time.Hour))
	m, p := startOnClock(t, data, wall)
	v := newTenantWithHold(t, p)
	statusAt := func(at time.Time) int {
		return reportStatus(t, p, httpapi.PathBankReports, at.String(), m.config.PartnerSecrets.Common[0], at)
	}
	require.Equal(t, 401, statusAt(time.Now()))
	wall.step.Store(0)
	awaitClockState(t, m, p, true)
	require.Equal(t, 401, statusAt(time.Now()), "an unaccepted step moves no clock")
	require.NoError(t, run([]string{"clock", "accept", "--data-dir", data}, &strings.Builder{}))
	awaitClockState(t, m, p, false)
	require.Greater(t, time.Until(m.Clock()), 50*time.Minute)
	require.Equal(t, 200, statusAt(time.Now()))
	require.Equal(t, 401, statusAt(m.Clock()))
	v.mustPost(t, p, "/api/treasury/deposits", depositRequest(50_00), 202)
	p.await(t, "a deposit of the sandbox bank", func() bool { return v.availableCents(t) == 80_00 })
	wall.passed.Store(int64(30 * time.Minute))
	awaitClockState(t, m, p, false)
	require.Equal(t, 200, statusAt(time.Now().Add(30*time.Minute)), "trusted time is at half speed, other machines are not")
}

// A rate limit ends after its minute, also when the wall clock was set back by an hour meanwhile.
func TestAttackWallClockBehindExtendsNoRateLimit(t *testing.T) {
	wall := &steppedClock{}
	m, p := startOnClock(t, t.TempDir(), wall, fiveRequestsAMinute)
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

// The minute of a rate limit is elapsed time. A step of the wall clock that an operator accepts
// ends it neither earlier nor later.
func TestAcceptedClockStepChangesNoRateLimit(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	m, p := startOnClock(t, data, wall, fiveRequestsAMinute)
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

// fiveRequestsAMinute sets a rate limit for each API key.
func fiveRequestsAMinute(c *settings.Config) { c.RateLimits.Off, c.RateLimits.PerKey = false, 5 }

// rateMinute is the window of a rate limit, one minute, and a second.
const rateMinute = 61 * time.Second

// A start trusts the wall clock after 64 hours without a server, and after 45 days if the clock is
// synchronised.
func TestStartAfterLongDowntimeTrustsTheClock(t *testing.T) {
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

// Without a clock mark and without a decision, trusted time starts no earlier than the journal's
// newest event.
func TestTrustedTimeStartsNoEarlierThanTheNewestEvent(t *testing.T) {
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

// A process that has refused a step and is killed leaves that to the next one, which would follow
// the step as the time of a long weekend.
func TestARefusedStepIsRefusedAfterAKillToo(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	m, p := startOnClock(t, data, wall)
	v := newTenantWithHold(t, p)
	wall.step.Store(int64(72 * time.Hour))
	awaitClockState(t, m, p, true)
	var left []byte // by a kill
	p.await(t, "the mark of a suspect clock", func() bool {
		mark, err := readClockMark(data)
		require.NoError(t, err)
		left, err = os.ReadFile(clockFile(data))
		require.NoError(t, err)
		return mark.Suspect
	})
	require.NoError(t, p.stop())
	require.NoError(t, os.WriteFile(clockFile(data), left, 0o600))
	m, v.p = startOnClock(t, data, wall)
	awaitClockState(t, m, v.p, true)
	require.Less(t, time.Until(m.Clock()), time.Hour)
	v.requireUnharmed(t)
}

// Without a clock mark trusted time starts no earlier than the newest decision.
func TestTrustedTimeStartsNoEarlierThanTheNewestDecision(t *testing.T) {
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

func TestIncompleteClockMarkIsRefused(t *testing.T) {
	data := t.TempDir()
	incomplete := []byte(`{"trusted":"2026-01-01T00:00:00Z"}`)
	require.NoError(t, datadir.WriteChecksummed(clockFile(data), clockMarkForm, incomplete))
	require.ErrorContains(t, newDaemon(testConfig(t, data), debugLogger()).Start(t.Context()), clockFile(data))
}

// A damaged clock mark is refused: one wrong digit would set trusted time to the year 3026, in
// which every hold has expired.
func TestDamagedClockMarkIsRefused(t *testing.T) {
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
