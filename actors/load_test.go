package actors_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/ident"
	"purser/persistence"
	"purser/persistence/pebblejournal"
)

// BenchmarkLoad is the first answer of an actor that is not in memory, with so many events behind it, from a journal on the disk.
// An actor is loaded from its state's record and replays nothing: the events make no difference.
func BenchmarkLoad(b *testing.B) {
	for _, events := range []int{1, 1_000_000} {
		b.Run(fmt.Sprint("events=", events), func(b *testing.B) {
			journal, err := pebblejournal.Open(pebblejournal.Options{Dir: b.TempDir()})
			require.NoError(b, err)
			defer func() { require.NoError(b, journal.Close()) }()
			id := stream(3)
			lifeOf(b, journal, id, events)
			clock := newClock()
			system, err := actors.Start(b.Context(), actors.Config{Journal: journal, Bank: noBank{}, Sealer: testSealer(b),
				Authorizer: &books{reserved: map[ident.UUID]int64{}}, Clock: clock.now, Entropy: rand.Reader, IdleAfter: time.Second,
				Kinds: []actors.Kind{{Name: "counter", New: func() actors.State { return new(counter) }}}})
			require.NoError(b, err)
			defer system.Stop()
			awaitReactions(b, journal, id, events)
			for b.Loop() {
				reply, err := system.Ask(b.Context(), actors.Envelope{Kind: "counter", Stream: id, Workspace: id,
					Command: decision.Read{}})
				require.NoError(b, err)
				require.EqualValues(b, events, reply.(counter).Total)
				clock.turn(time.Minute)
				system.Passivate()
			}
		})
	}
}

// lifeOf appends the life of a counter: events, and after each batch of them the state.
func lifeOf(b *testing.B, journal persistence.Journal, id string, events int) {
	slot, err := ident.SlotOf(id)
	require.NoError(b, err)
	heads, err := journal.Raise(b.Context(), slot.Shard())
	require.NoError(b, err)
	payload, err := json.Marshal(added{By: 1})
	require.NoError(b, err)
	now, state := time.Now(), counter{}
	for state.Total < int64(events) {
		batch := &persistence.Batch{Workspace: id, Slot: slot}
		for range min(persistence.MaxBatchEvents, int64(events)-state.Total) {
			state.Apply(added{By: 1})
			event := ident.Derive(slot, now, fmt.Sprint("event ", state.Total)).Format(ident.Event)
			batch.Events = append(batch.Events, persistence.Event{ID: event, Workspace: id, Kind: "counter", Stream: id,
				Version: uint64(state.Total), Type: added{}.EventType(), At: now, Payload: payload})
		}
		document, err := json.Marshal(state)
		require.NoError(b, err)
		batch.Records = []persistence.Record{{Kind: "counter", Workspace: id, ID: id, Slot: slot, Document: document,
			Version: uint64(state.Total)}}
		outcomes, err := journal.Append(context.Background(), slot.Shard(), heads[0].Epoch, now, []*persistence.Batch{batch})
		require.NoError(b, err)
		require.NoError(b, outcomes[0].Err)
	}
}

// awaitReactions waits until a reaction has read the events, for it reads beside what is measured.
func awaitReactions(b *testing.B, journal persistence.Journal, id string, events int) {
	slot, err := ident.SlotOf(id)
	require.NoError(b, err)
	require.Eventually(b, func() bool {
		read, err := journal.Cursor(b.Context(), "reaction/watch", slot.Shard())
		return err == nil && read >= uint64(events)
	}, 10*time.Minute, 100*time.Millisecond)
}
