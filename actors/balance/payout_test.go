package balance_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// payoutStep is a step of a scenario about payouts and quotes. A scenario names a payout as it
// ordered it.
func (s *scenario) payoutStep(t *testing.T, a arguments) string {
	id := s.id(a.text("id"))
	switch a.d.Cmd {
	case "order":
		return s.order(t, a)
	case "release", "cancel":
		return s.send(t, balance.DirectPayout{ID: id, Release: a.d.Cmd == "release"})
	case "submit":
		return s.send(t, balance.SubmitPayout{ID: id})
	case "bank-answers":
		return s.send(t, balance.AnswerPayout{ID: id, Answer: a.text("answer")})
	case "bank-reports":
		return s.send(t, balance.ReportPayout{EventID: a.text("event"), ID: id, Outcome: a.text("outcome")})
	case "bank-has-not":
		return s.send(t, balance.LapsePayout{ID: id})
	case "timer":
		return s.send(t, decision.Fire{Key: a.text("key") + "/" + id})
	case "payout":
		return s.statusPath(s.payouts[id])
	case "table":
		return payoutMoveTable(t)
	}
	return s.quote(t, a)
}

func (s *scenario) order(t *testing.T, a arguments) string {
	id := ident.Derive(77, s.authorizer.now, a.text("id")).Format(ident.Payout)
	s.names[id] = a.text("id")
	c := balance.CreatePayout{
		Workspace: workspaceID.Format(ident.Workspace), ID: id, Key: "key_" + a.text("by"), Rail: a.text("rail"),
		AmountCents: a.cents("amount"), Description: "rent", SameDay: a.d.HasArg("same-day"), UETR: "uetr",
		ExpectedOn: "2025-11-21", Recipient: balance.Recipient{ID: "rcp_" + a.text("to"),
			International: a.d.HasArg("abroad"),
			Currency:      "EUR"}, Limits: balance.PayoutLimits{KeyCents: 25_000_000, WorkspaceCents: 100_000_000},
	}
	if a.d.HasArg("description") {
		c.Description = strings.Repeat("x", int(a.cents("description")))
	}
	if a.d.HasArg("quote") {
		q := s.quotes[s.id(a.text("quote"))]
		c.Quote = &q
	}
	return s.send(t, c)
}

func (s *scenario) quote(t *testing.T, a arguments) string {
	id := ident.Derive(77, s.authorizer.now, a.text("id")).Format(ident.FXQuote)
	s.names[id] = a.text("id")
	rate, err := money.ParseRate(a.text("rate"))
	require.NoError(t, err)
	return s.send(t, balance.LockQuote{
		Workspace: workspaceID.Format(ident.Workspace), ID: id, Rate: rate,
		Recipient: balance.Recipient{ID: "rcp_" + a.text("to"), International: !a.d.HasArg("domestic"),
			Currency: "EUR"},
		Buy: balance.Amount{Currency: money.Currency(a.text("currency")), AmountMinor: a.minor("amount")},
	})
}

// recordOrders keeps the orders of a decision, because later commands carry their records.
func (s *scenario) recordOrders(d decision.Decision) {
	for _, r := range d.Records {
		switch doc := r.Document.(type) {
		case balance.Payout:
			s.payouts[doc.ID] = doc
		case balance.Quote:
			s.quotes[doc.ID] = doc
		case balance.PhysicalOrder:
			s.orders[s.name(doc.ID)] = doc
		}
	}
}

func (s *scenario) statusPath(p balance.Payout) string {
	statuses := make([]string, len(p.History))
	for i, step := range p.History {
		statuses[i] = step.Status
	}
	return strings.Join(statuses, " → ") + "\n"
}

func (s *scenario) timerLine(timer decision.Timer) string {
	if timer.Due.IsZero() {
		return s.namedKey(timer.Key) + " removed"
	}
	return fmt.Sprintf("%s in %v", s.namedKey(timer.Key), timer.Due.Sub(s.authorizer.now))
}

// namedKey replaces the id at the end of a key by the scenario's name of it.
func (s *scenario) namedKey(key string) string {
	i := strings.LastIndex(key, "/") + 1
	return key[:i] + s.name(key[i:])
}

func claimLifetime(o decision.Once, now time.Time) string {
	if o.Expires.IsZero() {
		return " for ever"
	}
	return fmt.Sprintf(" for %.0f days", o.Expires.Sub(now).Hours()/24)
}

var statuses = []string{
	balance.PayoutHeld, balance.PayoutReserved, balance.PayoutSubmitting, balance.PayoutSubmitted,
	balance.PayoutUnknown,
	balance.PayoutSettled, balance.PayoutFailed, balance.PayoutReturned, balance.PayoutCancelled,
	balance.PayoutReleased,
}

// payoutMoveTable tries every step on a payout in every status, and lists the outcomes.
func payoutMoveTable(t *testing.T) string {
	var out strings.Builder
	for _, status := range statuses {
		for _, step := range []string{"release", "cancel", "submit", "taken", "refused", "none", "settled", "failed",
			"returned"} {
			fmt.Fprintf(&out, "%-15s  %-8s  %s\n", status, step, outcomeOf(t, status, step))
		}
	}
	return out.String()
}

// pathTo are the steps that bring a wire abroad into a status.
func pathTo(status string) []string {
	switch status {
	case balance.PayoutHeld:
		return nil
	case balance.PayoutReserved:
		return []string{"release"}
	case balance.PayoutSubmitting:
		return []string{"release", "submit"}
	case balance.PayoutSubmitted:
		return []string{"release", "submit", "taken"}
	case balance.PayoutUnknown:
		return []string{"release", "submit", "none"}
	case balance.PayoutReleased:
		return []string{"release", "submit", "none", "lapse"}
	case balance.PayoutSettled:
		return []string{"release", "submit", "settled"}
	case balance.PayoutFailed:
		return []string{"release", "submit", "refused"}
	case balance.PayoutReturned:
		return []string{"release", "submit", "settled", "returned"}
	case balance.PayoutCancelled:
		return []string{"cancel"}
	}
	panic(status)
}

// wirePayout is a payout abroad of 100 cents out of a balance of 1,000.
type wirePayout struct {
	state   balance.State
	records orderRecords
	known   balance.Payout
}

func newWire(t require.TestingT) *wirePayout {
	w := &wirePayout{records: orderRecords{}}
	apply(t, &w.state, start, balance.ReceiveDeposit{
		Workspace: workspaceID.Format(ident.Workspace), EventID: "b", AmountUsdCents: 1000, Rail: "wire",
	})
	require.NoError(t, w.send(t, balance.CreatePayout{
		Workspace: w.state.Workspace, ID: ident.Derive(77, start, "p").Format(ident.Payout), Key: "key_1",
		Rail: balance.RailIntlWire, Recipient: balance.Recipient{ID: "rcp_1", International: true, Currency: "EUR"},
		AmountCents: 100, Description: "rent", Limits: balance.PayoutLimits{KeyCents: 1000, WorkspaceCents: 1000},
	}))
	return w
}

func (w *wirePayout) step(t require.TestingT, step string) error {
	switch step {
	case "release", "cancel":
		return w.send(t, balance.DirectPayout{ID: w.known.ID, Release: step == "release"})
	case "submit":
		return w.send(t, balance.SubmitPayout{ID: w.known.ID})
	case balance.AnswerTaken, balance.AnswerRefused, balance.AnswerNone:
		return w.send(t, balance.AnswerPayout{ID: w.known.ID, Answer: step})
	case "lapse":
		return w.send(t, balance.LapsePayout{ID: w.known.ID})
	case "answer":
		return w.send(t, decision.Fire{Key: step + "/" + w.known.ID})
	}
	return w.send(t, balance.ReportPayout{EventID: step, ID: w.known.ID, Outcome: step})
}

func (w *wirePayout) send(t require.TestingT, command any) error {
	w.records.loadMissing(t, &w.state, command)
	d, err := w.state.Decide(decision.Meta{At: start}, command)
	decisiontest.Apply(t, &w.state, balance.DecodeEvent, d.Events...)
	w.records.storeAll(t, d.Records)
	for _, r := range d.Records {
		if p, ok := r.Document.(balance.Payout); ok {
			w.known = p
		}
	}
	return err
}

func outcomeOf(t require.TestingT, status, step string) string {
	w := newWire(t)
	for _, before := range pathTo(status) {
		require.NoError(t, w.step(t, before))
	}
	require.Equal(t, status, w.known.Status)
	steps := len(w.known.History)
	if err := w.step(t, step); err != nil {
		return "refused: " + err.Error()
	}
	if len(w.known.History) == steps {
		return "nothing new"
	}
	s := &w.state
	return fmt.Sprintf("→ %s: available %d, held %d", w.known.Status, s.LedgerCents+s.CardCents, s.ReservedCents)
}

// State does not know finished payouts, so a claim detects the repeat of a return.
func TestAFinishedPayoutIsReturnedOnce(t *testing.T) {
	w := newWire(t)
	for _, step := range pathTo(balance.PayoutSettled) {
		require.NoError(t, w.step(t, step))
	}
	settled := w.known
	for _, event := range []string{"first", "second"} {
		d, err := w.state.Decide(decision.Meta{At: start}, balance.ReportPayout{
			EventID: event, ID: settled.ID, Outcome: balance.PayoutReturned,
		})
		require.NoError(t, err)
		require.Len(t, d.Onces, 2)
		require.Equal(t, decision.Once{Scope: "payout", Key: "returned/" + settled.ID}, d.Onces[1],
			"the same claim, for ever")
	}
}

func TestPayoutsAreBounded(t *testing.T) {
	w := newWire(t)
	create := balance.CreatePayout{
		Workspace: w.state.Workspace, ID: ident.Derive(77, start, "q").Format(ident.Payout), Key: "key_1",
		Rail:        balance.RailACH,
		AmountCents: 1, Description: "rent", Limits: balance.PayoutLimits{KeyCents: math.MaxInt64,
			WorkspaceCents: math.MaxInt64},
	}
	full := w.state
	full.OpenPayouts = balance.MaxOpenPayouts
	_, err := full.Decide(decision.Meta{At: start}, create)
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)

	rate, err := money.ParseRate("1")
	require.NoError(t, err)
	lock := balance.LockQuote{
		Workspace: w.state.Workspace, ID: "fxq_1", Recipient: balance.Recipient{ID: "rcp_1", International: true,
			Currency: "EUR"}, Buy: balance.Amount{Currency: "EUR", AmountMinor: 1}, Rate: rate,
	}
	full = w.state
	full.QuoteLocks = balance.QuoteLocks{start.Add(time.Second).UnixMilli(): balance.MaxOpenQuotes}
	_, err = full.Decide(decision.Meta{At: start}, lock)
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
	apply(t, &full, start.Add(time.Second), lock)
	require.Equal(t, balance.QuoteLocks{start.Add(time.Second + balance.QuoteLock).UnixMilli(): 1}, full.QuoteLocks,
		"the expired ones are forgotten")
}

func TestTheDescriptionOfAPayoutStaysOutOfEvents(t *testing.T) {
	var s balance.State
	d, err := s.Decide(decision.Meta{At: start}, balance.CreatePayout{
		Workspace: workspaceID.Format(ident.Workspace), ID: ident.Derive(77, start, "p").Format(ident.Payout),
		Rail: balance.RailACH, AmountCents: 1, Description: "rent of Ada",
		Limits: balance.PayoutLimits{KeyCents: 1, WorkspaceCents: 1},
	})
	require.NoError(t, err)
	require.NotContains(t, decisiontest.JSON(t, d.Events)+decisiontest.JSON(t, d.Reply), "Ada")
}

// For any order of events: the dollars are the deposits less the settled payouts, no order exceeds
// the available dollars, and the day's total is that of the payouts neither failed nor cancelled.
func TestPayoutsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := payoutModel{now: start, records: orderRecords{}, known: map[string]balance.Payout{}}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.now = m.now.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "hours")) * time.Hour)
			m.step(t, i)
			m.checkSums(t)
		}
		var loaded balance.State
		require.NoError(t, json.Unmarshal([]byte(decisiontest.JSON(t, m.state)), &loaded))
		require.Equal(t, decisiontest.JSON(t, m.state), decisiontest.JSON(t, loaded))
	})
}

type payoutModel struct {
	now            time.Time
	state          balance.State
	records        orderRecords
	known          map[string]balance.Payout
	ids            []string
	deposited      money.Cents
	ledger, booked money.Cents // sums of balance.Credit, and of the postings
}

const modelDayLimit = 2_000

func (m *payoutModel) step(t *rapid.T, i int) {
	command := rapid.SampledFrom([]string{
		"deposit", "order", "order", "release", "cancel", "submit", "submit", "taken", "refused", "none", "lapse",
		"answer",
		"settled", "failed", "returned",
	}).Draw(t, "what")
	switch command {
	case "deposit":
		cents := money.Cents(rapid.Int64Range(1, 2_000).Draw(t, "cents"))
		m.deposited += cents
		m.send(t, balance.ReceiveDeposit{
			Workspace: workspaceID.Format(ident.Workspace), EventID: fmt.Sprint(i), AmountUsdCents: cents, Rail: "ach",
		})
		return
	case "order":
		abroad := rapid.Bool().Draw(t, "abroad")
		rail := balance.RailACH
		if abroad {
			rail = balance.RailIntlWire
		}
		m.send(t, balance.CreatePayout{
			Workspace: workspaceID.Format(ident.Workspace), ID: ident.Derive(77, m.now,
				fmt.Sprint(i)).Format(ident.Payout),
			Key: "key_1", Rail: rail, Recipient: balance.Recipient{ID: "rcp_1", International: abroad},
			Description: "x",
			AmountCents: money.Cents(rapid.Int64Range(1, 1_000).Draw(t, "cents")),
			Limits:      balance.PayoutLimits{KeyCents: modelDayLimit, WorkspaceCents: modelDayLimit},
		})
		return
	}
	if len(m.ids) == 0 {
		return
	}
	p := m.known[rapid.SampledFrom(m.ids).Draw(t, "payout")]
	switch command {
	case "release", "cancel":
		m.send(t, balance.DirectPayout{ID: p.ID, Release: command == "release"})
	case "submit":
		m.send(t, balance.SubmitPayout{ID: p.ID})
	case "taken", "refused", "none":
		m.send(t, balance.AnswerPayout{ID: p.ID, Answer: command})
	case "lapse":
		m.send(t, balance.LapsePayout{ID: p.ID})
	case "answer":
		if p.Status != balance.PayoutHeld && p.Status != balance.PayoutReserved { // the submission sets the timers
			m.send(t, decision.Fire{Key: command + "/" + p.ID})
		}
	default:
		m.send(t, balance.ReportPayout{EventID: fmt.Sprint(i), ID: p.ID, Outcome: command})
	}
}

// send decides a command. Like the authorizer, it refuses a reservation that the funds do not
// cover.
func (m *payoutModel) send(t *rapid.T, command any) {
	m.records.loadMissing(t, &m.state, command)
	d, err := m.state.Decide(decision.Meta{At: m.now}, command)
	if err != nil {
		return
	}
	if d.Debit != nil {
		if d.Debit.Cents > m.state.LedgerCents+m.state.CardCents {
			return
		}
		defer func() {
			require.GreaterOrEqual(t, m.state.LedgerCents+m.state.CardCents, money.Cents(0),
				"no order takes more than is there")
		}()
	}
	m.records.storeAll(t, d.Records)
	for _, e := range d.Events {
		m.state.Apply(e)
		if _, cents, settles, ok := balance.Credit(e); ok {
			m.ledger += cents
			require.Equal(t, d.Debit != nil, settles != "", "a reservation ends with its payout's event")
		}
		m.addPostings(t, e)
	}
	for _, r := range d.Records {
		if p, ok := r.Document.(balance.Payout); ok {
			if _, there := m.known[p.ID]; !there {
				m.ids = append(m.ids, p.ID)
			}
			m.known[p.ID] = p
		}
	}
}

func (m *payoutModel) addPostings(t *rapid.T, e decision.Event) {
	var legs []balance.Posting
	switch e := e.(type) {
	case balance.DepositReceived:
		legs = e.Postings
	case balance.PayoutMoved:
		legs = e.Postings
	}
	sum := money.Minor(0)
	for _, p := range legs {
		sum += p.Amount
		if p.Account == balance.AccountUSD {
			m.booked += p.Amount.Cents()
		}
	}
	require.Zero(t, sum)
}

func (m *payoutModel) checkSums(t *rapid.T) {
	gone, held, ordered := money.Cents(0), money.Cents(0), money.Cents(0)
	for _, p := range m.known {
		switch p.Status {
		case balance.PayoutSettled:
			gone += p.AmountCents
		case balance.PayoutHeld, balance.PayoutReserved, balance.PayoutSubmitting, balance.PayoutSubmitted,
			balance.PayoutUnknown:
			held += p.AmountCents
		}
		today := p.CreatedAt.UTC().Format(time.DateOnly) == m.state.PaidOut.Day
		if today && p.Status != balance.PayoutFailed && p.Status != balance.PayoutCancelled {
			ordered += p.AmountCents
		}
	}
	require.Equal(t, m.deposited-gone, m.state.UsdCents)
	require.Equal(t, m.booked, m.state.UsdCents)
	require.Equal(t, m.ledger, m.state.LedgerCents)
	require.Equal(t, held, m.state.ReservedCents)
	require.Equal(t, ordered, m.state.PaidOut.Cents)
	require.LessOrEqual(t, ordered, money.Cents(modelDayLimit))
}
