package main

import (
	"bufio"
	"context"
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
)

// Deadlines of what is waited for, and how often it is asked.
const (
	processWithin = 60 * time.Second // a start, an end
	stateWithin   = 30 * time.Second // a state that the server comes to by itself
	askAgain      = 5 * time.Millisecond
)

// build compiles the program as it is shipped.
func build(t *testing.T) (purser string) {
	t.Helper()
	purser = filepath.Join(t.TempDir(), "purser")
	out, err := exec.Command("go", "build", "-o", purser, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return purser
}

// command is the program with the settings of these tests and nothing of the environment's.
func command(purser, data string, args ...string) *exec.Cmd {
	cmd := exec.Command(purser, append(args, "--data-dir", data)...)
	cmd.Env = []string{"PURSER_HTTP_ADDR=127.0.0.1:0", "PURSER_AUTHORIZER_ADDR=127.0.0.1:0", "PURSER_ADMIN_ADDR=127.0.0.1:0",
		"PURSER_RATE_LIMITS=off", "PURSER_SANDBOX_DELAY=50ms", "PURSER_AUTHORIZER_CACHE=64MiB"}
	return cmd
}

// succeed runs a command to its end, expects status 0 and returns what it printed.
func succeed(t *testing.T, purser, data string, args ...string) string {
	t.Helper()
	out, err := command(purser, data, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// refuse runs a command that must end with status 1 and returns what it printed.
func refuse(t *testing.T, purser, data string, args ...string) string {
	t.Helper()
	out, err := command(purser, data, args...).CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	require.True(t, ok, "%v: %s", err, out)
	require.Equal(t, 1, exit.ExitCode(), string(out))
	return string(out)
}

// process is one running server and an HTTP client whose connections end with it.
type process struct {
	cmd                  *exec.Cmd
	rest, network, admin string // base URLs
	secret               string // the card network's
	log                  processLog
	exited               chan struct{}
	err                  error // of the exit; read it after exited
	http                 *http.Client
	took                 time.Duration // from the launch to readiness
}

// processLog is what a process has written so far.
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

// launch starts a server on free ports and returns when it is ready. It is killed at the end of the test if it still runs.
func launch(t *testing.T, purser, data string) *process {
	t.Helper()
	began := time.Now()
	p := &process{cmd: command(purser, data, "serve"), exited: make(chan struct{}),
		http: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	ready := make(chan map[string]string, 1)
	go p.listen(stderr, ready)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		p.http.CloseIdleConnections()
	})
	select {
	case said := <-ready:
		p.rest, p.network, p.admin = "http://"+said["http"], "http://"+said["authorizer"], "http://"+said["admin"]
	case <-p.exited:
		require.FailNow(t, "the server has ended before it was ready", "%v\n%s", p.err, p.log.String())
	case <-time.After(processWithin):
		require.FailNow(t, "the server did not say that it is ready")
	}
	p.await(t, "readiness", func() bool { return strings.Contains(p.ask("/readyz"), "ready") })
	secret, err := os.ReadFile(filepath.Join(data, "network-secret"))
	require.NoError(t, err)
	p.secret, p.took = strings.TrimSpace(string(secret)), time.Since(began)
	return p
}

// listen keeps the log, hands over the fields of the line that says ready, and waits for the end of the process.
func (p *process) listen(stderr io.Reader, ready chan<- map[string]string) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		p.log.add(lines.Text())
		if !strings.Contains(lines.Text(), " msg=ready ") {
			continue
		}
		said := map[string]string{}
		for _, field := range strings.Fields(lines.Text()) {
			name, value, _ := strings.Cut(field, "=")
			said[name] = value
		}
		ready <- said
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

// ask reads a page of the admin port; "" when it is not answered with 200.
func (p *process) ask(path string) string {
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

// await asks until the condition holds.
func (p *process) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stateWithin)
	defer cancel()
	for !holds() {
		require.NoError(t, pause(ctx, askAgain), "waiting for %s", what)
	}
}

// drained waits until everything that was decided is in the journal.
func (p *process) drained(t *testing.T) {
	t.Helper()
	p.await(t, "an empty backlog", func() bool { return strings.Contains(p.ask("/metrics"), "\npurser_backlog_entries 0\n") })
}

// end sends a signal and returns how the process ended: "signal: killed", "exit status 1", or "" for status 0.
func (p *process) end(t *testing.T, s syscall.Signal) string {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s))
	return p.ended(t)
}

func (p *process) ended(t *testing.T) string {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(processWithin):
		require.FailNow(t, "the process did not end")
	}
	p.http.CloseIdleConnections()
	if p.err != nil {
		return p.err.Error()
	}
	return ""
}

// message posts to the card network's port, api to the REST port.
func (p *process) message(path string, body []byte) (answer, error) {
	return p.as(p.network, p.secret).send(context.Background(), request{method: "POST", path: path, body: body})
}

func (p *process) api(bearer string, r request) (answer, error) {
	return p.as(p.rest, bearer).send(context.Background(), r)
}

func (p *process) as(base, bearer string) *client {
	return &client{base: base, bearer: bearer, http: p.http}
}
