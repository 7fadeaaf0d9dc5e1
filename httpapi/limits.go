package httpapi

import (
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/fairshare"
	"purser/actors/fault"
	"purser/authorizer/front"
)

// quotesPerMinute bounds the quotes of a workspace, for conversions and for the ramp separately.
const quotesPerMinute = 30

// keyChangesPerMinute bounds the API keys that the keys of a workspace create and revoke, and those
// that a user of the dashboard creates and revokes. A stolen key therefore cannot use up the
// revocations of a signed-in owner. Each change commits the state of all keys of the workspace.
const keyChangesPerMinute = 60

// Limits of bytes. The memory, disk and processor time of a request grow with the bytes of its body
// and answer, of records that it reads and does not show, and of its commits beyond freeCommit. An
// admitted request therefore counts bytes/byteUnit units, rounded down, against its key or user, its
// workspace and its address. One request counts at most unitsPerKey, so that no single answer uses
// up the share of others.
const (
	byteUnit          = 16 << 10
	freeCommit        = 16 << 10 // bytes of a request's commits that count as part of the request
	unitsPerKey       = 160      // per minute: 2.5 MiB
	unitsPerWorkspace = 640      // per minute: 10 MiB
	unitsPerAddress   = 1_280    // per minute: 20 MiB
	// runsPerWorkspace bounds the concurrent reads of a workspace, and its writes. The bytes of a
	// request are known only after it has run, so an unbounded burst would run before any of it
	// counts.
	runsPerWorkspace = 16
)

// requestLimits bounds the requests of addresses, callers and workspaces: their number and bytes
// per minute, and the handlers that run at once. It is safe for concurrent use.
type requestLimits struct {
	rates    RateLimits
	counts   *limiter
	reads    *fairshare.Limit       // handlers that read, per workspace
	writes   *fairshare.Limit       // handlers that write, per workspace
	scans    *fairshare.Limit       // long scans of all workspaces, one of each
	refusals *prometheus.CounterVec // by the kind of the count
}

func newRequestLimits(c Config) *requestLimits {
	return &requestLimits{rates: c.RateLimits, counts: newLimiter(maxWindows, c.Elapsed),
		reads:  fairshare.New(maxConnections, runsPerWorkspace),
		writes: fairshare.New(maxConnections, runsPerWorkspace),
		scans:  fairshare.New(max(1, c.Processors-1), 1)}
}

// countAddress counts a request of an address, before its caller is known. It fails with
// rate_limited when the address is over its limit of the last minute, and with
// rate_limit_unavailable when the limiter's table is full.
func (l *requestLimits) countAddress(peer string) error {
	if l.rates.Off {
		return nil
	}
	return l.countRequest("address/"+peer, l.rates.PerAddress)
}

// byteLimit names a count of bytes, and its units per minute.
type byteLimit struct {
	caller string
	units  int
}

// byteLimits returns the counts of a request's bytes: those of the key or the session's user, the
// address, and the workspace that the request concerns, if any.
func (c *call) byteLimits() []byteLimit {
	limits := []byteLimit{
		{"bytes-" + c.who.rateCaller(), unitsPerKey},
		{"bytes-address/" + c.peer, unitsPerAddress},
	}
	if c.who.workspace() != "" {
		limits = append(limits, byteLimit{"bytes-workspace/" + c.who.workspace(), unitsPerWorkspace})
	}
	return limits
}

// checkBytes refuses a request with rate_limited when its key or user, its workspace or its address
// has used up the units (of byteUnit bytes) of the last minute. A DELETE is never refused: it may
// revoke the key that uses them up. Nor is a session's request that protects the account, such as
// the end of its other sessions.
func (l *requestLimits) checkBytes(c *call) error {
	if c.method == fasthttp.MethodDelete || c.who.workspace() == "" && c.route.onFullDisk {
		return nil
	}
	for _, b := range c.byteLimits() {
		if wait := l.counts.untilFree(b.caller, b.units); wait > 0 {
			return l.refuseOver(b.caller, "the requests and answers of the last minute are too long", wait)
		}
	}
	return nil
}

// chargeBytes counts the bytes of a request against the counts of byteLimits, in whole units of
// byteUnit. It never refuses.
func (l *requestLimits) chargeBytes(c *call, bytes int) {
	units := min(bytes/byteUnit, unitsPerKey)
	if units == 0 {
		return
	}
	for _, b := range c.byteLimits() {
		l.counts.countAdmitted(b.caller, b.units, units)
	}
}

// runHandler runs the handler of an admitted request within the limits of concurrency and bytes.
// They apply to requests of keys and sessions, not to partners' reports and anonymous requests. It
// fails with unavailable when other requests of the workspace, or of a user outside any workspace,
// do not leave a place before the call's time ends. It also fails with rate_limited, and with the
// handler's error.
func (l *requestLimits) runHandler(c *call) (answer, error) {
	if !l.countsBytes(c) {
		return c.route.handle(c)
	}
	running := l.writes
	if c.route.method == fasthttp.MethodGet || c.route.rpc {
		running = l.reads
	}
	done, err := running.Acquire(c.ctx, c.who.keyScope())
	if err != nil {
		return answer{}, fault.New(fault.Unavailable,
			"other requests of the workspace or the user are running; nothing changed")
	}
	defer done()
	if err := l.checkBytes(c); err != nil {
		return answer{}, err
	}
	var commits actors.CommitMeter
	c.ctx = actors.WithCommitMeter(c.ctx, &commits)
	a, err := c.route.handle(c)
	l.chargeBytes(c, len(c.body)+len(a.body)+c.readBytes()+max(0, commits.Bytes()-freeCommit)-c.charged)
	return a, err
}

// countsBytes reports whether the limits of bytes apply to a request: its caller is a key or a
// session.
func (l *requestLimits) countsBytes(c *call) bool { return !l.rates.Off && c.who.keyScope() != "" }

// countCaller counts the key (or the user of a session), then its workspace. It fails with
// rate_limited for the first that is over its limit, and with rate_limit_unavailable when the
// limiter's table is full. An anonymous request counts only by its address.
func (l *requestLimits) countCaller(c *call) error {
	who := &c.who
	if l.rates.Off || who.user == "" && who.workspace() == "" {
		return nil
	}
	if err := l.countRequest(who.rateCaller(), l.rates.PerKey); err != nil {
		return err
	}
	if who.workspace() == "" {
		return nil
	}
	return l.countRequest("workspace/"+who.workspace(), l.rates.PerWorkspace)
}

// countRequest counts a request of a caller, which is written as "kind/name", against a limit per
// minute. It fails with rate_limited and the wait, and with rate_limit_unavailable when the table
// has no room.
func (l *requestLimits) countRequest(caller string, limit int) error {
	wait, err := l.counts.admitOne(caller, limit)
	switch {
	case err != nil:
		return limiterFault()
	case wait > 0:
		return l.refuseOver(caller, "", wait)
	}
	return nil
}

// refuseOver counts a refusal in the metrics and returns it: a rate_limited fault with the wait for
// the Retry-After header.
func (l *requestLimits) refuseOver(caller, message string, wait time.Duration) error {
	kind, _, _ := strings.Cut(caller, "/")
	l.refusals.WithLabelValues(kind).Inc()
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

// peerOf returns the name under which the limits count an address of front.ClientOf: an IPv4
// address, or the /64 network of an IPv6 address.
func peerOf(address netip.Addr) string {
	if peer := front.PeerOf(address); !peer.IsSingleIP() {
		return peer.String()
	}
	return address.String()
}

// countQuote counts a quote of a kind against the workspace: at most quotesPerMinute. It fails like
// countRequest.
func (l *requestLimits) countQuote(c *call, kind string) error {
	if l.rates.Off {
		return nil
	}
	return l.countRequest(kind+"/"+c.who.workspace(), quotesPerMinute)
}

// countKeyChange counts the creation or revocation of an API key: at most keyChangesPerMinute by
// the keys of a workspace together, and by the user of a session. It fails like countRequest.
func (l *requestLimits) countKeyChange(c *call) error {
	if l.rates.Off {
		return nil
	}
	if c.who.user != "" {
		return l.countRequest("key-changes-user/"+c.who.user, keyChangesPerMinute)
	}
	return l.countRequest("key-changes/"+c.who.workspace(), keyChangesPerMinute)
}

// countAgain counts one more request of an authenticated caller: each further tool call of one MCP
// batch. It fails like the limits of a request of its own.
func (l *requestLimits) countAgain(c *call) error {
	if err := l.countAddress(c.peer); err != nil {
		return err
	}
	if err := l.countCaller(c); err != nil || !l.countsBytes(c) {
		return err
	}
	return l.checkBytes(c)
}

// chargeTool counts the bytes of a tool's answer, and those that the tool has read, before the next
// tool of an MCP batch is called. It never refuses.
func (l *requestLimits) chargeTool(c *call, answered, read int) {
	c.read += read
	if bytes := answered + read; l.countsBytes(c) {
		c.charged += bytes
		l.chargeBytes(c, bytes)
	}
}
