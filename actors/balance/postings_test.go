package balance

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/decision"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// An unbalanced transfer is a bug and must not be stored: its postings panic.
func TestATransferThatDoesNotSumToZeroIsNotReturned(t *testing.T) {
	workspace := ident.Derive(9, time.UnixMilli(1), "workspace").Format(ident.Workspace)
	move := transfer{workspace: workspace, account: AccountUSD, counterpart: AccountNetwork, cents: 5, cause: "c",
		at: time.UnixMilli(1)}
	require.Len(t, move.balancedPostings(), 2)
	move.cents = math.MinInt64
	require.Panics(t, func() { move.balancedPostings() })
	require.Panics(t, func() {
		mustSumToZero([]Posting{{Transfer: "t", Account: AccountUSD, Amount: 5},
			{Transfer: "t", Account: AccountNetwork, Amount: -4}})
	})
	require.Panics(t, func() {
		mustSumToZero([]Posting{{Transfer: "t", Account: AccountUSD, Amount: 5},
			{Transfer: "u", Account: AccountNetwork, Amount: -5}})
	})
}

// Each line of a decision gets its booking time; a line of dollars also gets the balance after it.
func TestLedgerLinesGetABookingTimeAndABalance(t *testing.T) {
	workspace := ident.Derive(9, time.UnixMilli(1), "workspace").Format(ident.Workspace)
	line := func(account string, cents money.Cents) decision.Record {
		return transfer{workspace: workspace, account: account, counterpart: AccountBank, cents: cents, cause: "c",
			at: time.UnixMilli(1)}.ledgerRecord()
	}
	s := State{UsdCents: 100}
	records := []decision.Record{line(AccountUSD, 50), line(AccountSuspense, -7), line(AccountUSD, -200)}
	s.bookLines(decision.Meta{At: time.UnixMilli(9)}, records)
	after := func(i int) *money.Cents { return records[i].Document.(LedgerEntry).BalanceCents }
	require.Equal(t, money.Cents(150), *after(0))
	require.Nil(t, after(1))
	require.Equal(t, money.Cents(-50), *after(2))
	for _, r := range records {
		require.Equal(t, decision.StampOf(time.UnixMilli(9)), r.Document.(LedgerEntry).BookedAt)
	}
}
