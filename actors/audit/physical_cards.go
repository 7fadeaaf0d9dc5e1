package audit

import (
	"context"
	"encoding/json"
	"maps"

	"purser/persistence"
	"purser/persistence/money"
)

// physicalFeeCents is the fee of a physical card that no balance unlocks.
const physicalFeeCents = 9_900

// physicalCards are the orders by id, and the workspaces of the minted physical cards by card.
type physicalCards struct {
	orders map[string]physicalOrder
	minted map[string]string
}

// physicalOrder is the state of an order of a physical card by its events; its record must equal
// it.
type physicalOrder struct {
	ID           string      `json:"id"`
	UnlockMethod string      `json:"unlockMethod"`
	FeeCents     money.Cents `json:"feeCents"`
	Card         orderedCard `json:"card"`
}

type orderedCard struct {
	ID string `json:"id"`
}

// physicalOrdered folds an order of a physical card and its fee. It fails when the payload does not
// decode.
func (b *shardTotals) physicalOrdered(e *persistence.Event) error {
	var p struct {
		Order    physicalOrder
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	o, fee := p.Order, money.Cents(0)
	if o.UnlockMethod == "premium_99" {
		fee = physicalFeeCents
	}
	b.expectEqual("physical_order", o.ID, "fee", fee, o.FeeCents)
	_, again := b.physical.orders[o.ID]
	b.expectEqual("physical_order", o.ID, "ordered before", false, again)
	b.physical.orders[o.ID] = o
	b.feeMoved(e, p.Postings, o.FeeCents)
	return nil
}

// physicalRefused folds the end of an order and the refund of its fee. It fails when the payload
// does not decode.
func (b *shardTotals) physicalRefused(e *persistence.Event) error {
	var p struct {
		Order    string
		FeeCents money.Cents
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.expectEqual("physical_order", p.Order, "refunded fee", b.physical.orders[p.Order].FeeCents, p.FeeCents)
	delete(b.physical.orders, p.Order)
	b.feeMoved(e, p.Postings, -p.FeeCents)
	return nil
}

// feeMoved debits a fee from the workspace's dollars; a negative fee is refunded. Wrong postings
// are findings.
func (b *shardTotals) feeMoved(e *persistence.Event, postings []posting, fee money.Cents) {
	want := map[string]money.Cents{}
	if fee != 0 {
		want["usd"], want["fees"] = -fee, fee
	}
	b.expectPostings(e, b.addPostings(e, postings), want)
	b.addLedgerCents(e, -fee)
}

// physicalMinted records a minted physical card.
func (b *shardTotals) physicalMinted(e *persistence.Event) {
	var p struct{ Physical bool }
	if err := json.Unmarshal(e.Payload, &p); err == nil && p.Physical {
		b.physical.minted[e.Stream] = e.Workspace
	}
}

// comparePhysical compares the records of orders with the events, and finds physical cards without
// an order. An order may precede its card. It fails when the journal cannot be read.
func (b *shardTotals) comparePhysical(ctx context.Context, journal persistence.Snapshot) error {
	unordered := maps.Clone(b.physical.minted)
	for _, o := range b.physical.orders {
		delete(unordered, o.Card.ID)
	}
	for card := range unordered {
		b.expectEqual("card", card, "order of a physical card", "one", "none")
	}
	return matchAll(ctx, b, journal, "physical_order", maps.Clone(b.physical.orders))
}
