package derivation_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/derivation"
	"purser/actors/fault"
)

var at = time.Date(2026, 11, 20, 12, 0, 0, 123_000_000, time.UTC)

func TestEventsAreReadForEver(t *testing.T) {
	decisiontest.Goldens(t, derivation.DecodeEvent,
		derivation.IndexesTaken{Session: "cs_1", Indexes: map[string]uint32{"evm": 7, "bitcoin": 3}, At: decision.StampOf(at)})
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.Fuzz(f, derivation.DecodeEvent) }

// TestAnIndexIsGivenOnce takes in any order, writes and reads the state in between, and loses answers: no index comes twice.
func TestAnIndexIsGivenOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := &derivation.State{}
		given := map[string]map[uint32]bool{"evm": {}, "bitcoin": {}, "solana": {}}
		for range rapid.IntRange(1, 40).Draw(t, "takes") {
			families := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"evm", "bitcoin", "solana"}), 1, 3, rapid.ID).Draw(t, "families")
			d, err := state.Decide(decision.Meta{At: at}, derivation.Take{Session: "cs_1", Families: families})
			require.NoError(t, err)
			taken := d.Reply.(derivation.Taken)
			require.Len(t, taken, len(families))
			state.Apply(d.Events[0])
			for family, index := range taken {
				require.False(t, given[family][index], "%s %d is given twice", family, index)
				given[family][index] = true
			}
			written, err := json.Marshal(state)
			require.NoError(t, err)
			state = &derivation.State{}
			require.NoError(t, json.Unmarshal(written, state))
		}
	})
}

func TestAnAccountEnds(t *testing.T) {
	state := &derivation.State{Next: map[string]uint32{"evm": 1<<31 - 1}}
	d, err := state.Decide(decision.Meta{At: at}, derivation.Take{Session: "cs_1", Families: []string{"evm"}})
	require.NoError(t, err)
	require.Equal(t, derivation.Taken{"evm": 1<<31 - 1}, d.Reply)
	state.Apply(d.Events[0])
	_, err = state.Decide(decision.Meta{At: at}, derivation.Take{Session: "cs_2", Families: []string{"bitcoin", "evm"}})
	require.True(t, fault.Is(err, fault.LimitExceeded))
	require.Panics(t, func() { state.Apply(d.Events[0]) }, "the same index again")
}
