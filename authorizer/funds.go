package authorizer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Errors of reservations and of following.
var (
	ErrReservationMismatch = errors.New("authorizer: the reservation exists with another amount")
	ErrForeignShard        = errors.New("authorizer: it does not belong to this shard")
)

// Follow holds the changes of a shard's journal up to and including position Through. The engine
// retains the slices of the rules, which must not change afterwards.
type Follow struct {
	Through uint64
	Rules   []hold.Rule
	Credits []Credit
	Settles []Settle
}

// Credit is an amount from the journal, negative for a debit. Settles is the reservation that it
// replaces, or zero.
type Credit struct {
	Workspace ident.UUID
	Cents     money.Cents
	Settles   ident.UUID
}

// Settle ends a reservation without a debit.
type Settle struct{ Workspace, Reservation ident.UUID }

// Follow applies rules and funds of the journal up to f.Through, durably before it returns: no
// later approval uses an older rule. A shard has one caller, in position order. A position that was
// already followed changes nothing, nor does an older version of a rule. It fails with
// ErrForeignShard, with an overflow of a workspace's ledger, with ErrStopped and with the store's
// error. The actors' follower calls it after it has read the journal.
func (e *Engine) Follow(shard ident.Shard, f Follow) error {
	err := e.writeDurably(e.shards[shard], func(t *ticket) error { return e.follow(t, f) })
	if err == nil {
		e.listener.Followed(shard, f.Through)
	}
	return err
}

// Followed returns the journal position of the shard's rules and funds.
func (e *Engine) Followed(shard ident.Shard) uint64 {
	sh := e.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.follow
}

// writeDurably makes a batch under the shard's lock and waits for its sync. A fill without a batch
// writes nothing.
func (e *Engine) writeDurably(sh *shard, fill func(t *ticket) error) error {
	if err := e.failure(); err != nil {
		return err
	}
	t := e.newTicket(actWrite)
	defer e.release(t)
	e.admit(t, true)
	t.shard = sh
	if err := e.fillLocked(t, fill); err != nil || !t.queued {
		return err
	}
	if err := e.wait(t); err != nil {
		<-e.failed
		return err
	}
	return nil
}

func (e *Engine) fillLocked(t *ticket, fill func(t *ticket) error) error {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	defer t.shard.cache.trim()
	return fill(t)
}

// followed collects the changes of one Follow before they are applied.
type followed struct {
	rules map[ident.Token]*hold.Rule
	funds map[ident.UUID]*fundsItem // copies
	ended map[[32]byte]bool
}

func (e *Engine) follow(t *ticket, f Follow) error {
	sh := t.shard
	if f.Through <= sh.follow {
		return nil
	}
	t.batch = e.store.newBatch()
	done := followed{
		rules: make(map[ident.Token]*hold.Rule), funds: make(map[ident.UUID]*fundsItem), ended: make(map[[32]byte]bool),
	}
	if err := e.collect(t, f, &done); err != nil {
		return e.discard(t, err)
	}
	cursor := binary.BigEndian.AppendUint64(nil, f.Through)
	if err := t.batch.Set(appendShardKey(nil, prefixCursor, sh.id), cursor, nil); err != nil {
		return e.discard(t, err)
	}
	if err := e.apply(t); err != nil {
		return err
	}
	sh.follow = f.Through
	sh.adopt(&done)
	e.enqueue(t)
	return nil
}

// discard closes a batch that was not applied.
func (e *Engine) discard(t *ticket, err error) error {
	err = errors.Join(err, t.batch.Close())
	t.batch = nil
	return err
}

func (e *Engine) collect(t *ticket, f Follow, done *followed) error {
	for i := range f.Rules {
		if err := e.followRule(t, &f.Rules[i], done); err != nil {
			return err
		}
	}
	for i := range f.Credits {
		if err := e.credit(t, &f.Credits[i], done); err != nil {
			return err
		}
	}
	for i := range f.Settles {
		if err := e.end(t, &f.Settles[i], done); err != nil {
			return err
		}
	}
	for workspace, it := range done.funds {
		if err := writeFollowed(t, &workspace, &it.funds); err != nil {
			return err
		}
	}
	return nil
}

func writeFollowed(t *ticket, workspace *ident.UUID, f *Funds) error {
	t.key, t.val = appendFundsKey(t.key[:0], workspace, termLedger), appendCents(t.val[:0], f.LedgerCents)
	if err := t.batch.Set(t.key, t.val, nil); err != nil {
		return err
	}
	return writeReserved(t, workspace, f)
}

func writeReserved(t *ticket, workspace *ident.UUID, f *Funds) error {
	t.key, t.val = appendFundsKey(t.key[:0], workspace, termReserved), appendCents(t.val[:0], f.ReservedCents)
	return t.batch.Set(t.key, t.val, nil)
}

func (e *Engine) followRule(t *ticket, r *hold.Rule, done *followed) error {
	if r.Token.Slot().Shard() != t.shard.id || r.Workspace.Shard() != t.shard.id {
		return fmt.Errorf("%w: card %s", ErrForeignShard, r.Card.Format(ident.Card))
	}
	version, err := e.ruleVersion(t, r, done)
	if err != nil || r.Version <= version {
		return err
	}
	done.rules[r.Token] = r
	t.key, t.val = appendRuleKey(t.key[:0], &r.Token), hold.AppendRule(t.val[:0], r)
	return t.batch.Set(t.key, t.val, nil)
}

// ruleVersion returns the version of a card's rule, 0 for a new card.
func (e *Engine) ruleVersion(t *ticket, r *hold.Rule, done *followed) (uint64, error) {
	if newer := done.rules[r.Token]; newer != nil {
		return newer.Version, nil
	}
	if it := t.shard.cache.tokens.get(r.Token[:]); it != nil {
		return it.rule.Version, nil
	}
	stored, err := e.readRule(t, &r.Token)
	if err != nil || stored == nil {
		return 0, err
	}
	return stored.Version, nil
}

func (e *Engine) credit(t *ticket, c *Credit, done *followed) error {
	it, err := e.staged(t, &c.Workspace, done)
	if err != nil {
		return err
	}
	if it.funds.LedgerCents, err = money.Add(it.funds.LedgerCents, c.Cents); err != nil {
		return fmt.Errorf("authorizer: ledger of %s: %w", c.Workspace.Format(ident.Workspace), err)
	}
	if c.Settles.IsZero() {
		return nil
	}
	return e.end(t, &Settle{Workspace: c.Workspace, Reservation: c.Settles}, done)
}

// end removes a reservation; an unknown one has ended before.
func (e *Engine) end(t *ticket, s *Settle, done *followed) error {
	it, err := e.staged(t, &s.Workspace, done)
	if err != nil {
		return err
	}
	t.key = appendReservationKey(t.key[:0], &s.Workspace, &s.Reservation)
	id := [32]byte(t.key[1:])
	cents := uint64(0)
	found, err := e.store.get(e.store.db, t.key, decodeUint64(&cents))
	if err != nil || !found || done.ended[id] {
		return err
	}
	done.ended[id] = true
	it.funds.ReservedCents -= money.Cents(cents)
	return t.batch.Delete(t.key, nil)
}

// staged returns a copy of a workspace's funds with the changes of this Follow so far.
func (e *Engine) staged(t *ticket, workspace *ident.UUID, done *followed) (*fundsItem, error) {
	if it := done.funds[*workspace]; it != nil {
		return it, nil
	}
	if workspace.Shard() != t.shard.id {
		return nil, fmt.Errorf("%w: %s", ErrForeignShard, workspace.Format(ident.Workspace))
	}
	it, err := e.hotFunds(t, t.shard, workspace)
	if err != nil {
		return nil, err
	}
	done.funds[*workspace] = &fundsItem{workspace: it.workspace, funds: it.funds, wsSeq: it.wsSeq}
	return done.funds[*workspace], nil
}

// adopt makes the applied changes visible to later decisions.
func (sh *shard) adopt(done *followed) {
	for token, r := range done.rules {
		if it := sh.cache.tokens.get(token[:]); it != nil {
			sh.cache.putRule(r, it.spend)
		}
	}
	for workspace, it := range done.funds {
		if cached := sh.cache.funds.get(workspace[:]); cached != nil {
			cached.funds = it.funds
		}
	}
}

// Reserve subtracts cents from the workspace's spendable balance, for a debit that is about to be
// appended to the journal. It is durable before it returns true, and false when the funds do not
// suffice. A repeated reservation counts once. It fails for cents out of bounds, with
// ErrReservationMismatch for a known reservation of another amount, with ErrStopped and with the
// store's error. The actors call it before they append the debit.
func (e *Engine) Reserve(workspace, reservation ident.UUID, cents money.Cents) (bool, error) {
	if cents < 0 || cents > money.MaxAmount {
		return false, fmt.Errorf("authorizer: a reservation of %d cents", cents)
	}
	granted := false
	err := e.writeDurably(e.shards[workspace.Shard()], func(t *ticket) (err error) {
		granted, err = e.reserve(t, &workspace, &reservation, cents)
		return err
	})
	return granted && err == nil, err
}

func (e *Engine) reserve(t *ticket, workspace, reservation *ident.UUID, cents money.Cents) (bool, error) {
	it, err := e.hotFunds(t, t.shard, workspace)
	if err != nil {
		return false, err
	}
	key := appendReservationKey(nil, workspace, reservation)
	before := uint64(0)
	found, err := e.store.get(e.store.db, key, decodeUint64(&before))
	if err != nil {
		return false, err
	}
	funds := it.funds
	switch {
	case found && money.Cents(before) != cents:
		return false, ErrReservationMismatch
	case !found:
		room, err := funds.Spendable()
		if err != nil || cents > room {
			return false, err
		}
		funds.ReservedCents += cents
	}
	return true, e.setReservation(t, it, funds, func(b *batch) error {
		return b.Set(key, appendCents(nil, cents),
			nil)
	})
}

// setReservation writes a reservation's key with the sum of all reservations.
func (e *Engine) setReservation(t *ticket, it *fundsItem, funds Funds, set func(b *batch) error) error {
	t.batch = e.store.newBatch()
	if err := errors.Join(set(t.batch), writeReserved(t, &it.workspace, &funds)); err != nil {
		return e.discard(t, err)
	}
	if err := e.apply(t); err != nil {
		return err
	}
	it.funds = funds
	e.enqueue(t)
	return nil
}

// Release ends a reservation whose debit will not be appended, durably before it returns. An
// unknown reservation changes nothing. It fails with ErrStopped and with the store's error. The
// actors call it after a refused or failed append.
func (e *Engine) Release(workspace, reservation ident.UUID) error {
	return e.writeDurably(e.shards[workspace.Shard()], func(t *ticket) error {
		it, err := e.hotFunds(t, t.shard, &workspace)
		if err != nil {
			return err
		}
		key := appendReservationKey(nil, &workspace, &reservation)
		cents := uint64(0)
		found, err := e.store.get(e.store.db, key, decodeUint64(&cents))
		if err != nil || !found {
			return err
		}
		funds := it.funds
		funds.ReservedCents -= money.Cents(cents)
		return e.setReservation(t, it, funds, func(b *batch) error { return b.Delete(key, nil) })
	})
}
