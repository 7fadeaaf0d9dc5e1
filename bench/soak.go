package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"
)

// Limits and money of a soak. Funds and limits are tight, so that every reason occurs.
const (
	maxSoakConnections = 512 // each has a workspace
	soakCards          = 4   // of each
	soakFundsCents     = 200_000
	soakPerTxnCents    = 20_000
	soakMonthCents     = 60_000
	soakSwipeCents     = 25_000 // the largest
	soakRefundCents    = 40_000 // the largest
	soakRetries        = 200    // of a message without an answer
	soakRetryPause     = 50 * time.Millisecond
	comparePolls       = 200 // reads follow the relay
	comparePause       = 25 * time.Millisecond
	monthMargin        = 3 * time.Second
	thawsPerFreeze     = 3 // thaws for each freeze, so that most swipes meet active cards
)

// soak is the traffic of random lives of cards. Every connection has a workspace and sends one
// message at a time, so that its books predict every answer.
type soak struct {
	run      *run
	accounts []*account // by connection
}

// account is the workspace of one connection, with its cards and books.
type account struct {
	tenant *tenant
	books  books
	kept   []exchange // repeated from time to time
	month  time.Month
}

// The measures of a soak.
const (
	soakMessage = iota
	soakUpdate
	soakRead
)

func (*soak) measures() []string { return []string{"network message", "card update", "read"} }

// runSoak runs the workload soak: lives of cards for the load's duration. It compares every answer
// with the expected one, and every workspace and card at the end. It fails when the server refuses
// the accounts or ctx ends; a difference is in the stage.
func (r *run) runSoak(ctx context.Context, l *Load) ([]Stage, error) {
	t := &soak{run: r, accounts: make([]*account, l.Connections)}
	err := forEach(ctx, l.Connections, func(ctx context.Context, i int) (err error) {
		t.accounts[i], err = openAccount(ctx, r.desk, i)
		return err
	})
	if err != nil {
		return nil, err
	}
	stages, err := r.runFlows(ctx, l, r.watchBacklog(), flow{traffic: t, connections: l.Connections})
	if err == nil && stages[0].Wrong == 0 {
		t.compareAll(&stages[0])
	}
	return stages, err
}

// openAccount creates a workspace with dollars and cards for one connection. It fails when the
// server refuses, or when the deposit does not settle.
func openAccount(ctx context.Context, d *desk, i int) (*account, error) {
	t, err := d.createTenant(ctx, fmt.Sprintf("soak %d", i), soakFundsCents)
	if err != nil {
		return nil, err
	}
	a := &account{tenant: t, books: books{available: soakFundsCents}, month: time.Now().UTC().Month()}
	for range soakCards {
		c, err := d.issueCard(
			ctx,
			t,
			rules{"perTxnLimitUsdCents": soakPerTxnCents, "monthlyLimitUsdCents": soakMonthCents},
		)
		if err != nil {
			return nil, err
		}
		a.books.cards = append(a.books.cards, &bookedCard{card: c, perTxn: soakPerTxnCents, month: soakMonthCents})
	}
	has, err := d.awaitBalance(ctx, t, soakFundsCents)
	if err == nil && has != soakFundsCents {
		err = fmt.Errorf("bench: a deposit of %d cents has not settled; %d are there", soakFundsCents, has)
	}
	return a, err
}

// acts are the actions of a soak with their share in percent.
var acts = [...]struct {
	percent int
	do      func(t *soak, w *worker, a *account, due time.Time)
}{
	{
		40,
		(*soak).authorizeSwipe,
	},
	{10, (*soak).incrementHold},
	{12, (*soak).reverseHold},
	{15, (*soak).clearHold},
	{7, (*soak).refundClearing},
	{
		7,
		(*soak).repeatMessage,
	},
	{3, (*soak).changeLimit},
	{3, (*soak).toggleFreeze},
	{2, (*soak).compareAny},
	{1, (*soak).compareDollars},
}

// unit does one random act of a cardholder, network or customer. A connection of the load calls it.
func (t *soak) unit(w *worker, due time.Time) {
	a := t.accounts[w.index]
	a.avoidMonthEnd()
	drawn := w.random.IntN(100)
	for _, act := range acts {
		if drawn -= act.percent; drawn < 0 {
			act.do(t, w, a, due)
			return
		}
	}
}

// avoidMonthEnd sends no message near the end of a month in UTC, because the month of its spend is
// uncertain.
func (a *account) avoidMonthEnd() {
	for {
		now := time.Now().UTC()
		if before, after := now.Add(-monthMargin).Month(), now.Add(monthMargin).Month(); before != after {
			time.Sleep(monthMargin)
			continue
		}
		if now.Month() != a.month {
			a.month = now.Month()
			a.books.beginMonth()
		}
		return
	}
}

func (a *account) anyCard(w *worker) *bookedCard {
	return a.books.cards[w.random.IntN(len(a.books.cards))]
}

func (a *account) anyHold(w *worker) *bookedHold {
	if len(a.books.holds) == 0 {
		return nil
	}
	return a.books.holds[w.random.IntN(len(a.books.holds))]
}

// sendUntilAnswered sends the worker's body as a message of the network until it is answered with
// another status than 503. Its id makes repeats safe. After soakRetries it records a difference,
// stops the worker and returns 0.
func (t *soak) sendUntilAnswered(w *worker, a *account, due time.Time, path string) (status int, answer []byte) {
	for range soakRetries {
		var ok bool
		if status, answer, ok = w.sendMeasured(w.network, soakMessage, due, "POST", path); ok && status != 503 {
			return status, answer
		}
		if ok {
			w.markUndecided(soakMessage, due)
		}
		w.countOutcome(sentAgain)
		time.Sleep(soakRetryPause)
	}
	w.noteDifference(path, 0, nil, "any answer")
	w.stopped = true
	return 0, nil
}

// checkAnswer checks an answer to the worker's last message and stores it for a repeat. A wrong
// answer is a difference and stops the worker.
func (a *account) checkAnswer(w *worker, path string, status int, answer []byte, right bool, want string) {
	if !right || !answersMessage(answer, w.id) {
		w.noteDifference(fmt.Sprintf("%s %s", path, w.id), status, answer, want)
		w.stopped = true // the books and the server differ from here on
		return
	}
	a.kept = append(a.kept, exchange{path, bytes.Clone(w.body), bytes.Clone(answer)})
	a.kept = a.kept[max(0, len(a.kept)-keptAnswers):]
}

// authorizeSwipe sends an authorization of a random card and amount, and compares the decision with
// the books.
func (t *soak) authorizeSwipe(w *worker, a *account, due time.Time) {
	c := a.anyCard(w)
	s := swipe{id: w.nextID(), token: c.token, currency: "USD", merchant: w.merchants.Uint64(), mcc: groceryMCC,
		cents: 1 + w.random.Int64N(soakSwipeCents)}
	partial := w.random.IntN(8) == 0
	w.body = s.appendBody(w.body[:0])
	if partial {
		w.body = append(w.body[:len(w.body)-1], `,"partialApproval":true}`...)
	}
	want := a.books.bookAuthorization(c, nil, s.cents, partial)
	answer, ok := t.sendDecided(w, a, due, want)
	if ok && want.reason == "approved" {
		h := &bookedHold{
			card:            c,
			networkID:       string(s.id),
			authorizationID: string(textField(answer, "authorizationId")),
		}
		a.books.bookHold(h, want.approved)
		a.books.keepHold(h)
	}
}

// incrementHold sends an increment of a random hold, and compares the decision with the books.
// Without a hold it does nothing.
func (t *soak) incrementHold(w *worker, a *account, due time.Time) {
	h := a.anyHold(w)
	if h == nil {
		return
	}
	s := swipe{id: w.nextID(), token: h.card.token, currency: "USD", merchant: w.merchants.Uint64(), mcc: groceryMCC,
		cents: 1 + w.random.Int64N(soakSwipeCents/4), original: h.networkID}
	w.body = s.appendBody(w.body[:0])
	want := a.books.bookAuthorization(h.card, h, s.cents, false)
	answer, ok := t.sendDecided(w, a, due, want)
	if ok && want.reason == "approved" {
		a.books.bookHold(h, want.approved)
		if id := string(textField(answer, "authorizationId")); id != h.authorizationID {
			w.noteDifference("increment", 200, answer, h.authorizationID)
		}
	}
}

// sendDecided sends an authorization and compares its decision. It returns false without a
// decision.
func (t *soak) sendDecided(w *worker, a *account, due time.Time, want verdict) (answer []byte, ok bool) {
	status, answer := t.sendUntilAnswered(w, a, due, authorizations)
	reason := textField(answer, "reason")
	w.countBytes(reason)
	if status == 200 && isUndecided(reason) {
		w.markUndecided(soakMessage, due)
		t.compareDollars(w, a, time.Now()) // the server reverses a timeout a little later
		return answer, false
	}
	approved, told := centsField(answer, "approvedAmountCents")
	right := status == 200 && string(reason) == want.reason && told && approved == want.approved
	a.checkAnswer(w, authorizations, status, answer, right, fmt.Sprintf("%s %d", want.reason, want.approved))
	return answer, right
}

// messageAbout begins the body of a message about an authorization, named by one of its two ids.
func (a *account) messageAbout(w *worker, h *bookedHold) []byte {
	body := append(append(w.body[:0], `{"id":"`...), w.nextID()...)
	if w.random.IntN(2) == 0 {
		return append(append(append(body, `","originalId":"`...), h.networkID...), '"')
	}
	return append(append(append(body, `","authorizationId":"`...), h.authorizationID...), '"')
}

// reverseHold reverses a random hold in part or whole, and compares the remaining hold with the
// books. Without a hold it does nothing.
func (t *soak) reverseHold(w *worker, a *account, due time.Time) {
	h := a.anyHold(w)
	if h == nil {
		return
	}
	cents := h.held
	w.body = a.messageAbout(w, h)
	if w.random.IntN(2) == 0 {
		cents = 1 + w.random.Int64N(soakSwipeCents)
		w.body = strconv.AppendInt(append(w.body, `,"amountCents":`...), cents, 10)
	}
	w.body = append(w.body, '}')
	status, answer := t.sendUntilAnswered(w, a, due, reversals)
	w.countOutcome("message " + strconv.Itoa(status))
	a.books.bookReversal(h, cents)
	left, told := centsField(answer, "heldAmountCents")
	right := status == 200 && told && left == h.held &&
		string(textField(answer, "authorizationId")) == h.authorizationID
	a.checkAnswer(w, reversals, status, answer, right, fmt.Sprintf("%s with %d held", h.authorizationID, h.held))
}

// clearHold clears a random hold by a random amount, which may exceed the hold, and expects a
// posting. Without a hold it does nothing.
func (t *soak) clearHold(w *worker, a *account, due time.Time) {
	h := a.anyHold(w)
	if h == nil {
		return
	}
	cents, final := 1+w.random.Int64N(max(h.held, 1)+h.held/8), w.random.IntN(2) == 0
	w.body = a.presentmentOf(w, h, cents)
	w.body = append(strconv.AppendBool(append(w.body, `,"final":`...), final), '}')
	status, answer := t.sendUntilAnswered(w, a, due, clearings)
	w.countOutcome("message " + strconv.Itoa(status))
	a.books.bookClearing(h, cents, final)
	a.checkAnswer(
		w,
		clearings,
		status,
		answer,
		status == 200 && string(textField(answer, "status")) == "posted",
		"posted",
	)
}

// refundClearing sends a refund for a random authorization and expects a posting. Without one it
// does nothing.
func (t *soak) refundClearing(w *worker, a *account, due time.Time) {
	h := a.anyHold(w)
	if h == nil {
		return
	}
	cents := 1 + w.random.Int64N(soakRefundCents)
	if a.books.available+a.books.held > soakFundsCents {
		cents = 1 // the workspace has its initial dollars
	}
	w.body = append(a.presentmentOf(w, h, cents), '}')
	status, answer := t.sendUntilAnswered(w, a, due, refunds)
	w.countOutcome("message " + strconv.Itoa(status))
	a.books.available += cents
	a.checkAnswer(
		w,
		refunds,
		status,
		answer,
		status == 200 && string(textField(answer, "status")) == "posted",
		"posted",
	)
}

// presentmentOf begins the body of a clearing or refund.
func (a *account) presentmentOf(w *worker, h *bookedHold, cents int64) []byte {
	body := a.messageAbout(w, h)
	body = append(append(body, `,"cardToken":"`...), h.card.token...)
	body = strconv.AppendInt(append(body, `","amountCents":`...), cents, 10)
	return append(body, `,"currency":"USD","merchant":{"name":"Merchant","mcc":"5411"}`...)
}

// repeatMessage sends a message again, which must get its first answer.
func (t *soak) repeatMessage(w *worker, a *account, due time.Time) {
	if len(a.kept) == 0 {
		return
	}
	e := a.kept[w.random.IntN(len(a.kept))]
	w.body = append(w.body[:0], e.body...)
	status, answer := t.sendUntilAnswered(w, a, due, e.path)
	if w.countOutcome("repeat"); status != 200 || !bytes.Equal(answer, e.answer) {
		w.noteDifference("repeat of "+e.path, status, answer, string(e.answer))
	}
}

// changeLimit changes a card's limits, which apply from the answer on.
func (t *soak) changeLimit(w *worker, a *account, due time.Time) {
	c := a.anyCard(w)
	changed := *c
	changed.month, changed.perTxn = c.spent+1+w.random.Int64N(soakMonthCents), 1+w.random.Int64N(2*soakPerTxnCents)
	w.body = fmt.Appendf(
		w.body[:0],
		`{"monthlyLimitUsdCents":%d,"perTxnLimitUsdCents":%d}`,
		changed.month,
		changed.perTxn,
	)
	t.updateCard(w, a, c, changed, due)
}

// toggleFreeze thaws a frozen card, and freezes some of the active ones.
func (t *soak) toggleFreeze(w *worker, a *account, due time.Time) {
	c := a.anyCard(w)
	if !c.frozen && w.random.IntN(thawsPerFreeze) != 0 {
		return
	}
	changed := *c
	changed.frozen = !c.frozen
	w.body = fmt.Appendf(w.body[:0], `{"state":%q}`, changed.stateName())
	t.updateCard(w, a, c, changed, due)
}

// updateCard sends a change until its outcome is known. The answer shows the changed card. A change
// sets values, so repeats are safe. A wrong answer, or none after soakRetries, is a difference and
// stops the worker.
func (t *soak) updateCard(w *worker, a *account, c *bookedCard, changed bookedCard, due time.Time) {
	w.rest.setBearer(a.tenant.key)
	for range soakRetries {
		status, answer, ok := w.sendMeasured(w.rest, soakUpdate, due, "PATCH", "/api/cards/"+c.id)
		switch {
		case ok && status == 503:
			w.countOutcome("update 503")
			w.markUndecided(soakUpdate, due)
		case ok && status == 200 && termsOf(answer) == changed.comparedTerms():
			w.countOutcome("update")
			*c = changed
			return
		case ok:
			w.noteDifference("PATCH card", status, answer, changed.comparedTerms())
			w.stopped = true
			return
		}
		time.Sleep(soakRetryPause)
	}
	w.noteDifference("PATCH card", 0, nil, "any outcome")
	w.stopped = true
}

// comparedTerms are the values of a card that are compared.
func (c *bookedCard) comparedTerms() string {
	return fmt.Sprintf("%s %s, at most %d a month and %d at once", c.id, c.stateName(), c.month, c.perTxn)
}

// termsOf returns the terms of the card in an answer, in the form of comparedTerms.
func termsOf(answer []byte) string {
	month, _ := centsField(answer, limitField)
	perTxn, _ := centsField(answer, "perTxnLimitUsdCents")
	return fmt.Sprintf(
		"%s %s, at most %d a month and %d at once",
		textField(answer, "id"),
		textField(answer, "state"),
		month,
		perTxn,
	)
}

// compareDollars compares the workspace's balance with the books; it fails like compareBooks.
func (t *soak) compareDollars(w *worker, a *account, due time.Time) {
	t.compareBooks(w, a, due, "/api/treasury", func(answer []byte) (got, want string) {
		usd := dollarsOf(answer)
		available, _ := centsField(usd, "availableCents")
		held, _ := centsField(usd, "heldCents")
		return fmt.Sprintf("%d available, %d held", available, held),
			fmt.Sprintf("%d available, %d held", a.books.available, a.books.held)
	})
}

func (t *soak) compareAny(w *worker, a *account, due time.Time) {
	t.compareCard(w, a, a.anyCard(w), due)
}

// compareCard compares a card's terms and spend with the books; it fails like compareBooks.
func (t *soak) compareCard(w *worker, a *account, c *bookedCard, due time.Time) {
	t.compareBooks(w, a, due, "/api/cards/"+c.id, func(answer []byte) (got, want string) {
		spent, _ := centsField(answer, "monthSpendUsdCents")
		return fmt.Sprintf(
				"%s, %d spent",
				termsOf(answer),
				spent,
			), fmt.Sprintf(
				"%s, %d spent",
				c.comparedTerms(),
				c.spent,
			)
	})
}

func (c *bookedCard) stateName() string {
	if c.frozen {
		return "frozen"
	}
	return "active"
}

// compareBooks reads until the answer equals the books, because balances and a card's spend follow
// the relay of decisions, which is later than their answers. An answer that still differs after
// comparePolls is a difference and stops the worker.
func (t *soak) compareBooks(
	w *worker,
	a *account,
	due time.Time,
	path string,
	of func(answer []byte) (got, want string),
) {
	w.rest.setBearer(a.tenant.key)
	var got, want string
	for range comparePolls {
		status, answer, ok := w.sendMeasured(w.rest, soakRead, due, "GET", path)
		switch {
		case ok && status == 503:
			w.markUndecided(soakRead, due)
		case ok && status != 200:
			w.noteDifference("GET "+path, status, answer, "200")
			w.stopped = true
			return
		case ok:
			if got, want = of(answer); got == want {
				w.countOutcome("compared")
				return
			}
		}
		time.Sleep(comparePause)
		due = time.Now()
	}
	w.noteDifference("GET "+path[:min(len(path), len("/api/treasury"))], 200, []byte(got), want)
	w.stopped = true
}

// compareAll compares every workspace and card after the last message.
func (t *soak) compareAll(s *Stage) {
	var faults differences
	rec := newRecorder(len(t.measures()))
	for i, a := range t.accounts {
		w := newWorker(t.run, i, "end")
		w.faults, w.lane, w.recordFrom = &faults, rec.laneOf(i), time.Now().Add(time.Hour)
		a.avoidMonthEnd()
		t.compareDollars(w, a, time.Now())
		for _, c := range a.books.cards {
			t.compareCard(w, a, c, time.Now())
		}
		s.Compared += 1 + len(a.books.cards)
		s.countWorker(w)
		w.closeWires()
	}
	s.addDifference(&faults)
}
