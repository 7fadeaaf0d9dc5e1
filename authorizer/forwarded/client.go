package forwarded

import (
	"bytes"
	"net/netip"
)

// MaxHops is how many proxies in a row are looked through, the nearest first.
const MaxHops = 32

// Fields are the header fields in which proxies tell of the client. The lines of a field are joined
// with commas, in their order.
type Fields struct {
	For       []byte // X-Forwarded-For
	Proto     []byte // X-Forwarded-Proto
	Forwarded []byte
}

// Client returns the address of a request's client. It is the peer unless the peer is a trusted
// proxy, because anybody can send these fields. Behind a trusted proxy it is the rightmost address
// in the field that is of no trusted proxy, or the last that is known when an entry has no address.
//
// One of X-Forwarded-For and Forwarded may be the work of the client, because a proxy that writes
// one of them may pass the other on. Where both are given they must agree, else the client is not
// known, and the peer stands for it.
func (n Networks) Client(peer netip.Addr, f Fields) netip.Addr {
	if !n.Contains(peer) {
		return peer
	}
	var elements hops
	if len(f.Forwarded) > 0 {
		var ok bool
		if elements, ok = parseForwarded(f.Forwarded); !ok {
			return peer
		}
	}
	switch {
	case elements.count == 0:
		return n.lookThrough(peer, entriesOf(f.For))
	case len(f.For) == 0:
		return n.lookThrough(peer, elements)
	}
	client := n.lookThrough(peer, elements)
	if n.lookThrough(peer, entriesOf(f.For)) != client {
		return peer
	}
	return client
}

// lookThrough walks from the nearest hop to the first that is of no trusted proxy.
func (n Networks) lookThrough(peer netip.Addr, h hops) netip.Addr {
	client := peer
	for i := range min(h.count, MaxHops) {
		address, ok := parseNode(h.nearest[(h.count-1-i)%MaxHops].node)
		if !ok {
			return client
		}
		if client = address; !n.Contains(client) {
			return client
		}
	}
	return client
}

// HTTPS reports whether the fields of a trusted proxy say that it was asked by https. The nearest
// proxy counts, and X-Forwarded-Proto and Forwarded must not contradict each other.
func (f Fields) HTTPS() bool {
	given, secure := false, true
	if len(f.Proto) > 0 {
		last := f.Proto[bytes.LastIndexByte(f.Proto, ',')+1:]
		given, secure = true, isHTTPS(bytes.Trim(last, blanks))
	}
	if len(f.Forwarded) > 0 {
		elements, ok := parseForwarded(f.Forwarded)
		if !ok {
			return false
		}
		if elements.count > 0 {
			if proto := elements.nearest[(elements.count-1)%MaxHops].proto; proto != nil {
				given, secure = true, secure && isHTTPS(proto)
			}
		}
	}
	return given && secure
}

func isHTTPS(scheme []byte) bool { return bytes.EqualFold(scheme, []byte("https")) }
