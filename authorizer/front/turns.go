package front

import (
	"sync"

	"github.com/valyala/fasthttp"
)

// turns bounds how many unauthenticated connections use a processor at once, so that a flood of a
// port leaves the other processors to authenticated callers and to the other ports. A connection
// takes a turn when bytes have arrived. It gives the turn back before it waits for anything: for
// its peer to send or to take bytes, or, after EndTurn, for whatever the handler waits for. So a
// turn lasts microseconds. A free turn goes to the peers that wait in rounds, and to the
// connections of a peer in order: a flood from one address delays its own connections, and others
// by one turn.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting map[Peer][]chan<- struct{}
	round   []Peer // the peers that wait, the next one first
}

// newTurns makes turns for so many connections at once; nil, which bounds nothing, for none.
func newTurns(atOnce int) *turns {
	if atOnce == 0 {
		return nil
	}
	return &turns{free: atOnce, waiting: map[Peer][]chan<- struct{}{}}
}

// awaitTurn waits for a turn.
func (t *turns) awaitTurn(peer Peer) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return
	}
	granted := make(chan struct{}, 1)
	if t.waiting[peer] == nil {
		t.round = append(t.round, peer)
	}
	t.waiting[peer] = append(t.waiting[peer], granted)
	t.mu.Unlock()
	<-granted
}

// grantNext grants a turn to the next connection, if one waits.
func (t *turns) grantNext() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.round) == 0 {
		t.free++
		return
	}
	peer := t.round[0]
	t.round = t.round[1:]
	first := t.waiting[peer][0]
	if rest := t.waiting[peer][1:]; len(rest) == 0 {
		delete(t.waiting, peer)
	} else {
		t.waiting[peer], t.round = rest, append(t.round, peer)
	}
	first <- struct{}{}
}

// EndTurn ends the bound that Options.AtOnce sets, for the rest of a request.
func EndTurn(ctx *fasthttp.RequestCtx) {
	if c, ok := ctx.Conn().(*connection); ok {
		c.giveTurn()
	}
}

// readInTurn gives the turn back, reads from c.Conn, and takes a turn once bytes have arrived. It
// fails with the connection's error.
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
		c.server.turns.awaitTurn(PeerOf(c.remote))
		c.hasTurn.Store(true)
	}
}

// inTurn is a connection as a reader.
type inTurn struct{ *connection }

func (i inTurn) Read(b []byte) (int, error) { return i.readInTurn(b) }

// giveTurn gives the turn back, if the connection has one.
func (c *connection) giveTurn() {
	if c.hasTurn.Load() && c.hasTurn.Swap(false) {
		c.server.turns.grantNext()
	}
}

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	c.giveTurn()
	return c.Conn.Write(b)
}
