package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/settings"
)

func TestAMisspeltSettingIsWarnedOf(t *testing.T) {
	f := func(variable, want string) {
		t.Helper()
		var log strings.Builder
		require.NoError(t,
			warnUnknownSettings(settings.NewLogger(&log, settings.Config{LogFormat: settings.LogJSON}), []string{variable}))
		if want == "" {
			require.Empty(t, log.String())
			return
		}
		require.Contains(t, log.String(), want)
		require.NotContains(t, log.String(), "value of it")
	}
	f("PURSER_RATELIMITS=value of it", `"variable":"PURSER_RATELIMITS","meant":"PURSER_RATE_LIMITS"`)
	f("PURSER_PARTNER_SECRET_BNAK=value of it", `"meant":"PURSER_PARTNER_SECRET_BANK"`)
	f("PURSER_NETWORK_SECRET_FIEL=value of it", `"meant":"PURSER_NETWORK_SECRET_FILE"`)
	f("PURSER_SOMETHING_ELSE_ALTOGETHER=value of it", `"variable":"PURSER_SOMETHING_ELSE_ALTOGETHER"}`)
	f("PURSER_RATE_LIMITS=off", "")
	f("PURSER_DATA_KEY_FILE=key", "")
	f("PURSER_DEMO_URL=http://127.0.0.1", "") // of another command
	f("PATH=/bin", "")
}

// The command serve warns of unknown settings in its environment, even if it refuses the
// configuration.
func TestServeWarnsOfAMisspeltSetting(t *testing.T) {
	child := exec.Command(buildProgram(t), "serve")
	child.Env = append(os.Environ(), "PURSER_BACKLOG_MAX=few", "PURSER_LOGLEVEL=debug")
	out, err := child.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "variable=PURSER_LOGLEVEL meant=PURSER_LOG_LEVEL")
	require.Contains(t, string(out), "PURSER_BACKLOG_MAX")
}
