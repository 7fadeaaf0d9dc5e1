package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"purser/cmd/purser/adminport"
	"purser/cmd/purser/buildinfo"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/demo"
	"purser/cmd/purser/settings"
	"purser/persistence/journaltest"
)

// testConfig returns the configuration of a server with free ports, the data directory data, and a
// sandbox bank that reports after 50 ms.
func testConfig(t *testing.T, data string) settings.Config {
	t.Helper()
	c, err := testSettings(t, data).Config()
	require.NoError(t, err)
	return c
}

// patientAnswer and mostSlack are the times of the servers under test: no answer depends on the
// speed of the machine.
const (
	patientAnswer = "1h"
	mostSlack     = "100"
)

// asShipped are the settings of a server whose speed is under test.
var asShipped = []string{"PURSER_ANSWER_WITHIN=150ms", "PURSER_PASSWORD_NICE=19", "PURSER_SLACK=1"}

func testSettings(t *testing.T, data string) settings.Settings {
	t.Helper()
	s := defaults(t)
	s.HTTPAddr, s.AuthorizerAddr, s.AdminAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s.DataDir, s.SandboxDelay, s.AuthorizerCache = data, "50ms", "16MiB"
	s.AnswerWithin, s.PasswordNice, s.Slack = patientAnswer, "0", mostSlack
	return s
}

func startServer(t *testing.T, data string) *daemon {
	t.Helper()
	m := newDaemon(testConfig(t, data), debugLogger())
	require.NoError(t, m.Start(t.Context()))
	return m
}

// run parses the arguments and runs the command. Unlike the program it takes secrets as flags,
// because parallel tests share one environment.
func run(args []string, out io.Writer) error {
	chosen, err := parse(args, out)
	if err != nil {
		return err
	}
	return chosen.Run()
}

// passDemo runs `purser demo` with the given flags against a server and requires that it passes.
func passDemo(t *testing.T, data string, flags ...string) {
	t.Helper()
	out, err := runDemo(t, data, flags...)
	require.NoError(t, err, out)
}

func runDemo(t *testing.T, data string, flags ...string) (string, error) {
	t.Helper()
	rest, err := datadir.PublishedAddress(data, "HTTP_ADDR")
	require.NoError(t, err)
	network, err := datadir.PublishedAddress(data, "AUTHORIZER_ADDR")
	require.NoError(t, err)
	admin, err := datadir.PublishedAddress(data, "ADMIN_ADDR")
	require.NoError(t, err)
	var out strings.Builder
	err = run(append([]string{"demo", "--url", "http://" + rest, "--authorizer-url", "http://" + network,
		"--admin-url", adminport.URL(admin), "--network-secret-file", filepath.Join(data, "network-secret")}, flags...),
		&out)
	return out.String(), err
}

func runAudit(t *testing.T, data string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, run([]string{"audit", "--data-dir", data}, &out), out.String())
	return out.String()
}

// TestARestartAndARebuildKeepEveryAnswer runs the demo against the real servers and saves its
// answers. It compares them with the answers after a restart, and after the authorizer is lost and
// rebuilt.
func TestARestartAndARebuildKeepEveryAnswer(t *testing.T) {
	before := goleak.IgnoreCurrent()
	defer func() { // some goroutines of fasthttp end seconds after their server
		require.NoError(t, journaltest.Leaked(before,
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")))
	}()
	data, answers := t.TempDir(), filepath.Join(t.TempDir(), "answers.json")
	m := startServer(t, data)
	passDemo(t, data, "--save", answers)
	require.Contains(t, runAudit(t, data), "agree to the cent", "audit of the running server")
	require.NoError(t, m.Close())
	require.Contains(t, runAudit(t, data), "agree to the cent", "audit of the stopped server's data directory")

	m = startServer(t, data)
	passDemo(t, data, "--check", answers)
	require.NoError(t, m.Close())

	require.NoError(t, os.RemoveAll(datadir.AuthorizerDir(data)))
	require.ErrorContains(t, newDaemon(testConfig(t, data), slog.New(slog.DiscardHandler)).Start(t.Context()),
		"purser rebuild-authorizer --yes")
	require.ErrorContains(t, run([]string{"rebuild-authorizer", "--data-dir", data}, io.Discard), "--yes")
	require.NoError(t, run([]string{"rebuild-authorizer", "--yes", "--data-dir", data}, io.Discard))
	m = startServer(t, data)
	passDemo(t, data, "--check", answers)
	require.NoError(t, m.Close())
	require.Contains(t, runAudit(t, data), "agree to the cent", "audit of the rebuilt store")
}

func TestADirectoryHasOneServer(t *testing.T) {
	data := t.TempDir()
	m := startServer(t, data)
	second := newDaemon(testConfig(t, data), slog.New(slog.DiscardHandler))
	require.ErrorIs(t, second.Start(t.Context()), datadir.ErrInUse)
	require.ErrorIs(t, run([]string{"rebuild-authorizer", "--yes", "--data-dir", data}, io.Discard), datadir.ErrInUse)
	require.NoError(t, m.Close())
	require.NoError(t, startServer(t, data).Close(), "the data directory stays locked after Close")
}

func TestAStartRefusesWithoutItsJournal(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, startServer(t, data).Close())
	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	require.ErrorContains(t, newDaemon(testConfig(t, data), slog.New(slog.DiscardHandler)).Start(t.Context()),
		"put the journal back")
	require.NoDirExists(t, datadir.JournalDir(data))
}

func TestAnOccupiedPortIsNamedAndLeavesNothingBehind(t *testing.T) {
	data := t.TempDir()
	m := startServer(t, data)
	config := testConfig(t, t.TempDir())
	config.AdminAddr = m.listeners.http.Addr().String()
	require.ErrorContains(t, newDaemon(config, slog.New(slog.DiscardHandler)).Start(t.Context()), "admin address")
	config.AdminAddr = "127.0.0.1:0"
	again := newDaemon(config, slog.New(slog.DiscardHandler))
	require.NoError(t, again.Start(t.Context()))
	require.NoError(t, errors.Join(again.Close(), m.Close()))
}

func TestAdminPort(t *testing.T) {
	data := t.TempDir()
	m := startServer(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	get := func(path string) string {
		resp, err := http.Get("http://" + m.listeners.admin.Addr().String() + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(text)
	}
	m.adminClient().awaitReady(t)
	require.Contains(t, get("/healthz"), "ok")
	require.Contains(t, get("/metrics"), "purser_backlog_entries 0")
}

// TestAFailedStoreEndsTheProcess runs itself as a process whose store fails, and requires that the
// process ends with status 1.
func TestAFailedStoreEndsTheProcess(t *testing.T) {
	if os.Getenv("PURSER_TEST_FATAL") != "" {
		newDaemon(settings.Config{}, slog.New(slog.DiscardHandler)).Fatal(errors.New("sync failed"))
		os.Exit(0)
	}
	child := exec.Command(os.Args[0], "-test.run", "^TestAFailedStoreEndsTheProcess$")
	child.Env = append(os.Environ(), "PURSER_TEST_FATAL=1")
	err := child.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, 1, exit.ExitCode())
}

// TestTheDemoNoticesADifference changes one saved answer before `purser demo --check`.
func TestTheDemoNoticesADifference(t *testing.T) {
	t.Parallel()
	data, answers := t.TempDir(), filepath.Join(t.TempDir(), "answers.json")
	m := startServer(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	passDemo(t, data, "--save", answers)
	text, err := os.ReadFile(answers)
	require.NoError(t, err)
	var saved map[string]any
	require.NoError(t, json.Unmarshal(text, &saved))
	posts := saved["posts"].([]any)
	last := posts[len(posts)-1].(map[string]any)
	require.NotEmpty(t, last["answer"])
	last["answer"] = fields{"error": "something else"}
	text, err = json.Marshal(saved)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(answers, text, 0o600))
	c := demo.Command{URL: "http://" + m.listeners.http.Addr().String(),
		AuthorizerURL:     "http://" + m.listeners.authorizer.Addr().String(),
		NetworkSecretFile: filepath.Join(data, "network-secret"), Check: answers}
	require.ErrorIs(t, c.Run(io.Discard), demo.ErrDifference)
}

// Every command that needs a data directory names a missing one.
func TestAMissingDataDirectoryIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nowhere")
	for _, command := range [][]string{{"audit"}, {"rebuild-authorizer", "--yes"}} {
		err := run(append(command, "--data-dir", missing), io.Discard)
		require.EqualError(t, err, "there is no data directory "+missing+"; name it with --data-dir or PURSER_DATA_DIR")
	}
}

// Commands that only read refuse a directory without Purser's data and create no files in it.
func TestReadingCommandsCreateNothing(t *testing.T) {
	for _, command := range []string{"audit", "unmatched"} {
		empty := t.TempDir()
		require.ErrorContains(t, run([]string{command, "--data-dir", empty}, io.Discard),
			"is no data directory of purser")
		left, err := os.ReadDir(empty)
		require.NoError(t, err)
		require.Empty(t, left, command)
	}
	data := t.TempDir()
	require.NoError(t, startServer(t, data).Close())
	require.NoError(t, os.RemoveAll(datadir.AuthorizerDir(data)))
	require.ErrorContains(t, run([]string{"audit", "--data-dir", data}, io.Discard), "purser rebuild-authorizer --yes")
	require.NoDirExists(t, datadir.AuthorizerDir(data))
	require.NoError(t, os.RemoveAll(datadir.JournalDir(data)))
	for _, command := range []string{"audit", "unmatched"} {
		require.ErrorContains(t, run([]string{command, "--data-dir", data}, io.Discard), "has no journal")
		require.NoDirExists(t, datadir.JournalDir(data))
	}
}

func TestVersion(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run([]string{"version"}, &out))
	require.True(t, strings.HasPrefix(out.String(), "purser "+buildinfo.Version))
}
