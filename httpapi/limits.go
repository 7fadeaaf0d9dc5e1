package httpapi

import (
	"net/netip"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/fault"
	"purser/authorizer/drain"
)

// badReportsPerAddress is the limit of reports per address and minute that fail verification. It
// applies even when the rate limits are off. Verified reports count against no limit.
const (
	badReportsPerAddress = 60
	badReports           = "report-address/" // followed by the peer, it names the count
)

// quotesPerMinute bounds the quotes of a workspace, for conversions and for the ramp separately.
const quotesPerMinute = 30

// Limits of bytes. The memory, disk and processor time of a request grow with the bytes of its body
// and answer. An admitted request therefore counts bytes/byteUnit units, rounded down, against its
// key, its workspace and its address. One request counts at most unitsPerKey, so that no single
// answer uses up the share of others.
const (
	byteUnit          = 16 << 10
	unitsPerKey       = 160   // per minute: 2.5 MiB
	unitsPerWorkspace = 640   // per minute: 10 MiB
	unitsPerAddress   = 1_280 // per minute: 20 MiB
	// runsPerWorkspace bounds the concurrent reads of a workspace, and its writes. The bytes of a
	// request are known only after it has run, so an unbounded burst would run before any of it
	// counts.
	runsPerWorkspace = 16
)

func (e *edge) limitAddress(peer string) error {
	if e.cfg.RateLimits.Off {
		return nil
	}
	return e.limit("address/"+peer, e.cfg.RateLimits.PerAddress)
}

// byteLimit names a count of bytes, and its units per minute.
type byteLimit struct {
	caller string
	units  int
}

func (c *call) byteLimits() [3]byteLimit {
	return [...]byteLimit{
		{"bytes-" + c.who.rateCaller(), unitsPerKey},
		{"bytes-workspace/" + c.who.workspace(), unitsPerWorkspace},
		{"bytes-address/" + c.peer, unitsPerAddress},
	}
}

// limitBytes refuses a request when its key, workspace or address has used up the units of the last
// minute. A DELETE is never refused: it may revoke the key that uses them up.
func (e *edge) limitBytes(c *call) error {
	if c.method == fasthttp.MethodDelete {
		return nil
	}
	for _, l := range c.byteLimits() {
		if wait := e.limits.untilFree(l.caller, l.units); wait > 0 {
			return e.rateLimited(l.caller, "the requests and answers of the last minute are too long", wait)
		}
	}
	return nil
}

// chargeBytes counts the bytes of a request and its answer.
func (e *edge) chargeBytes(c *call, bytes int) {
	units := min(bytes/byteUnit, unitsPerKey)
	if units == 0 {
		return
	}
	for _, l := range c.byteLimits() {
		e.limits.charge(l.caller, l.units, units)
	}
}

// runHandler runs the handler of an admitted request within the limits of concurrency and bytes.
// They apply to requests that concern a workspace; partners' reports and anonymous requests concern
// none.
func (e *edge) runHandler(c *call) (answer, error) {
	if !e.countsBytes(c) {
		return c.route.handle(c)
	}
	running := e.writes
	if c.route.method == fasthttp.MethodGet || c.route.rpc {
		running = e.reads
	}
	done, err := running.Acquire(c.ctx, c.who.workspace())
	if err != nil {
		return answer{}, fault.New(fault.Unavailable, "other requests of the workspace are running; nothing changed")
	}
	defer done()
	if err := e.limitBytes(c); err != nil {
		return answer{}, err
	}
	a, err := c.route.handle(c)
	e.chargeBytes(c, len(c.body)+len(a.body)-c.charged)
	return a, err
}

// countsBytes reports whether the limits of bytes apply to a request.
func (e *edge) countsBytes(c *call) bool { return !e.cfg.RateLimits.Off && c.who.workspace() != "" }

// limitCaller counts the key (or the user of a session), then its workspace.
func (e *edge) limitCaller(c *call) error {
	limits, who := e.cfg.RateLimits, &c.who
	if limits.Off || who.user == "" && who.workspace() == "" {
		return nil
	}
	if err := e.limit(who.rateCaller(), limits.PerKey); err != nil {
		return err
	}
	if who.workspace() == "" {
		return nil
	}
	return e.limit("workspace/"+who.workspace(), limits.PerWorkspace)
}

// limit counts a request of a caller, which is written as "kind/name".
func (e *edge) limit(caller string, limit int) error {
	wait, err := e.limits.take(caller, limit)
	switch {
	case err != nil:
		return limiterFault()
	case wait > 0:
		return e.rateLimited(caller, "", wait)
	}
	return nil
}

// rateLimited counts a refusal and returns it.
func (e *edge) rateLimited(caller, message string, wait time.Duration) error {
	what, _, _ := strings.Cut(caller, "/")
	e.metrics.limited.WithLabelValues(what).Inc()
	return &waitError{fault: fault.New(fault.RateLimited, message), wait: wait}
}

// rateCaller names the key, or the user of a session, for the limiter.
func (c *caller) rateCaller() string {
	if c.user != "" {
		return "user/" + c.user
	}
	return "key/" + c.access.Principal.KeyID
}

// limiterFault is the fault of a request that a full limiter could not count.
func limiterFault() error {
	f := fault.New(fault.RateLimitUnavailable, "the limits could not be checked; nothing changed")
	return &waitError{fault: f, wait: fullSweepPause}
}

// peerOf returns the name under which the limits count an address of drain.ClientOf: an IPv4
// address, or the /64 network of an IPv6 address.
func peerOf(address netip.Addr) string {
	if peer := drain.PeerOf(address); !peer.IsSingleIP() {
		return peer.String()
	}
	return address.String()
}

// limitQuotes counts a quote of a kind against the workspace.
func (e *edge) limitQuotes(c *call, kind string) error {
	if e.cfg.RateLimits.Off {
		return nil
	}
	return e.limit(kind+"/"+c.who.workspace(), quotesPerMinute)
}
