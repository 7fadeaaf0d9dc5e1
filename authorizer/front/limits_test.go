package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

const patiently = time.Minute // far longer than anything here takes

// startServer starts a server on a port of its own.
func startServer(t *testing.T, o Options, handler fasthttp.RequestHandler) (s *Server, address string) {
	t.Helper()
	return startImpatient(t, time.Hour, o, handler)
}

// startImpatient starts a server with a read timeout.
func startImpatient(t *testing.T, reads time.Duration, o Options, handler fasthttp.RequestHandler) (s *Server, address string) {
	t.Helper()
	s = New(&fasthttp.Server{Handler: handler, CloseOnShutdown: true, ReadTimeout: reads, IdleTimeout: time.Hour,
		ReadBufferSize: 16 << 10, ErrorHandler: func(ctx *fasthttp.RequestCtx, err error) { ctx.Error("refused", 400) },
		DisablePreParseMultipartForm: true}, o)
	s.http.Logger, s.lingerFor = unheard{}, time.Millisecond
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patiently)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, <-done)
	})
	return s, ln.Addr().String()
}

// unheard drops what fasthttp says of connections that end.
type unheard struct{}

func (unheard) Printf(string, ...any) {}

func dialFrom(t *testing.T, from, address string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patiently)))
	return conn
}

func sendText(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

// statusOf reads an answer and returns its status, 0 when the connection ends without one.
func statusOf(t *testing.T, conn net.Conn) int {
	t.Helper()
	var resp fasthttp.Response
	if err := resp.Read(bufio.NewReader(conn)); err != nil {
		return 0
	}
	return resp.StatusCode()
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// failing is a listener whose accepts fail for a while.
type failing struct {
	net.Listener
	mu     sync.Mutex
	faults []error
}

func (f *failing) Accept() (net.Conn, error) {
	f.mu.Lock()
	if len(f.faults) > 0 {
		err := f.faults[0]
		f.faults = f.faults[1:]
		f.mu.Unlock()
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	f.mu.Unlock()
	return f.Listener.Accept()
}

// Exhaustion passes: accept waits, is counted, and continues. Before, Serve ended, and with it the
// process.
func TestServeOutlivesExhaustedDescriptors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := New(&fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}, CloseOnShutdown: true}, Options{})
	faults := []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}
	done := make(chan error, 1)
	go func() { done <- s.Serve(&failing{Listener: ln, faults: faults}) }()
	conn := dialFrom(t, "127.0.0.1", ln.Addr().String())
	sendText(t, conn, get)
	require.Equal(t, 200, statusOf(t, conn))
	require.EqualValues(t, len(faults), s.Counts().Waits)
	require.NoError(t, conn.Close())
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-done)
}

// A fault that does not pass ends Serve and is returned, so that its caller can open another
// listener for the same server.
func TestServeTellsAFaultOfItsListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := New(&fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}, CloseOnShutdown: true}, Options{})
	require.ErrorIs(t, s.Serve(&failing{Listener: ln, faults: []error{syscall.EBADF}}), syscall.EBADF)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	conn := dialFrom(t, "127.0.0.1", ln.Addr().String())
	sendText(t, conn, get)
	require.Equal(t, 200, statusOf(t, conn), "served again")
	require.NoError(t, conn.Close())
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-done)
}

// A shutdown does not wait for the pause of an exhausted accept.
func TestAShutdownEndsTheWaitForDescriptors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := New(&fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}}, Options{})
	faults := make([]error, 1000) // more than a minute of pauses
	for i := range faults {
		faults[i] = syscall.EMFILE
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(&failing{Listener: ln, faults: faults}) }()
	require.Eventually(t, func() bool { return s.Counts().Waits > 0 }, patiently, time.Millisecond)
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-done)
}

// PerPeer bounds the connections of one peer, and not those of a trusted proxy.
func TestOnePeerCannotTakeAllConnections(t *testing.T) {
	s, address := startServer(t, Options{Connections: 100, PerPeer: 2, Proxies: proxies(t, "127.0.0.9")},
		func(*fasthttp.RequestCtx) {})
	first := dialFrom(t, "127.0.0.2", address)
	dialFrom(t, "127.0.0.2", address)
	third := dialFrom(t, "127.0.0.2", address)
	require.Zero(t, statusOf(t, third), "refused")
	require.EqualValues(t, 1, s.Counts().OverPeer)
	for _, from := range []string{"127.0.0.3", "127.0.0.9", "127.0.0.9", "127.0.0.9"} {
		conn := dialFrom(t, from, address)
		sendText(t, conn, get)
		require.Equal(t, 200, statusOf(t, conn), from)
	}
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		conn := dialFrom(t, "127.0.0.2", address)
		_, _ = io.WriteString(conn, get)
		return statusOf(t, conn) == 200
	}, patiently, time.Millisecond, "a place that is free again is given away again")
}

func TestPeerOf(t *testing.T) {
	for address, peer := range map[string]string{"192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64"} {
		require.Equal(t, peer, PeerOf(netip.MustParseAddr(address)).String())
	}
	require.False(t, PeerOf(netip.Addr{}).IsValid())
}

// An authenticated connection does not count for its peer, and is not cut.
func TestAVouchedConnectionIsNotCounted(t *testing.T) {
	s, address := startServer(t, Options{Connections: 2, PerPeer: 1}, func(ctx *fasthttp.RequestCtx) { Vouch(ctx) })
	known := dialFrom(t, "127.0.0.2", address)
	sendText(t, known, get)
	require.Equal(t, 200, statusOf(t, known))
	silent := dialFrom(t, "127.0.0.2", address)
	require.Eventually(t, func() bool { return s.Counts().Open == 2 }, patiently, time.Millisecond)
	s.pool.endLongWaits(full)
	s.makeOlder(time.Hour)
	s.pool.endLongWaits(full)
	require.NotEqual(t, 200, statusOf(t, silent), "cut")
	sendText(t, known, get)
	require.Equal(t, 200, statusOf(t, known), "not cut")
}

// makeOlder makes the server's connections so much older.
func (s *Server) makeOlder(by time.Duration) {
	s.aged.Add(int64(by))
}

func TestPatienceShrinksAsThePoolFills(t *testing.T) {
	s := New(&fasthttp.Server{ReadTimeout: 15 * time.Second, IdleTimeout: 75 * time.Second}, Options{})
	require.Equal(t, 75*time.Second, s.patienceAt(0))
	require.Equal(t, 75*time.Second, s.patienceAt(calm))
	require.Equal(t, 38*time.Second, s.patienceAt(.75))
	require.Equal(t, leastPatience, s.patienceAt(full))
	require.Equal(t, leastPatience, s.patienceAt(2))
}

// A full pool cuts silent connections and slow heads and admits new ones. Running requests go on.
func TestAFullPoolMakesRoom(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s, address := startServer(t, Options{Connections: 3}, func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/long" {
			close(entered)
			<-leave
		}
	})
	running := dialFrom(t, "127.0.0.1", address)
	sendText(t, running, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
	<-entered
	silent, slow := dialFrom(t, "127.0.0.1", address), dialFrom(t, "127.0.0.1", address)
	sendText(t, slow, "GET / HTTP/1.1\r\nHost:")
	require.Eventually(t, func() bool { return s.Counts().Open == 3 && s.heardFrom() == 2 }, patiently,
		time.Millisecond)
	require.Zero(t, statusOf(t, dialFrom(t, "127.0.0.1", address)), "no place, and none waits too long yet")
	require.EqualValues(t, 1, s.Counts().OverFull)
	s.makeOlder(time.Hour)
	require.Eventually(t, func() bool {
		conn := dialFrom(t, "127.0.0.1", address)
		_, _ = io.WriteString(conn, get)
		return statusOf(t, conn) == 200
	}, patiently, time.Millisecond)
	require.NotEqual(t, 200, statusOf(t, silent))
	require.Equal(t, 400, statusOf(t, slow), "it is told so")
	require.EqualValues(t, 2, s.Counts().Cut)
	close(leave)
	require.Equal(t, 200, statusOf(t, running))
}

// heardFrom counts the connections that have sent a byte.
func (s *Server) heardFrom() (n int) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for c := range s.pool.open {
		if c.spoke.Load() {
			n++
		}
	}
	return n
}

// Heads that announce long bodies take no memory for them beyond the budget. While it is full, the
// longest waits for a body end, and their memory goes to others.
func TestAttackAnnouncedBodiesTakeNoMemory(t *testing.T) {
	const announced, connections = 1 << 20, 300
	budget := NewBudget(64 << 10)
	refused := make(chan error, connections)
	s, address := startServer(t, Options{Bodies: budget}, func(ctx *fasthttp.RequestCtx) {
		_, err := ReadBody(ctx, announced)
		refused <- err
	})
	var all []net.Conn
	for range connections {
		conn := dialFrom(t, "127.0.0.1", address)
		sendText(t, conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", announced))
		all = append(all, conn)
	}
	const places = 64 << 10 / firstBytes
	overBudget := 0
	for range connections - places {
		if err := <-refused; errors.Is(err, ErrBudget) {
			overBudget++
		} else {
			require.True(t, errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed), "%v", err)
		}
	}
	require.LessOrEqual(t, budget.Used(), budget.Max())
	require.Positive(t, overBudget)
	for _, conn := range all {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return budget.Used() == 0 && s.Counts().Open == 0 }, patiently,
		time.Millisecond,
		"all of it is given back")
}

// The memory of a body grows with the bytes that arrive, and not with Content-Length.
func TestABodyIsClaimedAsItComes(t *testing.T) {
	budget := NewBudget(1 << 20)
	body := make(chan []byte, 1)
	_, address := startServer(t, Options{Bodies: budget}, func(ctx *fasthttp.RequestCtx) {
		text, err := ReadBody(ctx, 512<<10)
		if err != nil {
			ctx.Error(err.Error(), 400)
		}
		body <- append([]byte{}, text...)
	})
	conn := dialFrom(t, "127.0.0.1", address)
	sendText(t, conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 300<<10))
	require.Eventually(t, func() bool { return budget.Used() == firstBytes }, patiently, time.Millisecond)
	sendText(t, conn, strings.Repeat("a", 10<<10))
	require.Eventually(t, func() bool { return budget.Used() >= 10<<10 }, patiently, time.Millisecond)
	require.Less(t, budget.Used(), int64(64<<10))
	sendText(t, conn, strings.Repeat("a", 290<<10))
	require.Equal(t, strings.Repeat("a", 300<<10), string(<-body))
	require.Equal(t, 200, statusOf(t, conn))
	require.Eventually(t, func() bool { return budget.Used() == 0 }, patiently, time.Millisecond)
}

// Bodies of every framing arrive whole, in packets of any size, and the next request follows them.
func TestBodiesAndWhatFollowsThem(t *testing.T) {
	_, address := startServer(t, Options{Bodies: NewBudget(1 << 20)}, func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/unread" {
			return
		}
		text, err := ReadBody(ctx, 100_000)
		if err != nil {
			ctx.Error(err.Error(), 413)
			return
		}
		again, err := ReadBody(ctx, 100_000)
		if err != nil || string(again) != string(text) || string(ctx.PostBody()) != string(text) {
			ctx.Error("not the same", 500)
			return
		}
		ctx.SetBody(text)
	})
	long := strings.Repeat("0123456789", 7_000)
	post := func(path, header, body string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + header + "\r\n" + body
	}
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	const chunked = "Transfer-Encoding: chunked\r\n"
	for name, c := range map[string]struct {
		text   string
		status int
		body   string
		goesOn bool
	}{
		"none":              {post("/", "", ""), 200, "", true},
		"empty":             {post("/", length(0), ""), 200, "", true},
		"short":             {post("/", length(3), "abc"), 200, "abc", true},
		"with empty lines":  {post("/", length(8), "\r\n\r\n\n\n\r\n"), 200, "\r\n\r\n\n\n\r\n", true},
		"long":              {post("/", length(len(long)), long), 200, long, true},
		"in chunks":         {post("/", chunked, "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"), 200, "abcde", true},
		"chunks, a trailer": {post("/", chunked, "3\r\nabc\r\n0\r\nX: y\r\n\r\n"), 200, "abc", true},
		"long chunk": {post("/", chunked, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(long), long)), 200, long,
			true},
		"unread":          {post("/unread", length(5), "abcde"), 200, "", true},
		"unread and long": {post("/unread", length(len(long)), long), 200, "", false},
		"unread chunks":   {post("/unread", chunked, "3\r\nabc\r\n0\r\n\r\n"), 200, "", false},
		"too long":        {post("/", length(100_001), strings.Repeat("x", 100_001)), 413, fasthttp.ErrBodyTooLarge.Error(), false},
		"a chunk too long": {post("/", chunked, "186a1\r\n"+strings.Repeat("x", 100_001)+"\r\n0\r\n\r\n"), 413, "",
			false},
		"no chunk":        {post("/", chunked, "xyz\r\n"), 413, "", false},
		"leading lines":   {"\r\n\r\n" + post("/", length(2), "ok"), 200, "ok", true},
		"bare line feeds": {"POST / HTTP/1.1\nHost: x\nContent-Length: 2\n\nok", 413, "", false},
	} {
		for _, piece := range []int{1 << 20, 4096, 7} {
			conn := dialFrom(t, "127.0.0.1", address)
			go func() {
				rest := c.text + post("/", length(4), "next")
				for len(rest) > 0 {
					n := min(piece, len(rest))
					if _, err := io.WriteString(conn, rest[:n]); err != nil {
						return
					}
					rest = rest[n:]
				}
			}()
			from := bufio.NewReader(conn)
			var resp fasthttp.Response
			require.NoError(t, resp.Read(from), name)
			require.Equal(t, c.status, resp.StatusCode(), "%s: %s", name, resp.Body())
			if c.body != "" {
				require.Equal(t, c.body, string(resp.Body()), name)
			}
			var next fasthttp.Response
			err := next.Read(from)
			if !c.goesOn {
				require.Error(t, err, name)
				continue
			}
			require.NoError(t, err, "%s in pieces of %d", name, piece)
			require.Equal(t, "next", string(next.Body()), name)
		}
	}
}

// 100 Continue is sent when the handler reads the body. A refusal is sent without it.
func TestContinueIsSentWhenTheBodyIsWanted(t *testing.T) {
	_, address := startServer(t, Options{Bodies: NewBudget(1 << 20)}, func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/no" {
			ctx.SetStatusCode(403)
			return
		}
		text, _ := ReadBody(ctx, 100)
		ctx.SetBody(text)
	})
	head := func(path string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
	}
	conn := dialFrom(t, "127.0.0.1", address)
	sendText(t, conn, head("/"))
	interim := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	_, err := io.ReadFull(conn, interim)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n\r\n", string(interim))
	sendText(t, conn, "ok")
	require.Equal(t, 200, statusOf(t, conn))
	conn = dialFrom(t, "127.0.0.1", address)
	sendText(t, conn, head("/no"))
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP/1.1 403")
	require.NotContains(t, string(answer), "100 Continue")
}

// A wait that is ended before fasthttp begins to read stays ended.
func TestAnEndedWaitStaysEnded(t *testing.T) {
	s, address := startServer(t, Options{Connections: 1}, func(*fasthttp.RequestCtx) {})
	conn := dialFrom(t, "127.0.0.1", address)
	require.Eventually(t, func() bool { return s.Counts().Open == 1 }, patiently, time.Millisecond)
	s.makeOlder(time.Hour)
	s.pool.endLongWaits(full)
	s.pool.mu.Lock()
	for c := range s.pool.open {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)), "as fasthttp does before a read")
	}
	s.pool.mu.Unlock()
	require.Equal(t, 400, statusOf(t, conn), "the read ends at once")
}
