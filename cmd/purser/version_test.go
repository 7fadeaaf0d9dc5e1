package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The revision that a build stamps is what the program says of itself, to a person and to who scrapes it.
func TestTheRevisionIsTheOneThatWasStamped(t *testing.T) {
	before := built
	defer func() { built = before }()
	built = "0123456789ab+"
	var out strings.Builder
	require.NoError(t, run([]string{"version"}, &out))
	require.Contains(t, out.String(), "purser "+Version+" 0123456789ab+ go")
	m := start(t, t.TempDir())
	defer func() { require.NoError(t, m.Close()) }()
	_, text := m.admin(t, "/metrics")
	require.Contains(t, text, `revision="0123456789ab+"`)
}
