package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
	"purser/httpapi/webhook"
	"purser/persistence/retry"
)

// The size of a storm of customers.
const (
	customersEach        = 8 // customers of a merchant; each round has a merchant of its own
	customerPollInterval = 10 * time.Millisecond
	customerChain        = "polygon"
	reorganisedBlocks    = 10 // blocks replaced, of the 50 that make a payment final
	// confirmationDelay is the time until a payment is final. It is as long as a storm, so that
	// kills meet payments at each stage.
	confirmationDelay = "1s"
	// webhookTimeout covers the retry of an attempt that a kill cut off, one minute later, and the
	// pause of two minutes after a third attempt.
	webhookTimeout = 5 * time.Minute
	refuseOneIn    = 4 // the receiver refuses the first attempt of one event in refuseOneIn
)

// killWindows limit, by round, after how many answers the kill comes: while links are created and
// paid, while payments are seen, and while they become final, credited and announced.
var killWindows = []int64{40, 400, 1_000}

// TestNoCheckoutIsCreditedTwice kills the server at random moments while customers create payment
// links, select an asset, pay and poll the status.
func TestNoCheckoutIsCreditedTwice(t *testing.T) {
	onlyInFullLength(t)
	t.Parallel()
	onEachStoreSet(t, killAmidCheckouts)
}

// killAmidCheckouts requires that each paid link is completed after the kills, that the ledger has
// its credit once, and that its merchant gets its event under one id. No two links share an
// address.
func killAmidCheckouts(t *testing.T, purser program, full bool) {
	seed, data, rounds := chooseSeed(t), filepath.Join(t.TempDir(), "data"), shortKillRounds
	if full {
		rounds = killRounds
	}
	random := rand.New(rand.NewPCG(seed, 7))
	purser.env = append(slices.Clone(purser.env), "PURSER_SANDBOX_DELAY="+confirmationDelay,
		"PURSER_ALLOW_PRIVATE_WEBHOOKS=true",
		"PURSER_CHECKOUT_TOLERANCE=0,1")
	m := newCheckoutStorm(t)
	p := launch(t, purser, data)
	for round := range rounds {
		merchant := m.addMerchant(t, p, round)
		m.runUntilKilled(t, p, merchant, 1+random.Int64N(killWindows[round%len(killWindows)]))
		require.Equal(t, "signal: killed", p.awaitExit(t))
		p = launch(t, purser, data)
		m.repeatRequests(t, p, merchant)
	}
	m.awaitCompletion(t, p)
	m.checkLedgerAndWebhooks(t, p)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
	t.Logf("%d kills: %d links, each paid, credited and announced once; statuses before the kills %v; "+
		"%d requests cut off, %d events refused at first",
		rounds, rounds*customersEach, m.statusesBeforeKill, m.cut.Load(), m.refusals)
	require.NotZero(t, m.cut.Load(), "no kill cut off a request")
}

// checkoutStorm holds all merchants and the webhook events that their shared server received.
type checkoutStorm struct {
	receiver           *httptest.Server
	merchants          []*merchant
	statusesBeforeKill map[string]int // links by their last status before a kill
	cut                atomic.Int64   // requests without an answer

	mu       sync.Mutex
	received map[string]map[string]string // session → webhook-id → body
	refusals int
	faults   []string
}

// merchant is a workspace with a webhook endpoint and payment links.
type merchant struct {
	name, bearer, secret, endpoint string
	session                        *apiclient.Client // a session of the dashboard
	links                          []*paymentLink
}

// paymentLink holds the requests of one customer, all of which can be repeated, and their results.
type paymentLink struct {
	cents    int64 // the cents paid: the amount, or a cent less
	create   apiclient.Request
	payments []sandboxPayment // without an address until the link has one

	created    apiclient.Answer // the first answer to create
	id         string
	address    string
	lastStatus string // the status in the last answer
}

func newCheckoutStorm(t *testing.T) *checkoutStorm {
	m := &checkoutStorm{statusesBeforeKill: map[string]int{}, received: map[string]map[string]string{}}
	m.receiver = httptest.NewServer(http.HandlerFunc(m.serveWebhooks))
	t.Cleanup(m.receiver.Close)
	return m
}

// serveWebhooks is the webhook server of all merchants. It verifies each event's signature and
// body, and answers the first attempt of some events with 500.
func (m *checkoutStorm) serveWebhooks(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var event struct{ ID string }
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.IndexFunc(m.merchants, func(one *merchant) bool { return r.URL.Path == "/"+one.name })
	if err != nil || at < 0 || json.Unmarshal(body, &event) != nil {
		m.faults = append(m.faults, fmt.Sprintf("%s: %v: %s", r.URL.Path, err, body))
		return
	}
	if _, err := webhook.VerifyRequest([]string{m.merchants[at].secret}, r.Header.Get(webhook.SignatureHeader),
		webhook.Request{Body: body}, webhook.V1, time.Now()); err != nil {
		m.faults = append(m.faults, err.Error())
	}
	id := r.Header.Get(webhook.IDHeader)
	if m.received[event.ID] == nil {
		m.received[event.ID] = map[string]string{}
	}
	before, again := m.received[event.ID][id]
	if again && before != string(body) {
		m.faults = append(m.faults, "two bodies under one id: "+before+" and "+string(body))
	}
	m.received[event.ID][id] = string(body)
	if !again && len(m.received)%refuseOneIn == 0 {
		m.refusals++
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (m *checkoutStorm) addFault(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// addMerchant creates a merchant and the requests of its customers. Every second customer pays in
// two transactions. Some pay a cent less, which is within the server's tolerance.
func (m *checkoutStorm) addMerchant(t *testing.T, p *process, round int) *merchant {
	t.Helper()
	one := &merchant{name: fmt.Sprintf("merchant-%d", round), session: apiclient.New(p.rest, "")}
	must := func(path string, body fields) apiclient.Answer {
		a, err := sendUntilKnown(t.Context(), one.session,
			apiclient.Request{Method: "POST", Path: path, Body: marshal(body)})
		require.NoError(t, err)
		require.Equal(t, 200, a.Status, string(a.Raw))
		return a
	}
	must("/api/dashboard/signup", fields{"email": one.name + "@example.com", "password": "a long password"})
	must("/api/workspaces", fields{"name": one.name})
	a := must("/api/webhooks/endpoints", fields{"url": m.receiver.URL + "/" + one.name,
		"events": []string{"checkout.session.completed"}})
	one.endpoint, one.secret = a.Text("endpoint", "id"), a.Text("secret")
	one.bearer = must("/api/auth/keys", fields{"label": "storm",
		"scopes": []string{"read:checkout", "write:checkout", "read:treasury"}}).Text("secret")
	for n := range customersEach {
		l := &paymentLink{cents: int64(10_00 + round*100 + n)}
		l.create = apiclient.Request{Method: "POST", Path: "/api/v1/checkout/sessions",
			IdempotencyKey: apiclient.NewIdempotencyKey(), Body: marshal(fields{"amountUsdCents": l.cents,
				"successUrl": "https://shop.example.com", "acceptedAssets": []string{"USDC"},
				"acceptedChains": []string{customerChain}})}
		if n%4 == 2 {
			l.cents--
		}
		parts := []int64{l.cents}
		if n%2 == 1 {
			parts = []int64{l.cents / 3, l.cents - l.cents/3}
		}
		for part, cents := range parts {
			l.payments = append(l.payments, sandboxPayment{Chain: customerChain,
				Reference: fmt.Sprintf("%s-%d-%d", one.name, n, part), From: "0xcustomer",
				Transfers: []sandboxTransfer{{Asset: "USDC", AmountUnits: fmt.Sprint(cents * 10_000)}}})
		}
		one.links = append(one.links, l)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.merchants = append(m.merchants, one)
	return one
}

// runUntilKilled runs all customers until the server is killed after a number of answers.
func (m *checkoutStorm) runUntilKilled(t *testing.T, p *process, one *merchant, after int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stormTimeout)
	defer cancel()
	var answers atomic.Int64
	count := func(a apiclient.Answer, err error) bool {
		if err != nil {
			m.cut.Add(1)
			return false
		}
		if unchangedOrUnknown(a) { // a busy server: repeatRequests sends the request again after the kill
			return false
		}
		if a.Status != http.StatusOK {
			m.addFault("%d: %s", a.Status, a.Raw)
		}
		if answers.Add(1) == after {
			_ = p.cmd.Process.Kill()
		}
		return true
	}
	var all sync.WaitGroup
	for n, l := range one.links {
		all.Go(func() {
			send := func(c *apiclient.Client, r apiclient.Request) (apiclient.Answer, error) { return c.Send(ctx, r) }
			if !l.createAndPay(p, one.bearer, send, count) {
				return
			}
			if n == 0 &&
				!count(p.client(p.admin, "").Send(ctx, apiclient.Request{Method: "POST", Path: "/sandbox-reorganise",
					Body: marshal(sandboxReorganisation{Chain: customerChain, Depth: reorganisedBlocks})})) {
				return
			}
			for retry.Pause(ctx, customerPollInterval) {
				a, err := p.client(p.rest, one.bearer).Send(ctx,
					apiclient.Request{Method: "GET", Path: "/api/v1/checkout/sessions/" + l.id})
				if !count(a, err) {
					return
				}
				l.lastStatus = a.Text("session", "status")
			}
		})
	}
	all.Wait()
	_ = p.cmd.Process.Kill() // on a slow machine the storm times out before the answer to kill at
}

// createAndPay creates the link, selects the asset and pays; repeated, it changes nothing twice. It
// stops and returns false at the first answer for which count returns false.
func (l *paymentLink) createAndPay(p *process, bearer string,
	send func(*apiclient.Client, apiclient.Request) (apiclient.Answer, error),
	count func(apiclient.Answer, error) bool) bool {
	a, err := send(p.client(p.rest, bearer), l.create)
	if !count(a, err) {
		return false
	}
	if l.id == "" {
		l.created, l.id = a, a.Text("session", "id")
		for _, pair := range a.Rows("session", "receivingAddresses") {
			l.address = fmt.Sprint(pair["address"])
		}
	}
	steps := []apiclient.Request{{Path: "/api/v1/checkout/sessions/" + l.id + "/select",
		Body: marshal(fields{"asset": "USDC", "chain": customerChain})}}
	for _, payment := range l.payments {
		payment.Transfers[0].Address = l.address
		steps = append(steps, apiclient.Request{Path: "/sandbox-pay", Body: marshal(payment)})
	}
	for i, step := range steps {
		base := p.admin
		if i == 0 {
			base = p.rest
		}
		step.Method = "POST"
		if !count(send(p.client(base, ""), step)) {
			return false
		}
	}
	return true
}

// repeatRequests sends all requests of a round's customers again. A link that was created before
// the kill gets the same answer again.
func (m *checkoutStorm) repeatRequests(t *testing.T, p *process, one *merchant) {
	t.Helper()
	for _, l := range one.links {
		m.statusesBeforeKill[cmp.Or(l.lastStatus, "not seen")]++
		made := l.created
		send := func(c *apiclient.Client, r apiclient.Request) (apiclient.Answer, error) {
			return sendUntilKnown(t.Context(), c, r)
		}
		require.True(t, l.createAndPay(p, one.bearer, send, func(a apiclient.Answer, err error) bool {
			// payment_seen: the link was paid before the kill, and its asset cannot be selected
			// again.
			return err == nil && (a.Status == 200 || a.Text("error") == "payment_seen")
		}))
		again, err := p.sendToREST(one.bearer, l.create)
		require.NoError(t, err)
		require.Equal(t, 200, again.Status, string(again.Raw))
		if made.Raw != nil {
			require.Equal(t, string(made.Raw), string(again.Raw))
		}
	}
}

// awaitCompletion waits until every link is completed and every event is delivered to its merchant.
func (m *checkoutStorm) awaitCompletion(t *testing.T, p *process) {
	t.Helper()
	for _, one := range m.merchants {
		for _, l := range one.links {
			p.await(t, "the completion of "+l.id, func() bool {
				a, err := p.sendToREST(one.bearer,
					apiclient.Request{Method: "GET", Path: "/api/v1/checkout/sessions/" + l.id})
				return err == nil && a.Text("session", "status") == "completed"
			})
		}
		one.session.BaseURL = p.rest
		p.awaitWithin(t, webhookTimeout, "the events of "+one.name, func() bool {
			a, err := sendUntilKnown(t.Context(), one.session, apiclient.Request{Method: "GET",
				Path: "/api/webhooks/endpoints/" + one.endpoint + "/deliveries?limit=100"})
			require.NoError(t, err)
			rows, pending := a.Rows("data"), func(row map[string]any) bool { return row["status"] != "delivered" }
			return len(rows) >= customersEach && !slices.ContainsFunc(rows, pending)
		})
	}
}

// checkLedgerAndWebhooks requires one ledger line, one event and one address of its own for every
// link.
func (m *checkoutStorm) checkLedgerAndWebhooks(t *testing.T, p *process) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Empty(t, m.faults)
	addresses := map[string]bool{}
	for _, one := range m.merchants {
		a, err := p.sendToREST(one.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
		require.NoError(t, err)
		lines, total := map[string]int{}, int64(0)
		for _, line := range a.Rows("ledger") {
			lines[fmt.Sprint(line["reference"])]++
		}
		for _, l := range one.links {
			require.Equal(t, 1, lines[l.id], "ledger lines of %s", l.id)
			require.Len(t, m.received[l.id], 1, "event ids of %s", l.id)
			require.False(t, addresses[l.address], "two links have the address %s", l.address)
			addresses[l.address], total = true, total+l.cents
		}
		require.Len(t, lines, customersEach)
		require.Equal(t, total, integerAt(a, "snapshot", "stablecoinUsdCents"))
	}
	require.Len(t, m.received, len(m.merchants)*customersEach, "links with events")
}
