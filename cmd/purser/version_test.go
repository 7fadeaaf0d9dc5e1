package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/buildinfo"
)

// The version command, the metrics and /readyz show the revision that the build stamped.
func TestTheStampedRevisionIsShown(t *testing.T) {
	before := buildinfo.Stamped
	defer func() { buildinfo.Stamped = before }()
	buildinfo.Stamped = "0123456789ab+"
	var out strings.Builder
	require.NoError(t, run([]string{"version"}, &out))
	require.Contains(t, out.String(), "purser "+buildinfo.Version+" 0123456789ab+ go")
	m := startServer(t, t.TempDir())
	defer func() { require.NoError(t, m.Close()) }()
	_, text := m.adminPage(t, "/metrics")
	require.Contains(t, text, `revision="0123456789ab+"`)
	_, text = m.adminPage(t, "/readyz")
	require.Contains(t, text, buildinfo.Build())
}

// The first line of a server's log names the build as the version command does.
func TestTheFirstLineOfTheLogNamesTheBuild(t *testing.T) {
	t.Parallel()
	purser := program{path: buildProgram(t)}
	version, err := exec.Command(purser.path, "version").Output()
	require.NoError(t, err)
	build := strings.Fields(string(version))
	require.Len(t, build, 4)
	p, _ := startCommand(t, purserCommand(purser, t.TempDir(), "serve"))
	first, _, _ := strings.Cut(p.log.String(), "\n")
	require.Contains(t, first, "version="+build[1]+" revision="+build[2])
}
