package authorizer

import (
	"sync"
	"sync/atomic"
	"time"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// committer brings tickets from their place among MaxUnsynced to a durable commit. A ticket's
// commit is applied under its shard's lock, and the log makes those of all shards durable.
type committer struct {
	store    *store
	failStop *failStop
	claims   *claims
	listener Listener
	deadline func() <-chan time.Time // Options.Deadline
	// answerWithin is Options.AnswerWithin.
	answerWithin time.Duration
	onSynced     atomic.Pointer[func(ident.Shard)] // see Engine.OnSynced

	pool    *sync.Pool
	slots   chan struct{} // an entry for each admitted commit
	returns chan *ticket  // answered "timeout", to be undone
}

func newCommitter(s *store, stop *failStop, o *Options) *committer {
	c := &committer{
		store: s, failStop: stop, claims: newClaims(), listener: o.Listener, deadline: o.Deadline,
		answerWithin: o.AnswerWithin,
		pool:         newTicketPool(),
		slots:        make(chan struct{}, MaxUnsynced), returns: make(chan *ticket, MaxUnsynced),
	}
	c.onSynced.Store(new(func(ident.Shard) {}))
	s.settle = c.settleDurable
	return c
}

// Unsynced returns the number of commits that wait for a sync or for a place. At MaxUnsynced the
// next one waits.
func (e *Engine) Unsynced() int { return len(e.commits.slots) }

// takeAllSlots waits for the admitted commits and admits no more.
func (c *committer) takeAllSlots() {
	for range cap(c.slots) {
		c.slots <- struct{}{}
	}
}

// commit numbers the entry of a ticket, makes it visible with all that it changes, and hands it to
// the log. The shard is locked.
func (c *committer) commit(t *ticket) error {
	sh, n := t.shard, &t.entry
	if n.Workspace != t.funds.workspace {
		panic("BUG: an entry of a workspace whose funds are not at hand")
	}
	n.Seq, n.WsSeq, n.Shard = sh.seq+1, t.funds.wsSeq+1, sh.id
	t.logged = true
	if err := c.failStop.failure(); err != nil {
		return err
	}
	after := newChange(t, t.view.Hold, t.view.Spend, t.funds.funds.CardCents)
	record, encoded := after.appendRecord(t.record[:0])
	t.record = record
	c.store.table.Begin()
	defer c.store.table.End()
	c.store.applyChange(&after, encoded, &t.scratch)
	sh.seq = n.Seq
	t.funds.funds.CardCents, t.funds.wsSeq = after.cardCents, n.WsSeq
	if t.card != nil && after.spent {
		t.card.spend = n.Spend
	}
	sh.backlog.entries.Add(1)
	return c.append(t, record)
}

// commitBatch makes the changes of a batch visible and durable like commit. The shard is locked, and
// has adopted the changes.
func (c *committer) commitBatch(t *ticket, b *batch) error {
	if err := c.failStop.failure(); err != nil {
		return err
	}
	c.store.table.Begin()
	defer c.store.table.End()
	if err := c.store.applyBatch(b.record); err != nil {
		return err
	}
	return c.append(t, b.record)
}

// appendPart makes a part of a later batch visible, which is durable with it.
func (c *committer) appendPart(sh *shard, b *batch) error {
	c.store.table.Begin()
	defer c.store.table.End()
	if err := c.store.applyBatch(b.record); err != nil {
		return err
	}
	sh.changes.Add(1)
	_, err := c.store.log.Append(b.record, nil)
	return c.failStop.failOn(err)
}

// append hands a ticket whose changes are visible to the log, in the order of the shard's commits.
// From here on the ticket may belong to another goroutine. A failure stops the engine.
func (c *committer) append(t *ticket, record []byte) error {
	t.shard.changes.Add(1)
	t.queued = true
	_, err := c.store.log.Append(record, t)
	if err != nil {
		t.queued = false
		return c.failStop.failOn(err)
	}
	c.store.projector.askProjection()
	return nil
}

// settleDurable notifies the owners of tickets whose records are durable or have failed, in the
// order of the records.
func (c *committer) settleDurable(durable []*ticket, err error) {
	if err != nil {
		c.failStop.fail(err)
	}
	failure := c.failStop.failure()
	for _, t := range durable {
		if t == nil {
			continue
		}
		t.err = failure
		if failure == nil && t.logged {
			t.shard.synced.Store(t.entry.Seq)
			(*c.onSynced.Load())(t.shard.id)
			c.listener.Synced(t.shard.id)
		}
		c.settleTicket(t)
	}
}

// settleTicket passes a synced ticket on.
func (c *committer) settleTicket(t *ticket) {
	switch {
	case t.state.CompareAndSwap(pending, synced), t.state.CompareAndSwap(doomed, doomedSynced):
		t.done <- struct{}{}
	case t.act == actDecide && t.logged && t.err == nil: // its owner has left
		c.takeBack(t)
	default:
		c.release(t)
	}
}

// takeBack undoes a decision that was answered "timeout". A fact that was answered 503 stays: its
// repeat gets the outcome.
func (c *committer) takeBack(t *ticket) {
	if t.entry.Kind != hold.Authorization && t.entry.Kind != hold.Incremental {
		c.release(t)
		return
	}
	c.returns <- t
}

// writeDurably makes a batch under the shard's lock and waits for its sync. A fill without a batch
// writes nothing.
func (c *committer) writeDurably(sh *shard, fill func(t *ticket) error) error {
	if err := c.failStop.failure(); err != nil {
		return err
	}
	t := c.newTicket(actWrite)
	defer c.release(t)
	c.admitTicket(t)
	t.shard = sh
	if err := t.fillLocked(fill); err != nil || !t.queued {
		return err
	}
	if err := c.wait(t); err != nil {
		<-c.failStop.failed
		return err
	}
	return nil
}

// fillLocked calls fill under the lock of the ticket's shard.
func (t *ticket) fillLocked(fill func(t *ticket) error) error {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	defer t.shard.cache.evictOldest()
	return fill(t)
}
