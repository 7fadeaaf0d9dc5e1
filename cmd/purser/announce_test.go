package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A start says where the server listens and what of it is for development only.
func TestAStartSaysWhereItListens(t *testing.T) {
	data := t.TempDir()
	m := startSet(t, data, func(s *Settings) { s.PrivateWebhooks, s.RateLimits = "true", "off" })
	defer func() { require.NoError(t, m.Close()) }()
	var out strings.Builder
	require.NoError(t, m.announceStart(&out))
	for _, want := range []string{"REST          http://" + m.listeners.http.Addr().String() + "\n",
		"card network  http://" + m.listeners.authorizer.Addr().String() + "\n",
		"admin         http://" + m.listeners.admin.Addr().String() + "\n", "data          " + data + "\n", "This is a sandbox",
		"PURSER_NETWORK_SECRET, PURSER_PARTNER_SECRET, PURSER_DATA_KEY not set", "PURSER_ALLOW_PRIVATE_WEBHOOKS",
		"PURSER_RATE_LIMITS is off"} {
		require.Contains(t, out.String(), want)
	}
	require.NotContains(t, out.String(), m.config.NetworkSecrets[0])

	var log strings.Builder
	m.config.LogFormat, m.log = logJSON, newLogger(&log, Config{LogLevel: slog.LevelInfo, LogFormat: logJSON})
	out.Reset()
	require.NoError(t, m.announceStart(&out))
	require.Empty(t, out.String(), "beside a log in JSON nothing else is written")
	require.Contains(t, log.String(), `"setting":"PURSER_RATE_LIMITS is off`)
}

func TestWhatIsForDevelopmentOnly(t *testing.T) {
	f := func(change func(*Config), want string) {
		t.Helper()
		c := Config{NetworkSecrets: []string{"a secret of ours"},
			PartnerSecrets: partnerSecrets{common: []string{"a secret of ours"}},
			DataKeys:       [][]byte{make([]byte, dataKeyBytes)},
			Refusals:       1, AuthorizerSync: true}
		require.Empty(t, c.developmentOnly())
		change(&c)
		require.Len(t, c.developmentOnly(), 1)
		require.Contains(t, c.developmentOnly()[0], want)
	}
	f(func(c *Config) { c.NetworkSecrets = nil }, "PURSER_NETWORK_SECRET not set")
	f(func(c *Config) { c.NetworkSecrets = []string{"development-network-secret"} }, "docker-compose.yml")
	f(func(c *Config) { c.DataKeys = [][]byte{[]byte("development only: not a secret!!")} }, "docker-compose.yml")
	f(func(c *Config) { c.Refusals = 0 }, "PURSER_REFUSALS is off")
	f(func(c *Config) { c.AuthorizerSync = false }, "a crash loses answers")
}
