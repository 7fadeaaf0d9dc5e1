package pebblejournal

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/s2"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/journaltest"
)

// eventHead is the value of an event up to its payload.
func eventHead(layout byte) []byte {
	v := appendEvent(nil, &persistence.Batch{}, &persistence.Event{ID: "evt", At: time.Unix(1, 2)})
	v[0] = layout
	return v
}

// TestEventLayouts: a large payload is stored compressed, a small one and one that does not shrink as they are, and an older
// store's large ones are read.
func TestEventLayouts(t *testing.T) {
	noise := make([]byte, 4*packFrom)
	_, err := rand.NewChaCha8([32]byte{1}).Read(noise)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		payload []byte
		layout  byte
	}{
		"none":    {nil, layout1},
		"small":   {bytes.Repeat([]byte("x"), packFrom-1), layout1},
		"large":   {bytes.Repeat([]byte("x"), packFrom), layout2},
		"largest": {bytes.Repeat([]byte("x"), persistence.MaxPayload), layout2},
		"over":    {bytes.Repeat([]byte("x"), persistence.MaxPayload+1), layout1},
		"noise":   {noise, layout1},
	} {
		t.Run(name, func(t *testing.T) {
			value := appendEvent(nil, &persistence.Batch{}, &persistence.Event{ID: "evt", At: time.Unix(1, 2), Payload: c.payload})
			require.Equal(t, c.layout, value[0])
			for _, v := range [][]byte{value, append(eventHead(layout1), c.payload...)} {
				e, err := decodeEvent(1, v)
				require.NoError(t, err)
				clear(v) // the payload shares no memory with the value
				require.True(t, bytes.Equal(c.payload, e.Payload))
				require.Equal(t, "evt", e.ID)
			}
		})
	}
}

// TestCorruptBlocks: a block that is cut or states a wrong size is an error, and none allocates
// more than the limit of a batch.
func TestCorruptBlocks(t *testing.T) {
	block := s2.Encode(nil, bytes.Repeat([]byte("payload "), packFrom))
	_, n := binary.Uvarint(block)
	sized := func(size uint64) []byte { return append(binary.AppendUvarint(nil, size), block[n:]...) }
	over := s2.Encode(nil, make([]byte, persistence.MaxPayload+1))
	for name, bad := range map[string][]byte{
		"none": nil, "no size": {0xff}, "empty": {0}, "cut": block[:len(block)-1], "more after it": append(bytes.Clone(block), 0),
		"smaller than it says": sized(8*packFrom + 1), "larger than it says": sized(8*packFrom - 1), "over the limit": over,
		"far over the limit": sized(1 << 31),
	} {
		_, err := decodeEvent(1, append(eventHead(layout2), bad...))
		require.ErrorIs(t, err, errCorrupt, name)
	}
	_, err := decodeEvent(1, append(eventHead(3), block...))
	require.ErrorIs(t, err, errCorrupt)
}

// TestPackedEventsAreReadAndCopied: packed events are read whole, and a copy of the store has them
// packed.
func TestPackedEventsAreReadAndCopied(t *testing.T) {
	fs := vfs.NewMem()
	j, epoch := shardOf(t, fs)
	id := testSlot.Shard()
	var want []persistence.Event
	for version := uint64(1); version <= 4; version++ {
		e := persistence.Event{ID: fmt.Sprint("evt_", version), Workspace: "ws", Kind: "card", Stream: "a", Version: version,
			Type: "card.happened.v1", At: journaltest.Start, Payload: bytes.Repeat([]byte{byte('a' + version)}, 20*packFrom)}
		_, err := j.Append(t.Context(), id, epoch, e.At, []*persistence.Batch{{Workspace: "ws", Slot: testSlot,
			Events: []persistence.Event{e}}})
		require.NoError(t, err)
		e.Position = version
		want = append(want, e)
	}
	require.NoError(t, j.Close())

	j, _ = shardOf(t, fs)
	layouts := func(s *store) (got []byte) {
		for _, e := range want {
			value, err := s.get(keyEvent(id, e.Position))
			require.NoError(t, err)
			got = append(got, value[0])
		}
		return got
	}
	require.Equal(t, bytes.Repeat([]byte{layout2}, len(want)), layouts(j.store))
	for _, ctx := range []context.Context{t.Context(), persistence.AsStored(t.Context())} {
		events, err := j.Events(ctx, id, 0, 10)
		require.NoError(t, err)
		require.Equal(t, want, events)
	}
	s, err := j.Snapshot(t.Context())
	require.NoError(t, err)
	var walked []persistence.Event
	for part, err := range s.Content(t.Context()) {
		require.NoError(t, err)
		if e, ok := part.(*persistence.Event); ok {
			walked = append(walked, *e)
		}
	}
	require.Equal(t, want, walked)
	require.NoError(t, Load(t.Context(), Options{FS: fs, Dir: "copy"}, j.Identity(), s.Content(t.Context())))
	require.NoError(t, s.Close())
	loaded, err := Open(Options{FS: fs, Dir: "copy"})
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte{layout2}, len(want)), layouts(loaded.store))
	require.Equal(t, journaltest.Dump(t, j), journaltest.Dump(t, loaded))
	require.NoError(t, loaded.Close())
	require.NoError(t, j.Close())
}
