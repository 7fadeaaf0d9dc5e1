package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/settings"
)

// A start prints the server's addresses and warns of each setting that is for development only.
// With the log in JSON, only the log has them.
func TestStartAnnouncesAddressesAndDevelopmentSettings(t *testing.T) {
	data := t.TempDir()
	m := startWithSettings(t, data, func(s *settings.Settings) { s.PrivateWebhooks, s.RateLimits = "true", "off" })
	defer func() { require.NoError(t, m.Close()) }()
	var out strings.Builder
	require.NoError(t, m.announceStart(&out))
	for _, want := range []string{"dashboard     http://" + m.listeners.http.Addr().String() + "/dashboard\n",
		"REST          http://" + m.listeners.http.Addr().String() + "\n",
		"card network  http://" + m.listeners.authorizer.Addr().String() + "\n",
		"admin         http://" + m.listeners.admin.Addr().String() + "\n",
		"data          " + data + "\n", "This is a sandbox",
		"PURSER_NETWORK_SECRET, PURSER_PARTNER_SECRET, PURSER_DATA_KEY not set", "PURSER_ALLOW_PRIVATE_WEBHOOKS",
		"PURSER_RATE_LIMITS is off"} {
		require.Contains(t, out.String(), want)
	}
	require.NotContains(t, out.String(), m.config.NetworkSecrets[0])

	var log strings.Builder
	m.config.LogFormat = settings.LogJSON
	m.log = settings.NewLogger(&log, settings.Config{LogLevel: slog.LevelInfo, LogFormat: settings.LogJSON})
	out.Reset()
	require.NoError(t, m.announceStart(&out))
	require.Empty(t, out.String(), "with the log in JSON, standard output stays empty")
	require.Contains(t, log.String(), `"setting":"PURSER_RATE_LIMITS is off`)
}

// Each setting that a production deployment must change is listed, and a configuration for
// production lists none.
func TestDevelopmentOnlySettingsAreListed(t *testing.T) {
	f := func(change func(*settings.Config), want string) {
		t.Helper()
		c := settings.Config{NetworkSecrets: []string{"a secret of ours"},
			PartnerSecrets: settings.PartnerSecrets{Common: []string{"a secret of ours"}},
			DataKeys:       [][]byte{make([]byte, settings.DataKeyBytes)},
			Refusals:       1, AuthorizerSync: true}
		require.Empty(t, c.DevelopmentOnly())
		change(&c)
		require.Len(t, c.DevelopmentOnly(), 1)
		require.Contains(t, c.DevelopmentOnly()[0], want)
	}
	f(func(c *settings.Config) { c.NetworkSecrets = nil }, "PURSER_NETWORK_SECRET not set")
	f(func(c *settings.Config) { c.NetworkSecrets = []string{"development-network-secret"} }, "docker-compose.yml")
	f(func(c *settings.Config) { c.DataKeys = [][]byte{[]byte("development only: not a secret!!")} },
		"docker-compose.yml")
	f(func(c *settings.Config) { c.Refusals = 0 }, "PURSER_REFUSALS is off")
	f(func(c *settings.Config) { c.AuthorizerSync = false }, "a crash loses answers")
}
