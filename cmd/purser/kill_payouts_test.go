package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/partner/sandbox"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/demo"
	"purser/cmd/purser/storecare"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

// The size of a storm of payouts.
const (
	payoutClients        = 64
	payoutSwipers        = 8
	payoutsEach          = 8  // payouts of a client in a round
	fundOneIn            = 2  // the balance covers one dollar in fundOneIn of the ordered payouts
	minPayoutsBeforeKill = 40 // answers to payouts before a kill
	maxPayoutsBeforeKill = payoutClients * payoutsEach * 3 / 4
	settlePollInterval   = 100 * time.Millisecond // between two reads of all payouts
	// reportTimeout covers the half minute within which the bank may answer an order, and the
	// bank's longest pause, one minute, between two reports.
	reportTimeout = 3 * time.Minute
	paidAccount   = "000987654321"
)

// payoutEndings select, by the cents of a payout, how the sandbox bank handles it. Endings that
// take a day are not among them.
var payoutEndings = []int64{0, 0, 0, 0, sandbox.EndingTwice, sandbox.EndingFails, sandbox.EndingReturned,
	sandbox.EndingRefused, sandbox.EndingAnswersLost}

// TestNoPayoutIsPaidTwice kills the server, and its sandbox bank with it, at random moments of a
// storm of payouts, conversions and swipes. The bank's store counts the orders that it received.
func TestNoPayoutIsPaidTwice(t *testing.T) {
	onlyInFullLength(t)
	onEachStoreSet(t, killAmidPayouts)
}

func killAmidPayouts(t *testing.T, purser program, full bool) {
	seed, data, rounds := chooseSeed(t), filepath.Join(t.TempDir(), "data"), shortKillRounds
	if full {
		rounds = killRounds
	}
	random := rand.New(rand.NewPCG(seed, 5))
	purser.env = append(slices.Clone(purser.env), "PURSER_PAYOUT_LIMITS=100000000,100000000",
		"PURSER_FEATURE_MCA_CONVERT=true")
	p := launch(t, purser, data)
	s, x := newPayer(t, p), newConverter(t, p)
	for round := range rounds {
		after := minPayoutsBeforeKill + random.Int64N(maxPayoutsBeforeKill-minPayoutsBeforeKill)
		s.deposit(t, p, after)
		x.payIn(t, p, after)
		before, deals := len(s.orders), len(x.attempts)
		s.runUntilKilled(t, p, x, seed, round, after)
		require.Equal(t, "signal: killed", p.awaitExit(t))
		received, launched := bankOrders(t, data), time.Now()
		p = launch(t, purser, data)
		s.repeatOrders(t, p, s.orders[before:])
		x.repeatRequests(t, p, x.attempts[deals:])
		s.awaitBankReports(t, p, received, launched)
		x.awaitDeskReports(t, p, received)
	}
	s.repeatOrders(t, p, s.orders)
	x.repeatRequests(t, p, x.attempts)
	x.awaitSubmissions(t, p)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.NotContains(t, p.log.String(), paidAccount)
	received := bankOrders(t, data)
	p = launch(t, purser, data)
	x.awaitDeskReports(t, p, received)
	s.checkPayouts(t, p, ordersOf(received, ident.Payout))
	x.checkConversions(t, p, ordersOf(received, ident.Conversion))
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.NotContains(t, p.log.String(), paidAccount)
	require.Equal(t, received, bankOrders(t, data), "a restart orders nothing again")
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
	t.Logf("%d kills: %d payouts ordered, %d accepted and %d declined; the bank has %d orders, each once; "+
		"%d never reached it and stay open; %d requests cut off",
		rounds, len(s.orders), s.accepted, s.declined, s.atBank, s.unsent, s.cut.Load())
	t.Logf("%d quotes: %d conversions, %d of them completed and %d cancelled, and %d declined; "+
		"%d never reached the desk and stay open; %d requests cut off",
		len(x.attempts), x.converted, x.completed, x.cancelled, x.declined, x.unsent, x.cut.Load())
	require.NotZero(t, s.cut.Load(), "no kill cut off a payout or a swipe")
	require.NotZero(t, x.cut.Load(), "no kill cut off a conversion")
}

// payer is a workspace that orders payouts, and the requests and answers of its clients.
type payer struct {
	bearer, card, recipient string
	deposited               int64        // cents
	cut                     atomic.Int64 // requests without an answer

	mu     sync.Mutex
	orders []*payoutOrder

	accepted, declined, atBank, unsent int
}

// payoutOrder is a POST of a payout and its amount.
type payoutOrder struct {
	*idempotentPost
	cents int64
}

// shownPayout is a payout in the list of the REST API.
type shownPayout struct {
	ID, Status  string
	AmountCents int64
	History     []payoutStep
}

type payoutStep struct {
	Status string
	At     time.Time
}

func newPayer(t *testing.T, p *process) *payer {
	t.Helper()
	s := &payer{bearer: signUpWithScopes(t, p, 0,
		append(slices.Clone(demo.Scopes), "write:payouts", "write:counterparties"))}
	s.card = s.post(t, p, "/api/cards", cardRequest()).Text("card", "partnerCardToken")
	s.recipient = s.post(t, p, "/api/treasury/counterparties",
		fields{"name": "Storm Landlord", "routingNumber": "021000021",
			"accountNumber": paidAccount, "accountType": "checking"}).Text("counterparty", "id")
	return s
}

func (s *payer) post(t *testing.T, p *process, path string, body fields) apiclient.Answer {
	t.Helper()
	a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "POST", Path: path,
		IdempotencyKey: apiclient.NewIdempotencyKey(), Body: marshal(body)})
	require.NoError(t, err)
	require.Contains(t, []int{200, 202}, a.Status, string(a.Raw))
	return a
}

// deposit raises the available balance to half of the sum of that many payouts.
func (s *payer) deposit(t *testing.T, p *process, answers int64) {
	t.Helper()
	a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
	require.NoError(t, err)
	available, err := strconv.ParseInt(fmt.Sprint(apiclient.DollarBalance(a)["availableCents"]), 10, 64)
	require.NoError(t, err)
	cents := max(answers*150_00/fundOneIn-available, 1_00)
	cents -= cents % 100 // an amount in whole dollars selects none of the sandbox's special endings
	s.post(t, p, "/api/treasury/deposits", depositRequest(cents))
	s.deposited += cents
	p.await(t, "the deposit", func() bool {
		a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
		return err == nil && fmt.Sprint(apiclient.DollarBalance(a)["incomingCents"]) == "0"
	})
}

// runUntilKilled orders payouts, converts and swipes until the server is killed after a number of
// answers to payouts.
func (s *payer) runUntilKilled(t *testing.T, p *process, x *converter, seed uint64, round int, after int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stormTimeout)
	defer cancel()
	var answers atomic.Int64
	var clients, swipers sync.WaitGroup
	for client := range payoutClients {
		random := rand.New(rand.NewPCG(seed, uint64(round<<16+client)))
		clients.Go(func() {
			for range payoutsEach {
				if !s.sendPayout(ctx, p, random) {
					return
				}
				if answers.Add(1) == after {
					_ = p.cmd.Process.Kill()
				}
			}
		})
	}
	x.startClients(t, ctx, p, seed, round, &swipers)
	for swiper := range payoutSwipers {
		swipers.Go(func() { s.swipeUntilCutOff(t, ctx, p, fmt.Sprintf("p%d-%d", round, swiper)) })
	}
	clients.Wait()
	_ = p.cmd.Process.Kill() // on a slow machine the clients may end before the answer to kill at
	swipers.Wait()
}

// sendPayout orders a payout. It returns false if the connection was cut off.
func (s *payer) sendPayout(ctx context.Context, p *process, r *rand.Rand) bool {
	cents := (100+r.Int64N(100))*100 + payoutEndings[r.IntN(len(payoutEndings))]
	o := &payoutOrder{cents: cents, idempotentPost: newIdempotentPost("/api/treasury/payouts",
		fields{"rail": "ach", "counterpartyId": s.recipient, "amountCents": cents, "description": "rent"})}
	s.mu.Lock()
	s.orders = append(s.orders, o)
	s.mu.Unlock()
	if o.send(ctx, p.client(p.rest, s.bearer)) != nil {
		s.cut.Add(1)
		return false
	}
	return true
}

// swipeUntilCutOff swipes a card of the same workspace until the server is gone. A swipe that was
// cut off is not repeated: checkTreasury reads the list of authorizations instead.
func (s *payer) swipeUntilCutOff(t *testing.T, ctx context.Context, p *process, prefix string) {
	for n := 0; ctx.Err() == nil; n++ {
		body := marshal(fields{"id": fmt.Sprintf("%s-%d", prefix, n), "cardToken": s.card, "amountCents": 7_00,
			"currency": "USD", "merchant": fields{"id": "m-1", "name": "Corner Grocer 12", "mcc": "5411",
				"country": "US"}})
		_, err := p.client(p.network, p.secret).Send(ctx,
			apiclient.Request{Method: "POST", Path: "/v1/authorizations", Body: body})
		if err != nil {
			s.cut.Add(1)
			return
		}
		if !retry.Pause(ctx, 10*time.Millisecond) {
			t.Log("the storm ended before the kill")
		}
	}
}

// repeatOrders repeats the requests of orders and requires the same answers.
func (s *payer) repeatOrders(t *testing.T, p *process, orders []*payoutOrder) {
	t.Helper()
	var wrong atomic.Int64
	forEachConcurrently(orders, func(o *payoutOrder) {
		if !o.repeatMatches(p, s.bearer) {
			wrong.Add(1)
		}
	})
	require.Zero(t, wrong.Load())
}

// awaitBankReports waits until every payout has ended, except those that a killed server marked as
// submitting and the bank had not received before the launch.
func (s *payer) awaitBankReports(t *testing.T, p *process, received map[string]int, launched time.Time) {
	t.Helper()
	p.awaitWithin(t, reportTimeout, "the bank's reports", func() bool {
		retry.Pause(t.Context(), settlePollInterval)
		return !slices.ContainsFunc(s.listPayouts(t, p), func(shown shownPayout) bool {
			if !payoutOpen(shown.Status) {
				return shown.Status == "settled" && shown.AmountCents%100 == sandbox.EndingReturned
			}
			sent := slices.IndexFunc(shown.History, func(h payoutStep) bool { return h.Status == "submitting" })
			return received[shown.ID] > 0 || sent < 0 || shown.History[sent].At.After(launched)
		})
	})
}

func payoutOpen(status string) bool {
	return slices.Contains([]string{"reserved", "submitting", "submitted", "outcome_unknown"}, status)
}

// bankOrders returns, by reference, how often the sandbox bank received each payout and conversion.
// No process may have the data directory open. It reads a copy, so that the next start recovers the
// store of a killed server by itself.
func bankOrders(t *testing.T, data string) map[string]int {
	t.Helper()
	store := openSandboxCopy(t, data)
	defer func() { require.NoError(t, store.Close()) }()
	unreachable := func(context.Context, []byte) (int, error) { return 0, io.EOF }
	bank, err := sandbox.NewBank(sandbox.Config{Store: store, Report: unreachable, Clock: time.Now})
	require.NoError(t, err)
	orders, err := bank.Orders()
	require.NoError(t, err)
	return orders
}

// openSandboxCopy opens a copy of the sandbox's store of a data directory that no process has open.
func openSandboxCopy(t *testing.T, data string) *sandbox.Store {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "sandbox")
	require.NoError(t, storecare.CopyTree(datadir.SandboxDir(data), copied))
	store, err := sandbox.OpenStore(nil, copied)
	require.NoError(t, err)
	return store
}

// ordersOf returns the orders whose references have a prefix.
func ordersOf(orders map[string]int, prefix string) map[string]int {
	found := maps.Clone(orders)
	maps.DeleteFunc(found, func(reference string, _ int) bool { return !strings.HasPrefix(reference, prefix) })
	return found
}

func (s *payer) listPayouts(t *testing.T, p *process) (payouts []shownPayout) {
	t.Helper()
	for cursor := ""; ; {
		a, err := p.sendToREST(s.bearer,
			apiclient.Request{Method: "GET", Path: "/api/treasury/payouts?limit=100" + cursor})
		require.NoError(t, err)
		require.Equal(t, 200, a.Status, string(a.Raw))
		var page struct {
			Data       []shownPayout
			NextCursor *string
		}
		require.NoError(t, json.Unmarshal(a.Raw, &page))
		payouts = append(payouts, page.Data...)
		if page.NextCursor == nil {
			return payouts
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

// checkPayouts compares the clients' answers with the list of payouts, the orders known to the bank
// and the treasury. A server that is killed between "submitting" and its call of the bank leaves a
// payout that the bank does not have: its dollars stay reserved until the end of the day.
func (s *payer) checkPayouts(t *testing.T, p *process, known map[string]int) {
	t.Helper()
	accepted := map[string]int64{}
	for _, o := range s.orders {
		require.True(t, o.answered)
		switch {
		case o.answer.Status == 200:
			accepted[o.answer.Text("payout", "id")] = o.cents
		default:
			require.Equal(t, "insufficient_funds", o.answer.Text("error"), string(o.answer.Raw))
			s.declined++
		}
	}
	s.accepted = len(accepted)
	require.Equal(t, len(s.orders), s.accepted+s.declined, "every payout is accepted or declined")
	require.NotZero(t, s.declined)
	held, gone := int64(0), int64(0)
	payouts := s.listPayouts(t, p)
	require.Len(t, payouts, s.accepted, "the list has the accepted payouts and no others")
	for _, shown := range payouts {
		require.Equal(t, accepted[shown.ID], shown.AmountCents)
		switch {
		case payoutOpen(shown.Status):
			require.Zero(t, known[shown.ID], "%s is %s", shown.ID, shown.Status)
			held, s.unsent = held+shown.AmountCents, s.unsent+1
		case shown.Status == "settled":
			require.Equal(t, 1, known[shown.ID])
			gone += shown.AmountCents
		}
	}
	for reference, orders := range known {
		require.Equal(t, 1, orders, "orders at the bank for %s", reference)
		require.Contains(t, accepted, reference)
	}
	s.atBank = len(known)
	s.checkTreasury(t, p, held, gone)
}

// checkTreasury compares the treasury with the sums of payouts and swipes, and requires that the
// available balance is not negative.
func (s *payer) checkTreasury(t *testing.T, p *process, held, gone int64) {
	t.Helper()
	p.awaitEmptyBacklog(t)
	swiped := int64(0)
	w := &witness{}
	for _, e := range w.listAuthorizations(t, p, &tenant{bearer: s.bearer},
		func(map[string]listedAuthorization) bool { return false }) {
		swiped += e.Held
	}
	require.Empty(t, w.differences)
	require.NotZero(t, swiped, "no swipe was approved")
	a, err := p.sendToREST(s.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(held+swiped), fmt.Sprint(apiclient.DollarBalance(a)["heldCents"]))
	require.Equal(t, fmt.Sprint(s.deposited-gone-held-swiped), fmt.Sprint(apiclient.DollarBalance(a)["availableCents"]))
	require.False(t, strings.HasPrefix(fmt.Sprint(apiclient.DollarBalance(a)["availableCents"]), "-"))
}
