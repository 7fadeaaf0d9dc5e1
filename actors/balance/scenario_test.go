package balance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/fault"
	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// scenario is one workspace with its cards. Amounts are cents. hold.Decide decides the card
// messages, and their entries wait until a relay step.
type scenario struct {
	state      balance.State
	records    orderRecords
	authorizer *authorizerModel
	names      map[string]string // ids → their names in the scenario
	relayed    int
	payouts    map[string]balance.Payout // by id, from their records
	quotes     map[string]balance.Quote
	orders     map[string]balance.PhysicalOrder
	// pairs and conversions are by id, from their records.
	pairs       map[string]balance.ConversionQuote
	conversions map[string]balance.Conversion
	ramp        rampRecords
}

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step {
		s := &scenario{
			records: orderRecords{}, authorizer: newAuthorizerModel(), names: map[string]string{},
			payouts: map[string]balance.Payout{},
			quotes:  map[string]balance.Quote{}, orders: map[string]balance.PhysicalOrder{},
			pairs: map[string]balance.ConversionQuote{}, conversions: map[string]balance.Conversion{},
			ramp: newRampRecords(),
		}
		return s.step
	})
}

func (s *scenario) step(t *testing.T, d *datadriven.TestData) string {
	a := arguments{t, d}
	workspace := workspaceID.Format(ident.Workspace)
	switch d.Cmd {
	case "deposit":
		id := ident.Derive(77, s.authorizer.now, a.text("id")).Format(ident.Deposit)
		s.names[id] = a.text("id")
		return s.send(t, balance.CreateDeposit{
			Workspace: workspace, ID: id, Rail: a.text("rail"), AmountUsdCents: a.cents("amount"),
			ExpectedAt: s.authorizer.now.Add(2 * time.Second),
		})
	case "bank-settles":
		return s.send(t, balance.SettleDeposit{EventID: a.text("event"), DepositID: s.id(a.text("deposit"))})
	case "bank-received":
		return s.send(t, balance.ReceiveDeposit{
			Workspace: workspace, EventID: a.text("event"), AmountUsdCents: a.cents("amount"), Rail: a.text("rail"),
			Reference: a.text("reference"),
		})
	case "checkout":
		return s.send(t, balance.CreditCheckout{Workspace: workspace, Session: a.text("session"),
			Cents: a.cents("amount")})
	case "stablecoin-received":
		return s.send(t, balance.ReceiveStablecoin{
			Workspace: workspace, EventID: a.text("event"), Asset: a.text("asset"), Chain: a.text("chain"),
			TxHash:         a.text("tx"),
			AmountUsdCents: a.cents("amount"),
		})
	case "claim":
		return s.send(t, balance.ClaimReport{EventID: a.text("event"), Partner: "bank", Target: a.text("for")})
	case "keep-unmatched":
		return s.send(t, balance.KeepUnmatched{
			EventID: a.text("event"), Partner: "bank", Type: "deposit.settled", Body: json.RawMessage(d.Input),
		})
	case "wait":
		s.authorizer.now = s.authorizer.now.Add(time.Duration(a.cents("hours"))*time.Hour +
			time.Duration(a.cents("seconds"))*time.Second)
		return ""
	case "order", "release", "cancel", "submit", "bank-answers", "bank-reports", "bank-has-not", "timer", "quote",
		"payout", "table":
		return s.payoutStep(t, a)
	case "order-card", "never-minted":
		return s.physicalStep(t, a)
	case "relay":
		return s.relay(t, a)
	case "balances":
		return s.balances(t)
	}
	if slices.Contains(currencySteps, d.Cmd) {
		return s.currencyStep(t, a)
	}
	if slices.Contains(rampSteps, d.Cmd) {
		return s.rampStep(t, a)
	}
	return s.message(t, a)
}

// message sends a card message. The step's command is its kind; card and amount are its arguments.
func (s *scenario) message(t *testing.T, a arguments) string {
	var kind hold.Kind
	require.NoError(t, kind.UnmarshalText([]byte(a.d.Cmd)))
	m := hold.Message{
		Kind: kind, ID: a.text("id"), Amount: a.cents("amount"),
		Merchant: hold.Merchant{Name: "Bakery", MCC: 5462, Country: "US"}, Final: a.d.HasArg("final"),
		PartialApproval: a.d.HasArg("partial"), WholeHold: kind == hold.Reversal && !a.d.HasArg("amount"),
	}
	copy(m.Currency[:], a.text("currency"))
	s.authorizer.ledger = s.state.LedgerCents
	var e *hold.Entry
	if kind == hold.Expiry {
		e = s.authorizer.expire(a.text("card"), a.text("of"))
	} else {
		e = s.authorizer.send(m, a.text("card"), a.text("of"))
	}
	s.names[cardNamed(a.text("card")).Format(ident.Card)] = "card " + a.text("card")
	if !e.After.ID.IsZero() {
		s.names[e.After.ID.Format(ident.Authorization)] = "authorization " + e.After.NetworkID
	}
	return fmt.Sprintf("%s (%s)\n", e.Decision, e.Reason)
}

// relay relays all entries not yet relayed: with from=n those from the n-th entry on, with count=n
// only n.
func (s *scenario) relay(t *testing.T, a arguments) string {
	from, to := s.relayed, len(s.authorizer.entries)
	if a.d.HasArg("from") {
		from = int(a.cents("from")) - 1
	}
	if a.d.HasArg("count") {
		to = from + int(a.cents("count"))
	}
	out := s.send(t, balance.Relay{Entries: s.authorizer.entries[from:to]})
	s.relayed = int(s.state.WsSeq)
	return out
}

func (s *scenario) send(t *testing.T, command any) string {
	s.records.loadMissing(t, &s.state, command)
	d, err := decisiontest.Decide(t, &s.state, s.authorizer.now, command)
	var f *fault.Error
	switch {
	case errors.As(err, &f):
		return decisiontest.RefusalLine(t, err)
	case err != nil:
		return "stopped: " + err.Error() + "\n"
	}
	var out strings.Builder
	if d.Debit != nil {
		if d.Debit.Cents > s.state.LedgerCents+s.state.CardCents { // as the authorizer refuses it
			return fmt.Sprintf("refused: the funds do not cover %d\n", d.Debit.Cents)
		}
		fmt.Fprintf(&out, "reserves %d\n", d.Debit.Cents)
	}
	out.WriteString(decisiontest.Apply(t, &s.state, balance.DecodeEvent, d.Events...))
	s.recordOrders(d)
	s.records.storeAll(t, d.Records)
	for _, r := range d.Records {
		fmt.Fprintf(&out, "  %s %s\n", r.Kind, s.describe(t, r))
	}
	for _, once := range d.Onces {
		fmt.Fprintf(&out, "  once %s %s%s\n", once.Scope, s.namedKey(once.Key), claimLifetime(once, s.authorizer.now))
	}
	for _, timer := range d.Timers {
		fmt.Fprintf(&out, "  timer %s\n", s.timerLine(timer))
	}
	postings(&out, d.Events)
	switch reply := d.Reply.(type) {
	case balance.Submission:
		if reply.Send {
			out.WriteString("  to the bank\n")
		}
	case balance.ConversionSubmission:
		if reply.Send {
			out.WriteString("  to the desk\n")
		}
	}
	if out.Len() == 0 {
		return "nothing new\n"
	}
	return out.String()
}

func postings(out *strings.Builder, events []decision.Event) {
	for _, e := range events {
		var legs []balance.Posting
		switch e := e.(type) {
		case balance.DepositSettled:
			legs = e.Postings
		case balance.DepositReceived:
			legs = e.Postings
		case balance.CheckoutCredited:
			legs = e.Postings
		case balance.StablecoinReceived:
			legs = e.Postings
		case balance.Relayed:
			legs = e.Postings
		case balance.PayoutMoved:
			legs = e.Postings
		case balance.PhysicalCardOrdered:
			legs = e.Postings
		case balance.PhysicalCardRefused:
			legs = e.Postings
		default:
			legs = rampPostings(e)
		}
		for i := 0; i < len(legs); i += 2 {
			fmt.Fprintf(out, "  %s %+d, %s %+d\n", legs[i].Account, legs[i].Amount, legs[i+1].Account, legs[i+1].Amount)
		}
		for _, p := range minorPostings(e) {
			fmt.Fprintf(out, "  %s %+d %s\n", p.Account, p.Amount, p.Currency)
		}
	}
}

func (s *scenario) describe(t *testing.T, r decision.Record) string {
	if r.Delete {
		return s.name(r.ID) + ": no more"
	}
	if shown := s.describeCurrency(t, r); shown != "" {
		return shown
	}
	if shown := s.describeRamp(r); shown != "" {
		return shown
	}
	switch doc := r.Document.(type) {
	case balance.PhysicalOrder:
		require.Equal(t, r.ID, doc.ID)
		return fmt.Sprintf("%s: %s, %s, %s, fee %d", s.name(doc.ID), doc.Status, doc.Finish, doc.UnlockMethod,
			doc.FeeCents)
	case balance.PhysicalText:
		require.True(t, r.Personal)
		return fmt.Sprintf("sealed: %s, %s", doc.HolderLabel, doc.Shipping.City)
	case balance.Deposit:
		require.Equal(t, r.ID, doc.ID)
		return fmt.Sprintf("%s: %s, %d by %s", s.name(doc.ID), doc.Status, doc.AmountUsdCents, doc.Rail)
	case balance.LedgerEntry:
		require.Equal(t, r.ID, doc.ID)
		line := fmt.Sprintf("%s %s %d, reference %s", doc.Direction, doc.Source, doc.AmountCents, s.name(doc.Reference))
		if doc.CardID != nil {
			line += ", " + s.name(*doc.CardID)
		}
		return line
	case balance.Authorization:
		require.Equal(t, r.ID, doc.ID)
		return fmt.Sprintf("%s of %s: %s %s (%s), asked %d, held %d, cleared %d, refunded %d, %s", doc.NetworkID,
			s.name(r.Parent), doc.Decision, doc.Reason, doc.ResponseCode, doc.AmountCents, doc.HeldCents,
			doc.ClearedCents,
			doc.RefundedCents, doc.Status)
	case balance.AuthorizationIndex:
		require.Equal(t, r.ID, doc.AuthorizationIDs[0])
		names := make([]string, 0, len(doc.AuthorizationIDs))
		for _, id := range doc.AuthorizationIDs {
			names = append(names, s.name(id))
		}
		return strings.Join(names, ", ")
	case balance.CardSpend:
		return fmt.Sprintf("%s: %d in %d", s.name(r.ID), doc.Cents, doc.Month)
	case balance.Payout:
		require.Equal(t, r.ID, doc.ID)
		return fmt.Sprintf("%s: %s, %d by %s", s.name(doc.ID), doc.Status, doc.AmountCents, doc.Rail)
	case balance.PayoutText:
		require.True(t, r.Personal)
		return "sealed: " + doc.Description
	case balance.Quote:
		require.Equal(t, r.ID, doc.ID)
		return fmt.Sprintf("%s: %s, %d %s for %d %s at %s", s.name(doc.ID), doc.Status, doc.Sell.AmountMinor,
			doc.Sell.Currency,
			doc.Buy.AmountMinor, doc.Buy.Currency, doc.Rate)
	case balance.Unmatched:
		return fmt.Sprintf("%s %s %s: %s", doc.Partner, doc.EventID, doc.Type, doc.Body)
	}
	t.Fatalf("record %T", r.Document)
	return ""
}

func (s *scenario) balances(t *testing.T) string {
	d, err := s.state.Decide(decision.Meta{At: s.authorizer.now}, decision.Read{})
	require.NoError(t, err)
	v := d.Reply.(balance.View)
	var out strings.Builder
	for _, a := range v.Balances {
		require.Equal(t, decision.StampOf(s.authorizer.now), a.AsOf)
		fmt.Fprintf(&out, "%s: available %d, incoming %d, held %d\n", a.Account, a.AvailableCents, a.IncomingCents,
			a.HeldCents)
	}
	fmt.Fprintf(&out, "fiat %d, total %d, spent this month %d\n", v.Snapshot.FiatUsdCents, v.Snapshot.TotalUsdCents,
		v.Snapshot.MonthSpendUsdCents)
	return out.String()
}

func (s *scenario) name(id string) string {
	if name, known := s.names[id]; known {
		return name
	}
	return id
}

func (s *scenario) id(name string) string {
	for id, known := range s.names {
		if known == name {
			return id
		}
	}
	return name
}

// arguments are the arguments of a step, all of them optional.
type arguments struct {
	t *testing.T
	d *datadriven.TestData
}

func (a arguments) text(key string) (value string) {
	a.d.MaybeScanArgs(a.t, key, &value)
	return value
}

func (a arguments) minor(key string) money.Minor {
	value := int64(0)
	a.d.MaybeScanArgs(a.t, key, &value)
	return money.Minor(value)
}

func (a arguments) cents(key string) money.Cents { return a.minor(key).Cents() }
