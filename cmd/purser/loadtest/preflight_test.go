package loadtest

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/bench"
	"purser/cmd/purser/settings"
)

const stubSecret = "stub-secret"

// answerAuthorization answers like the network's port of a server that decides every message alike.
func answerAuthorization(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+stubSecret {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"unauthorized"}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	_, id, _ := strings.Cut(string(body), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	fmt.Fprintf(w, `{"id":%q,"decision":"declined","reason":"card_not_found"}`, id)
}

// stubServer returns a server whose two ports are one.
func stubServer(t *testing.T, network http.HandlerFunc) bench.Target {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/authorizations", network)
	mux.HandleFunc("GET /api/treasury", func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return bench.Target{REST: server.URL, Network: server.URL, Secret: stubSecret}
}

// checkTarget does the checks of a target within a duration.
func checkTarget(t *testing.T, target bench.Target, within time.Duration) error {
	return runChecks(t.Context(), within, targetChecks(target, thisFlags)...)
}

func TestARightTargetPassesThePreflight(t *testing.T) {
	target := stubServer(t, answerAuthorization)
	require.NoError(t, checkTarget(t, target, time.Minute))
	target.REST = ""
	require.NoError(t, checkTarget(t, target, time.Minute))
}

// A wrong secret is refused before any load. The error names the flag and does not show the secret.
func TestThePreflightRefusesAWrongSecret(t *testing.T) {
	target := stubServer(t, answerAuthorization)
	target.Secret = "wrong-secret"
	err := checkTarget(t, target, time.Minute)
	require.ErrorContains(t, err, "refuses the secret: 401")
	require.ErrorContains(t, err, "--network-secret-file or PURSER_NETWORK_SECRET")
	require.NotContains(t, err.Error(), target.Secret)
	err = runChecks(t.Context(), time.Minute, targetChecks(target, otherFlags)...)
	require.ErrorContains(t, err, "--other-network-secret or PURSER_OTHER_NETWORK_SECRET")
}

// A port without a listener, or with a listener that never answers, is named with its flag.
func TestThePreflightNamesAnAddressWithoutAnAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	silent := "http://" + listener.Addr().String() // the kernel accepts and nothing answers
	right := stubServer(t, answerAuthorization)
	for flag, change := range map[string]func(url string) bench.Target{
		"--http-addr":       func(url string) bench.Target { c := right; c.REST = url; return c },
		"--authorizer-addr": func(url string) bench.Target { c := right; c.Network = url; return c },
	} {
		err := checkTarget(t, change(silent), 50*time.Millisecond)
		require.ErrorContains(t, err,
			silent+" does not answer: no answer within 50ms; start the server, or name its address with "+flag)
	}
	require.NoError(t, listener.Close())
	require.ErrorContains(t, checkTarget(t, bench.Target{Network: silent, Secret: "s"}, time.Minute),
		"refused; start the server, or name")
}

// The error differs for ports of other programs and for servers that are not ready.
func TestThePreflightJudgesTheAnswers(t *testing.T) {
	target := stubServer(t, answerAuthorization)
	target.REST += "/elsewhere"
	require.ErrorContains(t, checkTarget(t, target, time.Minute),
		"is not a purser's REST port: GET /api/treasury without a key answered 404")
	for says, handler := range map[string]http.HandlerFunc{
		"is not ready: 503": func(w http.ResponseWriter,
			_ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		"answered 200 {}, want a decision on bench-preflight-": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{}")
		},
		`answered 200 {"id":"another","decision":"approved"}, want`: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"id":"another","decision":"approved"}`)
		},
		"answered 200 , want a decision": func(http.ResponseWriter, *http.Request) {}, // the empty handler
		"answered 500": func(w http.ResponseWriter,
			_ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		},
	} {
		require.ErrorContains(t, checkTarget(t, stubServer(t, handler), time.Minute), says)
	}
}

// A disk without room, and a directory that cannot be made or written, are named with their flag.
func TestThePreflightChecksTheDisk(t *testing.T) {
	dir := t.TempDir()
	disk := func(dir string, need int64) error {
		return runChecks(t.Context(), time.Minute, checkDisk(dir, "--own-dir", need))
	}
	require.NoError(t, disk(filepath.Join(dir, "new"), 1))
	left, err := os.ReadDir(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.Empty(t, left)
	err = disk(dir, math.MaxInt64)
	require.ErrorContains(t, err, "the disk of "+dir+" has ")
	require.ErrorContains(t, err,
		fmt.Sprintf("the run needs %d MiB; free some, or name a directory on another disk with --own-dir",
			math.MaxInt64>>20))
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, disk(filepath.Join(file, "below"), 1), "below cannot be made: ")
	if os.Getuid() != 0 { // root may write everywhere
		closed := filepath.Join(dir, "closed")
		require.NoError(t, os.Mkdir(closed, 0o500))
		require.ErrorContains(t, disk(closed, 1), closed+" cannot be written: ")
	}
	require.ErrorContains(t, disk("/proc", 0), "/proc cannot be written: ")
}

// A run on a disk without room begins nothing: it starts no server and fills no stores.
func TestARunOnAFullDiskBeginsNothing(t *testing.T) {
	t.Setenv("PURSER_DISK_RESERVE", "1000000GiB")
	require.Equal(t, int64(1_000_000<<30+bench.YardstickBytes), ownNeed())
	dir := t.TempDir()
	require.ErrorContains(t, (&BenchCards{OwnDir: dir, Cards: 1, Workspaces: 1}).Run(io.Discard), "--own-dir")
	require.ErrorContains(t, (&benchOptions{benchTarget: benchTarget{Own: true, OwnDir: dir}}).run(io.Discard,
		bench.Authorize, nil),
		"--own-dir")
	_, err := (&BenchCompare{Other: "purser", OtherDir: dir}).compareServers(t.Context(), bench.Config{})
	require.ErrorContains(t, err, "--other-dir")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	t.Setenv("PURSER_DISK_RESERVE", "")
	require.Greater(t, ownNeed(), int64(settings.MinDiskReserve))
}

// A run against a wrong secret prints no report: nothing was measured.
func TestARunWithAWrongSecretPrintsNothing(t *testing.T) {
	target := stubServer(t, answerAuthorization)
	address := strings.TrimPrefix(target.Network, "http://")
	var out strings.Builder
	options := benchOptions{benchTarget: benchTarget{HTTPAddr: address, AuthorizerAddr: address, AdminAddr: address,
		DataDir: t.TempDir(), NetworkSecret: "wrong"}}
	err := options.run(&out, bench.Authorize, nil, bench.Load{Workload: bench.Authorize})
	require.ErrorContains(t, err, "refuses the secret")
	require.Empty(t, out.String())
}
