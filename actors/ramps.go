package actors

import (
	"context"
	"errors"
	"time"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/ramp"
)

// What the ramp's partner is to be told of, be it an account, a wallet or an order, has a timer that its actor commits with it
// and arms again until the partner has answered. The actor answers the timer with what is to be told, and it is told outside of
// the timers' round, one thing at a time of each workspace. All that the partner is told has an id and may be told again: so a
// crash at any point tells it once more, and what the partner does not answer is told until it does.

// Limits of the conversation with the ramp's partner.
const (
	maxRampCalls = 64 // under way, at most one of a workspace
	rampWithin   = 10 * time.Second
)

// rampDue is something that the ramp's partner is to be told of. Kind is that of its record.
type rampDue struct{ workspace, kind, id string }

// RampFee asks the partner for the most that an order of so many cents costs. Without a partner, or when it does not do such an
// order, it is capability_unavailable.
func (s *System) RampFee(ctx context.Context, direction string, cents int64) (int64, error) {
	if s.ramp == nil {
		return 0, fault.New(fault.CapabilityUnavailable, "there is no partner for the ramp")
	}
	fee, err := s.ramp.Fee(ctx, direction, cents)
	switch {
	case errors.Is(err, partner.ErrRefused):
		return 0, fault.New(fault.CapabilityUnavailable, "the ramp does not do such an order")
	case err != nil:
		s.log.Warn("the ramp named no fee", "err", err)
		return 0, fault.New(fault.Unavailable, "The ramp does not answer; nothing changed.")
	}
	return fee, nil
}

// offerRamp takes what an actor answered to a timer.
func (s *System) offerRamp(workspace string, reply any) {
	if s.ramp == nil {
		return
	}
	switch due := reply.(type) {
	case balance.RampDue:
		s.ramps.offer(rampDue{workspace, balance.RecordRampOrder, due.Order})
	case ramp.Due:
		s.ramps.offer(rampDue{workspace, due.Kind, due.ID})
	}
}

// tellRamp tells the partner of something once, and its actor what was answered.
func (s *System) tellRamp(ctx context.Context, due rampDue) {
	within, cancel := context.WithTimeout(ctx, rampWithin)
	defer cancel()
	tell := map[string]func(context.Context, rampDue) (any, error){
		ramp.RecordAccount: s.linkRamp, ramp.RecordWallet: s.approveWallet, balance.RecordRampOrder: s.orderRamp,
	}[due.kind]
	answer, err := tell(within, due)
	if err == nil && answer != nil {
		kind := "ramp"
		if due.kind == balance.RecordRampOrder {
			kind = "balance"
		}
		_, err = s.Ask(within, Envelope{Kind: kind, Stream: due.workspace, Workspace: due.workspace, Command: answer})
	}
	if err != nil && ctx.Err() == nil {
		s.Complain("ramp", err, "id", due.id)
	}
}

func (s *System) linkRamp(ctx context.Context, due rampDue) (any, error) {
	account, err := readDocument[ramp.Account](ctx, s, ramp.RecordAccount, due.workspace, due.id)
	if err != nil || account.Status != ramp.Pending {
		return nil, err
	}
	return answered(s.ramp.Link(ctx, account.ID, due.workspace), ramp.ConfirmLink{}, ramp.GiveUp{ID: due.id})
}

func (s *System) approveWallet(ctx context.Context, due rampDue) (any, error) {
	w, err := readDocument[ramp.Wallet](ctx, s, ramp.RecordWallet, due.workspace, due.id)
	if err != nil || w.Status != ramp.PendingApproval {
		return nil, err
	}
	return answered(s.ramp.Approve(ctx, partner.RampWallet{ID: w.ID, Chain: w.Chain, Address: w.Address}),
		ramp.ApproveWallet{ID: w.ID}, ramp.GiveUp{ID: due.id})
}

func (s *System) orderRamp(ctx context.Context, due rampDue) (any, error) {
	o, err := readDocument[balance.RampOrder](ctx, s, balance.RecordRampOrder, due.workspace, due.id)
	if err != nil || o.Status != balance.RampCreated {
		return nil, err
	}
	order := partner.RampOrder{ID: o.ID, WorkspaceID: due.workspace, Direction: o.Direction, AmountCents: o.AmountCents,
		MaxFeeCents: o.MaxFeeCents}
	if o.WalletID != "" {
		w, err := readDocument[ramp.Wallet](ctx, s, ramp.RecordWallet, due.workspace, o.WalletID)
		if err != nil {
			return nil, err
		}
		order.Wallet = &partner.RampWallet{ID: w.ID, Chain: w.Chain, Address: w.Address}
	}
	return answered(s.ramp.Order(ctx, order), balance.AcceptRampOrder{ID: o.ID}, balance.RefuseRampOrder{ID: o.ID})
}

// answered is the command that notes the partner's answer; an error when it gave none.
func answered(err error, taken, refused any) (any, error) {
	switch {
	case err == nil:
		return taken, nil
	case errors.Is(err, partner.ErrRefused):
		return refused, nil
	}
	return nil, err
}
