package front

import (
	"io"
	"net"
	"time"
)

// Limits of reading after a refusal.
const (
	lingerBytes = 2 << 20
	lingerTime  = 500 * time.Millisecond
)

// linger lets the peer read the refusal that was just written. To close with bytes unread would
// reset the connection, and a reset takes the answer away from a peer that still sends. So the
// answer is ended, and what still comes is thrown away for a while. A filling pool ends the wait
// like any other.
func (c *connection) linger() {
	c.waitsSince.Store(c.server.sinceEpoch())
	lingerOn(c.Conn, inTurn{c}, c.server.lingerFor)
	c.giveTurn()
}

// lingerOn ends the answer on a connection, and discards the bytes that it reads for a while.
func lingerOn(conn net.Conn, from io.Reader, within time.Duration) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || conn.SetReadDeadline(time.Now().Add(within)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, from, lingerBytes)
}
