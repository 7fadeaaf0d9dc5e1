package authorizer

import (
	"time"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// decider decides tickets under the locks of their shards, and commits them.
type decider struct {
	store    *store
	shards   *shardTable
	buckets  *buckets
	backlog  *backlog
	room     *diskRoom
	entropy  *entropy
	commits  *committer
	listener Listener
}

// decideTicket answers a repeat from the store, and decides any other message under the shard's
// lock.
func (d *decider) decideTicket(t *ticket) (queued bool, err error) {
	m, now := &t.message, t.view.Now
	first, found, err := d.buckets.recallAnswer(d.store, &t.scratch, &t.own, now)
	if err != nil {
		return false, err
	}
	if found && !first.tombstone {
		d.listener.Repeated(m.Kind)
		t.answer = repeat(m, &first)
		return false, nil
	}
	if d.room.lacksRoom(m.Kind) {
		t.answer = refuse(m, hold.ReasonSystemUnavailable)
		return false, nil
	}
	if d.backlog.full(m.Kind) {
		t.answer = refuse(m, hold.ReasonBacklogFull)
		return false, nil
	}
	if !d.store.projector.awaitRoom(d.commits.failStop.failed) || t.state.Load() == left {
		return false, ErrStopped
	}
	t.view.Tombstoned = found
	if err := d.addressTicket(t, m); err != nil {
		return false, err
	}
	return d.decideStep(t)
}

// decideHot decides a new authorization whose data is in memory. It waits for no lock and reads no
// disk. It is false, and has no effect, for any other message.
func (d *decider) decideHot(t *ticket) (done, queued bool, err error) {
	m := &t.message
	if m.Kind != hold.Authorization || !m.AuthorizationID.IsZero() || m.OriginalID != "" ||
		d.room.lacksRoom(m.Kind) || d.backlog.full(m.Kind) || d.store.projector.lacksRoom() ||
		!d.buckets.isNew(&t.own, t.view.Now) {
		return false, false, nil
	}
	sh := d.shards[m.Token.Slot().Shard()]
	if !sh.mu.TryLock() {
		return false, false, nil
	}
	defer sh.mu.Unlock()
	defer sh.cache.evictOldest()
	t.byToken, t.token, t.shard = true, m.Token, sh
	if !sh.fill(t) {
		return false, false, nil
	}
	queued, err = d.concludeTicket(t)
	return true, queued, err
}

// addressTicket finds the hold and the shard of a message. A hold in another shard than the card's
// belongs to another tenant and counts as unknown.
func (d *decider) addressTicket(t *ticket, m *hold.Message) error {
	t.holdID = m.AuthorizationID
	if t.holdID.IsZero() && m.OriginalID != "" {
		if err := d.buckets.recallOriginal(d.store, t, t.view.Now); err != nil {
			return err
		}
		t.holdID = t.named.authorization
	}
	if m.Kind == hold.Reversal {
		t.shard, t.moved = d.shards[t.holdID.Shard()], t.holdID.IsZero()
		return nil
	}
	t.byToken, t.token = true, m.Token
	t.shard = d.shards[m.Token.Slot().Shard()]
	if t.holdID.Shard() != t.shard.id {
		t.holdID = ident.UUID{}
	}
	return nil
}

// decideStep decides a ticket under its shard's lock. It reads cold data before the lock, and again
// if the shard has changed since. The last attempt reads under the lock of the ticket's then shard.
func (d *decider) decideStep(t *ticket) (queued bool, err error) {
	if !t.holdID.IsZero() {
		if err := d.store.readInputs(t); err != nil {
			return false, err
		}
	}
	for attempt := 1; ; attempt++ {
		ready, queued, err := d.tryDecide(t, underLock(attempt))
		if err != nil || ready {
			return queued, err
		}
		if err := d.store.readInputs(t); err != nil {
			return false, err
		}
	}
}

// underLock reports whether an attempt reads under the lock: the last of loadAttempts, and any
// later one after the ticket moved to another shard.
func underLock(attempt int) bool { return attempt >= loadAttempts }

// tryDecide decides under the lock. ready is false when the ticket's inputs must be read first, or
// when the ticket moved to another shard. It fails only with an error of the store or of the
// entropy, or with ErrStopped.
func (d *decider) tryDecide(t *ticket, last bool) (ready, queued bool, err error) {
	sh := t.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	defer sh.cache.evictOldest()
	if last {
		if err := d.store.readInputs(t); err != nil {
			return false, false, err
		}
	}
	if !sh.fill(t) {
		return false, false, nil
	}
	if t.hasNoShard() {
		t.move(d.shards[ident.SystemSlot.Shard()])
		return false, false, nil
	}
	queued, err = d.concludeTicket(t)
	return true, queued, err
}

// hasNoShard reports a fact without a known card or authorization, which belongs to the system's
// workspace.
func (t *ticket) hasNoShard() bool {
	return t.act == actDecide && t.view.Rule == nil && t.view.Hold == nil && !asksForAmount(t.message.Kind) && !t.moved
}

// move makes a ticket the concern of another shard, without a card or an authorization.
func (t *ticket) move(to *shard) {
	t.shard, t.moved, t.byToken, t.holdID, t.load = to, true, false, ident.UUID{}, loaded{}
}

// movedIDs returns the card and the workspace whose spend and funds the decision changes.
func (t *ticket) movedIDs() (card, workspace ident.UUID) {
	switch {
	case t.view.Rule != nil:
		return t.view.Rule.Card, t.view.Rule.Workspace
	case t.view.Hold != nil:
		return t.view.Hold.Card, t.view.Hold.Workspace
	}
	return ident.UUID{}, ident.System
}

// concludeTicket decides under the lock and commits. A queued ticket may belong to another
// goroutine.
func (d *decider) concludeTicket(t *ticket) (queued bool, err error) {
	if t.act == actDecide && t.view.Rule == nil && asksForAmount(t.message.Kind) {
		// An unknown card's decline is not stored: strangers could fill the log with them.
		hold.Decide(&t.view, &t.message, &t.entry)
		t.answer = answer(&t.entry)
		return false, nil
	}
	if t.view.Spendable, err = spendableCents(t.funds); err != nil {
		return false, err
	}
	if t.card != nil {
		t.view.Spend = t.card.spend
	}
	if err := d.judgeTicket(t); err != nil || t.stale {
		return false, err
	}
	t.answer = answer(&t.entry)
	if err := d.commits.commit(t); err != nil {
		return false, err
	}
	return true, nil
}

// judgeTicket makes the ticket's entry.
func (d *decider) judgeTicket(t *ticket) (err error) {
	switch t.act {
	case actDecide:
		// Messages that arrived at once are decided in any order. Their times are in the order of
		// the log.
		t.view.Now = max(t.view.Now, t.shard.at)
		t.shard.at = t.view.Now
		if t.view.NewID, err = d.newID(t); err != nil {
			return err
		}
		hold.Decide(&t.view, &t.message, &t.entry)
		t.entry.Tombstone = t.entry.Tombstone && !t.originalSeen
	case actExpire:
		if t.stale = t.view.Hold == nil || t.view.Hold.ExpiresAt != t.due; !t.stale {
			hold.Expire(&t.view, &t.entry)
		}
	case actReturn:
		if t.view.Hold == nil {
			panic("BUG: an approval without its hold")
		}
		hold.TakeBack(&t.view, &t.approval, &t.entry)
	default:
		panic("BUG: nothing to judge")
	}
	return nil
}

// newID draws an id for a new authorization in the card's slot, by the time of the message. It
// fails only with the entropy's error.
func (d *decider) newID(t *ticket) (ident.UUID, error) {
	random, err := t.shard.random.drawBits(d.entropy)
	if err != nil {
		return ident.UUID{}, err
	}
	slot := ident.SystemSlot
	if t.byToken {
		slot = t.token.Slot()
	}
	return ident.FromRandom(slot, time.UnixMilli(t.view.Now), random), nil
}
