package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"purser/actors/balance"
	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/persistence"
)

// Limits of the conversation with the bank about payouts.
const (
	maxBankCalls = 512 // calls that wait for the bank's answer; a payout waits for its turn as reserved
	// maxWorkspaceBankCalls of them are one workspace's: payouts that the bank leaves without an
	// answer delay those of their own workspace.
	maxWorkspaceBankCalls = 16
	askWithin             = 5 * time.Second
	accountWithin         = time.Minute // for which a bank that does not take an account holds up those behind it
	answerTries           = 5           // to note an answer; without it the payout's timer says that there was none
	answerPause           = 200 * time.Millisecond
	askedReportID         = "asked/" // before the payout and the standing: the id of a report that the bank gave when it was asked
)

// errAccountNotTaken says that the bank has neither taken an account nor refused it.
var errAccountNotTaken = errors.New("the bank does not take the account")

// sendPayouts tells the bank of what is to be paid, and asks it about what it left without an answer.
//
// A payout is sent once. Its actor lets one asker have it, and commits that before the answer; whoever got it calls the bank, and
// when that process dies nobody calls again: the payout's timer, which was committed with it, makes the outcome unknown, and then
// the bank is asked by our reference, which changes nothing there. So a call that hangs costs a place among maxBankCalls and
// holds nobody up.
func (s *System) sendPayouts(ctx context.Context, e persistence.Event) error {
	event, err := balance.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	switch event := event.(type) {
	case balance.PayoutCreated:
		if event.Payout.Status == balance.PayoutReserved {
			return s.sendPayout(ctx, e, event.Payout.ID)
		}
	case balance.PayoutMoved:
		switch event.To {
		case balance.PayoutReserved:
			return s.sendPayout(ctx, e, event.Payout)
		case balance.PayoutUnknown:
			return s.callBank(ctx, e.Workspace,
				func(ctx context.Context) { s.askStanding(ctx, e.Workspace, event.Payout) })
		}
	}
	return nil
}

// sendPayout gathers what the bank must know, takes a place among the calls, and only then the payout. One whose account the bank
// has not taken in accountWithin fails: it was never sent.
func (s *System) sendPayout(ctx context.Context, e persistence.Event, id string) error {
	workspace := e.Workspace
	p, err := readDocument[balance.Payout](ctx, s, balance.RecordPayout, workspace, id)
	if err != nil || p.Status != balance.PayoutReserved {
		return err
	}
	text, err := readDocument[balance.PayoutText](ctx, s, balance.RecordPayoutText, workspace, id)
	if err != nil {
		return err
	}
	token, err := s.bankToken(ctx, workspace, p.CounterpartyID)
	if err != nil && !s.givesUp(e, err) {
		return err
	}
	free, err := s.bankPlace(ctx, workspace)
	if err != nil {
		return err
	}
	reply, err := s.Ask(ctx, Envelope{Kind: "balance", Stream: workspace, Workspace: workspace,
		Command: balance.SubmitPayout{ID: id}})
	if submission, ok := reply.(balance.Submission); err != nil || !ok || !submission.Send {
		free()
		return err
	}
	s.Go(func(ctx context.Context) {
		defer free()
		answer := s.pay(ctx, paymentOf(p, text.Description, token))
		s.note(ctx, workspace, id, balance.AnswerPayout{ID: id, Answer: answer})
	})
	return nil
}

func paymentOf(p balance.Payout, description, token string) partner.Payment {
	payment := partner.Payment{Reference: p.Reference, Account: token, Rail: p.Rail, SameDay: p.SameDay,
		AmountCents: p.AmountCents, Description: description, UETR: p.UETR}
	if p.Buy != nil {
		payment.BuyCurrency, payment.BuyMinor = string(p.Buy.Currency), p.Buy.AmountMinor
	}
	return payment
}

// pay calls the bank, once, and returns what it answered. The bank is asked by our reference first: a journal that was restored
// to an older state does not know what it has ordered since.
func (s *System) pay(ctx context.Context, p partner.Payment) string {
	if p.Account == "" {
		return balance.AnswerRefused // the bank would not take the account
	}
	call, cancel := context.WithTimeout(ctx, balance.AnswerWithin)
	defer cancel()
	standing, err := s.bank.Standing(call, p.Reference)
	switch {
	case err == nil:
		s.log.Warn("the bank has the order already; it is not sent again", "payout", p.Reference, "standing", standing)
		return balance.AnswerNone // what has become of it is asked for next
	case errors.Is(err, partner.ErrFull):
		return balance.AnswerRefused
	case !errors.Is(err, partner.ErrUnknown):
		s.log.Warn("the bank was asked about an order and did not answer; it is not sent", "payout", p.Reference, "err", err)
		return balance.AnswerNone
	}
	switch err := s.bank.Pay(call, p); {
	case err == nil:
		return balance.AnswerTaken
	case errors.Is(err, partner.ErrRefused), errors.Is(err, partner.ErrFull):
		return balance.AnswerRefused
	default:
		s.log.Warn("the bank did not answer an order", "payout", p.Reference, "err", err)
		return balance.AnswerNone
	}
}

// note tells the balance what the bank answered to an order.
func (s *System) note(ctx context.Context, workspace, id string, answer any) {
	for try := 0; try < answerTries && ctx.Err() == nil; try++ {
		within, cancel := context.WithTimeout(ctx, askWithin)
		_, err := s.Ask(within, Envelope{Kind: "balance", Stream: workspace, Workspace: workspace, Command: answer})
		cancel()
		if err == nil {
			return
		}
		s.log.Warn("the bank's answer is not noted yet", "order", id, "err", err)
		pause(ctx, answerPause)
	}
}

// askStanding asks the bank what has become of a payout that it did not answer. What is final is taken for the bank's report,
// which changes nothing when it comes. What the bank does not know, or does not say, is left for the report or the end of the
// reservation.
func (s *System) askStanding(ctx context.Context, workspace, id string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	standing, err := s.bank.Standing(ctx, id)
	if err == nil {
		err = s.reportStanding(ctx, workspace, id, standing)
	}
	if err != nil {
		s.log.Warn("the bank was asked about a payout", "payout", id, "err", err)
	}
}

func (s *System) reportStanding(ctx context.Context, workspace, id string, standing partner.Standing) error {
	var outcomes []string
	switch standing {
	case partner.Settled:
		outcomes = []string{balance.PayoutSettled}
	case partner.Failed:
		outcomes = []string{balance.PayoutFailed}
	case partner.Returned:
		outcomes = []string{balance.PayoutSettled, balance.PayoutReturned}
	}
	for _, outcome := range outcomes {
		reply, err := s.Ask(ctx, Envelope{Kind: "balance", Stream: workspace, Workspace: workspace,
			Command: balance.ReportPayout{EventID: askedReportID + id + "/" + outcome, ID: id, Outcome: outcome}})
		if err != nil {
			return err
		}
		if reported, ok := reply.(balance.ReportedPayout); ok && reported.Late {
			s.log.Error("a payout settled after its reservation was released", "payout", id)
		}
	}
	return nil
}

// callBank starts a call in a goroutine when the workspace has a place for it.
func (s *System) callBank(ctx context.Context, workspace string, call func(context.Context)) error {
	free, err := s.bankPlace(ctx, workspace)
	if err != nil {
		return err
	}
	s.Go(func(ctx context.Context) {
		defer free()
		call(ctx)
	})
	return nil
}

// bankPlace waits for a place among the workspace's calls to the bank.
func (s *System) bankPlace(ctx context.Context, workspace string) (free func(), err error) {
	if free, err = s.bankCalls.Acquire(ctx, workspace); err != nil {
		return nil, fmt.Errorf("wait for the bank: %w", err)
	}
	return free, nil
}

// tokenizeRecipients hands the accounts of new recipients over to the bank.
func (s *System) tokenizeRecipients(ctx context.Context, e persistence.Event) error {
	_, err := s.bankToken(ctx, e.Workspace, e.Stream)
	if err != nil && s.givesUp(e, err) {
		s.log.Warn("the bank does not take an account; the first payout to it tries again", "counterparty", e.Stream)
		return nil
	}
	return err
}

// givesUp says that an account which the bank does not take has held up the others of its shard for long enough.
func (s *System) givesUp(e persistence.Event, err error) bool {
	return errors.Is(err, errAccountNotTaken) && s.clock().Sub(e.At) > accountWithin
}

// bankToken is the bank's name for a recipient's account, "" when it will not pay to it. It hands the account over when that has
// not been done.
func (s *System) bankToken(ctx context.Context, workspace, id string) (string, error) {
	reply, err := s.Ask(ctx, Envelope{Kind: "counterparty", Stream: id, Workspace: workspace, Command: decision.Read{}})
	if err != nil {
		return "", err
	}
	recipient := reply.(counterparty.State)
	if recipient.Token != "" || recipient.Refused {
		return recipient.Token, nil
	}
	command, err := s.handOver(ctx, workspace, id)
	if err != nil {
		return "", err
	}
	reply, err = s.Ask(ctx, Envelope{Kind: "counterparty", Stream: id, Workspace: workspace, Command: command})
	if err != nil {
		return "", err
	}
	return reply.(counterparty.State).Token, nil
}

// handOver gives the bank a recipient's account and returns the command that forgets its number.
func (s *System) handOver(ctx context.Context, workspace, id string) (any, error) {
	a, err := readDocument[counterparty.Account](ctx, s, counterparty.RecordAccount, workspace, id)
	if fault.Is(err, fault.NotFound) { // another has just handed it over: the token is not lost, the command changes nothing
		return decision.Read{}, nil
	}
	if err != nil {
		return nil, err
	}
	account := partner.Account{Reference: id, Kind: a.Kind, Name: a.Name, RoutingNumber: a.RoutingNumber,
		AccountNumber: a.AccountNumber, AccountType: a.AccountType, BIC: a.BIC, IBAN: a.IBAN, Currency: string(a.Currency)}
	if a.Address != nil {
		account.Address = &partner.Address{Line1: a.Address.Line1, City: a.Address.City, Region: a.Address.Region,
			PostalCode: a.Address.PostalCode, Country: a.Address.Country}
	}
	switch token, err := s.bank.Tokenize(ctx, account); {
	case errors.Is(err, partner.ErrRefused):
		return counterparty.Refuse{}, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errAccountNotTaken, err)
	default:
		return counterparty.Tokenize{Token: token}, nil
	}
}

// readDocument reads a record of a tenant.
func readDocument[D any](ctx context.Context, s *System, kind, workspace, id string) (d D, err error) {
	record, err := s.Record(ctx, kind, workspace, id)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(record.Document, &d); err != nil {
		return d, fmt.Errorf("record %s: %w", kind, err)
	}
	return d, nil
}
