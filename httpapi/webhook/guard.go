package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Limits of resolving and connecting to a receiver.
const (
	resolveTimeout = 3 * time.Second
	maxAddresses   = 8 // addresses of one host that are tried; a host is refused if any of its addresses is bad
)

// ErrAddress means that a URL leads to a forbidden address, by its name or at the connection.
var ErrAddress = errors.New("leads to an address that is not public")

// Resolver returns the addresses of a host; net.DefaultResolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Guard decides where deliveries may go: https on a usual port of a public address. A host is
// resolved when its endpoint is registered and again for each connection. The socket checks the
// dialled address once more, so a name that changes in between reaches nothing. When private
// addresses are allowed, for development, http and any port and address are accepted.
type Guard struct {
	allowPrivate bool
	resolver     Resolver
}

// NewGuard makes a Guard; a nil resolver is the system's. allowPrivate permits private addresses,
// http and any port, for development.
func NewGuard(allowPrivate bool, r Resolver) *Guard {
	if r == nil {
		r = net.DefaultResolver
	}
	return &Guard{allowPrivate: allowPrivate, resolver: r}
}

// usualPorts lists the ports that a URL may name. Services on other ports do not speak https or are
// not public.
var usualPorts = []string{"", "443", "8443"}

// Check refuses a URL that deliveries may not go to now. The error's text is for the person who
// gave the URL, and quotes none of it.
func (g *Guard) Check(ctx context.Context, text string) error {
	u, err := g.parseURL(text)
	if err != nil {
		return err
	}
	_, err = g.resolveHost(ctx, u.Hostname())
	if errors.Is(err, ErrAddress) {
		return err
	}
	if err != nil {
		return errors.New("has a host that cannot be resolved")
	}
	return nil
}

// parseURL makes the checks that need no network. It fails with a text for the person who gave the
// URL.
func (g *Guard) parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || !plainHost(u.Hostname()):
		return nil, errors.New("is not an absolute URL with a host")
	case u.Scheme != "https" && (u.Scheme != "http" || !g.allowPrivate):
		return nil, errors.New("must begin with https://")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password")
	case u.Fragment != "":
		return nil, errors.New("must not hold a fragment")
	case !g.allowPrivate && !slices.Contains(usualPorts, u.Port()):
		return nil, errors.New("must have no port, or 443 or 8443")
	}
	return u, nil
}

// plainHost reports whether a host is a name or an address without a zone.
func plainHost(host string) bool {
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_:") == ""
}

// resolveHost returns the addresses of a host, at most maxAddresses. It fails with ErrAddress
// unless all of them are allowed, and with the resolver's error.
func (g *Guard) resolveHost(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	all := make([]netip.Addr, 1)
	var err error
	if all[0], err = netip.ParseAddr(host); err != nil {
		if all, err = g.resolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, err
		}
	}
	for i := range all {
		all[i] = all[i].Unmap()
		if !g.allowsAddress(all[i]) {
			return nil, ErrAddress
		}
	}
	if len(all) == 0 {
		return nil, errors.New("a host without an address")
	}
	return all[:min(len(all), maxAddresses)], nil
}

func (g *Guard) allowsAddress(a netip.Addr) bool { return g.allowPrivate || isPublic(a.Unmap()) }

// notPublic lists the special ranges of IANA that netip does not name or that lie in unicast space.
// Ranges that embed an IPv4 address are included, because their destination cannot be checked.
var notPublic = mustPrefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "240.0.0.0/4", // this network, CGNAT, protocols, documentation, 6to4 relays, benchmarks, reserved
	// Teredo and other protocols, documentation, 6to4, documentation
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// globalUnicast is the allocated part of IPv6. NAT64, IPv4-mapped, unique local, link-local and
// multicast addresses lie outside.
var globalUnicast = netip.MustParsePrefix("2000::/3")

func mustPrefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

func isPublic(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Zone() != "" || a.Is6() && !globalUnicast.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}

// dialAllowed connects to a host and port, at the first of its addresses that answers. It fails
// like resolveHost, and with the error of the last address.
func (g *Guard) dialAllowed(ctx context.Context, network, address string, within time.Duration) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses, err := g.resolveHost(ctx, host)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: within, ControlContext: g.checkSocket}
	var conn net.Conn
	for _, a := range addresses {
		if conn, err = dialer.DialContext(ctx, network, net.JoinHostPort(a.String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// checkSocket is called by the socket before it connects, with the final address. It fails with
// ErrAddress for an address that is not allowed.
func (g *Guard) checkSocket(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address dialled: %w", err)
	}
	if !g.allowsAddress(to.Addr()) {
		return ErrAddress
	}
	return nil
}
