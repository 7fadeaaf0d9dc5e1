package front_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/authorizer/front"
)

// within ends a test whose shutdown waits for something; far below the timeouts of the connections.
const within = time.Minute

func newServer(handler fasthttp.RequestHandler) *front.Server {
	return front.New(&fasthttp.Server{Handler: handler, CloseOnShutdown: true, ReadTimeout: time.Hour, IdleTimeout: time.Hour}, front.Options{})
}

func hello(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("hello") }

func shut(t *testing.T, s *front.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
}

// ask sends a request over a connection and returns the answer's status line.
func ask(t *testing.T, conn net.Conn) string {
	t.Helper()
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	return line
}

// Another version is refused on its connection's last answer, with the server's refusal as the
// body.
func TestAServerRefusesOtherVersions(t *testing.T) {
	http := &fasthttp.Server{Handler: hello, CloseOnShutdown: true, ReadTimeout: time.Hour, IdleTimeout: time.Hour,
		ErrorHandler: func(ctx *fasthttp.RequestCtx, err error) { ctx.Error(err.Error(), fasthttp.StatusBadRequest) }}
	for _, s := range []*front.Server{front.New(http, front.Options{}), newServer(hello)} {
		ln, done := fasthttputil.NewInmemoryListener(), make(chan error, 1)
		go func() { done <- s.Serve(ln) }()
		for version, status := range map[string]int{"1.1": 200, "1.0": 200, "0.9": 505, "1.2": 505, "2.0": 505, "9.9": 505,
			"1.10": 400, "1": 400, "": 400} {
			conn, err := ln.Dial()
			require.NoError(t, err)
			_, err = io.WriteString(conn, "GET / HTTP/"+version+"\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
			require.NoError(t, err)
			answers := bufio.NewReader(conn)
			answer := fasthttp.AcquireResponse()
			require.NoError(t, answer.Read(answers), version)
			require.Equal(t, status, answer.StatusCode(), version)
			if status == 505 {
				require.NotContains(t, string(answer.Body()), "hello", version)
				require.True(t, answer.ConnectionClose(), version)
				_, err = answers.ReadByte()
				require.ErrorIs(t, err, io.EOF, version)
			}
			require.NoError(t, conn.Close())
		}
		shut(t, s)
		require.NoError(t, <-done)
	}
}

func TestAServerShutBeforeServingDoesNotServe(t *testing.T) {
	s := newServer(hello)
	shut(t, s)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, s.Serve(ln))
	require.ErrorIs(t, ln.Close(), net.ErrClosed, "the listener is closed")
}

// Serve and Shutdown race: whichever comes first, Serve ends.
func TestAShutdownThatMeetsTheBeginningOfServe(t *testing.T) {
	for range 200 {
		s, ln, done := newServer(hello), fasthttputil.NewInmemoryListener(), make(chan error, 1)
		go func() { done <- s.Serve(ln) }()
		shut(t, s)
		require.NoError(t, <-done)
	}
}

func TestIdleAndSilentConnectionsDoNotHoldUpAShutdown(t *testing.T) {
	s, done := newServer(hello), make(chan error, 1)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { done <- s.Serve(ln) }()
	silent, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer silent.Close()
	idle, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer idle.Close()
	require.Contains(t, ask(t, idle), "200 OK")
	shut(t, s)
	require.NoError(t, <-done)
	_, err = io.ReadAll(silent)
	require.NoError(t, err, "it is closed in good order")
}

func TestARequestUnderWayIsAnswered(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := newServer(func(ctx *fasthttp.RequestCtx) { close(entered); <-leave; hello(ctx) })
	ln, done, down, answered := fasthttputil.NewInmemoryListener(), make(chan error, 1), make(chan struct{}), make(chan string, 1)
	go func() { done <- s.Serve(ln) }()
	conn, err := ln.Dial()
	require.NoError(t, err)
	defer conn.Close()
	go func() { answered <- ask(t, conn) }()
	<-entered
	go func() { shut(t, s); close(down) }()
	require.NoError(t, <-done, "no new connection is taken")
	select {
	case <-down:
		t.Fatal("Shutdown did not wait")
	default:
	}
	close(leave)
	require.Contains(t, <-answered, "200 OK")
	<-down
}

func TestAShutdownIsBoundedByItsContext(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := newServer(func(*fasthttp.RequestCtx) { close(entered); <-leave })
	ln, done := fasthttputil.NewInmemoryListener(), make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	conn, err := ln.Dial()
	require.NoError(t, err)
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
	close(leave)
	require.NoError(t, <-done)
}
