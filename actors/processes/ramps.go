package processes

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/fairshare"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/query"
	"purser/actors/ramp"
	"purser/persistence/money"
)

// Limits of the calls to the ramp's partner.
const (
	maxRampCalls = 64 // in flight, at most one of a workspace
	rampWithin   = 10 * time.Second
)

// Ramps gives the ramp's partner accounts, wallets and orders.
//
// Each of these has a timer that its actor commits with it and sets again until the partner has
// answered. The actor's answer to the timer names the account, wallet or order, and the call is
// made outside of the round of timers, one at a time for each workspace. All that the partner is
// given has an id and may be given again, so that a repeat after a crash changes nothing.
type Ramps struct {
	runtime Runtime
	ramp    partner.Ramp // nil: no partner
	calls   *dispatcher[rampCall]
	log     *slog.Logger
}

// rampCall is a due call to the partner. kind and id name the record of the account, wallet or
// order that the call sends.
type rampCall struct{ workspace, kind, id string }

func newRamps(runtime Runtime, c *Config) *Ramps {
	r := &Ramps{runtime: runtime, ramp: c.Ramp, log: c.Logger}
	r.calls = newDispatcher(runtime, fairshare.New(c.rampCalls(), 1), r.call,
		func(c rampCall) (line, workspace string) { return c.workspace, c.workspace })
	return r
}

// RampFee asks the partner for the highest fee of an order of so many cents, in cents. It fails
// with capability_unavailable without a partner and for an order that the partner does not take,
// and with unavailable when the partner does not answer.
func (r *Ramps) RampFee(ctx context.Context, direction string, cents money.Cents) (money.Cents, error) {
	if r.ramp == nil {
		return 0, fault.New(fault.CapabilityUnavailable, "there is no partner for the ramp")
	}
	fee, err := r.ramp.Fee(ctx, direction, cents)
	switch {
	case errors.Is(err, partner.ErrRefused):
		return 0, fault.New(fault.CapabilityUnavailable, "the ramp does not do such an order")
	case err != nil:
		r.log.Warn("the ramp named no fee", "err", err)
		return 0, fault.New(fault.Unavailable, "The ramp does not answer; nothing changed.")
	}
	return fee, nil
}

// handleTimer starts the call that an actor's answer to its timer asks for, if it asks for one. It
// never blocks.
func (r *Ramps) handleTimer(workspace string, reply any) {
	if r.ramp == nil {
		return
	}
	switch due := reply.(type) {
	case balance.RampDue:
		r.calls.offer(rampCall{workspace, balance.RecordRampOrder, due.Order})
	case ramp.Due:
		r.calls.offer(rampCall{workspace, due.Kind, due.ID})
	}
}

// rampCalls has the call for each kind of record.
var rampCalls = map[string]func(*Ramps, context.Context, rampCall) (any, error){
	ramp.RecordAccount: (*Ramps).linkAccount, ramp.RecordWallet: (*Ramps).approveWallet,
	balance.RecordRampOrder: (*Ramps).placeOrder,
}

// call makes a call to the ramp's partner once and commits the partner's answer. A failed call is
// logged, and made again by the timer.
func (r *Ramps) call(ctx context.Context, c rampCall) {
	within, cancel := r.runtime.Within(ctx, rampWithin)
	defer cancel()
	answer, err := rampCalls[c.kind](r, within, c)
	if err == nil && answer != nil {
		kind := actors.KindRamp
		if c.kind == balance.RecordRampOrder {
			kind = actors.KindBalance
		}
		_, err = r.runtime.Ask(within, actors.Envelope{Kind: kind, Stream: c.workspace, Workspace: c.workspace,
			Command: answer})
	}
	if err != nil && ctx.Err() == nil {
		r.runtime.Complain("ramp", err, "id", c.id)
	}
}

// linkAccount has the partner link a pending account, and returns the command that notes its
// answer, nil when the account is no longer pending. It fails when the record cannot be read or the
// partner does not answer. approveWallet and placeOrder do the same.
func (r *Ramps) linkAccount(ctx context.Context, c rampCall) (any, error) {
	account, err := query.RampAccounts.Read(ctx, r.runtime, c.workspace, c.id)
	if err != nil || account.Status != ramp.Pending {
		return nil, err
	}
	return answerCommand(r.ramp.Link(ctx, account.ID, c.workspace), ramp.ConfirmLink{}, ramp.Refuse{ID: c.id})
}

func (r *Ramps) approveWallet(ctx context.Context, c rampCall) (any, error) {
	w, err := query.RampWallets.Read(ctx, r.runtime, c.workspace, c.id)
	if err != nil || w.Status != ramp.PendingApproval {
		return nil, err
	}
	return answerCommand(r.ramp.Approve(ctx, partner.RampWallet{ID: w.ID, Chain: w.Chain, Address: w.Address}),
		ramp.ApproveWallet{ID: w.ID}, ramp.Refuse{ID: c.id})
}

// placeOrder gives the partner an order, and returns the command that notes its answer, nil when
// the order is no longer new. It fails when a record cannot be read or the partner does not answer.
func (r *Ramps) placeOrder(ctx context.Context, c rampCall) (any, error) {
	o, err := query.RampOrders.Read(ctx, r.runtime, c.workspace, c.id)
	if err != nil || o.Status != balance.RampCreated {
		return nil, err
	}
	order := partner.RampOrder{ID: o.ID, WorkspaceID: c.workspace, Direction: o.Direction, AmountCents: o.AmountCents,
		MaxFeeCents: o.MaxFeeCents}
	if o.WalletID != "" {
		w, err := query.RampWallets.Read(ctx, r.runtime, c.workspace, o.WalletID)
		if err != nil {
			return nil, err
		}
		order.Wallet = &partner.RampWallet{ID: w.ID, Chain: w.Chain, Address: w.Address}
	}
	return answerCommand(r.ramp.Order(ctx, order), balance.AcceptRampOrder{ID: o.ID}, balance.RefuseRampOrder{ID: o.ID})
}

// answerCommand returns the command that notes a partner's answer: taken for a nil err, refused for
// partner.ErrRefused. Any other err, of a call without an answer, is returned.
func answerCommand(err error, taken, refused any) (any, error) {
	switch {
	case err == nil:
		return taken, nil
	case errors.Is(err, partner.ErrRefused):
		return refused, nil
	}
	return nil, err
}
