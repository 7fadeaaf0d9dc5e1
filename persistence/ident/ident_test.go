package ident_test

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence/ident"
)

func TestIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slot := ident.Slot(rapid.IntRange(0, ident.Slots-1).Draw(t, "slot"))
		at := time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "ms")).UTC()
		random := rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "random")
		u, err := ident.New(slot, at, bytes.NewReader(random))
		require.NoError(t, err)
		id := u.Format(ident.Card)
		require.Len(t, id, len("card_")+26)
		back, err := ident.Parse(ident.Card, id)
		require.NoError(t, err)
		require.Equal(t, u, back)
		require.Equal(t, slot, back.Slot())
		require.Equal(t, at, back.Time())
		require.Equal(t, ident.Shard(slot>>4), back.Shard())
		_, err = ident.Parse(ident.Key, id)
		require.ErrorIs(t, err, ident.ErrMalformed)
	})
}

func TestSecretAndTokenRoundTrip(t *testing.T) {
	for slot := range ident.Slots {
		token, err := ident.NewToken(ident.Slot(slot), rand.Reader)
		require.NoError(t, err)
		back, err := ident.ParseToken([]byte(token.String()))
		require.NoError(t, err)
		require.Equal(t, token, back)
		require.Equal(t, ident.Slot(slot), back.Slot())

		secret, err := ident.NewSecret(ident.APISecret, ident.Slot(slot), rand.Reader)
		require.NoError(t, err)
		got, hash, err := ident.ParseSecret(ident.APISecret, secret)
		require.NoError(t, err)
		require.Equal(t, ident.Slot(slot), got)
		require.Len(t, hash, 64)
	}
}

func TestMalformed(t *testing.T) {
	good := ident.Derive(7, time.UnixMilli(1), "cause").Format(ident.Card)
	for _, bad := range []string{"", "card_", "card", good[:len(good)-1], good + "0", strings.ToUpper(good),
		strings.Replace(good, "card_", "key_", 1), "card_" + strings.Repeat("z", 26), "card_" + strings.Repeat("0", 26)} {
		_, err := ident.Parse(ident.Card, bad)
		require.ErrorIs(t, err, ident.ErrMalformed, bad)
	}
}

func TestDerivedIDsRepeat(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	require.Equal(t, ident.Derive(9, at, "evt_1/join"), ident.Derive(9, at, "evt_1/join"))
	require.NotEqual(t, ident.Derive(9, at, "evt_1/join"), ident.Derive(9, at, "evt_2/join"))
}

func FuzzParse(f *testing.F) {
	f.Add(ident.Derive(7, time.UnixMilli(1), "cause").Format(ident.Card))
	f.Add("ctok_0")
	f.Fuzz(func(t *testing.T, s string) {
		if u, err := ident.Parse(ident.Card, s); err == nil && u.Format(ident.Card) != s {
			t.Fatalf("%q read as %q", s, u.Format(ident.Card))
		}
		if token, err := ident.ParseToken([]byte(s)); err == nil && token.String() != s {
			t.Fatalf("%q read as %q", s, token)
		}
	})
}
