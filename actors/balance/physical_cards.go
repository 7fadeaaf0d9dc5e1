package balance

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Ways to unlock a physical card: a fee out of the balance, or a balance of CommittedBalanceCents
// at the time of the order, which stays the workspace's.
const (
	UnlockPremium99         = "premium_99"
	UnlockBalanceCommit5000 = "balance_commit_5000"
	PremiumFeeCents         = 9_900
	CommittedBalanceCents   = 500_000
)

// Finishes of a physical card.
const (
	FinishStandard = "standard"
	FinishMetal    = "metal"
)

// PhysicalOrdered is the only status of an order; the carrier reports nothing.
const PhysicalOrdered = "ordered"

const sourcePhysicalFee = "physical_card_fee"

// scopePhysical is the scope of claims on the refusal of an order, once for ever.
const scopePhysical = "physical_card"

// PhysicalOrder is an order of a physical card, which is minted from Card. The label and the
// shipping address are a record of their own, PhysicalText.
type PhysicalOrder struct {
	ID           string         `json:"id"`
	Status       string         `json:"status"`
	Finish       string         `json:"finish"`
	UnlockMethod string         `json:"unlockMethod"`
	FeeCents     money.Cents    `json:"feeCents"`
	Card         OrderedCard    `json:"card"`
	ArrivesFrom  string         `json:"arrivesFrom"` // US bank days between which it should arrive
	ArrivesTo    string         `json:"arrivesTo"`
	CreatedAt    decision.Stamp `json:"createdAt"`
}

// OrderedCard is the card to mint for an order. The caller draws its id, token and last four
// digits.
type OrderedCard struct {
	ID                   string      `json:"id"`
	Token                string      `json:"token"`
	Last4                string      `json:"last4"`
	CardholderID         string      `json:"cardholderId,omitempty"`
	MonthlyLimitUsdCents money.Cents `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  money.Cents `json:"perTxnLimitUsdCents"`
	Fixture              bool        `json:"fixture"`
}

// PhysicalText is the personal part of an order.
type PhysicalText struct {
	HolderLabel string   `json:"holderLabel"`
	Shipping    Shipping `json:"shipping"`
}

// Shipping is the delivery address of a physical card. Country has two letters.
type Shipping struct {
	Line1      string `json:"line1"`
	Line2      string `json:"line2,omitempty"`
	City       string `json:"city"`
	Region     string `json:"region"`
	PostalCode string `json:"postalCode"`
	Country    string `json:"country"`
}

// physicalCards has the decisions and folds of ordered physical cards and their fees.
type physicalCards struct{ *State }

// orderPhysical stores the order, and debits the fee or checks the committed balance. It fails with
// invalid_body for a wrong address, finish or unlock method, and with insufficient_funds. The
// runtime refuses a fee that the dollars do not cover.
func (b physicalCards) orderPhysical(m decision.Meta, c OrderPhysicalCard) (decision.Decision, error) {
	if err := c.check(); err != nil {
		return decision.Decision{}, err
	}
	o := c.Order
	o.Status, o.CreatedAt, o.FeeCents = PhysicalOrdered, decision.StampOf(m.At), 0
	if o.UnlockMethod == UnlockPremium99 {
		o.FeeCents = PremiumFeeCents
	} else if money.MustAdd(b.LedgerCents, b.CardCents) < CommittedBalanceCents {
		return decision.Decision{}, fault.New(fault.InsufficientFunds, "The balance is below 5,000 dollars.")
	}
	if !b.canAddCents(-o.FeeCents) {
		return decision.Decision{}, balanceFull()
	}
	e := PhysicalCardOrdered{Workspace: c.Workspace, Order: o, Postings: []Posting{}}
	d := decision.Decision{Reply: o, Records: []decision.Record{
		{Kind: RecordPhysicalOrder, ID: o.ID, Document: o},
		{Kind: RecordPhysicalText, ID: o.ID, Document: c.Text, Personal: true},
	}}
	if o.FeeCents > 0 {
		fee := feeTransfer(c.Workspace, o, -o.FeeCents, o.CreatedAt)
		e.Postings = fee.balancedPostings()
		d.Records = append(d.Records, fee.ledgerRecord())
		d.Debit = &decision.Debit{Reservation: reservationOf(ident.PhysicalOrder, o.ID), Cents: o.FeeCents}
	}
	d.Events = []decision.Event{e}
	return d, nil
}

// check fails with invalid_body and the field's name for a wrong address, finish or unlock method.
func (c *OrderPhysicalCard) check() error {
	to := c.Text.Shipping
	for _, line := range []struct {
		field, value string
		least, most  int
	}{
		{"line1", to.Line1, 2, 120}, {"line2", to.Line2, 0, 120}, {"city", to.City, 1, 80}, {"region", to.Region, 1,
			80},
		{"postalCode", to.PostalCode, 2, 20}, {"country", to.Country, 2, 2},
	} {
		if n := utf8.RuneCountInString(line.value); n < line.least || n > line.most {
			return fault.New(fault.InvalidBody, fmt.Sprintf("shipping.%s: %d to %d characters", line.field, line.least,
				line.most))
		}
	}
	switch {
	case !slices.Contains([]string{FinishStandard, FinishMetal}, c.Order.Finish):
		return fault.New(fault.InvalidBody, "finish: standard or metal")
	case !slices.Contains([]string{UnlockPremium99, UnlockBalanceCommit5000}, c.Order.UnlockMethod):
		return fault.New(fault.InvalidBody, "unlockMethod: premium_99 or balance_commit_5000")
	}
	return nil
}

// refusePhysical undoes an order whose card cannot be minted: it refunds the fee, once, and deletes
// the order's records. It fails with limit_exceeded when the balance has no room.
func (b physicalCards) refusePhysical(m decision.Meta, c RefusePhysicalCard) (decision.Decision, error) {
	o := c.Order
	if !b.canAddCents(o.FeeCents) {
		return decision.Decision{}, balanceFull()
	}
	at := decision.StampOf(m.At)
	e := PhysicalCardRefused{Workspace: b.Workspace, Order: o.ID, FeeCents: o.FeeCents, Postings: []Posting{}, At: at}
	d := decision.Decision{
		Records: []decision.Record{
			{Kind: RecordPhysicalOrder, ID: o.ID, Delete: true}, {Kind: RecordPhysicalText, ID: o.ID, Delete: true},
		},
		Onces: []decision.Once{{Scope: scopePhysical, Key: "refused/" + o.ID}},
	}
	if o.FeeCents > 0 {
		back := feeTransfer(b.Workspace, o, o.FeeCents, at)
		e.Postings = back.balancedPostings()
		d.Records = append(d.Records, back.ledgerRecord())
	}
	d.Events = []decision.Event{e}
	return d, nil
}

// feeTransfer is the transfer of a physical card's fee: negative cents debit it, positive cents
// refund it.
func feeTransfer(workspace string, o PhysicalOrder, cents money.Cents, at decision.Stamp) transfer {
	cause := "physical/ordered/"
	if cents > 0 {
		cause = "physical/refused/"
	}
	return transfer{
		workspace: workspace, account: AccountUSD, counterpart: AccountFees, cents: cents, source: sourcePhysicalFee,
		reference: o.ID, card: &o.Card.ID, cause: cause + o.ID, at: at.Time,
	}
}

func (b physicalCards) applyPhysicalOrdered(e PhysicalCardOrdered) {
	b.Workspace = e.Workspace
	if err := b.addLedgerCents(-e.Order.FeeCents); err != nil {
		panic("BUG: physical card's fee after its check: " + err.Error())
	}
}

func (b physicalCards) applyPhysicalRefused(e PhysicalCardRefused) {
	if err := b.addLedgerCents(e.FeeCents); err != nil {
		panic("BUG: physical card's fee back after its check: " + err.Error())
	}
}
