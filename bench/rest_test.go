package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// office is a server with some cards. It changes their limits, approves every swipe and posts
// clearings and refunds.
type office struct {
	mu     sync.Mutex
	limits map[string]int64 // by card
	cents  map[string]int64 // available, by the key of the tenant
	calls  map[string]int
	lie    func(o *office, q *request)
}

// request is the action of an office before its answer. A lie changes it.
type request struct {
	call     string
	n        int    // calls of this name, this one included
	id       string // of the card, or the key of the tenant
	cents    int64  // asked for, or shown
	kept     int64  // the kept part of it
	message  string // its id of the network
	reason   string // of a decision
	decision string
	status   int
	noAnswer bool
}

const (
	officeCents   = 1_000_000_000
	officeCards   = 13
	officeTenants = 4
)

// officeRun returns a run against an office.
func officeRun(t *testing.T, lie func(o *office, q *request)) *run {
	o := &office{limits: map[string]int64{}, cents: map[string]int64{}, calls: map[string]int{}, lie: lie}
	r := runAt(listen(t, o.answer))
	r.desk = &desk{rest: r.Target.REST, quiet: 200 * time.Millisecond, http: &http.Client{}}
	t.Cleanup(r.desk.http.CloseIdleConnections)
	r.Declines, r.cards = 0, &portfolio{limits: make([]bookedLimit, officeCards)}
	for i := range officeTenants {
		owner := &tenant{key: "key" + strconv.Itoa(i), depositedCents: officeCents}
		r.cards.tenants, o.cents[owner.key] = append(r.cards.tenants, owner), officeCents
	}
	for i := range officeCards { // a token is the key of the tenant
		c := &card{id: "card_" + strconv.Itoa(i), tenant: r.cards.tenants[i%officeTenants]}
		c.token = c.tenant.key
		r.cards.plain, o.limits[c.id] = append(r.cards.plain, c), plentyCents
	}
	return r
}

func (o *office) answer(ctx *fasthttp.RequestCtx) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.read(ctx)
	o.calls[q.call]++
	q.n, q.status, q.reason, q.decision = o.calls[q.call], fasthttp.StatusOK, "approved", "approved"
	if o.lie != nil {
		o.lie(o, &q)
	}
	ctx.SetStatusCode(q.status)
	switch q.call {
	case "PATCH card":
		o.limits[q.id] = q.kept
		fmt.Fprintf(ctx, `{"card":{"id":%q,"monthlyLimitUsdCents":%d}}`, q.id, q.cents)
	case "GET card":
		fmt.Fprintf(ctx, `{"card":{"id":%q,"monthlyLimitUsdCents":%d},"recentAuthorizations":[{"id":"auth_1"}]}`, q.id, q.cents)
	case "GET treasury":
		fmt.Fprintf(ctx, `{"balances":[{"account":"stablecoin","availableCents":0},{"account":"usd","availableCents":%d}]}`, q.cents)
	case "clear", "refund":
		o.cents[q.id] -= q.kept
		fmt.Fprintf(ctx, `{"id":%q,"status":"posted"}`, q.message)
	default:
		o.cents[q.id] -= q.kept
		if q.reason != "approved" {
			q.cents, q.decision = 0, "declined"
		}
		fmt.Fprintf(ctx, `{"id":%q,"decision":%q,"reason":%q,"approvedAmountCents":%d}`, q.message, q.decision, q.reason, q.cents)
	}
	if q.noAnswer {
		ctx.HijackSetNoResponse(true)
		ctx.Hijack(func(net.Conn) {}) // which closes it
	}
}

func (o *office) read(ctx *fasthttp.RequestCtx) request {
	id, isCard := strings.CutPrefix(string(ctx.Path()), "/api/cards/")
	switch {
	case isCard && ctx.IsPatch():
		limit, _ := centsField(ctx.PostBody(), limitField)
		return request{call: "PATCH card", id: id, cents: limit, kept: limit}
	case isCard:
		return request{call: "GET card", id: id, cents: o.limits[id]}
	case string(ctx.Path()) == "/api/treasury":
		key := strings.TrimPrefix(string(ctx.Request.Header.Peek("Authorization")), "Bearer ")
		return request{call: "GET treasury", id: key, cents: o.cents[key]}
	}
	var swiped struct {
		ID, CardToken string
		AmountCents   int64
	}
	if err := json.Unmarshal(ctx.PostBody(), &swiped); err != nil {
		return request{call: err.Error()}
	}
	q := request{call: "authorize", id: swiped.CardToken, cents: swiped.AmountCents, kept: swiped.AmountCents, message: swiped.ID}
	switch string(ctx.Path()) {
	case clearings:
		q.call, q.kept = "clear", 0
	case refunds:
		q.call, q.kept = "refund", -q.cents
	}
	return q
}

// officeLoad repeats a load with longer durations until it has done something, because a slow
// machine does less.
func officeLoad(t *testing.T, lie func() func(o *office, q *request), l Load, done func(all []Stage) bool) []Stage {
	for during := 150 * time.Millisecond; ; during *= 2 {
		l.Connections, l.Duration = 5, during
		l.setDefaults()
		all, err := officeRun(t, lie()).runLoad(t.Context(), &l)
		require.NoError(t, err)
		if done(all) || during > 4*time.Second {
			return all
		}
	}
}

func wrongOf(all []Stage) (n int64, first string) {
	for _, s := range all {
		if n += s.Wrong; first == "" && len(s.Differences) > 0 {
			first = s.Name + ": " + s.Differences[0]
		}
	}
	return n, first
}

// everyMeasure reports whether every kind of request was measured.
func everyMeasure(all []Stage) bool {
	return !slices.ContainsFunc(all, func(s Stage) bool { return len(s.usedMeasures()) < len(s.Measures) })
}

var (
	swipeLoad = Load{Workload: Authorize}
	livesLoad = Load{Workload: Lifecycle}
	restLoad  = Load{Workload: REST}
	mixedLoad = Load{Workload: Mixed, Rate: 400, RESTRate: 100, ReadRate: 100}
)

// officeLies are wrong answers about cards and dollars, each with the load that must find it and
// its message.
var officeLies = []struct {
	load Load
	says string
	lie  func() func(o *office, q *request)
}{
	{mixedLoad, "mixed: REST: GET card", doneLate(func(q *request) { q.status = 503 })},
	{restLoad, "rest: PATCH card: PATCH card: answered 200", onceInTen("PATCH card", func(q *request) { q.cents++ })},
	{restLoad, "rest: PATCH card: PATCH card: answered 200", onceInTen("PATCH card", func(q *request) { q.id = "card_77" })},
	{restLoad, "rest: PATCH card: PATCH card: answered 500", onceInTen("PATCH card", func(q *request) { q.status = 500 })},
	{restLoad, "rest: PATCH card: GET card card_3 shows a monthly limit of 500000000000 cents after the load", loses("card_3")},
	{restLoad, "rest: GET card: GET card: answered 200", reading("GET card", func(q *request) { q.cents++ })},
	{restLoad, "rest: GET card: GET card: answered 200", reading("GET card", func(q *request) { q.id = "card_77" })},
	{restLoad, "rest: GET treasury: GET treasury: answered 200", onceInTen("GET treasury", func(q *request) { q.cents++ })},
	{restLoad, "rest: GET treasury: GET treasury: answered 200", onceInTen("GET treasury", func(q *request) { q.cents-- })},
	{mixedLoad, "mixed: REST: GET card", onceInTen("GET card", func(q *request) { q.cents++ })},
	{mixedLoad, "mixed: REST: GET card", loses("card_3")},
	{mixedLoad, "mixed: REST: GET treasury: answered 200",
		onceInTen("GET treasury", func(q *request) { q.cents = officeCents + 1 })},
	{mixedLoad, "mixed: REST: GET treasury: answered 200",
		onceInTen("GET treasury", func(q *request) { q.cents -= officeCents / 2 })},
	{Load{Workload: Mixed, Rate: 100, RESTRate: 100}, "mixed: REST: GET card card_3 shows", loses("card_3")},
	{swipeLoad, "authorize: authorization", onceInTen("authorize", func(q *request) { q.cents-- })},
	{swipeLoad, "authorize: authorization", onceInTen("authorize", func(q *request) { q.message += "1" })},
	{swipeLoad, "authorize: authorization", onceInTen("authorize", func(q *request) { q.decision = "declined" })},
	{swipeLoad, "authorize: authorization", onceInTen("authorize", func(q *request) { q.status, q.reason = 500, "timeout" })},
	{livesLoad, "lifecycle: v1/authorizations", onceInTen("authorize", func(q *request) { q.cents++ })},
	{livesLoad, "lifecycle: v1/clearings", onceInTen("clear", func(q *request) { q.message += "1" })},
	{livesLoad, "lifecycle: v1/refunds", onceInTen("refund", func(q *request) { q.message += "1" })},
}

func onceInTen(call string, lie func(q *request)) func() func(*office, *request) {
	return always(func(_ *office, q *request) {
		if q.call == call && q.n%10 == 0 {
			lie(q)
		}
	})
}

// reading lies only while cards are read, so that the comparison after the updates is right.
func reading(call string, lie func(q *request)) func() func(*office, *request) {
	return always(func(_ *office, q *request) {
		if q.call == call && q.n > officeCards {
			lie(q)
		}
	})
}

// loses drops every update of a card and acknowledges it.
func loses(id string) func() func(*office, *request) {
	return always(func(o *office, q *request) {
		if q.call == "PATCH card" && q.id == id {
			q.kept = o.limits[id]
		}
	})
}

func TestALieAboutACardOrDollarsIsFound(t *testing.T) {
	for _, c := range officeLies {
		all := officeLoad(t, c.lie, c.load, func(all []Stage) bool { n, _ := wrongOf(all); return n > 0 })
		n, first := wrongOf(all)
		require.Positive(t, n, c.says)
		require.True(t, strings.HasPrefix(first, c.says), "%s, not %s", first, c.says)
	}
}

// doneLate applies an unacknowledged update just after the next acknowledged one of its card.
func doneLate(as func(q *request)) func() func(o *office, q *request) {
	return func() func(o *office, q *request) {
		late := map[string]int64{}
		return func(o *office, q *request) {
			if q.call != "PATCH card" {
				return
			}
			if limit, ok := late[q.id]; ok {
				q.kept = limit
				delete(late, q.id)
			} else {
				late[q.id], q.kept = q.cents, o.limits[q.id]
				as(q)
			}
		}
	}
}

// decidedTooLate lets swipes that time out hold their cents until a read has shown it.
func decidedTooLate() func(o *office, q *request) {
	held := map[string]int64{}
	return func(o *office, q *request) {
		switch {
		case q.call == "authorize" && q.n%10 == 0:
			held[q.id] += q.cents
			q.reason = "timeout"
		case q.call == "GET treasury":
			o.cents[q.id] += held[q.id]
			delete(held, q.id)
		}
	}
}

// Uncertain outcomes are not wrong. A refused update and one without an answer may be in effect or
// not, and the latter may take effect later. A swipe that is decided too late may hold its dollars
// briefly.
func TestWhatMayBeIsNotWrong(t *testing.T) {
	refused := func(o *office, q *request) {
		if q.call == "PATCH card" && q.n%3 == 0 {
			q.status, q.kept = 503, o.limits[q.id]
		}
	}
	for name, lie := range map[string]func() func(o *office, q *request){
		"nothing but the truth": func() func(o *office, q *request) { return nil },
		"refused":               always(refused),
		"done and refused":      onceInTen("PATCH card", func(q *request) { q.status = 503 }),
		"reads refused":         onceInTen("GET card", func(q *request) { q.status, q.cents = 503, 0 }),
		"done without answer":   onceInTen("PATCH card", func(q *request) { q.noAnswer = true }),
		"done late":             doneLate(func(q *request) { q.noAnswer = true }),
		"decided too late":      decidedTooLate,
	} {
		for _, l := range []Load{restLoad, mixedLoad} {
			all := officeLoad(t, lie, l, everyMeasure)
			require.True(t, everyMeasure(all), name)
			n, first := wrongOf(all)
			require.Zero(t, n, "%s: %s", name, first)
			require.True(t, slices.ContainsFunc(all, func(s Stage) bool {
				return slices.ContainsFunc(s.Notes, func(n string) bool { return strings.HasSuffix(n, " cards compared afterwards") })
			}), name)
		}
	}
}

func always(lie func(o *office, q *request)) func() func(o *office, q *request) {
	return func() func(o *office, q *request) { return lie }
}

// Without a rate of reads the load reads nothing.
func TestMixedWithoutReadsOnlyWrites(t *testing.T) {
	done := func(all []Stage) bool { return everyMeasure(all) }
	all := officeLoad(t, always(nil), Load{Workload: Mixed, Rate: 100, RESTRate: 100}, done)
	require.True(t, everyMeasure(all))
	require.Len(t, all, 2)
	require.Len(t, all[1].Measures, 1)
	require.Equal(t, "PATCH card", all[1].Measures[0].Name)
	require.Equal(t, 100, all[1].Rate)
	for outcome := range all[1].Outcomes {
		require.Equal(t, "PATCH card 200", outcome)
	}
}

// Each plain card is updated by one connection, for any numbers of cards and connections.
func TestEveryCardHasOneWriter(t *testing.T) {
	for _, n := range []struct{ cards, workers int }{{12, 4}, {13, 4}, {4, 4}, {7, 1}} {
		p := &portfolio{limits: make([]bookedLimit, n.cards)}
		for i := range n.cards {
			p.plain = append(p.plain, &card{id: strconv.Itoa(i)})
		}
		all := &clients{cards: p, workers: n.workers}
		writer := map[string]int{}
		for i := range n.workers {
			w := &worker{index: i, random: rand.New(rand.NewPCG(1, uint64(i)))}
			for range 100 * n.cards {
				c, booked := all.pickOwnCard(w)
				require.Same(t, &p.limits[slices.Index(p.plain, c)], booked)
				if of, known := writer[c.id]; known {
					require.Equal(t, of, i)
				}
				writer[c.id] = i
			}
		}
		require.Len(t, writer, n.cards)
	}
}

// During swipes the available balance is between the initial one and that less all sent swipes.
func TestWhatMayBeAvailable(t *testing.T) {
	p := &portfolio{tenants: []*tenant{{depositedCents: 1000}}}
	owner := p.tenants[0]
	owner.moved.Store(-100)
	owner.asked.Store(70)
	p.openBounds()
	require.True(t, owner.mayShow(900))
	require.False(t, owner.mayShow(899))
	owner.asked.Add(30)
	for cents, may := range map[int64]bool{901: false, 900: true, 870: true, 869: false} {
		require.Equal(t, may, owner.mayShow(cents), cents)
	}
}

// An acknowledged limit replaces the limits before it, except one that had no answer.
func TestWhatACardMayShow(t *testing.T) {
	var l bookedLimit
	may := func(shown ...int64) {
		t.Helper()
		for n := range l.sent + 2 {
			require.Equal(t, slices.Contains(shown, n), l.mayShow(plentyCents-n), "%d of %d: %s", n, l.sent, l.describeWanted())
		}
	}
	may(0)
	require.EqualValues(t, plentyCents-1, l.nextLimit())
	l.noteAcknowledged()
	may(1)
	l.nextLimit()
	l.noteRefused()
	may(1, 2)
	l.nextLimit()
	l.noteRefused()
	may(1, 2, 3)
	l.nextLimit()
	l.noteAcknowledged()
	may(4)
	l.nextLimit()
	l.noteLost()
	l.nextLimit()
	l.noteAcknowledged()
	may(5, 6)
}

// After a load whose dollars could not be compared, the next load takes the balance as expected.
func TestDollarsAreCountedAnewAfterALoadWithoutAnswers(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	r := officeRun(t, onceInTen("authorize", func(q *request) { q.noAnswer = away.Load() })())
	l := Load{Workload: Authorize, Connections: 5, Duration: 100 * time.Millisecond}
	l.setDefaults()
	for {
		all, err := r.runLoad(t.Context(), &l)
		require.NoError(t, err)
		require.Zero(t, all[0].Wrong, all[0].Differences)
		if all[0].Outcomes["no answer"] > 0 {
			require.Zero(t, all[0].Compared)
			break
		}
	}
	away.Store(false)
	all, err := r.runLoad(t.Context(), &l)
	require.NoError(t, err)
	require.Zero(t, all[0].Wrong, all[0].Differences)
	require.Equal(t, officeTenants, all[0].Compared)
}

// Before the dollars are compared, the server has time to reverse late decisions. Until then the
// balance may be right once and wrong afterwards.
func TestDollarsAreComparedWhenWhatWasLateIsTakenBack(t *testing.T) {
	first := make(chan time.Time, 1)
	r := officeRun(t, func(o *office, _ *request) {
		if o.calls["GET treasury"] == 1 {
			first <- time.Now()
		}
	})
	began := time.Now()
	require.NoError(t, r.settleWorkspaces(t.Context(), &Stage{Outcomes: map[string]int64{"timeout": 1, "approved": 5}}))
	require.GreaterOrEqual(t, (<-first).Sub(began), takenBackWithin)
}
