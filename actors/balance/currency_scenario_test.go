package balance_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// currencyStep is a step about balances in currencies. Amounts are minor units; "EUR>JPY" is a
// pair.
func (s *scenario) currencyStep(t *testing.T, a arguments) string {
	workspace := workspaceID.Format(ident.Workspace)
	id := func(prefix string) string {
		made := ident.Derive(77, start, a.text("id")).Format(prefix)
		s.names[made] = a.text("id")
		return made
	}
	switch a.d.Cmd {
	case "set-up":
		return s.send(t, balance.Onboard{Workspace: workspace})
	case "open":
		return s.send(t, balance.OpenCurrency{Workspace: workspace, Currency: money.Currency(a.text("currency")),
			Delay: 2 * time.Second})
	case "pay-in":
		return s.send(t, balance.AnnouncePayin{Workspace: workspace, ID: id(ident.Deposit), Amount: amountOf(a),
			Reference: "Invoice 7", ArrivesAt: s.authorizer.now.Add(2 * time.Second)})
	case "currency-timer":
		return s.send(t, decision.Fire{Key: a.text("timer") + s.id(a.text("of"))})
	case "desk-says":
		return s.send(t, balance.ReportCurrency{EventID: a.text("event"), Workspace: workspace,
			Currency: money.Currency(a.text("currency")), Status: a.text("status"), Scope: a.text("scope")})
	case "quote-pair":
		rate, err := money.ParseRate(a.text("rate"))
		require.NoError(t, err)
		sell, buy, _ := strings.Cut(a.text("pair"), ">")
		side, firm := "sell", 30*time.Second
		if a.d.HasArg("buy") {
			side = "buy"
		}
		if a.d.HasArg("short") {
			firm = time.Second
		}
		return s.send(t, balance.QuoteConversion{Workspace: workspace, ID: id(ident.CurrencyQuote), Rate: rate,
			Firm: firm,
			Pair: balance.QuotePair{Sell: money.Currency(sell), Buy: money.Currency(buy), FixedSide: side,
				AmountMinor: a.minor("amount")}})
	case "convert":
		return s.send(t, balance.CreateConversion{Workspace: workspace, ID: id(ident.Conversion),
			Quote: s.pairs[s.id(a.text("quote"))]})
	case "tell-desk":
		return s.send(t, balance.SubmitConversion{ID: s.id(a.text("id"))})
	case "desk-answers":
		return s.send(t, balance.AnswerConversion{ID: s.id(a.text("id")), Answer: a.text("answer")})
	case "desk-has-not":
		return s.send(t, balance.LapseConversion{ID: s.id(a.text("id"))})
	case "desk-reports":
		v := s.conversions[s.id(a.text("id"))]
		return s.send(t, balance.ReportConversion{EventID: a.text("event"), ID: v.ID, Outcome: a.text("outcome")})
	}
	return s.currencies()
}

var currencySteps = []string{"set-up", "open", "pay-in", "currency-timer", "desk-says", "quote-pair", "convert",
	"tell-desk",
	"desk-answers", "desk-reports", "desk-has-not", "currencies"}

func amountOf(a arguments) balance.Amount {
	return balance.Amount{Currency: money.Currency(a.text("currency")), AmountMinor: a.minor("amount")}
}

func (s *scenario) currencies() string {
	var out strings.Builder
	for _, a := range s.state.Currencies {
		fmt.Fprintf(&out, "%s: available %d, held %d, %s, %s\n", a.Currency, a.AvailableMinor, a.HeldMinor, a.Status,
			a.Scope)
	}
	return out.String()
}

// describeCurrency shows a record about balances in currencies; "" for any other record.
func (s *scenario) describeCurrency(t *testing.T, r decision.Record) string {
	switch doc := r.Document.(type) {
	case balance.Payin:
		return fmt.Sprintf("%s: %s, %d %s", s.name(doc.ID), doc.Status, doc.Amount.AmountMinor, doc.Amount.Currency)
	case balance.PayinText:
		require.True(t, r.Personal)
		return "sealed: " + doc.Reference
	case balance.Activity:
		require.Equal(t, string(doc.Currency), r.Parent)
		return fmt.Sprintf("%s %s %d %s", doc.Direction, doc.Kind, doc.AmountMinor, doc.Currency)
	case balance.ConversionQuote:
		s.pairs[doc.ID] = doc
		return fmt.Sprintf("%s: %s, %d %s for %d %s at %s", s.name(doc.ID), doc.Status, doc.Sell.AmountMinor,
			doc.Sell.Currency,
			doc.Buy.AmountMinor, doc.Buy.Currency, doc.Rate)
	case balance.Conversion:
		s.conversions[doc.ID] = doc
		return fmt.Sprintf("%s: %s", s.name(doc.ID), doc.Status)
	}
	return ""
}

// Every step is tried on a conversion in every status; want has the allowed ones.
func TestConversionStatusTransitions(t *testing.T) {
	steps := map[string]func(*conversionFixture) error{
		"submit": func(r *conversionFixture) error { return r.send(balance.SubmitConversion{ID: r.id}) },
		"refused": func(r *conversionFixture) error {
			return r.send(balance.AnswerConversion{ID: r.id, Answer: balance.AnswerRefused})
		},
		"silence": func(r *conversionFixture) error {
			return r.send(balance.AnswerConversion{ID: r.id, Answer: balance.AnswerNone})
		},
		"complete": func(r *conversionFixture) error { return r.report(balance.ConversionCompleted) },
		"fail":     func(r *conversionFixture) error { return r.report(balance.ConversionFailed) },
		"unsent":   func(r *conversionFixture) error { return r.send(decision.Fire{Key: "conversion-unsent/" + r.id}) },
		"lapse":    func(r *conversionFixture) error { return r.send(balance.LapseConversion{ID: r.id}) },
	}
	paths := map[string][]string{"held": {}, "provider_submitted": {"submit"}, "outcome_unknown": {"submit", "silence"},
		"completed": {"submit", "complete"}, "rejected": {"submit", "refused"}, "failed": {"submit", "fail"},
		"cancelled": {"unsent"}, "abandoned": {"submit", "silence", "lapse"}}
	want := map[string]string{
		"held submit": "provider_submitted", "held unsent": "cancelled", "provider_submitted refused": "rejected",
		"provider_submitted silence": "outcome_unknown", "provider_submitted complete": "completed",
		"provider_submitted fail": "failed", "provider_submitted lapse": "abandoned",
		"outcome_unknown complete": "completed",
		"outcome_unknown fail":     "failed", "outcome_unknown lapse": "abandoned", "abandoned complete": "completed",
	}
	got := map[string]string{}
	for status, path := range paths {
		for name, step := range steps {
			r := newConversionFixture(t)
			for _, earlier := range path {
				require.NoError(t, steps[earlier](r))
			}
			require.Equal(t, status, r.conversion.Status)
			if name == "lapse" && status == "held" {
				continue // its timer is set by the submission
			}
			err := step(r)
			if r.conversion.Status != status {
				require.NoError(t, err)
				got[status+" "+name] = r.conversion.Status
			}
			r.requireBalanced()
		}
	}
	require.Equal(t, want, got)
}

// conversionFixture is a workspace with one conversion of 100.00 euros into 16,000 yen.
type conversionFixture struct {
	t          *testing.T
	state      balance.State
	records    orderRecords
	now        time.Time
	id         string
	conversion balance.Conversion
	sums       map[string]money.Minor
	reports    int
}

func newConversionFixture(t *testing.T) *conversionFixture {
	r := &conversionFixture{t: t, records: orderRecords{}, now: start, sums: map[string]money.Minor{},
		id: ident.Derive(77, start, "one").Format(ident.Conversion)}
	ws := workspaceID.Format(ident.Workspace)
	require.NoError(t, r.send(balance.Onboard{Workspace: ws}))
	for _, c := range []money.Currency{"EUR", "JPY"} {
		require.NoError(t, r.send(balance.OpenCurrency{Workspace: ws, Currency: c}))
		require.NoError(t, r.send(decision.Fire{Key: "currency-open/" + string(c)}))
	}
	payin := ident.Derive(77, start, "payin").Format(ident.Deposit)
	require.NoError(t, r.send(balance.AnnouncePayin{Workspace: ws, ID: payin,
		Amount: balance.Amount{Currency: "EUR", AmountMinor: 50_000}}))
	require.NoError(t, r.send(decision.Fire{Key: "payin/" + payin}))
	rate, err := money.ParseRate("160")
	require.NoError(t, err)
	d, err := r.state.Decide(decision.Meta{At: r.now}, balance.QuoteConversion{Workspace: ws, ID: "mcq_1", Rate: rate,
		Firm: time.Minute, Pair: balance.QuotePair{Sell: "EUR", Buy: "JPY", FixedSide: "sell", AmountMinor: 10_000}})
	require.NoError(t, err)
	r.applyDecision(d)
	require.NoError(t, r.send(balance.CreateConversion{Workspace: ws, ID: r.id,
		Quote: d.Reply.(balance.ConversionQuote)}))
	return r
}

func (r *conversionFixture) report(outcome string) error {
	r.reports++
	return r.send(balance.ReportConversion{EventID: fmt.Sprint("r-", r.reports), ID: r.id, Outcome: outcome})
}

func (r *conversionFixture) send(command any) error {
	r.records.loadMissing(r.t, &r.state, command)
	d, err := r.state.Decide(decision.Meta{At: r.now}, command)
	if err == nil {
		r.applyDecision(d)
	}
	return err
}

func (r *conversionFixture) applyDecision(d decision.Decision) {
	r.records.storeAll(r.t, d.Records)
	for _, e := range d.Events {
		r.state.Apply(e)
		for _, p := range minorPostings(e) {
			r.sums[p.Account+" "+string(p.Currency)] += p.Amount
		}
	}
	for _, record := range d.Records {
		if v, is := record.Document.(balance.Conversion); is {
			r.conversion = v
		}
	}
}

// requireBalanced compares the balances with the sums of all postings.
func (r *conversionFixture) requireBalanced() {
	totals := map[string]money.Minor{}
	for _, account := range slices.Sorted(maps.Keys(r.sums)) {
		_, currency, _ := strings.Cut(account, " ")
		totals[currency] += r.sums[account]
	}
	for currency, total := range totals {
		require.Zero(r.t, total, currency)
	}
	for _, a := range r.state.Currencies {
		require.Equal(r.t, r.sums["currency "+string(a.Currency)], a.AvailableMinor)
		require.Equal(r.t, r.sums["currency_held "+string(a.Currency)], a.HeldMinor)
	}
}

// minorPostings are the postings of events about balances in currencies.
func minorPostings(e decision.Event) []balance.Posting {
	switch e := e.(type) {
	case balance.PayinArrived:
		return e.Postings
	case balance.ConversionCreated:
		return e.Postings
	case balance.ConversionMoved:
		return e.Postings
	}
	return nil
}
