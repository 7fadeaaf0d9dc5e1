package balance_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// rampRecords are the ramp's records by id.
type rampRecords struct {
	quotes   map[string]balance.RampQuote
	orders   map[string]balance.RampOrder
	sessions map[string]balance.RampSession
}

func newRampRecords() rampRecords {
	return rampRecords{quotes: map[string]balance.RampQuote{}, orders: map[string]balance.RampOrder{},
		sessions: map[string]balance.RampSession{}}
}

var rampSteps = []string{"ramp-quote", "ramp-order", "partner-takes", "partner-refuses", "partner-reports",
	"ramp-timer",
	"import-session", "many-quotes", "many-orders", "brim", "ramp"}

// rampStep is a step about the ramp.
func (s *scenario) rampStep(t *testing.T, a arguments) string {
	workspace := workspaceID.Format(ident.Workspace)
	switch a.d.Cmd {
	case "ramp-quote":
		return s.send(t, balance.QuoteRamp{Workspace: workspace, ID: s.derived(a.text("id"), ident.RampQuote),
			Direction: a.text("direction"), AmountCents: a.cents("amount"), FeeCents: a.cents("fee"),
			WalletID: a.text("wallet")})
	case "ramp-order":
		return s.send(t, balance.CreateRampOrder{Workspace: workspace, ID: s.derived(a.text("id"), ident.RampOrder),
			Quote: s.ramp.quotes[s.id(a.text("quote"))], Withdrawal: a.d.HasArg("withdrawal")})
	case "partner-takes":
		return s.send(t, balance.AcceptRampOrder{ID: s.id(a.text("id"))})
	case "partner-refuses":
		return s.send(t, balance.RefuseRampOrder{ID: s.id(a.text("id"))})
	case "partner-reports":
		return s.send(t, s.rampReport(a))
	case "ramp-timer":
		command := decision.Fire{Key: "ramp/" + s.id(a.text("id"))}
		s.records.loadMissing(t, &s.state, command)
		d, err := s.state.Decide(decision.Meta{At: s.authorizer.now}, command)
		require.NoError(t, err)
		if due, told := d.Reply.(balance.RampDue); told {
			return "tell the partner of " + s.name(due.Order) + "\n" + s.send(t, command)
		}
		if due, lapsed := d.Reply.(balance.LapseDue); lapsed {
			return due.Kind + " " + s.name(due.ID) + " has no report\n" + s.send(t, command)
		}
		return s.send(t, command)
	case "import-session":
		at := decision.StampOf(start)
		return s.send(t, balance.ImportRampSession{Workspace: workspace, Session: balance.RampSession{
			ID: s.derived(a.text("id"), ident.RampSession), Direction: a.text("direction"), Status: a.text("status"),
			AmountCents: a.cents("amount"), HostedURL: a.text("url"), CreatedAt: at, UpdatedAt: at}})
	case "many-quotes", "many-orders":
		return s.manyRamp(t, int(a.cents("count")), a.d.Cmd == "many-orders")
	case "brim":
		if a.text("account") == balance.AccountStablecoin {
			s.state.StablecoinCents = math.MaxInt64
		} else {
			s.state.LedgerCents, s.state.UsdCents = math.MaxInt64, math.MaxInt64
		}
		return ""
	}
	return s.openRamp()
}

func (s *scenario) derived(name, prefix string) string {
	slot := ident.Slot(77)
	if name == "foreign" {
		slot = 78
	}
	made := ident.Derive(slot, start, name).Format(prefix)
	s.names[made] = name
	return made
}

// rampReport is a report on an order, or on a session with its record.
func (s *scenario) rampReport(a arguments) balance.ReportRamp {
	c := balance.ReportRamp{EventID: a.text("event"), ID: s.id(a.text("id")), Outcome: a.text("outcome"),
		TxHash: a.text("tx")}
	if a.d.HasArg("fee") {
		fee := a.cents("fee")
		c.FeeCents = &fee
	}
	if r, known := s.ramp.sessions[c.ID]; known {
		c.Session = &r
	}
	return c
}

// manyRamp quotes, and with order also orders, one dollar into USDC count times, and returns the
// outcome of one more.
func (s *scenario) manyRamp(t *testing.T, count int, order bool) string {
	workspace := workspaceID.Format(ident.Workspace)
	fold := func(command any) decision.Decision {
		s.records.loadMissing(t, &s.state, command)
		d, err := s.state.Decide(decision.Meta{At: s.authorizer.now}, command)
		require.NoError(t, err)
		s.records.storeAll(t, d.Records)
		for _, e := range d.Events {
			s.state.Apply(e)
		}
		return d
	}
	for i := range count + 1 {
		id := ident.Derive(77, start, fmt.Sprint("many ", i, order))
		quote := balance.QuoteRamp{Workspace: workspace, ID: id.Format(ident.RampQuote), Direction: balance.RampOn,
			AmountCents: 100}
		create := balance.CreateRampOrder{Workspace: workspace, ID: id.Format(ident.RampOrder)}
		switch {
		case !order && i == count:
			return s.send(t, quote)
		case !order:
			fold(quote)
			continue
		}
		create.Quote = fold(quote).Reply.(balance.RampQuote)
		if i == count {
			return s.send(t, create)
		}
		fold(create)
	}
	return ""
}

// lockedQuotes is the number of counted quotes.
func lockedQuotes(locks balance.QuoteLocks) (n int) {
	for _, quotes := range locks {
		n += quotes
	}
	return n
}

func (s *scenario) openRamp() string {
	out := fmt.Sprintf("the ramp has %d, %d quotes are locked\n", s.state.RampCents,
		lockedQuotes(s.state.RampQuoteLocks))
	open := 0
	for _, id := range slices.SortedFunc(maps.Keys(s.ramp.orders),
		func(x, y string) int { return cmp.Compare(s.name(x), s.name(y)) }) {
		if o := s.ramp.orders[id]; o.Status == balance.RampCreated || o.Status == balance.RampProcessing {
			out += fmt.Sprintf("%s: %s\n", s.name(id), o.Status)
			open++
		}
	}
	if open != s.state.OpenRampOrders {
		out += fmt.Sprintf("the state has %d open\n", s.state.OpenRampOrders)
	}
	return out
}

// describeRamp shows a record of the ramp; "" for any other record.
func (s *scenario) describeRamp(r decision.Record) string {
	switch doc := r.Document.(type) {
	case balance.RampQuote:
		s.ramp.quotes[doc.ID] = doc
		return fmt.Sprintf("%s: %s, %s of %d, fee up to %d, at least %d arrives%s", s.name(doc.ID), doc.Status,
			doc.Direction,
			doc.AmountCents, doc.MaxFeeCents, doc.ReceiveCents, suffix(" at ", doc.WalletID))
	case balance.RampOrder:
		s.ramp.orders[doc.ID] = doc
		var history []string
		for _, step := range doc.History {
			history = append(history, step.Status)
		}
		return fmt.Sprintf("%s: %s, %s of %d, fee %d%s%s", s.name(doc.ID), strings.Join(history, " → "), doc.Direction,
			doc.AmountCents, doc.FeeCents, suffix(" to ", doc.WalletID), suffix(" in ", doc.TxHash))
	case balance.RampSession:
		s.ramp.sessions[doc.ID] = doc
		return fmt.Sprintf("%s: %s, %s of %d, %s", s.name(doc.ID), doc.Status, doc.Direction, doc.AmountCents,
			doc.HostedURL)
	}
	return ""
}

func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// rampPostings are the postings of the ramp's events.
func rampPostings(e decision.Event) []balance.Posting {
	switch e := e.(type) {
	case balance.RampOrdered:
		return e.Postings
	case balance.RampMoved:
		return e.Postings
	case balance.RampSessionMoved:
		return e.Postings
	}
	return nil
}

// Every step is tried on an order in every status; want has the outcomes. The credits that the
// authorizer applies equal the change in dollars, and settle the reservation of an on-ramp.
func TestRampOrderStatusTransitions(t *testing.T) {
	steps := map[string]func(*rampFixture) error{
		"takes":    func(r *rampFixture) error { return r.send(balance.AcceptRampOrder{ID: r.order.ID}) },
		"refuses":  func(r *rampFixture) error { return r.send(balance.RefuseRampOrder{ID: r.order.ID}) },
		"complete": func(r *rampFixture) error { return r.report(balance.RampCompleted) },
		"fail":     func(r *rampFixture) error { return r.report(balance.RampFailed) },
	}
	paths := map[string][]string{"created": {}, "processing": {"takes"}, "completed": {"complete"}, "failed": {"fail"}}
	want := map[string]string{
		"created takes": "processing", "created refuses": "failed", "created complete": "completed",
		"created fail":        "failed",
		"processing complete": "completed", "processing fail": "failed",
		"completed fail": "ramp_conflict", "failed complete": "ramp_conflict",
	}
	for _, direction := range []string{balance.RampOn, balance.RampOff, balance.RampWithdraw} {
		got := map[string]string{}
		for status, path := range paths {
			for name, step := range steps {
				r := newRampFixture(t, direction)
				for _, earlier := range path {
					require.NoError(t, steps[earlier](r))
				}
				require.Equal(t, status, r.order.Status)
				err := step(r)
				if f, refused := errors.AsType[*fault.Error](err); refused {
					got[status+" "+name] = string(f.Code)
				} else if r.order.Status != status {
					got[status+" "+name] = r.order.Status
				}
				r.requireBalanced()
			}
		}
		require.Equal(t, want, got, direction)
	}
}

// rampFixture is a workspace of 500.00 dollars and 500.00 USDC, with one order of 100.00 with a fee
// of at most 0.50.
type rampFixture struct {
	t        *testing.T
	state    balance.State
	records  orderRecords
	order    balance.RampOrder
	sums     map[string]money.Cents
	credited money.Cents // sum of balance.Credit
	reserved map[string]bool
	reports  int
}

func newRampFixture(t *testing.T, direction string) *rampFixture {
	r := &rampFixture{t: t, records: orderRecords{}, sums: map[string]money.Cents{}, reserved: map[string]bool{}}
	ws := workspaceID.Format(ident.Workspace)
	require.NoError(t, r.send(balance.ReceiveDeposit{Workspace: ws, EventID: "b", AmountUsdCents: 50_000,
		Rail: "wire"}))
	require.NoError(t, r.send(balance.CreditCheckout{Workspace: ws, Session: "cs_1", Cents: 50_000}))
	quote := balance.QuoteRamp{Workspace: ws, ID: "rq_1", Direction: direction, AmountCents: 10_000, FeeCents: 50}
	if direction == balance.RampWithdraw {
		quote.WalletID = "wal_1"
	}
	d, err := r.state.Decide(decision.Meta{At: start}, quote)
	require.NoError(t, err)
	r.applyDecision(d)
	require.NoError(t, r.send(balance.CreateRampOrder{Workspace: ws, ID: ident.Derive(77, start,
		"one").Format(ident.RampOrder),
		Quote: d.Reply.(balance.RampQuote), Withdrawal: direction == balance.RampWithdraw}))
	return r
}

func (r *rampFixture) report(outcome string) error {
	r.reports++
	return r.send(balance.ReportRamp{EventID: fmt.Sprint("r-", r.reports), ID: r.order.ID, Outcome: outcome})
}

func (r *rampFixture) send(command any) error {
	r.records.loadMissing(r.t, &r.state, command)
	d, err := r.state.Decide(decision.Meta{At: start}, command)
	if err == nil {
		r.applyDecision(d)
	}
	return err
}

func (r *rampFixture) applyDecision(d decision.Decision) {
	r.records.storeAll(r.t, d.Records)
	if d.Debit != nil {
		r.reserved[d.Debit.Reservation] = true
	}
	for _, e := range d.Events {
		r.state.Apply(e)
		_, cents, settles, _ := balance.Credit(e)
		r.credited += cents
		if settles != "" {
			require.True(r.t, r.reserved[settles], settles)
			delete(r.reserved, settles)
		}
		for _, p := range rampPostings(e) {
			r.sums[p.Account] += p.Amount.Cents()
		}
	}
	for _, record := range d.Records {
		if o, is := record.Document.(balance.RampOrder); is {
			r.order = o
		}
	}
}

// requireBalanced compares the accounts with the sums of all postings.
func (r *rampFixture) requireBalanced() {
	total := money.Cents(0)
	for _, account := range slices.Sorted(maps.Keys(r.sums)) {
		total += r.sums[account]
	}
	require.Zero(r.t, total)
	require.Equal(r.t, 50_000+r.sums[balance.AccountUSD], r.state.UsdCents)
	require.Equal(r.t, 50_000+r.sums[balance.AccountStablecoin], r.state.StablecoinCents)
	require.Equal(r.t, r.state.LedgerCents, r.credited)
	require.Empty(r.t, r.reserved)
	if r.state.RampCents != 0 {
		require.Equal(r.t, money.Cents(10_000), r.sums[balance.AccountRamp], "while it is open")
	}
}

// CreateRampOrder does not trust the quote it carries: it checks the travel rule again.
func TestCreateRampOrderChecksTheTravelRuleAgain(t *testing.T) {
	r := newRampFixture(t, balance.RampOn)
	err := r.send(balance.CreateRampOrder{Workspace: workspaceID.Format(ident.Workspace), ID: "ro_2", Withdrawal: true,
		Quote: balance.RampQuote{ID: "rq_2", Status: balance.QuoteLocked, Direction: balance.RampWithdraw,
			AmountCents: balance.TravelRuleCents, WalletID: "wal_1",
			ExpiresAt: decision.StampOf(start.Add(balance.RampLock))}})
	require.True(t, fault.Is(err, fault.TravelRule), "%v", err)
}

// Two reports decided on the same record of a session claim the same key, so one commits.
func TestTwoReportsOfOneSessionClaimTheSameKey(t *testing.T) {
	session := balance.RampSession{ID: ident.Derive(77, start, "old").Format(ident.RampSession),
		Direction: balance.RampOff,
		Status:    balance.RampProcessing, AmountCents: 500, HostedURL: "https://ramp.example/1", CreatedAt: decision.StampOf(start),
		UpdatedAt: decision.StampOf(start)}
	s := balance.State{Workspace: workspaceID.Format(ident.Workspace)}
	var claims []decision.Once
	for i, outcome := range []string{balance.RampCompleted, balance.RampFailed} {
		d, err := s.Decide(decision.Meta{At: start}, balance.ReportRamp{EventID: fmt.Sprint(i), ID: session.ID,
			Outcome: outcome,
			Session: &session})
		require.NoError(t, err)
		require.Len(t, d.Onces, 2)
		claims = append(claims, d.Onces[1])
	}
	require.Equal(t, claims[0], claims[1])
	require.Equal(t, string(fault.Unavailable), claims[0].Code)
	require.Zero(t, claims[0].Expires)
}

// HostedURL opens a session's page without a login, so only the record has it and no event.
func TestTheEventOfASessionDoesNotSayWhereItsPageIs(t *testing.T) {
	session := balance.RampSession{ID: ident.Derive(77, start, "old").Format(ident.RampSession),
		Direction: balance.RampOn,
		Status:    balance.RampProcessing, AmountCents: 500, HostedURL: "https://ramp.example/token", CreatedAt: decision.StampOf(start),
		UpdatedAt: decision.StampOf(start)}
	var s balance.State
	d, err := s.Decide(decision.Meta{At: start},
		balance.ImportRampSession{Workspace: workspaceID.Format(ident.Workspace),
			Session: session})
	require.NoError(t, err)
	require.Equal(t, session, d.Records[0].Document)
	payload, err := decision.Encode(d.Events[0])
	require.NoError(t, err)
	require.NotContains(t, string(payload), "hostedUrl")
	require.NotContains(t, string(payload), "ramp.example")
}
