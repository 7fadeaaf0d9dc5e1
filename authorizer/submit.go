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
// engine has stopped (see Options.Fatal).
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

// arrive makes the ticket of a message that is taken now and has waited before.
func (e *Engine) arrive(waited time.Duration) *ticket {
	began := e.clock()
	t := e.newTicket(actDecide)
	e.arm(t, waited)
	t.began = began
	return t
}

// hand gives a message to a decider. errBusy, only if it shall not wait, says that another message
// under way has its id; after any error the ticket is still the caller's.
//
// The obvious design decides on the caller's goroutine. It loses when the disk stalls: Pebble then
// blocks inside a commit (it rotates its log) or a read, and nothing can answer for the goroutine
// that is in there. So the caller only waits, and a decider does what may block.
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
	e.work <- t // it has room for every admitted ticket
	return nil
}

// turnedAway says the answer to a message that no decider has, and gives its ticket back.
func (e *Engine) turnedAway(t *ticket, m *hold.Message, err error) hold.Answer {
	began := t.began
	e.release(t)
	return e.said(m, began, hold.Answer{}, err)
}

// answer waits for what a decider made of a ticket, and says it. After errLate the ticket may
// belong to others; in every other case it is given back here.
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

// said is the answer to give, as the listener hears it.
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

// keep copies a message into the ticket, for the caller's strings are gone once it has answered.
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

// decideLoop is one decider. A ticket that it has queued for the sync is no longer its own.
func (e *Engine) decideLoop() {
	for t := range e.work {
		if t.state.Load() == left { // answered "timeout" before it was decided: nothing happened
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

// claim takes the message's own id, and the one of the authorization it names.
func (e *Engine) claim(t *ticket, m *hold.Message, wait bool) bool {
	own := networkIDOf(routeOf(m.Kind), m.ID)
	t.own = own
	if m.OriginalID == "" {
		return e.claims.take(t, wait, own)
	}
	t.original = networkIDOf(routeAuthorizations, m.OriginalID)
	return e.claims.take(t, wait, own, t.original)
}

// decide answers a repeat from what is remembered, and everything else by a step under the shard's
// lock.
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

// address finds the hold and the shard that a message concerns. A hold of another shard than the
// card's is another tenant's: it is as unknown.
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

// full tells whether the backlog has no room for a message of this kind: at four fifths approvals
// stop, at the whole of it facts are refused too.
func (e *Engine) full(k hold.Kind) bool {
	if asks(k) {
		return e.backlog.Load() >= e.approvalsMax
	}
	return e.backlog.Load() >= e.backlogMax
}

// answer says what an entry decided; the caller adds what is its message's.
func answer(e *hold.Entry) hold.Answer {
	return hold.Answer{
		Status: hold.StatusOK, Authorization: e.After.ID, Decision: e.Decision, Reason: e.Reason, Approved: e.Approved,
		Held: e.After.Held,
	}
}

// repeat gives the first answer again, or says that this is another message under the same id.
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

// refuse is the answer that changes nothing: a decline of what asks, 503 for what reports a fact.
func refuse(m *hold.Message, r hold.Reason) hold.Answer {
	a := hold.Answer{Status: hold.StatusOK, ID: m.ID, Decision: hold.Declined, Reason: r}
	if !asks(m.Kind) {
		a.Status, a.Decision = hold.StatusFull, 0
	}
	return a
}

// asks tells the messages that ask for money from those that report a fact.
func asks(k hold.Kind) bool { return k == hold.Authorization || k == hold.Incremental }

// step brings a ticket under its shard's lock with all that its decision looks at, and decides.
// What is cold is read before the lock; if the shard changed since, it is read again, at last under
// the lock, wherever the ticket has been moved by then.
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

// underLock says whether an attempt reads under the lock: the last of loadAttempts, and whatever
// follows it because the ticket was moved to another shard then.
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

// homeless tells a fact that concerns nothing known here: it belongs to the system's workspace.
func (t *ticket) homeless() bool {
	return t.act == actDecide && t.view.Rule == nil && t.view.Hold == nil && !asks(t.message.Kind) && !t.moved
}

func (t *ticket) move(to *shard) {
	t.shard, t.moved, t.byToken, t.holdID, t.load = to, true, false, ident.UUID{}, loaded{}
}

// fill takes from the cache, else from what was read before the lock, what the decision looks at.
// It is false when something must be read first. A card that is not presented (a reversal's) is the
// hold's.
func (sh *shard) fill(t *ticket) bool {
	fresh := t.load.done && t.load.at == sh.changes.Load()
	t.card, t.funds, t.view.Rule, t.view.Hold = nil, nil, nil, nil
	if t.byToken {
		if t.card = sh.cache.byToken(&t.token); t.card == nil {
			if !fresh {
				return false
			}
			if t.load.rule == nil {
				return true // the card is unknown, whatever the hold
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
		return true // nothing known is concerned, and the system's funds are another shard's
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

// moves is whose spend and funds the decision moves.
func (t *ticket) moves() (card, workspace ident.UUID) {
	switch {
	case t.view.Rule != nil:
		return t.view.Rule.Card, t.view.Rule.Workspace
	case t.view.Hold != nil:
		return t.view.Hold.Card, t.view.Hold.Workspace
	}
	return ident.UUID{}, ident.System
}

// conclude decides under the lock and commits. Once queued the ticket may be another's.
func (e *Engine) conclude(t *ticket) (queued bool, err error) {
	if t.act == actDecide && t.view.Rule == nil && asks(t.message.Kind) {
		hold.Decide(&t.view, &t.message, &t.entry) // not stored: it would fill the log with what no card asked
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
