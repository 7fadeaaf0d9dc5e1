package pgjournal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/archive"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/pebblejournal"
	"purser/persistence/pgjournal"
)

// generatedContent returns content of the given number of 400-byte events, with a record and an
// idempotency key for every fourth.
func generatedContent(events int) persistence.Content {
	payload := json.RawMessage(fmt.Sprintf(`{"text":%q}`, bytes.Repeat([]byte("x"), 400)))
	each := events / ident.Shards
	return func(yield func(persistence.Part, error) bool) {
		for shard := range ident.Shards {
			yield(&persistence.ShardHead{Shard: ident.Shard(shard), Head: persistence.Head{Position: uint64(each), Epoch: 1}},
				nil)
			for n := 1; n <= each; n++ {
				yield(&persistence.Event{ID: fmt.Sprintf("evt_%026d", n), Workspace: "ws_00000000000000000000000000",
					Kind: "card", Stream: fmt.Sprintf("card_%026d", n/4), Version: uint64(n%4 + 1), Type: "card.changed.v1",
					At: journaltest.Start, Position: uint64(n), Payload: payload}, nil)
			}
			for n := 1; n <= each; n += 4 {
				yield(&persistence.Record{Kind: "card", ID: fmt.Sprintf("card_%026d", n),
					Workspace: "ws_00000000000000000000000000", Slot: ident.Slot(shard << 4), Version: 4, Position: uint64(n),
					Ordinal: 1, Document: payload}, nil)
			}
			for n := 1; n <= each; n += 4 {
				yield(&persistence.Once{Scope: "http", Hash: [32]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)},
					Answer: []byte("answer")}, nil)
			}
		}
	}
}

// BenchmarkContent writes and loads a million events of 400 bytes. It reports events and archive
// bytes per second.
func BenchmarkContent(b *testing.B) {
	const events = 1 << 20
	identity := persistence.Identity{Deployment: ident.UUID{1}, Store: ident.UUID{2}}
	size := &countingWriter{}
	_, err := archive.Write(size, identity, generatedContent(events))
	require.NoError(b, err)
	run := func(b *testing.B, do func()) {
		b.SetBytes(int64(size.bytes))
		for b.Loop() {
			do()
		}
		b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	}
	pebble := pebblejournal.Options{Dir: b.TempDir() + "/journal"}
	whole, url := b, ""
	b.Run("load/embedded", func(b *testing.B) {
		run(b, func() {
			pebble.Dir += "x"
			require.NoError(b, pebblejournal.Load(context.Background(), pebble, identity, generatedContent(events)))
		})
	})
	b.Run("load/Postgres", func(b *testing.B) {
		run(b, func() {
			url = databases.Database(whole) // dump reads it
			require.NoError(b, pgjournal.Load(context.Background(), fastOptions(url), identity, generatedContent(events)))
		})
	})
	dump := func(b *testing.B, j persistence.Journal) {
		run(b, func() {
			s, err := j.(persistence.Archiver).Snapshot(context.Background())
			require.NoError(b, err)
			_, err = archive.Write(io.Discard, identity, s.Content(context.Background()))
			require.NoError(b, err)
			require.NoError(b, s.Close())
		})
		require.NoError(b, j.Close())
	}
	b.Run("dump/embedded", func(b *testing.B) {
		j, err := pebblejournal.Open(pebble)
		require.NoError(b, err)
		dump(b, j)
	})
	b.Run("dump/Postgres", func(b *testing.B) { dump(b, open(b, fastOptions(url))) })
}

type countingWriter struct{ bytes int }

func (c *countingWriter) Write(p []byte) (int, error) { c.bytes += len(p); return len(p), nil }
