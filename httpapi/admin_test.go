package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors/fault"
)

// adminPort is a running admin server with a client.
type adminPort struct {
	t        *testing.T
	client   *fasthttp.HostClient
	notReady error
}

// newAdminPort serves an admin port with a counter and three commands, until the test ends.
func newAdminPort(t *testing.T) *adminPort {
	p := &adminPort{t: t}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "purser_test_total"}))
	admin, err := NewAdmin(AdminConfig{Ready: func() error { return p.notReady }, Registry: registry, Build: "0.1.0 abc",
		Names: []string{"purser.test"},
		Commands: map[string]Command{
			"audit": {Do: func(_ context.Context, body []byte) (any, error) {
				return map[string]string{"told": string(body)}, nil
			}},
			"break": {Do: func(context.Context, []byte) (any, error) {
				return nil, errors.New("the book differs by 1 cent")
			}},
			"field": {Do: func(context.Context, []byte) (any, error) {
				return nil, fault.New(fault.InvalidBody, "chain is not a chain of the sandbox")
			}},
		}})
	require.NoError(t, err)
	ln := fasthttputil.NewInmemoryListener()
	done := make(chan error, 1)
	go func() { done <- admin.Serve(ln) }()
	p.client = dial(ln)
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		require.NoError(t, admin.Shutdown(context.Background()))
		require.NoError(t, <-done)
	})
	return p
}

// answers sends a request, with one header or none, and requires its status and a part of its body.
func (p *adminPort) answers(method, path, body string, header [2]string, status int, contains string) {
	p.t.Helper()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	req.SetRequestURI("http://purser.test" + path)
	req.Header.SetMethod(method)
	req.SetBodyString(body)
	if header[0] != "" {
		req.Header.Set(header[0], header[1])
	}
	require.NoError(p.t, p.client.Do(req, resp))
	require.Equal(p.t, status, resp.StatusCode(), path)
	require.Contains(p.t, string(resp.Body()), contains)
	require.NotContains(p.t, string(resp.Body()), "-test.", "the command line is not shown")
}

func TestAdminShowsHealthMetricsAndProfiles(t *testing.T) {
	t.Parallel()
	p, none := newAdminPort(t), [2]string{}
	p.answers("GET", "/healthz", "", none, 200, "ok")
	p.answers("GET", "/readyz", "", none, 200, `{"build":"0.1.0 abc","status":"ready"}`)
	p.notReady = errors.New("rules are not followed to the head")
	p.answers("GET", "/readyz", "", none, 503, "not followed")
	p.answers("HEAD", "/readyz", "", none, 503, "")
	p.answers("HEAD", "/healthz", "", none, 200, "")
	p.notReady = errors.Join(errors.New("3 shards are lost"), errors.New("the backlog is long"))
	p.answers("GET", "/readyz", "", none, 503,
		`{"build":"0.1.0 abc","reasons":["3 shards are lost","the backlog is long"],"status":"not ready"}`)
	p.answers("GET", "/metrics", "", none, 200, "purser_test_total 0")
	p.answers("GET", "/debug/pprof/", "", none, 200, "goroutine")
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof/x/../cmdline", "/debug/pprof//cmdline"} {
		p.answers("GET", path, "", none, 200, filepath.Base(os.Args[0]))
	}
	_, err := NewAdmin(AdminConfig{})
	require.Error(t, err)
}

// A command's result, its error and its fault are answered with their own status.
func TestAdminRunsCommands(t *testing.T) {
	t.Parallel()
	p, none := newAdminPort(t), [2]string{}
	p.answers("POST", "/audit", "all", none, 200, `{"told":"all"}`)
	p.answers("POST", "/break", "", none, 500, "differs by 1 cent")
	p.answers("POST", "/field", "", none, 400, "chain is not a chain of the sandbox")
	p.answers("GET", "/audit", "", none, 405, "method_not_allowed")
	p.answers("POST", "/nothing", "", none, 404, "not_found")
}

// A web page can neither run a command nor read the port. A person may open a page of the port.
func TestAdminRefusesWebPages(t *testing.T) {
	t.Parallel()
	p := newAdminPort(t)
	for _, header := range [][2]string{{"Origin", "https://evil.test"}, {"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}} {
		p.answers("POST", "/audit", "", header, 403, "origin_refused")
	}
	p.answers("GET", "/metrics", "", [2]string{"Sec-Fetch-Site", "same-site"}, 403, "origin_refused")
	p.answers("GET", "/metrics", "", [2]string{"Sec-Fetch-Site", "none"}, 200, "purser_test_total 0")
}

// A page whose domain was rebound to the port's address sends its own domain as Host, and is
// refused.
func TestTheAdminPortAnswersOnlyUnderItsOwnNames(t *testing.T) {
	t.Parallel()
	admin, err := NewAdmin(AdminConfig{Ready: func() error { return nil }, Registry: prometheus.NewRegistry(),
		Names: []string{"purser", "admin.internal"}})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- admin.Serve(ln) }()
	ask := func(host string) string {
		conn, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "GET /debug/pprof/cmdline HTTP/1.1\r\n%sConnection: close\r\n\r\n", host)
		require.NoError(t, err)
		var resp fasthttp.Response
		require.NoError(t, resp.Read(bufio.NewReader(conn)))
		return fmt.Sprintf("%d %s", resp.StatusCode(), resp.Body())
	}
	for _, own := range []string{ln.Addr().String(), "127.0.0.1", "localhost:8082", "LocalHost", "[::1]:8082",
		"127.9.9.9:1",
		"purser:8082", "Admin.Internal"} {
		require.Equal(t, "200 "+filepath.Base(os.Args[0]), ask("Host: "+own+"\r\n"), own)
	}
	for _, other := range []string{"Host: evil.example:8082\r\n", "Host: localhost.evil.example\r\n",
		"Host: 10.1.2.3:8082\r\n",
		"Host: \r\n", "Host: localhost@evil.example\r\n", "Host: evil.example\r\nHost: localhost\r\n",
		"Host: localhost\r\nHost: evil.example\r\n", "Host: localhost:8082:evil.example\r\n"} {
		require.Regexp(t, `^421 .*host_refused|^400 `, ask(other), other)
	}
	require.NoError(t, admin.Shutdown(t.Context()))
	require.NoError(t, <-done)
}

// While a command with AtOnce 1 runs, a second call is refused. Afterwards the command runs again.
func TestSecondCallOfAnExclusiveCommandIsRefused(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}), make(chan struct{})
	admin, err := NewAdmin(AdminConfig{Ready: func() error { return nil }, Registry: prometheus.NewRegistry(),
		Names: []string{"purser.test"}, Commands: map[string]Command{"audit": {AtOnce: 1,
			Do: func(context.Context, []byte) (any, error) {
				began <- struct{}{}
				<-end
				return "sound", nil
			}}}})
	require.NoError(t, err)
	ln := fasthttputil.NewInmemoryListener()
	done := make(chan error, 1)
	go func() { done <- admin.Serve(ln) }()
	client := dial(ln)
	audit := func() (int, string) {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		req.SetRequestURI("http://purser.test/audit")
		req.Header.SetMethod("POST")
		require.NoError(t, client.Do(req, resp))
		return resp.StatusCode(), string(resp.Body())
	}
	first := make(chan int, 1)
	f := func() {
		go func() {
			status, _ := audit()
			first <- status
		}()
		<-began
	}
	f()
	for range 16 {
		status, text := audit()
		require.Equal(t, 409, status)
		require.Contains(t, text, "command_running")
		require.Contains(t, text, "the command audit is running")
	}
	end <- struct{}{}
	require.Equal(t, 200, <-first)
	f()
	end <- struct{}{}
	require.Equal(t, 200, <-first)
	client.CloseIdleConnections()
	require.NoError(t, admin.Shutdown(t.Context()))
	require.NoError(t, <-done)
}

// Serve returns at once when Shutdown came first.
func TestShutBeforeServing(t *testing.T) {
	t.Parallel()
	admin, err := NewAdmin(AdminConfig{Ready: func() error { return nil }, Registry: prometheus.NewRegistry()})
	require.NoError(t, err)
	require.NoError(t, admin.Shutdown(context.Background()))
	require.NoError(t, admin.Serve(fasthttputil.NewInmemoryListener()))
}

// A connection that was opened ahead of need does not delay a shutdown.
func TestASilentConnectionDoesNotHoldUpShutdown(t *testing.T) {
	t.Parallel()
	admin, err := NewAdmin(AdminConfig{Ready: func() error { return nil }, Registry: prometheus.NewRegistry()})
	require.NoError(t, err)
	admin.httpServer.http.ReadTimeout = time.Hour
	ln := fasthttputil.NewInmemoryListener()
	done := make(chan error, 1)
	go func() { done <- admin.Serve(ln) }()
	silent, err := ln.Dial()
	require.NoError(t, err)
	defer silent.Close()
	require.Eventually(t, func() bool { return admin.httpServer.http.GetOpenConnectionsCount() == 1 }, waitFor, pause)
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	require.NoError(t, admin.Shutdown(ctx))
	require.NoError(t, <-done)
}

// A client that sends too little or malformed bytes gets the matching status, and no text of the
// server's errors.
func TestAdminRefusesMalformedRequests(t *testing.T) {
	t.Parallel()
	admin, err := NewAdmin(AdminConfig{Ready: func() error { return nil }, Registry: prometheus.NewRegistry()})
	require.NoError(t, err)
	admin.httpServer.http.ReadTimeout = impatient
	for request, want := range map[string]string{"": "408",
		"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n": "408", "nonsense\r\n\r\n": "400",
		"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", maxHeader) + "\r\n\r\n": "431"} {
		var resp fasthttp.Response
		require.NoError(t, resp.Read(bufio.NewReader(strings.NewReader(sendOnce(t, admin.httpServer, request)))), "%.20s", request)
		require.Equal(t, want, strconv.Itoa(resp.StatusCode()), "%.20s: %s", request, resp.Body())
		require.NotContains(t, string(resp.Body()), "timeout:")
		require.NotContains(t, string(resp.Body()), "i/o")
	}
}
