package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/fault"
	"purser/httpapi/openapi"
)

// edge checks every request before its handler runs, and writes the answer: framing, limits,
// credentials, permissions, body, idempotency key and query. The handlers of every group of
// resources embed it.
type edge struct {
	cfg      Config
	actors   Actors
	log      *slog.Logger
	origin   string // scheme://host of BaseURL
	secure   bool   // cookies are Secure
	openapi  *openapi.Document
	limits   *requestLimits
	keys     *keyCache
	keyUsage *keyUsage
	requests *requestLog
	streams  *eventStreams
	metrics  *metrics

	base   context.Context // parent of every request's context; Shutdown cancels it after the drain
	cancel context.CancelFunc
}

// newEdge makes the state that the handlers of all resources share. It fails for a description of
// the API that does not load and for a base URL that does not parse.
func newEdge(c Config) (*edge, error) {
	description, err := openapi.Load()
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("httpapi: base URL: %w", err)
	}
	e := &edge{cfg: c, actors: c.Actors, log: c.Logger, origin: base.Scheme + "://" + base.Host,
		secure: base.Scheme == "https", openapi: description, limits: newRequestLimits(c),
		keys: newKeyCache(maxCachedKeys), requests: newRequestLog(c.Actors.Clock)}
	e.base, e.cancel = context.WithCancel(context.Background())
	e.keyUsage, e.streams = newKeyUsage(e), newEventStreams(e.base, c.Streams)
	return e, nil
}

// requireRoom refuses a request that would store data while the disk is nearly full, with the fault
// of Config.Full. GETs pass. Partners' reports, DELETEs and routes that free or protect money pass
// until the last reserve.
func (e *edge) requireRoom(c *call) error {
	switch r := c.route; {
	case r.method == fasthttp.MethodGet, r.rpc:
		return nil
	case r.auth == authPartner, len(c.body) <= lastBody && (r.method == fasthttp.MethodDelete || r.onFullDisk):
		return e.cfg.Full(DownToLastReserve)
	}
	return e.cfg.Full(DownToReserve)
}

// admitCaller authenticates the caller and checks its limits and permissions. It runs after the
// body is read: a key that is revoked while a body arrives does nothing. It fails like
// authenticateCaller, countCaller and checkPermissions, in this order.
func (e *edge) admitCaller(c *call) error {
	if err := e.authenticateCaller(c); err != nil {
		return err
	}
	c.authenticated = c.route.auth != authNone
	if err := e.limits.countCaller(c); err != nil {
		return err
	}
	return e.checkPermissions(c)
}

// checkPermissions checks the caller's permissions, and the capability, mode and verification that
// the route requires. It fails like authorizeCaller, and with gone, capability_unavailable,
// sandbox_only or kyb_required. Requests and MCP tools are checked by it.
func (e *edge) checkPermissions(c *call) error {
	if err := e.authorizeCaller(c); err != nil {
		return err
	}
	switch r, access := c.route, c.who.access; {
	case r.use != "":
		return &fault.Error{Code: fault.Gone, Use: r.use}
	case r.unavailable:
		return fault.New(fault.CapabilityUnavailable, "coming soon")
	case r.currencies && e.cfg.NoCurrencies:
		return fault.New(fault.CapabilityUnavailable, "balances in currencies are not connected")
	case r.converts && (e.cfg.NoCurrencies || !e.cfg.Convert):
		return fault.New(fault.CapabilityUnavailable, "converting is not available")
	case r.sandboxOnly && access.Mode != modeSandbox:
		return fault.New(fault.SandboxOnly, "")
	case r.ramp && e.cfg.NoRamp:
		return fault.New(fault.CapabilityUnavailable, "the ramp is not connected")
	case r.mail && e.cfg.Mail == nil:
		return fault.New(fault.CapabilityUnavailable, "this server sends no mail; its operator makes a link")
	case r.kyb && access.Mode != modeSandbox && access.KYBStatus != kybApproved:
		return &fault.Error{Code: fault.KYBRequired, KYBStatus: access.KYBStatus}
	case r.physical && e.cfg.NoPhysical:
		return fault.New(fault.CapabilityUnavailable, "physical cards are not available")
	}
	return nil
}

// writeAnswer writes an answer's status, headers and body. It sets Retry-After for a refusal with a
// wait and for every 503.
func (e *edge) writeAnswer(ctx *fasthttp.RequestCtx, a answer) {
	ctx.Response.ResetBody()
	ctx.SetStatusCode(a.status)
	h := &ctx.Response.Header
	h.SetContentType("application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if a.isPage {
		protectPage(h)
		h.SetContentType("text/html; charset=utf-8")
	}
	if a.file != nil {
		h.SetContentType(a.file.contentType)
		h.Set("Content-Disposition", `attachment; filename="`+a.file.name+`"`)
	}
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if a.wait > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((a.wait+time.Second-1)/time.Second), 10))
		h.Set("x-ratelimit-reset-ms", strconv.FormatInt(int64((a.wait+time.Millisecond-1)/time.Millisecond), 10))
	}
	if a.wait == 0 && a.status == fasthttp.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(int(unavailableRetry/time.Second)))
	}
	if a.cookie != nil {
		h.SetCookie(a.cookie)
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	ctx.Response.SetBodyRaw(a.body)
}

// writeRefusal writes, counts and logs the error response of a request that got no answer of its
// route.
func (e *edge) writeRefusal(ctx *fasthttp.RequestCtx, r *route, err error) {
	id := e.assignRequestID(ctx)
	a := e.refusalOf(id, fasthttp.MethodGet, err)
	countRefusal(ctx, a)
	e.writeAnswer(ctx, a)
	e.recordRequest(id, r, a, 0)
}
