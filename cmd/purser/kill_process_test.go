package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
	"purser/persistence/pgjournal/pgtest"
	"purser/persistence/retry"
)

// Timeouts of waits, and the interval between two polls.
const (
	processTimeout = 10 * time.Minute // for a process to start or to exit
	stateTimeout   = 10 * time.Minute // for a running server to reach a state
	logTailLines   = 40               // log lines in the message of a failed wait
	pollInterval   = 5 * time.Millisecond
)

// program is the compiled program and the stores that it runs on.
type program struct {
	path string
	env  []string // settings that select the stores
	// database and broker are nil when the stores are embedded in the data directory.
	database *pgtest.Server
	broker   *broker
}

// fullLengthVariable is the environment variable that runs the process tests in full length: more
// rounds and longer outages. make verify sets it.
const fullLengthVariable = "PURSER_TEST_FULL"

// onlyInFullLength leaves a test to make verify: outages, kills, floods, damage and migrations last
// longer than a gate may.
func onlyInFullLength(t *testing.T) {
	t.Helper()
	if os.Getenv(fullLengthVariable) == "" {
		t.Skip("left to make verify")
	}
}

// onEachStoreSet runs a test on the embedded stores and on Postgres with Kafka. Where full is false
// the test may run fewer rounds.
func onEachStoreSet(t *testing.T, test func(t *testing.T, purser program, full bool)) {
	path, full := buildProgram(t), os.Getenv(fullLengthVariable) != ""
	t.Run("embedded", func(t *testing.T) { test(t, program{path: path}, full) })
	t.Run("postgres+kafka", func(t *testing.T) {
		if purser := onPostgresAndKafka(t, path); purser.database != nil {
			test(t, purser, full)
		}
	})
}

// onEachStoreSetIfFull is onEachStoreSet for a long test: unless fullLengthVariable is set, the
// test runs on the embedded stores only.
func onEachStoreSetIfFull(t *testing.T, test func(t *testing.T, purser program, full bool)) {
	if os.Getenv(fullLengthVariable) != "" {
		onEachStoreSet(t, test)
		return
	}
	t.Run("embedded", func(t *testing.T) { test(t, program{path: buildProgram(t)}, false) })
}

// onPostgresAndKafka returns the program with a Postgres and a Kafka of the test's own. The
// program's database is nil when the machine has no Postgres.
func onPostgresAndKafka(t *testing.T, path string) program {
	t.Helper()
	database := pgtest.Own(t, t.Name(), true)
	if database == nil {
		return program{}
	}
	purser := program{path: path, database: database, broker: startBroker(t)}
	purser.env = serverSettings(database.URL("postgres"), purser.broker.addresses)
	return purser
}

func serverSettings(databaseURL, brokers string) []string {
	return []string{"DATABASE_URL=" + databaseURL, "PURSER_DATA_KEY=" + testDataKey, "KAFKA_BROKERS=" + brokers}
}

// buildProgram compiles the program, once for the whole suite, and returns the path of the binary.
// It skips the test under the race detector, which does not watch that binary.
func buildProgram(t *testing.T) string {
	t.Helper()
	if raceEnabled {
		t.Skip("the program is compiled without the race detector")
	}
	path, err := buildProgramOnce()
	require.NoError(t, err)
	return path
}

// buildProgramOnce compiles the program into suiteDir, which TestMain removes.
var buildProgramOnce = sync.OnceValues(func() (string, error) {
	path := filepath.Join(suiteDir, "purser")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// purserCommand returns a command of the program with the settings of these tests and an otherwise
// empty environment.
func purserCommand(purser program, data string, args ...string) *exec.Cmd {
	cmd := exec.Command(purser.path, append(args, "--data-dir", data)...)
	cmd.Env = append([]string{"PURSER_HTTP_ADDR=127.0.0.1:0", "PURSER_AUTHORIZER_ADDR=127.0.0.1:0",
		"PURSER_ADMIN_ADDR=127.0.0.1:0", "PURSER_RATE_LIMITS=off", "PURSER_REFUSALS=off",
		"PURSER_SANDBOX_DELAY=50ms", "PURSER_AUTHORIZER_CACHE=64MiB", "PURSER_ANSWER_WITHIN=" + patientAnswer,
		"PURSER_PASSWORD_NICE=0", "PURSER_SLACK=" + mostSlack},
		purser.env...)
	return cmd
}

// requireSuccess runs a command to its end, requires exit status 0 and returns its output.
func requireSuccess(t *testing.T, purser program, data string, args ...string) string {
	t.Helper()
	out, err := purserCommand(purser, data, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// requireFailure runs a command to its end, requires exit status 1 and returns its output.
func requireFailure(t *testing.T, purser program, data string, args ...string) string {
	t.Helper()
	out, err := purserCommand(purser, data, args...).CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	require.True(t, ok, "%v: %s", err, out)
	require.Equal(t, 1, exit.ExitCode(), string(out))
	return string(out)
}

// process is one running server and an HTTP client whose connections end with it.
type process struct {
	cmd                  *exec.Cmd
	rest, network, admin string         // base URLs
	secret               string         // the card network's secret
	authorities          *x509.CertPool // sign the server's certificate; nil: bench uses plain HTTP
	log                  processLog
	exited               chan struct{} // closed when the process has ended
	err                  error         // how the process ended; valid after exited is closed
	http                 *http.Client
	startupTime          time.Duration // from the launch to readiness
	stop                 func() error  // stops a server that runs in the test's own process
}

// processLog collects the log lines of a process. It is safe for concurrent use.
type processLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *processLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.text, line)
}

func (l *processLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// tail returns the last lines of the log.
func (l *processLog) tail(lines int) string {
	all := strings.SplitAfter(l.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// launch starts a server on free ports and returns when it is ready. The end of the test kills a
// server that still runs.
func launch(t *testing.T, purser program, data string) *process {
	t.Helper()
	return launchCommand(t, data, purserCommand(purser, data, "serve"))
}

// launchCommand starts a server by a command and returns when it is ready.
func launchCommand(t *testing.T, data string, serve *exec.Cmd) *process {
	t.Helper()
	began := time.Now()
	p, ready := startCommand(t, serve)
	p.rest, p.network, p.admin = "http://"+ready["http"], "http://"+ready["authorizer"], "http://"+ready["admin"]
	p.await(t, "readiness", func() bool { return strings.Contains(p.adminPage("/readyz"), "ready") })
	secret, err := os.ReadFile(filepath.Join(data, "network-secret"))
	require.NoError(t, err)
	p.secret, p.startupTime = strings.TrimSpace(string(secret)), time.Since(began)
	return p
}

// startCommand starts a command that serves, waits until it logs "ready", and returns the fields of
// that log line by name.
func startCommand(t *testing.T, cmd *exec.Cmd) (p *process, fieldsOfReady map[string]string) {
	t.Helper()
	p = &process{cmd: cmd, exited: make(chan struct{}),
		http: &http.Client{Timeout: processTimeout, Transport: responseJudge.Through(&http.Transport{MaxIdleConnsPerHost: 256})}}
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	ready := make(chan map[string]string, 1)
	go p.readLog(stderr, ready)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		p.http.CloseIdleConnections()
	})
	select {
	case fieldsOfReady = <-ready:
	case <-p.exited:
		require.FailNow(t, "the server ended before it was ready", "%v\n%s", p.err, p.log.String())
	case <-time.After(processTimeout):
		require.FailNow(t, "the server was not ready within the timeout", "%s", p.log.tail(logTailLines))
	}
	return p, fieldsOfReady
}

// readLog copies the process's log into p.log and the suite's log, sends the fields of the line
// "ready", and waits for the end of the process.
func (p *process) readLog(stderr io.Reader, ready chan<- map[string]string) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		p.log.add(lines.Text())
		_, _ = fmt.Fprintln(suiteLog, lines.Text())
		if !strings.Contains(lines.Text(), " msg=ready ") {
			continue
		}
		readyFields := map[string]string{}
		for _, field := range strings.Fields(lines.Text()) {
			name, value, _ := strings.Cut(field, "=")
			readyFields[name] = value
		}
		ready <- readyFields
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

// adminPage reads a page of the admin port. It returns "" for any status other than 200.
func (p *process) adminPage(path string) string {
	resp, err := p.http.Get(p.admin + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// await polls until the condition holds, and fails the test after stateTimeout.
func (p *process) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	p.awaitWithin(t, stateTimeout, what, holds)
}

func (p *process) awaitWithin(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for !holds() {
		if !retry.Pause(ctx, pollInterval) {
			require.NoError(t, ctx.Err(), "waiting for %s; the last lines of the process:\n%s", what,
				p.log.tail(logTailLines))
		}
	}
}

// awaitEmptyBacklog waits until every decision of the authorizer is in the journal.
func (p *process) awaitEmptyBacklog(t *testing.T) {
	t.Helper()
	p.await(t, "an empty backlog",
		func() bool { return strings.Contains(p.adminPage("/metrics"), "\npurser_backlog_entries 0\n") })
}

// signalAndWait sends a signal and returns how the process ended: "signal: killed",
// "exit status 1", or "" for status 0.
func (p *process) signalAndWait(t *testing.T, s syscall.Signal) string {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s))
	return p.awaitExit(t)
}

func (p *process) awaitExit(t *testing.T) string {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(processTimeout):
		require.FailNow(t, "the process did not end")
	}
	p.http.CloseIdleConnections()
	if p.err != nil {
		return p.err.Error()
	}
	return ""
}

// sendToNetwork posts to the card network's port, and repeats a message that was not decided in
// time.
func (p *process) sendToNetwork(path string, body []byte) (apiclient.Answer, error) {
	return p.client(p.network, p.secret).SendUntilDecided(context.Background(),
		apiclient.Request{Method: "POST", Path: path, Body: body})
}

// sendToREST sends a request to the REST API and repeats it by the rules of sendUntilKnown.
func (p *process) sendToREST(bearer string, r apiclient.Request) (apiclient.Answer, error) {
	return sendUntilKnown(context.Background(), p.client(p.rest, bearer), r)
}

// unchangedOrUnknown reports whether a REST answer is one that a busy server may give: 503, which
// has changed nothing, or outcome_unknown. Any other 5xx is a fault.
func unchangedOrUnknown(a apiclient.Answer) bool {
	return a.Status == http.StatusServiceUnavailable || a.Text("error") == "outcome_unknown"
}

// sendUntilKnown sends a request and repeats it, for stateTimeout at most, while the answer is 503,
// which has changed nothing. It repeats outcome_unknown only for an idempotent request.
func sendUntilKnown(ctx context.Context, c *apiclient.Client, r apiclient.Request) (a apiclient.Answer, err error) {
	repeats := r.IdempotencyKey != "" || r.Method != http.MethodPost
	for deadline := time.Now().Add(stateTimeout); ; {
		a, err = c.Send(ctx, r)
		again := a.Status == http.StatusServiceUnavailable || repeats && a.Text("error") == "outcome_unknown"
		if err != nil || !again || time.Now().After(deadline) {
			return a, err
		}
		if !retry.Pause(ctx, pollInterval) {
			return apiclient.Answer{}, ctx.Err()
		}
	}
}

func (p *process) client(base, bearer string) *apiclient.Client {
	return &apiclient.Client{BaseURL: base, Bearer: bearer, HTTP: p.http}
}
