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

// What a physical card takes: a fee out of the balance, or a balance that is there when it is ordered and stays the workspace's.
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

// PhysicalOrdered is the one status of an order: what the carrier does with it is not known here.
const PhysicalOrdered = "ordered"

const sourcePhysicalFee = "physical_card_fee"

// scopePhysical is where the end of an order that cannot be fulfilled is claimed, once and for ever.
const scopePhysical = "physical_card"

// PhysicalOrder is an order of a physical card. Its label and where it goes are in a record of its own, PhysicalText. It is the
// first thing that is known of the card, which is minted as it says.
type PhysicalOrder struct {
	ID           string         `json:"id"`
	Status       string         `json:"status"`
	Finish       string         `json:"finish"`
	UnlockMethod string         `json:"unlockMethod"`
	FeeCents     int64          `json:"feeCents"`
	Card         OrderedCard    `json:"card"`
	ArrivesFrom  string         `json:"arrivesFrom"` // US bank days: the first and the last on which it may arrive
	ArrivesTo    string         `json:"arrivesTo"`
	CreatedAt    decision.Stamp `json:"createdAt"`
}

// OrderedCard is the card that an order is for, as it is to be minted. What identifies it is drawn with the order.
type OrderedCard struct {
	ID                   string `json:"id"`
	Token                string `json:"token"`
	Last4                string `json:"last4"`
	CardholderID         string `json:"cardholderId,omitempty"`
	MonthlyLimitUsdCents int64  `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  int64  `json:"perTxnLimitUsdCents"`
	Fixture              bool   `json:"fixture"`
}

// PhysicalText is what an order tells of a person.
type PhysicalText struct {
	HolderLabel string   `json:"holderLabel"`
	Shipping    Shipping `json:"shipping"`
}

// Shipping is where a physical card goes. Country has two letters.
type Shipping struct {
	Line1      string `json:"line1"`
	Line2      string `json:"line2,omitempty"`
	City       string `json:"city"`
	Region     string `json:"region"`
	PostalCode string `json:"postalCode"`
	Country    string `json:"country"`
}

// physicalCards decides and applies commands and events of ordered physical cards and their fees.
type physicalCards struct{ *State }

// orderPhysical takes what the card costs and keeps the order: from then on the card is owed. It is refused with
// insufficient_funds.
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
	if !b.fits(-o.FeeCents) {
		return decision.Decision{}, overflow()
	}
	e := PhysicalCardOrdered{Workspace: c.Workspace, Order: o, Postings: []Posting{}}
	d := decision.Decision{Reply: o, Records: []decision.Record{
		{Kind: RecordPhysicalOrder, ID: o.ID, Document: o},
		{Kind: RecordPhysicalText, ID: o.ID, Document: c.Text, Personal: true},
	}}
	if o.FeeCents > 0 {
		fee := feeTransfer(c.Workspace, o, -o.FeeCents, o.CreatedAt)
		e.Postings = fee.postings()
		d.Records = append(d.Records, fee.record())
		d.Debit = &decision.Debit{Reservation: reservationOf(ident.PhysicalOrder, o.ID), Cents: o.FeeCents}
	}
	d.Events = []decision.Event{e}
	return d, nil
}

func (c *OrderPhysicalCard) check() error {
	to := c.Text.Shipping
	for _, line := range []struct {
		field, value string
		least, most  int
	}{
		{"line1", to.Line1, 2, 120}, {"line2", to.Line2, 0, 120}, {"city", to.City, 1, 80}, {"region", to.Region, 1, 80},
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

// refusePhysical undoes an order whose card can never be minted: the fee comes back, once, and the order is no more.
func (b physicalCards) refusePhysical(m decision.Meta, c RefusePhysicalCard) (decision.Decision, error) {
	o := c.Order
	if !b.fits(o.FeeCents) {
		return decision.Decision{}, overflow()
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
		e.Postings = back.postings()
		d.Records = append(d.Records, back.record())
	}
	d.Events = []decision.Event{e}
	return d, nil
}

func feeTransfer(workspace string, o PhysicalOrder, cents int64, at decision.Stamp) transfer {
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
	if err := b.credit(-e.Order.FeeCents); err != nil {
		panic("BUG: physical card's fee after its check: " + err.Error())
	}
}

func (b physicalCards) applyPhysicalRefused(e PhysicalCardRefused) {
	if err := b.credit(e.FeeCents); err != nil {
		panic("BUG: physical card's fee back after its check: " + err.Error())
	}
}
