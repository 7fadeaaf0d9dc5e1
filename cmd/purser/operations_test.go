package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/buildinfo"
	"purser/cmd/purser/settings"
	"purser/cmd/purser/storecare"
	"purser/httpapi/openapi/openapitest"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
)

// adminPage reads a page of the admin port and returns its status and body.
func (m *daemon) adminPage(t *testing.T, path string) (status int, text string) {
	t.Helper()
	resp, err := http.Get("http://" + m.listeners.admin.Addr().String() + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// adminClient returns a client of the admin port, for a server that runs in the test's own process.
func (m *daemon) adminClient() *process {
	return &process{admin: "http://" + m.listeners.admin.Addr().String(), http: http.DefaultClient}
}

// scrape returns the server's metrics by name, each summed over all labels.
func (m *daemon) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	status, text := m.adminPage(t, "/metrics")
	require.Equal(t, http.StatusOK, status)
	return sumMetrics(t, text)
}

// sumMetrics parses a page of metrics and returns the sum of each metric over its labels.
func sumMetrics(t *testing.T, text string) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		name, _, _ := strings.Cut(line[:at], "{")
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		require.NoError(t, err, line)
		sums[name] += value
	}
	return sums
}

// TestEveryPromisedMetricIsThereAndMoves scrapes a server before and after the demo.
func TestEveryPromisedMetricIsThereAndMoves(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	m := startServer(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	before := m.scrape(t)
	passDemo(t, data)
	require.NoError(t, m.system.RelayAll(t.Context()))
	after := m.scrape(t)
	for _, name := range []string{"purser_decisions_total", "purser_decision_seconds_count",
		"purser_answer_seconds_count", "purser_network_request_seconds_count", "purser_repeats_total",
		"purser_decisions_synced_total", "purser_followed_total", "purser_commits_total", "purser_commit_batches_count",
		"purser_commit_seconds_count", "purser_relayed_total", "purser_reactions_total", "purser_actors",
		"purser_cache_bytes", "purser_cache_hits_total", "purser_cache_misses_total",
		"purser_http_requests_total", "purser_http_request_seconds_count", "process_cpu_seconds_total"} {
		require.Greater(t, after[name], before[name], name)
	}
	for _, name := range []string{"purser_backlog_entries", "purser_relay_lag_seconds", "purser_relay_lag_cents",
		"purser_reservations", "purser_reservation_age_seconds", "purser_follower_lag_positions",
		"purser_follower_late_seconds", "purser_unresolved_shards", "purser_unsynced_commits",
		"purser_pending_requests", "purser_lane_queue", "purser_lane_queue_longest", "purser_http_in_flight",
		"purser_partner_unmatched_total", "purser_holds_expired_total", "purser_cache_evictions_total",
		"purser_relay_set_aside_workspaces", "purser_relay_set_aside_entries", "purser_orders_overdue"} {
		require.Contains(t, after, name)
		require.GreaterOrEqual(t, after[name], 0.0, name)
	}
	require.Zero(t, after["purser_relay_lag_cents"], "purser_relay_lag_cents after the backlog is relayed")
	for _, flags := range [][]string{{"list"}, {"retry"}} {
		var out bytes.Buffer
		require.NoError(t, run(append(append([]string{"relay"}, flags...), "--data-dir", data), &out), out.String())
		require.Contains(t, out.String(), "0 set aside")
	}
	m.adminClient().await(t, "readiness", func() bool { return m.scrape(t)["purser_ready"] == 1 })
	require.Equal(t, 1.0, after["purser_build_info"])
	require.Equal(t, 1.0, after["purser_stores_info"])
	require.Equal(t, 10_000_000.0, after["purser_backlog_limit_entries"])
	require.Equal(t, float64(16<<20), after["purser_cache_limit_bytes"])
	require.Positive(t, after["go_goroutines"])
	_, text := m.adminPage(t, "/metrics")
	require.Contains(t, text, `purser_answer_seconds_bucket{le="0.2"}`)
	require.Contains(t, text, `purser_decision_seconds_bucket{le="0.2"}`)
	require.Contains(t, text, `purser_decisions_total{decision="declined",kind="authorization",reason="card_frozen"}`)
}

func TestReadinessNamesEveryReason(t *testing.T) {
	m := newDaemon(testConfig(t, t.TempDir()), slog.New(slog.DiscardHandler))
	require.ErrorIs(t, m.ready(), errNotServing)
	require.NoError(t, m.Start(t.Context()))
	m.adminClient().awaitReady(t)
	m.system.Stop() // stops the actors; the stores stay open
	status, text := m.adminPage(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.JSONEq(t, `{"build":"`+buildinfo.Build()+`","reasons":["stopping"],"status":"not ready"}`, text)
	require.Zero(t, m.scrape(t)["purser_ready"])
	status, _ = m.adminPage(t, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, m.stores.close())
	require.ErrorIs(t, m.ready(), errNotServing)
	require.NotContains(t, m.scrape(t), "purser_relay_lag_cents", "metrics of actors that may have stopped")
	require.NoError(t, m.swipes.close())
	require.NotContains(t, m.scrape(t), "purser_backlog_entries", "metrics of an authorizer that may be closed")
}

// TestALongBacklogIsNotReady: from 80 percent of its limit, the backlog makes a server not ready.
func TestALongBacklogIsNotReady(t *testing.T) {
	require.NoError(t, backlogFault(799, 1000))
	require.ErrorContains(t, backlogFault(800, 1000), "800 decisions are not relayed yet")
}

// TestUnmatchedReports sends partner reports that match no order. `purser unmatched` lists them
// from the running server and from the stopped server's directory.
func TestUnmatchedReports(t *testing.T) {
	data := t.TempDir()
	m := startServer(t, data)
	const reports = storecare.UnmatchedAtOnce + 3 // more than one page
	for i := range reports {
		body := fmt.Sprintf(`{"id":"evt-%d","type":"deposit.settled","data":{"depositId":"dep_0000000000000000000000000%d","by":"Ada Lovelace"}}`, i, i%10)
		req, err := http.NewRequest("POST", "http://"+m.listeners.http.Addr().String()+"/api/webhooks/bank-transfer",
			strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("partner-signature", webhook.Sign(m.config.PartnerSecrets.Common[0], time.Now(), []byte(body)))
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	require.Equal(t, float64(reports), m.scrape(t)["purser_partner_unmatched_total"])
	list := func(flags ...string) string {
		var out strings.Builder
		require.NoError(t, run(append([]string{"unmatched", "--data-dir", data}, flags...), &out), out.String())
		return out.String()
	}
	table, documents := list(), list("--json")
	require.Contains(t, table, fmt.Sprintf("%d unmatched\n", reports))
	require.NotContains(t, table, "Ada Lovelace", "the table shows a body, which may hold personal data")
	require.Equal(t, reports, strings.Count(documents, "\n"))
	for i := range reports {
		require.Contains(t, table, fmt.Sprintf("%q", fmt.Sprintf("evt-%d", i)))
	}
	var first struct {
		Body struct{ Data struct{ By string } }
	}
	require.NoError(t, json.NewDecoder(strings.NewReader(documents)).Decode(&first))
	require.Equal(t, "Ada Lovelace", first.Body.Data.By)
	stored, err := m.journal.Records(t.Context(), ident.SystemSlot.Shard(), balance.RecordUnmatched, "", reports)
	require.NoError(t, err)
	require.Len(t, stored, reports)
	for _, r := range stored {
		require.NotContains(t, string(r.Document), "Ada Lovelace", "a report is stored unsealed")
	}
	require.NoError(t, m.Close())
	require.Equal(t, table, list(), "list of the stopped server's data directory")
	require.Equal(t, documents, list("--json"))
	require.ErrorContains(t, run([]string{"unmatched", "--data-dir", t.TempDir() + "/none"}, io.Discard),
		"data directory")
}

// TestACloseAnswersTheRequestInFlight closes a server that has an idle connection and a connection
// without a request at every port, and one request whose body is missing. Close waits for that
// request, and not for the other connections.
func TestACloseAnswersTheRequestInFlight(t *testing.T) {
	data := t.TempDir()
	m := startServer(t, data)
	for _, ln := range []net.Listener{m.listeners.http, m.listeners.authorizer, m.listeners.admin} {
		silent, idle := dial(t, ln), dial(t, ln)
		defer silent.Close()
		defer idle.Close()
		_, err := io.WriteString(idle, "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(idle), nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusNotFound, resp.StatusCode)
	}
	signup := startSignup(t, m.listeners.http.Addr().String(), "ada@example.com")
	down := make(chan error, 1)
	go func() { down <- m.Close() }()
	awaitRefusedConnections(t, m.listeners.http.Addr().String())
	signup.finish(t)
	require.NoError(t, <-down, "Close waited for an idle connection until the drain timeout")
}

// TestSIGTERMAnswersRequestsInFlight signals a process while the bodies of several requests are
// missing. All requests are answered, their effects survive, and the process ends with status 0.
func TestSIGTERMAnswersRequestsInFlight(t *testing.T) {
	const clients = 8
	purser, data := program{path: buildProgram(t)}, filepath.Join(t.TempDir(), "data")
	p := launch(t, purser, data)
	address := strings.TrimPrefix(p.rest, "http://")
	var signups []*partialSignup
	for i := range clients {
		signups = append(signups, startSignup(t, address, fmt.Sprintf("person-%d@example.com", i)))
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	awaitRefusedConnections(t, address)
	for _, s := range signups {
		s.finish(t)
	}
	require.Empty(t, p.awaitExit(t), p.log.String())
	p = launch(t, purser, data)
	for i := range clients {
		a, err := p.sendToREST("", apiclient.Request{Method: "POST", Path: "/api/dashboard/login",
			Body: signupBody(fmt.Sprintf("person-%d@example.com", i))})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.Status, string(a.Raw))
	}
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
}

// partialSignup is a sign-up request whose header the server has read and whose body is not yet
// sent.
type partialSignup struct {
	conn   net.Conn
	reader *bufio.Reader
	body   []byte
}

func signupBody(email string) []byte {
	return marshal(fields{"email": email, "password": "correct horse battery"})
}

func startSignup(t *testing.T, address, email string) *partialSignup {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	h := &partialSignup{conn: conn, reader: bufio.NewReader(conn), body: signupBody(email)}
	_, err = fmt.Fprintf(conn,
		"POST /api/dashboard/signup HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n", len(h.body))
	require.NoError(t, err)
	line, err := h.reader.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue", "the server has not read the request's header")
	_, err = h.reader.ReadString('\n')
	require.NoError(t, err)
	return h
}

// finish sends the body, and requires an answer that closes the connection.
func (h *partialSignup) finish(t *testing.T) {
	t.Helper()
	_, err := h.conn.Write(h.body)
	require.NoError(t, err)
	resp, err := http.ReadResponse(h.reader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.True(t, resp.Close, "the answer does not close the connection")
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t,
		responseJudge.Judge(openapitest.Answer{Method: "POST", Path: "/api/dashboard/signup", Status: resp.StatusCode,
			ContentType: resp.Header.Get("Content-Type"), Body: body}))
}

// awaitRefusedConnections waits until an address refuses connections.
func awaitRefusedConnections(t *testing.T, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, stateTimeout, pollInterval)
}

func dial(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	return conn
}

// logBuffer collects the log of a server. It is safe for concurrent use.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *logBuffer) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// TestTheLogHasNoSecrets runs the demo at the log level debug and searches the log for secrets and
// personal data.
func TestTheLogHasNoSecrets(t *testing.T) {
	data, out := t.TempDir(), &logBuffer{}
	config := testConfig(t, data)
	config.LogLevel, config.LogFormat = slog.LevelDebug, settings.LogJSON
	m := newDaemon(config, settings.NewLogger(out, config))
	require.NoError(t, m.Start(context.WithoutCancel(t.Context())))
	passDemo(t, data)
	require.NoError(t, m.Close())
	text := out.String()
	require.Contains(t, text, `"route":"/api/cards"`)
	for line := range strings.Lines(text) {
		require.True(t, json.Valid([]byte(line)), line)
	}
	for _, file := range []string{"network-secret", "partner-secret", "data-key"} {
		secret, err := os.ReadFile(data + "/" + file)
		require.NoError(t, err)
		require.NotContains(t, text, strings.TrimSpace(string(secret)), file)
	}
	for _, pattern := range []string{`apk_[0-9a-zA-Z]`, `ses_[0-9a-zA-Z]`, `ctok_[0-9a-zA-Z]`, `@`, `password`,
		`Bearer `} {
		require.Empty(t, regexp.MustCompile(pattern).FindString(text), pattern)
	}
}
