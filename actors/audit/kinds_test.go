package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/agent"
	"purser/actors/card"
	"purser/actors/cardholder"
	"purser/actors/counterparty"
	"purser/actors/decision"
	"purser/actors/processes"
	"purser/actors/webhook"
	"purser/persistence"
)

// A kind of actor without a row is not audited.
func TestEveryKindHasARow(t *testing.T) {
	for _, k := range processes.Kinds() {
		require.Contains(t, stateKinds, k.Name)
	}
}

func TestEventsChangeTheTallyOfTheirKind(t *testing.T) {
	for _, c := range []struct {
		kind   string
		event  decision.Event
		tally  string
		change int64
	}{
		{actors.KindAgent, agent.Registered{}, "agent", 1},
		{actors.KindCard, card.Minted{}, "card", 1},
		{actors.KindCardholder, cardholder.Created{}, cardholder.TallyAll, 1},
		{actors.KindCardholder, cardholder.Enrolled{}, cardholder.TallyActive, 1},
		{actors.KindCounterparty, counterparty.Saved{}, counterparty.Tally, 1},
		{actors.KindWebhook, webhook.Registered{}, webhook.Tally, 1},
		{actors.KindWebhook, webhook.Removed{}, webhook.Tally, -1},
	} {
		b := newShardTotals(0)
		b.countTallies(&persistence.Event{Kind: c.kind, Type: c.event.EventType(), Workspace: "ws", Stream: "id"})
		require.Len(t, b.tallies, 1, c.event.EventType())
		require.Equal(t, c.change, b.tallies[stream{actors.TallyKind(c.tally), "ws"}].Count, c.event.EventType())
	}
}
