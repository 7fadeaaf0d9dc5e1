package authorizer

import (
	"encoding/binary"

	"purser/authorizer/hold"
	"purser/persistence/money"
)

// change is an entry with its effects on the store's keys.
type change struct {
	entry     *hold.Entry
	cardCents money.Cents // the entry's workspace has them after it
	spent     bool        // the card's spend is another
	held      bool        // the authorization is another
	dueBefore int64       // the authorization's expiry before, 0 for none
	named     *remembered // the new record of the message that a reversal names, or nil
	own       networkID   // of the entry's message
	original  networkID   // of the message that it names
}

// newChange makes the change of a ticket's entry. The balances are those before it; before is nil
// for a new authorization. named is where the record of the named message may be kept.
func newChange(t *ticket, before *hold.Hold, spend hold.Spend, cardCents money.Cents) change {
	n := &t.entry
	h := &n.After
	c := change{
		entry: n, cardCents: cardCents + n.CardDelta, spent: !n.Card.IsZero() && n.Spend != spend,
		held: !h.ID.IsZero() && (before == nil || *before != *h), own: t.own, original: t.original,
	}
	if before != nil {
		c.dueBefore = before.ExpiresAt
	}
	switch {
	case n.Kind != hold.Reversal:
	case n.Tombstone:
		t.named = remembered{tombstone: true}
		c.named = &t.named
	case t.view.OfIncrement && n.HoldDelta != 0:
		t.named.left += n.HoldDelta
		c.named = &t.named
	}
	return c
}

// applyChange makes an entry and its effects visible: the log, the hold, the spend, cardCents with
// the workspace's sequence, the repeats, and the due index. Seven keys at most. Without the encoded
// entry the log stays. The caller has begun a commit.
func (s *store) applyChange(c *change, encoded []byte, sc *scratch) {
	n := c.entry
	if encoded != nil {
		s.table.AddEntry(n.Shard, n.Seq, encoded)
	}
	sc.key = appendFundsKey(sc.key[:0], &n.Workspace, termCard)
	sc.val = binary.BigEndian.AppendUint64(appendCents(sc.val[:0], c.cardCents), n.WsSeq)
	s.table.Set(sc.key, sc.val)
	if c.spent {
		sc.key, sc.val = appendIDKey(sc.key[:0], prefixSpend, &n.Card), hold.AppendSpend(sc.val[:0], &n.Spend)
		s.table.Set(sc.key, sc.val)
	}
	if c.held {
		s.applyHold(c, sc)
	}
	if n.Kind == hold.Expiry {
		return
	}
	bucket := bucketOf(n.At)
	own := rememberedOf(n)
	s.remember(bucket, &c.own, &own, sc)
	if c.named != nil {
		s.remember(bucket, &c.original, c.named, sc)
	}
}

// applyHold keeps the authorization, and the due index in step with it. A moved expiry leaves its
// old key behind: Expire drops it when its time comes.
func (s *store) applyHold(c *change, sc *scratch) {
	h := &c.entry.After
	sc.key, sc.val = appendIDKey(sc.key[:0], prefixHold, &h.ID), hold.AppendHold(sc.val[:0], h)
	s.table.Set(sc.key, sc.val)
	switch {
	case h.ExpiresAt == c.dueBefore:
	case h.ExpiresAt == 0:
		sc.key = appendDueKey(sc.key[:0], c.entry.Shard, c.dueBefore, &h.ID)
		s.table.Delete(sc.key)
		s.projector.noteDue(c.dueBefore)
	default:
		sc.key = appendDueKey(sc.key[:0], c.entry.Shard, h.ExpiresAt, &h.ID)
		s.table.Set(sc.key, nil)
		s.projector.noteDue(h.ExpiresAt)
	}
}

// remember keeps a message's record for its repeats and for the messages that name it.
func (s *store) remember(bucket uint16, id *networkID, r *remembered, sc *scratch) {
	s.buckets.ensureFilter(bucket, false).addID(id, &s.buckets.filterBytes)
	sc.key, sc.val = appendRepeatKey(sc.key[:0], bucket, id), appendRemembered(sc.val[:0], r)
	s.table.Set(sc.key, sc.val)
}
