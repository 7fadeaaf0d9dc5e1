package front

import (
	"maps"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Limits of the refusal counts.
const (
	refusalBurst    = 10 * time.Second // a bucket holds the refusals of this period at the allowed rate
	keepAliveBurst  = refusalBurst / 2 // with more than this in the bucket a refusal ends its connection
	maxRefusedPeers = 65_536           // peers with a bucket; the refusals of further peers are not counted
	sweepEvery      = time.Second      // between two removals of empty buckets
	handshakeCost   = 5                // refusals that a TLS handshake counts for: the server has signed for it
	// how long a peer counts as authenticated after Vouch and after that connection's end
	provenFor      = 24 * time.Hour
	maxProvenPeers = 65_536 // peers that count as authenticated; further peers do not
)

// refusals is a leaky bucket for each unauthenticated peer. A refused request and a connection that
// ends without a request each add one refusal. The first refusal of a connection, or its end
// without a request, adds handshakeCost more if the server has answered its TLS handshake. The
// bucket leaks Options.Refusals a second. An open connection that has sent no request yet takes the
// room of one refusal: otherwise a bucket with room for one lets in as many at once as a peer may
// have. While the bucket of a peer is full, its new connections are closed as they are accepted,
// because closing a connection costs less than refusing a request. From half a bucket on a refusal
// ends its connection, and the rest of the request is not read: otherwise a peer whose bucket stays
// near full has the server read all its bodies. A peer that has authenticated has no bucket: an
// attacker or a wrong secret behind the address of the card network must not shut the network out.
// All methods are safe for concurrent use.
type refusals struct {
	every   time.Duration // between two refusals at the allowed rate; 0 counts nothing
	now     func() int64  // Server.sinceEpoch
	mu      sync.Mutex
	emptyAt map[Peer]int64 // when the bucket of a peer is empty
	unasked map[Peer]int   // open connections of a peer that have sent no request yet
	sweptAt int64          // when empty buckets were last removed
	proven  map[Peer]int64 // until when a peer counts as authenticated
}

func newRefusals(perSecond int, now func() int64) *refusals {
	r := &refusals{now: now, emptyAt: map[Peer]int64{}, unasked: map[Peer]int{}, proven: map[Peer]int64{}}
	if perSecond > 0 {
		r.every = time.Second / time.Duration(perSecond)
	}
	return r
}

// count counts refusals, and reports whether they end the peer's connection.
func (r *refusals) count(peer Peer, refusals int) bool {
	if r.every == 0 || !peer.IsValid() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.proven[peer] > now {
		return false
	}
	emptyAt, counted := r.emptyAt[peer]
	if !counted && !r.makeRoomLocked(now) {
		return false
	}
	emptyAt = min(max(emptyAt, now)+int64(refusals)*int64(r.every), now+int64(refusalBurst+r.every))
	r.emptyAt[peer] = emptyAt
	return emptyAt-now > int64(keepAliveBurst)
}

// expectRequest counts an open connection of a peer as one that has sent no request.
// endExpectation ends the count.
func (r *refusals) expectRequest(peer Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unasked[peer]++
}

// endExpectation is called once for each expectRequest: when the connection sends a request or
// ends.
func (r *refusals) endExpectation(peer Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unasked[peer]--; r.unasked[peer] == 0 {
		delete(r.unasked, peer)
	}
}

// makeRoomLocked reports whether another peer can get a bucket. It removes empty buckets, at most
// once in sweepEvery. The caller holds mu.
func (r *refusals) makeRoomLocked(now int64) bool {
	if len(r.emptyAt) < maxRefusedPeers {
		return true
	}
	if now-r.sweptAt < int64(sweepEvery) {
		return false
	}
	r.sweptAt = now
	maps.DeleteFunc(r.emptyAt, func(_ Peer, emptyAt int64) bool { return emptyAt <= now })
	return len(r.emptyAt) < maxRefusedPeers
}

// areTooMany reports whether a peer's bucket is full, or its open connections without a request
// would fill it.
func (r *refusals) areTooMany(peer Peer) bool {
	if r.every == 0 || !peer.IsValid() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	filled := max(r.emptyAt[peer]-now, 0) + int64(r.unasked[peer])*int64(r.every)
	return filled > int64(refusalBurst-r.every) && r.proven[peer] <= now
}

// notePeerProven notes that a peer has authenticated.
func (r *refusals) notePeerProven(peer Peer) {
	if r.every == 0 || !peer.IsValid() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if _, known := r.proven[peer]; !known && len(r.proven) >= maxProvenPeers {
		maps.DeleteFunc(r.proven, func(_ Peer, until int64) bool { return until <= now })
		if len(r.proven) >= maxProvenPeers {
			return
		}
	}
	r.proven[peer] = now + int64(provenFor)
}

// CountRefusal counts a request that was refused before its caller was authenticated. When the
// peer's bucket is more than half full, the connection ends with that answer. A request counts
// once, however often this is called for it.
func CountRefusal(ctx *fasthttp.RequestCtx) {
	if c, ok := ctx.Conn().(*connection); ok && !c.refused {
		if c.refused = true; c.countRefusal() {
			ctx.SetConnectionClose()
		}
	}
}

// countRefusal counts a refusal of the connection's peer, with the TLS handshake before it, and
// reports whether it ends the connection. Trusted proxies and authenticated connections are not
// counted.
func (c *connection) countRefusal() bool {
	if c.byProxy || c.vouched.Load() {
		return false
	}
	refusals := 1
	if c.preface != nil && c.preface.answered {
		c.preface.answered = false
		refusals += handshakeCost
	}
	c.overRefused = c.server.refusals.count(PeerOf(c.remote), refusals)
	return c.overRefused
}

// noteRequest notes that the connection has sent a request.
func (c *connection) noteRequest() {
	c.asked, c.refused = true, false
	c.endExpectation()
}

// endExpectation stops counting the connection as one that has sent no request.
func (c *connection) endExpectation() {
	if c.expected.IsValid() {
		c.server.refusals.endExpectation(c.expected)
		c.expected = Peer{}
	}
}

// noteProven notes that the connection's peer has authenticated, unless that is a trusted proxy.
func (c *connection) noteProven() {
	if !c.byProxy {
		c.server.refusals.notePeerProven(PeerOf(c.remote))
	}
}
