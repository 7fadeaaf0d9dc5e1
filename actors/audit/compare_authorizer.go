package audit

import (
	"fmt"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// authorizerCheck compares the authorizer with the totals of some shards. Items of other shards are
// ignored.
type authorizerCheck struct {
	totals   map[ident.Shard]*shardTotals
	reserved map[ident.UUID]money.Cents
	seen     map[ident.UUID]bool
	due      map[ident.UUID]int64 // expiries by hold; lines of the expiry index remove theirs
}

// compareAuthorizer compares funds, holds, rules and spend counters with the totals; differences
// are findings. Every reservation is a finding: a settled or refused one is removed, and one in
// progress is gone at the next look. It fails when the authorizer cannot be read.
func compareAuthorizer(a AuthorizerSnapshot, all map[ident.Shard]*shardTotals) error {
	c := &authorizerCheck{totals: all, reserved: map[ident.UUID]money.Cents{}, due: map[ident.UUID]int64{}}
	for shard, b := range all {
		if b.followed > b.position {
			b.expectEqual("authorizer", fmt.Sprint(shard), "followed position", fmt.Sprintf("at most %d", b.position),
				b.followed)
		}
	}
	if err := a.WalkReservations(c.compareReservation); err != nil {
		return err
	}
	for _, walk := range []func() error{
		func() error { return a.WalkFunds(c.compareFunds) }, c.missingFunds,
		func() error { return a.WalkHolds(c.compareHold) }, c.missingHolds,
		func() error { return a.WalkDue(c.compareDue) }, c.missingDue,
		func() error { return a.WalkRules(c.compareRule) }, c.missingRules,
		func() error { return a.WalkSpends(c.compareSpend) }, c.missingSpends,
	} {
		if err := walk(); err != nil {
			return err
		}
	}
	return nil
}

// totalsOf returns the totals of an id's shard; nil when the shard is not compared now.
func (c *authorizerCheck) totalsOf(id ident.UUID) *shardTotals { return c.totals[id.Shard()] }

// compareReservation adds a reservation to its workspace's sum and reports it as a finding: with
// the server at rest none may be open. Its error is always nil, as the authorizer's iterator of
// reservations requires.
func (c *authorizerCheck) compareReservation(r Reservation) error {
	b := c.totalsOf(r.Workspace)
	if b == nil {
		return nil
	}
	total := c.reserved[r.Workspace]
	addChecked(b, "reservation", r.ID.Format(ident.Reservation), "reserved", &total, r.Cents)
	c.reserved[r.Workspace] = total
	b.expectEqual("reservation", r.ID.Format(ident.Reservation), "of "+r.Workspace.Format(ident.Workspace),
		"settled or released",
		r.Cents)
	return nil
}

func (c *authorizerCheck) markSeen(id ident.UUID) {
	if c.seen == nil {
		c.seen = map[ident.UUID]bool{}
	}
	c.seen[id] = true
}

// visitUnseen visits the ids in the totals that were not marked seen since the last call. An id
// that does not parse is a finding. Its error is always nil.
func visitUnseen[V any](c *authorizerCheck, prefix string, of func(*shardTotals) map[string]V,
	visit func(b *shardTotals, id string, v V)) error {
	for _, b := range c.totals {
		for id, v := range of(b) {
			u, err := ident.Parse(prefix, id)
			if err != nil {
				b.expectEqual("event", id, "id", "readable", err)
				continue
			}
			if !c.seen[u] {
				visit(b, id, v)
			}
		}
	}
	c.seen = nil
	return nil
}

// compareFunds compares the funds of a workspace with its totals; differences are findings. Its
// error is always nil.
func (c *authorizerCheck) compareFunds(f Funds) error {
	b := c.totalsOf(f.Workspace)
	if b == nil {
		return nil
	}
	c.markSeen(f.Workspace)
	id := f.Workspace.Format(ident.Workspace)
	a := b.accountOf(id)
	b.expectEqual("funds", id, "ledger cents", a.followed, f.Ledger)
	b.expectEqual("funds", id, "card cents", a.card, f.Card)
	b.expectEqual("funds", id, "reserved cents", c.reserved[f.Workspace], f.Reserved)
	b.expectEqual("funds", id, "workspace sequence", a.wsSeq, f.Sequence)
	return nil
}

// missingFunds reports the workspaces of the totals without funds in the authorizer, unless their
// sums are zero. Its error is always nil.
func (c *authorizerCheck) missingFunds() error {
	return visitUnseen(c, ident.Workspace, func(b *shardTotals) map[string]*account { return b.accounts },
		func(b *shardTotals, id string, a *account) {
			b.expectEqual("funds", id, "ledger cents", a.followed, 0)
			b.expectEqual("funds", id, "card cents", a.card, 0)
			b.expectEqual("funds", id, "workspace sequence", a.wsSeq, 0)
		})
}

// compareHold compares a hold with its authorization in the totals; differences are findings. It
// notes the expiry for compareDue. Its error is always nil.
func (c *authorizerCheck) compareHold(h Hold) error {
	b := c.totalsOf(h.ID)
	if b == nil {
		return nil
	}
	c.markSeen(h.ID)
	id := h.ID.Format(ident.Authorization)
	a := b.authorizations[id]
	if a == nil {
		b.expectEqual("hold", id, "authorization", "none", fmt.Sprintf("%s, held %d", h.Status, h.Held))
		return nil
	}
	b.expectEqual("hold", id, "held", a.Held, h.Held)
	b.expectEqual("hold", id, "cleared", a.Cleared, h.Cleared)
	b.expectEqual("hold", id, "refunded", a.Refunded, h.Refunded)
	b.expectEqual("hold", id, "status", a.Status, h.Status)
	b.expectEqual("hold", id, "card", a.Card, formatID(ident.Card, h.Card))
	b.expectEqual("hold", id, "workspace", a.Workspace, formatID(ident.Workspace, h.Workspace))
	b.expectEqual("hold", id, "month and cents in it", monthSpend{a.Month, a.MonthCents}, monthSpend{h.Month,
		h.MonthCents})
	b.expectEqual("hold", id, "expiry", a.expiryMillis(), h.ExpiresAt)
	if h.ExpiresAt != 0 {
		c.due[h.ID] = h.ExpiresAt
	}
	return nil
}

// missingHolds reports the authorizations of the totals without a hold in the authorizer, unless
// nothing is held. Its error is always nil.
func (c *authorizerCheck) missingHolds() error {
	return visitUnseen(c, ident.Authorization,
		func(b *shardTotals) map[string]*authorization { return b.authorizations },
		func(b *shardTotals, id string, a *authorization) { b.expectEqual("hold", id, "held", a.Held, 0) })
}

// formatID is an id as the journal stores it; "" for a zero id.
func formatID(prefix string, id ident.UUID) string {
	if id.IsZero() {
		return ""
	}
	return id.Format(prefix)
}

// compareDue matches a line of the expiry index with the expiry of its hold; a line without an
// authorization is a finding. Its error is always nil.
func (c *authorizerCheck) compareDue(d Due) error {
	b := c.totalsOf(d.Hold)
	if b == nil {
		return nil
	}
	id := d.Hold.Format(ident.Authorization)
	if b.authorizations[id] == nil {
		b.expectEqual("due", id, "authorization", "none", fmt.Sprint("runs out at ", d.At))
	}
	if c.due[d.Hold] == d.At {
		delete(c.due, d.Hold)
	}
	return nil
}

// missingDue finds holds without a line in the expiry index, which would never expire.
func (c *authorizerCheck) missingDue() error {
	for id, at := range c.due {
		c.totalsOf(id).expectEqual("due", id.Format(ident.Authorization), "line", at, "missing")
	}
	return nil
}

// compareSpend compares a card's monthly spend with the totals; a difference is a finding. Its
// error is always nil.
func (c *authorizerCheck) compareSpend(s Spend) error {
	b := c.totalsOf(s.Card)
	if b == nil {
		return nil
	}
	c.markSeen(s.Card)
	id := s.Card.Format(ident.Card)
	known := b.cardOf(id)
	b.expectEqual("spend", id, "month and cents", monthSpend{known.month, known.cents}, monthSpend{s.Month, s.Cents})
	return nil
}

// missingSpends reports the cards of the totals without a spend in the authorizer, unless it is
// zero. Its error is always nil.
func (c *authorizerCheck) missingSpends() error {
	return visitUnseen(c, ident.Card, func(b *shardTotals) map[string]*cardTotals { return b.cards },
		func(b *shardTotals, id string, known *cardTotals) {
			b.expectEqual("spend", id, "cents", known.cents, 0)
		})
}
