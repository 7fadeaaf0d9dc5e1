package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/buildinfo"
)

// TestHealthReportsReadinessAndReasons runs the health command by data directory and by address:
// for a ready server, for one with a suspect clock, and without a server.
func TestHealthReportsReadinessAndReasons(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	m, p := startOnClock(t, data, wall)
	admin := m.listeners.admin.Addr().String()
	for _, flags := range [][]string{{"--data-dir", data}, {"--addr", admin}} {
		var out strings.Builder
		require.NoError(t, run(append([]string{"health"}, flags...), &out))
		require.Equal(t, "ready\n", out.String())
	}
	wall.step.Store(int64(45 * days))
	awaitClockState(t, m, p, true)
	for _, flags := range [][]string{{"--data-dir", data}, {"--addr", admin}} {
		err := run(append([]string{"health"}, flags...), &strings.Builder{})
		require.ErrorContains(t, err, "not ready: ")
		require.ErrorContains(t, err, "purser clock accept")
	}
	require.NoError(t, p.stop())
	err := run([]string{"health", "--addr", admin}, &strings.Builder{})
	require.ErrorContains(t, err, "no server answers at "+admin)
}

// The flag --version prints the same line as the version command.
func TestVersionFlagPrintsTheVersion(t *testing.T) {
	purser := buildProgram(t)
	flag, err := exec.Command(purser, "--version").Output()
	require.NoError(t, err)
	command, err := exec.Command(purser, "version").Output()
	require.NoError(t, err)
	require.Equal(t, string(command), string(flag))
	require.Contains(t, string(flag), buildinfo.Version)
}
