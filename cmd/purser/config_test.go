package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"purser/httpapi"
)

func defaults(t *testing.T) Settings {
	t.Helper()
	var s Settings
	parser, err := kong.New(&s)
	require.NoError(t, err)
	_, err = parser.Parse(nil)
	require.NoError(t, err)
	return s
}

func TestDefaultsAreComplete(t *testing.T) {
	c, err := defaults(t).Config()
	require.NoError(t, err)
	require.Equal(t, httpapi.DefaultRateLimits(), c.RateLimits)
	require.Equal(t, int64(512<<20), c.AuthorizerCacheBytes)
	require.Equal(t, 2*time.Second, c.SandboxDelay)
	require.True(t, c.SignupOpen)
	require.True(t, c.AuthorizerSync)
	require.Equal(t, 10_000_000, c.BacklogMax)
}

func TestEveryFaultIsNamedAtOnce(t *testing.T) {
	s := Settings{HTTPAddr: "8080", AuthorizerAddr: "h:x", AdminAddr: "h:70000", BaseURL: "ftp://x", NetworkSecret: "a,b,c",
		PartnerSecret: "short", DataKey: "zz", RateLimits: "1,2", BacklogMax: "-1", SandboxDelay: "soon", Signup: "maybe",
		AuthorizerCache: "lots", AuthorizerSync: "perhaps", LogLevel: "loud", DatabaseURL: "postgres://x", KafkaBrokers: "x:1"}
	_, err := s.Config()
	require.Error(t, err)
	for _, name := range []string{"PURSER_HTTP_ADDR", "PURSER_AUTHORIZER_ADDR", "PURSER_ADMIN_ADDR", "PURSER_DATA_DIR", "PURSER_BASE_URL",
		"PURSER_NETWORK_SECRET", "PURSER_PARTNER_SECRET", "PURSER_DATA_KEY", "PURSER_RATE_LIMITS", "PURSER_BACKLOG_MAX",
		"PURSER_SANDBOX_DELAY", "PURSER_SIGNUP", "PURSER_AUTHORIZER_CACHE", "PURSER_AUTHORIZER_SYNC", "PURSER_LOG_LEVEL",
		"DATABASE_URL", "KAFKA_BROKERS"} {
		require.ErrorContains(t, err, name+":")
	}
	require.NotContains(t, err.Error(), "short\"", "secrets are not echoed")
}

func TestRateLimitsOffAndSizes(t *testing.T) {
	s := defaults(t)
	s.RateLimits, s.AuthorizerCache = "off", "1GiB"
	c, err := s.Config()
	require.NoError(t, err)
	require.True(t, c.RateLimits.Off)
	require.Equal(t, int64(1<<30), c.AuthorizerCacheBytes)
}

func TestSecretsAreMadeOnceAndForTheOwnerAlone(t *testing.T) {
	dir := t.TempDir()
	first := Config{DataDir: dir}
	require.NoError(t, first.secrets())
	second := Config{DataDir: dir}
	require.NoError(t, second.secrets())
	require.Equal(t, first, second)
	require.Len(t, first.DataKey, dataKeyBytes)
	require.NotEqual(t, first.NetworkSecrets[0], first.PartnerSecret)
	for _, name := range []string{"network-secret", "partner-secret", "data-key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data-key"), nil, 0o600))
	require.ErrorContains(t, (&Config{DataDir: dir}).secrets(), "data-key")
}
