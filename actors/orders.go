package actors

import (
	"errors"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// OrderState is a State whose orders are records of their own. The entity loads a command's order
// before the decision. Later commands see the order as the staged events changed it.
type OrderState interface {
	State
	Missing(command any) (ref decision.Ref, missing bool)
	Load(ref decision.Ref, document []byte) error
	Loaded() int
	Forget()
}

// maxLoadedOrders is the number of orders in memory from which an actor waits for its staged
// commits and forgets them.
const maxLoadedOrders = 1024

// fetched is sent by an entity to itself when a command's order has been read.
type fetched struct {
	req      *request
	ref      decision.Ref
	document []byte // nil: the workspace has no such record
	err      error
}

// ordersLoaded reports whether a command's order, if it has one, is in the actor's state. It
// returns false when the command has to wait: until its order is read, or, with too many orders in
// memory, until every staged op is settled.
func (n *entity) ordersLoaded(r *request) bool {
	orders, has := n.state.(OrderState)
	if !has {
		return true
	}
	if orders.Loaded() >= maxLoadedOrders {
		if len(n.staged) > 0 {
			n.waiting = append([]*request{r}, n.waiting...)
			n.phase = draining
			return false
		}
		orders.Forget()
	}
	ref, missing := orders.Missing(r.env.Command)
	if missing {
		n.fetchOrder(r, ref)
	}
	return !missing
}

// fetchOrder reads a command's order. No later command is decided before its answer. No staged op
// has changed the order, for then the state would have loaded it.
func (n *entity) fetchOrder(r *request, ref decision.Ref) {
	n.phase = fetching
	workspace := r.env.Workspace
	go func() {
		document, err := n.readOrder(workspace, ref)
		n.sys.root.Send(n.self, &fetched{req: r, ref: ref, document: document, err: err})
	}()
}

// readOrder returns the order's document, or nil for an order that does not exist or belongs to
// another workspace. It fails with ErrUnavailable while the shard's last commit is unresolved, and
// with the store's error.
func (n *entity) readOrder(workspace string, ref decision.Ref) ([]byte, error) {
	if n.shard.lost.Load() {
		return nil, persistence.ErrUnavailable
	}
	if slot, err := ident.SlotOf(ref.ID); err != nil || slot != n.slot {
		return nil, nil
	}
	ctx, cancel := n.sys.Within(n.sys.laneCtx, loadTimeout)
	defer cancel()
	record, err := n.sys.journal.Record(ctx, n.slot, ref.Kind, ref.ID)
	switch {
	case errors.Is(err, persistence.ErrNotFound), err == nil && record.Workspace != workspace:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return record.Document, nil
}

// onFetched takes an order that readOrder read into the actor's state, and decides its command. The
// answer is unavailable when the read failed, and internal when the document does not decode. After
// a failed commit the command is decided again on the stored state.
func (n *entity) onFetched(m *fetched) {
	if n.phase != fetching { // a panic came in between
		n.answerOnce(m.req, nil, outcomeUnknown())
		return
	}
	n.phase = open
	if n.failed {
		n.retry = append(n.retry, m.req)
		n.phase = draining
		n.decideWaiting()
		return
	}
	err := m.err
	if err == nil {
		if err = n.state.(OrderState).Load(m.ref, m.document); err != nil {
			err = fault.New(fault.Internal, "The stored order cannot be decoded; nothing changed.")
		}
	} else {
		n.sys.Complain("order not loaded", err, "kind", m.ref.Kind)
		err = fault.New(fault.Unavailable, "The order could not be read; nothing changed.")
	}
	if err != nil {
		n.stageAnswer(&op{req: m.req, err: err})
	} else {
		n.waiting = append([]*request{m.req}, n.waiting...)
	}
	n.decideWaiting()
}
