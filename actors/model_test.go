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
	"purser/persistence/money"
)

// modelOps returns the number of operations of all runs on one journal: short, or the value of
// PURSER_MODEL_OPS (make model: 100,000).
func modelOps(t *testing.T, short int) int {
	text := os.Getenv("PURSER_MODEL_OPS")
	if text == "" {
		return short
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "PURSER_MODEL_OPS")
	return n
}

// modelLedger adds up the answers. It does not decide: it checks that the answers before permit
// each decision.
type modelLedger struct {
	deposits, cleared, refunded money.Cents
	fees, reserved, paid        money.Cents
	cards                       []*modelCard
	holds                       []*modelHold
	payouts                     []*modelPayout // the bank may report about these
}

type modelCard struct {
	testCard
	monthly, perTxn, spent money.Cents
	month                  string
	state                  string
}

type modelHold struct {
	network       string
	auth          ident.UUID
	card          *modelCard
	held, counted money.Cents
	cleared       money.Cents
	expires       time.Time
	month         string
	at            time.Time
	answered      hold.Answer
	message       hold.Message
}

func (l *modelLedger) heldCents() (sum money.Cents) {
	for _, h := range l.holds {
		sum += h.held
	}
	return sum
}

func (l *modelLedger) availableCents() money.Cents {
	return l.deposits - l.cleared + l.refunded - l.heldCents() - l.fees - l.reserved - l.paid
}

func monthOf(t time.Time) string { return t.Format("2006-01") }

// passTime ends months and expires holds.
func (l *modelLedger) passTime(now time.Time) {
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

func (h *modelHold) release(r money.Cents) {
	h.held -= r
	back := min(r, h.counted)
	h.counted -= back
	h.card.spent -= min(back, h.card.spent)
}

// drawFunc draws a number between low and high, inclusive.
type drawFunc func(low, high int64, label string) int64

// stepCounts counts the steps of a test's runs, by kind.
type stepCounts struct {
	mu    sync.Mutex
	times map[string]int
}

func (h *stepCounts) add(times map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for what, n := range times {
		h.times[what] += n
	}
}

// requiredSteps are the kinds of step that a long test must contain to be evidence about them.
var requiredSteps = []string{"deposit", "authorization approved", "authorization declined", "reversal",
	"clearing", "refund",
	"card changed", "card fee", "payout refused for its amount", "payout cancelled", "payout settled late",
	"time passed", "restart",
	"crash", "crash with an order", "payout held", "payout submitted", "payout outcome_unknown",
	"payout settled", "payout failed",
	"payout returned", "payout released", "payout kept for the bank"}

// logAndCheck logs the counts and requires at least least operations. From longModelOps on every
// required step must occur.
func (h *stepCounts) logAndCheck(t *testing.T, least int) {
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(h.times)) {
		fmt.Fprintf(&text, "\n%8d %s", h.times[what], what)
	}
	t.Log(text.String())
	require.GreaterOrEqual(t, h.times["operation"], least)
	if least < longModelOps {
		return
	}
	require.Empty(t, h.firstMissing(), "a required step did not occur")
}

// firstMissing returns a required step that did not occur, or "".
func (h *stepCounts) firstMissing() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, what := range requiredSteps {
		if h.times[what] == 0 {
			return what
		}
	}
	return ""
}

// modelLoopInterval and postgresLoopInterval are long because the loops visit 256 shards, which
// costs more than the operations.
const (
	modelLoopInterval    = 100 * time.Millisecond
	postgresLoopInterval = time.Second
)

// longModelOps is the number of operations from which every required step must occur.
const longModelOps = 2_000

// workspaceModel is one random run of a workspace, with the expected sums.
type workspaceModel struct {
	t           require.TestingT
	draw        drawFunc
	stack       *testStack
	bank        *scriptedBank
	ledger      modelLedger
	ws          string
	n           int
	usRecipient string // recipients in the US and abroad
	euRecipient string
	counts      map[string]int
}

func TestRandomLivesAddUp(t *testing.T) {
	seen, each := &stepCounts{times: map[string]int{}}, opsPerRun(modelOps(t, longModelOps))
	runInParallel(t, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			seen.add(runWorkspaceModel(t, rt, drawWithRapid(rt), stackOptions{}, each))
		})
	})
	seen.logAndCheck(t, modelRuns()*each)
}

// modelRuns returns the number of runs, which replaces rapid's default of 100 checks: the start and
// the end of a run cost more than a hundred operations. It is 8, and 50 with PURSER_MODEL_OPS.
func modelRuns() int {
	if os.Getenv("PURSER_MODEL_OPS") == "" {
		return 8
	}
	return 50
}

// opsPerRun divides the operations among the runs.
func opsPerRun(all int) int { return all / modelRuns() }

// runInParallel divides the runs among parallelRuns tests: a run mostly waits.
func runInParallel(t *testing.T, check func(t *testing.T)) {
	checks := flag.Lookup("rapid.checks").Value
	all := checks.String()
	n, err := strconv.Atoi(all)
	require.NoError(t, err)
	require.NoError(t, checks.Set(strconv.Itoa((n*modelRuns()/100+parallelRuns-1)/parallelRuns)))
	t.Run("lives", func(t *testing.T) {
		for i := range parallelRuns {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				check(t)
			})
		}
	})
	require.NoError(t, checks.Set(all))
}

// drawSeeded draws uniformly.
func drawSeeded(seed uint64) drawFunc {
	random := rand.New(rand.NewPCG(seed, 0))
	return func(low, high int64, _ string) int64 { return low + random.Int64N(high-low+1) }
}

// drawWithRapid prefers small numbers, as rapid does, but draws uniformly from fewer than 100.
func drawWithRapid(rt *rapid.T) drawFunc {
	const few, spread = 100, 0x9e3779b97f4a7c15 // multiplier of Fibonacci hashing
	return func(low, high int64, label string) int64 {
		if high-low >= few {
			return rapid.Int64Range(low, high).Draw(rt, label)
		}
		upper, _ := bits.Mul64(rapid.Uint64().Draw(rt, label)*spread, uint64(high-low+1))
		return low + int64(upper)
	}
}

// runWorkspaceModel runs so many operations, a restart and a rebuild, and returns the step counts.
func runWorkspaceModel(t *testing.T, rt require.TestingT, draw drawFunc, o stackOptions, ops int) map[string]int {
	bank := &scriptedBank{orders: map[string]money.Minor{}}
	o.bank, o.loopInterval = bank, cmp.Or(o.loopInterval, modelLoopInterval)
	o.logLevel = slog.LevelError // unanswered bank calls log warnings
	w := newTestStack(t, vfs.NewCrashableMem(), o)
	defer func() { w.stop() }()
	x := &workspaceModel{t: rt, draw: draw, stack: w, bank: bank, ws: w.newWorkspace(5), counts: map[string]int{}}
	x.newRecipients()
	for range 2 {
		x.newCard()
	}
	begin := draw(0, int64(len(rareSteps)-1), "seldom")
	for i := range ops {
		x.step()
		x.counts["operation"]++
		if i%rareStepEvery == rareStepEvery/2 {
			rareSteps[(int(begin)+i/rareStepEvery)%len(rareSteps)](x)
		}
	}
	x.restartAndCheck()
	x.rebuildAuthorizer()
	if o.database != "" {
		w.requireCleanAudit()
	}
	return x.counts
}

// rareSteps occur too rarely at random. Every run takes one of them, in turn from a random first,
// in each rareStepEvery operations. The default form has 250 operations in a run, so each run takes
// all.
var rareSteps = [...]func(*workspaceModel){(*workspaceModel).crashWithOrder, (*workspaceModel).settleAfterLapse,
	(*workspaceModel).directWires, (*workspaceModel).refusePayouts}

const rareStepEvery = 60

// drawCentsWithFate draws an amount for which the bank has a fate.
func (x *workspaceModel) drawCentsWithFate(fate money.Cents) money.Cents {
	return money.Cents(x.draw(1, maxPayoutCents/fateCount-1, "cents"))*fateCount + fate
}

// crashWithOrder crashes after a payout is ordered: at once, or once the bank has the order and has
// not answered.
func (x *workspaceModel) crashWithOrder() {
	x.ensureFunds(maxPayoutCents)
	hangs := x.draw(0, 1, "hangs") == 0
	x.bank.setHanging(hangs)
	p := x.orderPayout(x.drawCentsWithFate(money.Cents(x.draw(0, fateCount-1, "fate"))), false)
	if hangs {
		require.Eventually(x.t, func() bool { return x.bank.hasOrder(p.id) }, eventuallyWithin, pollEvery)
	}
	x.crashAndRecover(p)
	x.checkFunds()
}

// settleAfterLapse orders a payout about which the bank is silent for LapseAfter; then it is
// reported as settled and as returned.
func (x *workspaceModel) settleAfterLapse() {
	x.ensureFunds(maxPayoutCents)
	p := x.orderPayout(x.drawCentsWithFate(fateUnknown), false)
	x.awaitBankAnswer(p)
	x.passTime(balance.LapseAfter)
	x.reportPayout(p, balance.PayoutSettled)
	x.reportPayout(p, balance.PayoutReturned)
	x.checkFunds()
}

// directWires cancels one held wire and releases another.
func (x *workspaceModel) directWires() {
	x.ensureFunds(2 * maxPayoutCents)
	for _, release := range []bool{false, true} {
		p := x.orderPayout(x.drawCentsWithFate(money.Cents(x.draw(0, fateRefused-1, "fate"))), true)
		x.directWire(p, release)
		if release {
			x.reportPayout(p, balance.PayoutSettled)
		}
	}
	x.checkFunds()
}

// refusePayouts orders a payout that the bank refuses, a card for a fee, and a payout that the
// balance does not cover.
func (x *workspaceModel) refusePayouts() {
	x.ensureFunds(maxPayoutCents + cardFee)
	x.awaitBankAnswer(x.orderPayout(x.drawCentsWithFate(fateRefused), false))
	x.orderCard(balance.UnlockPremium99)
	require.Nil(x.t, x.orderPayout(max(0, x.ledger.availableCents())+1, false))
	x.checkFunds()
}

func (x *workspaceModel) nextID() string { x.n++; return fmt.Sprintf("n%d", x.n) }

func (x *workspaceModel) step() {
	switch n := x.draw(0, 99, "op"); {
	case n < 35:
		x.authorize()
	case n < 42:
		x.incrementHold()
	case n < 52:
		x.reverseHold()
	case n < 67:
		x.postClearing()
	case n < 72:
		x.refund()
	case n < 76:
		x.repeatAuthorization()
	case n < 81:
		x.changeCard()
	case n < 87:
		x.deposit()
	case n < 91:
		x.payOut()
	case n < 95:
		x.reportRandomPayout()
	case n < 96:
		x.orderCard([]string{balance.UnlockPremium99, balance.UnlockBalanceCommit5000}[x.draw(0, 1, "unlock")])
	case n < 99 || x.draw(0, 2, "stop") > 0:
		x.passTime(time.Duration(x.draw(1, 24*20, "hours")) * time.Hour)
	case x.draw(0, 2, "crash") > 0:
		var p *modelPayout
		if x.draw(0, 1, "ordered") == 0 {
			p = x.orderPayout(money.Cents(x.draw(1, maxPayoutCents, "cents")), x.draw(0, 2, "abroad") == 0)
		}
		x.crashAndRecover(p)
	default:
		x.restartAndCheck()
	}
	x.checkFunds()
}

func (x *workspaceModel) checkFunds() {
	require.Equal(x.t, x.ledger.availableCents(), x.stack.availableCents(x.ws), "the authorizer's funds")
}

func (x *workspaceModel) newCard() {
	monthly, perTxn := money.Cents(x.draw(1_000, 1_000_000, "monthly")), money.Cents(x.draw(500, 50_000, "perTxn"))
	x.ledger.cards = append(x.ledger.cards, &modelCard{testCard: x.stack.mintCard(x.ws, monthly, perTxn),
		monthly: monthly, perTxn: perTxn,
		state: "active", month: monthOf(x.stack.clock.now())})
}

// randomCard returns a card, rarely one that is terminated.
func (x *workspaceModel) randomCard() *modelCard {
	c := x.ledger.cards[x.draw(0, int64(len(x.ledger.cards)-1), "card")]
	if c.state != "terminated" || x.draw(0, 9, "terminated") == 0 {
		return c
	}
	return x.ledger.cards[len(x.ledger.cards)-1-int(x.draw(0, 1, "other"))]
}

func (x *workspaceModel) randomHold() *modelHold {
	if len(x.ledger.holds) == 0 {
		return nil
	}
	back := min(len(x.ledger.holds), 20)
	return x.ledger.holds[len(x.ledger.holds)-1-int(x.draw(0, int64(back-1), "hold"))]
}

func (x *workspaceModel) authorize() {
	c := x.randomCard()
	m := networkMessage(hold.Authorization, x.nextID(), c.testCard, money.Cents(x.draw(1, 40_000, "cents")))
	m.PartialApproval = x.draw(0, 3, "partial") == 0
	a := x.stack.submit(m)
	x.checkDecision(c, m, a, 0)
	x.counts["authorization "+a.Decision.String()]++
	if a.Decision != hold.Approved {
		return
	}
	c.spent += a.Approved
	x.ledger.holds = append(x.ledger.holds, &modelHold{network: m.ID, auth: a.Authorization, card: c,
		held: a.Approved, counted: a.Approved,
		at: x.stack.clock.now(), expires: x.stack.clock.now().Add(hold.DefaultHoldLife), month: c.month,
		answered: a, message: m})
}

// checkDecision checks a decision against the answers so far.
func (x *workspaceModel) checkDecision(c *modelCard, m hold.Message, a hold.Answer, before money.Cents) {
	room := map[hold.Reason]bool{
		hold.ReasonCardTerminated:              c.state == "terminated",
		hold.ReasonCardFrozen:                  c.state == "frozen",
		hold.ReasonPerTransactionLimitExceeded: m.Amount+before > c.perTxn,
		hold.ReasonMonthlyLimitExceeded:        m.Amount > c.monthly-c.spent,
		hold.ReasonInsufficientFunds:           m.Amount > x.ledger.availableCents(),
	}
	if a.Decision == hold.Declined {
		require.True(x.t, room[a.Reason], "declined %s without cause", a.Reason)
		return
	}
	require.Equal(x.t, "active", c.state)
	require.LessOrEqual(x.t, m.Amount+before, c.perTxn)
	require.LessOrEqual(x.t, a.Approved, c.monthly-c.spent)
	require.LessOrEqual(x.t, a.Approved, x.ledger.availableCents())
	if !m.PartialApproval || m.Kind == hold.Incremental {
		require.Equal(x.t, m.Amount, a.Approved)
	}
}

func (x *workspaceModel) incrementHold() {
	h := x.randomHold()
	if h == nil {
		return
	}
	m := networkMessage(hold.Incremental, x.nextID(), h.card.testCard, money.Cents(x.draw(1, 5_000, "cents")))
	m.AuthorizationID = h.auth
	m = withFingerprint(m)
	a := x.stack.submit(m)
	if h.held == 0 && h.card.state == "active" {
		require.Equal(x.t, hold.ReasonAuthorizationNotFound, a.Reason)
		return
	}
	x.checkDecision(h.card, m, a, h.held+h.cleared)
	if a.Decision == hold.Approved {
		h.held, h.counted, h.card.spent = h.held+a.Approved, h.counted+a.Approved, h.card.spent+a.Approved
	}
}

func (x *workspaceModel) reverseHold() {
	h := x.randomHold()
	if h == nil {
		return
	}
	m := networkMessage(hold.Reversal, x.nextID(), h.card.testCard, money.Cents(x.draw(1, 40_000, "cents")))
	m.OriginalID = h.network
	m.WholeHold = x.draw(0, 1, "whole") == 0
	a := x.stack.submit(withFingerprint(m))
	require.Equal(x.t, hold.StatusOK, a.Status)
	x.counts["reversal"]++
	r := min(m.Amount, h.held)
	if m.WholeHold {
		r = h.held
	}
	h.release(r)
	require.Equal(x.t, h.held, a.Held)
}

func (x *workspaceModel) postClearing() {
	h := x.randomHold()
	if h == nil {
		return
	}
	c := money.Cents(x.draw(1, 40_000, "cents"))
	m := networkMessage(hold.Clearing, x.nextID(), h.card.testCard, c)
	m.OriginalID, m.Final = h.network, x.draw(0, 3, "final") == 0
	a := x.stack.submit(withFingerprint(m))
	require.Equal(x.t, hold.Posted, a.Decision)
	u := min(c, h.held)
	x.counts["clearing"]++
	h.held -= u
	h.counted = min(h.counted, h.held)
	h.card.spent += c - u
	h.cleared += c
	x.ledger.cleared += c
	if m.Final {
		h.release(h.held)
	}
}

func (x *workspaceModel) refund() {
	f := money.Cents(x.draw(1, 10_000, "cents"))
	a := x.stack.submit(networkMessage(hold.Refund, x.nextID(), x.randomCard().testCard, f))
	require.Equal(x.t, hold.Posted, a.Decision)
	x.ledger.refunded += f
	x.counts["refund"]++
}

// repeatAuthorization sends a message again: its first answer comes back and no money moves.
func (x *workspaceModel) repeatAuthorization() {
	if h := x.randomHold(); h != nil && x.withinRetention(h) {
		require.Equal(x.t, h.answered, x.stack.submit(h.message))
		other := h.message
		other.Amount++
		require.Equal(x.t, hold.ReasonDuplicateMismatch, x.stack.submit(withFingerprint(other)).Reason)
	}
}

// withinRetention reports whether the authorizer still knows the network id of an authorization,
// with a day to spare: ids are kept for 30 days.
func (x *workspaceModel) withinRetention(h *modelHold) bool {
	return x.stack.clock.now().Sub(h.at) < 29*24*time.Hour
}

func (x *workspaceModel) changeCard() {
	x.counts["card changed"]++
	c := x.randomCard()
	switch n := x.draw(0, 9, "change"); {
	case n < 3 && c.state == "active":
		require.NoError(x.t, x.stack.setCardState(c.testCard, "frozen"))
		c.state = "frozen"
	case n < 8 && c.state == "frozen":
		require.NoError(x.t, x.stack.setCardState(c.testCard, "active"))
		c.state = "active"
	case n == 8 && len(x.ledger.cards) < 6:
		if c.state != "terminated" {
			require.NoError(x.t, x.stack.setCardState(c.testCard, "terminated"))
			c.state = "terminated"
		}
		x.newCard()
	case c.state != "terminated":
		limit := money.Cents(x.draw(1, 1_000_000, "limit"))
		x.stack.mustAsk("card", c.id, c.ws, card.Update{MonthlyLimitUsdCents: &limit})
		c.monthly = limit
	}
}

func (x *workspaceModel) deposit() {
	most := int64(140_000) // about the spending of the same steps
	if x.ledger.availableCents() > 500_000 {
		most = 5_000
	}
	id := x.fund(money.Cents(x.draw(1, most, "cents")))
	if x.draw(0, 2, "twice") == 0 { // the bank reports again, under another event
		x.stack.mustAsk("balance", x.ws, x.ws, balance.SettleDeposit{EventID: "again-" + id, DepositID: id})
	}
}

func (x *workspaceModel) fund(cents money.Cents) string {
	x.ledger.deposits += cents
	x.counts["deposit"]++
	return x.stack.deposit(x.ws, cents)
}

// ensureFunds deposits until so much is available.
func (x *workspaceModel) ensureFunds(cents money.Cents) {
	if short := cents - x.ledger.availableCents(); short > 0 {
		x.fund(short)
	}
}

// passTime turns the clock by hours, days or weeks and awaits the lapses due by then.
func (x *workspaceModel) passTime(by time.Duration) {
	x.counts["time passed"]++
	x.turnClock(by)
	x.awaitLapses()
}

func (x *workspaceModel) turnClock(by time.Duration) {
	x.stack.clock.turn(by)
	for {
		n, err := x.stack.engine.Expire(x.stack.clock.now())
		require.NoError(x.t, err)
		if n == 0 {
			break
		}
	}
	x.ledger.passTime(x.stack.clock.now())
}

// restartAndCheck restarts the product; both stores and the model agree to the cent.
func (x *workspaceModel) restartAndCheck() {
	x.counts["restart"]++
	x.checkAgainstStores()
	x.stack.restart()
	x.checkAgainstStores()
}

// crashAndRecover cuts the power, perhaps with a payout on its way to the bank.
func (x *workspaceModel) crashAndRecover(p *modelPayout) {
	x.counts["crash"]++
	x.stack.failPower()
	x.bank.setHanging(false)
	if p == nil || p.held {
		x.stack.start()
	} else {
		x.counts["crash with an order"]++
		status := readStored[balance.Payout](x.stack, balance.RecordPayout, p.id).Status
		x.stack.start()
		x.awaitAfterCrash(p, status)
	}
	x.checkAgainstStores()
}

func (x *workspaceModel) checkAgainstStores() {
	view := x.stack.settledBalance(x.ws).Balances[0]
	require.Equal(x.t, x.ledger.availableCents(), view.AvailableCents, "the book's available")
	require.Equal(x.t, x.ledger.heldCents()+x.ledger.reserved, view.HeldCents, "the book's held")
	x.checkFunds()
	require.Empty(x.t, x.bank.reordered, "orders that reached the bank again")
	if x.stack.options.database == "" {
		x.stack.requireCleanAudit() // on Postgres, where an audit takes ten thousand reads, at the end of a run
	}
}

// rebuildAuthorizer replaces the authorizer's directory by one rebuilt from the journal: funds and
// answers are the same.
func (x *workspaceModel) rebuildAuthorizer() {
	x.stack.stop()
	require.NoError(x.t, x.stack.fs.RemoveAll("authorizer"))
	require.NoError(x.t, x.stack.rebuildAuthorizer())
	x.stack.start()
	x.checkAgainstStores()
	for _, h := range x.ledger.holds {
		if x.withinRetention(h) {
			require.Equal(x.t, h.answered, x.stack.submit(h.message))
		}
	}
	x.checkAgainstStores()
}
