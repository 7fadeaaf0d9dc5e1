package processes

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
)

// TestSwipesAndLimitsStartNoProcess: a busy shard has too many of these events for the reactions to
// read each of them.
func TestSwipesAndLimitsStartNoProcess(t *testing.T) {
	for _, r := range new(processes).reactions() {
		for _, frequent := range []decision.Event{balance.Relayed{}, card.LimitsChanged{}} {
			require.False(t, slices.ContainsFunc(r.Events, func(e decision.Event) bool {
				return e.EventType() == frequent.EventType()
			}), "%s: %s", r.Name, frequent.EventType())
		}
	}
}

func TestEveryKindOfTheTableHasOneRow(t *testing.T) {
	names := map[string]bool{}
	for _, k := range Kinds() {
		require.False(t, names[k.Name], k.Name)
		names[k.Name] = true
	}
	require.Contains(t, names, actors.KindBalance)
}
