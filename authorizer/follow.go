package authorizer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// ErrForeignShard means that a followed change, or a replayed entry, is of another shard.
var ErrForeignShard = errors.New("authorizer: it does not belong to this shard")

// maxRulesRecord is the size from which rules of one Follow get a record of their own. A rule that
// a crash leaves without the position is followed once more.
const maxRulesRecord = 256 << 10

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
// error.
func (e *Engine) Follow(shard ident.Shard, f Follow) error {
	err := e.commits.writeDurably(e.shards[shard], func(t *ticket) error {
		return newFollowed(t, e.commits).commit(&f)
	})
	if err == nil {
		e.listener.Followed(shard, f.Through)
	}
	return err
}

// Followed returns the journal position of the shard's rules and funds.
func (e *Engine) Followed(shard ident.Shard) uint64 { return e.shards[shard].followed() }

// followed collects the changes of one Follow in a batch, before they are applied. The
// ticket's shard is locked.
type followed struct {
	t       *ticket
	commits *committer
	store   *store
	batch   *batch
	rules   map[ident.Token]*hold.Rule
	funds   map[ident.UUID]*fundsItem // copies
	ended   map[[32]byte]bool
}

func newFollowed(t *ticket, c *committer) *followed {
	return &followed{
		t: t, commits: c, store: t.shard.store, batch: newBatch(), rules: make(map[ident.Token]*hold.Rule),
		funds: make(map[ident.UUID]*fundsItem), ended: make(map[[32]byte]bool),
	}
}

// commit commits the changes with the position that they reach. A position that was already
// followed changes nothing.
func (d *followed) commit(f *Follow) error {
	t, sh := d.t, d.t.shard
	if f.Through <= sh.follow {
		return nil
	}
	if err := d.collectChanges(f); err != nil {
		return err
	}
	d.batch.setKey(appendShardKey(nil, prefixCursor, sh.id), binary.BigEndian.AppendUint64(nil, f.Through))
	sh.follow = f.Through
	sh.adoptChanges(d)
	return d.commits.commitBatch(t, d.batch)
}

// collectChanges adds all changes to the batch. It fails with ErrForeignShard, with an overflow of
// a ledger and with the store's error.
func (d *followed) collectChanges(f *Follow) error {
	for i := range f.Rules {
		if err := d.addRule(&f.Rules[i]); err != nil {
			return err
		}
	}
	for i := range f.Credits {
		if err := d.addCredit(&f.Credits[i]); err != nil {
			return err
		}
	}
	for i := range f.Settles {
		if err := d.endReservation(&f.Settles[i]); err != nil {
			return err
		}
	}
	for workspace, it := range d.funds {
		writeFollowed(d.batch, &workspace, &it.funds)
	}
	return nil
}

// addRule adds a rule that is newer than the known one.
func (d *followed) addRule(r *hold.Rule) error {
	t := d.t
	if r.Token.Slot().Shard() != t.shard.id || r.Workspace.Shard() != t.shard.id {
		return fmt.Errorf("%w: card %s", ErrForeignShard, r.Card.Format(ident.Card))
	}
	version, err := d.ruleVersion(r)
	if err != nil || r.Version <= version {
		return err
	}
	d.rules[r.Token] = r
	t.key, t.val = appendRuleKey(t.key[:0], &r.Token), hold.AppendRule(t.val[:0], r)
	d.batch.setKey(t.key, t.val)
	if len(d.batch.record) < maxRulesRecord {
		return nil
	}
	full := d.batch
	d.batch = newBatch()
	return d.commits.appendPart(t.shard, full)
}

// ruleVersion returns the version of a card's rule, 0 for a new card.
func (d *followed) ruleVersion(r *hold.Rule) (uint64, error) {
	if newer := d.rules[r.Token]; newer != nil {
		return newer.Version, nil
	}
	if it := d.t.shard.cache.tokens.get(r.Token[:]); it != nil {
		return it.rule.Version, nil
	}
	stored, err := d.store.readRule(&d.t.scratch, &r.Token)
	if err != nil || stored == nil {
		return 0, err
	}
	return stored.Version, nil
}

// addCredit adds an amount to a workspace's ledger, and ends the reservation that it settles.
func (d *followed) addCredit(c *Credit) error {
	it, err := d.stagedFunds(&c.Workspace)
	if err != nil {
		return err
	}
	if it.funds.LedgerCents, err = money.Add(it.funds.LedgerCents, c.Cents); err != nil {
		return fmt.Errorf("authorizer: ledger of %s: %w", c.Workspace.Format(ident.Workspace), err)
	}
	if c.Settles.IsZero() {
		return nil
	}
	return d.endReservation(&Settle{Workspace: c.Workspace, Reservation: c.Settles})
}

// endReservation removes a reservation; an unknown one has ended before.
func (d *followed) endReservation(s *Settle) error {
	it, err := d.stagedFunds(&s.Workspace)
	if err != nil {
		return err
	}
	t := d.t
	t.key = appendReservationKey(t.key[:0], &s.Workspace, &s.Reservation)
	id := [32]byte(t.key[1:])
	cents := uint64(0)
	found, err := d.store.get(t.key, decodeUint64(&cents))
	if err != nil || !found || d.ended[id] {
		return err
	}
	d.ended[id] = true
	it.funds.ReservedCents -= money.Cents(cents)
	d.batch.deleteKey(t.key)
	return nil
}

// stagedFunds returns a copy of a workspace's funds with the changes of this Follow so far.
func (d *followed) stagedFunds(workspace *ident.UUID) (*fundsItem, error) {
	if it := d.funds[*workspace]; it != nil {
		return it, nil
	}
	if workspace.Shard() != d.t.shard.id {
		return nil, fmt.Errorf("%w: %s", ErrForeignShard, workspace.Format(ident.Workspace))
	}
	it, err := d.t.shard.hotFunds(&d.t.scratch, workspace)
	if err != nil {
		return nil, err
	}
	d.funds[*workspace] = &fundsItem{workspace: it.workspace, funds: it.funds, wsSeq: it.wsSeq}
	return d.funds[*workspace], nil
}

// adoptChanges makes the applied changes visible to later decisions.
func (sh *shard) adoptChanges(changes *followed) {
	for token, r := range changes.rules {
		if it := sh.cache.tokens.get(token[:]); it != nil {
			sh.cache.putRule(r, it.spend)
		}
	}
	for workspace, it := range changes.funds {
		if cached := sh.cache.funds.get(workspace[:]); cached != nil {
			cached.funds = it.funds
		}
	}
}
