package persistence_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
)

const slot ident.Slot = 0x123

func TestCheckAcceptsTheLargest(t *testing.T) {
	name := strings.Repeat("n", persistence.MaxName)
	b := persistence.Batch{Workspace: name, Slot: slot}
	for range persistence.MaxBatchBytes / persistence.MaxPayload {
		b.Events = append(b.Events, persistence.Event{Kind: name, Payload: make([]byte, persistence.MaxPayload)})
	}
	require.NoError(t, b.Check(slot.Shard()))
	b.Onces = []persistence.Once{{Answer: []byte("x")}}
	require.ErrorIs(t, b.Check(slot.Shard()), persistence.ErrTooLarge)
}

func TestCheckRefusesOneMore(t *testing.T) {
	long := strings.Repeat("n", persistence.MaxName+1)
	large := make([]byte, persistence.MaxPayload+1)
	for name, b := range map[string]persistence.Batch{
		"events":       {Events: make([]persistence.Event, persistence.MaxBatchEvents+1)},
		"records":      {Records: make([]persistence.Record, persistence.MaxBatchItems+1)},
		"onces":        {Onces: make([]persistence.Once, persistence.MaxBatchItems+1)},
		"timers":       {Timers: make([]persistence.Timer, persistence.MaxBatchItems+1)},
		"workspace":    {Workspace: long},
		"event type":   {Events: []persistence.Event{{Type: long}}},
		"record id":    {Records: []persistence.Record{{ID: long}}},
		"once scope":   {Onces: []persistence.Once{{Scope: long}}},
		"timer key":    {Timers: []persistence.Timer{{Key: long}}},
		"payload":      {Events: []persistence.Event{{Payload: large}}},
		"document":     {Records: []persistence.Record{{Document: large}}},
		"sealed reply": {Onces: []persistence.Once{{Answer: large}}},
	} {
		b.Slot = slot
		require.ErrorIs(t, b.Check(slot.Shard()), persistence.ErrTooLarge, name)
	}
}

func TestCheckPanicsOverAnotherShard(t *testing.T) {
	for name, b := range map[string]persistence.Batch{
		"batch":   {Slot: 0x223},
		"no slot": {Slot: ident.Slots},
		"record":  {Slot: slot, Records: []persistence.Record{{Slot: 0x223}}},
		"timer":   {Slot: slot, Timers: []persistence.Timer{{Slot: 0x223}}},
	} {
		require.Panics(t, func() { _ = b.Check(slot.Shard()) }, name)
	}
	neighbour := persistence.Batch{Slot: slot, Records: []persistence.Record{{Slot: 0x124}, {}}}
	require.NoError(t, neighbour.Check(slot.Shard()))
}

func TestPageLimit(t *testing.T) {
	for asked, want := range map[int]int{
		-1: persistence.MaxPage, 0: persistence.MaxPage, 1: 1,
		persistence.MaxPage: persistence.MaxPage, persistence.MaxPage + 1: persistence.MaxPage,
	} {
		require.Equal(t, want, persistence.PageLimit(asked))
	}
}
