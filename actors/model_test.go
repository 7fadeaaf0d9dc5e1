package actors_test

import (
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/balance"
	"purser/actors/card"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// modelOps is how many operations the random lives on one journal have together: the short form, or what PURSER_MODEL_OPS says
// (make model: 100,000).
func modelOps(t *testing.T, short int) int {
	text := os.Getenv("PURSER_MODEL_OPS")
	if text == "" {
		return short
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
	answered      hold.Answer
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

// chance draws a number, for a purpose.
type chance func(low, high int64, label string) int64

// happened counts what the lives of a test came upon.
type happened struct {
	mu    sync.Mutex
	times map[string]int
}

func (h *happened) add(times map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for what, n := range times {
		h.times[what] += n
	}
}

// mustHappen are the things that a long test has to come upon, else it shows nothing of them.
var mustHappen = []string{"deposit", "authorization approved", "authorization declined", "reversal", "clearing", "refund",
	"card changed", "card fee", "payout refused for its amount", "payout cancelled", "payout settled late", "time passed", "restart",
	"crash", "crash with an order", "payout held", "payout submitted", "payout outcome_unknown", "payout settled", "payout failed",
	"payout returned", "payout released", "payout kept for the bank"}

// told logs what happened, and how often.
func (h *happened) told(t *testing.T, least int) {
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(h.times)) {
		fmt.Fprintf(&text, "\n%8d %s", h.times[what], what)
	}
	t.Log(text.String())
	require.GreaterOrEqual(t, h.times["operation"], least)
	if least < longModel {
		return
	}
	require.Empty(t, h.missing(), "has not happened")
}

// missing is the first thing that has to happen and has not; "" when there is none.
func (h *happened) missing() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range mustHappen {
		if h.times[what] == 0 {
			return what
		}
	}
	return ""
}

// modelPace and postgresPace: looking at 256 shards more often takes more than the operations do.
const (
	modelPace    = 100 * time.Millisecond
	postgresPace = time.Second
)

// longModel is the number of operations from which everything has to happen.
const longModel = 10_000

// life is one random life of a workspace.
type life struct {
	t    require.TestingT
	draw chance
	w    *world
	bank *heldBank
	l    ledger
	ws   string
	n    int
	us   string // recipients in the US and abroad
	eu   string
	seen map[string]int
}

func TestRandomLivesAddUp(t *testing.T) {
	seen, each := &happened{times: map[string]int{}}, opsOfLife(modelOps(t, longModel))
	least := modelLives * each
	if testing.Short() {
		least = each
	}
	sideBySide(t, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			seen.add(live(t, rt, rapidly(rt), worldOptions{}, each))
		})
	})
	seen.told(t, least)
}

// modelLives is how many random lives there are where rapid would make a hundred checks: to begin and to end one takes more than
// a hundred operations do.
const modelLives = 50

// opsOfLife divides operations among the lives. The short form has one life, of half the length.
func opsOfLife(all int) int {
	if testing.Short() {
		return all / modelLives / 2
	}
	return all / modelLives
}

// sideBySide divides the lives among as many tests as run at the same time, for a life waits more than it works.
func sideBySide(t *testing.T, check func(t *testing.T)) {
	if testing.Short() {
		check(t)
		return
	}
	checks := flag.Lookup("rapid.checks").Value
	all := checks.String()
	n, err := strconv.Atoi(all)
	require.NoError(t, err)
	require.NoError(t, checks.Set(strconv.Itoa((n*modelLives/100+atOnce-1)/atOnce)))
	t.Run("lives", func(t *testing.T) {
		for i := range atOnce {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				check(t)
			})
		}
	})
	require.NoError(t, checks.Set(all))
}

// seeded draws evenly.
func seeded(seed uint64) chance {
	random := rand.New(rand.NewPCG(seed, 0))
	return func(low, high int64, _ string) int64 { return low + random.Int64N(high-low+1) }
}

// rapidly draws small amounts more often than great ones, as rapid does, but makes every choice among a few evenly.
func rapidly(rt *rapid.T) chance {
	const few, spread = 100, 0x9e3779b97f4a7c15 // of Fibonacci hashing
	return func(low, high int64, label string) int64 {
		if high-low >= few {
			return rapid.Int64Range(low, high).Draw(rt, label)
		}
		upper, _ := bits.Mul64(rapid.Uint64().Draw(rt, label)*spread, uint64(high-low+1))
		return low + int64(upper)
	}
}

// live lives so many operations, a restart and a rebuild, and returns how often what happened.
func live(t *testing.T, rt require.TestingT, draw chance, o worldOptions, ops int) map[string]int {
	bank := &heldBank{orders: map[string]int64{}}
	o.bank, o.pace = bank, cmp.Or(o.pace, modelPace)
	o.logLevel = slog.LevelError // what the bank leaves without an answer is warned of
	w := newWorld(t, vfs.NewCrashableMem(), o)
	defer func() { w.stop() }()
	x := &life{t: rt, draw: draw, w: w, bank: bank, ws: w.newWorkspace(5), seen: map[string]int{}}
	x.newRecipients()
	for range 2 {
		x.newCard()
	}
	begin := draw(0, int64(len(seldom)-1), "seldom")
	for i := range ops {
		x.step()
		x.seen["operation"]++
		if i%seldomEvery == seldomEvery/2 {
			seldom[(int(begin)+i/seldomEvery)%len(seldom)](x)
		}
	}
	x.restart()
	x.rebuild()
	if o.database != "" {
		w.requireClean()
	}
	return x.seen
}

// seldom are what comes too seldom by itself to come for certain in a long test. A life does one of them in the midst of every
// seldomEvery operations, in turn, beginning with one that is drawn: that one is left out of fifty lives, of two each, has a
// probability of 4 * (1/2)^50.
var seldom = [...]func(*life){(*life).crashWithOrder, (*life).lateSettlement, (*life).wires, (*life).refusals}

const seldomEvery = 100

// paid draws an amount of which the bank makes a fate.
func (x *life) paid(fate int64) int64 { return x.draw(1, mostPaid/fates-1, "cents")*fates + fate }

// crashWithOrder takes the power away at once, or when the bank has the order and has not answered.
func (x *life) crashWithOrder() {
	x.affords(mostPaid)
	hangs := x.draw(0, 1, "hangs") == 0
	x.bank.hang(hangs)
	p := x.order(x.paid(x.draw(0, fates-1, "fate")), false)
	if hangs {
		require.Eventually(x.t, func() bool { return x.bank.has(p.id) }, comesWithin, lookEvery)
	}
	x.crash(p)
	x.funded()
}

// lateSettlement is of a payout of which the bank says nothing for a day, then that it was paid, then that it came back.
func (x *life) lateSettlement() {
	x.affords(mostPaid)
	p := x.order(x.paid(fateMute), false)
	x.sent(p)
	x.pass(balance.LapseAfter)
	x.reports(p, balance.PayoutSettled)
	x.reports(p, balance.PayoutReturned)
	x.funded()
}

// wires are one that is cancelled and one that is sent.
func (x *life) wires() {
	x.affords(2 * mostPaid)
	for _, release := range []bool{false, true} {
		p := x.order(x.paid(x.draw(0, fateRefused-1, "fate")), true)
		x.direct(p, release)
		if release {
			x.reports(p, balance.PayoutSettled)
		}
	}
	x.funded()
}

// refusals are of a payout that the bank refuses, and of one that the balance does not cover, after the fee of a card.
func (x *life) refusals() {
	x.affords(mostPaid + cardFee)
	x.sent(x.order(x.paid(fateRefused), false))
	x.orderCard(balance.UnlockPremium99)
	require.Nil(x.t, x.order(max(0, x.l.available())+1, false))
	x.funded()
}

func (x *life) id() string { x.n++; return fmt.Sprintf("n%d", x.n) }

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
		x.orderCard([]string{balance.UnlockPremium99, balance.UnlockBalanceCommit5000}[x.draw(0, 1, "unlock")])
	case n < 99 || x.draw(0, 2, "stop") > 0:
		x.pass(time.Duration(x.draw(1, 24*20, "hours")) * time.Hour)
	case x.draw(0, 2, "crash") > 0:
		var p *modelPayout
		if x.draw(0, 1, "ordered") == 0 {
			p = x.order(x.draw(1, mostPaid, "cents"), x.draw(0, 2, "abroad") == 0)
		}
		x.crash(p)
	default:
		x.restart()
	}
	x.funded()
}

func (x *life) funded() {
	require.Equal(x.t, x.l.available(), x.w.available(x.ws), "the authorizer's funds")
}

func (x *life) newCard() {
	monthly, perTxn := x.draw(1_000, 1_000_000, "monthly"), x.draw(500, 50_000, "perTxn")
	x.l.cards = append(x.l.cards, &modelCard{plastic: x.w.mint(x.ws, monthly, perTxn), monthly: monthly, perTxn: perTxn,
		state: "active", month: monthOf(x.w.clock.now())})
}

// card is one of the cards, seldom one that is terminated.
func (x *life) card() *modelCard {
	c := x.l.cards[x.draw(0, int64(len(x.l.cards)-1), "card")]
	if c.state != "terminated" || x.draw(0, 9, "terminated") == 0 {
		return c
	}
	return x.l.cards[len(x.l.cards)-1-int(x.draw(0, 1, "other"))]
}

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
	x.seen["authorization "+a.Decision.String()]++
	if a.Decision != hold.Approved {
		return
	}
	c.spent += a.Approved
	x.l.holds = append(x.l.holds, &modelHold{network: m.ID, auth: a.Authorization, card: c, held: a.Approved, counted: a.Approved,
		at: x.w.clock.now(), expires: x.w.clock.now().Add(hold.DefaultHoldLife), month: c.month,
		answered: a, message: m})
}

// allowed checks a decision against what the answers so far permit.
func (x *life) allowed(c *modelCard, m hold.Message, a hold.Answer, before int64) {
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
	require.Equal(x.t, hold.StatusOK, a.Status)
	x.seen["reversal"]++
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
	x.seen["clearing"]++
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
	x.seen["refund"]++
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
	x.seen["card changed"]++
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
		limit := x.draw(1, 1_000_000, "limit")
		x.w.must("card", c.id, c.ws, card.Update{MonthlyLimitUsdCents: &limit})
		c.monthly = limit
	}
}

func (x *life) deposit() {
	most := int64(140_000) // about what is spent meanwhile
	if x.l.available() > 500_000 {
		most = 5_000
	}
	id := x.fund(x.draw(1, most, "cents"))
	if x.draw(0, 2, "twice") == 0 { // the bank reports again, under another event
		x.w.must("balance", x.ws, x.ws, balance.SettleDeposit{EventID: "again-" + id, DepositID: id})
	}
}

func (x *life) fund(cents int64) string {
	x.l.deposits += cents
	x.seen["deposit"]++
	return x.w.deposit(x.ws, cents)
}

// affords makes sure that so much is available.
func (x *life) affords(cents int64) {
	if short := cents - x.l.available(); short > 0 {
		x.fund(short)
	}
}

// pass lets hours, days or weeks go by.
func (x *life) pass(by time.Duration) {
	x.seen["time passed"]++
	x.turn(by)
	x.lapse()
}

func (x *life) turn(by time.Duration) {
	x.w.clock.turn(by)
	for {
		n, err := x.w.engine.Expire(x.w.clock.now())
		require.NoError(x.t, err)
		if n == 0 {
			break
		}
	}
	x.l.turn(x.w.clock.now())
}

// restart stops and starts the product; both stores and the model must agree to the cent.
func (x *life) restart() {
	x.seen["restart"]++
	x.agree()
	x.w.restart()
	x.agree()
}

// crash takes the power away with work in hand, perhaps with an order on its way to the bank.
func (x *life) crash(p *modelPayout) {
	x.seen["crash"]++
	x.w.powerFails()
	x.bank.hang(false)
	if p == nil || p.held {
		x.w.start()
	} else {
		x.seen["crash with an order"]++
		status := left[balance.Payout](x.w, balance.RecordPayout, p.id).Status
		x.w.start()
		x.recovered(p, status)
	}
	x.agree()
}

func (x *life) agree() {
	view := x.w.balance(x.ws).Balances[0]
	require.Equal(x.t, x.l.available(), view.AvailableCents, "the book's available")
	require.Equal(x.t, x.l.held()+x.l.reserved, view.HeldCents, "the book's held")
	x.funded()
	require.Empty(x.t, x.bank.twice, "orders that reached the bank again")
	if x.w.options.database == "" {
		x.w.requireClean() // on Postgres, where it takes ten thousand reads, at the end of a life
	}
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
