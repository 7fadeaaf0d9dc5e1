package actors_test

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/counterparty"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// The fate of an order is its amount in cents modulo fateCount. The bank accepts an order with any
// other remainder, and the model makes the reports about that order.
const (
	fateCount    = 20
	fateRefused  = 16
	fateUnknown  = 17 // the answer is lost, and the bank answers inquiries with ErrUnknown
	fateSettled  = 18 // the answer is lost; the bank answers inquiries with Settled
	fateReturned = 19 // the answer is lost; the bank answers inquiries with Returned
)

// scriptedBank is a bank that answers orders by their amounts and reports nothing. It outlives
// crashes of the product.
type scriptedBank struct {
	mu        sync.Mutex
	orders    map[string]money.Minor // cents, by reference
	reordered []string               // references of repeated orders
	hangs     bool                   // it accepts orders and does not answer
}

func (b *scriptedBank) setHanging(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hangs = on
}

func (*scriptedBank) Expect(context.Context, partner.Deposit) error { return nil }

func (*scriptedBank) Tokenize(context.Context, partner.Account) (string, error) { return "token", nil }

func (b *scriptedBank) Pay(ctx context.Context, p partner.Payment) error {
	if b.recordOrder(p) {
		<-ctx.Done()
		return ctx.Err()
	}
	switch p.AmountMinor % fateCount {
	case fateRefused:
		return partner.ErrRefused
	case fateUnknown, fateSettled, fateReturned:
		return context.DeadlineExceeded
	}
	return nil
}

func (b *scriptedBank) recordOrder(p partner.Payment) (hangs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, again := b.orders[p.Reference]; again {
		b.reordered = append(b.reordered, p.Reference)
	}
	b.orders[p.Reference] = p.AmountMinor
	return b.hangs
}

func (b *scriptedBank) Standing(_ context.Context, reference string) (partner.Standing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cents, known := b.orders[reference]
	switch fate := cents % fateCount; {
	case known && fate == fateSettled:
		return partner.Settled, nil
	case known && fate == fateReturned:
		return partner.Returned, nil
	case known && fate < fateRefused:
		return partner.Pending, nil
	}
	return "", partner.ErrUnknown
}

// hasOrder reports whether an order has reached the bank.
func (b *scriptedBank) hasOrder(reference string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.orders[reference]
	return known
}

// modelPayout is the expected state of a payout: its dollars are reserved, spent, or given back.
type modelPayout struct {
	id       string
	cents    money.Cents
	held     bool // an international wire before its release
	reserved bool
	settled  bool
	released bool // the bank did not have it after LapseAfter: the dollars are back, until a late settlement
	sent     time.Time
}

func (x *workspaceModel) newRecipients() {
	save := func(a counterparty.Account) string {
		id := x.stack.newID(ident.Counterparty, slotOf(x.ws))
		x.stack.mustAsk("counterparty", id, x.ws, counterparty.Save{ID: id, Workspace: x.ws, Account: a})
		return id
	}
	x.usRecipient = save(counterparty.Account{Name: "Ada", RoutingNumber: "021000021", AccountNumber: "987654321",
		AccountType: "checking"})
	x.euRecipient = save(counterparty.Account{Kind: counterparty.International, Name: "Grace", BIC: "DEUTDEFF",
		IBAN: "DE89370400440532013000", Currency: "EUR", Address: &counterparty.Address{Line1: "1", City: "Berlin",
			PostalCode: "10115", Country: "DE"}})
}

// maxPayoutCents is the largest payout of the model.
const maxPayoutCents = 30_000

// payOut orders a payout, and waits for the bank's answer unless it is held.
func (x *workspaceModel) payOut() {
	p := x.orderPayout(money.Cents(x.draw(1, maxPayoutCents, "cents")), x.draw(0, 2, "abroad") == 0)
	if p != nil && !p.held {
		x.awaitBankAnswer(p)
	}
}

// orderPayout orders a payout. It returns nil when the balance does not cover it. One that goes
// abroad is held.
func (x *workspaceModel) orderPayout(cents money.Cents, abroad bool) *modelPayout {
	p := &modelPayout{id: x.stack.newID(ident.Payout, slotOf(x.ws)), cents: cents, held: abroad, reserved: true,
		sent: x.stack.clock.now()}
	order := balance.CreatePayout{Workspace: x.ws, ID: p.id, Key: "key_1", Rail: balance.RailACH, AmountCents: p.cents,
		Description: "rent", Recipient: balance.Recipient{ID: x.usRecipient, Currency: "USD"},
		ExpectedOn: x.stack.clock.now().Format(time.DateOnly),
		Limits:     balance.PayoutLimits{KeyCents: money.MaxAmount, WorkspaceCents: money.MaxAmount}}
	if abroad {
		order.Rail, order.UETR = balance.RailIntlWire, "uetr"
		order.Recipient = balance.Recipient{ID: x.euRecipient, International: true, Currency: "EUR"}
	}
	_, err := x.stack.ask("balance", x.ws, x.ws, order, nil)
	if p.cents > x.ledger.availableCents() {
		require.True(x.t, fault.Is(err, fault.InsufficientFunds), "%v", err)
		x.counts["payout refused for its amount"]++
		return nil
	}
	require.NoError(x.t, err)
	x.ledger.reserved += p.cents
	x.ledger.payouts = append(x.ledger.payouts, p)
	if abroad {
		x.counts["payout held"]++
	}
	return p
}

// awaitBankAnswer waits until the bank has answered the order or an inquiry about it.
func (x *workspaceModel) awaitBankAnswer(p *modelPayout) {
	p.sent = x.stack.clock.now()
	status := balance.PayoutSubmitted
	switch p.cents % fateCount {
	case fateRefused:
		status = balance.PayoutFailed
	case fateUnknown:
		status = balance.PayoutUnknown
	case fateSettled:
		status = balance.PayoutSettled
	case fateReturned:
		status = balance.PayoutReturned
	}
	x.awaitPayoutStatus(p, status)
	x.noteStatus(p, status)
}

// awaitAfterCrash waits for the final status of an order that a crash left in the status left. An
// order that was not sent is sent now. An order that was being sent is not sent again: its outcome
// is the bank's answer to an inquiry.
func (x *workspaceModel) awaitAfterCrash(p *modelPayout, left string) {
	if left == balance.PayoutReserved {
		x.awaitBankAnswer(p)
		return
	}
	x.turnClock(balance.AnswerWithin)
	end, asked := left, left == balance.PayoutSubmitting
	if asked {
		end = balance.PayoutUnknown
	}
	var reported []string
	switch fate := p.cents % fateCount; {
	case fate == fateSettled && x.bank.hasOrder(p.id):
		end, reported = balance.PayoutSettled, []string{balance.PayoutSettled}
	case fate == fateReturned && x.bank.hasOrder(p.id):
		end, reported = balance.PayoutReturned, []string{balance.PayoutSettled, balance.PayoutReturned}
	}
	if !asked { // the answer to an inquiry before the crash may be lost: the bank reports
		for _, outcome := range reported {
			x.stack.mustAsk("balance", x.ws, x.ws, x.newReport(p, outcome))
		}
	}
	x.awaitPayoutStatus(p, end)
	x.noteStatus(p, end)
}

// newReport returns a report of the bank, under an event id of its own.
func (x *workspaceModel) newReport(p *modelPayout, outcome string) balance.ReportPayout {
	return balance.ReportPayout{EventID: x.nextID(), ID: p.id, Outcome: outcome}
}

// noteStatus applies a status to the model that no report of the model caused.
func (x *workspaceModel) noteStatus(p *modelPayout, status string) {
	x.counts["payout "+status]++
	switch status {
	case balance.PayoutFailed, balance.PayoutReturned:
		x.releaseReserved(p)
	case balance.PayoutSettled:
		x.releaseReserved(p)
		p.settled = true
		x.ledger.paid += p.cents
	}
}

func (x *workspaceModel) awaitPayoutStatus(p *modelPayout, status string) {
	require.Eventually(x.t, func() bool { return x.readPayout(p).Status == status }, eventuallyWithin, pollEvery,
		"%s of %d cents is not %s", p.id, p.cents, status)
	require.NoError(x.t, x.stack.system.Settle(context.Background()))
}

func (x *workspaceModel) readPayout(p *modelPayout) balance.Payout {
	known, err := readRecord[balance.Payout](x.stack, balance.RecordPayout, p.id)
	require.NoError(x.t, err)
	return known
}

// releaseReserved moves the payout's dollars out of reserved.
func (x *workspaceModel) releaseReserved(p *modelPayout) {
	x.ledger.reserved -= p.cents
	p.reserved = false
}

// reportRandomPayout reports a random outcome of a payout. An impossible outcome changes nothing. A
// held wire is directed instead.
func (x *workspaceModel) reportRandomPayout() {
	if len(x.ledger.payouts) == 0 {
		return
	}
	p := x.ledger.payouts[len(x.ledger.payouts)-1-int(x.draw(0, int64(min(len(x.ledger.payouts), 10)-1), "payout"))]
	if p.held {
		x.directWire(p, x.draw(0, 1, "release") == 0)
		return
	}
	x.reportPayout(p, []string{balance.PayoutSettled, balance.PayoutFailed,
		balance.PayoutReturned}[x.draw(0, 2, "outcome")])
}

// reportPayout has the bank report an outcome of a payout, perhaps twice.
func (x *workspaceModel) reportPayout(p *modelPayout, outcome string) {
	report := x.newReport(p, outcome)
	_, err := x.reportOnce(p, report)
	switch {
	case outcome == balance.PayoutSettled && (p.reserved || p.released):
		require.NoError(x.t, err)
		if p.reserved {
			x.releaseReserved(p)
		}
		if p.released {
			x.counts["payout settled late"]++
		}
		x.counts["payout settled"]++
		p.settled, p.released = true, false
		x.ledger.paid += p.cents
	case outcome == balance.PayoutFailed && p.reserved:
		require.NoError(x.t, err)
		x.counts["payout failed"]++
		x.releaseReserved(p)
	case outcome == balance.PayoutReturned && p.settled:
		require.NoError(x.t, err)
		x.counts["payout returned"]++
		p.settled = false
		x.ledger.paid -= p.cents
	}
	if x.draw(0, 2, "twice") == 0 {
		_, _ = x.reportOnce(p, report) // a repeat moves no money, whatever its answer
	}
	require.NoError(x.t, x.stack.system.Settle(context.Background()))
}

func (x *workspaceModel) reportOnce(p *modelPayout, report balance.ReportPayout) (any, error) {
	if report.Outcome == balance.PayoutReturned && p.reserved { // answered unavailable until the settlement
		return x.stack.askOnce(context.Background(), "balance", x.ws, x.ws, report, nil)
	}
	return x.stack.ask("balance", x.ws, x.ws, report, nil)
}

// directWire releases a held wire or cancels it.
func (x *workspaceModel) directWire(p *modelPayout, release bool) {
	x.stack.mustAsk("balance", x.ws, x.ws, balance.DirectPayout{ID: p.id, Release: release})
	p.held = false
	if release {
		x.awaitBankAnswer(p)
		return
	}
	x.counts["payout cancelled"]++
	x.releaseReserved(p)
	require.NoError(x.t, x.stack.system.Settle(context.Background()))
}

// awaitLapses waits until each payout that was sent LapseAfter ago, and that the bank does not
// have, is released. A payout that the bank has stays reserved.
func (x *workspaceModel) awaitLapses() {
	for _, p := range x.ledger.payouts {
		if p.reserved && !p.held && x.stack.clock.now().Sub(p.sent) >= balance.LapseAfter {
			if _, err := x.bank.Standing(context.Background(), p.id); err == nil {
				x.counts["payout kept for the bank"]++
				continue
			}
			x.awaitPayoutStatus(p, balance.PayoutReleased)
			x.releaseReserved(p)
			p.released = true
			x.counts["payout released"]++
		}
	}
}

// cardFee is the fee of a physical card.
const cardFee = 9_900

// orderCard orders a physical card, for its fee or against a minimum balance.
func (x *workspaceModel) orderCard(unlock string) {
	o := x.stack.newPhysicalOrder(x.ws, unlock)
	require.NoError(x.t, x.stack.system.Settle(context.Background()))
	needs := money.Cents(cardFee)
	if o.Order.UnlockMethod == balance.UnlockBalanceCommit5000 {
		needs = 500_000
	}
	_, err := x.stack.ask("balance", x.ws, x.ws, o, nil)
	if x.ledger.availableCents() < needs {
		require.True(x.t, fault.Is(err, fault.InsufficientFunds), "%v", err)
		return
	}
	require.NoError(x.t, err)
	if o.Order.UnlockMethod == balance.UnlockPremium99 {
		x.counts["card fee"]++
		x.ledger.fees += needs
	}
	x.stack.awaitMinted(o)
	require.NoError(x.t, x.stack.system.Settle(context.Background()))
}
