package loadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/bench"
)

// stubCommand runs this test program as another program than a purser: it answers the card
// network's port. Its arguments are the address, the secret, the data directory, and how many
// authorizations it decides before it fails.
const stubCommand = "network-stub"

// runStub serves until a signal, or fails with status 3 after so many authorizations. TestMain
// calls it.
func runStub(address, secret, data, decisions string) error {
	if _, err := os.Stat(data); err != nil {
		return err
	}
	most, err := strconv.ParseInt(decisions, 10, 64)
	if err != nil {
		return err
	}
	var decided atomic.Int64
	return fasthttp.ListenAndServe(address, func(ctx *fasthttp.RequestCtx) {
		var swipe struct {
			ID          string
			AmountCents int64
		}
		switch {
		case string(ctx.Request.Header.Peek("Authorization")) != "Bearer "+secret:
			ctx.SetStatusCode(fasthttp.StatusUnauthorized)
			return
		case json.Unmarshal(ctx.PostBody(), &swipe) != nil:
			ctx.SetStatusCode(fasthttp.StatusBadRequest)
			return
		case decided.Add(1) > most:
			fmt.Println("the stub is out of decisions")
			os.Exit(3)
		}
		fmt.Fprintf(ctx, `{"id":%q,"decision":"approved","reason":"approved","approvedAmountCents":%d}`, swipe.ID,
			swipe.AmountCents)
	})
}

// stubLine returns a command of --other that runs the stub.
func stubLine(t *testing.T, decisions int) string {
	self, err := os.Executable()
	require.NoError(t, err)
	return fmt.Sprintf("%s %s {address} {secret} {data-dir} %d", self, stubCommand, decisions)
}

const manyDecisions = 1 << 40

// runCompare runs `purser bench compare` with a small load, and returns its output.
func runCompare(t *testing.T, flags ...string) (stdout, stderr string, err error) {
	var out, faults strings.Builder
	child := exec.Command(purser(t), append([]string{"bench", "compare", "--cards=20", "--workspaces=4",
		"--connections=4", "--rounds=2",
		"--duration=200ms", "--yardstick=20ms"}, flags...)...)
	child.Stdout, child.Stderr = &out, &faults
	err = child.Run()
	return out.String(), faults.String(), err
}

// This build is compared with itself. The report has the rounds of both in turns, and all figures
// of both with their ratios. Each server has dollars of its own, which are compared.
func TestCompareWithAnotherPurser(t *testing.T) {
	results := t.TempDir()
	out, faults, err := runCompare(t, "--own", "--other="+purser(t), "--results="+results)
	require.NoError(t, err, faults)
	text, err := os.ReadFile(filepath.Join(results, "compare-1.json"))
	require.NoError(t, err)
	var r bench.Report
	require.NoError(t, json.Unmarshal(text, &r))
	var names []string
	for _, s := range r.Stages {
		names = append(names, s.Name)
		require.Positive(t, s.Compared, s.Name)
	}
	require.Equal(t, []string{"round 1: this", "round 1: other", "round 2: other", "round 2: this"}, names)
	require.NotEmpty(t, r.Facts["other server"])
	require.Equal(t, r.Facts["server"], r.Facts["other server"])
	for _, figure := range []string{"authorize, rate", "authorize, p50", "authorize, p99", "authorize, p99.9",
		"processor time per message"} {
		require.Regexp(t, `(?m)^`+figure+`( +[\d.]+ ?(/s|µs|ms|s)){2}( +[\d.]+×){3}$`, out)
	}
}

// Another program than a purser gets the swipes of this server's cards. It takes its address,
// secret and directory from the command, and ends by the signal.
func TestCompareWithAnotherProgram(t *testing.T) {
	out, faults, err := runCompare(t, "--own", "--other="+stubLine(t, manyDecisions), "--declines=-1")
	require.NoError(t, err, faults)
	require.Regexp(t, `(?m)^authorize, rate +\d+/s +\d+/s`, out)
	require.Contains(t, out, "no dollars were compared")
}

// The first wrong answer ends the comparison with the request, the answer and advice: the stub
// approves what must be declined.
func TestAComparisonStopsAtAWrongAnswer(t *testing.T) {
	out, faults, err := runCompare(t, "--own", "--other="+stubLine(t, manyDecisions), "--declines=60")
	require.Error(t, err)
	require.Equal(t, 1, strings.Count(out, "WRONG: "), out)
	require.Regexp(t,
		`purser: the run stopped at the first wrong answer: .*: answered 200 \{.*"approved".*\}, want .*; `+
			`the request was POST /v1/\w+ \{.*\}; `, faults)
	require.NotContains(t, out, "round 2")
}

// A command that fails in a round ends the run with its status and its output.
func TestACommandThatDiesEndsAComparison(t *testing.T) {
	const preflightAndSome = 20
	_, faults, err := runCompare(t, "--own", "--other="+stubLine(t, preflightAndSome), "--declines=-1")
	require.Error(t, err)
	require.Contains(t, faults, "ended with exit status 3:\nthe stub is out of decisions")
}

// The death of a server ends the context of a comparison, so that the round of the other server
// does not run to its end.
func TestTheDeathOfAServerIsNoticed(t *testing.T) {
	server, err := newOtherServer(t.Context(), "", stubLine(t, manyDecisions))
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(server.data)) }()
	watched, stop := watchServers(t.Context(), []*ownServer{server})
	defer stop()
	require.NoError(t, watched.Err())
	require.NoError(t, server.cmd.Process.Kill())
	<-watched.Done()
	require.ErrorContains(t, server.died(), "signal: killed")
	require.NoError(t, server.log.Close())
}

// A command that does not start is an error with its status and output, and leaves nothing behind.
func TestACommandThatDoesNotStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for command, says := range map[string]string{
		stubLine(t, 0) + " one-too-many":   "ended with exit status 2:\nusage",
		purser(t):                          "ended with exit status 1:\n",
		purser(t) + " version":             "ended with exit status 0:\npurser ",
		filepath.Join(t.TempDir(), "gone"): "no such file or directory",
		" ":                                "the command is empty",
	} {
		t.Setenv("PURSER_BACKLOG_MAX", "few") // which a purser refuses
		_, err := newOtherServer(t.Context(), "", command)
		require.ErrorContains(t, err, says, command)
	}
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// A running server is checked like this one before the load. Without a REST address it is another
// program, also when it is a purser.
func TestCompareWithARunningServer(t *testing.T) {
	own, err := newOwnServer(t.Context(), "", purser(t), "serve")
	require.NoError(t, err)
	defer func() { require.NoError(t, own.close()) }()
	rest := "--other-http-addr=" + strings.TrimPrefix(own.target.REST, "http://")
	out, faults, err := runCompare(t, "--own", "--other="+own.target.Network,
		"--other-network-secret="+own.target.Secret, rest)
	require.NoError(t, err, faults)
	require.NotContains(t, out, "no dollars were compared")
	require.Contains(t, out, "processor time per message")
	require.NotContains(t, out, "not known  –", "the processor time of both is known")

	out, faults, err = runCompare(t, "--own", "--other="+own.target.Network, "--other-network-secret=wrong", rest)
	require.Error(t, err)
	require.Empty(t, out)
	require.Contains(t, faults, "refuses the secret: 401")
	require.Contains(t, faults, "--other-network-secret or PURSER_OTHER_NETWORK_SECRET")
}

// The address of the REST port has the scheme of the URL, and the secret is this server's when
// unset.
func TestTheOtherTarget(t *testing.T) {
	this := bench.Target{Secret: "s"}
	b := BenchCompare{Other: "https://h:1/", OtherHTTPAddr: "h:2"}
	require.Equal(t, bench.Target{REST: "https://h:2", Network: "https://h:1", Secret: "s"}, b.otherTarget(this))
	b = BenchCompare{Other: "http://h:1", OtherNetworkSecret: "its"}
	require.Equal(t, bench.Target{Network: "http://h:1", Secret: "its"}, b.otherTarget(this))
}

// Two servers on one database would disturb each other. A URL names a server with stores of its
// own.
func TestACommandIsRefusedOnASharedDatabase(t *testing.T) {
	for _, name := range []string{"DATABASE_URL", "KAFKA_BROKERS"} {
		t.Setenv("DATABASE_URL", "")
		t.Setenv("KAFKA_BROKERS", "")
		t.Setenv(name, "somewhere")
		require.ErrorIs(t, (&BenchCompare{Other: "./purser"}).Run(io.Discard), errSharedStores)
		b := BenchCompare{Other: "http://127.0.0.1:1"}
		b.DataDir = t.TempDir()
		err := b.Run(io.Discard)
		require.False(t, errors.Is(err, errSharedStores))
		require.ErrorContains(t, err, "network-secret")
	}
}
