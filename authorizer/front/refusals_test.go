package front

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// startRefusing starts a server that refuses every request but those of /vouch and /prove.
func startRefusing(t *testing.T, perSecond int) (s *Server, address string) {
	t.Helper()
	return startServer(t, Options{Refusals: perSecond}, func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/vouch" {
			Vouch(ctx)
			return
		}
		if string(ctx.Path()) == "/prove" {
			Prove(ctx)
			return
		}
		ctx.Error("refused", fasthttp.StatusUnauthorized)
		CountRefusal(ctx)
	})
}

// burst is how many refusals a peer may cause at once when it may cause one a second.
const burst = int(refusalBurst / time.Second)

// A peer keeps its connection for half a bucket of refusals. For the other half each refusal ends
// its connection. Then its new connections are closed until its bucket leaks. Other peers are
// answered.
func TestAPeerOfTooManyRefusalsIsClosedAtOnce(t *testing.T) {
	s, address := startRefusing(t, 1)
	flood := dialFrom(t, "127.0.0.2", address)
	for n := range burst {
		sendText(t, flood, get)
		require.Equal(t, fasthttp.StatusUnauthorized, readStatus(t, flood))
		if n >= burst/2 {
			require.Zero(t, statusOf(t, flood), "the answer ended the connection")
			flood = dialFrom(t, "127.0.0.2", address)
		}
	}
	require.Zero(t, statusOf(t, dialFrom(t, "127.0.0.2", address)))
	require.EqualValues(t, 2, s.Counts().OverRefused)

	other := dialFrom(t, "127.0.0.3", address)
	sendText(t, other, get)
	require.Equal(t, fasthttp.StatusUnauthorized, readStatus(t, other))

	s.aged.Add(int64(2 * time.Second))
	again := dialFrom(t, "127.0.0.2", address)
	sendText(t, again, get)
	require.Equal(t, fasthttp.StatusUnauthorized, readStatus(t, again))
}

// A peer with one authenticated request is answered for a day, whatever else comes from its
// address.
func TestThePeerOfAnAuthenticatedRequestIsNotClosed(t *testing.T) {
	_, address := startRefusing(t, 1)
	conn := dialFrom(t, "127.0.0.2", address)
	sendText(t, conn, strings.Replace(get, "/ ", "/prove ", 1))
	require.Equal(t, fasthttp.StatusOK, readStatus(t, conn))
	for range 3 * burst {
		sendText(t, conn, get)
		require.Equal(t, fasthttp.StatusUnauthorized, readStatus(t, conn))
	}
}

// A peer that has authenticated is answered, whatever else comes from its address, until a day
// after its last authenticated connection has ended.
func TestThePeerOfAnAuthenticatedConnectionIsNotClosed(t *testing.T) {
	s, address := startRefusing(t, 1)
	refuse := func(times int) {
		for range times {
			conn := dialFrom(t, "127.0.0.2", address)
			sendText(t, conn, get)
			require.Equal(t, fasthttp.StatusUnauthorized, readStatus(t, conn))
			require.NoError(t, conn.Close())
		}
	}
	known := dialFrom(t, "127.0.0.2", address)
	sendText(t, known, "GET /vouch HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, fasthttp.StatusOK, readStatus(t, known))
	refuse(2 * burst)

	s.aged.Add(int64(provenFor))
	require.NoError(t, known.Close())
	require.Eventually(t, func() bool { return s.Counts().Open == 0 }, patiently, time.Millisecond)
	refuse(2 * burst)

	s.aged.Add(int64(provenFor + time.Second))
	refuse(burst)
	require.Zero(t, statusOf(t, dialFrom(t, "127.0.0.2", address)))
}

// A connection that ends without a request, and one whose bytes are no request, count as refusals.
func TestAConnectionWithoutARequestIsARefusal(t *testing.T) {
	for _, text := range []string{"", "no request\r\n\r\n"} {
		s, address := startRefusing(t, 1)
		for range burst {
			conn := dialFrom(t, "127.0.0.2", address)
			sendText(t, conn, text)
			require.NoError(t, conn.Close())
		}
		require.Eventually(t, func() bool { return s.refusals.areTooMany(PeerOf(netip.MustParseAddr("127.0.0.2"))) },
			patiently, time.Millisecond)
		require.Zero(t, statusOf(t, dialFrom(t, "127.0.0.2", address)))
	}
}

// A client that a PROXY head names is answered again as soon as its bucket has leaked, however
// often it tries meanwhile: a connection that is closed for the bucket does not fill it.
func TestAClientOfAProxyIsNotCountedWhileItIsClosed(t *testing.T) {
	s, address := startServer(t, Options{Refusals: 1, Proxies: proxies(t, "127.0.0.9"), ProxyProtocol: true},
		func(ctx *fasthttp.RequestCtx) {
			ctx.Error("refused", fasthttp.StatusUnauthorized)
			CountRefusal(ctx)
		})
	try := func() int {
		conn := dialFrom(t, "127.0.0.9", address)
		sendText(t, conn, string(headV2("192.0.2.1"))+get)
		status := statusOf(t, conn)
		require.NoError(t, conn.Close())
		return status
	}
	for range burst {
		require.Equal(t, fasthttp.StatusUnauthorized, try())
	}
	answered := 0
	for range burst {
		s.aged.Add(int64(time.Second / 2))
		if try() != 0 {
			answered++
		}
		require.Eventually(t, func() bool { return s.Counts().Open == 0 }, patiently, time.Millisecond)
	}
	require.InDelta(t, burst/2, answered, 1, "one is answered for each second")
}

// A request counts once: a malformed one is counted by its handler and by the server.
func TestARequestCountsOnce(t *testing.T) {
	s := New(&fasthttp.Server{ErrorHandler: func(ctx *fasthttp.RequestCtx, _ error) {
		ctx.Error("refused", fasthttp.StatusBadRequest)
		CountRefusal(ctx)
	}}, Options{Refusals: 1})
	c := s.wrapConn(silentConn{})
	peer := PeerOf(netip.MustParseAddr("192.0.2.1"))
	for n := range burst {
		require.False(t, s.refusals.areTooMany(peer), n)
		var ctx fasthttp.RequestCtx
		ctx.Init2(c, unheard{}, true)
		s.http.ErrorHandler(&ctx, io.ErrUnexpectedEOF)
	}
	require.True(t, s.refusals.areTooMany(peer))
}

// silentConn is a connection from 192.0.2.1.
type silentConn struct{ net.Conn }

func (silentConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
func (silentConn) LocalAddr() net.Addr  { return &net.TCPAddr{} }

// A body that finds no memory counts as a refusal, whatever its handler answers.
func TestABodyWithoutMemoryIsARefusal(t *testing.T) {
	s, address := startServer(t, Options{Refusals: 1, Bodies: NewBudget(1)}, func(ctx *fasthttp.RequestCtx) {
		_, err := ReadBody(ctx, 100)
		assert.ErrorIs(t, err, ErrBudget)
	})
	for range burst {
		conn := dialFrom(t, "127.0.0.2", address)
		sendText(t, conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")
		require.Equal(t, fasthttp.StatusOK, readStatus(t, conn))
	}
	require.True(t, s.refusals.areTooMany(PeerOf(netip.MustParseAddr("127.0.0.2"))))
}

// The refusals of at most maxRefusedPeers are counted. An empty bucket makes room for another peer.
func TestRefusalsOfTooManyPeersAreNotCounted(t *testing.T) {
	now := int64(1)
	r := newRefusals(1, func() int64 { return now })
	peer := func(n int) Peer {
		return PeerOf(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(n)))))
	}
	for n := range maxRefusedPeers {
		require.False(t, r.count(peer(n), 1))
	}
	for range burst + 1 {
		require.False(t, r.count(peer(maxRefusedPeers), 1))
	}
	require.Len(t, r.emptyAt, maxRefusedPeers)
	now += int64(sweepEvery)
	for range burst / 2 {
		require.False(t, r.count(peer(maxRefusedPeers), 1))
	}
	require.True(t, r.count(peer(maxRefusedPeers), 1))
	require.Len(t, r.emptyAt, 1)
}

// Each pipelined request takes a turn.
func TestAPipelinedRequestTakesATurn(t *testing.T) {
	for _, o := range []Options{{AtOnce: 1}, {AtOnce: 1, Bodies: NewBudget(1 << 20)}} {
		var s *Server
		var address string
		var free []int
		s, address = startServer(t, o, func(ctx *fasthttp.RequestCtx) {
			free = append(free, s.turns.freeTurns())
			EndTurn(ctx)
		})
		conn := dialFrom(t, "127.0.0.1", address)
		sendText(t, conn, strings.Repeat(get, 3))
		answers := bufio.NewReader(conn)
		for range 3 {
			var answer fasthttp.Response
			require.NoError(t, answer.Read(answers))
		}
		require.Equal(t, []int{0, 0, 0}, free)
	}
}

// A TLS handshake counts for several refusals, because the server has signed for it: when it is
// abandoned, when no request follows it, and once when the requests after it are refused. One that
// the server has not answered counts as a connection without a request does.
func TestAHandshakeCountsForSeveralRefusals(t *testing.T) {
	const perSecond = 4
	serverTLS, clientTLS := tlsPair(t)
	hello := func(conn net.Conn) *tls.Conn { return tls.Client(conn, clientTLS) }
	for name, c := range map[string]struct {
		peer  string
		spend func(conn net.Conn)
		cost  int
	}{
		"whole": {"127.0.0.2", func(conn net.Conn) { require.NoError(t, hello(conn).Handshake()) }, 1 + handshakeCost},
		"abandoned": {"127.0.0.3", func(conn net.Conn) {
			config := clientTLS.Clone()
			config.RootCAs = x509.NewCertPool()
			require.Error(t, tls.Client(conn, config).Handshake())
		}, 1 + handshakeCost},
		"refused requests": {"127.0.0.4", func(conn net.Conn) {
			secure := hello(conn)
			for range 2 {
				sendText(t, secure, get)
				require.Equal(t, fasthttp.StatusUnauthorized, readStatus(t, secure))
			}
		}, 2 + handshakeCost},
		"half a hello": {"127.0.0.5", func(conn net.Conn) { sendText(t, conn, helloBegins(500)) }, 1},
		"garbage":      {"127.0.0.6", func(conn net.Conn) { sendText(t, conn, strings.Repeat("x", 100)) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, address := startServer(t, Options{Refusals: perSecond, TLS: serverTLS}, func(ctx *fasthttp.RequestCtx) {
				ctx.Error("refused", fasthttp.StatusUnauthorized)
				CountRefusal(ctx)
			})
			standing := s.sinceEpoch()
			s.refusals.mu.Lock()
			s.refusals.now = func() int64 { return standing }
			s.refusals.mu.Unlock()
			conn := dialFrom(t, c.peer, address)
			c.spend(conn)
			require.NoError(t, conn.Close())
			require.Eventually(t, func() bool { return s.Counts().Accepted == 1 && s.Counts().Open == 0 }, patiently,
				time.Millisecond)
			peer := PeerOf(netip.MustParseAddr(c.peer))
			s.refusals.mu.Lock()
			defer s.refusals.mu.Unlock()
			require.EqualValues(t, c.cost*int(time.Second)/perSecond, s.refusals.emptyAt[peer]-standing)
		})
	}
}

// Connections without a request yet fill the bucket too: one with room for n more refusals lets in
// n at once. A request makes room again.
func TestConnectionsBeforeTheirRequestFillTheBucket(t *testing.T) {
	s, address := startRefusing(t, 1)
	var open []net.Conn
	for range burst {
		open = append(open, dialFrom(t, "127.0.0.2", address))
	}
	require.Eventually(t, func() bool { return s.Counts().Open == burst }, patiently, time.Millisecond)
	require.Zero(t, statusOf(t, dialFrom(t, "127.0.0.2", address)))
	require.EqualValues(t, 1, s.Counts().OverRefused)

	for _, conn := range open[:2] {
		sendText(t, conn, "GET /vouch HTTP/1.1\r\nHost: x\r\n\r\n")
		require.Equal(t, fasthttp.StatusOK, readStatus(t, conn))
	}
	again := dialFrom(t, "127.0.0.2", address)
	sendText(t, again, get)
	require.Equal(t, fasthttp.StatusUnauthorized, readStatus(t, again))
}
