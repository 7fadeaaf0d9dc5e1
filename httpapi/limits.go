package httpapi

import (
	"net/netip"
	"strings"

	"purser/actors/fault"
	"purser/authorizer/drain"
)

// badReportsPerAddress is the limit of reports per address and minute that fail verification. It
// holds even when the rate limits are off. Verified reports count against no limit.
const (
	badReportsPerAddress = 60
	badReports           = "report-address/" // and the peer: the caller that is counted
)

func (s *Server) limitAddress(peer string) error {
	if s.cfg.RateLimits.Off {
		return nil
	}
	return s.limit("address/"+peer, s.cfg.RateLimits.PerAddress)
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
	if err := s.limit(key, limits.PerKey); err != nil {
		return err
	}
	if who.workspace() == "" {
		return nil
	}
	return s.limit("workspace/"+who.workspace(), limits.PerWorkspace)
}

// limit counts a request of a caller, which is written as "what/who".
func (s *Server) limit(caller string, limit int) error {
	wait, err := s.limits.take(caller, limit)
	switch {
	case err != nil:
		return limiterFault()
	case wait > 0:
		what, _, _ := strings.Cut(caller, "/")
		s.metrics.limited.WithLabelValues(what).Inc()
		return &waitError{fault: fault.New(fault.RateLimited, ""), wait: wait}
	}
	return nil
}

// limiterFault answers a request that a full limiter could not count.
func limiterFault() error {
	f := fault.New(fault.RateLimitUnavailable, "the limits could not be checked; nothing changed")
	return &waitError{fault: f, wait: fullSweepPause}
}

// peerOf names whom a limit per address counts: an IPv4 address, or the /64 network of an IPv6
// address. The address is that of drain.ClientOf.
func peerOf(address netip.Addr) string {
	if peer := drain.PeerOf(address); !peer.IsSingleIP() {
		return peer.String()
	}
	return address.String()
}
