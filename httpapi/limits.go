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

// quotesPerMinute bounds the quotes of a workspace: those between currencies, and those of the
// ramp.
const quotesPerMinute = 30

// Limits of bytes. A long request or answer costs memory, disk and processor time in proportion to
// its length, so its units count against its workspace and its address. They follow the default
// limits of requests: a request may have byteUnit, body and answer together.
const (
	byteUnit          = 16 << 10
	unitsPerWorkspace = 640   // a minute: 10 MiB
	unitsPerAddress   = 1_280 // a minute: 20 MiB
	workspaceBytes    = "workspace-bytes/"
	addressBytes      = "address-bytes/"
)

func (e *edge) limitAddress(peer string) error {
	if e.cfg.RateLimits.Off {
		return nil
	}
	if err := e.limitBytes(addressBytes+peer, unitsPerAddress); err != nil {
		return err
	}
	return e.limit("address/"+peer, e.cfg.RateLimits.PerAddress)
}

// limitBytes refuses a caller whose requests and answers of the last minute were too long.
func (e *edge) limitBytes(caller string, units int) error {
	wait := e.limits.untilFree(caller, units)
	if wait == 0 {
		return nil
	}
	what, _, _ := strings.Cut(caller, "/")
	e.metrics.limited.WithLabelValues(what).Inc()
	return &waitError{fault: fault.New(fault.RateLimited, "the requests and answers of the last minute are too long"),
		wait: wait}
}

// chargeBytes counts the bytes of a request and its answer. Reports of partners are outside the
// limits.
func (e *edge) chargeBytes(c *call, bytes int) {
	units := bytes / byteUnit
	if units == 0 || e.cfg.RateLimits.Off || c.route.auth == authPartner {
		return
	}
	e.limits.charge(addressBytes+c.peer, unitsPerAddress, units)
	if owner := c.who.workspace(); owner != "" {
		e.limits.charge(workspaceBytes+owner, unitsPerWorkspace, units)
	}
}

// limitCaller counts the key (or the user of a session), then its workspace.
func (e *edge) limitCaller(c *call) error {
	limits, who := e.cfg.RateLimits, &c.who
	if limits.Off || who.user == "" && who.workspace() == "" {
		return nil
	}
	key := "key/" + who.access.Principal.KeyID
	if who.user != "" {
		key = "user/" + who.user
	}
	if err := e.limit(key, limits.PerKey); err != nil {
		return err
	}
	if who.workspace() == "" {
		return nil
	}
	if err := e.limitBytes(workspaceBytes+who.workspace(), unitsPerWorkspace); err != nil {
		return err
	}
	return e.limit("workspace/"+who.workspace(), limits.PerWorkspace)
}

// limit counts a request of a caller, which is written as "what/who".
func (e *edge) limit(caller string, limit int) error {
	wait, err := e.limits.take(caller, limit)
	switch {
	case err != nil:
		return limiterFault()
	case wait > 0:
		what, _, _ := strings.Cut(caller, "/")
		e.metrics.limited.WithLabelValues(what).Inc()
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

// limitQuotes counts a quote among those of its kind.
func (e *edge) limitQuotes(c *call, kind string) error {
	if e.cfg.RateLimits.Off {
		return nil
	}
	return e.limit(kind+"/"+c.who.workspace(), quotesPerMinute)
}
