package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"purser/bench"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

// Floods come from addresses of the loopback network that neither swipes nor other callers have.
const (
	floodAddresses        = 8
	floodFiles            = 1_100                  // limit of open files of the flooded server
	connectionsPerAddress = 64                     // at once
	floodPause            = 2 * time.Millisecond   // of an attacker between two connections
	floodMargin           = 800 * time.Millisecond // between the end of the floods and the end of the swipes
)

// flood is an attack on a port. attack drives one connection and returns when the server has closed
// it. n numbers the connections.
type flood struct {
	name   string
	port   func(p *process) string // its base URL
	attack func(conn net.Conn, n int64)
}

// floods returns one flood of each kind. Each of them, before the limits of the ports, ended the
// process or exhausted its memory or processors. Unsigned reports come first: after another flood
// the refusal buckets of the addresses are full, and too few reports reach the limit of reports.
func floods() []flood {
	secret, err := ident.NewSecret(ident.APISecret, 1, strings.NewReader(strings.Repeat("x", 64)))
	if err != nil {
		panic(err)
	}
	hold := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	rest := func(p *process) string { return p.rest }
	return []flood{
		{"unsigned reports", rest, func(conn net.Conn, _ int64) {
			body := strings.Repeat(" ", 64<<10)
			report := "POST /api/webhooks/bank-transfer HTTP/1.1\r\nHost: x\r\npartner-signature: " +
				webhook.Sign("not the partner's secret", time.Now(), nil) +
				fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(body)) + body
			go hold(conn)
			for {
				if _, err := io.WriteString(conn, report); err != nil {
					return
				}
			}
		}},
		{"silent connections", rest, func(conn net.Conn, _ int64) { hold(conn) }},
		{"slow heads", rest, func(conn net.Conn, _ int64) {
			go hold(conn)
			for _, c := range "POST /api/cards HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 1000) {
				if _, err := conn.Write([]byte(string(c))); err != nil {
					return
				}
				time.Sleep(10 * floodPause)
			}
		}},
		{"announced bodies", rest, func(conn net.Conn, n int64) {
			head := fmt.Sprintf("POST /api/cards HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
				"Content-Length: %d\r\n\r\n", secret, 1<<20)
			if n%2 == 0 {
				head = fmt.Sprintf("POST /api/dashboard/login HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
					64<<10)
			}
			_, _ = io.WriteString(conn, head+strings.Repeat(" ", 32<<10))
			hold(conn)
		}},
		{"wrong passwords", rest, func(conn net.Conn, n int64) {
			postAndClose(conn, "/api/dashboard/login",
				fmt.Sprintf(`{"email":"person-%d@example.com","password":"a wrong password"}`, n))
		}},
		{"swipes without the secret", func(p *process) string { return p.network }, func(conn net.Conn, _ int64) {
			postAndClose(conn, "/v1/authorizations", "{}")
		}},
		{"audits", func(p *process) string { return p.admin }, func(conn net.Conn, _ int64) {
			postAndClose(conn, "/audit", "{}")
		}},
	}
}

// postAndClose sends a request and returns when the server has answered it and closed the
// connection.
func postAndClose(conn net.Conn, path, body string) {
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", path, conn.RemoteAddr(), len(body), body)
	_, _ = io.Copy(io.Discard, conn)
}

// attackUntilDone floods a port until the context ends, and returns when every attacker has
// stopped.
func (f flood) attackUntilDone(ctx context.Context, address string) {
	var attackers sync.WaitGroup
	var n atomic.Int64
	for from := range floodAddresses {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+from))}}
		for range connectionsPerAddress {
			attackers.Go(func() {
				for ctx.Err() == nil {
					if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
						stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
						f.attack(conn, n.Add(1))
						stop()
						_ = conn.Close()
					}
					retry.Pause(ctx, floodPause*connectionsPerAddress)
				}
			})
		}
	}
	attackers.Wait()
}

// launchWithFileLimit starts a server under a limit of open files and waits until it is ready.
func launchWithFileLimit(t *testing.T, purser program, data string, files int) *process {
	t.Helper()
	return launchCommand(t, data, withFileLimit(purserCommand(purser, data, "serve"), files))
}

// withFileLimit returns a command that runs cmd under a limit of open files.
func withFileLimit(cmd *exec.Cmd, files int) *exec.Cmd {
	limited := exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files),
		cmd.Path}, cmd.Args[1:]...)...)
	limited.Env = cmd.Env
	return limited
}

// attackersArgument makes this test binary run the attackers. They are a process of their own at
// idle priority, because real attackers do not compute on the server's processors.
const attackersArgument = "purser-attackers"

// runAttackers is the main function of the attackers' process. Its arguments are the duration of
// each flood, then the name and the address of each flood. The floods run one after another.
func runAttackers(arguments []string) {
	each, err := time.ParseDuration(arguments[0])
	if err != nil {
		panic(err)
	}
	for arguments = arguments[1:]; len(arguments) > 0; arguments = arguments[2:] {
		all := slices.Concat(floods(), floodsOfTLS())
		i := slices.IndexFunc(all, func(f flood) bool { return f.name == arguments[0] })
		until, end := context.WithTimeout(context.Background(), each)
		all[i].attackUntilDone(until, arguments[1])
		end()
	}
}

// measureSwipesDuring sends rate swipes a second to a server while its ports are flooded. It
// requires the right answer to each swipe, and returns their measures.
func measureSwipesDuring(t *testing.T, p *process, data string, rate int, lasts time.Duration,
	floods ...flood,
) bench.Stage {
	t.Helper()
	attackers := exec.CommandContext(t.Context(), "chrt", "--idle", "0", os.Args[0], attackersArgument)
	if len(floods) > 0 {
		attackers.Args = append(attackers.Args, ((lasts - floodMargin) / time.Duration(len(floods))).String())
	}
	for _, f := range floods {
		_, address, _ := strings.Cut(f.port(p), "://")
		attackers.Args = append(attackers.Args, f.name, address)
	}
	target := bench.Target{REST: p.rest, Network: p.network, Admin: p.admin, Secret: p.secret}
	if p.authorities != nil {
		target = target.OverTLS(p.authorities)
	}
	swipes := bench.Stream{Kind: bench.Authorize, Connections: 32, Rate: rate}
	report, err := bench.Run(t.Context(), bench.Config{Cards: 40, Workspaces: 8, Declines: 10, Target: target,
		Loads: []bench.Load{{Streams: []bench.Stream{swipes}, Duration: lasts}},
		Progress: func(progress bench.Progress) {
			if progress.Stage == swipes.String() && len(floods) > 0 && attackers.Process == nil {
				require.NoError(t, attackers.Start())
			}
		}})
	if attackers.Process != nil {
		require.NoError(t, attackers.Wait())
	}
	require.NoError(t, err, p.log.tail(logTailLines))
	stage := report.Stages[0]
	require.Empty(t, report.Failure())
	return stage
}

// The ports are flooded under a low limit of open files. Every swipe is answered, the REST port
// answers after the flood, the memory of request bodies returns to 0, and the audit passes.
// Without the limits accept failed, Serve returned and the process ended. With PURSER_TEST_FULL
// each flood is compared with the same swipes without it.
func TestAttackFloods(t *testing.T) {
	onlyInFullLength(t)
	purser, full := program{path: buildProgram(t)}, os.Getenv(fullLengthVariable) != ""
	purser.env = append([]string{"PURSER_BODY_BUDGET=4MiB", "PURSER_REFUSALS=20"}, asShipped...)
	data := filepath.Join(t.TempDir(), "data")
	p := launchWithFileLimit(t, purser, data, floodFiles)
	if full {
		for _, f := range floods() {
			t.Run(f.name, func(t *testing.T) { p.requireBoundedSlowdown(t, data, f) })
		}
	} else {
		stage := measureSwipesDuring(t, p, data, 200, 5*time.Second, floods()...)
		t.Logf("swipes beside the floods: p99 %.1f ms, %v", stage.Measures[0].P99Micros/1000, stage.Outcomes)
	}
	seen := p.scrape(t)
	require.Positive(t, seen["purser_connections_refused_total"]+seen["purser_connections_cut_total"],
		"the flood did not fill the port")
	require.Positive(t, sumLabelled(p.adminPage("/metrics"), "purser_connections_refused_total", `reason="refusals"`))
	require.EqualValues(t, 4<<20, seen["purser_body_budget_bytes"])
	p.await(t, "the memory of bodies", func() bool { return p.scrape(t)["purser_body_bytes"] == 0 })
	p.await(t, "an answer of REST", func() bool {
		resp, err := p.http.Get(p.rest + "/api/v1/openapi.json")
		if err != nil {
			return false
		}
		return errors.Join(resp.Body.Close()) == nil && resp.StatusCode == http.StatusOK
	})
	p.awaitEmptyBacklog(t)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
}

// requireBoundedSlowdown measures swipes at 1,000 a second without a flood and with it, in turns.
// It requires that the median ratio of their 99th percentiles is at most 3.
func (p *process) requireBoundedSlowdown(t *testing.T, data string, f flood) {
	t.Helper()
	const pairs, rate, lasts = 5, 1000, 5 * time.Second
	var ratios []float64
	for range pairs {
		without := measureSwipesDuring(t, p, data, rate, lasts).Measures[0].P99Micros
		with := measureSwipesDuring(t, p, data, rate, lasts, f).Measures[0].P99Micros
		t.Logf("%s: p99 %.2f ms without, %.2f ms with", f.name, without/1000, with/1000)
		ratios = append(ratios, with/without)
	}
	slices.Sort(ratios)
	assert.LessOrEqual(t, ratios[pairs/2], 3.0, "%s: ratios of the 99th percentiles %v", f.name, ratios)
}

// A start under too low a limit of open files fails, and the error has the needed number. With that
// number the server starts.
func TestStartWithTooFewDescriptorsIsRefused(t *testing.T) {
	purser, data := program{path: buildProgram(t)}, filepath.Join(t.TempDir(), "data")
	for _, files := range []int{64, 256, 800} {
		out, err := withFileLimit(purserCommand(purser, data, "serve"), files).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), fmt.Sprintf("the limit of open files is %d, and purser needs 928", files))
		require.NoDirExists(t, data)
	}
	p := launchWithFileLimit(t, purser, data, 928)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
}
