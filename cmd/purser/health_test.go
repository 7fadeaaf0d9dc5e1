package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/buildinfo"
)

// TestHealthReportsReadinessAndReasons asks a ready server by its directory and by its address,
// then one whose clock is suspect.
func TestHealthReportsReadinessAndReasons(t *testing.T) {
	data, wall := t.TempDir(), &steppedClock{}
	m, p := startOnClock(t, data, wall)
	admin := m.listeners.admin.Addr().String()
	for _, place := range [][]string{{"--data-dir", data}, {"--addr", admin}} {
		var out strings.Builder
		require.NoError(t, run(append([]string{"health"}, place...), &out))
		require.Equal(t, "ready\n", out.String())
	}
	wall.step.Store(int64(45 * 24 * time.Hour))
	awaitClockState(t, m, p, true)
	for _, place := range [][]string{{"--data-dir", data}, {"--addr", admin}} {
		err := run(append([]string{"health"}, place...), &strings.Builder{})
		require.ErrorContains(t, err, "not ready: ")
		require.ErrorContains(t, err, "purser clock accept")
	}
	require.NoError(t, p.stop())
	require.ErrorContains(t, run([]string{"health", "--addr", admin}, &strings.Builder{}), "no server answers at "+admin)
}

// The program prints the same version with --version and with the command.
func TestVersionIsAFlagToo(t *testing.T) {
	purser := buildProgram(t)
	flag, err := exec.Command(purser, "--version").Output()
	require.NoError(t, err)
	command, err := exec.Command(purser, "version").Output()
	require.NoError(t, err)
	require.Equal(t, string(command), string(flag))
	require.Contains(t, string(flag), buildinfo.Version)
}
