package archive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence"
)

// FuzzPart feeds the decoder of parts without the checksums before it. An accepted part is written
// and read again unchanged.
func FuzzPart(f *testing.F) {
	for _, p := range []persistence.Part{&persistence.ShardHead{Shard: 1}, &persistence.Event{ID: "e"},
		&persistence.Record{Kind: "k"}, &persistence.Once{Scope: "s"}, &persistence.Timer{Key: "k"},
		&persistence.Cursor{Name: "n"}} {
		f.Add(appendPart(nil, p))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := cutter{rest: b}
		p := c.readPart()
		if c.bad {
			return
		}
		again := cutter{rest: appendPart(nil, p)}
		require.Equal(t, p, again.readPart())
		require.False(t, again.bad)
		require.Empty(t, again.rest)
	})
}
