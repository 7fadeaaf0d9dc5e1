package authorizer

import (
	"sync"
	"time"

	"purser/authorizer/hold"
)

// committer brings tickets from their place among MaxUnsynced to a durable commit. A ticket's
// commit is applied under its shard's lock, and one goroutine awaits the syncs of all shards.
type committer struct {
	store    *store
	failStop *failStop
	buckets  *buckets
	claims   *claims
	listener Listener
	deadline func() <-chan time.Time // Options.Deadline
	// answerWithin is Options.AnswerWithin.
	answerWithin time.Duration

	pool    *sync.Pool
	slots   chan struct{} // an entry for each admitted commit
	queue   chan *ticket  // applied, waiting for the sync
	returns chan *ticket  // answered "timeout", to be undone
}

func newCommitter(s *store, stop *failStop, b *buckets, o *Options) *committer {
	return &committer{
		store: s, failStop: stop, buckets: b, claims: newClaims(), listener: o.Listener, deadline: o.Deadline,
		answerWithin: o.AnswerWithin,
		pool:         newTicketPool(),
		slots:        make(chan struct{}, MaxUnsynced), queue: make(chan *ticket, MaxUnsynced),
		returns: make(chan *ticket, MaxUnsynced),
	}
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

// commit numbers the entry of a ticket, writes it with all that it changes, and queues it for the
// sync. The shard is locked.
func (c *committer) commit(t *ticket) error {
	sh, n := t.shard, &t.entry
	if n.Workspace != t.funds.workspace {
		panic("BUG: an entry of a workspace whose funds are not at hand")
	}
	n.Seq, n.WsSeq, n.Shard = sh.seq+1, t.funds.wsSeq+1, sh.id
	t.logged = true
	after := change{entry: n, before: t.view.Hold, spend: t.view.Spend, funds: t.funds.funds}
	t.batch = c.store.newBatch()
	if err := after.write(t, c.buckets); err != nil {
		return err
	}
	if err := c.apply(t); err != nil {
		return err
	}
	sh.seq = n.Seq
	t.funds.funds, t.funds.wsSeq = after.funds, n.WsSeq
	if t.card != nil {
		t.card.spend = after.spend
	}
	sh.backlog.entries.Add(1)
	c.enqueueTicket(t)
	return nil
}

// apply makes the ticket's batch visible; a failure stops the engine.
func (c *committer) apply(t *ticket) error {
	if err := c.failStop.failure(); err != nil {
		return err
	}
	if err := c.failStop.failOn(c.store.apply(t.batch)); err != nil {
		return err
	}
	t.shard.changes.Add(1)
	return nil
}

// enqueueTicket hands an applied batch to the syncer. It is called under the shard's lock, so that
// a shard's commits arrive in order; the queue has room for every admitted ticket.
func (c *committer) enqueueTicket(t *ticket) {
	t.queued = true
	c.queue <- t
}

// syncLoop waits for the syncs in the order of the commits and notifies the owners.
func (c *committer) syncLoop() {
	for t := range c.queue {
		err := c.store.await(t.batch)
		t.batch = nil
		if err != nil {
			c.failStop.fail(err)
		}
		t.err = c.failStop.failure()
		if t.err == nil && t.logged {
			t.shard.advanceSeq(t.entry.Seq)
			c.listener.Synced(t.shard.id)
		}
		c.settleTicket(t)
	}
	close(c.returns)
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
