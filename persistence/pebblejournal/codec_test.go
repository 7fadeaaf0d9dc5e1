package pebblejournal

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence"
	"purser/persistence/ident"
)

// TestValuesSurvive writes values of any bytes and reads them back.
func TestValuesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOf(rapid.Rune())
		content := rapid.SliceOfN(rapid.Byte(), 1, 64)
		at := time.Unix(rapid.Int64().Draw(t, "seconds")>>8, rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
		b := &persistence.Batch{Workspace: name.Draw(t, "batch workspace"),
			Slot: ident.Slot(rapid.IntRange(0, 4095).Draw(t, "slot"))}

		e := persistence.Event{
			ID: name.Draw(t, "id"), Workspace: b.WorkspaceOf(name.Draw(t, "workspace")), Kind: name.Draw(t, "kind"),
			Stream: name.Draw(t, "stream"), Version: rapid.Uint64().Draw(t, "version"), Type: name.Draw(t, "type"), At: at,
			Payload: content.Draw(t, "payload"), Position: rapid.Uint64().Draw(t, "position"),
		}
		gotEvent, err := decodeEvent(e.Position, appendEvent(nil, b, &e))
		require.NoError(t, err)
		require.Equal(t, e, gotEvent)

		r := persistence.Record{
			Kind: e.Kind, ID: e.ID, Workspace: e.Workspace, Parent: name.Draw(t, "parent"), Slot: b.Slot,
			Document: content.Draw(t, "document"), Version: e.Version, Position: e.Position,
			Ordinal: rapid.Uint32().Draw(t, "ordinal"),
		}
		gotRecord, err := decodeRecord(r.Kind, r.ID, appendRecord(nil, &r))
		require.NoError(t, err)
		require.Equal(t, r, gotRecord)

		o := persistence.Once{Scope: e.Kind, Expires: at, Answer: content.Draw(t, "answer")}
		copy(o.Hash[:], content.Draw(t, "hash"))
		copy(o.Fingerprint[:], content.Draw(t, "fingerprint"))
		gotOnce, err := decodeOnce(o.Scope, o.Hash, encodeOnce(&o))
		require.NoError(t, err)
		require.Equal(t, o, gotOnce)
		expires, scope, hash, err := decodeExpiry(keyExpiry(1, at, o.Scope, o.Hash)[shardBytes:])
		require.NoError(t, err)
		require.Equal(t, o, persistence.Once{
			Scope: scope, Hash: hash, Expires: expires, Fingerprint: o.Fingerprint, Answer: o.Answer,
		})

		tm := persistence.Timer{Kind: e.Kind, Stream: e.Stream, Key: r.Parent, Workspace: e.Workspace, Slot: b.Slot, Due: at}
		gotTimer, err := decodeDue(keyDue(1, at, tm.Kind, tm.Stream, tm.Key)[shardBytes:], encodeDue(b, &tm))
		require.NoError(t, err)
		require.Equal(t, tm, gotTimer)
		due, err := decodeTimer(encodeTimer(at))
		require.NoError(t, err)
		require.Equal(t, at, due)

		h := head{Head: persistence.Head{Position: e.Position, Epoch: e.Version}, ordinal: r.Ordinal}
		gotHead, err := decodeHead(encodeHead(h))
		require.NoError(t, err)
		require.Equal(t, h, gotHead)
	})
}

func TestZeroTimeSurvives(t *testing.T) {
	due, err := decodeTimer(encodeTimer(time.Time{}))
	require.NoError(t, err)
	require.True(t, due.IsZero())
}

// TestKeysKeepOrder: keys have the order of their parts.
func TestKeysKeepOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(-1<<40, 1<<40)
		a, b := time.Unix(seconds.Draw(t, "a"), 5), time.Unix(seconds.Draw(t, "b"), 7)
		require.Equal(t, a.Before(b), bytes.Compare(keyDue(1, a, "k", "s", "t"), keyDue(1, b, "k", "s", "t")) < 0)
		p, q := rapid.Uint64().Draw(t, "p"), rapid.Uint64().Draw(t, "q")
		require.Equal(t, p < q, bytes.Compare(keyEvent(1, p), keyEvent(1, q)) < 0)
		require.Equal(t, p > q, bytes.Compare(keyList(1, "k", "w", "p", p, 9), keyList(1, "k", "w", "p", q, 9)) < 0)
		x, y := rapid.String().Draw(t, "x"), rapid.String().Draw(t, "y")
		require.Equal(t, x < y, bytes.Compare(keyRecord(1, "k", x), keyRecord(1, "k", y)) < 0)
	})
}

// TestPrefixesDoNotMeet: what lies between a list's prefix and its end is in that list.
func TestPrefixesDoNotMeet(t *testing.T) {
	name := rapid.SampledFrom([]string{"", "a", "aa", "a\x00", "\xff", "\x01a"})
	rapid.Check(t, func(t *rapid.T) {
		k, w, p := name.Draw(t, "kind"), name.Draw(t, "workspace"), name.Draw(t, "parent")
		k2, w2, p2 := name.Draw(t, "other kind"), name.Draw(t, "other workspace"), name.Draw(t, "other parent")
		from := prefixList(1, k, w, p)
		key := keyList(1, k2, w2, p2, rapid.Uint64().Draw(t, "position"), rapid.Uint32().Draw(t, "ordinal"))
		inside := bytes.Compare(from, key) <= 0 && bytes.Compare(key, after(from)) < 0
		require.Equal(t, k == k2 && w == w2 && p == p2, inside)
	})
}

// FuzzDecode: no bytes make a decoder panic, and an accepted value encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	b := &persistence.Batch{Workspace: "ws", Slot: 7}
	at := time.Unix(1, 2)
	f.Add(appendEvent(nil, b, &persistence.Event{ID: "evt", Payload: []byte("{}"), At: at}))
	f.Add(appendEvent(nil, b, &persistence.Event{ID: "evt", Payload: make([]byte, packFrom), At: at}))
	f.Add(appendRecord(nil, &persistence.Record{Workspace: "ws", Document: []byte("{}")}))
	f.Add(encodeOnce(&persistence.Once{Expires: at, Answer: []byte("answer")}))
	f.Add(encodeHead(head{}))
	f.Add(encodeMeta(meta{format: format}))
	f.Add(keyExpiry(1, at, "scope", [32]byte{})[shardBytes:])
	f.Add(keyDue(1, at, "k", "s", "t")[shardBytes:])
	f.Add(encodeDue(b, &persistence.Timer{}))
	f.Fuzz(func(t *testing.T, value []byte) {
		if h, err := decodeHead(value); err == nil {
			require.Equal(t, value, encodeHead(h))
		}
		if m, err := decodeMeta(value); err == nil {
			require.Equal(t, value, encodeMeta(m))
		}
		if expires, scope, hash, err := decodeExpiry(value); err == nil {
			again := keyExpiry(1, expires, scope, hash)[shardBytes:]
			_, scope2, _, err := decodeExpiry(again)
			require.NoError(t, err)
			require.Equal(t, scope, scope2)
		}
		if e, err := decodeEvent(1, value); err == nil {
			again, err := decodeEvent(1, appendEvent(nil, &persistence.Batch{}, &e))
			require.NoError(t, err)
			require.Equal(t, e, again)
		}
		if r, err := decodeRecord("k", "id", value); err == nil {
			again, err := decodeRecord("k", "id", appendRecord(nil, &r))
			require.NoError(t, err)
			require.Equal(t, r, again)
		}
		if o, err := decodeOnce("s", [32]byte{}, value); err == nil {
			require.Equal(t, value, encodeOnce(&o))
		}
		if due, err := decodeTimer(value); err == nil {
			require.Equal(t, value, encodeTimer(due))
		}
		_, _ = decodeDue(value, encodeDue(b, &persistence.Timer{}))
		_, _ = decodeDue(keyDue(1, at, "k", "s", "t")[shardBytes:], value)
		_, _ = decodeNumber(value)
	})
}
