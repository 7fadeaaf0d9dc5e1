package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
)

// forEachDamage flips one bit of each byte of a small file (in a full run each bit), truncates the
// file to each length, and zeroes it. It calls check after each damage, and restores the file.
func forEachDamage(t *testing.T, path string, check func(damage string)) {
	t.Helper()
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	damage := func(kind string, text []byte) {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		check(fmt.Sprintf("%s of %s: %q", kind, filepath.Base(path), text))
	}
	for at := range whole {
		for bit := range 8 {
			if bit != at%8 && os.Getenv(fullLengthVariable) == "" {
				continue
			}
			text := slices.Clone(whole)
			text[at] ^= 1 << bit
			damage("a flipped bit", text)
		}
		damage("the beginning", whole[:at])
	}
	damage("zeros", make([]byte, len(whole)))
	require.NoError(t, os.WriteFile(path, whole, 0o600))
}

// newSecrets returns a data directory with the secrets of a first start, in which those of the card
// network and of the bank are rotating.
func newSecrets(t *testing.T) (data string) {
	t.Helper()
	data = t.TempDir()
	require.NoError(t, (&settings.Config{DataDir: data}).FindSecrets())
	for _, name := range []string{datadir.NetworkSecretFile, "partner-secret-bank"} {
		require.NoError(t, run([]string{"rotate", "--data-dir", data, name}, io.Discard))
	}
	require.NoError(t, (&settings.Config{DataDir: data}).FindSecrets())
	return data
}

// TestADamagedSecretIsRefused: before there were checksums, a server with a damaged secret refused
// the card network or a partner, or gave checkout links addresses of another seed.
func TestADamagedSecretIsRefused(t *testing.T) {
	data := newSecrets(t)
	for _, name := range []string{datadir.NetworkSecretFile, settings.PartnerSecretFile, "partner-secret-bank",
		settings.DataKeyFile, settings.CheckoutSeedFile} {
		path := filepath.Join(data, name)
		forEachDamage(t, path, func(damage string) {
			require.ErrorContains(t, (&settings.Config{DataDir: data}).FindSecrets(), path, damage)
		})
	}
	whole := settings.Config{DataDir: data}
	require.NoError(t, whole.FindSecrets())
	path := filepath.Join(data, settings.SecretSumsFile)
	forEachDamage(t, path, func(damage string) {
		found := settings.Config{DataDir: data}
		if err := found.FindSecrets(); err != nil {
			require.ErrorContains(t, err, path, damage)
			return
		}
		require.Regexp(t, "^the beginning", damage,
			"a damage that was accepted must only remove whole lines of checksums")
		require.Equal(t, whole, found, damage)
	})
}

// TestASecretChangedByHand: a secret that was edited is accepted after its checksum, or the whole
// file of checksums, is removed.
func TestASecretChangedByHand(t *testing.T) {
	data := newSecrets(t)
	path, sums := filepath.Join(data, datadir.NetworkSecretFile), filepath.Join(data, settings.SecretSumsFile)
	require.NoError(t, os.WriteFile(path, []byte("a secret of the owner"), 0o600))
	require.ErrorContains(t, (&settings.Config{DataDir: data}).FindSecrets(), path+" differs from its checksum")
	require.ErrorContains(t,
		run([]string{"rotate", "--data-dir", data, datadir.NetworkSecretFile, "--finish"}, io.Discard),
		path+" differs from its checksum")
	require.NoError(t, settings.DropSum(path))
	require.NoError(t, (&settings.Config{DataDir: data}).FindSecrets())
	require.NoError(t, os.Remove(sums))
	require.NoError(t, os.WriteFile(path, []byte("a secret of another owner"), 0o600))
	c := settings.Config{DataDir: data}
	require.NoError(t, c.FindSecrets())
	require.Equal(t, []string{"a secret of another owner"}, c.NetworkSecrets)
	require.FileExists(t, sums)
}
