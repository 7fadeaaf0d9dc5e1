package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"purser/actors"
	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/query"
	"purser/persistence"
)

// accountWithin is how long an account that the bank does not take is retried before the later
// recipients and payouts of its workspace go on without it.
const accountWithin = time.Minute

// errAccountNotTaken: the bank has neither taken an account nor refused it.
var errAccountNotTaken = errors.New("the bank does not take the account")

// recipients gives the bank the accounts of counterparties in exchange for tokens, so that the
// account numbers can be forgotten.
type recipients struct {
	runtime Runtime
	bank    partner.Bank
	log     *slog.Logger
}

// tokenizeNew gives the bank the account of a new recipient. It is the reaction "recipients" to a
// new counterparty. It fails, and is repeated, when the counterparty or the bank does not answer.
// When the bank does not take the account within accountWithin, the first payout to the recipient
// tries again.
func (r *recipients) tokenizeNew(ctx context.Context, e persistence.Event) error {
	_, err := r.bankToken(ctx, e.Workspace, e.Stream)
	if err != nil && r.givesUp(e, err) {
		r.log.Warn("the bank does not take an account; the first payout to it tries again", "counterparty", e.Stream)
		return nil
	}
	return err
}

// givesUp reports whether the bank has not taken an account for longer than accountWithin since e.
func (r *recipients) givesUp(e persistence.Event, err error) bool {
	return errors.Is(err, errAccountNotTaken) && r.runtime.Clock().Sub(e.At) > accountWithin
}

// bankToken returns the bank's token of a recipient's account, "" when the bank refuses the
// account. It gives the bank the account when the recipient has no token yet. It fails with
// errAccountNotTaken when the bank does not answer, and when the counterparty's actor or record
// does not.
func (r *recipients) bankToken(ctx context.Context, workspace, id string) (string, error) {
	recipient, err := r.askCounterparty(ctx, workspace, id, decision.Read{})
	if err != nil || recipient.Token != "" || recipient.Refused {
		return recipient.Token, err
	}
	command, err := r.tokenize(ctx, workspace, id)
	if err != nil {
		return "", err
	}
	recipient, err = r.askCounterparty(ctx, workspace, id, command)
	return recipient.Token, err
}

func (r *recipients) askCounterparty(ctx context.Context, workspace, id string, command any,
) (counterparty.State, error) {
	return actors.ReplyAs[counterparty.State](r.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindCounterparty,
		Stream: id, Workspace: workspace, Command: command}))
}

// tokenize gives the bank a recipient's account and returns the command that replaces the account's
// number by the bank's token, or notes the refusal. It fails with errAccountNotTaken when the bank
// does not answer, and when the record cannot be read.
func (r *recipients) tokenize(ctx context.Context, workspace, id string) (any, error) {
	a, err := query.CounterpartyAccounts.Read(ctx, r.runtime, workspace, id)
	if fault.Is(err, fault.NotFound) { // a concurrent call has stored the token
		return decision.Read{}, nil
	}
	if err != nil {
		return nil, err
	}
	account := partner.Account{Reference: id, Kind: a.Kind, Name: a.Name, RoutingNumber: a.RoutingNumber,
		AccountNumber: a.AccountNumber, AccountType: a.AccountType, BIC: a.BIC, IBAN: a.IBAN,
		Currency: string(a.Currency)}
	if a.Address != nil {
		account.Address = &partner.Address{Line1: a.Address.Line1, City: a.Address.City, Region: a.Address.Region,
			PostalCode: a.Address.PostalCode, Country: a.Address.Country}
	}
	switch token, err := r.bank.Tokenize(ctx, account); {
	case errors.Is(err, partner.ErrRefused):
		return counterparty.Refuse{}, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errAccountNotTaken, err)
	default:
		return counterparty.Tokenize{Token: token}, nil
	}
}
