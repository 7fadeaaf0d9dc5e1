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

func TestDocumentOpensOnlyWithItsKeyAndRecord(t *testing.T) {
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
	require.NotEqual(t, sealed, again, "equal documents have unequal ciphertexts")

	_, err = s.Open("person/2", sealed)
	require.ErrorIs(t, err, seal.ErrSealed)
	_, err = newSealer(t, 8).Open("person/1", sealed)
	require.ErrorIs(t, err, seal.ErrSealed)
}

func TestDamagedDocumentsDoNotOpen(t *testing.T) {
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

func TestSealFailsWithoutANonce(t *testing.T) {
	broken := errors.New("no entropy")
	s, err := seal.New(make([]byte, seal.KeyBytes), iotest.ErrReader(broken))
	require.NoError(t, err)
	_, err = s.Seal("person/1", nil)
	require.ErrorIs(t, err, broken)
	_, err = seal.New(make([]byte, seal.KeyBytes-1), rand.Reader)
	require.Error(t, err)
}

// Only documents sealed under the first key are not stale.
func TestFirstKeySealsAndOlderKeysOpen(t *testing.T) {
	rotated, err := seal.New(bytes.Repeat([]byte{8}, seal.KeyBytes), rand.Reader,
		bytes.Repeat([]byte{7}, seal.KeyBytes))
	require.NoError(t, err)
	require.True(t, rotated.Rotating())
	require.False(t, newSealer(t, 8).Rotating())
	require.Equal(t, newSealer(t, 8).KeyID(), rotated.KeyID())
	require.NotEqual(t, newSealer(t, 7).KeyID(), rotated.KeyID())

	before, err := newSealer(t, 7).Seal("person/1", []byte("x"))
	require.NoError(t, err)
	opened, err := rotated.Open("person/1", before)
	require.NoError(t, err)
	require.Equal(t, "x", string(opened))
	require.True(t, rotated.Stale(before))

	after, err := rotated.Seal("person/1", opened)
	require.NoError(t, err)
	require.False(t, rotated.Stale(after))
	_, err = newSealer(t, 7).Open("person/1", after)
	require.ErrorIs(t, err, seal.ErrSealed)
	_, err = newSealer(t, 8).Open("person/1", after)
	require.NoError(t, err)

	_, err = seal.New(make([]byte, seal.KeyBytes), rand.Reader, make([][]byte, seal.MaxKeys)...)
	require.Error(t, err)
}
