package front

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// refusing starts a server that refuses bodies longer than a kilobyte, and lingers for lingerFor.
func refusing(t *testing.T, lingerFor time.Duration) (address string) {
	_, address = refusingWith(t, lingerFor, Options{})
	return address
}

func refusingWith(t *testing.T, lingerFor time.Duration, o Options) (s *Server, address string) {
	s = New(&fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}, MaxRequestBodySize: 1000, CloseOnShutdown: true,
		ErrorHandler: func(ctx *fasthttp.RequestCtx, err error) { ctx.Error("too much", 413) }}, o)
	s.lingerFor = lingerFor
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown(context.Background()))
		require.NoError(t, <-done)
	})
	return s, ln.Addr().String()
}

// begin sends the head of a request with a body of the given length.
func begin(t *testing.T, address string, body int) net.Conn {
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // before the shutdown, which waits for it
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", body)
	require.NoError(t, err)
	return conn
}

// A peer that sends more than the server reads still gets the refusal, and the connection closes
// without a reset.
func TestARefusalReachesAPeerThatStillSends(t *testing.T) {
	const body, rest = 1 << 20, 64 << 10
	conn := begin(t, refusing(t, time.Hour), body)
	_, err := conn.Write(make([]byte, body-rest))
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err, "no reset")
	require.Contains(t, string(answer), "HTTP/1.1 413")
	require.Contains(t, string(answer), "too much")
	_, err = conn.Write(make([]byte, rest))
	require.NoError(t, err, "the rest is still taken")
}

// The server does not read an endless peer for ever: the shutdown, which waits for its connection,
// ends.
func TestLingeringEnds(t *testing.T) {
	address := refusing(t, time.Millisecond)
	conn := begin(t, address, 1<<20)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP/1.1 413")
	require.Eventually(t, func() bool { _, err := conn.Write([]byte("x")); return err != nil }, time.Minute,
		time.Millisecond)
}

// Refused connections that linger count as open. They leave half of the pool free: one more refusal
// closes its connection at once.
func TestLingeringConnectionsCountAndLeaveHalfOfThePool(t *testing.T) {
	const most = 8
	s, address := refusingWith(t, time.Hour, Options{Connections: most})
	open := func() int { return s.Counts().Open }
	for i := range most / 2 {
		conn := begin(t, address, 1<<20)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(answer), "HTTP/1.1 413")
		require.Equal(t, i+1, open())
	}
	for range most {
		conn := begin(t, address, 1<<20)
		_, _ = io.ReadAll(conn) // a reset may discard the answer
		require.Eventually(t, func() bool { return open() == most/2 }, time.Minute, time.Millisecond)
	}
}
