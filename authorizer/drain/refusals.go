package drain

import (
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Limits of what is remembered of refusals.
const (
	refusalsAtOnce = 10 * time.Second // a peer may cause the refusals of so long a time at once
	maxRefused     = 65_536           // peers; the refusals of more are not counted
	sweepEvery     = time.Second      // between two looks for peers to forget
)

// refusals counts the refused requests of each unauthenticated peer, and the connections that ended
// without a request. A refusal costs more than the closing of a connection, so a peer that causes
// them faster than Options.Refusals has its new connections closed as they are accepted, until it
// has been quiet for long enough. A flood from one address then costs little.
type refusals struct {
	every  time.Duration // between two refusals at the allowed rate; 0 counts nothing
	now    func() int64  // Server.sinceEpoch
	mu     sync.Mutex
	counts map[Peer]int64 // when the last refusal of a peer is forgotten, at the allowed rate
	swept  int64          // when forgotten peers were last removed
}

func newRefusals(perSecond int, now func() int64) *refusals {
	r := &refusals{now: now, counts: map[Peer]int64{}}
	if perSecond > 0 {
		r.every = time.Second / time.Duration(perSecond)
	}
	return r
}

// countOne counts a refusal, and reports whether the peer has caused too many.
func (r *refusals) countOne(peer Peer) bool {
	if r.every == 0 || !peer.IsValid() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	until, there := r.counts[peer]
	if !there && !r.makeRoom(now) {
		return false
	}
	r.counts[peer] = min(max(until, now)+int64(r.every), now+int64(refusalsAtOnce+r.every))
	return r.counts[peer]-now > int64(refusalsAtOnce)
}

// makeRoom reports whether another peer can be remembered.
func (r *refusals) makeRoom(now int64) bool {
	if len(r.counts) < maxRefused {
		return true
	}
	if now-r.swept < int64(sweepEvery) {
		return false
	}
	r.swept = now
	for peer, until := range r.counts {
		if until <= now {
			delete(r.counts, peer)
		}
	}
	return len(r.counts) < maxRefused
}

// areTooMany reports whether a peer has caused as many refusals as it may.
func (r *refusals) areTooMany(peer Peer) bool {
	if r.every == 0 || !peer.IsValid() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[peer]-r.now() > int64(refusalsAtOnce-r.every)
}

// CountRefusal counts a request that was refused before its caller was authenticated. A handler
// calls it when the answer is written. The connection of a peer that causes too many refusals ends
// with the answer.
func CountRefusal(ctx *fasthttp.RequestCtx) {
	if c, ok := ctx.Conn().(*connection); ok && c.countRefusal() {
		ctx.SetConnectionClose()
	}
}

// countRefusal counts a refusal of the connection's peer, and reports whether there are too many.
func (c *connection) countRefusal() bool {
	if c.byProxy || c.vouched.Load() {
		return false
	}
	c.overRefused = c.server.refusals.countOne(PeerOf(c.remote))
	return c.overRefused
}
