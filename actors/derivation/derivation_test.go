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

// decodeEvent decodes every version of every event of the package.
var decodeEvent = decision.NewCatalog("derivation", derivation.IndexesTaken{}).Decode

func TestEventsAreReadForEver(t *testing.T) {
	decisiontest.RequireGoldens(t, decodeEvent,
		derivation.IndexesTaken{Session: "cs_1", Indexes: map[string]uint32{"evm": 7, "bitcoin": 3},
			At: decision.StampOf(at)})
}

func FuzzDecodeEvent(f *testing.F) { decisiontest.FuzzDecoder(f, decodeEvent) }

// Indexes are unique in any order of takes, with the state encoded and decoded in between and
// replies lost.
func TestNoIndexIsTakenTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := &derivation.State{}
		given := map[string]map[uint32]bool{"evm": {}, "bitcoin": {}, "solana": {}}
		for range rapid.IntRange(1, 40).Draw(t, "takes") {
			one := rapid.SampledFrom([]string{"evm", "bitcoin", "solana"})
			families := rapid.SliceOfNDistinct(one, 1, 3, rapid.ID).Draw(t, "families")
			d, err := state.Decide(decision.Meta{At: at}, derivation.Take{Session: "cs_1", Families: families})
			require.NoError(t, err)
			taken := d.Reply.(derivation.Taken)
			require.Len(t, taken, len(families))
			state.Apply(d.Events[0])
			for family, index := range taken {
				require.False(t, given[family][index], "%s index %d is taken twice", family, index)
				given[family][index] = true
			}
			written, err := json.Marshal(state)
			require.NoError(t, err)
			state = &derivation.State{}
			require.NoError(t, json.Unmarshal(written, state))
		}
	})
}

// An older state is restored into new incarnations, twice, with takes of every family.
func TestIndexesAfterARestoreAreAboveTheLostOnes(t *testing.T) {
	given := map[uint32]bool{}
	take := func(state *derivation.State, store, family string, after time.Duration) {
		d, err := state.Decide(decision.Meta{At: at.Add(after)},
			derivation.Take{Session: "cs_1", Families: []string{family}, Store: store})
		require.NoError(t, err)
		state.Apply(d.Events[0])
		index := d.Reply.(derivation.Taken)[family]
		require.False(t, family == "evm" && given[index], "index %d is taken twice", index)
		given[index] = given[index] || family == "evm"
	}
	state := &derivation.State{}
	for range 5 {
		take(state, "first", "evm", 0)
	}
	require.Equal(t, uint32(5), state.Next["evm"], "without a restore there is no gap")
	backup, err := json.Marshal(state)
	require.NoError(t, err)
	for n, store := range []string{"first", "second", "third"} {
		restored := &derivation.State{}
		require.NoError(t, json.Unmarshal(backup, restored))
		take(restored, store, "bitcoin", time.Duration(n)*time.Minute)
		for range 50 {
			take(restored, store, "evm", time.Duration(n)*time.Minute)
		}
		if n > 0 {
			require.Equal(t, uint32(at.Add(time.Duration(n)*time.Minute).Sub(derivation.Epoch()).Seconds())+1,
				restored.Next["bitcoin"])
		}
	}
}

// A backup without an index does not differ from the state of a new deployment; Restored does.
func TestIndexesAfterARestoreOfAnEmptyBackupDoNotBeginAtZero(t *testing.T) {
	for restored, first := range map[bool]uint32{false: 0, true: uint32(at.Sub(derivation.Epoch()).Seconds())} {
		d, err := (&derivation.State{}).Decide(decision.Meta{At: at},
			derivation.Take{Session: "cs_1", Families: []string{"evm"}, Store: "second", Restored: restored})
		require.NoError(t, err)
		require.Equal(t, derivation.Taken{"evm": first}, d.Reply)
	}
}

func TestTakeBeyondTheLastIndexIsRefused(t *testing.T) {
	state := &derivation.State{Next: map[string]uint32{"evm": 1<<31 - 1}}
	d, err := state.Decide(decision.Meta{At: at}, derivation.Take{Session: "cs_1", Families: []string{"evm"}})
	require.NoError(t, err)
	require.Equal(t, derivation.Taken{"evm": 1<<31 - 1}, d.Reply)
	state.Apply(d.Events[0])
	_, err = state.Decide(decision.Meta{At: at}, derivation.Take{Session: "cs_2", Families: []string{"bitcoin", "evm"}})
	require.True(t, fault.Is(err, fault.LimitExceeded))
	require.Panics(t, func() { state.Apply(d.Events[0]) }, "the same index again")
}
