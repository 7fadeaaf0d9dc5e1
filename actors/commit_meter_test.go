package actors_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
	"purser/persistence/ident"
)

// A meter counts the event and the state of each commit of its context, of concurrent commands too.
// A read commits nothing.
func TestAMeterCountsWhatItsCommandsCommit(t *testing.T) {
	r := newCounterSystem(t, nil)
	id := counterID(0)
	var meter actors.CommitMeter
	ctx := actors.WithCommitMeter(t.Context(), &meter)
	command := func(c any) {
		_, err := r.system.Ask(ctx, actors.Envelope{Kind: "counter", Stream: id, Workspace: id, Command: c})
		require.NoError(t, err)
	}
	command(add{By: 7})
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	record, err := r.journal.Record(t.Context(), slot, "counter", id)
	require.NoError(t, err)
	event, err := json.Marshal(added{By: 7})
	require.NoError(t, err)
	one := len(event) + len(record.Document)
	require.Equal(t, one, meter.Bytes())
	command(decision.Read{})
	require.Equal(t, one, meter.Bytes())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { command(add{By: 7}) })
	}
	all.Wait()
	require.GreaterOrEqual(t, meter.Bytes(), 9*one)
	before := meter.Bytes()
	_, err = r.system.Ask(context.Background(), actors.Envelope{Kind: "counter", Stream: id, Workspace: id,
		Command: add{By: 1}})
	require.NoError(t, err)
	require.Equal(t, before, meter.Bytes())
}
