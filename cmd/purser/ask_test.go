package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
)

// TestCommandNamesTheMissingServer runs each command that needs a running server: without a data
// directory, without a server, after a kill that left the addresses file, and while a server
// starts.
func TestCommandNamesTheMissingServer(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, startServer(t, data).Close())
	missing := filepath.Join(data, "missing")
	requireRefusal := func(dir, reason string) {
		t.Helper()
		for _, command := range [][]string{{"health"}, {"clock", "status"}, {"clock", "accept"},
			{"reset-password", "ada@example.com"}, {"relay", "list"}, {"relay", "retry"},
			{"payouts", "overdue"}, {"payouts", "resolve", "po_1", "--outcome", "failed"},
			{"export", "nacha", "--day", "2026-11-20"}} {
			require.ErrorContains(t, run(append(command, "--data-dir", dir), io.Discard), reason, "%v", command)
		}
	}
	noServer := "no server runs on " + data + ": start it, or name its directory with --data-dir"
	requireRefusal(data, noServer)
	requireRefusal(missing, "there is no data directory "+missing)
	require.NoDirExists(t, missing)
	empty := t.TempDir()
	requireRefusal(empty, empty+" is no data directory of purser")

	require.NoError(t, os.WriteFile(datadir.AddressesFile(data), []byte("ADMIN_ADDR=127.0.0.1:1\n"), 0o600))
	requireRefusal(data, noServer)
	require.NoError(t, os.Remove(datadir.AddressesFile(data)))
	unlock, err := datadir.LockExisting(data)
	require.NoError(t, err)
	requireRefusal(data, "a server starts or stops, repeat the command in a moment")
	require.NoError(t, unlock())
}
