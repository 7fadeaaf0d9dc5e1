package bench

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// Kinds of streams.
const (
	Authorize     = "authorize"      // swipes: approvals, and a share of declines
	Lifecycle     = "lifecycle"      // authorize, increment, clear, refund
	CardUpdates   = "card-updates"   // another monthly limit for a card
	CardReads     = "card-reads"     // a card, whose limit is that of its last update
	TreasuryReads = "treasury-reads" // what a workspace has
	emptyRequests = "empty"          // to the handler that does nothing
)

// kind is one kind of stream. send sends the request that was due at a time, and those that follow
// from it; each of its steps is measured by itself.
type kind struct {
	steps []string
	send  func(w *worker, due time.Time)
}

var kinds map[string]*kind

func init() { // not in the declaration, which the functions name
	kinds = map[string]*kind{
		Authorize:     {[]string{"authorize"}, (*worker).sendSwipe},
		Lifecycle:     {[]string{"authorize", "increment", "clear", "refund"}, (*worker).sendLife},
		CardUpdates:   {[]string{"PATCH card"}, (*worker).updateCard},
		CardReads:     {[]string{"GET card"}, (*worker).readCard},
		TreasuryReads: {[]string{"GET treasury"}, (*worker).readTreasury},
		emptyRequests: {[]string{"POST"}, (*worker).sendEmpty},
	}
}

// Kinds returns the kinds of streams.
func Kinds() []string { return []string{Authorize, Lifecycle, CardUpdates, CardReads, TreasuryReads} }

// Paths of the card network.
const (
	authorizations = "/v1/authorizations"
	clearings      = "/v1/clearings"
	refunds        = "/v1/refunds"
)

// Amounts of swipes, in cents. They are small, so that only the intended ones are declined.
const (
	leastCents  = 100
	mostCents   = 5_000
	perTxnCents = 1_000_000
	merchants   = 1000
)

// unissuedToken is the token of a card that no server has.
const unissuedToken = "ctok_0000000000000000000000000000"

// swipe is an authorization and the expected reason of its answer, or a message about one.
type swipe struct {
	id       []byte
	token    string
	tenant   *tenant
	cents    int64
	currency string
	merchant int
	more     string // members of the message beside those of an authorization
	reason   string
}

// appendBody appends the body of the message to dst.
func (s *swipe) appendBody(dst []byte) []byte {
	return fmt.Appendf(dst, `{"id":"%s","cardToken":"%s","amountCents":%d,"currency":"%s",`+
		`"merchant":{"id":"m-%d","name":"Merchant %[5]d","mcc":"5411","country":"US"}%[6]s}`,
		s.id, s.token, s.cents, s.currency, s.merchant, s.more)
}

// nextSwipe returns a swipe that must be approved. The worker's next id overwrites its id.
func (w *worker) nextSwipe() swipe {
	c := w.card()
	return swipe{id: w.nextID(), token: c.token, tenant: c.tenant, currency: "USD", merchant: w.random.IntN(merchants),
		cents: leastCents + w.random.Int64N(mostCents-leastCents), reason: "approved"}
}

// sendSwipe sends one swipe. A random share is built so that the server must decline it.
func (w *worker) sendSwipe(due time.Time) {
	s := w.nextSwipe()
	if w.random.IntN(100) < w.run.Declines {
		w.run.cards.declines[w.random.IntN(len(w.run.cards.declines))].alterSwipe(&s)
	}
	w.sendAuthorization(0, due, &s)
}

// sendAuthorization sends an authorization and books its amount when it is approved.
func (w *worker) sendAuthorization(step int, due time.Time, s *swipe) verdict {
	if s.reason == "approved" {
		s.tenant.asked.Add(s.cents) // before it is sent: a read may see it before its answer comes
	}
	w.body = s.appendBody(w.body[:0])
	is := w.sendAndJudge(w.network, step, due, "POST", authorizations, s.judgeAnswer)
	if s.reason == "approved" {
		s.tenant.bookSwipe(-s.cents, is, w.run.killing)
	}
	return is
}

// judgeAnswer compares the answer to an authorization with the expected one: the reason, and all of
// the amount or nothing.
func (s *swipe) judgeAnswer(status int, answer []byte) string {
	decision, cents := "declined", int64(0)
	if s.reason == "approved" {
		decision, cents = "approved", s.cents
	}
	approved, told := centsField(answer, "approvedAmountCents")
	if status == 200 && told && approved == cents && string(textField(answer, "reason")) == s.reason &&
		string(textField(answer, "decision")) == decision && bytes.Equal(textField(answer, "id"), s.id) {
		return ""
	}
	return fmt.Sprintf("%s with %d cents approved", s.reason, cents)
}

// decline turns a swipe into one that must be declined.
type decline struct {
	reason string
	card   *card // instead of the swipe's, unless nil
	change func(s *swipe)
}

// alterSwipe makes the swipe one that must be declined.
func (d *decline) alterSwipe(s *swipe) {
	if s.reason = d.reason; d.card != nil {
		s.token = d.card.token
	}
	if d.change != nil {
		d.change(s)
	}
}

// alteredDeclines need no card of their own.
var alteredDeclines = []decline{
	{"invalid_request", nil, func(s *swipe) { s.cents = -1 }},
	{"currency_not_supported", nil, func(s *swipe) { s.currency = "EUR" }},
	{"per_transaction_limit_exceeded", nil, func(s *swipe) { s.cents = perTxnCents + 1 }},
	{"authorization_not_found", nil, func(s *swipe) { s.more = incrementBody("never-" + string(s.id)) }},
}

func incrementBody(original string) string {
	return `,"kind":"incremental","originalId":"` + original + `"`
}

// sendLife sends the life of one authorization: authorization, increment, final clearing, partial
// refund. Each message is due when the one before it is answered. An answer other than the expected
// one ends the life.
func (w *worker) sendLife(due time.Time) {
	s := w.nextSwipe()
	first, original := s.cents, string(s.id)
	if w.sendAuthorization(0, due, &s) != right {
		return
	}
	s.id, s.more = w.nextID(), incrementBody(original)
	whole := first
	switch w.sendAuthorization(1, time.Now(), &s) {
	case right:
		whole += s.cents
	case undecided:
	default:
		return
	}
	s.more, s.cents = `,"final":true,"originalId":"`+original+`"`, whole
	if w.presentSwipe(2, clearings, &s) != right {
		return
	}
	s.more, s.cents = `,"originalId":"`+original+`"`, 1+w.random.Int64N(first)
	s.tenant.bookSwipe(s.cents, w.presentSwipe(3, refunds, &s), true)
}

// presentSwipe sends a clearing or a refund, which must be posted.
func (w *worker) presentSwipe(step int, path string, s *swipe) verdict {
	s.id = w.nextID()
	w.body = s.appendBody(w.body[:0])
	return w.sendAndJudge(w.network, step, time.Now(), "POST", path, func(status int, answer []byte) string {
		posted := string(textField(answer, "status")) == "posted"
		if status == 200 && posted && bytes.Equal(textField(answer, "id"), s.id) {
			return ""
		}
		return "posted"
	})
}

const limitField = "monthlyLimitUsdCents"

// updateCard sets another monthly limit, too high to decline a swipe. Each connection updates cards
// of its own, because a card's limit follows from the order of its updates.
func (w *worker) updateCard(due time.Time) {
	all, of := w.run.cards.cards, w.stream.Connections
	from, to := w.index*len(all)/of, (w.index+1)*len(all)/of
	c := all[from+w.random.IntN(to-from)]
	n := c.sent.Add(1)
	w.rest.bearer = c.tenant.key
	w.body = fmt.Appendf(w.body[:0], `{"%s":%d}`, limitField, plentyCents-n)
	is := w.sendAndJudge(w.rest, 0, due, "PATCH", "/api/cards/"+c.id, func(status int, answer []byte) string {
		return c.judgeAnswer(status, answer, n, n)
	})
	c.lost = c.lost || is == missing // a lost update may take effect after later ones
	if is == right && !c.lost {
		c.acked.Store(n)
	}
}

// readCard reads a card. Its limit must be that of the last acknowledged update or of a later one.
func (w *worker) readCard(due time.Time) {
	c := w.card()
	least := c.acked.Load()
	w.rest.bearer = c.tenant.key
	w.sendAndJudge(w.rest, 0, due, "GET", "/api/cards/"+c.id, func(status int, answer []byte) string {
		return c.judgeAnswer(status, answer, least, c.sent.Load())
	})
}

// judgeAnswer requires the card with the limit of its n-th update, from least to most.
func (c *card) judgeAnswer(status int, answer []byte, least, most int64) string {
	limit, told := centsField(answer, limitField)
	n := plentyCents - limit
	if status == 200 && told && n >= least && n <= most && string(textField(answer, "id")) == c.id {
		return ""
	}
	return fmt.Sprintf("%s with a monthly limit from %d to %d cents", c.id, plentyCents-most, plentyCents-least)
}

// readTreasury reads what a workspace has: at most what it had before the load, at least that less
// all swipes sent since.
func (w *worker) readTreasury(due time.Time) {
	t := w.run.cards.tenants[w.random.IntN(len(w.run.cards.tenants))]
	w.rest.bearer = t.key
	w.sendAndJudge(w.rest, 0, due, "GET", "/api/treasury", func(status int, answer []byte) string {
		has, told := availableDollars(answer)
		if least := t.before - t.asked.Load(); status != 200 || !told || has > t.before || has < least {
			return fmt.Sprintf("%d to %d cents available", least, t.before)
		}
		return ""
	})
}

// sendEmpty sends a request as long as a swipe's to the handler that does nothing.
func (w *worker) sendEmpty(due time.Time) {
	s := swipe{id: w.nextID(), token: unissuedToken, cents: leastCents, currency: "USD"}
	w.body = s.appendBody(w.body[:0])
	w.sendAndJudge(w.network, 0, due, "POST", authorizations, func(status int, _ []byte) string {
		if status == 200 {
			return ""
		}
		return "200"
	})
}

// countAnswered returns the number of answers, those of the warm-up included.
func countAnswered(stages []Stage) (n int64) {
	for _, s := range stages {
		for outcome, count := range s.Outcomes {
			if !slices.Contains([]string{noAnswer, whileDown}, outcome) {
				n += count
			}
		}
	}
	return n
}
