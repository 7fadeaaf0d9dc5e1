package actors_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/ident"
	"purser/authorizer"
	"purser/authorizer/hold"
)

// modelOps is the number of operations of one random life. rapid lives a hundred of them: 10,000 operations, or what PURSER_MODEL_OPS
// multiplies (make model: 100,000).
func modelOps(t *testing.T) int {
	text := os.Getenv("PURSER_MODEL_OPS")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "PURSER_MODEL_OPS")
	return n
}

// ledger is an independent account of what the answers add up to. It knows nothing of how a decision is made: it checks that
// each is allowed by what was answered before.
type ledger struct {
	deposits, cleared, refunded int64
	fees, reserved, paid        int64
	cards                       []*modelCard
	holds                       []*modelHold
	payouts                     []*modelPayout // that the bank may say something of
}

type modelCard struct {
	plastic
	monthly, perTxn, spent int64
	month                  string
	state                  string
}

type modelHold struct {
	network       string
	auth          ident.UUID
	card          *modelCard
	held, counted int64
	cleared       int64
	expires       time.Time
	month         string
	at            time.Time
	answered      authorizer.Answer
	message       hold.Message
}

func (l *ledger) held() (sum int64) {
	for _, h := range l.holds {
		sum += h.held
	}
	return sum
}

func (l *ledger) available() int64 {
	return l.deposits - l.cleared + l.refunded - l.held() - l.fees - l.reserved - l.paid
}

func monthOf(t time.Time) string { return t.Format("2006-01") }

// turn lets time pass: months end, holds run out.
func (l *ledger) turn(now time.Time) {
	for _, c := range l.cards {
		if m := monthOf(now); m > c.month {
			c.month, c.spent = m, 0
		}
	}
	for _, h := range l.holds {
		if h.month != h.card.month {
			h.month, h.counted = h.card.month, 0
		}
		if h.held > 0 && !h.expires.After(now) {
			h.release(h.held)
		}
	}
}

func (h *modelHold) release(r int64) {
	h.held -= r
	back := min(r, h.counted)
	h.counted -= back
	h.card.spent -= min(back, h.card.spent)
}

// life is one random life of a workspace.
type life struct {
	t  *rapid.T
	w  *world
	l  ledger
	ws string
	n  int
	us string // recipients in the US and abroad
	eu string
}

func TestRandomLivesAddUp(t *testing.T) {
	ops, each := 0, modelOps(t)
	rapid.Check(t, func(rt *rapid.T) {
		live(t, rt, worldOptions{}, each)
		ops += each
	})
	t.Logf("%d operations", ops)
}

// live lives so many operations, a restart and a rebuild.
func live(t *testing.T, rt *rapid.T, o worldOptions, ops int) {
	o.bank = &heldBank{}
	w := newWorld(t, vfs.NewMem(), o)
	defer func() { w.stop() }()
	x := &life{t: rt, w: w, ws: w.newWorkspace(5)}
	x.newRecipients()
	for range 2 {
		x.newCard()
	}
	for range ops {
		x.step()
	}
	x.restart()
	x.rebuild()
}

func (x *life) id() string { x.n++; return fmt.Sprintf("n%d", x.n) }

func (x *life) draw(low, high int64, label string) int64 {
	return rapid.Int64Range(low, high).Draw(x.t, label)
}

func (x *life) step() {
	switch n := x.draw(0, 99, "op"); {
	case n < 35:
		x.authorize()
	case n < 42:
		x.increment()
	case n < 52:
		x.reverse()
	case n < 67:
		x.clear()
	case n < 72:
		x.refund()
	case n < 76:
		x.repeat()
	case n < 81:
		x.changeCard()
	case n < 87:
		x.deposit()
	case n < 91:
		x.pay()
	case n < 95:
		x.bankSays()
	case n < 96:
		x.orderCard()
	case n < 99 || x.draw(0, 3, "restart") > 0:
		x.pass()
	default:
		x.restart()
	}
	require.Equal(x.t, x.l.available(), x.w.available(x.ws), "the authorizer's funds")
}

func (x *life) newCard() {
	monthly, perTxn := x.draw(1_000, 200_000, "monthly"), x.draw(500, 50_000, "perTxn")
	x.l.cards = append(x.l.cards, &modelCard{plastic: x.w.mint(x.ws, monthly, perTxn), monthly: monthly, perTxn: perTxn,
		state: "active", month: monthOf(x.w.clock.now())})
}

func (x *life) card() *modelCard { return x.l.cards[x.draw(0, int64(len(x.l.cards)-1), "card")] }

func (x *life) hold() *modelHold {
	if len(x.l.holds) == 0 {
		return nil
	}
	back := min(len(x.l.holds), 20)
	return x.l.holds[len(x.l.holds)-1-int(x.draw(0, int64(back-1), "hold"))]
}

func (x *life) authorize() {
	c := x.card()
	m := message(hold.Authorization, x.id(), c.plastic, x.draw(1, 40_000, "cents"))
	m.PartialApproval = x.draw(0, 3, "partial") == 0
	a := x.w.submit(m)
	x.allowed(c, m, a, 0)
	if a.Decision != hold.Approved {
		return
	}
	c.spent += a.Approved
	x.l.holds = append(x.l.holds, &modelHold{network: m.ID, auth: a.Authorization, card: c, held: a.Approved, counted: a.Approved,
		at: x.w.clock.now(), expires: x.w.clock.now().Add(hold.DefaultHoldLife), month: c.month,
		answered: a, message: m})
}

// allowed checks a decision against what the answers so far permit.
func (x *life) allowed(c *modelCard, m hold.Message, a authorizer.Answer, before int64) {
	room := map[hold.Reason]bool{
		hold.ReasonCardTerminated:              c.state == "terminated",
		hold.ReasonCardFrozen:                  c.state == "frozen",
		hold.ReasonPerTransactionLimitExceeded: m.Amount+before > c.perTxn,
		hold.ReasonMonthlyLimitExceeded:        m.Amount > c.monthly-c.spent,
		hold.ReasonInsufficientFunds:           m.Amount > x.l.available(),
	}
	if a.Decision == hold.Declined {
		require.True(x.t, room[a.Reason], "declined %s without cause", a.Reason)
		return
	}
	require.Equal(x.t, "active", c.state)
	require.LessOrEqual(x.t, m.Amount+before, c.perTxn)
	require.LessOrEqual(x.t, a.Approved, c.monthly-c.spent)
	require.LessOrEqual(x.t, a.Approved, x.l.available())
	if !m.PartialApproval || m.Kind == hold.Incremental {
		require.Equal(x.t, m.Amount, a.Approved)
	}
}

func (x *life) increment() {
	h := x.hold()
	if h == nil {
		return
	}
	m := message(hold.Incremental, x.id(), h.card.plastic, x.draw(1, 5_000, "cents"))
	m.AuthorizationID = h.auth
	m = sealed(m)
	a := x.w.submit(m)
	if h.held == 0 && h.card.state == "active" {
		require.Equal(x.t, hold.ReasonAuthorizationNotFound, a.Reason)
		return
	}
	x.allowed(h.card, m, a, h.held+h.cleared)
	if a.Decision == hold.Approved {
		h.held, h.counted, h.card.spent = h.held+a.Approved, h.counted+a.Approved, h.card.spent+a.Approved
	}
}

func (x *life) reverse() {
	h := x.hold()
	if h == nil {
		return
	}
	m := message(hold.Reversal, x.id(), h.card.plastic, x.draw(1, 40_000, "cents"))
	m.OriginalID = h.network
	m.WholeHold = x.draw(0, 1, "whole") == 0
	a := x.w.submit(sealed(m))
	require.Equal(x.t, authorizer.StatusOK, a.Status)
	r := min(m.Amount, h.held)
	if m.WholeHold {
		r = h.held
	}
	h.release(r)
	require.Equal(x.t, h.held, a.Held)
}

func (x *life) clear() {
	h := x.hold()
	if h == nil {
		return
	}
	c := x.draw(1, 40_000, "cents")
	m := message(hold.Clearing, x.id(), h.card.plastic, c)
	m.OriginalID, m.Final = h.network, x.draw(0, 3, "final") == 0
	a := x.w.submit(sealed(m))
	require.Equal(x.t, hold.Posted, a.Decision)
	u := min(c, h.held)
	h.held -= u
	h.counted = min(h.counted, h.held)
	h.card.spent += c - u
	h.cleared += c
	x.l.cleared += c
	if m.Final {
		h.release(h.held)
	}
}

func (x *life) refund() {
	f := x.draw(1, 10_000, "cents")
	a := x.w.submit(message(hold.Refund, x.id(), x.card().plastic, f))
	require.Equal(x.t, hold.Posted, a.Decision)
	x.l.refunded += f
}

// repeat sends a message again: the first answer comes back and nothing moves.
func (x *life) repeat() {
	if h := x.hold(); h != nil && x.remembered(h) {
		require.Equal(x.t, h.answered, x.w.submit(h.message))
		other := h.message
		other.Amount++
		require.Equal(x.t, hold.ReasonDuplicateMismatch, x.w.submit(sealed(other)).Reason)
	}
}

// remembered tells whether the network id of an authorization is still known: it is for 30 days.
func (x *life) remembered(h *modelHold) bool { return x.w.clock.now().Sub(h.at) < 29*24*time.Hour }

func (x *life) changeCard() {
	c := x.card()
	switch n := x.draw(0, 9, "change"); {
	case n < 3 && c.state == "active":
		require.NoError(x.t, x.w.setState(c.plastic, "frozen"))
		c.state = "frozen"
	case n < 8 && c.state == "frozen":
		require.NoError(x.t, x.w.setState(c.plastic, "active"))
		c.state = "active"
	case n == 8 && len(x.l.cards) < 6:
		if c.state != "terminated" {
			require.NoError(x.t, x.w.setState(c.plastic, "terminated"))
			c.state = "terminated"
		}
		x.newCard()
	case c.state != "terminated":
		limit := x.draw(1, 200_000, "limit")
		x.w.must("card", c.id, c.ws, card.Update{MonthlyLimitUsdCents: &limit})
		c.monthly = limit
	}
}

func (x *life) deposit() {
	cents := x.draw(1, 60_000, "cents")
	id := x.w.deposit(x.ws, cents)
	x.l.deposits += cents
	if x.draw(0, 2, "twice") == 0 { // the bank reports again, under another event
		x.w.must("balance", x.ws, x.ws, balance.SettleDeposit{EventID: "again-" + id, DepositID: id})
	}
}

// pass lets hours, days or weeks go by.
func (x *life) pass() {
	x.w.clock.turn(time.Duration(x.draw(1, 24*20, "hours")) * time.Hour)
	for {
		n, err := x.w.engine.Expire(x.w.clock.now())
		require.NoError(x.t, err)
		if n == 0 {
			break
		}
	}
	x.l.turn(x.w.clock.now())
	x.lapse()
}

// restart stops and starts the product; both stores and the model must agree to the cent.
func (x *life) restart() {
	x.agree()
	x.w.restart()
	x.agree()
}

func (x *life) agree() {
	view := x.w.balance(x.ws).Balances[0]
	require.Equal(x.t, x.l.available(), view.AvailableCents, "the book's available")
	require.Equal(x.t, x.l.held()+x.l.reserved, view.HeldCents, "the book's held")
	require.Equal(x.t, x.l.available(), x.w.available(x.ws), "the authorizer's funds")
	require.Empty(x.t, x.w.audit().Findings)
}

// rebuild deletes the authorizer's directory and makes it anew from the journal: the same funds, and the same answers.
func (x *life) rebuild() {
	x.w.stop()
	require.NoError(x.t, x.w.fs.RemoveAll("authorizer"))
	require.NoError(x.t, x.w.rebuildAuthorizer())
	x.w.start()
	x.agree()
	for _, h := range x.l.holds {
		if x.remembered(h) {
			require.Equal(x.t, h.answered, x.w.submit(h.message))
		}
	}
	x.agree()
}
