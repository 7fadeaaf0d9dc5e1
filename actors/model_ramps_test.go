package actors_test

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// rampModel is the expected state of the ramp in a random run. Some orders are never reported.
type rampModel struct {
	*rampCustomer
	partner  *scriptedRamp
	wallet   string
	open     []balance.RampOrder
	finished []balance.RampOrder
	used     []balance.RampQuote
	sessions []balance.RampSession // with their expected statuses
}

var rampDirections = []string{balance.RampOn, balance.RampOff, balance.RampWithdraw}

// setUpRamp links the ramp account and has a wallet approved.
func (x *conversionModel) setUpRamp(known *scriptedRamp) {
	x.ramp = &rampModel{rampCustomer: x.newRampCustomer(x.rt, x.ws), partner: known}
	x.ramp.linkAccount()
	x.ramp.wallet = x.ramp.addProvenWallet(1)
	x.ramp.awaitCondition(func() bool { return x.ramp.walletApproved(x.ramp.wallet) })
}

func (x *conversionModel) stepRamp() {
	switch n := x.drawUpTo(10, "ramp"); {
	case n < 5:
		x.orderRamp()
	case n < 8:
		x.reportRampOrder()
	case n < 9:
		x.repeatRampSteps()
	default:
		x.stepRampSession()
	}
}

// orderRamp quotes a direction and uses the quote, for an amount that the balance may not cover. It
// waits at random for the partner's answer.
func (x *conversionModel) orderRamp() {
	direction, wallet := rampDirections[x.drawUpTo(2, "direction")], ""
	if direction == balance.RampWithdraw {
		wallet = x.ramp.wallet
	}
	cents := money.Cents(rapid.Int64Range(1, 1_500).Draw(x.rt, "cents"))
	q, err := x.ramp.requestQuote(direction, cents, cents/20, wallet)
	require.NoError(x.rt, err)
	from := &x.coins
	if direction == balance.RampOn {
		from = &x.dollars
	}
	o, err := x.ramp.useQuote(q)
	if cents > *from {
		require.True(x.rt, fault.Is(err, fault.InsufficientFunds), "%v", err)
		return
	}
	require.NoError(x.rt, err)
	x.ramp.used = append(x.ramp.used, q)
	switch {
	case cents%10 == rampRefusedDigit:
		x.ramp.awaitOrderStatus(o.ID, balance.RampFailed)
		return
	case cents%10 != rampNoAnswerDigit && x.drawUpTo(1, "awaited") == 0:
		x.ramp.awaitOrderStatus(o.ID, balance.RampProcessing)
	}
	*from -= cents
	x.ramp.open = append(x.ramp.open, o)
}

// reportRampOrder reports an order, perhaps twice, with its fee or with one above the quoted limit.
func (x *conversionModel) reportRampOrder() {
	if len(x.ramp.open) == 0 {
		return
	}
	i := x.drawUpTo(len(x.ramp.open)-1, "order")
	o, outcome, fee := x.ramp.open[i], balance.RampCompleted, money.Cents(rapid.Int64Range(0, 90).Draw(x.rt, "fee"))
	if x.drawUpTo(3, "fails") == 0 {
		outcome = balance.RampFailed
	}
	var reportedFee *money.Cents
	if x.drawUpTo(2, "silent about the fee") > 0 {
		reportedFee = &fee
	} else {
		fee = o.MaxFeeCents
	}
	if fee > o.MaxFeeCents {
		require.True(x.rt, fault.Is(x.ramp.reportOrder(o.ID, outcome, reportedFee), fault.RampConflict))
		return
	}
	for range 1 + x.drawUpTo(1, "twice") {
		require.NoError(x.rt, x.ramp.reportOrder(o.ID, outcome, reportedFee))
	}
	x.ramp.open = slices.Delete(x.ramp.open, i, i+1)
	x.ramp.finished = append(x.ramp.finished, x.ramp.readOrder(o.ID))
	switch outcome + " " + o.Direction {
	case "completed onramp":
		x.coins += o.AmountCents - fee
	case "completed offramp":
		x.dollars += o.AmountCents - fee
	case "failed onramp":
		x.dollars += o.AmountCents
	case "failed offramp", "failed withdraw":
		x.coins += o.AmountCents
	}
}

// repeatRampSteps uses a quote again, and reports the contrary of an earlier report.
func (x *conversionModel) repeatRampSteps() {
	if len(x.ramp.used) > 0 {
		q := x.ramp.used[x.drawUpTo(len(x.ramp.used)-1, "quote")]
		known, err := readRecord[balance.RampQuote](x.testStack, balance.RecordRampQuote, q.ID)
		require.NoError(x.rt, err)
		for _, quote := range []balance.RampQuote{q, known} {
			_, err := x.ramp.useQuote(quote)
			require.True(x.rt, fault.Is(err, fault.QuoteUsed) || fault.Is(err, fault.QuoteExpired), "%v", err)
		}
	}
	if len(x.ramp.finished) > 0 {
		o := x.ramp.finished[x.drawUpTo(len(x.ramp.finished)-1, "finished")]
		contrary := balance.RampCompleted
		if o.Status == balance.RampCompleted {
			contrary = balance.RampFailed
		}
		require.True(x.rt, fault.Is(x.ramp.reportOrder(o.ID, contrary, nil), fault.RampConflict))
		require.NoError(x.rt, x.ramp.reportOrder(o.ID, o.Status, nil))
	}
}

// stepRampSession imports a session of the retired routes, or reports one.
func (x *conversionModel) stepRampSession() {
	if x.drawUpTo(1, "bring over") == 0 || len(x.ramp.sessions) == 0 {
		at := decision.StampOf(x.clock.now())
		s := balance.RampSession{ID: x.newID(ident.RampSession, slotOf(x.ws)),
			Direction: rampDirections[x.drawUpTo(1, "direction")],
			Status:    balance.RampProcessing, AmountCents: money.Cents(rapid.Int64Range(1, 1_000).Draw(x.rt, "cents")),
			HostedURL: "https://ramp.example/1", CreatedAt: at, UpdatedAt: at}
		for range 2 {
			x.mustAskBalance(balance.ImportRampSession{Workspace: x.ws, Session: s})
		}
		x.ramp.sessions = append(x.ramp.sessions, s)
		return
	}
	i := x.drawUpTo(len(x.ramp.sessions)-1, "session")
	s, outcome := x.ramp.sessions[i], []string{balance.RampCompleted, balance.RampFailed}[x.drawUpTo(1, "outcome")]
	x.n++
	_, err := x.askBalance(balance.ReportRamp{EventID: fmt.Sprint("rs-", x.n), ID: s.ID, Outcome: outcome, Session: &s})
	switch {
	case s.Status == balance.RampProcessing && s.Direction == balance.RampOn && outcome == balance.RampCompleted,
		s.Status == balance.RampProcessing && s.Direction == balance.RampOff && outcome == balance.RampFailed:
		x.coins += s.AmountCents
	case s.Status != balance.RampProcessing && s.Status != outcome:
		require.True(x.rt, fault.Is(err, fault.RampConflict), "%v", err)
		return
	}
	require.NoError(x.rt, err)
	x.ramp.sessions[i].Status = outcome
}

// checkRampOrders requires that orders have their reported statuses, and that the partner received
// repeated orders unchanged.
func (x *conversionModel) checkRampOrders() {
	for _, o := range x.ramp.open {
		require.Contains(x.rt, []string{balance.RampCreated, balance.RampProcessing}, x.ramp.readOrder(o.ID).Status)
	}
	for _, o := range x.ramp.finished {
		require.Equal(x.rt, o, x.ramp.readOrder(o.ID))
	}
	x.ramp.partner.mu.Lock()
	defer x.ramp.partner.mu.Unlock()
	require.Empty(x.rt, x.ramp.partner.changedOrders)
}
