package front

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"purser/authorizer/forwarded"
)

// handshakeBytes is the most that is read of a peer's part of a TLS handshake. A ClientHello with
// post-quantum keys has about 2 KiB; crypto/tls alone would gather 64 KiB of one.
const handshakeBytes = 16 << 10

// handshakeRecord is the type of a TLS record of the handshake, its first byte.
const handshakeRecord = 22

// farewellWithin is how long the close of a TLS connection may wait for room to write its last
// record. crypto/tls alone would wait five seconds for a peer that does not read.
const farewellWithin = 50 * time.Millisecond

// answerToHTTP is the answer to an HTTP request on a TLS port.
const answerToHTTP = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nthis port speaks TLS: ask by https\n"

var (
	errHandshakeLong = errors.New("the TLS handshake is too long")
	errOverPeer      = errors.New("the client has too many connections")
)

// preface is the part of a connection before HTTP: the head of the PROXY protocol and the TLS
// handshake. It is read by the connection's own goroutine at the first Read, under the deadline of
// the first byte of a request. Below TLS it stands between the socket and crypto/tls.
type preface struct {
	net.Conn // the socket
	of       *connection
	head     bool        // a head of the PROXY protocol comes first
	probe    bool        // a proxy has opened the connection for itself, as its health checks do
	left     int         // bytes that the handshake may still read
	answered bool        // the server has answered a TLS handshake that no refusal has counted yet
	over     bool        // HTTP has begun, and nothing is bounded
	closing  atomic.Bool // the connection is being closed
}

// NetConn returns the socket, as tls.Conn's method of this name does.
func (p *preface) NetConn() net.Conn { return p.Conn }

// Read implements net.Conn. It fails with errHandshakeLong when a handshake has more than
// handshakeBytes, and with the socket's error.
func (p *preface) Read(b []byte) (int, error) {
	if p.over {
		return p.readInTurn(b)
	}
	if p.left == 0 {
		return 0, errHandshakeLong
	}
	n, err := p.readInTurn(b[:min(len(b), p.left)])
	p.left -= n
	return n, err
}

// readInTurn takes a turn for the bytes that have arrived, so that the turn covers the work of TLS.
// It fails with the connection's error.
func (p *preface) readInTurn(b []byte) (int, error) {
	p.of.giveTurn()
	n, err := p.Conn.Read(b)
	p.of.takeTurn(n)
	return n, err
}

// Write implements net.Conn. It fails with the socket's error.
func (p *preface) Write(b []byte) (int, error) {
	if !p.over && b[0] == handshakeRecord {
		p.answered = true
	}
	p.of.giveTurn()
	return p.Conn.Write(b)
}

// SetWriteDeadline implements net.Conn. While the connection is closed, the deadline is
// farewellWithin from now. It fails with the socket's error.
func (p *preface) SetWriteDeadline(t time.Time) error {
	if p.closing.Load() {
		t = time.Now().Add(farewellWithin)
	}
	return p.Conn.SetWriteDeadline(t)
}

// expectPreface prepares a connection for what its server expects before HTTP.
func (c *connection) expectPreface() {
	o := &c.server.options
	head := o.ProxyProtocol && c.byProxy
	if !head && o.TLS == nil {
		return
	}
	c.preface = &preface{Conn: c.socket, of: c, head: head, left: handshakeBytes}
	if o.TLS != nil {
		c.security = tls.Server(c.preface, o.TLS)
		c.Conn = c.security
	}
}

// passPreface reads the preface. A fault ends the connection without an answer: its error is
// io.EOF, for which fasthttp writes nothing.
func (c *connection) passPreface() error {
	p := c.preface
	if p.head {
		p.head = false
		if err := c.readProxyHead(); err != nil {
			_ = c.socket.Close()
			return io.EOF
		}
	}
	if c.security != nil && c.shakeHands() != nil {
		_ = c.socket.Close()
		return io.EOF
	}
	p.over = true
	return nil
}

// readProxyHead makes the client that a PROXY head names the peer of the connection. It fails for a
// malformed head, and with errOverPeer when the client has too many connections.
func (c *connection) readProxyHead() error {
	client, err := forwarded.ReadProxyHead(c.socket)
	if err != nil {
		c.server.counters.noHead.Add(1)
		return err
	}
	if !client.IsValid() {
		c.preface.probe = true
		return nil
	}
	c.remote, c.byProxy = client, c.server.options.Proxies.Contains(client)
	if !c.byProxy && !c.server.pool.countPeer(c, PeerOf(client)) {
		c.isRefused = true
		return errOverPeer
	}
	return nil
}

// shakeHands runs the TLS handshake. A peer that speaks HTTP gets an answer that says so. It fails
// with the handshake's error.
func (c *connection) shakeHands() error {
	if err := c.limitWrite(); err != nil {
		return err
	}
	err := c.security.Handshake()
	if err == nil {
		return nil
	}
	if silent := c.preface.left == handshakeBytes; !silent || !c.preface.probe {
		c.server.counters.noHandshake.Add(1)
	}
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok && record.Conn != nil &&
		speaksHTTP(record.RecordHeader) {
		if _, err := io.WriteString(c.socket, answerToHTTP); err == nil {
			lingerOn(c.socket, c.preface, c.server.lingerFor)
		}
	}
	return err
}

// limitWrite gives a write that fasthttp does not see the server's write timeout. It fails when the
// connection is closed.
func (c *connection) limitWrite() error {
	within := c.server.http.WriteTimeout
	if within == 0 {
		return nil
	}
	return c.Conn.SetWriteDeadline(time.Now().Add(within))
}

// speaksHTTP reports whether the first bytes of a connection are those of an HTTP request.
func speaksHTTP(first [5]byte) bool {
	switch string(first[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
}
