package main

import (
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"purser/cmd/purser/settings"
)

// A setting that is set to the empty string has its default, because a compose file passes unset
// variables as empty ones.
func TestAnEmptySettingIsTheDefault(t *testing.T) {
	data, _ := backUpFreshServer(t)
	settings := func(args []string) map[string]string {
		values := map[string]string{}
		chosen, err := parse(args, io.Discard)
		require.NoError(t, err)
		for _, flag := range chosen.Flags() {
			if len(flag.Envs) > 0 {
				values[flag.Envs[0]] = flag.Target.String()
			}
		}
		return values
	}
	t.Setenv("PURSER_SLACK", "") // TestMain has set it
	require.NoError(t, os.Unsetenv("PURSER_SLACK"))
	commands := [][]string{{"serve"}, {"backup", "dir"}, {"topics"}, {"demo"}, {"audit"}}
	var before []map[string]string
	for _, command := range commands {
		before = append(before, settings(command))
	}
	for _, values := range before {
		for name := range values {
			t.Setenv(name, "")
		}
	}
	for i, command := range commands {
		require.Equal(t, before[i], settings(command), command[0])
	}
	mustRun(t, "backup", "--data-dir", data, filepath.Join(t.TempDir(), "backup"))
}

// withDefaults gives each empty field its default.
func withDefaults(t *testing.T, s settings.Settings) settings.Settings {
	t.Helper()
	filled, given := defaults(t), reflect.ValueOf(s)
	for i := range given.NumField() {
		if value := given.Field(i).String(); value != "" {
			reflect.ValueOf(&filled).Elem().Field(i).SetString(value)
		}
	}
	return filled
}

// A start names every address that is already in use, not only the first.
func TestEveryTakenPortIsNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	config := testConfig(t, t.TempDir())
	config.HTTPAddr, config.AdminAddr = taken.Addr().String(), taken.Addr().String()
	err = newDaemon(config, slog.New(slog.DiscardHandler)).Start(t.Context())
	require.ErrorContains(t, err, "REST address")
	require.ErrorContains(t, err, "admin address")
}

// defaults returns the settings of a command line without flags.
func defaults(t *testing.T) settings.Settings {
	t.Helper()
	var s settings.Settings
	parser, err := kong.New(&s)
	require.NoError(t, err)
	_, err = parser.Parse(nil)
	require.NoError(t, err)
	return s
}

// A slack outside of its bounds is refused by name, in a command on the stores too.
func TestASlackOutOfBoundsIsRefused(t *testing.T) {
	for _, slack := range []string{"0", "101", "much"} {
		t.Setenv("PURSER_SLACK", slack)
		require.ErrorContains(t, run([]string{"audit", "--data-dir", t.TempDir()}, io.Discard), "PURSER_SLACK", slack)
	}
}
