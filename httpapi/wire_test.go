package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

// impatient is the time for which the servers of these tests wait for a request.
const impatient = 50 * time.Millisecond

// impatientServer is a second server over the same actors with short timeouts.
func (w *world) impatientServer() *Server {
	w.t.Helper()
	config := w.server.cfg
	config.Registry = prometheus.NewRegistry()
	s, err := New(config)
	require.NoError(w.t, err)
	s.httpServer.http.ReadTimeout, s.httpServer.http.IdleTimeout = impatient, impatient
	w.judgeAnswers(s)
	return s
}

// A request with both lengths, in either order, is refused on every route: two servers in a row
// could read two different requests.
func TestNoRouteTakesTwoLengths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	w.fund(tn, 100_000_000)
	w.ok(w.get(tn.all, "/api/workspaces"))
	for _, op := range w.checked.operations(t) {
		r := w.newEstate(tn).ready(op, nil)
		before := w.settled()
		length, chunked := fmt.Sprintf("Content-Length: %d\r\n", len(r.body)), "Transfer-Encoding: chunked\r\n"
		r.body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(r.body), r.body)
		if op.body == nil {
			r.body = "0\r\n\r\n"
		}
		for _, framing := range []string{length + chunked, chunked + length, length + strings.ToUpper(chunked)} {
			w.malformed(op, r, framing, "Content-Length and Transfer-Encoding exclude each other")
		}
		for _, framing := range []string{length + length, length + "Transfer-Encoding: identity\r\n",
			"Content-Length: +2\r\n",
			"Content-Length: 0x2\r\n", "Content-Length: 1, 2\r\n", "Content-Length : 2\r\n",
			"Transfer-Encoding: chunked, identity\r\n", length + "Content-Length: 1\r\n"} {
			w.malformed(op, r, framing, "")
		}
		require.Equal(t, before, w.settled(), op.name)
	}
}

// A request of another version of HTTP is refused, and so is all that follows it on the connection.
func TestOtherVersionsOfHTTPAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	for version, statuses := range map[string][]int{"1.1": {200, 200}, "1.0": {200}, "9.9": {505}, "2.0": {505}, "1.2": {505}} {
		head := "GET /api/workspaces HTTP/" + version + "\r\nHost: x\r\nAuthorization: " + tn.all["Authorization"] + "\r\n\r\n"
		var got []int
		for _, answer := range answersTo(t, w.server, []byte(head+head)) {
			got = append(got, answer.StatusCode())
			require.Equal(t, got[0] == 505, strings.Contains(string(answer.Body()), `"error":"invalid_request"`), version)
		}
		require.Equal(t, statuses, got, version)
	}
}

// malformed requires that a framing is refused, for the given reason.
func (w *world) malformed(op operation, r readyRequest, framing, reason string) {
	w.t.Helper()
	got := answersTo(w.t, w.server, []byte(wire(r, framing)))
	require.NotEmpty(w.t, got, "%s with %q", op.name, framing)
	text := string(got[0].Body())
	require.Equal(w.t, 400, got[0].StatusCode(), "%s with %q answered %s", op.name, framing, text)
	require.Contains(w.t, text, `"error":"invalid_request"`, "%s with %q", op.name, framing)
	require.Contains(w.t, text, reason, "%s with %q", op.name, framing)
	require.Len(w.t, got, 1, "%s with %q: the connection goes on", op.name, framing)
}

// A body that arrives byte by byte, or stops, is refused after the timeout and has no effect.
func TestSlowBodiesAreCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	w.ok(w.get(tn.all, "/api/workspaces"))
	s := w.impatientServer()
	for _, op := range w.checked.operations(t) {
		if op.body == nil {
			continue
		}
		r := w.newEstate(tn).ready(op, nil)
		text := wire(r, fmt.Sprintf("Content-Length: %d\r\n", len(r.body)))
		for _, sent := range []int{len(text) - len(r.body), len(text) - 1} {
			before := w.settled()
			var resp fasthttp.Response
			require.NoError(t, resp.Read(bufio.NewReader(strings.NewReader(sendOnce(t, s.httpServer, text[:sent])))), op.name)
			require.Equal(t, 408, resp.StatusCode(), "%s: %s", op.name, resp.Body())
			require.Contains(t, string(resp.Body()), `"error":"request_timeout"`)
			require.Equal(t, before, w.settled(), op.name)
		}
	}
	require.NoError(t, s.Shutdown(t.Context()))
}

// sendOnce is a client that sends bytes at once and then nothing. It returns the answer until the
// server closes the connection. The bytes arrive before the server begins to wait, so the result
// does not depend on the machine's speed.
func sendOnce(t testing.TB, d *httpServer, said string) string {
	t.Helper()
	pipe := fasthttputil.NewPipeConns()
	client, server := pipe.Conn1(), pipe.Conn2()
	if said != "" {
		_, err := io.WriteString(client, said)
		require.NoError(t, err)
	}
	done := make(chan error, 1)
	go func() { done <- d.Serve(&oneConn{server}) }()
	require.NoError(t, client.SetReadDeadline(time.Now().Add(waitFor)))
	told, err := io.ReadAll(client)
	require.NoError(t, err, "after %.50q", said)
	require.NoError(t, <-done)
	return string(told)
}

// oneConn is a listener with one connection, which is already there.
type oneConn struct{ conn net.Conn }

func (l *oneConn) Accept() (conn net.Conn, err error) {
	if l.conn == nil {
		return nil, io.EOF
	}
	conn, l.conn = l.conn, nil
	return conn, nil
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return new(net.TCPAddr) }

// A connection that sends nothing, or an incomplete request line, is closed.
func TestSilentConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.impatientServer()
	ln := fasthttputil.NewInmemoryListener()
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	for _, said := range []string{"", "G", "GET /api/cards HTTP/1.1\r\nHost", "\r\n"} {
		conn, err := ln.Dial()
		require.NoError(t, err)
		_, _ = io.WriteString(conn, said) // the server may have closed already
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(waitFor)))
		told, err := io.ReadAll(conn)
		require.NoError(t, err, "after %q", said)
		if len(told) > 0 {
			require.Contains(t, string(told), "408", "after %q", said)
		}
		require.NoError(t, conn.Close())
	}
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-done)
}

// memoryConn is a connection whose client has sent all its bytes.
type memoryConn struct {
	sent     io.Reader
	received bytes.Buffer
}

func (c *memoryConn) Read(b []byte) (int, error)       { return c.sent.Read(b) }
func (c *memoryConn) Write(b []byte) (int, error)      { return c.received.Write(b) }
func (c *memoryConn) Close() error                     { return nil }
func (c *memoryConn) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (c *memoryConn) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
func (c *memoryConn) SetDeadline(time.Time) error      { return nil }
func (c *memoryConn) SetReadDeadline(time.Time) error  { return nil }
func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil }

// answersTo sends bytes to the server and reads every answer. The server may leave malformed bytes
// unanswered.
func answersTo(t testing.TB, s *Server, said []byte) []*fasthttp.Response {
	t.Helper()
	conn := &memoryConn{sent: bytes.NewReader(said)}
	_ = s.httpServer.ServeConn(conn) // the error of the last request, which has been answered
	var all []*fasthttp.Response
	reader := bufio.NewReader(&conn.received)
	for {
		resp := &fasthttp.Response{}
		resp.SkipBody = false
		if _, err := reader.Peek(1); errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, resp.Read(reader), "answer to %q", said)
		all = append(all, resp)
	}
}
