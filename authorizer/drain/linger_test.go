package drain_test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/authorizer/drain"
)

// A peer that sends more than is read still gets the refusal, and the connection ends in good order.
func TestARefusalReachesAPeerThatStillSends(t *testing.T) {
	const body, rest = 1 << 20, 64 << 10
	s := drain.New(&fasthttp.Server{Handler: hello, MaxRequestBodySize: 1000, CloseOnShutdown: true,
		ErrorHandler: func(ctx *fasthttp.RequestCtx, err error) { ctx.Error("too much", 413) }})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	defer func() { shut(t, s); require.NoError(t, <-done) }()

	conn, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(within)))
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", body)
	require.NoError(t, err)
	_, err = conn.Write(make([]byte, body-rest))
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err, "no reset")
	require.Contains(t, string(answer), "HTTP/1.1 413")
	require.Contains(t, string(answer), "too much")
	_, err = conn.Write(make([]byte, rest))
	require.NoError(t, err, "the rest is still taken")
}
