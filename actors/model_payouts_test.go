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

// What becomes of an order depends on its amount, by the rest of a division. The bank takes the others, and the model says what
// it reports of them.
const (
	fates        = 20
	fateRefused  = 16
	fateMute     = 17 // the answer is lost, and the bank does not know when it is asked
	fateSettled  = 18 // the answer is lost; when the bank is asked, it has paid
	fateReturned = 19 // the answer is lost; when the bank is asked, the payment has come back
)

// heldBank answers orders by their amounts and reports nothing. It outlives crashes of the product.
type heldBank struct {
	mu     sync.Mutex
	orders map[string]int64 // cents, by reference
	twice  []string         // references that were ordered again
	hangs  bool             // it takes orders and does not answer
}

func (b *heldBank) hang(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hangs = on
}

func (*heldBank) Expect(context.Context, partner.Deposit) error { return nil }

func (*heldBank) Tokenize(context.Context, partner.Account) (string, error) { return "token", nil }

func (b *heldBank) Pay(ctx context.Context, p partner.Payment) error {
	if b.take(p) {
		<-ctx.Done()
		return ctx.Err()
	}
	switch p.AmountCents % fates {
	case fateRefused:
		return partner.ErrRefused
	case fateMute, fateSettled, fateReturned:
		return context.DeadlineExceeded
	}
	return nil
}

func (b *heldBank) take(p partner.Payment) (hangs bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, again := b.orders[p.Reference]; again {
		b.twice = append(b.twice, p.Reference)
	}
	b.orders[p.Reference] = p.AmountCents
	return b.hangs
}

func (b *heldBank) Standing(_ context.Context, reference string) (partner.Standing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cents, known := b.orders[reference]
	switch fate := cents % fates; {
	case known && fate == fateSettled:
		return partner.Settled, nil
	case known && fate == fateReturned:
		return partner.Returned, nil
	case known && fate < fateRefused:
		return partner.Pending, nil
	}
	return "", partner.ErrUnknown
}

// has tells whether an order has reached the bank.
func (b *heldBank) has(reference string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.orders[reference]
	return known
}

// modelPayout is a payout in words of the model: it has reserved dollars, or they are gone, or they are back.
type modelPayout struct {
	id       string
	cents    int64
	held     bool // a wire abroad that waits to be released
	reserved bool
	settled  bool
	released bool // the bank did not have it after a day: the dollars are back, and may yet be gone
	sent     time.Time
}

func (x *life) newRecipients() {
	save := func(a counterparty.Account) string {
		id := x.w.newID(ident.Counterparty, slotOf(x.ws))
		x.w.must("counterparty", id, x.ws, counterparty.Save{ID: id, Workspace: x.ws, Account: a})
		return id
	}
	x.us = save(counterparty.Account{Name: "Ada", RoutingNumber: "021000021", AccountNumber: "987654321",
		AccountType: "checking"})
	x.eu = save(counterparty.Account{Kind: counterparty.International, Name: "Grace", BIC: "DEUTDEFF",
		IBAN: "DE89370400440532013000", Currency: "EUR", Address: &counterparty.Address{Line1: "1", City: "Berlin",
			PostalCode: "10115", Country: "DE"}})
}

// mostPaid is the most that a payout of the model pays.
const mostPaid = 30_000

// pay orders a payout, and lets it get as far as the bank.
func (x *life) pay() {
	if p := x.order(x.draw(1, mostPaid, "cents"), x.draw(0, 2, "abroad") == 0); p != nil && !p.held {
		x.sent(p)
	}
}

// order orders a payout; nil when the dollars do not suffice. One that goes abroad is held.
func (x *life) order(cents int64, abroad bool) *modelPayout {
	p := &modelPayout{id: x.w.newID(ident.Payout, slotOf(x.ws)), cents: cents, held: abroad, reserved: true, sent: x.w.clock.now()}
	order := balance.CreatePayout{Workspace: x.ws, ID: p.id, Key: "key_1", Rail: balance.RailACH, AmountCents: p.cents,
		Description: "rent", Recipient: balance.Recipient{ID: x.us, Currency: "USD"},
		Limits: balance.PayoutLimits{KeyCents: money.MaxAmount, WorkspaceCents: money.MaxAmount}}
	if abroad {
		order.Rail, order.UETR = balance.RailIntlWire, "uetr"
		order.Recipient = balance.Recipient{ID: x.eu, International: true, Currency: "EUR"}
	}
	_, err := x.w.ask("balance", x.ws, x.ws, order, nil)
	if p.cents > x.l.available() {
		require.True(x.t, fault.Is(err, fault.InsufficientFunds), "%v", err)
		x.seen["payout refused for its amount"]++
		return nil
	}
	require.NoError(x.t, err)
	x.l.reserved += p.cents
	x.l.payouts = append(x.l.payouts, p)
	if abroad {
		x.seen["payout held"]++
	}
	return p
}

// sent waits until the bank has answered the order, or been asked about it.
func (x *life) sent(p *modelPayout) {
	p.sent = x.w.clock.now()
	status := balance.PayoutSubmitted
	switch p.cents % fates {
	case fateRefused:
		status = balance.PayoutFailed
	case fateMute:
		status = balance.PayoutUnknown
	case fateSettled:
		status = balance.PayoutSettled
	case fateReturned:
		status = balance.PayoutReturned
	}
	x.await(p, status)
	x.became(p, status)
}

// recovered waits until all is known that can be known of an order which a crash has left in a status. One that was not sent yet
// is sent now. Of one that was being sent nothing is known but what the bank says when it is asked: whoever was calling it is
// gone, and nobody calls again.
func (x *life) recovered(p *modelPayout, left string) {
	if left == balance.PayoutReserved {
		x.sent(p)
		return
	}
	x.turn(balance.AnswerWithin)
	end, asked := left, left == balance.PayoutSubmitting
	if asked {
		end = balance.PayoutUnknown
	}
	var reported []string
	switch fate := p.cents % fates; {
	case fate == fateSettled && x.bank.has(p.id):
		end, reported = balance.PayoutSettled, []string{balance.PayoutSettled}
	case fate == fateReturned && x.bank.has(p.id):
		end, reported = balance.PayoutReturned, []string{balance.PayoutSettled, balance.PayoutReturned}
	}
	if !asked { // it had been asked before the crash, and the answer may be lost with the power: the bank reports by itself
		for _, outcome := range reported {
			x.w.must("balance", x.ws, x.ws, x.reported(p, outcome))
		}
	}
	x.await(p, end)
	x.became(p, end)
}

// reported is a report of the bank, under an event id of its own.
func (x *life) reported(p *modelPayout, outcome string) balance.ReportPayout {
	return balance.ReportPayout{EventID: x.id(), ID: p.id, Outcome: outcome}
}

// became notes what has become of an order without a report of the model.
func (x *life) became(p *modelPayout, status string) {
	x.seen["payout "+status]++
	switch status {
	case balance.PayoutFailed, balance.PayoutReturned:
		x.end(p)
	case balance.PayoutSettled:
		x.end(p)
		p.settled = true
		x.l.paid += p.cents
	}
}

func (x *life) await(p *modelPayout, status string) {
	require.Eventually(x.t, func() bool { return x.payout(p).Status == status }, comesWithin, lookEvery,
		"%s of %d cents is not %s", p.id, p.cents, status)
	require.NoError(x.t, x.w.system.Settle(context.Background()))
}

func (x *life) payout(p *modelPayout) balance.Payout {
	known, err := readRecord[balance.Payout](x.w, balance.RecordPayout, p.id)
	require.NoError(x.t, err)
	return known
}

// end gives back what a payout has reserved.
func (x *life) end(p *modelPayout) {
	x.l.reserved -= p.cents
	p.reserved = false
}

// bankSays reports something of a payout, also what cannot be: that changes nothing. A held wire is directed instead.
func (x *life) bankSays() {
	if len(x.l.payouts) == 0 {
		return
	}
	p := x.l.payouts[len(x.l.payouts)-1-int(x.draw(0, int64(min(len(x.l.payouts), 10)-1), "payout"))]
	if p.held {
		x.direct(p, x.draw(0, 1, "release") == 0)
		return
	}
	x.reports(p, []string{balance.PayoutSettled, balance.PayoutFailed, balance.PayoutReturned}[x.draw(0, 2, "outcome")])
}

// reports has the bank report an outcome of a payout, perhaps twice.
func (x *life) reports(p *modelPayout, outcome string) {
	report := x.reported(p, outcome)
	_, err := x.reportOnce(p, report)
	switch {
	case outcome == balance.PayoutSettled && (p.reserved || p.released):
		require.NoError(x.t, err)
		if p.reserved {
			x.end(p)
		}
		if p.released {
			x.seen["payout settled late"]++
		}
		x.seen["payout settled"]++
		p.settled, p.released = true, false
		x.l.paid += p.cents
	case outcome == balance.PayoutFailed && p.reserved:
		require.NoError(x.t, err)
		x.seen["payout failed"]++
		x.end(p)
	case outcome == balance.PayoutReturned && p.settled:
		require.NoError(x.t, err)
		x.seen["payout returned"]++
		p.settled = false
		x.l.paid -= p.cents
	}
	if x.draw(0, 2, "twice") == 0 {
		_, _ = x.reportOnce(p, report) // once more, whatever came of it: nothing moves
	}
	require.NoError(x.t, x.w.system.Settle(context.Background()))
}

func (x *life) reportOnce(p *modelPayout, report balance.ReportPayout) (any, error) {
	if report.Outcome == balance.PayoutReturned && p.reserved { // it is to come again after the settlement
		return x.w.askOnce(context.Background(), "balance", x.ws, x.ws, report, nil)
	}
	return x.w.ask("balance", x.ws, x.ws, report, nil)
}

// direct releases a held wire, or cancels it.
func (x *life) direct(p *modelPayout, release bool) {
	x.w.must("balance", x.ws, x.ws, balance.DirectPayout{ID: p.id, Release: release})
	p.held = false
	if release {
		x.sent(p)
		return
	}
	x.seen["payout cancelled"]++
	x.end(p)
	require.NoError(x.t, x.w.system.Settle(context.Background()))
}

// lapse awaits the release of each payout that was sent a day ago and that the bank does not have.
// A payout that the bank has stays reserved.
func (x *life) lapse() {
	for _, p := range x.l.payouts {
		if p.reserved && !p.held && x.w.clock.now().Sub(p.sent) >= balance.LapseAfter {
			if _, err := x.bank.Standing(context.Background(), p.id); err == nil {
				x.seen["payout kept for the bank"]++
				continue
			}
			x.await(p, balance.PayoutReleased)
			x.end(p)
			p.released = true
			x.seen["payout released"]++
		}
	}
}

// cardFee is the fee of a physical card.
const cardFee = 9_900

// orderCard orders a physical card, for its fee or for the balance that must be there.
func (x *life) orderCard(unlock string) {
	o := x.w.physicalOrder(x.ws, unlock)
	require.NoError(x.t, x.w.system.Settle(context.Background()))
	needs := int64(cardFee)
	if o.Order.UnlockMethod == balance.UnlockBalanceCommit5000 {
		needs = 500_000
	}
	_, err := x.w.ask("balance", x.ws, x.ws, o, nil)
	if x.l.available() < needs {
		require.True(x.t, fault.Is(err, fault.InsufficientFunds), "%v", err)
		return
	}
	require.NoError(x.t, err)
	if o.Order.UnlockMethod == balance.UnlockPremium99 {
		x.seen["card fee"]++
		x.l.fees += needs
	}
	x.w.awaitMinted(o)
	require.NoError(x.t, x.w.system.Settle(context.Background()))
}
