package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// soakedAt returns a soak of one workspace with some cards, and its worker. Every answer is
// recorded.
func soakedAt(url string) (*soak, *account, *worker) {
	a := &account{tenant: &tenant{key: "key"}, month: time.Now().UTC().Month(), books: books{available: 700, held: 300}}
	for i := range soakCards {
		c := &bookedCard{card: &card{id: fmt.Sprint("card_", i), tenant: a.tenant}, perTxn: 500, month: 900, spent: int64(10 * i)}
		a.books.cards = append(a.books.cards, c)
	}
	t := &soak{run: runAt(url), accounts: []*account{a}}
	w := newWorker(t.run, 0, "1a")
	w.faults, w.lane = &differences{}, newRecorder(len(t.measures())).laneOf(0)
	return t, a, w
}

// shown returns the document of a card.
func (c *bookedCard) shown() string {
	return fmt.Sprintf(`{"card":{"id":%q,"state":%q,"monthlyLimitUsdCents":%d,"perTxnLimitUsdCents":%d,"monthSpendUsdCents":%d}}`,
		c.id, c.stateName(), c.month, c.perTxn, c.spent)
}

// Every field of the card in an update's answer is compared.
func TestAnUpdateOfASoakIsCompared(t *testing.T) {
	changed := bookedCard{card: &card{id: "card_1"}, perTxn: 7, month: 11}
	for name, lie := range map[string]func(c *bookedCard){"": func(*bookedCard) {},
		"id": func(c *bookedCard) { c.card = &card{id: "card_2"} }, "state": func(c *bookedCard) { c.frozen = true }, "month": func(c *bookedCard) { c.month++ },
		"at once": func(c *bookedCard) { c.perTxn++ }} {
		shown := changed
		lie(&shown)
		s, a, w := soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(shown.shown()) }))
		s.updateCard(w, a, a.books.cards[1], changed, time.Now())
		w.closeWires()
		if name == "" {
			require.Zero(t, w.faults.count, w.faults.first)
			require.Equal(t, changed, *a.books.cards[1])
			continue
		}
		require.EqualValues(t, 1, w.faults.count, name)
		require.True(t, w.stopped)
		require.EqualValues(t, 900, a.books.cards[1].month, "it is not booked")
	}
}

// An update is repeated until the store accepts it. An internal error of the server is a
// difference.
func TestAnUpdateOfASoakIsSentAgain(t *testing.T) {
	answers := []int{503, 503, 200, 500}
	changed := bookedCard{card: &card{id: "card_1"}, perTxn: 7, month: 11}
	s, a, w := soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) {
		ctx.SetStatusCode(answers[0])
		ctx.SetBodyString(changed.shown())
		answers = answers[1:]
	}))
	defer w.closeWires()
	s.updateCard(w, a, a.books.cards[1], changed, time.Now())
	require.Zero(t, w.faults.count, w.faults.first)
	require.EqualValues(t, 2, w.lane.without[soakUpdate])
	s.updateCard(w, a, a.books.cards[1], changed, time.Now())
	require.EqualValues(t, 1, w.faults.count)
}

// An answer to another message is a difference.
func TestAnAnswerOfASoakIsThatToItsMessage(t *testing.T) {
	_, a, w := soakedAt("http://h:1")
	w.nextID()
	a.checkAnswer(w, refunds, 200, fmt.Appendf(nil, `{"id":%q,"status":"posted"}`, w.id), true, "posted")
	require.Zero(t, w.faults.count, w.faults.first)
	a.checkAnswer(w, refunds, 200, fmt.Appendf(nil, `{"id":"%s1","status":"posted"}`, w.id), true, "posted")
	require.EqualValues(t, 1, w.faults.count)
}

// Freezing and thawing leave most cards active.
func TestMostCardsOfASoakAreActive(t *testing.T) {
	var s *soak
	var a *account
	var w *worker
	s, a, w = soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) {
		for _, c := range a.books.cards {
			if string(ctx.Path()) == "/api/cards/"+c.id {
				changed := *c
				changed.frozen = string(textField(ctx.PostBody(), "state")) == "frozen"
				ctx.SetBodyString(changed.shown())
			}
		}
	}))
	defer w.closeWires()
	frozen, all := 0, 0
	for range 3000 {
		s.toggleFreeze(w, a, time.Now())
		for _, c := range a.books.cards {
			if all++; c.frozen {
				frozen++
			}
		}
	}
	require.Zero(t, w.faults.count, w.faults.first)
	require.InDelta(t, 0.25, float64(frozen)/float64(all), 0.05)
}

// After the last message the dollars and every card of a workspace are compared.
func TestASoakComparesEveryCardAtTheEnd(t *testing.T) {
	var asked sync.Map
	var a *account
	var s *soak
	s, a, _ = soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) {
		_, before := asked.LoadOrStore(string(ctx.Path()), true)
		if !before {
			ctx.SetBodyString(`{}`) // reads that follow the relay are repeated
			return
		}
		for _, c := range a.books.cards {
			if string(ctx.Path()) == "/api/cards/"+c.id {
				ctx.SetBodyString(c.shown())
				return
			}
		}
		fmt.Fprintf(ctx, `{"balances":[{"account":"usd","availableCents":%d,"heldCents":%d}]}`, a.books.available, a.books.held)
	}))
	stage := Stage{Outcomes: map[string]int64{"compared": 1}}
	s.compareAll(&stage)
	require.Zero(t, stage.Wrong, stage.Differences)
	require.Equal(t, 1+soakCards, stage.Compared)
	require.EqualValues(t, 2+soakCards, stage.Outcomes["compared"])
	for _, c := range a.books.cards {
		_, found := asked.Load("/api/cards/" + c.id)
		require.True(t, found, c.id)
	}
}

// A read that gets 503 counts as a request without a decision. A read that gets 500 is a
// difference, whatever later reads show.
func TestAReadOfASoakThatFailsIsTold(t *testing.T) {
	answers := []int{503, 200, 500}
	var a *account
	s, a, w := soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) {
		ctx.SetStatusCode(answers[0])
		answers = answers[1:]
		ctx.SetBodyString(a.books.cards[0].shown())
	}))
	defer w.closeWires()
	s.compareCard(w, a, a.books.cards[0], time.Now())
	require.Zero(t, w.faults.count, w.faults.first)
	require.EqualValues(t, 1, w.lane.without[soakRead])
	s.compareCard(w, a, a.books.cards[0], time.Now())
	require.EqualValues(t, 1, w.faults.count)
}

// A message that the server does not accept is repeated. The answer to a reversal names the
// authorization.
func TestAReversalOfASoakNamesItsAuthorization(t *testing.T) {
	for named, wrong := range map[string]int64{"auth_1": 0, "auth_2": 1} {
		refused := false
		s, a, w := soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) {
			if !refused {
				refused = true
				ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
				return
			}
			fmt.Fprintf(ctx, `{"id":%q,"authorizationId":%q,"heldAmountCents":0}`, textField(ctx.PostBody(), "id"), named)
		}))
		a.books.holds = []*bookedHold{{card: a.books.cards[0], networkID: "n", authorizationID: "auth_1"}}
		s.reverseHold(w, a, time.Now())
		w.closeWires()
		require.Equal(t, wrong, w.faults.count, w.faults.first)
		require.EqualValues(t, 1, w.lane.without[soakMessage])
	}
}

// The rate excludes an undecided authorization, and the dollars show that it moved none.
func TestAnAuthorizationOfASoakThatIsNotDecided(t *testing.T) {
	s, a, w := soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) {
		ctx.SetBodyString(`{"reason":"timeout","account":"usd","availableCents":700,"heldCents":300}`)
	}))
	defer w.closeWires()
	s.authorizeSwipe(w, a, time.Now())
	require.Zero(t, w.faults.count, w.faults.first)
	require.EqualValues(t, 1, w.lane.without[soakMessage])
	require.EqualValues(t, 1, *w.outcomes["compared"])
}
