package forwarded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// MaxProxyHead is the longest head of the PROXY protocol that is read, in bytes. Addresses take at
// most 52 of them; the rest is for what proxies add, which is skipped.
const MaxProxyHead = 4 << 10

// ErrProxyHead means that a connection does not begin with a head of the PROXY protocol, version 2.
var ErrProxyHead = errors.New("no valid head of the PROXY protocol, version 2")

// signature begins every head of version 2. No HTTP request and no TLS record begins with it.
const signature = "\r\n\r\n\x00\r\nQUIT\n"

// The bytes of a head that Purser knows.
const (
	versionTwo   = 0x2
	commandLocal = 0x0
	commandProxy = 0x1
	familyTCP4   = 0x11
	familyTCP6   = 0x21
	familyUnix   = 0x31
	familyNone   = 0x00

	prefixBytes = len(signature) + 4
	tcp4Bytes   = 2*4 + 2*2  // two addresses, two ports
	tcp6Bytes   = 2*16 + 2*2 // two addresses, two ports
)

// ReadProxyHead reads the head of a connection and no byte beyond it. The client is the zero
// address when the proxy speaks for itself (LOCAL, as health checks are) or does not know an IP
// address. Any error but one of the reader is ErrProxyHead.
func ReadProxyHead(r io.Reader) (client netip.Addr, err error) {
	var buffer [256]byte
	head := buffer[:prefixBytes]
	if _, err := io.ReadFull(r, head); err != nil {
		return client, err
	}
	kind, family := head[len(signature)], head[len(signature)+1]
	left := int(binary.BigEndian.Uint16(head[len(signature)+2:]))
	switch {
	case string(head[:len(signature)]) != signature:
		return client, fmt.Errorf("%w: another signature", ErrProxyHead)
	case kind>>4 != versionTwo:
		return client, fmt.Errorf("%w: version %d", ErrProxyHead, kind>>4)
	case prefixBytes+left > MaxProxyHead:
		return client, fmt.Errorf("%w: longer than %d bytes", ErrProxyHead, MaxProxyHead)
	}
	addresses, err := addressBytes(kind&0xf, family)
	if err != nil {
		return client, err
	}
	if left < addresses {
		return client, fmt.Errorf("%w: too short for its addresses", ErrProxyHead)
	}
	if _, err := io.ReadFull(r, buffer[:addresses]); err != nil {
		return client, err
	}
	switch addresses {
	case tcp4Bytes:
		client = netip.AddrFrom4([4]byte(buffer[:4]))
	case tcp6Bytes:
		client = Plain(netip.AddrFrom16([16]byte(buffer[:16])))
	}
	for left -= addresses; left > 0; {
		n, err := io.ReadFull(r, buffer[:min(left, len(buffer))])
		if err != nil {
			return netip.Addr{}, err
		}
		left -= n
	}
	return client, nil
}

// addressBytes returns how many bytes of addresses follow the prefix; 0 when none are to be read.
// It fails with ErrProxyHead for an unknown command and for a family other than TCP.
func addressBytes(command, family byte) (int, error) {
	switch {
	case command == commandLocal:
		return 0, nil
	case command != commandProxy:
		return 0, fmt.Errorf("%w: command %d", ErrProxyHead, command)
	}
	switch family {
	case familyTCP4:
		return tcp4Bytes, nil
	case familyTCP6:
		return tcp6Bytes, nil
	case familyNone, familyUnix:
		return 0, nil
	}
	return 0, fmt.Errorf("%w: family and protocol %#x are not TCP", ErrProxyHead, family)
}
