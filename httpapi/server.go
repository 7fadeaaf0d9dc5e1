package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/bankday"
	"purser/actors/card"
	"purser/actors/cardholder"
	"purser/actors/checkout"
	"purser/actors/fault"
	"purser/actors/processes"
	"purser/actors/query"
	"purser/actors/reports"
	"purser/authorizer/front"
	"purser/httpapi/dashboard"
	"purser/httpapi/mail"
	"purser/httpapi/password"
	"purser/httpapi/web"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Limits of the server.
const (
	maxHeader      = 16 << 10 // bytes of request line and header; over it 431
	maxConnections = 32 << 10
	readTimeout    = 15 * time.Second // from the first byte of a request to the last
	writeTimeout   = 15 * time.Second
	idleTimeout    = 75 * time.Second // between the requests of a connection
)

// RequestTimeout is the default of Config.RequestTimeout.
const RequestTimeout = 10 * time.Second

// Actors is the part of the runtime that the interface uses; *processes.Product implements it.
type Actors interface {
	Ask(ctx context.Context, e actors.Envelope) (reply any, err error)
	AcquireKey(ctx context.Context, e actors.Envelope) (release func(), reply any, err error)
	query.Reader
	WaitRelayed(ctx context.Context, workspace string)
	PendingOfCard(card string) (pending []balance.CardDecision, ok bool)
	ChangedSince(ctx context.Context, workspace string, after uint64) (changed bool, next uint64, err error)
	TenantSlot(name string) ident.Slot
	Enrol(ctx context.Context, reference string, p cardholder.Person) (cardholder.Enrolment, error)
	FirmRate(ctx context.Context, currency money.Currency) (money.Rate, error)
	MidRates(ctx context.Context) (map[string]string, error)
	Receiving(ctx context.Context, workspace string, currency money.Currency) ([]processes.Receiving, error)
	Offer(ctx context.Context, p balance.QuotePair) (money.Rate, time.Duration, error)
	MidBetween(ctx context.Context, sell, buy money.Currency) (money.Rate, error)
	RampFee(ctx context.Context, direction string, cents money.Cents) (money.Cents, error)
	MintOrdered(ctx context.Context, workspace, order string) (card.View, error)
	PrepareCheckout(ctx context.Context, c checkout.Create, assets, chains []string, live bool) (checkout.Create,
		error)
	Clock() time.Time
	// WallTime is the time of other machines, by which they sign.
	WallTime() time.Time
	Entropy() io.Reader
}

// Network is the card network's connection to the authorizer, for the simulation routes.
type Network interface {
	// Submit posts a message to a route of the network interface: authorizations, reversals,
	// clearings or refunds. It returns the status and the JSON that the authorizer's port would
	// answer. Submit does not retain the body; the answer belongs to the caller.
	Submit(ctx context.Context, route string, body []byte) (status int, answer []byte, err error)
	// FindAuthorization returns the authorization that the network id of an authorization or an
	// increment names.
	FindAuthorization(networkID string) (id ident.UUID, found bool, err error)
	// Expire releases the amount that an authorization holds, as its expiry would. The release is
	// durable when Expire returns. An authorization that holds nothing does not change.
	Expire(ctx context.Context, authorization ident.UUID) error
}

// Issuers of cards.
const (
	IssuerFixture   = "fixture"   // cards are stand-ins
	IssuerConnected = "connected" // cards are the sandbox issuer's; each needs a cardholder
)

// Config holds the dependencies and settings of New. Actors, Network, BaseURL and PartnerSecrets
// are required.
type Config struct {
	Actors  Actors
	Network Network
	// The server's URL for browsers. Its scheme and host are "same origin"; https makes cookies
	// Secure.
	BaseURL string
	// PartnerSecrets lists the secrets of each of reports.Partners. A report is valid when any of
	// them signs it.
	PartnerSecrets map[string][]string
	// PartnerSignatures are the signature versions that are accepted; zero accepts both.
	PartnerSignatures webhook.Versions
	// Full returns the refusal of a request that the given level of free space does not admit; a
	// nil Full admits every request. It is called for every request that may store data.
	Full func(FullDisk) error
	// Mail sends the mails with links to reset a password; nil offers none.
	Mail         mail.Sender
	SignupClosed bool                 // no new users
	Issuer       string               // IssuerFixture (default) or IssuerConnected
	NoPhysical   bool                 // the product of physical cards is not configured
	NoCurrencies bool                 // balances in currencies are not connected
	NoRamp       bool                 // the ramp between dollars and USDC is not connected
	Convert      bool                 // balances in currencies can be converted
	DepositDelay time.Duration        // the sandbox bank's delay; only shown, as expectedAt
	PayoutLimits balance.PayoutLimits // zero: DefaultPayoutLimits
	RateLimits   RateLimits           // zero: DefaultRateLimits
	// CheckoutTolerance applies to links that are created from now on. The zero value accepts no
	// shortfall.
	CheckoutTolerance checkout.Tolerance
	// RequestTimeout is how long a handler waits for an actor; zero is the constant.
	RequestTimeout time.Duration
	// Elapsed is the monotonic clock of the request limits; nil uses the process's own.
	Elapsed func() time.Duration
	// DerivePassword runs one derivation at a time; nil uses password.DeriveInProcess.
	DerivePassword password.Deriver
	// WebhookGuard decides which addresses webhook endpoints may have; nil allows public ones.
	WebhookGuard *webhook.Guard
	// Streams is how many pages may have server-sent events at once, so that they leave connections
	// to other callers; zero allows maxStreams.
	Streams int
	// Processors is the number of processors; zero is GOMAXPROCS. Long scans leave one free.
	Processors int
	// Edge bounds connections and bodies when the server listens without a Front.
	Edge     front.Options
	Registry *prometheus.Registry
	Logger   *slog.Logger
}

// ensureDefaults sets the zero fields that have a default. It must be called before validate.
func (c *Config) ensureDefaults() {
	if c.PartnerSignatures == 0 {
		c.PartnerSignatures = webhook.V1 | webhook.V2
	}
	if c.Processors == 0 {
		c.Processors = runtime.GOMAXPROCS(0)
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = RequestTimeout
	}
	if c.Streams == 0 {
		c.Streams = maxStreams
	}
	if c.Issuer == "" {
		c.Issuer = IssuerFixture
	}
	if c.PayoutLimits == (balance.PayoutLimits{}) {
		c.PayoutLimits = DefaultPayoutLimits()
	}
	if c.RateLimits == (RateLimits{}) {
		c.RateLimits = DefaultRateLimits()
	}
	if c.Elapsed == nil {
		began := time.Now()
		c.Elapsed = func() time.Duration { return time.Since(began) }
	}
	if c.WebhookGuard == nil {
		c.WebhookGuard = webhook.NewGuard(false, nil)
	}
	if c.Edge.Bodies == nil {
		c.Edge.Bodies = front.NewBudget(front.DefaultBudget)
	}
	if c.Full == nil {
		c.Full = func(FullDisk) error { return nil }
	}
	if c.DerivePassword == nil {
		c.DerivePassword = password.DeriveInProcess
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// validate returns all faults of a configuration with its defaults, joined, or nil.
func (c *Config) validate() error {
	var faults []error
	require := func(ok bool, problem string) {
		if !ok {
			faults = append(faults, errors.New("httpapi.Config: "+problem))
		}
	}
	require(c.Actors != nil, "Actors is required")
	require(c.Network != nil, "Network is required")
	for _, partner := range reports.Partners() {
		secrets := c.PartnerSecrets[partner]
		require(len(secrets) > 0 && !slices.Contains(secrets, ""), "PartnerSecrets of the "+partner+" are required")
	}
	base, err := url.Parse(c.BaseURL)
	isHTTP := err == nil && base.Host != "" && (base.Scheme == "http" || base.Scheme == "https")
	require(isHTTP, "BaseURL must be an http(s) URL")
	require(c.Issuer == IssuerFixture || c.Issuer == IssuerConnected, "Issuer is fixture or connected")
	require(c.DepositDelay >= 0, "DepositDelay is negative")
	require(c.RequestTimeout > 0, "RequestTimeout is negative")
	require(c.CheckoutTolerance.IsValid(), "CheckoutTolerance is out of bounds")
	require(c.PayoutLimits.KeyCents > 0 && c.PayoutLimits.WorkspaceCents > 0, "PayoutLimits must be positive")
	l := c.RateLimits
	require(l.Off || l.PerKey > 0 && l.PerWorkspace > 0 && l.PerAddress > 0, "RateLimits must be positive")
	return errors.Join(faults...)
}

// Server serves the REST interface. Make it with New; it is safe for concurrent use. Each group of
// resources has its own handlers, which share the edge.
type Server struct {
	*edge
	table      []route
	sessions   *sessionHandlers
	checkouts  *checkoutHandlers
	reports    *reportHandlers
	tools      *toolHandlers
	pages      *pageHandlers
	handler    fasthttp.RequestHandler
	site       *web.Site
	httpServer *httpServer
}

// New makes the server of the REST API, which does not listen yet. The error names every fault of
// the configuration; New also fails when the embedded documents cannot be rendered or a metric is
// registered twice.
func New(c Config) (*Server, error) {
	c.ensureDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	e, err := newEdge(c)
	if err != nil {
		return nil, err
	}
	calendar, err := bankday.New()
	if err != nil {
		return nil, err
	}
	site, err := web.New(hostedFiles)
	if err != nil {
		return nil, err
	}
	pages, err := dashboard.New()
	if err != nil {
		return nil, err
	}
	rendered, err := renderedDocuments()
	if err != nil {
		return nil, err
	}
	passwords, err := password.NewHasher(c.Actors.Entropy(), c.DerivePassword)
	if err != nil {
		return nil, err
	}
	if e.metrics, err = newMetrics(c.Registry, e.limits.counts, passwords); err != nil {
		return nil, err
	}
	e.limits.refusals = e.metrics.limited
	s := &Server{edge: e, site: site,
		sessions: &sessionHandlers{edge: e, accounts: accountReader{c.Actors}, passwords: passwords,
			delays: newDelayLine(), challenges: newChallenges()},
		checkouts: &checkoutHandlers{edge: e, site: site,
			library: rendered.library, reference: rendered.reference},
		reports: &reportHandlers{e, reports.NewProcessor(c.Actors, c.Logger)}}
	if c.Mail != nil {
		s.sessions.mails = mail.NewQueue(mail.Options{Sender: c.Mail, Log: c.Logger,
			Dropped: func(reason string) { e.metrics.droppedMails.WithLabelValues(reason).Inc() }})
	}
	treasury := newTreasuryHandlers(e, calendar)
	s.tools = &toolHandlers{edge: e}
	s.table = s.allRoutes(treasury, &cardHandlers{edge: e, calendar: calendar})
	s.tools.addTools(s.table)
	s.pages = &pageHandlers{edge: e, site: pages, accounts: accountReader{c.Actors}, program: rendered.program}
	s.pages.addRoutes(s.table)
	s.handler = s.newRouter(s.table)
	s.httpServer = newHTTPServer(s.handler, s.refuseMalformed, c.Logger, c.Edge)
	if s.secure {
		s.httpServer.requireHTTPS()
	}
	return s, nil
}

// Serve answers requests from a listener until Shutdown, and then returns nil. It may be called for
// several listeners. It returns the error of a listener that fails earlier. A server behind a Front
// does not Serve.
func (s *Server) Serve(ln net.Listener) error {
	return s.httpServer.Serve(ln)
}

// Shutdown stops accepting requests, ends the open streams of events and waits for the running
// requests, at most until the context ends. It returns the context's error when requests are still
// running then.
func (s *Server) Shutdown(ctx context.Context) error {
	s.streams.endStreams()
	err := s.httpServer.Shutdown(ctx)
	s.stopBackground()
	return err
}

// stopBackground cancels the work that requests started in the background, and waits until the
// records of key use are written. Mails that wait are dropped.
func (s *Server) stopBackground() {
	s.cancel()
	if s.sessions.mails != nil {
		s.sessions.mails.Close()
	}
	s.keyUsage.waitIdle()
}

// serveRoute runs the checks of a route in their order, then its handler. It writes the answer or
// the refusal, logs and counts the request.
func (s *Server) serveRoute(ctx *fasthttp.RequestCtx, r *route) {
	start, id := s.actors.Clock(), s.assignRequestID(ctx)
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	c := newCall(ctx, r, start)
	c.id = id
	a, err := s.checkAndRun(ctx, c)
	if err != nil {
		a = s.refusalOf(id, r.method, err)
		if !c.authenticated {
			countRefusal(ctx, a)
		}
		if r.rpc {
			a = asRPC(a, front.Arrived(ctx))
		}
	}
	s.writeAnswer(ctx, a)
	if err != nil && r.path == entryPath && prefersHTML(c.header.accept) {
		s.checkouts.showRefusal(ctx, web.Nowhere)
	}
	took := s.actors.Clock().Sub(start)
	s.recordRequest(id, r, a, took)
	s.requests.add(c, a, took)
}

// countRefusal counts a refusal with a status below 500 against the client's address. Server errors
// are not the client's fault and do not count.
func countRefusal(ctx *fasthttp.RequestCtx, a answer) {
	if a.status < fasthttp.StatusInternalServerError {
		front.CountRefusal(ctx)
	}
}

// checkAndRun checks a request in the documented order and runs its handler: framing, address and
// form of the credentials, body, caller and permissions, disk room, Idempotency-Key, query. It
// returns the first check's fault or the handler's error.
func (s *Server) checkAndRun(ctx *fasthttp.RequestCtx, c *call) (answer, error) {
	if err := checkFraming(ctx); err != nil {
		return answer{}, err
	}
	if err := s.admitHead(c); err != nil {
		return answer{}, err
	}
	if err := s.readBody(ctx, c); err != nil {
		return answer{}, err
	}
	defer s.startTimer(c)()
	r := c.route
	// Verifying a signature costs processor time alone; any other caller is looked up at an actor.
	if r.auth != authPartner {
		front.EndTurn(ctx)
	}
	if err := s.admitCaller(c); err != nil {
		return answer{}, err
	}
	front.EndTurn(ctx)
	if r.auth == authPartner {
		front.Prove(ctx)
	}
	if err := s.requireRoom(c); err != nil {
		return answer{}, err
	}
	if err := c.readIdempotencyKey(); err != nil {
		return answer{}, err
	}
	if err := c.readQuery(ctx.QueryArgs()); err != nil {
		return answer{}, err
	}
	return s.limits.runHandler(c)
}

// FullDisk is the level of free space down to which a request is served.
type FullDisk uint8

const (
	// DownToReserve is for requests that store more.
	DownToReserve FullDisk = iota
	// DownToLastReserve is for requests that restrict or end something, and for partners' reports.
	DownToLastReserve
)

// lastBody is the longest body, in bytes, that is accepted on a nearly full disk. Partners' reports
// are exempt.
const lastBody = 4 << 10

// checkFraming refuses messages that two servers in a row could parse differently, and bodies with
// a Content-Encoding. It reads the raw header, because fasthttp accepts two lengths, folded lines,
// any name and any line ending. It fails with invalid_request, after which the connection closes,
// or with unsupported_media_type for a Content-Encoding. Every request passes it first, also one
// without a route.
func checkFraming(ctx *fasthttp.RequestCtx) error {
	var length, transfer, encoding bool
	for line := range bytes.Lines(ctx.Request.Header.RawHeaders()) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		if len(bytes.TrimSpace(line)) > 0 && !isToken(name) || !bytes.HasSuffix(line, []byte("\r\n")) {
			ctx.SetConnectionClose()
			return fault.New(invalidRequest, "a line of the header is not a name, a colon and a value")
		}
		switch strings.ToLower(string(name)) {
		case "content-length":
			length = true
		case "transfer-encoding":
			transfer = true
		case "content-encoding":
			encoding = true
		}
	}
	switch {
	case length && transfer:
		ctx.SetConnectionClose()
		return fault.New(invalidRequest, "Content-Length and Transfer-Encoding exclude each other")
	case encoding:
		return fault.New(fault.UnsupportedMediaType, "send the body without Content-Encoding")
	}
	return nil
}

// isToken reports whether a header name is a token by RFC 9110. The continuation of a folded line
// begins with a space, which is no token.
func isToken(name []byte) bool {
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return len(name) > 0
}

// notFound answers a path outside the route table. The request counts against its address.
func (s *Server) notFound(ctx *fasthttp.RequestCtx) {
	s.refuseUnrouted(ctx, noRoute)
}

// methodNotAllowed answers a method that the path does not take. The router has set Allow.
func (s *Server) methodNotAllowed(ctx *fasthttp.RequestCtx) {
	allow := strings.TrimPrefix(string(ctx.Response.Header.Peek("Allow")), "OPTIONS, ")
	allow = strings.TrimSuffix(strings.Replace(allow, ", OPTIONS,", ",", 1), ", OPTIONS")
	s.refuseUnrouted(ctx, fault.New(fault.MethodNotAllowed, "the path takes the methods of the Allow header"))
	ctx.Response.Header.Set("Allow", allow)
}

// refuseUnrouted answers a request without a route: with a fault of its framing, else with
// rate_limited when its address is over the limit, else with f.
func (s *Server) refuseUnrouted(ctx *fasthttp.RequestCtx, f *fault.Error) {
	var err error = f
	if framing := checkFraming(ctx); framing != nil {
		err = framing
	} else if limited := s.limits.countAddress(peerOf(front.ClientOf(ctx))); limited != nil {
		err = limited
	}
	s.refuseVisitor(ctx, &unrouted, err)
}

// noPath is the path in the log and the metrics of a request that reached no route.
const noPath = "-"

// unrouted stands for all requests that reached no route.
var unrouted = route{method: "-", path: noPath}

// refuseVisitor writes a refusal: a page to a browser, JSON to a program.
func (s *Server) refuseVisitor(ctx *fasthttp.RequestCtx, r *route, err error) {
	s.writeRefusal(ctx, r, err)
	if prefersHTML(acceptOf(&ctx.Request.Header)) {
		s.checkouts.showRefusal(ctx, web.Nowhere)
	}
}

// refusePanicked answers a request whose handler panicked: 500 internal, and the connection closes.
// The handler's effects are unknown. The stack goes to the log.
func (s *Server) refusePanicked(ctx *fasthttp.RequestCtx, cause any) {
	ctx.SetConnectionClose()
	r, known := ctx.UserValue(routeValue{}).(*route)
	if !known {
		r = &unrouted
	}
	s.refuseVisitor(ctx, r, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
}

// refuseMalformed answers bytes that fasthttp could not parse as a request, with the status of
// malformedFault.
func (s *Server) refuseMalformed(ctx *fasthttp.RequestCtx, err error) {
	s.writeRefusal(ctx, &unrouted, malformedFault(err))
}

// timeoutError is smaller than net.Error, because not every timeout of a connection implements
// Temporary.
type timeoutError interface {
	error
	Timeout() bool
}

// malformedFault returns the fault of bytes that are not a request: header_too_large,
// body_too_large, request_timeout or invalid_request. The message quotes none of the bytes.
func malformedFault(err error) *fault.Error {
	if _, small := errors.AsType[*fasthttp.ErrSmallBuffer](err); small {
		return fault.New(fault.HeaderTooLarge, fmt.Sprintf("the request line and header have at most %d bytes",
			maxHeader))
	}
	if errors.Is(err, fasthttp.ErrBodyTooLarge) {
		return fault.New(fault.BodyTooLarge, "the body is too large")
	}
	if late, ok := errors.AsType[timeoutError](err); ok && late.Timeout() {
		return fault.New(requestTimedOut, "the request did not arrive in time")
	}
	return fault.New(invalidRequest, "the request is not valid HTTP")
}
