package balance_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/decision"
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
