package main

import (
	"context"
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

	"github.com/stretchr/testify/require"

	"purser/actors/partner/sandbox"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/demo"
	"purser/persistence"
	"purser/persistence/money"
)

// The storm of the ramp.
const (
	rampClients   = 24
	rampEach      = 12 // orders of a client in a round
	rampKillLeast = 30 // answers to orders before a kill
	rampKillMost  = rampClients * rampEach / 2
	fewRampKills  = 2 // where it is not run in full
	rampedIn      = 60_000_00
	rampedOver    = 30_000_00
	// rampAllWithin: the ramp is given an order again after half a minute, and rests up to a minute before a report.
	rampAllWithin  = 5 * time.Minute
	shownRampOrder = 100
)

var (
	rampDirections = []string{"onramp", "offramp", "withdraw"}
	rampEndings    = []int64{0, 0, 0, sandbox.EndingCheaper, sandbox.EndingTwice, sandbox.EndingLate, sandbox.EndingFails,
		sandbox.EndingRefused, sandbox.EndingAnswersLost}
)

// TestTheRampThroughKills kills the server, and its ramp with it, at random moments of a storm of orders in all directions.
func TestTheRampThroughKills(t *testing.T) {
	t.Parallel()
	onStoresInFull(t, killAmidRamp)
}

func killAmidRamp(t *testing.T, purser program, full bool) {
	seed, data, rounds := chooseSeed(t), filepath.Join(t.TempDir(), "data"), fewRampKills
	if full {
		rounds = killRounds
	}
	random := rand.New(rand.NewPCG(seed, 9))
	p := launch(t, purser, data)
	s := foundRamper(t, p)
	for round := range rounds {
		before := len(s.orders)
		s.rage(t, p, seed, round, rampKillLeast+random.Int64N(rampKillMost-rampKillLeast))
		require.Equal(t, "signal: killed", p.ended(t))
		p = launch(t, purser, data)
		s.resolve(t, p, s.orders[before:])
	}
	s.resolve(t, p, s.orders)
	s.settle(t, p, full)
	require.Empty(t, p.end(t, syscall.SIGTERM))
	s.compare(t, data)
	require.Contains(t, succeed(t, purser, data, "audit"), "agree to the cent")
	require.Contains(t, succeed(t, purser, data, "unmatched"), "0 unmatched")
	t.Logf("%d kills: %d orders given, %d of them open at the end; %d requests cut off", rounds, len(s.shown), s.open, s.cut.Load())
	require.NotZero(t, s.cut.Load(), "no kill has met a request")
}

// ramper is a workspace that gives orders to the ramp, and what its clients were told.
type ramper struct {
	bearer, wallet string
	usd, coins     int64 // before the storm, in cents
	cut            atomic.Int64

	mu     sync.Mutex
	orders []*rampSent

	shown map[string]map[string]any // the orders at the end, by id
	open  int
}

// rampSent is a quote and its use; nil when that was not sent.
type rampSent struct {
	direction  string
	cents      int64
	quote, use *sent
}

// id is that of the order, "" when there is none.
func (o *rampSent) id() string {
	if o.use == nil || !o.use.told || o.use.answer.Status != 200 {
		return ""
	}
	return o.use.answer.Text("order", "id") + o.use.answer.Text("withdrawal", "id")
}

func foundRamper(t *testing.T, p *process) *ramper {
	t.Helper()
	session, bearer := signUpAs(t, p, 0, demo.Scopes)
	t.Cleanup(session.HTTP.CloseIdleConnections)
	s := &ramper{bearer: bearer}
	walk := &demo.Tour{Out: io.Discard, Session: session, API: p.as(p.rest, bearer)}
	_, err := walk.Post(t.Context(), walk.API, "/api/ramp/account", fields{}, 200)
	require.NoError(t, err)
	require.NoError(t, walk.AwaitValue(t.Context(), walk.API, "/api/ramp/account", "linked",
		func(a apiclient.Answer) string { return a.Text("account", "status") }))
	s.wallet, err = demo.ProveWallet(t.Context(), walk)
	require.NoError(t, err)
	require.NoError(t, demo.AnnounceDeposit(t.Context(), walk, rampedIn))
	p.await(t, "the deposit", func() bool { return s.treasury(t, p)[0] == rampedIn })
	over := demo.RampOrder{Direction: "onramp", Cents: rampedOver, MaxFee: rampedOver / 200, Fee: rampedOver / 200}
	require.NoError(t, over.Place(t.Context(), walk))
	require.NoError(t, over.AwaitCompletion(t.Context(), walk))
	require.Zero(t, walk.Differences)
	before := s.treasury(t, p)
	s.usd, s.coins = before[0], before[1]
	require.Equal(t, [2]int64{rampedIn - rampedOver, rampedOver - rampedOver/200}, before)
	return s
}

// treasury is what there is in dollars and in USDC.
func (s *ramper) treasury(t *testing.T, p *process) (cents [2]int64) {
	t.Helper()
	a, err := p.api(s.bearer, apiclient.Request{Method: "GET", Path: "/api/treasury"})
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

// rage gives orders until the server is killed after so many answers.
func (s *ramper) rage(t *testing.T, p *process, seed uint64, round int, after int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stormWithin)
	defer cancel()
	var answers atomic.Int64
	var clients sync.WaitGroup
	for client := range rampClients {
		random := rand.New(rand.NewPCG(seed, uint64(round<<16+client)))
		clients.Go(func() {
			for range rampEach {
				if !s.give(ctx, p, random) {
					return
				}
				if answers.Add(1) == after {
					_ = p.cmd.Process.Kill()
				}
			}
		})
	}
	clients.Wait()
	_ = p.cmd.Process.Kill() // a slow machine: the chosen answer did not come
}

// give asks for a quote and uses it. It is false when the client was cut off.
func (s *ramper) give(ctx context.Context, p *process, r *rand.Rand) bool {
	o := &rampSent{direction: rampDirections[r.IntN(len(rampDirections))],
		cents: (100+r.Int64N(100))*100 + rampEndings[r.IntN(len(rampEndings))]}
	ask := fields{"direction": o.direction, "amount": money.FormatDollars(o.cents)}
	if o.direction == "withdraw" {
		ask["walletId"] = s.wallet
	}
	o.quote = newSent("/api/ramp/quotes", ask)
	s.mu.Lock()
	s.orders = append(s.orders, o)
	s.mu.Unlock()
	if !s.send(ctx, p, o.quote) || o.quote.answer.Status != 200 {
		return o.quote.told
	}
	o.use = o.newUse()
	return s.send(ctx, p, o.use)
}

func (o *rampSent) newUse() *sent {
	route := "/api/ramp/orders"
	if o.direction == "withdraw" {
		route = "/api/ramp/withdrawals"
	}
	return newSent(route, fields{"quoteId": o.quote.answer.Text("quote", "id")})
}

func (s *ramper) send(ctx context.Context, p *process, q *sent) bool {
	if q.send(ctx, p.as(p.rest, s.bearer)) != nil {
		s.cut.Add(1)
	}
	return q.told
}

// resolve repeats the requests of orders.
func (s *ramper) resolve(t *testing.T, p *process, orders []*rampSent) {
	t.Helper()
	var wrong atomic.Int64
	each(orders, func(o *rampSent) {
		for _, q := range []*sent{o.quote, o.use} {
			if !q.repeatsAlike(p, s.bearer) {
				wrong.Add(1)
			}
		}
	})
	require.Zero(t, wrong.Load())
}

// settle waits until the ramp has reported all that it has, and in full until it has been given everything again that a killed
// server had not given it, or had no answer to. Then what is shown is one state: the money was the same before and after.
func (s *ramper) settle(t *testing.T, p *process, full bool) {
	t.Helper()
	p.awaitFor(t, rampAllWithin, "the ramp's reports", func() bool {
		persistence.Pause(t.Context(), settleAgain)
		before := s.treasury(t, p)
		s.look(t, p)
		processing := 0
		for _, o := range s.shown {
			if o["status"] == "processing" {
				processing++
			}
		}
		return processing == 0 && (s.open == 0 || !full) && before == s.treasury(t, p) && s.adds(before)
	})
}

// look reads all orders.
func (s *ramper) look(t *testing.T, p *process) {
	t.Helper()
	s.shown, s.open = map[string]map[string]any{}, 0
	for path := fmt.Sprintf("/api/ramp/orders?limit=%d", shownRampOrder); path != ""; {
		a, err := p.api(s.bearer, apiclient.Request{Method: "GET", Path: path})
		require.NoError(t, err)
		require.Equal(t, 200, a.Status, string(a.Raw))
		for _, row := range a.Rows("data") {
			if s.shown[fmt.Sprint(row["id"])] = row; row["status"] == "created" || row["status"] == "processing" {
				s.open++
			}
		}
		path = ""
		if next := a.Text("nextCursor"); next != "" {
			path = fmt.Sprintf("/api/ramp/orders?limit=%d&cursor=%s", shownRampOrder, next)
		}
	}
}

// adds says whether the money is what the orders that are shown make of it.
func (s *ramper) adds(money [2]int64) bool {
	usd, coins := s.usd, s.coins
	for _, o := range s.orders {
		shown := s.shown[o.id()]
		if o.id() == "" || shown["status"] == "failed" {
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

// fee is half a percent, rounded half-even, or half of that.
func (o *rampSent) fee() int64 {
	part, of := o.cents*2, int64(400)
	if o.cents%100 == sandbox.EndingCheaper {
		part = o.cents
	}
	fee, rest := part/of, part%of
	if rest > of/2 || rest == of/2 && fee%2 == 1 {
		fee++
	}
	return fee
}

// compare holds the orders against what the clients were told and what the ramp was given.
func (s *ramper) compare(t *testing.T, data string) {
	t.Helper()
	nobody := func(context.Context, []byte) (int, error) { return 0, io.EOF }
	ramp, err := sandbox.NewRamp(sandbox.Config{Dir: datadir.RampDir(data), Report: nobody, Clock: time.Now}, nobody)
	require.NoError(t, err)
	defer func() { require.NoError(t, ramp.Close()) }()
	given, err := ramp.Orders("", sandbox.MaxOpen)
	require.NoError(t, err)
	known := map[string]int{}
	for _, order := range given {
		known[order.Reference]++
	}
	made := map[string]bool{}
	for _, o := range s.orders {
		id := o.id()
		if id == "" {
			if o.use != nil {
				require.Contains(t, []string{"insufficient_funds", "quote_expired"}, o.use.answer.Text("error"), string(o.use.answer.Raw))
			}
			continue
		}
		require.False(t, made[id], "one order for two quotes")
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
		require.Equal(t, fmt.Sprint(want, " ", times), fmt.Sprint(shown["status"], " ", known[id]), "%s of %d cents", id, o.cents)
		delete(known, id)
	}
	require.Len(t, known, 1, "but for the first on-ramp, the ramp has no order that nobody was told of")
	require.Len(t, s.shown, len(made)+1)
}
