package forwarded

import (
	"bytes"
	"net/netip"
	"strings"
)

// blanks are the characters of optional whitespace in a header field.
const blanks = " \t"

// element is the statement of one proxy. node is the sender of the request, proto the scheme of the
// request. A nil field is missing in the statement.
type element struct{ node, proto []byte }

// hops are the elements of a field. The last MaxHops of them are kept, the i-th in
// nearest[i%MaxHops].
type hops struct {
	nearest [MaxHops]element
	count   int
}

func (h *hops) addElement(e element) {
	h.nearest[h.count%MaxHops] = e
	h.count++
}

// entriesOf reads the entries of an X-Forwarded-For field. Empty ones do not count.
func entriesOf(text []byte) (h hops) {
	for entry := range bytes.SplitSeq(text, []byte(",")) {
		if entry = bytes.Trim(entry, blanks); len(entry) > 0 {
			h.addElement(element{node: entry})
		}
	}
	return h
}

// parseForwarded reads the elements of a Forwarded field. A malformed field is refused whole: an
// open quote of the client could swallow what the proxy has appended.
func parseForwarded(text []byte) (h hops, ok bool) {
	var e element
	filled := false
	for {
		text = bytes.TrimLeft(text, blanks)
		if len(text) > 0 && text[0] != ',' && text[0] != ';' {
			var name, value []byte
			if name, value, text, ok = cutPair(text); !ok || !e.setParameter(name, value) {
				return hops{}, false
			}
			filled = true
			if text = bytes.TrimLeft(text, blanks); len(text) > 0 && text[0] != ',' && text[0] != ';' {
				return hops{}, false
			}
		}
		if len(text) == 0 || text[0] == ',' {
			if filled {
				h.addElement(e)
			}
			e, filled = element{}, false
		}
		if len(text) == 0 {
			return h, true
		}
		text = text[1:]
	}
}

// setParameter notes a parameter of an element. It reports false for one that is given twice.
func (e *element) setParameter(name, value []byte) bool {
	place := (*[]byte)(nil)
	switch {
	case bytes.EqualFold(name, []byte("for")):
		place = &e.node
	case bytes.EqualFold(name, []byte("proto")):
		place = &e.proto
	default:
		return true
	}
	if *place != nil {
		return false
	}
	*place = value
	return true
}

// cutPair cuts "name=value" from the front of a text. A quoted value is returned without its quotes
// and with its escapes, which no address and no scheme has.
func cutPair(text []byte) (name, value, rest []byte, ok bool) {
	name, rest, ok = bytes.Cut(text, []byte("="))
	if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t,;\"\\") {
		return nil, nil, nil, false
	}
	if len(rest) == 0 || rest[0] != '"' {
		end := bytes.IndexAny(rest, " \t,;")
		if end < 0 {
			end = len(rest)
		}
		value = rest[:end]
		return name, value, rest[end:], end > 0 && bytes.IndexByte(value, '"') < 0
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return name, rest[1:i], rest[i+1:], true
		}
	}
	return nil, nil, nil, false
}

// maxNode is the length of the longest node: an IPv6 address in brackets, and a port.
const maxNode = 64

// parseNode reads the address of a node: an IPv4 address, or an IPv6 address with or without
// brackets, with a port or without one. "unknown" and obfuscated names have no address.
func parseNode(text []byte) (netip.Addr, bool) {
	if len(text) > maxNode {
		return netip.Addr{}, false
	}
	node := string(text)
	if inside, bracketed := strings.CutPrefix(node, "["); bracketed {
		host, port, closed := strings.Cut(inside, "]")
		address, err := netip.ParseAddr(host)
		if !closed || err != nil || !address.Is6() || port != "" && (port[0] != ':' || !isPort(port[1:])) {
			return netip.Addr{}, false
		}
		return Plain(address), true
	}
	if address, err := netip.ParseAddr(node); err == nil {
		return Plain(address), true
	}
	host, port, _ := strings.Cut(node, ":")
	address, err := netip.ParseAddr(host)
	if err != nil || !address.Is4() || !isPort(port) {
		return netip.Addr{}, false
	}
	return address, true
}

// maxPortDigits is the length of 65535.
const maxPortDigits = 5

// isPort reports whether a text is a port, or an obfuscated one.
func isPort(text string) bool {
	if strings.HasPrefix(text, "_") {
		return len(text) > 1
	}
	return len(text) > 0 && len(text) <= maxPortDigits && strings.Trim(text, "0123456789") == ""
}
