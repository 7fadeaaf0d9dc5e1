package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"purser/actors/balance"
	"purser/actors/fairshare"
	"purser/actors/partner"
	"purser/persistence/retry"
)

// Limits of the calls to the bank about payouts and conversions.
const (
	maxBankCalls = 512 // in flight; a further order stays reserved until a place is free
	// maxWorkspaceBankCalls of them are one workspace's: orders that the bank does not answer delay
	// those of their own workspace alone.
	maxWorkspaceBankCalls = 16
	askWithin             = 5 * time.Second
	answerTries           = 5 // to commit an answer; without it the order's timer makes the outcome unknown
	answerPause           = 200 * time.Millisecond
	// askedReportID begins the id of a report that is made of the bank's answer to an inquiry. The
	// order's id and the outcome follow.
	askedReportID = "asked/"
)

// bankOrders sends payouts and conversions to the bank, which has the desk, and asks about them. It
// bounds the calls in flight.
type bankOrders struct {
	runtime Runtime
	bank    partner.Bank
	places  *fairshare.Limit
	log     *slog.Logger
}

func newBankOrders(runtime Runtime, c *Config) *bankOrders {
	return &bankOrders{runtime, c.Bank, fairshare.New(c.bankCalls(), maxWorkspaceBankCalls), c.Logger}
}

// acquirePlace waits for one of the workspace's places among the calls to the bank. The caller must
// free it. It fails only when the context ends first.
func (b *bankOrders) acquirePlace(ctx context.Context, workspace string) (free func(), err error) {
	if free, err = b.places.Acquire(ctx, workspace); err != nil {
		return nil, fmt.Errorf("wait for the bank: %w", err)
	}
	return free, nil
}

// callInBackground waits for one of the workspace's places among the calls, and then runs a call in
// a goroutine of its own. It fails only when the context ends before there is a place.
func (b *bankOrders) callInBackground(ctx context.Context, workspace string, call func(context.Context)) error {
	free, err := b.acquirePlace(ctx, workspace)
	if err != nil {
		return err
	}
	b.runtime.Go(func(ctx context.Context) {
		defer free()
		call(ctx)
	})
	return nil
}

// pay sends an order once and returns the bank's answer: taken, refused, or none when the bank did
// not answer in time or already has the order. The answer is "" when the bank stays silent: the
// order's timer then makes the outcome unknown. It asks for the order's reference first, because a
// journal that was restored to an older state lacks the orders sent since.
func (b *bankOrders) pay(ctx context.Context, p partner.Payment) string {
	if p.Account == "" {
		return balance.AnswerRefused // the bank refused the account
	}
	call, cancel := context.WithTimeout(ctx, balance.AnswerWithin)
	defer cancel()
	standing, err := b.bank.Standing(call, p.Reference)
	switch {
	case err == nil:
		b.log.Warn("the bank has the order already; it is not sent again", "payout", p.Reference, "standing", standing)
		return balance.AnswerNone // the order's outcome becomes unknown, and the bank is asked about it
	case errors.Is(err, partner.ErrFull):
		return balance.AnswerRefused
	case !errors.Is(err, partner.ErrUnknown):
		b.log.Warn("the bank was asked about an order and did not answer; it is not sent", "payout",
			p.Reference, "err", err)
		return balance.AnswerNone
	}
	switch err := b.bank.Pay(call, p); {
	case err == nil:
		return balance.AnswerTaken
	case errors.Is(err, partner.ErrRefused), errors.Is(err, partner.ErrFull):
		return balance.AnswerRefused
	case errors.Is(err, partner.ErrSilent):
		return ""
	default:
		b.log.Warn("the bank did not answer an order", "payout", p.Reference, "err", err)
		return balance.AnswerNone
	}
}

// recordAnswer commits the bank's answer to an order. It logs failures and gives up after
// answerTries of them; the order's timer then makes the outcome unknown.
func (b *bankOrders) recordAnswer(ctx context.Context, workspace, id string, answer any) {
	for try := 0; try < answerTries && ctx.Err() == nil; try++ {
		within, cancel := b.runtime.Within(ctx, askWithin)
		_, err := b.runtime.Ask(within, toBalance(workspace, answer))
		cancel()
		if err == nil {
			return
		}
		b.log.Warn("the bank's answer is not noted yet", "order", id, "err", err)
		retry.Pause(ctx, answerPause)
	}
}

// standing asks the bank for the state of an order. It fails with partner.ErrUnknown for an order
// that the bank does not have, and when the bank does not answer.
func (b *bankOrders) standing(ctx context.Context, id string) (partner.Standing, error) {
	return b.bank.Standing(ctx, id)
}
