package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/sha3"

	"purser/actors/partner/sandbox"
	"purser/actors/ramp/proof"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/demo"
	"purser/persistence/money"
	"purser/persistence/retry"
)

// The size of a storm of ramp orders.
const (
	rampClients         = 24
	rampOrdersEach      = 12 // orders of a client in a round
	minOrdersBeforeKill = 30 // answers to orders before a kill
	maxOrdersBeforeKill = rampClients * rampOrdersEach / 2
	shortRampRounds     = 2 // without fullLengthVariable
	rampDepositCents    = 60_000_00
	firstOnrampCents    = 30_000_00
	// rampReportTimeout covers the half minute until an order is submitted again, and the ramp's
	// longest pause, one minute, before a report.
	rampReportTimeout = 5 * time.Minute
	rampPageSize      = 100
)

var (
	rampDirections = []string{"onramp", "offramp", "withdraw"}
	rampEndings    = []int64{0, 0, 0, sandbox.EndingCheaper, sandbox.EndingTwice, sandbox.EndingLate,
		sandbox.EndingFails, sandbox.EndingRefused, sandbox.EndingAnswersLost}
)

// TestNoRampOrderIsLostOrDoubledByAKill kills the server, and its sandbox ramp with it, at random
// moments of a storm of orders in all directions.
func TestNoRampOrderIsLostOrDoubledByAKill(t *testing.T) {
	onlyInFullLength(t)
	t.Parallel()
	onEachStoreSet(t, killAmidRamp)
}

func killAmidRamp(t *testing.T, purser program, full bool) {
	seed, data, rounds := chooseSeed(t), filepath.Join(t.TempDir(), "data"), shortRampRounds
	if full {
		rounds = killRounds
	}
	random := rand.New(rand.NewPCG(seed, 9))
	p := launch(t, purser, data)
	s := newRampCustomer(t, p)
	for round := range rounds {
		before := len(s.orders)
		s.runUntilKilled(t, p, seed, round, minOrdersBeforeKill+random.Int64N(maxOrdersBeforeKill-minOrdersBeforeKill))
		require.Equal(t, "signal: killed", p.awaitExit(t))
		p = launch(t, purser, data)
		s.repeatOrders(t, p, s.orders[before:])
	}
	s.repeatOrders(t, p, s.orders)
	s.awaitRampReports(t, p, full)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	s.compareWithRamp(t, data)
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
	require.Contains(t, requireSuccess(t, purser, data, "unmatched"), "0 unmatched")
	t.Logf("%d kills: %d orders, %d of them open at the end; %d requests cut off",
		rounds, len(s.shown), s.open, s.cut.Load())
	require.NotZero(t, s.cut.Load(), "no kill cut off a request")
}

// rampCustomer is a workspace that orders at the ramp, and the requests and answers of its clients.
type rampCustomer struct {
	bearer, wallet          string
	initialUSD, initialUSDC int64        // before the storm, in cents
	cut                     atomic.Int64 // requests without an answer

	mu     sync.Mutex
	orders []*rampOrder

	shown map[string]map[string]any // the orders at the end, by id
	open  int
}

// rampOrder is a quote and its use. A use that was not sent is nil.
type rampOrder struct {
	direction  string
	cents      int64
	quote, use *idempotentPost
}

// orderID returns the id of the order or withdrawal, or "" if there is none.
func (o *rampOrder) orderID() string {
	if o.use == nil || !o.use.answered || o.use.answer.Status != 200 {
		return ""
	}
	return o.use.answer.Text("order", "id") + o.use.answer.Text("withdrawal", "id")
}

// newRampCustomer makes a workspace that is linked to the ramp, with an approved wallet and the
// money of a deposit and of a first on-ramp.
func newRampCustomer(t *testing.T, p *process) *rampCustomer {
	t.Helper()
	session, bearer := signUpSession(t, p, 0, demo.Scopes)
	t.Cleanup(session.HTTP.CloseIdleConnections)
	s := &rampCustomer{bearer: bearer}
	s.linkAccount(t, p)
	s.proveWallet(t, p, session)
	s.post(t, p, "/api/treasury/deposits", depositRequest(rampDepositCents), 202)
	p.await(t, "the deposit", func() bool { return s.treasury(t, p)[0] == rampDepositCents })
	s.awaitOnramp(t, p, s.placeOnramp(t, p, firstOnrampCents), firstOnrampCents)
	before := s.treasury(t, p)
	s.initialUSD, s.initialUSDC = before[0], before[1]
	require.Equal(t, [2]int64{rampDepositCents - firstOnrampCents, firstOnrampCents - firstOnrampCents/200}, before)
	return s
}

// post sends a POST with a new Idempotency-Key that must be answered with status.
func (s *rampCustomer) post(t *testing.T, p *process, path string, body fields, status int) apiclient.Answer {
	t.Helper()
	a, err := p.sendToREST(s.bearer, newIdempotentPost(path, body).request)
	require.NoError(t, err)
	require.Equal(t, status, a.Status, string(a.Raw))
	return a
}

// await polls a path until the answer's text at a path of field names is want.
func (s *rampCustomer) await(t *testing.T, p *process, path, want string, at ...string) (a apiclient.Answer) {
	t.Helper()
	p.await(t, path, func() bool {
		var err error
		a, err = p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: path})
		require.NoError(t, err)
		return a.Text(at...) == want
	})
	return a
}

func (s *rampCustomer) linkAccount(t *testing.T, p *process) {
	t.Helper()
	s.post(t, p, "/api/ramp/account", fields{}, 200)
	s.await(t, p, "/api/ramp/account", "linked", "account", "status")
}

// proveWallet registers a new wallet, signs its challenge and waits for the partner's approval.
func (s *rampCustomer) proveWallet(t *testing.T, p *process, session *apiclient.Client) {
	t.Helper()
	wallet, err := secp256k1.GeneratePrivateKey()
	require.NoError(t, err)
	added := s.post(t, p, "/api/ramp/wallets",
		fields{"chain": "base", "address": evmAddress(wallet), "label": "Storm"}, 200)
	s.wallet = added.Text("wallet", "id")
	const wallets = "/api/dashboard/ramp/wallets"
	get := func() map[string]any {
		a, err := sendUntilKnown(t.Context(), session, apiclient.Request{Method: "GET", Path: wallets})
		require.NoError(t, err)
		require.Len(t, a.Rows("data"), 1, string(a.Raw))
		return a.Rows("data")[0]
	}
	signed := ecdsa.SignCompact(wallet, proof.EVMDigest(fmt.Sprint(get()["challenge"])), false) // v, r, s
	a, err := sendUntilKnown(t.Context(), session, newIdempotentPost(wallets+"/"+s.wallet+"/proof",
		fields{"signature": hex.EncodeToString(append(signed[1:], signed[0]))}).request)
	require.NoError(t, err)
	require.Equal(t, 200, a.Status, string(a.Raw))
	p.await(t, "the wallet's approval", func() bool { return get()["status"] == "approved" })
}

// evmAddress returns the last 20 bytes of Keccak-256 of the public key, in hex.
func evmAddress(wallet *secp256k1.PrivateKey) string {
	h := sha3.NewLegacyKeccak256()
	h.Write(wallet.PubKey().SerializeUncompressed()[1:])
	return "0x" + hex.EncodeToString(h.Sum(nil)[12:])
}

// placeOnramp orders an on-ramp and returns its id.
func (s *rampCustomer) placeOnramp(t *testing.T, p *process, cents money.Cents) (id string) {
	t.Helper()
	quote := s.post(t, p, "/api/ramp/quotes", fields{"direction": "onramp", "amount": money.FormatDollars(cents)}, 200)
	order := s.post(t, p, "/api/ramp/orders", fields{"quoteId": quote.Text("quote", "id")}, 200)
	return order.Text("order", "id")
}

// awaitOnramp waits until the ramp has reported an on-ramp, at a fee of half a percent.
func (s *rampCustomer) awaitOnramp(t *testing.T, p *process, id string, cents money.Cents) {
	t.Helper()
	a := s.await(t, p, "/api/ramp/orders/"+id, "completed", "order", "status")
	require.Equal(t, money.FormatDollars((cents+199)/200), a.Text("order", "fee"))
}

// treasury returns the balances in dollars and in USDC, both in cents, and fails the test if one is
// negative.
func (s *rampCustomer) treasury(t *testing.T, p *process) (cents [2]int64) {
	t.Helper()
	a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
	require.NoError(t, err)
	for i, shown := range []any{apiclient.DollarBalance(a)["availableCents"], a.At("snapshot", "stablecoinUsdCents")} {
		cents[i], err = strconv.ParseInt(fmt.Sprint(shown), 10, 64)
		require.NoError(t, err)
		if cents[i] < 0 {
			t.Errorf("the treasury is %s", a.Raw)
		}
	}
	return cents
}

// runUntilKilled places orders until the server is killed after a number of answers.
func (s *rampCustomer) runUntilKilled(t *testing.T, p *process, seed uint64, round int, after int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stormTimeout)
	defer cancel()
	var answers atomic.Int64
	var clients sync.WaitGroup
	for client := range rampClients {
		random := rand.New(rand.NewPCG(seed, uint64(round<<16+client)))
		clients.Go(func() {
			for range rampOrdersEach {
				if !s.placeOrder(ctx, p, random) {
					return
				}
				if answers.Add(1) == after {
					_ = p.cmd.Process.Kill()
				}
			}
		})
	}
	clients.Wait()
	_ = p.cmd.Process.Kill() // all clients may end before the answer that triggers the kill
}

// placeOrder asks for a quote and uses it. It returns false if a request has no known outcome.
func (s *rampCustomer) placeOrder(ctx context.Context, p *process, r *rand.Rand) bool {
	o := &rampOrder{direction: rampDirections[r.IntN(len(rampDirections))],
		cents: (100+r.Int64N(100))*100 + rampEndings[r.IntN(len(rampEndings))]}
	ask := fields{"direction": o.direction, "amount": money.FormatDollars(money.Cents(o.cents))}
	if o.direction == "withdraw" {
		ask["walletId"] = s.wallet
	}
	o.quote = newIdempotentPost("/api/ramp/quotes", ask)
	s.mu.Lock()
	s.orders = append(s.orders, o)
	s.mu.Unlock()
	if !s.send(ctx, p, o.quote) || o.quote.answer.Status != 200 {
		return o.quote.answered
	}
	o.use = o.newUse()
	return s.send(ctx, p, o.use)
}

func (o *rampOrder) newUse() *idempotentPost {
	route := "/api/ramp/orders"
	if o.direction == "withdraw" {
		route = "/api/ramp/withdrawals"
	}
	return newIdempotentPost(route, fields{"quoteId": o.quote.answer.Text("quote", "id")})
}

func (s *rampCustomer) send(ctx context.Context, p *process, q *idempotentPost) bool {
	if q.send(ctx, p.client(p.rest, s.bearer)) != nil {
		s.cut.Add(1)
	}
	return q.answered
}

// repeatOrders repeats the requests of orders and requires the same answers.
func (s *rampCustomer) repeatOrders(t *testing.T, p *process, orders []*rampOrder) {
	t.Helper()
	var wrong atomic.Int64
	forEachConcurrently(orders, func(o *rampOrder) {
		for _, q := range []*idempotentPost{o.quote, o.use} {
			if !q.repeatMatches(p, s.bearer) {
				wrong.Add(1)
			}
		}
	})
	require.Zero(t, wrong.Load())
}

// awaitRampReports waits until the ramp has reported every order that it has. In full length it
// waits until no order is open: the server has submitted again the orders that a kill kept from the
// ramp. The balances must be equal before and after the orders are read, so that both show one
// state.
func (s *rampCustomer) awaitRampReports(t *testing.T, p *process, full bool) {
	t.Helper()
	p.awaitWithin(t, rampReportTimeout, "the ramp's reports", func() bool {
		retry.Pause(t.Context(), settlePollInterval)
		before := s.treasury(t, p)
		s.readOrders(t, p)
		processing := 0
		for _, o := range s.shown {
			if o["status"] == "processing" {
				processing++
			}
		}
		return processing == 0 && (s.open == 0 || !full) && before == s.treasury(t, p) && s.balancesMatch(before)
	})
}

// readOrders reads all orders into s.shown, and counts the open ones.
func (s *rampCustomer) readOrders(t *testing.T, p *process) {
	t.Helper()
	s.shown, s.open = map[string]map[string]any{}, 0
	for path := fmt.Sprintf("/api/ramp/orders?limit=%d", rampPageSize); path != ""; {
		a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: path})
		require.NoError(t, err)
		require.Equal(t, 200, a.Status, string(a.Raw))
		for _, row := range a.Rows("data") {
			if s.shown[fmt.Sprint(row["id"])] = row; row["status"] == "created" || row["status"] == "processing" {
				s.open++
			}
		}
		path = ""
		if next := a.Text("nextCursor"); next != "" {
			path = fmt.Sprintf("/api/ramp/orders?limit=%d&cursor=%s", rampPageSize, next)
		}
	}
}

// balancesMatch reports whether the balances are the initial ones changed by the orders in s.shown.
func (s *rampCustomer) balancesMatch(money [2]int64) bool {
	usd, coins := s.initialUSD, s.initialUSDC
	for _, o := range s.orders {
		shown := s.shown[o.orderID()]
		if o.orderID() == "" || shown["status"] == "failed" {
			continue
		}
		back := int64(0)
		if shown["status"] == "completed" {
			back = o.cents - o.fee()
		}
		switch o.direction {
		case "onramp":
			usd, coins = usd-o.cents, coins+back
		case "offramp":
			usd, coins = usd+back, coins-o.cents
		default:
			coins -= o.cents
		}
	}
	return money == [2]int64{usd, coins}
}

// fee returns half a percent of the amount, or a quarter percent for EndingCheaper, rounded down.
func (o *rampOrder) fee() int64 {
	if o.cents%100 == sandbox.EndingCheaper {
		return o.cents / 400
	}
	return o.cents / 200
}

// compareWithRamp compares the orders of the REST API with the clients' answers and with the orders
// that the ramp's store holds.
func (s *rampCustomer) compareWithRamp(t *testing.T, data string) {
	t.Helper()
	unreachable := func(context.Context, []byte) (int, error) { return 0, io.EOF }
	store := openSandboxCopy(t, data)
	defer func() { require.NoError(t, store.Close()) }()
	ramp, err := sandbox.NewRamp(sandbox.Config{Store: store, Report: unreachable, Clock: time.Now}, unreachable)
	require.NoError(t, err)
	known, err := ramp.Orders()
	require.NoError(t, err)
	for id := range known {
		known[id] = 1 // the ramp may have received an order again
	}
	made := map[string]bool{}
	for _, o := range s.orders {
		id := o.orderID()
		if id == "" {
			if o.use != nil {
				require.Contains(t, []string{"insufficient_funds", "quote_expired"}, o.use.answer.Text("error"),
					string(o.use.answer.Raw))
			}
			continue
		}
		require.False(t, made[id], "two quotes have one order")
		made[id] = true
		shown, ending := s.shown[id], o.cents%100
		require.NotNil(t, shown, id)
		want, times := "completed", 1
		switch {
		case shown["status"] == "created":
			want, times = "created", known[id]
		case ending == sandbox.EndingRefused:
			want, times = "failed", 0
		case ending == sandbox.EndingFails:
			want = "failed"
		}
		require.Equal(t, fmt.Sprint(want, " ", times), fmt.Sprint(shown["status"], " ", known[id]),
			"%s of %d cents", id, o.cents)
		delete(known, id)
	}
	require.Len(t, known, 1, "beside the first on-ramp, every order at the ramp was answered to a client")
	require.Len(t, s.shown, len(made)+1)
}
