package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/partner/sandbox"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/demo"
)

// TestARampThatIsNewerThanTheJournal restores a journal in which an order is open, beside a ramp
// that has reported it. The ramp reports the order again, and its money moves once.
func TestARampThatIsNewerThanTheJournal(t *testing.T) {
	t.Parallel()
	data, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	m, p := serveRamp(t, data, "50ms")
	s := newRampCustomer(t, p)
	require.NoError(t, m.Close())
	m, p = serveRamp(t, data, "2s")
	order := s.placeOnramp(t, p, 100_00)
	require.NoError(t, m.Close())
	mustRun(t, "backup", "--data-dir", data, backup)
	require.True(t, sandbox.Exists(nil, datadir.SandboxDir(backup)))

	m, p = serveRamp(t, data, "50ms")
	s.awaitOnramp(t, p, order, 100_00)
	moved := [2]int64{s.initialUSD - 100_00, s.initialUSDC + 99_50}
	require.Equal(t, moved, s.treasury(t, p))
	require.NoError(t, m.Close())

	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	mustRun(t, "restore", "--keep-authorizer", "--data-dir", data, backup)
	m, p = serveRamp(t, data, "50ms")
	s.awaitOnramp(t, p, order, 100_00)
	require.Equal(t, moved, s.treasury(t, p))
	require.NoError(t, m.Close())
	require.Contains(t, runAudit(t, data), "agree to the cent")
}

// TestRelinkingAfterARestoreOfAnOlderJournal links a workspace to the ramp after a backup. The
// restored journal lacks the link and the ramp has it, and the workspace can be linked again.
func TestRelinkingAfterARestoreOfAnOlderJournal(t *testing.T) {
	t.Parallel()
	data, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	m, p := serveRamp(t, data, "50ms")
	session, bearer := signUpSession(t, p, 0, demo.Scopes)
	session.HTTP.CloseIdleConnections()
	require.NoError(t, m.Close())
	mustRun(t, "backup", "--data-dir", data, backup)
	link := func() {
		m, p := serveRamp(t, data, "50ms")
		(&rampCustomer{bearer: bearer}).linkAccount(t, p)
		require.NoError(t, m.Close())
	}
	link()
	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	mustRun(t, "restore", "--keep-authorizer", "--data-dir", data, backup)
	link()
}

// serveRamp starts a server in the test's own process, without rate limits, whose sandbox ramp
// reports after delay.
func serveRamp(t *testing.T, data, delay string) (*daemon, *process) {
	t.Helper()
	settings := testSettings(t, data)
	settings.SandboxDelay, settings.RateLimits = delay, "off"
	config, err := settings.Config()
	require.NoError(t, err)
	m := newDaemon(config, debugLogger())
	require.NoError(t, m.Start(t.Context()))
	return m, &process{rest: "http://" + m.listeners.http.Addr().String(), http: http.DefaultClient}
}
