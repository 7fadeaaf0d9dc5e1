package front

import (
	"net/netip"
	"sync"
	"time"
)

// Limits of how long a connection may wait for its peer. Until half of the pool is in use, only the
// connection's own deadlines apply. From there the limit falls linearly, to leastPatience in a full
// pool.
const (
	leastPatience = time.Second
	reliefEvery   = 100 * time.Millisecond // between two looks over all connections
	full          = 1.0                    // how full a full pool is
	calm          = 0.5                    // how full it may be before waits are cut
)

// peerBits is the length of an IPv6 network. One peer can use all addresses of such a network.
const peerBits = 64

// Peer is the unit that a limit per address counts: an IPv4 address, or the /64 network of an IPv6
// address.
type Peer = netip.Prefix

// PeerOf returns the peer that an address belongs to.
func PeerOf(address netip.Addr) Peer {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = peerBits
	}
	peer, err := address.Prefix(bits)
	if err != nil { // the zero address
		return Peer{}
	}
	return peer
}

// pool has the open connections of a server.
type pool struct {
	server *Server

	mu       sync.Mutex
	open     map[*connection]struct{}
	counted  int // open connections that use a descriptor
	peers    map[Peer]int
	relieved int64 // when the pool was last looked over, by Server.sinceEpoch
}

// admitConnection takes a connection into the pool, or refuses it for a limit.
func (p *pool) admitConnection(c *connection) bool {
	o := &p.server.options
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.counted {
		p.open[c] = struct{}{}
		return true
	}
	if fill := p.filledShare(); fill > calm {
		p.endLongWaitsLocked(fill)
	}
	if o.Connections > 0 && p.counted >= o.Connections {
		p.server.counters.overFull.Add(1)
		return false
	}
	if !p.countPeerLocked(c) {
		return false
	}
	p.open[c] = struct{}{}
	p.counted++
	return true
}

// countPeer counts a connection for the peer that its PROXY head names. It reports false when the
// peer has as many connections as it may, or causes too many refusals.
func (p *pool) countPeer(c *connection, peer Peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.open[c]; !there {
		return false
	}
	c.peer = peer
	return p.countPeerLocked(c)
}

// countPeerLocked counts a connection for its peer, or for none when the peer has too many
// connections or causes too many refusals. The caller holds mu.
func (p *pool) countPeerLocked(c *connection) bool {
	if !c.peer.IsValid() {
		return true
	}
	if p.server.refusals.areTooMany(c.peer) {
		p.server.counters.overRefused.Add(1)
		c.peer = Peer{}
		return false
	}
	if most := p.server.options.PerPeer; most > 0 && p.peers[c.peer] >= most {
		p.server.counters.overPeer.Add(1)
		c.peer = Peer{}
		return false
	}
	p.peers[c.peer]++
	c.expected = c.peer
	p.server.refusals.expectRequest(c.peer)
	return true
}

// removeConnection takes a connection out of the pool. It may be called more than once.
func (p *pool) removeConnection(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.open[c]; there {
		delete(p.open, c)
		p.forgetPeer(c)
		if c.counted {
			p.counted--
		}
	}
}

// uncountPeer has a connection count for no peer from now on.
func (p *pool) uncountPeer(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.open[c]; there {
		p.forgetPeer(c)
	}
}

// forgetPeer no longer counts a connection for its peer. p.mu is held.
func (p *pool) forgetPeer(c *connection) {
	if !c.peer.IsValid() {
		return
	}
	if p.peers[c.peer]--; p.peers[c.peer] == 0 {
		delete(p.peers, c.peer)
	}
	c.peer = Peer{}
}

func (p *pool) openCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counted
}

// hasRoomToLinger reports whether a refused connection may stay open for its peer. Beyond half of
// the pool none does, so that refusals cannot fill it.
func (p *pool) hasRoomToLinger() bool {
	most := p.server.options.Connections
	return most == 0 || float64(p.openCount()) <= calm*float64(most)
}

// filledShare is how much of the connections or of the memory for bodies is taken, from 0 to 1.
func (p *pool) filledShare() float64 {
	o := &p.server.options
	fill := 0.0
	if o.Connections > 0 {
		fill = float64(p.counted) / float64(o.Connections)
	}
	if o.Bodies != nil {
		fill = max(fill, o.Bodies.filledShare())
	}
	return fill
}

// endLongWaits ends the waits of unauthenticated connections that are longer than
// patienceAt(fill). It does nothing within reliefEvery of its last run.
func (p *pool) endLongWaits(fill float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLongWaitsLocked(fill)
}

// endLongWaitsLocked ends the connections that have waited for a request longer than a pool with
// this fill (0 to 1) permits; not those marked vouched. It acts at most once every reliefEvery.
// p.mu is held.
func (p *pool) endLongWaitsLocked(fill float64) {
	now := p.server.sinceEpoch()
	if p.relieved != 0 && now-p.relieved < int64(reliefEvery) {
		return
	}
	p.relieved = now
	patience := int64(p.server.patienceAt(fill))
	for c := range p.open {
		if since := c.waitsSince.Load(); since != 0 && now-since > patience && c.counted && !c.vouched.Load() {
			c.endWait()
		}
	}
}

// patienceAt is how long a connection may wait for its peer. fill is the filled share of the
// pool, from 0 to 1. Above calm, the wait is shorter the fuller the pool is.
func (s *Server) patienceAt(fill float64) time.Duration {
	longest := max(s.http.IdleTimeout, s.http.ReadTimeout, s.http.WriteTimeout, leastPatience)
	if fill <= calm {
		return longest
	}
	left := (full - min(fill, full)) / (full - calm)
	return leastPatience + time.Duration(left*float64(longest-leastPatience))
}

// closeSilent closes the connections that have not sent a byte.
func (p *pool) closeSilent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		if !c.spoke.Load() {
			_ = c.socket.Close()
		}
	}
}
