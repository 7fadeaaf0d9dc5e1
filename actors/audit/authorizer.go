package audit

import (
	"fmt"

	"purser/persistence/ident"
)

// comparison holds what the authorizer has against the books of some shards; what belongs to other shards is passed over.
type comparison struct {
	books    map[ident.Shard]*books
	reserved map[ident.UUID]int64
	seen     map[ident.UUID]bool
	due      map[ident.UUID]int64 // by hold, when the authorizer has it run out; what the due index shows is taken out
}

// compareAuthorizer compares the funds terms, holds, rules and counters, and names every reservation: none of them is of a debit
// that the journal knows, for what is settled or refused is gone, and what is under way is gone at the next look.
func compareAuthorizer(a Authorizer, all map[ident.Shard]*books) error {
	c := &comparison{books: all, reserved: map[ident.UUID]int64{}, due: map[ident.UUID]int64{}}
	for shard, b := range all {
		if followed := a.Followed(shard); followed > b.position {
			b.differs("authorizer", fmt.Sprint(shard), "followed position", fmt.Sprintf("at most %d", b.position), followed)
		}
	}
	if err := a.WalkReservations(c.reservation); err != nil {
		return err
	}
	for _, walk := range []func() error{
		func() error { return a.WalkFunds(c.funds) }, c.missingFunds,
		func() error { return a.WalkHolds(c.hold) }, c.missingHolds,
		func() error { return a.WalkDue(c.dueLine) }, c.missingDue,
		func() error { return a.WalkRules(c.rule) }, c.missingRules,
		func() error { return a.WalkSpends(c.spend) }, c.missingSpends,
	} {
		if err := walk(); err != nil {
			return err
		}
	}
	return nil
}

// of returns the books that an id belongs to, nil when they are not compared now.
func (c *comparison) of(id ident.UUID) *books { return c.books[id.Shard()] }

func (c *comparison) reservation(r Reservation) error {
	b := c.of(r.Workspace)
	if b == nil {
		return nil
	}
	total := c.reserved[r.Workspace]
	b.sum("reservation", r.ID.Format(ident.Reservation), "reserved", &total, r.Cents)
	c.reserved[r.Workspace] = total
	b.differs("reservation", r.ID.Format(ident.Reservation), "of "+r.Workspace.Format(ident.Workspace), "settled or released",
		r.Cents)
	return nil
}

func (c *comparison) see(id ident.UUID) {
	if c.seen == nil {
		c.seen = map[ident.UUID]bool{}
	}
	c.seen[id] = true
}

// missing visits the ids of the books that no walk since the last call has seen.
func missing[V any](c *comparison, prefix string, of func(*books) map[string]V, visit func(b *books, id string, v V)) error {
	for _, b := range c.books {
		for id, v := range of(b) {
			u, err := ident.Parse(prefix, id)
			if err != nil {
				b.differs("event", id, "id", "readable", err)
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

func (c *comparison) funds(f Funds) error {
	b := c.of(f.Workspace)
	if b == nil {
		return nil
	}
	c.see(f.Workspace)
	id := f.Workspace.Format(ident.Workspace)
	a := b.account(id)
	b.differs("funds", id, "ledger cents", a.followed, f.Ledger)
	b.differs("funds", id, "card cents", a.card, f.Card)
	b.differs("funds", id, "reserved cents", c.reserved[f.Workspace], f.Reserved)
	return nil
}

func (c *comparison) missingFunds() error {
	return missing(c, ident.Workspace, func(b *books) map[string]*account { return b.accounts },
		func(b *books, id string, a *account) {
			b.differs("funds", id, "ledger cents", a.followed, 0)
			b.differs("funds", id, "card cents", a.card, 0)
		})
}

func (c *comparison) hold(h Hold) error {
	b := c.of(h.ID)
	if b == nil {
		return nil
	}
	c.see(h.ID)
	id := h.ID.Format(ident.Authorization)
	a := b.authorizations[id]
	if a == nil {
		b.differs("hold", id, "authorization", "none", fmt.Sprintf("%s, held %d", h.Status, h.Held))
		return nil
	}
	b.differs("hold", id, "held", a.Held, h.Held)
	b.differs("hold", id, "cleared", a.Cleared, h.Cleared)
	b.differs("hold", id, "refunded", a.Refunded, h.Refunded)
	b.differs("hold", id, "status", a.Status, h.Status)
	b.differs("hold", id, "card", a.Card, named(ident.Card, h.Card))
	b.differs("hold", id, "workspace", a.Workspace, named(ident.Workspace, h.Workspace))
	b.differs("hold", id, "month and cents in it", spent{a.Month, a.MonthCents}, spent{h.Month, h.MonthCents})
	b.differs("hold", id, "expiry", a.expires(), h.ExpiresAt)
	if h.ExpiresAt != 0 {
		c.due[h.ID] = h.ExpiresAt
	}
	return nil
}

func (c *comparison) missingHolds() error {
	return missing(c, ident.Authorization, func(b *books) map[string]*authorization { return b.authorizations },
		func(b *books, id string, a *authorization) { b.differs("hold", id, "held", a.Held, 0) })
}

// named is an id as the journal writes it: nothing for none.
func named(prefix string, id ident.UUID) string {
	if id.IsZero() {
		return ""
	}
	return id.Format(prefix)
}

func (c *comparison) dueLine(d Due) error {
	b := c.of(d.Hold)
	if b == nil {
		return nil
	}
	id := d.Hold.Format(ident.Authorization)
	if b.authorizations[id] == nil {
		b.differs("due", id, "authorization", "none", fmt.Sprint("runs out at ", d.At))
	}
	if c.due[d.Hold] == d.At {
		delete(c.due, d.Hold)
	}
	return nil
}

// missingDue names the holds that would never run out.
func (c *comparison) missingDue() error {
	for id, at := range c.due {
		c.of(id).differs("due", id.Format(ident.Authorization), "line", at, "missing")
	}
	return nil
}

func (c *comparison) rule(r Rule) error {
	b := c.of(r.Card)
	if b == nil {
		return nil
	}
	c.see(r.Card)
	id := r.Card.Format(ident.Card)
	known := b.cards[id]
	if known == nil {
		b.differs("rule", id, "card", "none", r.State)
		return nil
	}
	t := known.followed
	b.differs("rule", id, "version", known.version, r.Version)
	b.differs("rule", id, "state", t.State, r.State)
	b.differs("rule", id, "monthly limit", t.MonthlyLimitUsdCents, r.MonthlyLimit)
	b.differs("rule", id, "per-transaction limit", t.PerTxnLimitUsdCents, r.PerTransaction)
	b.differs("rule", id, "token", t.Token, r.Token)
	b.differs("rule", id, "workspace", t.Workspace, r.Workspace.Format(ident.Workspace))
	b.differs("rule", id, "categories", list(t.AllowedMccs), list(r.MCCs))
	b.differs("rule", id, "merchants", list(t.AllowedMerchants), list(r.Merchants))
	return nil
}

func (c *comparison) missingRules() error {
	return missing(c, ident.Card, func(b *books) map[string]*cardBook { return b.cards },
		func(b *books, id string, known *cardBook) { b.differs("rule", id, "version", known.version, 0) })
}

func (c *comparison) spend(s Spend) error {
	b := c.of(s.Card)
	if b == nil {
		return nil
	}
	c.see(s.Card)
	id := s.Card.Format(ident.Card)
	known := b.card(id)
	b.differs("spend", id, "month and cents", spent{known.month, known.cents}, spent{s.Month, s.Cents})
	return nil
}

func (c *comparison) missingSpends() error {
	return missing(c, ident.Card, func(b *books) map[string]*cardBook { return b.cards },
		func(b *books, id string, known *cardBook) { b.differs("spend", id, "cents", known.cents, 0) })
}
