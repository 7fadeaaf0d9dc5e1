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

	"purser/cmd/purser/apiclient"
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

func newConverter(t *testing.T, p *process) *converter {
	t.Helper()
	x := &converter{}
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

// awaitDeskReports waits until every conversion that the desk had received has ended. A conversion
// that a killed server was about to submit stays open.
func (x *converter) awaitDeskReports(t *testing.T, p *process, received map[string]int) {
	t.Helper()
	x.awaitNone(t, p, "the desk's reports", func(id, status string) bool {
		return received[id] > 0 && conversionOpen(status)
	})
}

// awaitSubmissions waits until every conversion has ended or is outcome_unknown, and so will not be
// submitted any more. A killed server's conversions get there half a minute after the launch.
func (x *converter) awaitSubmissions(t *testing.T, p *process) {
	t.Helper()
	x.awaitNone(t, p, "the last submissions", func(_, status string) bool {
		return conversionOpen(status) && status != "outcome_unknown"
	})
}

// awaitNone waits until no conversion satisfies a condition. One that does not satisfy it is not
// read again.
func (x *converter) awaitNone(t *testing.T, p *process, what string, waits func(id, status string) bool) {
	t.Helper()
	left := slices.Collect(maps.Keys(x.conversionsByID(t)))
	p.awaitWithin(t, reportTimeout, what, func() bool {
		retry.Pause(t.Context(), settlePollInterval)
		shown := x.statuses(t, p, left)
		left = slices.DeleteFunc(left, func(id string) bool { return !waits(id, shown[id]) })
		return len(left) == 0
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

// checkConversions compares the clients' answers with the conversions, the orders known to the desk
// and the balances.
func (x *converter) checkConversions(t *testing.T, p *process, known map[string]int) {
	t.Helper()
	made := x.conversionsByID(t)
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
