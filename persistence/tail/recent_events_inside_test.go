package tail

import (
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
)

func TestRecentEventsAreBoundedAndGapless(t *testing.T) {
	const pageBytes = 1 << 20
	var r RecentEvents
	put := func(shard ident.Shard, position uint64, size int) {
		r.Add(shard, persistence.Event{Position: position, Payload: make([]byte, size)})
		require.LessOrEqual(t, r.bytes, recentBytes)
	}
	has := func(shard ident.Shard, past, last uint64) int {
		events, _ := r.Read(shard, past, last, pageBytes)
		for i := range events {
			require.Equal(t, past+1+uint64(i), events[i].Position)
		}
		return len(events)
	}
	put(1, 5, 10)
	put(1, 6, 10)
	put(2, 1, 10)
	require.Equal(t, 2, has(1, 4, 6))
	require.Equal(t, 1, has(1, 5, 6))
	require.Zero(t, has(1, 3, 6), "older events are read from the store")
	require.Zero(t, has(1, 4, 7), "so are newer events")
	put(1, 9, 10) // another process wrote 7 and 8, or the outcome of their commit is unknown
	require.Zero(t, has(1, 4, 9))
	require.Zero(t, has(1, 5, 6))
	require.Equal(t, 1, has(1, 8, 9))
	for position := uint64(2); position < 200; position++ {
		put(2, position, recentBytes/100)
	}
	require.Zero(t, has(1, 8, 9), "the oldest events of all shards are evicted first")
	require.Equal(t, pageBytes/(recentBytes/100), has(2, 100, 199), "a page ends at its bytes")
	require.Zero(t, has(2, 99, 199))
}

func TestRecentEventWithoutPayloadReadsAsFromStore(t *testing.T) {
	var r RecentEvents
	r.Add(1, persistence.Event{Position: 1, Payload: []byte{}})
	events, kept := r.Read(1, 0, 1, 1)
	require.True(t, kept)
	require.Nil(t, events[0].Payload)
}
