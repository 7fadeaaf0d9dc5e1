package archive_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/archive"
	"purser/persistence/ident"
)

var (
	start    = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	identity = persistence.Identity{Deployment: ident.Derive(0, start, "deployment"), Store: ident.Derive(0, start, "store")}
)

// small is content with two parts of every sort, events of a size of their own.
func small(size int) []persistence.Part {
	var parts []persistence.Part
	for i := range ident.Shards {
		shard := ident.Shard(i)
		if i != 3 {
			parts = append(parts, &persistence.ShardHead{Shard: shard})
			continue
		}
		parts = append(parts, &persistence.ShardHead{Shard: shard, Head: persistence.Head{Position: 2, Epoch: 5}, Ordinal: 1})
		for position := uint64(1); position <= 2; position++ {
			parts = append(parts, &persistence.Event{ID: "evt_1", Workspace: "ws", Kind: "card", Stream: "card_1",
				Version: position, Type: "card.made.v1", At: start, Position: position,
				Payload: json.RawMessage(fmt.Sprintf("%q", bytes.Repeat([]byte("x"), size)))})
		}
		parts = append(parts,
			&persistence.Record{Kind: "card", ID: "a", Workspace: "ws", Slot: 48, Version: 1, Position: 1, Ordinal: 1,
				Document: json.RawMessage(`{}`)},
			&persistence.Record{Kind: "card", ID: "b", Workspace: "ws", Parent: "p", Slot: 49, Version: 2, Position: 2,
				Ordinal: 1},
			&persistence.Once{Scope: "http", Hash: [32]byte{1}, Fingerprint: [32]byte{9}, Expires: start, Answer: []byte("ok")},
			&persistence.Once{Scope: "http", Hash: [32]byte{2}, Expires: time.Time{}},
			&persistence.Timer{Kind: "card", Stream: "card_1", Key: "a", Workspace: "ws", Slot: 48, Due: start},
			&persistence.Timer{Kind: "card", Stream: "card_1", Key: "b", Workspace: "ws", Slot: 48, Due: start},
			&persistence.Cursor{Name: "kafka", Position: 1}, &persistence.Cursor{Name: "relay", Position: 7})
	}
	return parts
}

func content(parts []persistence.Part) persistence.Content {
	return func(yield func(persistence.Part, error) bool) {
		for _, p := range parts {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func written(t testing.TB, parts []persistence.Part) []byte {
	t.Helper()
	var out bytes.Buffer
	_, err := archive.Write(&out, identity, content(parts))
	require.NoError(t, err)
	return out.Bytes()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	parts := small(300_000) // a block for each event
	r, err := archive.NewReader(bytes.NewReader(written(t, parts)))
	require.NoError(t, err)
	require.Equal(t, identity, r.Identity())
	n := 0
	for p, err := range r.Content() {
		require.NoError(t, err)
		require.Equal(t, parts[n], p)
		n++
	}
	require.Len(t, parts, n)
	require.Equal(t, persistence.Counts{Events: 2, Records: 2, Onces: 2, Timers: 2, Cursors: 2}, r.Sum().Counts)
}

// verify reads an archive to its end.
func verify(from io.Reader) error {
	r, err := archive.NewReader(from)
	if err != nil {
		return err
	}
	for _, err := range r.Content() {
		if err != nil {
			return err
		}
	}
	return nil
}

// Every byte counts: none can be changed, and the archive can be cut nowhere.
func TestEveryDamageIsFound(t *testing.T) {
	whole := written(t, small(10))
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 0x10
		err := verify(bytes.NewReader(flipped))
		if i < 8 {
			require.ErrorIs(t, err, archive.ErrForm, "byte %d", i)
		} else {
			require.ErrorIs(t, err, archive.ErrDamaged, "byte %d", i)
		}
		err = verify(bytes.NewReader(whole[:i]))
		require.ErrorIs(t, err, archive.ErrDamaged, "cut at %d", i)
	}
	err := verify(bytes.NewReader(append(bytes.Clone(whole), 0)))
	require.ErrorContains(t, err, "something follows its end")
}

// A block that is left out or comes twice has a good checksum of its own.
func TestABlockLessOrMore(t *testing.T) {
	parts := small(300_000)
	one, two := written(t, parts), written(t, small(400_000))
	const header = 8 + 32 + 4
	length := func(b []byte) int { return 9 + int(b[1])<<24 + int(b[2])<<16 + int(b[3])<<8 + int(b[4]) }
	first := length(one[header:])
	less := append(bytes.Clone(one[:header]), one[header+first:]...)
	twice := append(bytes.Clone(one[:header+first]), one[header:]...)
	other := append(bytes.Clone(two[:header+length(two[header:])]), one[header+first:]...)
	for name, b := range map[string][]byte{"less": less, "twice": twice, "of another archive": other} {
		err := verify(bytes.NewReader(b))
		require.ErrorIs(t, err, archive.ErrDamaged, name)
	}
}

func TestWhatIsOutOfOrderIsNotWritten(t *testing.T) {
	const at = 4 // the first event of shard 3
	for name, change := range map[string]func(parts []persistence.Part) []persistence.Part{
		"a shard is missing":     func(p []persistence.Part) []persistence.Part { return p[:len(p)-1] },
		"a shard twice":          func(p []persistence.Part) []persistence.Part { return append(p, p[len(p)-1]) },
		"shards exchanged":       func(p []persistence.Part) []persistence.Part { p[0], p[1] = p[1], p[0]; return p },
		"no shard before a part": func(p []persistence.Part) []persistence.Part { return p[at:] },
		"a gap in the events":    func(p []persistence.Part) []persistence.Part { return append(p[:at:at], p[at+1:]...) },
		"events end early":       func(p []persistence.Part) []persistence.Part { return append(p[:at+1:at+1], p[at+2:]...) },
		"an event beyond the head": func(p []persistence.Part) []persistence.Part {
			p[at-1].(*persistence.ShardHead).Position = 1
			return p
		},
		"records exchanged": func(p []persistence.Part) []persistence.Part { p[at+2], p[at+3] = p[at+3], p[at+2]; return p },
		"a record twice":    func(p []persistence.Part) []persistence.Part { p[at+3] = p[at+2]; return p },
		"a claim twice":     func(p []persistence.Part) []persistence.Part { p[at+5] = p[at+4]; return p },
		"a timer before a claim": func(p []persistence.Part) []persistence.Part {
			p[at+5], p[at+6] = p[at+6], p[at+5]
			return p
		},
		"a record of another shard": func(p []persistence.Part) []persistence.Part {
			p[at+2].(*persistence.Record).Slot = 64
			return p
		},
		"a timer of no shard": func(p []persistence.Part) []persistence.Part {
			p[at+6].(*persistence.Timer).Slot = ident.Slots
			return p
		},
	} {
		_, err := archive.Write(new(bytes.Buffer), identity, content(change(small(10))))
		require.ErrorIs(t, err, archive.ErrDamaged, name)
	}
}

// FuzzRead: nothing panics, and what ends without an error has every shard.
func FuzzRead(f *testing.F) {
	f.Add(written(f, small(10)))
	f.Add(written(f, small(0))[:100])
	f.Add([]byte("PURSERJ1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := archive.NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		shards := 0
		for p, err := range r.Content() {
			if err != nil {
				return
			}
			if _, ok := p.(*persistence.ShardHead); ok {
				shards++
			}
		}
		require.Equal(t, ident.Shards, shards)
	})
}
