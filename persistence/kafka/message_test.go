package kafka

import (
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/ident"
	"purser/persistence"
)

var testCodec = newCodec(persistence.Identity{Deployment: ident.UUID{1}, Store: ident.UUID{2}})

func TestEventsComeBackExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		shard := ident.Shard(rapid.Byte().Draw(t, "shard"))
		event := persistence.Event{
			ID: text.Draw(t, "id"), Workspace: text.Draw(t, "workspace"), Kind: text.Draw(t, "kind"),
			Stream: text.Draw(t, "stream"), Version: rapid.Uint64().Draw(t, "version"), Type: text.Draw(t, "type"),
			At:       time.Unix(rapid.Int64Range(1, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
			Payload:  rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "payload"),
			Position: rapid.Uint64Min(1).Draw(t, "position"),
		}
		m := testCodec.encode(shard, &event)
		size := len(event.Payload) + len(event.Workspace)
		for _, h := range m.Headers {
			size += len(h.Key) + len(h.Value) + 8
		}
		require.Less(t, size, testCodec.size(&event))
		gotShard, got, err := testCodec.decode(Partition(shard), &m)
		require.NoError(t, err)
		require.Equal(t, shard, gotShard)
		require.Equal(t, event, got)
	})
}

// TestTheLargestFits: an event at every limit of the journal is one request that the topic takes.
func TestTheLargestFits(t *testing.T) {
	name := string(make([]byte, persistence.MaxName))
	event := persistence.Event{ID: name, Workspace: name, Kind: name, Stream: name, Type: name,
		Payload: make([]byte, persistence.MaxPayload)}
	require.LessOrEqual(t, testCodec.size(&event), MaxMessageBytes)
}

func TestForeignMessagesAreTold(t *testing.T) {
	event := persistence.Event{ID: "evt_1", At: time.Unix(1, 0), Payload: []byte(`{}`), Position: 1, Version: 1}
	for name, spoil := range map[string]func(*kafkago.Record){
		"no headers":     func(m *kafkago.Record) { m.Headers = nil },
		"another store":  func(m *kafkago.Record) { set(m, headerStore, "00") },
		"another source": func(m *kafkago.Record) { set(m, headerSource, "urn:other") },
		"shard":          func(m *kafkago.Record) { set(m, headerShard, "6") },
		"shard 256":      func(m *kafkago.Record) { set(m, headerShard, "256") },
		"position 0":     func(m *kafkago.Record) { set(m, headerPosition, "0") },
		"position":       func(m *kafkago.Record) { set(m, headerPosition, "-1") },
		"version":        func(m *kafkago.Record) { set(m, headerVersion, "") },
		"time":           func(m *kafkago.Record) { set(m, headerTime, "yesterday") },
	} {
		m := testCodec.encode(5, &event)
		spoil(&m)
		_, _, err := testCodec.decode(5, &m)
		require.ErrorIs(t, err, errForeign, name)
	}
	m := testCodec.encode(5, &event)
	_, _, err := testCodec.decode(5, &m)
	require.NoError(t, err)
}

func set(m *kafkago.Record, key, value string) {
	for i := range m.Headers {
		if m.Headers[i].Key == key {
			m.Headers[i].Value = []byte(value)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("5", "1", "1", "2026-01-02T03:04:05Z")
	f.Add("", "-1", "18446744073709551616", "0")
	f.Fuzz(func(t *testing.T, shard, position, version, at string) {
		m := testCodec.encode(5, &persistence.Event{At: time.Unix(1, 0), Position: 1})
		set(&m, headerShard, shard)
		set(&m, headerPosition, position)
		set(&m, headerVersion, version)
		set(&m, headerTime, at)
		got, e, err := testCodec.decode(5, &m)
		if err == nil && (Partition(got) != 5 || e.Position == 0 || e.At.IsZero()) {
			t.Fatalf("shard %d, %+v", got, e)
		}
	})
}
