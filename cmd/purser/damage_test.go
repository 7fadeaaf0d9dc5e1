package main

import (
	"crypto/rand"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/persistence/pebblegate"
)

// TestDamagedStoreIsRefusedWithItsRepair flips one bit in the manifest of each store. Opening the
// store fails with an error that names the directory, the file and the repair.
func TestDamagedStoreIsRefusedWithItsRepair(t *testing.T) {
	data := t.TempDir()
	place := datadir.Stores{DataDir: data}
	journal := func() (io.Closer, error) {
		return place.OpenJournal(t.Context(), datadir.JournalOptions{Note: func(error) {}})
	}
	engine := func() (io.Closer, error) {
		opened, err := place.OpenJournal(t.Context(), datadir.JournalOptions{Note: func(error) {}})
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		m := &daemon{config: settings.Config{DataDir: data, AuthorizerSync: true}, Clock: time.Now,
			Entropy: rand.Reader, Fatal: func(error) {}, log: slog.New(slog.DiscardHandler)}
		m.disk = newDiskGuard(m.config, datadir.FreeBytes, m.log)
		return closerFunc(func() error { return m.authorizer.Close() }), m.openEngine(opened.Identity().Deployment)
	}
	partner := func() (io.Closer, error) {
		p, cleanup := partners{log: slog.New(slog.DiscardHandler)}, new(cleanupStack)
		config := settings.Config{DataDir: data, SandboxDelay: time.Hour,
			PartnerSecrets: settings.PartnerSecrets{Common: []string{"secret"}}}
		err := p.open(&config, time.Now, time.Now, cleanup)
		return closerFunc(func() error { return cleanup.closeTo(0) }), err
	}
	for _, store := range []struct {
		dir, repair string
		open        func() (io.Closer, error)
	}{
		{datadir.JournalDir(data), "purser restore", journal},
		{datadir.AuthorizerDir(data), "purser rebuild-authorizer --yes", engine},
		{datadir.SandboxDir(data), "purser restore", partner},
	} {
		for range 2 { // a log then has more than one synced record
			opened, err := store.open()
			require.NoError(t, err)
			require.NoError(t, opened.Close())
		}
		flipManifest(t, store.dir)
		_, err := store.open()
		require.ErrorIs(t, err, pebblegate.ErrDamaged)
		require.ErrorContains(t, err, store.dir+" is damaged")
		require.ErrorContains(t, err, "MANIFEST-")
		require.ErrorContains(t, err, store.repair)
		flipManifest(t, store.dir) // undo
	}
}

type closerFunc func() error

func (c closerFunc) Close() error { return c() }

// flipManifest flips one bit in the middle of each manifest of a store. A second call undoes it.
func flipManifest(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		text[len(text)/2] ^= 1
		require.NoError(t, os.WriteFile(name, text, 0o600))
	}
}
