package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/partner/bankhttp"
	"purser/cmd/purser/apiclient"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

// The size of a storm of conversions, which runs at the same time as the storm of payouts.
const (
	converters       = 64 // clients that convert out of one balance
	conversionsEach  = 6  // conversions of a client in a round
	payInOneIn       = 3  // a round's pay-in covers one conversion for every payInOneIn answers to payouts
	averageSellMinor = 150_00
)

// converter is a workspace that converts euros into yen, and the requests and answers of its
// clients.
type converter struct {
	session *apiclient.Client
	bearer  string
	bank    *bankhttp.Client
	paidIn  int64        // euro cents
	cut     atomic.Int64 // requests without an answer

	mu       sync.Mutex
	attempts []*conversionAttempt

	converted, completed, cancelled, declined, unsent int
}

// conversionAttempt is a quote, its use, and a second use of it. A request that was not sent is
// nil.
type conversionAttempt struct{ quote, use, secondUse *idempotentPost }

func (d *conversionAttempt) newUse() *idempotentPost {
	return newIdempotentPost("/api/mca/conversions", fields{"quoteId": d.quote.answer.Text("id")})
}

// quotedMinor returns an amount of the quote in minor units; side is "sell" or "buy".
func (d *conversionAttempt) quotedMinor(side string) int64 {
	n, err := strconv.ParseInt(d.quote.answer.Text(side, "amountMinor"), 10, 64)
	if err != nil {
		panic("BUG: no quote: " + string(d.quote.answer.Raw))
	}
	return n
}

// conversionID returns the id of the conversion that used the quote, or "" if there is none.
func (d *conversionAttempt) conversionID() string {
	for _, s := range []*idempotentPost{d.use, d.secondUse} {
		if s != nil && s.answered && s.answer.Status == 202 {
			return s.answer.Text("orderId")
		}
	}
	return ""
}

func newConverter(t *testing.T, p *process, bank *bankhttp.Client) *converter {
	t.Helper()
	x := &converter{bank: bank}
	x.session, x.bearer = signUpSession(t, p, 1, []string{"read:treasury", "write:treasury"})
	t.Cleanup(x.session.HTTP.CloseIdleConnections)
	x.post(t, p, "/api/mca/onboarding", nil)
	for _, currency := range []string{"EUR", "JPY"} {
		x.post(t, p, "/api/mca/accounts/"+currency, nil)
	}
	p.await(t, "balances in currencies", func() bool { return len(x.balances(t, p, "availableMinor")) == 2 })
	return x
}

// post sends a POST of the dashboard that must succeed.
func (x *converter) post(t *testing.T, p *process, path string, body fields) {
	t.Helper()
	r := apiclient.Request{Method: "POST", Path: path, IdempotencyKey: apiclient.NewIdempotencyKey()}
	if body != nil {
		r.Body = marshal(body)
	}
	x.session.BaseURL = p.rest
	a, err := sendUntilKnown(t.Context(), x.session, r)
	require.NoError(t, err)
	require.Contains(t, []int{200, 202}, a.Status, string(a.Raw))
}

// balances returns one amount of each active balance by currency, in minor units.
func (x *converter) balances(t *testing.T, p *process, amount string) map[string]int64 {
	t.Helper()
	a, err := p.sendToREST(x.bearer, apiclient.Request{Method: "GET", Path: "/api/mca/accounts"})
	require.NoError(t, err)
	shown, err := activeBalances(a, amount)
	require.NoError(t, err)
	return shown
}

func activeBalances(a apiclient.Answer, amount string) (map[string]int64, error) {
	shown := map[string]int64{}
	for _, row := range a.Rows("accounts") {
		amounts, _ := row["balance"].(map[string]any)
		if row["status"] != "active" {
			continue
		}
		n, err := strconv.ParseInt(fmt.Sprint(amounts[amount]), 10, 64)
		if err != nil {
			return nil, err
		}
		shown[fmt.Sprint(row["currency"])] = n
	}
	return shown, nil
}

// payIn funds a part of the conversions that the clients order while payouts get that many answers.
func (x *converter) payIn(t *testing.T, p *process, answers int64) {
	t.Helper()
	minor := max(answers*averageSellMinor/payInOneIn-x.balances(t, p, "availableMinor")["EUR"], 1_00)
	x.post(t, p, "/api/dev/mca/simulate-payin", fields{"currency": "EUR", "amountMinor": strconv.FormatInt(minor, 10)})
	x.paidIn += minor
	p.await(t, "the pay-in", func() bool { return x.balances(t, p, "pendingMinor")["EUR"] == 0 })
}

// startClients starts the clients, which stop when they have sent all requests or the server is
// gone. One more client requires throughout that no balance is negative.
func (x *converter) startClients(t *testing.T, ctx context.Context, p *process, seed uint64, round int,
	clients *sync.WaitGroup) {
	for client := range converters {
		random := rand.New(rand.NewPCG(seed, uint64(round<<16+1<<15+client)))
		clients.Go(func() {
			for range conversionsEach {
				if !x.convertTwice(ctx, p, random) {
					return
				}
			}
		})
	}
	clients.Go(func() {
		for {
			a, err := p.client(p.rest, x.bearer).Send(ctx, apiclient.Request{Method: "GET", Path: "/api/mca/accounts"})
			if err != nil {
				return
			}
			shown, err := activeBalances(a, "availableMinor")
			if err != nil || shown["EUR"] < 0 || shown["JPY"] < 0 {
				t.Errorf("balances are %v (%v)", shown, err)
			}
		}
	})
}

// convertTwice asks for a quote, uses it, and uses it again. It returns false if a request has no
// known outcome.
func (x *converter) convertTwice(ctx context.Context, p *process, r *rand.Rand) bool {
	minor := (100+r.Int64N(100))*100 + payoutEndings[r.IntN(len(payoutEndings))]
	d := &conversionAttempt{quote: newIdempotentPost("/api/mca/quotes",
		fields{"sellCurrency": "EUR", "buyCurrency": "JPY",
			"amountMinor": strconv.FormatInt(minor, 10)})}
	x.mu.Lock()
	x.attempts = append(x.attempts, d)
	x.mu.Unlock()
	if !x.send(ctx, p, d.quote) {
		return false
	}
	if d.quote.answer.Status != 201 {
		return true
	}
	d.use = d.newUse()
	if !x.send(ctx, p, d.use) {
		return false
	}
	d.secondUse = d.newUse()
	return x.send(ctx, p, d.secondUse)
}

func (x *converter) send(ctx context.Context, p *process, q *idempotentPost) bool {
	if q.send(ctx, p.client(p.rest, x.bearer)) != nil {
		x.cut.Add(1)
	}
	return q.answered
}

// repeatRequests repeats the requests of attempts. If a quote turns out to be used, repeatRequests
// tries a second use of it.
func (x *converter) repeatRequests(t *testing.T, p *process, deals []*conversionAttempt) {
	t.Helper()
	var wrong atomic.Int64
	repeat := func(q *idempotentPost) {
		if !q.repeatMatches(p, x.bearer) {
			wrong.Add(1)
		}
	}
	forEachConcurrently(deals, func(d *conversionAttempt) {
		repeat(d.quote)
		repeat(d.use)
		if d.secondUse == nil && d.conversionID() != "" {
			d.secondUse = d.newUse()
		}
		repeat(d.secondUse)
	})
	require.Zero(t, wrong.Load())
}

// conversionsByID returns the conversions by id. It requires that no quote was used twice.
func (x *converter) conversionsByID(t *testing.T) map[string]*conversionAttempt {
	t.Helper()
	made := map[string]*conversionAttempt{}
	for _, d := range x.attempts {
		if id := d.conversionID(); id != "" {
			made[id] = d
		}
		if d.use != nil && d.use.answer.Status == 202 {
			require.Equal(t, "422 quote_used",
				fmt.Sprint(d.secondUse.answer.Status, " ", d.secondUse.answer.Text("error")))
		}
	}
	return made
}

// awaitDeskReports waits until every conversion that reached the desk has ended. A conversion that
// a killed server was about to submit stays open, so awaitDeskReports waits until two polls show
// the same number of them. After the last round it waits, for half a minute, until these
// conversions are outcome_unknown, and so will not be submitted any more.
func (x *converter) awaitDeskReports(t *testing.T, p *process, last bool) {
	t.Helper()
	waiting, before := x.conversionsByID(t), -1
	p.awaitWithin(t, reportTimeout, "the desk's reports", func() bool {
		retry.Pause(t.Context(), settlePollInterval)
		shown := x.statuses(t, p, slices.Collect(maps.Keys(waiting)))
		known, limbo := orderCounts(t, x.bank, ident.Conversion), 0
		for id, status := range shown {
			switch {
			case !conversionOpen(status):
				delete(waiting, id)
			case known[id] == 0 && (status == "outcome_unknown" || status != "held" && !last):
				limbo++
			}
		}
		done := limbo == len(waiting) && limbo == before
		before = limbo
		return done
	})
}

func conversionOpen(status string) bool {
	return slices.Contains([]string{"held", "provider_submitted", "outcome_unknown"}, status)
}

// statuses returns the status of each conversion by id.
func (x *converter) statuses(t *testing.T, p *process, ids []string) map[string]string {
	t.Helper()
	shown, mu := map[string]string{}, sync.Mutex{}
	forEachConcurrently(ids, func(id string) {
		a, err := p.sendToREST(x.bearer, apiclient.Request{Method: "GET", Path: "/api/mca/conversions/" + id})
		mu.Lock()
		defer mu.Unlock()
		if shown[id] = a.Text("status"); err != nil || a.Status != 200 {
			t.Errorf("conversion %s is answered %d %s (%v)", id, a.Status, a.Raw, err)
		}
	})
	return shown
}

// checkConversions compares the clients' answers with the conversions, the desk's orders and the
// balances.
func (x *converter) checkConversions(t *testing.T, p *process) {
	t.Helper()
	made, known := x.conversionsByID(t), orderCounts(t, x.bank, ident.Conversion)
	for _, d := range x.attempts {
		if d.use != nil && d.use.answer.Status != 202 {
			x.declined++
			require.Contains(t, []string{"insufficient_funds", "quote_expired"}, d.use.answer.Text("error"),
				string(d.use.answer.Raw))
		}
	}
	require.NotZero(t, x.declined)
	held, sold, bought := int64(0), int64(0), int64(0)
	for id, status := range x.statuses(t, p, slices.Collect(maps.Keys(made))) {
		d, orders := made[id], 1
		switch {
		case conversionOpen(status):
			held, x.unsent, orders = held+d.quotedMinor("sell"), x.unsent+1, 0
		case status == "completed":
			sold, bought, x.completed = sold+d.quotedMinor("sell"), bought+d.quotedMinor("buy"), x.completed+1
		case status == "cancelled": // a busy server may reach the desk after the quoted rate has expired
			x.cancelled, orders = x.cancelled+1, 0
		case status == "rejected":
			orders = 0
		default:
			require.Equal(t, "failed", status)
		}
		require.Equal(t, orders, known[id], "orders at the desk for %s, which is %s", id, status)
	}
	for id := range known {
		require.Contains(t, made, id)
	}
	x.converted = len(made)
	require.NotZero(t, x.completed, "of %d conversions; %d are cancelled", x.converted, x.cancelled)
	require.Equal(t, map[string]int64{"EUR": x.paidIn - sold - held, "JPY": bought}, x.balances(t, p, "availableMinor"))
}
