package seal_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"purser/actors/seal"
)

func newSealer(t *testing.T, key byte) *seal.Sealer {
	t.Helper()
	s, err := seal.New(bytes.Repeat([]byte{key}, seal.KeyBytes), rand.Reader)
	require.NoError(t, err)
	return s
}

func TestOnlyTheKeyAndTheRecordOpen(t *testing.T) {
	s := newSealer(t, 7)
	plain := []byte(`{"lastName":"Lovelace"}`)
	sealed, err := s.Seal("person/1", plain)
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "Lovelace")
	opened, err := s.Open("person/1", sealed)
	require.NoError(t, err)
	require.Equal(t, plain, opened)

	again, err := s.Seal("person/1", plain)
	require.NoError(t, err)
	require.NotEqual(t, sealed, again, "equal documents do not look equal")

	_, err = s.Open("person/2", sealed)
	require.ErrorIs(t, err, seal.ErrSealed)
	_, err = newSealer(t, 8).Open("person/1", sealed)
	require.ErrorIs(t, err, seal.ErrSealed)
}

func TestEveryDamageIsFound(t *testing.T) {
	s := newSealer(t, 7)
	sealed, err := s.Seal("person/1", []byte("x"))
	require.NoError(t, err)
	for i := range sealed {
		_, err := s.Open("person/1", sealed[:i])
		require.ErrorIs(t, err, seal.ErrSealed)
		damaged := bytes.Clone(sealed)
		damaged[i] ^= 1
		_, err = s.Open("person/1", damaged)
		require.ErrorIs(t, err, seal.ErrSealed)
	}
}

func TestNothingIsSealedWithoutANonce(t *testing.T) {
	broken := errors.New("no entropy")
	s, err := seal.New(make([]byte, seal.KeyBytes), iotest.ErrReader(broken))
	require.NoError(t, err)
	_, err = s.Seal("person/1", nil)
	require.ErrorIs(t, err, broken)
	_, err = seal.New(make([]byte, seal.KeyBytes-1), rand.Reader)
	require.Error(t, err)
}
