// Package forwarded finds out whose request or connection a trusted proxy hands on. It reads the
// header fields X-Forwarded-For and Forwarded (RFC 7239), and the head of the PROXY protocol,
// version 2. It is pure: its results follow from its arguments alone.
//
//	networks.go    the networks whose proxies are trusted
//	client.go      the client of a request, from its header fields
//	element.go     the elements of a Forwarded field, and the addresses in both fields
//	proxyhead.go   the client of a connection, from a PROXY protocol head
package forwarded

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// MaxNetworks is how many networks may be trusted.
const MaxNetworks = 64

// Networks are the networks of trusted proxies, without IPv4-mapped ones. The zero value trusts no
// address.
type Networks []netip.Prefix

// ParseNetworks reads addresses and networks such as "10.0.0.0/8,2001:db8::7", separated by commas.
// The empty text is the empty list. The error names every fault.
func ParseNetworks(text string) (Networks, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var networks Networks
	var faults []error
	for entry := range strings.SplitSeq(text, ",") {
		network, err := parseNetwork(strings.TrimSpace(entry))
		if err != nil {
			faults = append(faults, err)
		}
		networks = append(networks, network)
	}
	if len(networks) > MaxNetworks {
		faults = append(faults, fmt.Errorf("%d networks are more than %d", len(networks), MaxNetworks))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return networks, nil
}

// mappedBits is the length of the prefix that makes an IPv6 address of an IPv4 address.
const mappedBits = 96

// parseNetwork parses an address or a network such as 10.0.0.0/8. An IPv4-mapped IPv6 address
// counts as IPv4. It fails for other texts, for a network of every address, and for bits behind the
// prefix.
func parseNetwork(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return network, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", text)
	}
	if network.Addr().Is4In6() && network.Bits() >= mappedBits {
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-mappedBits)
	}
	switch {
	case network.Bits() == 0:
		return network, fmt.Errorf("%q trusts every address", text)
	case network != network.Masked():
		return network, fmt.Errorf("%q has bits behind its prefix; the network is %s", text, network.Masked())
	}
	return network, nil
}

// Contains reports whether an address is of a trusted proxy. The address is in the form that Plain
// returns.
func (n Networks) Contains(address netip.Addr) bool {
	for _, network := range n {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// Plain returns an address in the one form in which addresses are compared: an IPv4-mapped address
// as IPv4, and without a zone.
func Plain(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }
