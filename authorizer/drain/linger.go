package drain

import (
	"io"
	"time"
)

// Limits of what is read after a refusal.
const (
	lingerBytes = 2 << 20
	lingerTime  = 500 * time.Millisecond
)

// linger lets the peer read the refusal that was just written. To close with bytes unread would
// reset the connection, and a reset takes the answer away from a peer that still sends. So the
// answer is ended, and what still comes is thrown away for a while.
func (c *connection) linger() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.Conn.SetReadDeadline(time.Now().Add(c.server.lingerFor)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, inTurn{c}, lingerBytes)
	c.giveTurn()
}
