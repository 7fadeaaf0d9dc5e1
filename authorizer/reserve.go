package authorizer

import (
	"errors"
	"fmt"

	"purser/persistence/ident"
	"purser/persistence/money"
)

// ErrReservationMismatch means that a reservation is known with another amount.
var ErrReservationMismatch = errors.New("authorizer: the reservation exists with another amount")

// Reserve subtracts cents from the workspace's spendable balance, for a debit that is about to be
// appended to the journal. It is durable before it returns true, and false when the funds do not
// suffice. A repeated reservation counts once. It fails for cents out of bounds, with
// ErrReservationMismatch for a known reservation of another amount, with ErrStopped and with the
// store's error.
func (e *Engine) Reserve(workspace, reservation ident.UUID, cents money.Cents) (bool, error) {
	if cents < 0 || cents > money.MaxAmount {
		return false, fmt.Errorf("authorizer: a reservation of %d cents", cents)
	}
	granted := false
	err := e.commits.writeDurably(e.shards.of(workspace), func(t *ticket) (err error) {
		granted, err = newReservation(t, &workspace, &reservation).grantCents(cents, e.commits)
		return err
	})
	return granted && err == nil, err
}

// Release ends a reservation whose debit will not be appended, durably before it returns. An
// unknown reservation changes nothing. It fails with ErrStopped and with the store's error.
func (e *Engine) Release(workspace, reservation ident.UUID) error {
	return e.commits.writeDurably(e.shards.of(workspace), func(t *ticket) error {
		return newReservation(t, &workspace, &reservation).release(e.commits)
	})
}

// reservation is a debit's claim on a workspace's funds. The lock of the ticket's shard is held.
type reservation struct {
	t         *ticket
	store     *store
	workspace *ident.UUID
	key       []byte
}

func newReservation(t *ticket, workspace, id *ident.UUID) *reservation {
	return &reservation{t: t, store: t.shard.store, workspace: workspace, key: appendReservationKey(nil, workspace, id)}
}

// read returns the reserved cents, and false for an unknown reservation.
func (r *reservation) read() (cents money.Cents, found bool, err error) {
	n := uint64(0)
	found, err = r.store.get(r.key, decodeUint64(&n))
	return money.Cents(n), found, err
}

// grantCents reserves the cents when the funds suffice. A known reservation is written again.
func (r *reservation) grantCents(cents money.Cents, c *committer) (bool, error) {
	it, err := r.t.shard.hotFunds(&r.t.scratch, r.workspace)
	if err != nil {
		return false, err
	}
	before, found, err := r.read()
	if err != nil {
		return false, err
	}
	funds := it.funds
	switch {
	case found && before != cents:
		return false, ErrReservationMismatch
	case !found:
		room, err := funds.Spendable()
		if err != nil || cents > room {
			return false, err
		}
		funds.ReservedCents += cents
	}
	return true, r.commit(it, funds, c, func(b *batch) { b.setKey(r.key, appendCents(nil, cents)) })
}

// release gives the cents back to the funds.
func (r *reservation) release(c *committer) error {
	it, err := r.t.shard.hotFunds(&r.t.scratch, r.workspace)
	if err != nil {
		return err
	}
	cents, found, err := r.read()
	if err != nil || !found {
		return err
	}
	funds := it.funds
	funds.ReservedCents -= cents
	return r.commit(it, funds, c, func(b *batch) { b.deleteKey(r.key) })
}

// commit writes the reservation's key with the sum of all reservations.
func (r *reservation) commit(it *fundsItem, funds Funds, c *committer, change func(b *batch)) error {
	b := newBatch()
	change(b)
	writeReserved(b, &it.workspace, &funds)
	it.funds = funds
	return c.commitBatch(r.t, b)
}
