package actors

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/authorizer"
)

// TestGapsAreTheMissingNumbers: the gaps of numbers that arrive in any order, some twice, are the
// numbers that did not arrive.
func TestGapsAreTheMissingNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		came := rapid.SliceOf(rapid.Uint64Range(1, 40)).Draw(t, "numbers")
		var seen seqRanges
		missing, last := map[uint64]bool{}, uint64(0)
		for _, n := range came {
			seen.add(n)
			last = max(last, n)
		}
		for n := uint64(1); n <= last; n++ {
			missing[n] = true
		}
		for _, n := range came {
			delete(missing, n)
		}
		var before authorizer.Lost
		for _, gap := range seen.gaps() {
			require.LessOrEqual(t, gap.First, gap.Last)
			require.Greater(t, gap.First, before.Last)
			for n := gap.First; n <= gap.Last; n++ {
				require.True(t, missing[n], "%d came", n)
				delete(missing, n)
			}
			before = gap
		}
		require.Empty(t, missing)
	})
}
