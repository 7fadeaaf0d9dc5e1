package audit

import (
	"context"
	"encoding/json"
	"maps"

	"purser/persistence"
)

// physicalFeeCents is what a physical card costs that is not unlocked by a balance.
const physicalFeeCents = 9_900

// physicalCards are what was ordered, by order, and what was minted: the workspaces of the cards.
type physicalCards struct {
	orders map[string]physicalOrder
	minted map[string]string
}

// physicalOrder is what the events say of an order of a physical card, and what its record must say.
type physicalOrder struct {
	ID           string  `json:"id"`
	UnlockMethod string  `json:"unlockMethod"`
	FeeCents     int64   `json:"feeCents"`
	Card         ordered `json:"card"`
}

type ordered struct {
	ID string `json:"id"`
}

func (b *books) physicalOrdered(e *persistence.Event) error {
	var p struct {
		Order    physicalOrder
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	o, fee := p.Order, int64(0)
	if o.UnlockMethod == "premium_99" {
		fee = physicalFeeCents
	}
	b.differs("physical_order", o.ID, "fee", fee, o.FeeCents)
	_, again := b.physical.orders[o.ID]
	b.differs("physical_order", o.ID, "ordered before", false, again)
	b.physical.orders[o.ID] = o
	b.feeMoved(e, p.Postings, o.FeeCents)
	return nil
}

func (b *books) physicalRefused(e *persistence.Event) error {
	var p struct {
		Order    string
		FeeCents int64
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	b.differs("physical_order", p.Order, "fee that comes back", b.physical.orders[p.Order].FeeCents, p.FeeCents)
	delete(b.physical.orders, p.Order)
	b.feeMoved(e, p.Postings, -p.FeeCents)
	return nil
}

// feeMoved takes a fee out of the workspace's dollars; less than nothing brings it back.
func (b *books) feeMoved(e *persistence.Event, postings []posting, fee int64) {
	want := map[string]int64{}
	if fee != 0 {
		want["usd"], want["fees"] = -fee, fee
	}
	b.moved(e, b.post(e, postings), want)
	b.originated(e, -fee)
}

// physicalMinted notes the cards that are sent to somebody.
func (b *books) physicalMinted(e *persistence.Event) {
	var p struct{ Physical bool }
	if err := json.Unmarshal(e.Payload, &p); err == nil && p.Physical {
		b.physical.minted[e.Stream] = e.Workspace
	}
}

// comparePhysical compares the records of orders with the events, and looks for a physical card that nobody has ordered. An order
// whose card is not minted yet is on its way.
func (b *books) comparePhysical(ctx context.Context, journal persistence.Journal) error {
	unordered := maps.Clone(b.physical.minted)
	for _, o := range b.physical.orders {
		delete(unordered, o.Card.ID)
	}
	for card := range unordered {
		b.differs("card", card, "order of a physical card", "one", "none")
	}
	return matchAll(ctx, b, journal, "physical_order", maps.Clone(b.physical.orders))
}
