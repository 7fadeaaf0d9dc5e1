package authorizer

import (
	"errors"
	"time"
	"unsafe"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// Submit decides a message and returns when the answer may be sent: once durable, or after
// AnswerWithin as "timeout" (an authorization) or status 503 (the others). It is safe for
// concurrent use and does not retain m's strings. An answer with Status 0 must not be sent: the
// engine has stopped (see Options.Fatal). It has no error: a failure is an answer. The card
// network's server calls it for each message.
func (e *Engine) Submit(m *hold.Message) hold.Answer {
	t := e.arrive(m.Waited)
	if m.Waited >= hold.AnswerWithin {
		return e.turnedAway(t, m, errLate)
	}
	if err := e.hand(t, m, true); err != nil {
		return e.turnedAway(t, m, err)
	}
	return e.answer(t, m)
}

// arrive makes the ticket of a message that arrived now and waited before.
func (e *Engine) arrive(waited time.Duration) *ticket {
	began := e.clock()
	t := e.newTicket(actDecide)
	e.arm(t, waited)
	t.began = began
	return t
}

// hand submits a message to a decider. Without wait, errBusy means that another message in progress
// has its id. After an error the ticket stays with the caller.
//
// The obvious design decides on the caller's goroutine. It fails when the disk stalls: Pebble then
// blocks inside a commit (it rotates its log) or a read, and the blocked goroutine cannot answer.
// So the caller only waits, and a decider makes the calls that may block.
func (e *Engine) hand(t *ticket, m *hold.Message, wait bool) error {
	if err := e.failure(); err != nil {
		return err
	}
	if !t.admitted && !e.admit(t, wait) || !e.claim(t, m, wait) {
		if !wait {
			return errBusy
		}
		return errLate
	}
	t.keep(m)
	t.view.Now, t.view.MonthStays = t.began.UnixMilli(), e.suspect()
	e.work <- t // has room for every admitted ticket
	return nil
}

// turnedAway answers a message without a decider, and releases its ticket.
func (e *Engine) turnedAway(t *ticket, m *hold.Message, err error) hold.Answer {
	began := t.began
	e.release(t)
	return e.said(m, began, hold.Answer{}, err)
}

// answer waits for a decider's result and answers it. After errLate the ticket may belong to
// another goroutine; otherwise answer releases it.
func (e *Engine) answer(t *ticket, m *hold.Message) hold.Answer {
	began := t.began
	err := e.wait(t)
	if errors.Is(err, errLate) {
		return e.said(m, began, hold.Answer{}, err)
	}
	a := t.answer
	a.ID, a.Message = m.ID, m.Invalid
	e.release(t)
	return e.said(m, began, a, err)
}

// said reports an answer to the listener and returns it.
func (e *Engine) said(m *hold.Message, began time.Time, a hold.Answer, err error) hold.Answer {
	switch {
	case err == nil:
	case e.failure() != nil:
		<-e.failed
		return hold.Answer{}
	case errors.Is(err, errLate):
		a = refuse(m, hold.ReasonTimeout)
	default:
		a = refuse(m, hold.ReasonSystemUnavailable)
	}
	e.listener.Decided(m.Kind, a.Decision, a.Reason, e.clock().Sub(began))
	return a
}

// keep copies a message into the ticket, because the caller's strings are valid only until it has
// its answer.
func (t *ticket) keep(m *hold.Message) {
	t.message, t.text = *m, t.text[:0]
	n := &t.message
	for _, s := range [...]*string{&n.ID, &n.OriginalID, &n.Invalid, &n.Merchant.ID, &n.Merchant.Name,
		&n.Merchant.Country} {
		t.text = append(t.text, *s...)
	}
	rest := unsafe.String(unsafe.SliceData(t.text), len(t.text))
	for _, s := range [...]*string{&n.ID, &n.OriginalID, &n.Invalid, &n.Merchant.ID, &n.Merchant.Name,
		&n.Merchant.Country} {
		*s, rest = rest[:len(*s)], rest[len(*s):]
	}
}

// decideLoop is one decider. A ticket in the sync queue no longer belongs to it.
func (e *Engine) decideLoop() {
	for t := range e.work {
		if t.state.Load() == left { // answered "timeout" before its decision: no effect
			e.release(t)
			continue
		}
		kind, began := t.message.Kind, t.began
		queued, err := e.decide(t)
		e.listener.Staged(kind, e.clock().Sub(began))
		if !queued {
			t.err = err
			e.settle(t)
		}
	}
}

// claim claims the message's own id, and that of the authorization it names.
func (e *Engine) claim(t *ticket, m *hold.Message, wait bool) bool {
	own := networkIDOf(routeOf(m.Kind), m.ID)
	t.own = own
	if m.OriginalID == "" {
		return e.claims.take(t, wait, own)
	}
	t.original = networkIDOf(routeAuthorizations, m.OriginalID)
	return e.claims.take(t, wait, own, t.original)
}

// decide answers a repeat from the store, and decides any other message under the shard's lock.
func (e *Engine) decide(t *ticket) (queued bool, err error) {
	m, now := &t.message, t.view.Now
	first, found, err := e.recall(t, &t.own, now)
	if err != nil {
		return false, err
	}
	if found && !first.tombstone {
		e.listener.Repeated(m.Kind)
		t.answer = repeat(m, &first)
		return false, nil
	}
	if e.lacksDiskSpace(m.Kind) {
		t.answer = refuse(m, hold.ReasonSystemUnavailable)
		return false, nil
	}
	if e.full(m.Kind) {
		t.answer = refuse(m, hold.ReasonBacklogFull)
		return false, nil
	}
	t.view.Tombstoned = found
	if err := e.address(t, m); err != nil {
		return false, err
	}
	return e.step(t)
}

// address finds the hold and the shard of a message. A hold in another shard than the card's
// belongs to another tenant and counts as unknown.
func (e *Engine) address(t *ticket, m *hold.Message) error {
	t.holdID = m.AuthorizationID
	if t.holdID.IsZero() && m.OriginalID != "" {
		first, found, err := e.recall(t, &t.original, t.view.Now)
		if err != nil {
			return err
		}
		t.holdID, t.originalSeen = first.authorization, found && !first.tombstone
	}
	if m.Kind == hold.Reversal {
		t.shard, t.moved = e.shards[t.holdID.Shard()], t.holdID.IsZero()
		return nil
	}
	t.byToken, t.token = true, m.Token
	t.shard = e.shards[m.Token.Slot().Shard()]
	if t.holdID.Shard() != t.shard.id {
		t.holdID = ident.UUID{}
	}
	return nil
}

// full reports whether the backlog has no room for a message of this kind: approvals stop at four
// fifths, facts at the whole.
func (e *Engine) full(k hold.Kind) bool {
	if asks(k) {
		return e.backlog.Load() >= e.approvalsMax
	}
	return e.backlog.Load() >= e.backlogMax
}

// answer returns the answer of an entry. The caller adds the message's own fields.
func answer(e *hold.Entry) hold.Answer {
	return hold.Answer{
		Status: hold.StatusOK, Authorization: e.After.ID, Decision: e.Decision, Reason: e.Reason, Approved: e.Approved,
		Held: e.After.Held,
	}
}

// repeat returns the first answer, or the mismatch of another message under the same id.
func repeat(m *hold.Message, first *remembered) hold.Answer {
	if first.fingerprint != m.Fingerprint {
		a := refuse(m, hold.ReasonDuplicateMismatch)
		if !asks(m.Kind) {
			a.Status = hold.StatusConflict
		}
		return a
	}
	if first.reason == hold.ReasonTimeout {
		return refuse(m, hold.ReasonTimeout)
	}
	return hold.Answer{
		Status: hold.StatusOK, Authorization: first.authorization, Decision: first.decision, Reason: first.reason,
		Approved: first.approved, Held: first.held,
	}
}

// refuse returns the answer without an effect: a decline of an authorization, 503 for a fact.
func refuse(m *hold.Message, r hold.Reason) hold.Answer {
	a := hold.Answer{Status: hold.StatusOK, ID: m.ID, Decision: hold.Declined, Reason: r}
	if !asks(m.Kind) {
		a.Status, a.Decision = hold.StatusFull, 0
	}
	return a
}

// asks reports whether a kind requests money; other kinds report a fact.
func asks(k hold.Kind) bool { return k == hold.Authorization || k == hold.Incremental }

// step decides a ticket under its shard's lock. It reads cold data before the lock, and again if
// the shard has changed since. The last attempt reads under the lock of the ticket's then shard.
func (e *Engine) step(t *ticket) (queued bool, err error) {
	if !t.holdID.IsZero() {
		if err := e.read(t); err != nil {
			return false, err
		}
	}
	for attempt := 1; ; attempt++ {
		ready, queued, err := e.try(t, underLock(attempt))
		if err != nil || ready {
			return queued, err
		}
		if err := e.read(t); err != nil {
			return false, err
		}
	}
}

// underLock reports whether an attempt reads under the lock: the last of loadAttempts, and any
// later one after the ticket moved to another shard.
func underLock(attempt int) bool { return attempt >= loadAttempts }

func (e *Engine) try(t *ticket, last bool) (ready, queued bool, err error) {
	sh := t.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	defer sh.cache.trim()
	if last {
		if err := e.read(t); err != nil {
			return false, false, err
		}
	}
	if !sh.fill(t) {
		return false, false, nil
	}
	if t.homeless() {
		t.move(e.shards[ident.SystemSlot.Shard()])
		return false, false, nil
	}
	queued, err = e.conclude(t)
	return true, queued, err
}

// homeless reports a fact without a known card or authorization, which belongs to the system's
// workspace.
func (t *ticket) homeless() bool {
	return t.act == actDecide && t.view.Rule == nil && t.view.Hold == nil && !asks(t.message.Kind) && !t.moved
}

func (t *ticket) move(to *shard) {
	t.shard, t.moved, t.byToken, t.holdID, t.load = to, true, false, ident.UUID{}, loaded{}
}

// fill sets the decision's data from the cache, or else from the read before the lock. It returns
// false when a read must come first. The card of a reversal, which presents none, is the hold's.
func (sh *shard) fill(t *ticket) bool {
	fresh := t.load.done && t.load.at == sh.changes.Load()
	t.card, t.funds, t.view.Rule, t.view.Hold = nil, nil, nil, nil
	if t.byToken {
		if t.card = sh.cache.byToken(&t.token); t.card == nil {
			if !fresh {
				return false
			}
			if t.load.rule == nil {
				return true // an unknown card, whatever the hold
			}
			t.card = sh.cache.putRule(t.load.rule, t.load.spend)
		}
		t.view.Rule = &t.card.rule
	}
	if !t.holdID.IsZero() {
		if !fresh {
			return false
		}
		if t.load.holdFound {
			t.view.Hold = &t.load.hold
		}
	}
	return sh.fillBalances(t, fresh)
}

func (sh *shard) fillBalances(t *ticket, fresh bool) bool {
	card, workspace := t.moves()
	if workspace == ident.System && sh.id != ident.SystemSlot.Shard() {
		// An unknown message has the system's funds, which are in another shard.
		return true
	}
	if t.card == nil && !card.IsZero() {
		if t.card = sh.cache.byID(&card); t.card == nil {
			if !fresh {
				return false
			}
			t.card = sh.cache.putSpend(&card, t.load.spend)
		}
	}
	if t.funds = sh.cache.fund(&workspace); t.funds == nil {
		if !fresh {
			return false
		}
		t.funds = sh.cache.putFunds(t.load.funds)
	}
	return true
}

// moves returns the card and the workspace whose spend and funds the decision changes.
func (t *ticket) moves() (card, workspace ident.UUID) {
	switch {
	case t.view.Rule != nil:
		return t.view.Rule.Card, t.view.Rule.Workspace
	case t.view.Hold != nil:
		return t.view.Hold.Card, t.view.Hold.Workspace
	}
	return ident.UUID{}, ident.System
}

// conclude decides under the lock and commits. A queued ticket may belong to another goroutine.
func (e *Engine) conclude(t *ticket) (queued bool, err error) {
	if t.act == actDecide && t.view.Rule == nil && asks(t.message.Kind) {
		// An unknown card's decline is not stored: strangers could fill the log with them.
		hold.Decide(&t.view, &t.message, &t.entry)
		t.answer = answer(&t.entry)
		return false, nil
	}
	if t.view.Spendable, err = spendable(t.funds); err != nil {
		return false, err
	}
	if t.card != nil {
		t.view.Spend = t.card.spend
	}
	if err := e.judge(t); err != nil || t.stale {
		return false, err
	}
	t.answer = answer(&t.entry)
	if err := e.commit(t); err != nil {
		return false, err
	}
	return true, nil
}

// judge makes the ticket's entry.
func (e *Engine) judge(t *ticket) (err error) {
	switch t.act {
	case actDecide:
		if t.view.NewID, err = e.newID(t); err != nil {
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

func (e *Engine) newID(t *ticket) (ident.UUID, error) {
	random, err := t.shard.random.draw(&e.entropy)
	if err != nil {
		return ident.UUID{}, err
	}
	slot := ident.SystemSlot
	if t.byToken {
		slot = t.token.Slot()
	}
	return ident.FromRandom(slot, time.UnixMilli(t.view.Now), random), nil
}
