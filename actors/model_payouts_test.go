package actors_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/counterparty"
	"purser/actors/fault"
	"purser/actors/ident"
	"purser/actors/money"
	"purser/actors/partner"
)

// heldBank takes every order and says nothing: the model says what the bank says.
type heldBank struct{}

func (heldBank) Expect(context.Context, partner.Deposit) error { return nil }

func (heldBank) Tokenize(context.Context, partner.Account) (string, error) { return "token", nil }

// Pay refuses what ends in 96 and takes the rest.
func (heldBank) Pay(_ context.Context, p partner.Payment) error {
	if p.AmountCents%100 == 96 {
		return partner.ErrRefused
	}
	return nil
}

func (heldBank) Standing(context.Context, string) (partner.Standing, error) {
	return "", partner.ErrUnknown
}

// modelPayout is a payout in words of the model: it has reserved dollars, or they are gone, or they are back.
type modelPayout struct {
	id       string
	cents    int64
	held     bool // a wire abroad that waits to be released
	reserved bool
	settled  bool
	released bool // nothing was reported for a day: the dollars are back, and may yet be gone
	sent     time.Time
}

func (x *life) newRecipients() {
	save := func(a counterparty.Account) string {
		id := x.w.newID(ident.Counterparty, slotOf(x.ws))
		x.w.must("counterparty", id, x.ws, counterparty.Save{ID: id, Workspace: x.ws, Account: a})
		return id
	}
	x.us = save(counterparty.Account{Name: "Ada", RoutingNumber: "021000021", AccountNumber: "987654321", AccountType: "checking"})
	x.eu = save(counterparty.Account{Kind: counterparty.International, Name: "Grace", BIC: "DEUTDEFF", IBAN: "DE89370400440532013000",
		Currency: "EUR", Address: &counterparty.Address{Line1: "1", City: "Berlin", PostalCode: "10115", Country: "DE"}})
}

// pay orders a payout, and lets it get as far as the bank.
func (x *life) pay() {
	abroad := x.draw(0, 2, "abroad") == 0
	p := &modelPayout{id: x.w.newID(ident.Payout, slotOf(x.ws)), cents: x.draw(1, 30_000, "cents"), held: abroad, reserved: true}
	order := balance.CreatePayout{Workspace: x.ws, ID: p.id, Key: "key_1", Rail: balance.RailACH, AmountCents: p.cents, Description: "rent",
		Recipient: balance.Recipient{ID: x.us, Currency: "USD"},
		Limits:    balance.PayoutLimits{KeyCents: money.MaxAmount, WorkspaceCents: money.MaxAmount}}
	if abroad {
		order.Rail, order.UETR = balance.RailIntlWire, "uetr"
		order.Recipient = balance.Recipient{ID: x.eu, International: true, Currency: "EUR"}
	}
	_, err := x.w.ask("balance", x.ws, x.ws, order, nil)
	if p.cents > x.l.available() {
		require.True(x.t, fault.Is(err, fault.InsufficientFunds), "%v", err)
		return
	}
	require.NoError(x.t, err)
	x.l.reserved += p.cents
	x.l.payouts = append(x.l.payouts, p)
	if !abroad {
		x.sent(p)
	}
}

// sent waits until the bank has answered the order.
func (x *life) sent(p *modelPayout) {
	p.sent = x.w.clock.now()
	if p.cents%100 == 96 {
		x.await(p, balance.PayoutFailed)
		x.end(p)
		return
	}
	x.await(p, balance.PayoutSubmitted)
}

func (x *life) await(p *modelPayout, status string) {
	require.Eventually(x.t, func() bool { return x.payout(p).Status == status }, 20*time.Second, 100*time.Microsecond)
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
		x.direct(p)
		return
	}
	outcome := []string{balance.PayoutSettled, balance.PayoutFailed, balance.PayoutReturned}[x.draw(0, 2, "outcome")]
	known := x.payout(p)
	report := balance.ReportPayout{EventID: x.id(), ID: p.id, Outcome: outcome, Known: &known}
	_, err := x.w.ask("balance", x.ws, x.ws, report, nil)
	switch {
	case outcome == balance.PayoutSettled && (p.reserved || p.released):
		require.NoError(x.t, err)
		if p.reserved {
			x.end(p)
		}
		p.settled, p.released = true, false
		x.l.paid += p.cents
	case outcome == balance.PayoutFailed && p.reserved:
		require.NoError(x.t, err)
		x.end(p)
	case outcome == balance.PayoutReturned && p.settled:
		require.NoError(x.t, err)
		p.settled = false
		x.l.paid -= p.cents
	}
	if x.draw(0, 2, "twice") == 0 {
		known := x.payout(p)
		report.Known = &known
		_, _ = x.w.ask("balance", x.ws, x.ws, report, nil) // once more, whatever came of it: nothing moves
	}
	require.NoError(x.t, x.w.system.Settle(context.Background()))
}

// direct releases a held wire, or cancels it.
func (x *life) direct(p *modelPayout) {
	release := x.draw(0, 1, "release") == 0
	known := x.payout(p)
	x.w.must("balance", x.ws, x.ws, balance.DirectPayout{ID: p.id, Release: release, Known: &known})
	p.held = false
	if release {
		x.sent(p)
		return
	}
	x.end(p)
	require.NoError(x.t, x.w.system.Settle(context.Background()))
}

// lapse releases what was sent a day ago and of which the bank has reported nothing.
func (x *life) lapse() {
	for _, p := range x.l.payouts {
		if p.reserved && !p.held && x.w.clock.now().Sub(p.sent) >= balance.LapseAfter {
			x.await(p, balance.PayoutReleased)
			x.end(p)
			p.released = true
		}
	}
}

// orderCard orders a physical card, for its fee or for the balance that must be there.
func (x *life) orderCard() {
	o := x.w.physicalOrder(x.ws, []string{balance.UnlockPremium99, balance.UnlockBalanceCommit5000}[x.draw(0, 1, "unlock")])
	require.NoError(x.t, x.w.system.Settle(context.Background()))
	needs := int64(9_900)
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
		x.l.fees += needs
	}
	x.w.awaitMinted(o)
	require.NoError(x.t, x.w.system.Settle(context.Background()))
}
