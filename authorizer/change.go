package authorizer

import (
	"encoding/binary"

	"purser/authorizer/hold"
)

// change is an entry with the balances before it; write leaves those after it.
type change struct {
	entry  *hold.Entry
	before *hold.Hold // nil for a new authorization
	spend  hold.Spend
	funds  Funds
}

// write puts an entry and its effects into the ticket's batch: the log, the hold, the spend,
// cardCents with the workspace's sequence, the repeats, and the due index. Seven keys at most.
func (c *change) write(t *ticket, b *buckets) error {
	n, spend := c.entry, c.spend
	hold.Apply(n, &c.spend, &t.after, &c.funds.CardCents)
	t.val = hold.AppendEntry(t.val[:0], n)
	t.key = appendLogKey(t.key[:0], n.Shard, n.Seq)
	if err := t.batch.Set(t.key, t.val, nil); err != nil {
		return err
	}
	t.key = appendFundsKey(t.key[:0], &n.Workspace, termCard)
	t.val = binary.BigEndian.AppendUint64(appendCents(t.val[:0], c.funds.CardCents), n.WsSeq)
	if err := t.batch.Set(t.key, t.val, nil); err != nil {
		return err
	}
	if c.spend != spend {
		t.key, t.val = appendIDKey(t.key[:0], prefixSpend, &n.Card), hold.AppendSpend(t.val[:0], &c.spend)
		if err := t.batch.Set(t.key, t.val, nil); err != nil {
			return err
		}
	}
	if err := c.writeHold(t); err != nil {
		return err
	}
	return c.writeRepeats(t, b)
}

// writeHold keeps the authorization, and the due index in step with it. A moved expiry leaves its
// old key behind: Expire drops it when its time comes.
func (c *change) writeHold(t *ticket) error {
	h := &c.entry.After
	if h.ID.IsZero() || c.before != nil && *c.before == *h {
		return nil
	}
	t.key, t.val = appendIDKey(t.key[:0], prefixHold, &h.ID), hold.AppendHold(t.val[:0], h)
	if err := t.batch.Set(t.key, t.val, nil); err != nil {
		return err
	}
	before := int64(0)
	if c.before != nil {
		before = c.before.ExpiresAt
	}
	switch {
	case h.ExpiresAt == before:
		return nil
	case h.ExpiresAt == 0:
		t.key = appendDueKey(t.key[:0], c.entry.Shard, before, &h.ID)
		return t.batch.Delete(t.key, nil)
	}
	t.key = appendDueKey(t.key[:0], c.entry.Shard, h.ExpiresAt, &h.ID)
	return t.batch.Set(t.key, nil, nil)
}

// writeRepeats remembers the answer for repeats of the message. For the message that a reversal
// names it remembers a tombstone, if that has not arrived, or the rest of an increment.
func (c *change) writeRepeats(t *ticket, b *buckets) error {
	n := c.entry
	if n.Kind == hold.Expiry {
		return nil
	}
	bucket := bucketOf(n.At)
	b.mark(bucket)
	if err := t.remember(bucket, &t.own, rememberedOf(n)); err != nil || n.Kind != hold.Reversal {
		return err
	}
	switch {
	case n.Tombstone:
		return t.remember(bucket, &t.original, remembered{tombstone: true})
	case t.view.OfIncrement && n.HoldDelta != 0:
		t.named.left += n.HoldDelta
		return t.remember(bucket, &t.original, t.named)
	}
	return nil
}

func (t *ticket) remember(bucket uint16, id *networkID, r remembered) error {
	t.key, t.val = appendRepeatKey(t.key[:0], bucket, id), appendRemembered(t.val[:0], &r)
	return t.batch.Set(t.key, t.val, nil)
}
