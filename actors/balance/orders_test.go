package balance_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// orderRecords are the stored records of orders. They stand for the actor: the state forgets every
// order before each command and gets the one order that the command is about.
type orderRecords map[decision.Ref][]byte

func (f orderRecords) loadMissing(t require.TestingT, s *balance.State, command any) {
	s.Forget()
	if ref, missing := s.Missing(command); missing {
		require.NoError(t, s.Load(ref, f[ref]))
		require.Equal(t, 1, s.Loaded())
		_, again := s.Missing(command)
		require.False(t, again)
	}
}

func (f orderRecords) storeAll(t require.TestingT, records []decision.Record) {
	for _, r := range records {
		document, err := json.Marshal(r.Document)
		require.NoError(t, err)
		f[decision.Ref{Kind: r.Kind, ID: r.ID}] = document
	}
}

// lockedQuotes is the number of counted quotes.
func lockedQuotes(locks balance.QuoteLocks) (n int) {
	for _, quotes := range locks {
		n += quotes
	}
	return n
}

// embeddedState is a state of the version that kept orders inside the state's document, with the
// records stored beside it.
type embeddedState struct {
	State   json.RawMessage            `json:"state"`
	Records map[string]json.RawMessage `json:"records"`
}

// A stored state that embeds its orders is migrated: its sums and counts are kept, the records have
// the orders, and each order continues from its status.
func TestAStateThatEmbedsItsOrdersIsMigrated(t *testing.T) {
	document, err := os.ReadFile("testdata/states/lists.json")
	require.NoError(t, err)
	var stored embeddedState
	require.NoError(t, json.Unmarshal(document, &stored))
	var s balance.State
	require.NoError(t, json.Unmarshal(stored.State, &s))
	f := orderRecords{}
	for name, record := range stored.Records {
		kind, id, _ := strings.Cut(name, "/")
		f[decision.Ref{Kind: kind, ID: id}] = record
	}
	require.Equal(t, 2, s.OpenDeposits)
	require.EqualValues(t, 1400, s.IncomingCents)
	require.Equal(t, 4, s.OpenPayouts)
	require.EqualValues(t, 2400, s.ReservedCents)
	require.Equal(t, 1, s.OpenPayins)
	require.Equal(t, map[money.Currency]money.Minor{"EUR": 5000}, s.PendingMinor)
	require.Equal(t, 1, s.OpenConversions)
	require.Equal(t, map[money.Currency]money.Minor{"JPY": 10}, s.BuyingMinor)
	require.Equal(t, 1, s.OpenRampOrders)
	require.Equal(t, [3]int{1, 1, 1}, [3]int{lockedQuotes(s.QuoteLocks), lockedQuotes(s.ConversionQuoteLocks),
		lockedQuotes(s.RampQuoteLocks)})
	written := decisiontest.JSON(t, s)
	for name := range stored.Records {
		_, id, _ := strings.Cut(name, "/")
		require.NotContains(t, written, id)
	}
	var again balance.State
	require.NoError(t, json.Unmarshal([]byte(written), &again))
	require.Equal(t, s, again)

	do := func(command any) any {
		f.loadMissing(t, &s, command)
		d, err := s.Decide(decision.Meta{At: start.Add(time.Second)}, command)
		require.NoError(t, err)
		decisiontest.Apply(t, &s, balance.DecodeEvent, d.Events...)
		f.storeAll(t, d.Records)
		return d.Reply
	}
	id := func(prefix, name string) string { return ident.Derive(77, start, name).Format(prefix) }
	for i, name := range []string{"d1", "d2", "d3"} {
		reply := do(balance.SettleDeposit{EventID: fmt.Sprint("again ", i), DepositID: id(ident.Deposit, name)})
		require.Equal(t, balance.DepositDone, reply.(balance.Deposit).Status)
	}
	do(balance.DirectPayout{ID: id(ident.Payout, "wire")})
	require.Equal(t, map[string]money.Cents{"key_2": 1500}, s.PaidOut.Keys,
		"the cancelled wire is given back to its key")
	require.True(t, do(balance.SubmitPayout{ID: id(ident.Payout, "p1")}).(balance.Submission).Send)
	for _, name := range []string{"p1", "p2", "p3"} {
		do(balance.ReportPayout{EventID: name, ID: id(ident.Payout, name), Outcome: balance.PayoutSettled})
	}
	do(decision.Fire{Key: "payin/" + id(ident.Deposit, "i2")})
	do(balance.ReportConversion{EventID: "v1", ID: id(ident.Conversion, "v1"), Outcome: balance.ConversionCompleted})
	do(balance.ReportRamp{EventID: "o1", ID: id(ident.RampOrder, "o1"), Outcome: balance.RampCompleted})
	require.Zero(t, s.OpenDeposits+s.OpenPayouts+s.OpenPayins+s.OpenConversions+s.OpenRampOrders)
	require.Zero(t, s.IncomingCents+s.ReservedCents+s.RampCents)
	require.Empty(t, s.PendingMinor)
	require.Empty(t, s.BuyingMinor)
}

// The API key after MaxPayoutKeys on a day is refused. Keys counted earlier that day remain usable,
// and the next day starts at zero.
func TestTheAPIKeysThatOrderPayoutsOnADayAreBounded(t *testing.T) {
	w := newWire(t)
	w.state.PaidOut.Keys = map[string]money.Cents{"key_old": 1}
	for i := range balance.MaxPayoutKeys - 1 {
		w.state.PaidOut.Keys[fmt.Sprint("key_", i)] = 1
	}
	order := func(key string, at time.Time) error {
		_, err := w.state.Decide(decision.Meta{At: at}, balance.CreatePayout{Workspace: w.state.Workspace,
			ID: ident.Derive(77, start, "q").Format(ident.Payout), Key: key, Rail: balance.RailACH, AmountCents: 1,
			Description: "rent", Limits: balance.PayoutLimits{KeyCents: 1000, WorkspaceCents: 1_000_000}})
		return err
	}
	require.True(t, fault.Is(order("key_new", start), fault.LimitExceeded))
	require.NoError(t, order("key_old", start))
	require.NoError(t, order("key_new", start.Add(24*time.Hour)))
}
