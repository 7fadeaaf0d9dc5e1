package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/buildinfo"
)

// The version command and the metrics show the revision that the build stamped.
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
}
