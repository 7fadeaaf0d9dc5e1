package drain

import "github.com/valyala/fasthttp"

// turns bounds how many unauthenticated connections use a processor at once, so that a flood of a
// port leaves the other processors to authenticated callers and to the other ports. A connection takes a turn when bytes have
// arrived. It gives the turn back before it waits for anything: for its peer to send or to take
// bytes, or, after EndTurn, for whatever the handler waits for. So a turn lasts microseconds, and
// the connections that wait for one are parked in order.
type turns chan struct{}

// newTurns makes turns for so many connections at once; nil, which bounds nothing, for none.
func newTurns(atOnce int) turns {
	if atOnce == 0 {
		return nil
	}
	return make(turns, atOnce)
}

// EndTurn ends the bound that Options.AtOnce sets, for the rest of a request. A handler calls it
// when its checks of an unauthenticated caller are over, and before it waits for anything.
func EndTurn(ctx *fasthttp.RequestCtx) {
	if c, ok := ctx.Conn().(*connection); ok {
		c.giveTurn()
	}
}

// readInTurn reads from the listener's connection, and takes a turn for the bytes.
func (c *connection) readInTurn(b []byte) (int, error) {
	c.giveTurn()
	n, err := c.Conn.Read(b)
	c.takeTurn(n)
	return n, err
}

// takeTurn takes a turn for so many bytes, unless the connection is authenticated or has one: under
// TLS the turn is taken below, for the record.
func (c *connection) takeTurn(n int) {
	if n > 0 && c.server.turns != nil && !c.vouched.Load() && !c.hasTurn.Load() {
		c.server.turns <- struct{}{}
		c.hasTurn.Store(true)
	}
}

// inTurn is a connection as a reader.
type inTurn struct{ *connection }

func (i inTurn) Read(b []byte) (int, error) { return i.readInTurn(b) }

// giveTurn gives the turn back, if the connection has one.
func (c *connection) giveTurn() {
	if c.hasTurn.Load() && c.hasTurn.Swap(false) {
		<-c.server.turns
	}
}

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	c.giveTurn()
	return c.Conn.Write(b)
}
