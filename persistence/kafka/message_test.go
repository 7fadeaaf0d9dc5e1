package kafka

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence"
	"purser/persistence/ident"
)

var (
	testIdentity = persistence.Identity{Deployment: ident.UUID{1}, Store: ident.UUID{2}}
	testProof    = Proof{Keys: [][]byte{bytes.Repeat([]byte{7}, KeyBytes)}, Run: ident.UUID{3}}
	testCodec    = newCodec(testIdentity, testProof)
)

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
		m := testCodec.encodeEvent(shard, &event)
		size := len(event.Payload) + len(event.Workspace)
		for _, h := range m.Headers {
			size += len(h.Key) + len(h.Value) + 8
		}
		require.Less(t, size, testCodec.maxMessageSize(&event))
		gotShard, got, err := decode(testCodec, Partition(shard), &m)
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
	require.LessOrEqual(t, testCodec.maxMessageSize(&event), MaxMessageBytes)
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
		m := testCodec.encodeEvent(5, &event)
		spoil(&m)
		_, _, err := decode(testCodec, 5, &m)
		require.ErrorIs(t, err, ErrForeign, name)
	}
	m := testCodec.encodeEvent(5, &event)
	_, _, err := decode(testCodec, 5, &m)
	require.NoError(t, err)
}

// TestAChangedMessageIsForged: a proof covers every field from which an event is rebuilt.
func TestAChangedMessageIsForged(t *testing.T) {
	event := persistence.Event{ID: "evt_1", Workspace: "ws_1", Kind: "checkout", Stream: "cs_1", Version: 4,
		Position: 9,
		Type:     "checkout.paid.v1", At: time.Unix(1, 5), Payload: []byte(`{"cents":100}`)}
	for name, change := range map[string]func(*kafkago.Record){
		"payload":    func(m *kafkago.Record) { m.Value = kafkago.NewBytes([]byte(`{"cents":900}`)) },
		"workspace":  func(m *kafkago.Record) { m.Key = kafkago.NewBytes([]byte("ws_2")) },
		"id":         func(m *kafkago.Record) { set(m, headerID, "evt_2") },
		"type":       func(m *kafkago.Record) { set(m, headerType, "checkout.completed.v1") },
		"time":       func(m *kafkago.Record) { set(m, headerTime, "1970-01-01T00:00:02Z") },
		"nanosecond": func(m *kafkago.Record) { set(m, headerTime, "1970-01-01T00:00:01.000000006Z") },
		"shard":      func(m *kafkago.Record) { set(m, headerShard, "37") },
		"position":   func(m *kafkago.Record) { set(m, headerPosition, "10") },
		"kind":       func(m *kafkago.Record) { set(m, headerKind, "balance") },
		"stream":     func(m *kafkago.Record) { set(m, headerStream, "cs_2") },
		"version":    func(m *kafkago.Record) { set(m, headerVersion, "5") },
		"a text that moves into the next": func(m *kafkago.Record) {
			set(m, headerKind, "checkou")
			set(m, headerStream, "tcs_1")
		},
		"another run": func(m *kafkago.Record) {
			set(m, headerProof, strings.Replace(headerOf(m, headerProof), " 03", " 04", 1))
		},
		"a proof of version 2": func(m *kafkago.Record) { set(m, headerProof, "2"+headerOf(m, headerProof)[1:]) },
		"no mac":               func(m *kafkago.Record) { set(m, headerProof, headerOf(m, headerProof)[:34]) },
		"half a mac":           func(m *kafkago.Record) { set(m, headerProof, headerOf(m, headerProof)[:67]) },
		"another key": func(m *kafkago.Record) {
			other := newCodec(testIdentity, Proof{Keys: [][]byte{make([]byte, KeyBytes)}, Run: testProof.Run})
			*m = other.encodeEvent(5, &event)
		},
	} {
		m := testCodec.encodeEvent(5, &event)
		change(&m)
		_, _, err := decode(testCodec, 5, &m)
		require.ErrorIs(t, err, ErrForged, name)
	}
}

// TestAMessageOfAnotherRunIsUnproven: a message of an earlier process or version is only a hint.
func TestAMessageOfAnotherRunIsUnproven(t *testing.T) {
	event := persistence.Event{ID: "evt_1", At: time.Unix(1, 0), Payload: []byte(`{}`), Position: 1, Version: 1}
	m := newCodec(testIdentity, Proof{Keys: testProof.Keys, Run: ident.UUID{9}}).encodeEvent(5, &event)
	shard, _, err := decode(testCodec, 5, &m)
	require.ErrorIs(t, err, ErrUnproven)
	require.EqualValues(t, 5, shard)
	m = testCodec.encodeEvent(5, &event)
	m.Headers = m.Headers[:headersOfEvent-1]
	_, _, err = decode(testCodec, 5, &m)
	require.ErrorIs(t, err, ErrUnproven)
}

// TestAnOlderKeyChecks: while a data key rotates, messages under the older key still check.
func TestAnOlderKeyChecks(t *testing.T) {
	event := persistence.Event{ID: "evt_1", At: time.Unix(1, 0), Payload: []byte(`{}`), Position: 1, Version: 1}
	m := testCodec.encodeEvent(5, &event)
	newer := newCodec(testIdentity, Proof{Keys: [][]byte{make([]byte, KeyBytes), testProof.Keys[0]},
		Run: testProof.Run})
	_, _, err := decode(newer, 5, &m)
	require.NoError(t, err)
}

// decode decodes a message as kafka-go has it.
func decode(c *codec, partition int, m *kafkago.Record) (ident.Shard, persistence.Event, error) {
	one := record{headers: m.Headers}
	var faults [2]error
	one.key, faults[0] = protocol.ReadAll(m.Key)
	one.value, faults[1] = protocol.ReadAll(m.Value)
	if err := errors.Join(faults[:]...); err != nil {
		return 0, persistence.Event{}, err
	}
	return c.decodeRecord(partition, &one)
}

func headerOf(m *kafkago.Record, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func BenchmarkEncode(b *testing.B) {
	event := persistence.Event{ID: "evt_1", Workspace: "ws_1", Kind: "card", Stream: "card_1", Version: 4, Position: 9,
		Type: "card.frozen.v1", At: time.Unix(1, 5), Payload: bytes.Repeat([]byte("x"), 600)}
	b.ReportAllocs()
	for b.Loop() {
		testCodec.encodeEvent(5, &event)
	}
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
		m := testCodec.encodeEvent(5, &persistence.Event{At: time.Unix(1, 0), Position: 1})
		set(&m, headerShard, shard)
		set(&m, headerPosition, position)
		set(&m, headerVersion, version)
		set(&m, headerTime, at)
		got, e, err := decode(testCodec, 5, &m)
		if err == nil && (Partition(got) != 5 || e.Position == 0 || e.At.IsZero()) {
			t.Fatalf("shard %d, %+v", got, e)
		}
	})
}
