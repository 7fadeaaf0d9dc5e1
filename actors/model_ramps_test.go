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
)

// ramper is what a random life has of the ramp. Some orders are never reported.
type ramper struct {
	*rampOf
	partner  *knownRamp
	wallet   string
	open     []balance.RampOrder
	finished []balance.RampOrder
	used     []balance.RampQuote
	sessions []balance.RampSession // as they stand
}

var rampDirections = []string{balance.RampOn, balance.RampOff, balance.RampWithdraw}

// openRamp links the account, and has a wallet approved.
func (x *trader) openRamp(known *knownRamp) {
	x.ramp = &ramper{rampOf: x.rampOf(x.rt, x.ws), partner: known}
	x.ramp.link()
	x.ramp.wallet = x.ramp.prove(1)
	x.ramp.await(func() bool { return x.ramp.approved(x.ramp.wallet) })
}

func (x *trader) rampStep() {
	switch n := x.draw(10, "ramp"); {
	case n < 5:
		x.rampOrder()
	case n < 8:
		x.rampReport()
	case n < 9:
		x.rampAgain()
	default:
		x.rampSession()
	}
}

// rampOrder quotes a direction and uses the quote, for as much as there is or more. Whether the partner has noted the order
// before the next step is chance.
func (x *trader) rampOrder() {
	direction, wallet := rampDirections[x.draw(2, "direction")], ""
	if direction == balance.RampWithdraw {
		wallet = x.ramp.wallet
	}
	cents := rapid.Int64Range(1, 1_500).Draw(x.rt, "cents")
	q, err := x.ramp.quote(direction, cents, cents/20, wallet)
	require.NoError(x.rt, err)
	from := &x.coins
	if direction == balance.RampOn {
		from = &x.dollars
	}
	o, err := x.ramp.use(q)
	if cents > *from {
		require.True(x.rt, fault.Is(err, fault.InsufficientFunds), "%v", err)
		return
	}
	require.NoError(x.rt, err)
	x.ramp.used = append(x.ramp.used, q)
	switch {
	case cents%10 == rampRefuses:
		x.ramp.awaits(o.ID, balance.RampFailed)
		return
	case cents%10 != rampForgets && x.draw(1, "awaited") == 0:
		x.ramp.awaits(o.ID, balance.RampProcessing)
	}
	*from -= cents
	x.ramp.open = append(x.ramp.open, o)
}

// rampReport reports an order, perhaps twice, with the fee that it had or with one that cannot be, and once more otherwise.
func (x *trader) rampReport() {
	if len(x.ramp.open) == 0 {
		return
	}
	i := x.draw(len(x.ramp.open)-1, "order")
	o, outcome, fee := x.ramp.open[i], balance.RampCompleted, rapid.Int64Range(0, 90).Draw(x.rt, "fee")
	if x.draw(3, "fails") == 0 {
		outcome = balance.RampFailed
	}
	var said *int64
	if x.draw(2, "silent about the fee") > 0 {
		said = &fee
	} else {
		fee = o.MaxFeeCents
	}
	if fee > o.MaxFeeCents {
		require.True(x.rt, fault.Is(x.ramp.report(o.ID, outcome, said), fault.RampConflict))
		return
	}
	for range 1 + x.draw(1, "twice") {
		require.NoError(x.rt, x.ramp.report(o.ID, outcome, said))
	}
	x.ramp.open = slices.Delete(x.ramp.open, i, i+1)
	x.ramp.finished = append(x.ramp.finished, x.ramp.read(o.ID))
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

// rampAgain uses a quote again, and reports the contrary of what was reported.
func (x *trader) rampAgain() {
	if len(x.ramp.used) > 0 {
		q := x.ramp.used[x.draw(len(x.ramp.used)-1, "quote")]
		known, err := readRecord[balance.RampQuote](x.world, balance.RecordRampQuote, q.ID)
		require.NoError(x.rt, err)
		for _, quote := range []balance.RampQuote{q, known} {
			_, err := x.ramp.use(quote)
			require.True(x.rt, fault.Is(err, fault.QuoteUsed) || fault.Is(err, fault.QuoteExpired), "%v", err)
		}
	}
	if len(x.ramp.finished) > 0 {
		o := x.ramp.finished[x.draw(len(x.ramp.finished)-1, "finished")]
		contrary := balance.RampCompleted
		if o.Status == balance.RampCompleted {
			contrary = balance.RampFailed
		}
		require.True(x.rt, fault.Is(x.ramp.report(o.ID, contrary, nil), fault.RampConflict))
		require.NoError(x.rt, x.ramp.report(o.ID, o.Status, nil))
	}
}

// rampSession brings a session over, or reports one, perhaps twice.
func (x *trader) rampSession() {
	if x.draw(1, "bring over") == 0 || len(x.ramp.sessions) == 0 {
		at := decision.StampOf(x.clock.now())
		s := balance.RampSession{ID: x.newID(ident.RampSession, slotOf(x.ws)), Direction: rampDirections[x.draw(1, "direction")],
			Status: balance.RampProcessing, AmountCents: rapid.Int64Range(1, 1_000).Draw(x.rt, "cents"),
			HostedURL: "https://ramp.example/1", CreatedAt: at, UpdatedAt: at}
		for range 2 {
			x.do(balance.ImportRampSession{Workspace: x.ws, Session: s})
		}
		x.ramp.sessions = append(x.ramp.sessions, s)
		return
	}
	i := x.draw(len(x.ramp.sessions)-1, "session")
	s, outcome := x.ramp.sessions[i], []string{balance.RampCompleted, balance.RampFailed}[x.draw(1, "outcome")]
	x.n++
	_, err := x.try(balance.ReportRamp{EventID: fmt.Sprint("rs-", x.n), ID: s.ID, Outcome: outcome, Session: &s})
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

// rampAgrees looks for orders that are not as they were reported, or that the partner was given twice and not the same.
func (x *trader) rampAgrees() {
	for _, o := range x.ramp.open {
		require.Contains(x.rt, []string{balance.RampCreated, balance.RampProcessing}, x.ramp.read(o.ID).Status)
	}
	for _, o := range x.ramp.finished {
		require.Equal(x.rt, o, x.ramp.read(o.ID))
	}
	x.ramp.partner.mu.Lock()
	defer x.ramp.partner.mu.Unlock()
	require.Empty(x.rt, x.ramp.partner.changed)
}
