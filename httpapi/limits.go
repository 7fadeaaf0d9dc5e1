package httpapi

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"purser/actors/fault"
	"purser/authorizer/drain"
)

// badReportsPerAddress is the limit of reports per address and minute that fail verification. It holds even when the rate limits
// are off. Verified reports count against no limit.
const (
	badReportsPerAddress = 60
	badReports           = "report-address/" // and the peer: the caller that is counted
)

// Limits of signing in, a minute. They hold even when the rate limits are off.
const (
	loginsPerAccount = 10
	loginsPerAddress = 30
)

func (s *Server) limitAddress(peer string, now time.Time) error {
	if s.cfg.RateLimits.Off {
		return nil
	}
	return s.limit("address/"+peer, s.cfg.RateLimits.PerAddress, now)
}

// limitCaller counts the key (or the user of a session), then its workspace.
func (s *Server) limitCaller(c *call) error {
	limits, who := s.cfg.RateLimits, &c.who
	if limits.Off || who.user == "" && who.workspace() == "" {
		return nil
	}
	key := "key/" + who.access.Principal.KeyID
	if who.user != "" {
		key = "user/" + who.user
	}
	if err := s.limit(key, limits.PerKey, c.now); err != nil {
		return err
	}
	if who.workspace() == "" {
		return nil
	}
	return s.limit("workspace/"+who.workspace(), limits.PerWorkspace, c.now)
}

// limitSignIn bounds the work that one address can cause by signing up and in.
func (s *Server) limitSignIn(c *call) error {
	return s.limit("login-address/"+c.peer, loginsPerAddress, c.now)
}

// limitGuesses bounds the guesses of one account's password, from wherever they come. The account may be unknown.
func (s *Server) limitGuesses(c *call, account string) error {
	return s.limit("login-account/"+account, loginsPerAccount, c.now)
}

// limit counts a request of a caller, which is written as "what/who".
func (s *Server) limit(caller string, limit int, now time.Time) error {
	wait, err := s.limits.take(caller, limit, now)
	switch {
	case err != nil:
		f := fault.New(fault.RateLimitUnavailable, "the limits could not be checked; nothing changed")
		return &waitError{fault: f, wait: fullSweepPause}
	case wait > 0:
		what, _, _ := strings.Cut(caller, "/")
		s.metrics.limited.WithLabelValues(what).Inc()
		return &waitError{fault: fault.New(fault.RateLimited, ""), wait: wait}
	}
	return nil
}

// peerOf names the peer that a limit per address counts: an IPv4 address, or the /64 network of an IPv6 address.
func peerOf(ip net.IP) string {
	address, _ := netip.AddrFromSlice(ip)
	if peer := drain.PeerOf(address); !peer.IsSingleIP() {
		return peer.String()
	}
	return address.Unmap().String()
}
