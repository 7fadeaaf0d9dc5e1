package main

import (
	"encoding/json"
	"fmt"
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

// A demo that the server's settings do not allow ends with the server's reason.
func TestDemoEndsWithTheServersRefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*settings.Settings)
		reason string
	}{
		{func(s *settings.Settings) { s.Signup = "closed" }, "step 1, "},
		{func(s *settings.Settings) { s.Issuer = "connected" }, "the issuing partner needs an active cardholder"},
	} {
		data := t.TempDir()
		s := testSettings(t, data)
		c.change(&s)
		config, err := s.Config()
		require.NoError(t, err)
		m := newDaemon(config, debugLogger())
		require.NoError(t, m.Start(t.Context()))
		out, err := runDemo(t, data)
		require.ErrorContains(t, err, c.reason, out)
		require.ErrorContains(t, err, "an answer differs", out)
		require.Contains(t, out, "    POST /api/", "the requests of the failed step")
		require.NoError(t, m.Close())
	}
}

// Without flags and without a difference the demo prints one line for each step, and no requests.
// With --verbose it prints every request that it counts, and the whole answer.
func TestDemoPrintsOneLineAStep(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	m := startServer(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	out, err := runDemo(t, data)
	require.NoError(t, err, out)
	steps := regexp.MustCompile(`(?m)^ ?\d+\. [^:]+: .+$`).FindAllString(out, -1)
	require.Len(t, steps, strings.Count(out, "\n")-2, out)
	require.Contains(t, out, "answers checked, no difference")
	require.Regexp(t, `12\. A payment link that is paid on the sandbox chain: look at it: http://\S+/checkout/cs_`, out)
	require.NotContains(t, out, "POST ")
	require.NotContains(t, out, "$")

	out, err = runDemo(t, data, "--verbose")
	require.NoError(t, err, out)
	answers := regexp.MustCompile(`(?m)^    → \d+ (.*)$`).FindAllStringSubmatch(out, -1)
	require.Contains(t, out, fmt.Sprintf("\n%d answers checked", len(answers)))
	for _, answer := range answers {
		whole := json.Valid([]byte(answer[1])) || answer[1] == "<!doctype html>" && strings.Contains(out, "</html>\n")
		require.True(t, whole, answer[1])
	}
}

// The demo ends at a secret that the server does not know, with one line that names the secret's
// file: a rotated secret whose server was not restarted, or a saved API key of another server.
func TestDemoNamesASecretUnknownToTheServer(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	m := startServer(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	require.NoError(t, run([]string{"rotate", "--data-dir", data, datadir.NetworkSecretFile}, io.Discard))
	out, err := runDemo(t, data)
	require.ErrorContains(t, err, "step 6, A swipe that fits every rule, and its repeat: POST http://")
	require.ErrorContains(t, err, "answered 401: the server does not know the card network's secret, the first in "+
		filepath.Join(data, datadir.NetworkSecretFile)+"; while it rotates, restart the server first")
	require.NotContains(t, err.Error(), "\n")
	require.Equal(t, 6, strings.Count(out, "\n"), out)

	saved := filepath.Join(data, "saved.json")
	text := `{"apiKey":"apk_none","reads":[{"credential":"key","method":"GET","path":"/api/treasury"}]}`
	require.NoError(t, os.WriteFile(saved, []byte(text), 0o600))
	_, err = runDemo(t, data, "--check", saved)
	require.ErrorContains(t, err, "answered 401: the server does not know the API key in "+saved)
}

// README names the network secret that the compose file sets. A generated secret would be in the
// volume, where a reader of README could not read it.
func TestReadmeNamesTheContainersSecret(t *testing.T) {
	compose, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	found := regexp.MustCompile(`PURSER_NETWORK_SECRET: \$\{PURSER_NETWORK_SECRET:-([a-z-]+)\}`).FindSubmatch(compose)
	require.NotNil(t, found)
	require.GreaterOrEqual(t, len(found[1]), settings.MinSecretChars)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "PURSER_NETWORK_SECRET="+string(found[1])+" make demo")
}
