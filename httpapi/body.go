package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"purser/actors/fault"
	"purser/authorizer/front"
	"purser/httpapi/webhook"
	"purser/persistence/ident"
)

// Limits of request bodies, in bytes; a longer body answers 413.
const (
	maxBody  = 64 << 10 // unless the route names another limit
	wideBody = 1 << 20  // of a card: 1,000 merchants of 80 characters, each written as a \u escape
)

// bodyLimit returns the longest body, in bytes, that a route takes.
func (r *route) bodyLimit() int {
	if r.maxBody > 0 {
		return r.maxBody
	}
	return maxBody
}

// admitHead checks the head of a request before its body is read: the limit of its address and the
// form of its credentials. admitCaller authenticates the caller later. It fails with rate_limited,
// with unauthorized for a malformed key or cookie, and with signature_invalid for a partner's
// malformed signature.
func (e *edge) admitHead(c *call) error {
	if c.route.auth == authPartner {
		if !webhook.Formed(c.header.signature, e.cfg.PartnerSignatures, e.actors.WallTime()) {
			return fault.New(fault.SignatureInvalid, "")
		}
		return nil
	}
	if err := e.limits.countAddress(c.peer); err != nil {
		return err
	}
	return c.credentialsForm()
}

// credentialsForm refuses a missing or malformed credential with unauthorized, without a look-up.
// authenticateCaller looks it up later.
func (c *call) credentialsForm() error {
	switch r := c.route; {
	case r.auth == authNone:
		return nil
	case r.auth != authKey && !c.header.hasAuthorization:
		if _, _, err := ident.ParseSecret(ident.SessionSecret, c.header.cookie); err != nil {
			return noSession()
		}
		return nil
	}
	scheme, secret, _ := strings.Cut(c.header.authorization, " ")
	if _, _, err := ident.ParseSecret(ident.APISecret, strings.TrimSpace(secret)); err != nil ||
		!strings.EqualFold(scheme, "Bearer") {
		return noValidKey()
	}
	return nil
}

// readBody reads the body of a request that may have one; a GET or HEAD has none. The call's time
// is that of the last byte from then on. It fails with body_too_large, with unavailable when the
// server reads too many bodies, with request_timeout, and with invalid_request.
func (e *edge) readBody(ctx *fasthttp.RequestCtx, c *call) error {
	if ctx.IsGet() || ctx.IsHead() {
		return nil
	}
	body, err := front.ReadBody(ctx, c.route.bodyLimit())
	if err != nil {
		return bodyUnread(err, c.route.bodyLimit())
	}
	c.body, c.now = body, e.actors.Clock()
	return nil
}

// bodyUnread turns an error of front.ReadBody into a fault: unavailable, body_too_large, or
// malformedFault's. limit is the route's, in bytes.
func bodyUnread(err error, limit int) *fault.Error {
	switch {
	case errors.Is(err, front.ErrBudget):
		return fault.New(fault.Unavailable, "the server reads too many bodies at the moment; nothing changed")
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return fault.New(fault.BodyTooLarge, fmt.Sprintf("a body of this route has at most %d bytes", limit))
	}
	return malformedFault(err)
}

// startTimer sets the call's context, which ends after Config.RequestTimeout.
func (e *edge) startTimer(c *call) (cancel context.CancelFunc) {
	c.ctx, cancel = context.WithTimeout(e.base, e.cfg.RequestTimeout)
	return cancel
}
