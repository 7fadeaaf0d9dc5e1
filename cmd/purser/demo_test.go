package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
)

// Where the server's settings leave the demo nothing to show, it ends with the server's reason.
func TestTheDemoEndsWhereItIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  func(*settings.Settings)
		says string
	}{
		{func(s *settings.Settings) { s.Signup = "closed" }, "stop 1, "},
		{func(s *settings.Settings) { s.Issuer = "connected" }, "the issuing partner needs an active cardholder"},
	} {
		data := t.TempDir()
		s := testSettings(t, data)
		c.set(&s)
		config, err := s.Config()
		require.NoError(t, err)
		m := newDaemon(config, debugLogger())
		require.NoError(t, m.Start(t.Context()))
		out, err := runDemo(t, data)
		require.ErrorContains(t, err, c.says, out)
		require.ErrorContains(t, err, "the server as it is set does not let the demo go on", out)
		require.NoError(t, m.Close())
	}
}

// The demo prints a line a step; each request too when it is asked to, or when the step has found a
// difference.
func TestTheDemoPrintsOneLineAStep(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	m := startServer(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	out, err := runDemo(t, data)
	require.NoError(t, err, out)
	require.Len(t, regexp.MustCompile(`(?m)^ ?\d+\. .*: \d+ checks`).FindAllString(out, -1), strings.Count(out, "\n")-2, out)
	require.Regexp(t, `12\. A payment link that is paid on the sandbox chain: \d+ checks, look at it: http://\S+/checkout/cs_`, out)
	require.NotContains(t, out, "POST ")
}

// TestTheDemoEndsAtASecretThatTheServerDoesNotKnow: a rotation whose server was not restarted is
// named in one line.
func TestTheDemoEndsAtASecretThatTheServerDoesNotKnow(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	m := startServer(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	require.NoError(t, run([]string{"rotate", "--data-dir", data, datadir.NetworkSecretFile}, io.Discard))
	out, err := runDemo(t, data)
	require.ErrorContains(t, err, "stop 6, A swipe that fits every rule: POST http://")
	require.ErrorContains(t, err, "answered 401: the server does not know the card network's secret, the first in "+
		filepath.Join(data, datadir.NetworkSecretFile)+"; while it rotates, restart the server first")
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, out, "DIFFERS")
	require.Equal(t, 6, strings.Count(out, "\n"), out)

	told := filepath.Join(data, "told.json")
	text := `{"apiKey":"apk_none","reads":[{"method":"GET","path":"/api/treasury"}]}`
	require.NoError(t, os.WriteFile(told, []byte(text), 0o600))
	_, err = runDemo(t, data, "--check", told)
	require.ErrorContains(t, err, "answered 401: the server does not know the API key in "+told)
}

// The container is given a secret that its reader knows: the one made in the volume cannot be read from outside.
func TestTheReadmeSaysTheContainersSecret(t *testing.T) {
	compose, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	found := regexp.MustCompile(`PURSER_NETWORK_SECRET: \$\{PURSER_NETWORK_SECRET:-([a-z-]+)\}`).FindSubmatch(compose)
	require.NotNil(t, found)
	require.GreaterOrEqual(t, len(found[1]), settings.MinSecretChars)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "PURSER_NETWORK_SECRET="+string(found[1])+" make demo")
}
