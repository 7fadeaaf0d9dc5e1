package balance

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/ident"
)

// Every transfer is looked at once more before it is returned: one that has no opposite is a bug, and must not be stored.
func TestATransferThatDoesNotSumToZeroIsNotReturned(t *testing.T) {
	workspace := ident.Derive(9, time.UnixMilli(1), "workspace").Format(ident.Workspace)
	move := transfer{workspace: workspace, account: AccountUSD, counterpart: AccountNetwork, cents: 5, cause: "c", at: time.UnixMilli(1)}
	require.Len(t, move.postings(), 2)
	move.cents = math.MinInt64
	require.Panics(t, func() { move.postings() })
	require.Panics(t, func() { mustSumToZero([]Posting{{"t", AccountUSD, 5}, {"t", AccountNetwork, -4}}) })
	require.Panics(t, func() { mustSumToZero([]Posting{{"t", AccountUSD, 5}, {"u", AccountNetwork, -5}}) })
}
