package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
)

// TestACommandNamesTheServerThatItMisses: without a directory, without a server, after a kill that
// has left addresses, and beside a server that does not listen.
func TestACommandNamesTheServerThatItMisses(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, startServer(t, data).Close())
	missing := filepath.Join(data, "missing")
	fail := func(dir, says string) {
		t.Helper()
		for _, command := range [][]string{{"health"}, {"clock", "status"}, {"clock", "accept"},
			{"relay", "list"}, {"relay", "retry"},
			{"payouts", "overdue"}, {"payouts", "resolve", "po_1", "--outcome", "failed"},
			{"export", "nacha", "--day", "2026-11-20"}} {
			require.ErrorContains(t, run(append(command, "--data-dir", dir), io.Discard), says, "%v", command)
		}
	}
	none := "no server runs on " + data + ": start it, or name its directory with --data-dir"
	fail(data, none)
	fail(missing, "there is no data directory "+missing)
	require.NoDirExists(t, missing)
	empty := t.TempDir()
	fail(empty, empty+" is no data directory of purser")

	require.NoError(t, os.WriteFile(datadir.AddressesFile(data), []byte("ADMIN_ADDR=127.0.0.1:1\n"), 0o600))
	fail(data, none)
	require.NoError(t, os.Remove(datadir.AddressesFile(data)))
	unlock, err := datadir.LockExisting(data)
	require.NoError(t, err)
	fail(data, "a server starts or stops, repeat the command in a moment")
	require.NoError(t, unlock())
}
