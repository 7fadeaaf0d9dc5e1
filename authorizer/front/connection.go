package front

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// pieceBytes is the largest read from a connection whose bodies are withheld from fasthttp. A read
// of a head can bring at most this much of the body with it.
const pieceBytes = 4 << 10

// connection is a connection of a server. Its reads and its handler run in one goroutine;
// waitsSince, spoke and vouched are read by others.
type connection struct {
	net.Conn          // HTTP is read from it: the socket, or TLS over it
	socket   net.Conn // of the listener; other goroutines close it, which never waits
	server   *Server
	peer     Peer       // under the pool's lock; the zero Peer counts for none
	counted  bool       // it uses a descriptor, and is in the pool
	remote   netip.Addr // the other end, or the client that a PROXY head names
	byProxy  bool       // remote is a trusted proxy
	preface  *preface   // precedes HTTP; nil on a plain connection without a PROXY head
	security *tls.Conn  // nil: plain

	waitsSince  atomic.Int64 // since when it waits for its peer, by Server.sinceEpoch; 0 while a handler runs
	spoke       atomic.Bool  // it has sent a byte
	vouched     atomic.Bool  // set by Vouch
	wasCut      atomic.Bool  // its wait was ended early
	idle        bool         // it is between requests
	hasTurn     atomic.Bool  // it has one of Server.turns
	unread      atomic.Bool  // a request was refused before it was read: linger at the close
	asked       bool         // it has sent a request
	isRefused   bool         // the limits of the client that its PROXY head names refused it
	expected    Peer         // the peer whose bucket waits for its first request; the zero Peer for none
	refused     bool         // its request is counted as a refusal
	overRefused bool         // its last counted refusal ends it

	// With bodies withheld.
	ahead []byte // bytes that were read behind the head of a request
	line  lineState
	skip  int64 // bytes of an unread body in front of the next request
	body  body
}

// wrapConn makes a connection of the server.
func (s *Server) wrapConn(conn net.Conn) *connection {
	c := &connection{Conn: conn, socket: conn, server: s, idle: true}
	switch conn.RemoteAddr().Network() {
	case "tcp", "unix":
		c.counted = true
	}
	c.remote = addressOf(conn.RemoteAddr())
	if c.byProxy = s.options.Proxies.Contains(c.remote); !c.byProxy {
		c.peer = PeerOf(c.remote)
	}
	if c.counted {
		c.expectPreface()
	}
	c.waitsSince.Store(s.sinceEpoch())
	return c
}

// NetConn returns the listener's connection, as tls.Conn's method of this name does.
func (c *connection) NetConn() net.Conn { return c.Conn }

// Vouch marks the connection of a request as authenticated. The connection no longer counts against
// PerPeer, a filling pool does not cut it, and it takes no turns. Its peer's refusals are no longer
// counted.
func Vouch(ctx *fasthttp.RequestCtx) {
	if c, ok := ctx.Conn().(*connection); ok && !c.vouched.Load() {
		c.vouched.Store(true)
		c.giveTurn()
		c.server.pool.uncountPeer(c)
		c.noteProven()
	}
}

// Prove notes the peer of a request as authenticated: for provenFor its refusals are not counted.
// Its connections keep their other limits and take turns, because others can send over them.
func Prove(ctx *fasthttp.RequestCtx) {
	if c, ok := ctx.Conn().(*connection); ok {
		c.noteProven()
	}
}

// beginRequest is called before the handler, when the head has been read.
func (c *connection) beginRequest(ctx *fasthttp.RequestCtx) {
	c.waitsSince.Store(0)
	c.wasCut.Store(false)
	c.noteRequest()
	c.takeTurn(1) // a pipelined request has none yet
	if c.server.options.Bodies != nil {
		c.body.readFraming(ctx)
	}
}

// endRequest is called after the handler. The connection then waits for its peer to take the answer
// and to send the next request.
func (c *connection) endRequest(ctx *fasthttp.RequestCtx) {
	if c.server.options.Bodies != nil {
		c.endBody(ctx)
	}
	c.idle = true
	c.waitsSince.Store(c.server.sinceEpoch())
}

// endWait ends the wait of a connection. A peer in the middle of a request still gets its answer.
func (c *connection) endWait() {
	if c.wasCut.Swap(true) {
		_ = c.socket.Close() // the deadline did not end it
		return
	}
	c.server.counters.cut.Add(1)
	if c.socket.SetReadDeadline(longAgo) != nil || c.socket.SetWriteDeadline(time.Now().Add(leastPatience)) != nil {
		_ = c.socket.Close()
	}
}

// longAgo is a deadline that ends a read at once.
var longAgo = time.Unix(1, 0)

// SetReadDeadline implements net.Conn. A wait that was ended stays so, though fasthttp sets the
// deadline of a read that it begins later. It fails when the connection is closed. fasthttp calls
// it.
func (c *connection) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if err == nil && c.wasCut.Load() {
		err = c.Conn.SetReadDeadline(longAgo)
	}
	return err
}

// Read implements net.Conn. With bodies withheld it returns at most up to the end of a request's
// head, so that fasthttp's buffer never holds a byte of a body. It fails with the connection's
// error, and when the TLS handshake or the PROXY head fails. fasthttp calls it.
func (c *connection) Read(b []byte) (n int, err error) {
	if c.preface != nil && !c.preface.over {
		if err := c.passPreface(); err != nil {
			return 0, err
		}
	}
	if c.server.options.Bodies == nil {
		n, err = c.readInTurn(b)
		c.noteArrival(n)
		return n, err
	}
	for c.skip > 0 {
		if err := c.skipSome(); err != nil {
			return 0, err
		}
	}
	if len(b) == 0 {
		return 0, nil
	}
	if len(c.ahead) > 0 {
		n = c.headLength(b[:copy(b, c.ahead)])
		c.dropAhead(n)
		c.noteArrival(n)
		return n, nil
	}
	for n == 0 && err == nil { // a pipe in memory may read zero bytes
		n, err = c.readInTurn(b[:min(len(b), pieceBytes)])
	}
	c.noteArrival(n)
	head := c.headLength(b[:n])
	if head < n {
		c.ahead = append(c.ahead, b[head:n]...)
	}
	return head, err
}

// State of the line that is being read, as far as needed to know whether it is empty: fasthttp ends a
// head at "\n" or "\r\n" alone.
type lineState uint8

const (
	lineBegins lineState = iota
	lineReturn           // "\r" and nothing else
	lineText
)

// headLength returns how many of the bytes belong to the head of a request: all up to its empty
// line, or all of them without one. A stop at an empty line in front of a head costs one more read.
// No byte of a body is taken for a head.
func (c *connection) headLength(b []byte) int {
	for i, char := range b {
		switch {
		case char != '\n' && char == '\r' && c.line == lineBegins:
			c.line = lineReturn
		case char != '\n':
			c.line = lineText
		case c.line == lineText:
			c.line = lineBegins
		default:
			c.line = lineBegins
			return i + 1
		}
	}
	return len(b)
}

// dropAhead removes bytes from the front of ahead.
func (c *connection) dropAhead(n int) {
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.ahead = nil
	}
}

// readOn reads the next bytes, of a head or of a body. It fails with the connection's error.
func (c *connection) readOn(b []byte) (n int, err error) {
	if len(c.ahead) > 0 {
		n = copy(b, c.ahead)
		c.dropAhead(n)
		return n, nil
	}
	return c.readInTurn(b)
}

// skipSome discards at most pieceBytes of an unread body. It fails with the connection's error.
func (c *connection) skipSome() error {
	var piece [pieceBytes]byte
	n, err := c.readOn(piece[:min(c.skip, pieceBytes)])
	c.skip -= int64(n)
	return err
}

// noteArrival notes that the peer has sent bytes.
func (c *connection) noteArrival(n int) {
	if n == 0 {
		return
	}
	if !c.spoke.Load() {
		c.spoke.Store(true)
	}
	if c.idle {
		c.idle = false
		c.waitsSince.Store(c.server.sinceEpoch())
	}
}

// Close implements net.Conn. The connection counts until its socket is closed, because it has its
// descriptor until then. fasthttp calls it. It fails with the socket's error.
func (c *connection) Close() error {
	defer c.server.pool.removeConnection(c)
	c.giveTurn()
	c.endExpectation()
	if c.vouched.Load() {
		c.noteProven()
	} else if !c.asked && !c.isRefused {
		c.countRefusal()
	}
	if c.preface != nil {
		c.preface.closing.Store(true)
	}
	if c.unread.Swap(false) && !c.overRefused && c.server.pool.hasRoomToLinger() {
		c.linger()
	}
	return c.Conn.Close()
}
