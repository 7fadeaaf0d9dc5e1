package front

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// Handlers that have not ended their turn run so many at a time, and all of them run.
func TestStrangersTakeTurns(t *testing.T) {
	const requests, atOnce, others = 16, 2, 20_000
	var running, most atomic.Int64
	_, address := startServer(t, Options{AtOnce: atOnce, Bodies: NewBudget(1 << 20)}, func(*fasthttp.RequestCtx) {
		now := running.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		for range others {
			runtime.Gosched() // every other connection gets the processor meanwhile
		}
		running.Add(-1)
	})
	var open []net.Conn
	for range requests {
		conn := dialFrom(t, "127.0.0.1", address)
		sendText(t, conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		open = append(open, conn)
	}
	for _, conn := range open {
		require.Equal(t, fasthttp.StatusOK, readStatus(t, conn))
	}
	require.EqualValues(t, atOnce, most.Load())
}

// No connection keeps its turn while it waits: for the rest of a head or a body, for a peer
// that takes no answer, or for what the handler waits for after EndTurn.
func TestATurnIsNotKeptWhileWaiting(t *testing.T) {
	release, waits := make(chan struct{}), make(chan struct{})
	large := strings.Repeat("x", 16<<20) // more than the buffers of a connection hold
	s, address := startServer(t, Options{AtOnce: 1, Bodies: NewBudget(1 << 20)}, func(ctx *fasthttp.RequestCtx) {
		switch string(ctx.Path()) {
		case "/body":
			if _, err := ReadBody(ctx, 100); err != nil {
				ctx.Error(err.Error(), 400)
			}
		case "/large":
			ctx.SetBodyString(large)
		case "/wait":
			EndTurn(ctx)
			waits <- struct{}{}
			<-release
		}
	})
	defer close(release)
	head := "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
	for _, text := range []string{"", "GET / HT", head, head + "12345", "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"} {
		sendText(t, dialFrom(t, "127.0.0.1", address), text)
	}
	sendText(t, dialFrom(t, "127.0.0.1", address), "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
	<-waits
	conn := dialFrom(t, "127.0.0.1", address)
	sendText(t, conn, head+"1234567890")
	require.Equal(t, fasthttp.StatusOK, readStatus(t, conn))
	require.Eventually(t, func() bool { return s.turns.freeTurns() == 1 }, patiently, time.Millisecond)
}

// An authenticated connection takes no turn, so that no flood delays it.
func TestAVouchedConnectionTakesNoTurn(t *testing.T) {
	release, waits := make(chan struct{}), make(chan struct{})
	s, address := startServer(t, Options{AtOnce: 1}, func(ctx *fasthttp.RequestCtx) {
		switch string(ctx.Path()) {
		case "/vouch":
			Vouch(ctx)
		case "/keep":
			waits <- struct{}{}
			<-release
		}
	})
	known := dialFrom(t, "127.0.0.1", address)
	sendText(t, known, "GET /vouch HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, fasthttp.StatusOK, readStatus(t, known))
	sendText(t, dialFrom(t, "127.0.0.1", address), "GET /keep HTTP/1.1\r\nHost: x\r\n\r\n")
	<-waits
	require.Zero(t, s.turns.freeTurns())
	sendText(t, known, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, fasthttp.StatusOK, readStatus(t, known))
	close(release)
}

// The connections of one peer do not delay those of another by more than a turn.
func TestTurnsGoToPeersInRounds(t *testing.T) {
	turn := newTurns(1)
	crowd, lone := PeerOf(netip.MustParseAddr("192.0.2.1")), PeerOf(netip.MustParseAddr("192.0.2.2"))
	turn.awaitTurn(crowd)
	var order []Peer
	var waiting sync.WaitGroup
	wait := func(peer Peer, already int) {
		waiting.Go(func() {
			turn.awaitTurn(peer)
			order = append(order, peer) // under the turn
			turn.grantNext()
		})
		require.Eventually(t, func() bool { return turn.waitingCount() == already+1 }, patiently, time.Millisecond)
	}
	for i := range 4 {
		wait(crowd, i)
	}
	wait(lone, 4)
	turn.grantNext()
	waiting.Wait()
	require.Equal(t, []Peer{crowd, lone, crowd, crowd, crowd}, order)
	require.Equal(t, 1, turn.freeTurns())
	require.Empty(t, turn.waiting)
}

func (t *turns) freeTurns() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.free
}

func (t *turns) waitingCount() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, connections := range t.waiting {
		n += len(connections)
	}
	return n
}

func readStatus(t *testing.T, conn net.Conn) int {
	t.Helper()
	var answer fasthttp.Response
	require.NoError(t, answer.Read(bufio.NewReader(conn)))
	return answer.StatusCode()
}

// TLS handshakes take turns too, and a half-open one keeps none.
func TestHandshakesTakeTurns(t *testing.T) {
	const handshakes, atOnce, others = 16, 2, 20_000
	serverTLS, clientTLS := tlsPair(t)
	var running, most atomic.Int64
	pair := serverTLS.Certificates[0]
	serverTLS.Certificates = nil
	serverTLS.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		now := running.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		for range others {
			runtime.Gosched()
		}
		running.Add(-1)
		return &pair, nil
	}
	s, address := startServer(t, Options{AtOnce: atOnce, TLS: serverTLS, Bodies: NewBudget(1 << 20)}, tellClient)
	done := make(chan error, handshakes)
	for range handshakes {
		sendText(t, dialFrom(t, "127.0.0.1", address), helloBegins(2_000))
		conn := tls.Client(dialFrom(t, "127.0.0.1", address), clientTLS)
		go func() { done <- conn.Handshake() }()
	}
	for range handshakes {
		require.NoError(t, <-done)
	}
	require.LessOrEqual(t, most.Load(), int64(atOnce))
	require.Eventually(t, func() bool { return s.turns.freeTurns() == atOnce }, patiently, time.Millisecond)
}
