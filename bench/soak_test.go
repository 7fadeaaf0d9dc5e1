package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// soakedAt is a soak of one workspace with some cards, and the worker that sends to it. What is measured is kept.
func soakedAt(url string) (*soak, *account, *worker) {
	a := &account{tenant: &tenant{key: "key"}, month: time.Now().UTC().Month(), books: books{available: 700, held: 300}}
	for i := range soakCards {
		c := &bookedCard{card: &card{id: fmt.Sprint("card_", i), tenant: a.tenant}, perTxn: 500, month: 900, spent: int64(10 * i)}
		a.books.cards = append(a.books.cards, c)
	}
	t := &soak{run: runAt(url), accounts: []*account{a}}
	w := newWorker(t.run, 0, "1a")
	w.faults, w.lane = &differences{}, newRecorder(len(t.measures())).lane(0)
	return t, a, w
}

// shown is a card as an answer shows it.
func (c *bookedCard) shown() string {
	return fmt.Sprintf(`{"card":{"id":%q,"state":%q,"monthlyLimitUsdCents":%d,"perTxnLimitUsdCents":%d,"monthSpendUsdCents":%d}}`,
		c.id, c.state(), c.month, c.perTxn, c.spent)
}

// An update's answer shows the card as it is then, and each of its terms is compared.
func TestAnUpdateOfASoakIsCompared(t *testing.T) {
	changed := bookedCard{card: &card{id: "card_1"}, perTxn: 7, month: 11}
	for name, lie := range map[string]func(c *bookedCard){"": func(*bookedCard) {},
		"id": func(c *bookedCard) { c.card = &card{id: "card_2"} }, "state": func(c *bookedCard) { c.frozen = true }, "month": func(c *bookedCard) { c.month++ },
		"at once": func(c *bookedCard) { c.perTxn++ }} {
		shown := changed
		lie(&shown)
		s, a, w := soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(shown.shown()) }))
		s.update(w, a, a.books.cards[1], changed, time.Now())
		w.close()
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

// An update is sent again until a store takes it, and a fault of the server is one.
func TestAnUpdateOfASoakIsSentAgain(t *testing.T) {
	answers := []int{503, 503, 200, 500}
	changed := bookedCard{card: &card{id: "card_1"}, perTxn: 7, month: 11}
	s, a, w := soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) {
		ctx.SetStatusCode(answers[0])
		ctx.SetBodyString(changed.shown())
		answers = answers[1:]
	}))
	defer w.close()
	s.update(w, a, a.books.cards[1], changed, time.Now())
	require.Zero(t, w.faults.count, w.faults.first)
	require.EqualValues(t, 2, w.lane.without[soakUpdate])
	s.update(w, a, a.books.cards[1], changed, time.Now())
	require.EqualValues(t, 1, w.faults.count)
}

// An answer to another message is not the one to this.
func TestAnAnswerOfASoakIsThatToItsMessage(t *testing.T) {
	_, a, w := soakedAt("http://h:1")
	w.nextID()
	a.told(w, refunds, 200, fmt.Appendf(nil, `{"id":%q,"status":"posted"}`, w.id), true, "posted")
	require.Zero(t, w.faults.count, w.faults.first)
	a.told(w, refunds, 200, fmt.Appendf(nil, `{"id":"%s1","status":"posted"}`, w.id), true, "posted")
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
	defer w.close()
	frozen, all := 0, 0
	for range 3000 {
		s.freeze(w, a, time.Now())
		for _, c := range a.books.cards {
			if all++; c.frozen {
				frozen++
			}
		}
	}
	require.Zero(t, w.faults.count, w.faults.first)
	require.InDelta(t, 0.25, float64(frozen)/float64(all), 0.05)
}

// After the last message the dollars of a workspace and every card of it are compared.
func TestASoakComparesEveryCardAtTheEnd(t *testing.T) {
	var asked sync.Map
	var a *account
	var s *soak
	s, a, _ = soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) {
		_, before := asked.LoadOrStore(string(ctx.Path()), true)
		if !before {
			ctx.SetBodyString(`{}`) // what comes behind is read again
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

// A read that is refused is no decision, and one that fails is a fault however right the next one is.
func TestAReadOfASoakThatFailsIsTold(t *testing.T) {
	answers := []int{503, 200, 500}
	var a *account
	s, a, w := soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) {
		ctx.SetStatusCode(answers[0])
		answers = answers[1:]
		ctx.SetBodyString(a.books.cards[0].shown())
	}))
	defer w.close()
	s.compareCard(w, a, a.books.cards[0], time.Now())
	require.Zero(t, w.faults.count, w.faults.first)
	require.EqualValues(t, 1, w.lane.without[soakRead])
	s.compareCard(w, a, a.books.cards[0], time.Now())
	require.EqualValues(t, 1, w.faults.count)
}

// A message that is not taken is sent again, and the answer to a reversal names the authorization.
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
		s.reverse(w, a, time.Now())
		w.close()
		require.Equal(t, wrong, w.faults.count, w.faults.first)
		require.EqualValues(t, 1, w.lane.without[soakMessage])
	}
}

// An authorization that could not be decided is no part of the rate, and the dollars show that it moved none.
func TestAnAuthorizationOfASoakThatIsNotDecided(t *testing.T) {
	s, a, w := soakedAt(listen(t, func(ctx *fasthttp.RequestCtx) {
		ctx.SetBodyString(`{"reason":"timeout","account":"usd","availableCents":700,"heldCents":300}`)
	}))
	defer w.close()
	s.authorize(w, a, time.Now())
	require.Zero(t, w.faults.count, w.faults.first)
	require.EqualValues(t, 1, w.lane.without[soakMessage])
	require.EqualValues(t, 1, *w.outcomes["compared"])
}
