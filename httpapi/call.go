package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/fault"
	"purser/actors/workspace"
	"purser/authorizer/drain"
	"purser/persistence/ident"
)

// call is one request, copied out of fasthttp, with the caller that the checks identified.
type call struct {
	ctx   context.Context
	route *route
	now   time.Time
	id    string // of the request, as its answer tells it

	method, path string // the concrete path
	peer         string // whose request it is, as limits count addresses
	params       map[string]string
	query        map[string]string
	body         []byte
	header       header

	who caller
	// authenticated: the route requires credentials, and the caller has shown valid ones
	authenticated bool
	// pathSigned: the partner's signature covers the path of the report
	pathSigned bool
	key        string // the Idempotency-Key in canonical form, "" when there is none
	charged    int    // bytes of answers of tools that are counted already
}

// header holds the request headers that Purser reads.
type header struct {
	authorization, cookie, idempotencyKey, workspaceID, origin, fetchSite, host, contentType, accept, signature string
	hasAuthorization, hasIdempotencyKey                                                                         bool
}

// caller is the principal of a request: a key with the Access of its workspace, or a user, with an
// Access when the route concerns a workspace.
type caller struct {
	access  workspace.Access
	user    string // usr_ id of a session
	session string // hash of the session's secret
}

// workspace is the tenant the request is about; "" for a session without one.
func (c *caller) workspace() string { return c.access.Workspace }

func (c *caller) principal() workspace.Principal {
	if c.user != "" {
		return workspace.Principal{UserID: c.user}
	}
	return c.access.Principal
}

// tenant scopes idempotency keys: the workspace, or the user of a session without one.
func (c *caller) tenant() string {
	if c.workspace() == "" {
		return c.user
	}
	return c.workspace()
}

// slot is where the caller's new records go.
func (c *call) slot() (ident.Slot, error) {
	slot, err := ident.SlotOf(c.who.workspace())
	if err != nil {
		return 0, fmt.Errorf("slot of the caller's workspace: %w", err)
	}
	return slot, nil
}

// newCall copies the head of a request. Nothing in it aliases the RequestCtx. readBody adds the
// body, startTimer the context.
func newCall(ctx *fasthttp.RequestCtx, r *route, now time.Time) *call {
	c := &call{route: r, now: now, method: string(ctx.Method()), path: string(ctx.URI().PathOriginal()),
		peer: peerOf(drain.ClientOf(ctx)), params: map[string]string{}, query: map[string]string{}}
	h := &ctx.Request.Header
	read := func(name string) string { return string(h.Peek(name)) }
	only := func(name string) string { // "" when it is given twice, which no caller's check lets through
		if len(h.PeekAll(name)) > 1 {
			return ""
		}
		return read(name)
	}
	c.header = header{
		authorization: only("Authorization"), cookie: onlyCookie(h), idempotencyKey: only("Idempotency-Key"),
		workspaceID: read("X-Workspace-Id"), origin: read("Origin"), fetchSite: read("Sec-Fetch-Site"), host: string(h.Host()),
		contentType: read("Content-Type"), accept: string(bytes.Join(h.PeekAll("Accept"), []byte(","))),
		signature: only("partner-signature"), hasAuthorization: len(h.PeekAll("Authorization")) > 0,
		hasIdempotencyKey: len(h.PeekAll("Idempotency-Key")) > 0,
	}
	ctx.VisitUserValues(func(name []byte, value any) {
		if text, ok := value.(string); ok {
			c.params[string(name)] = strings.Clone(text)
		}
	})
	return c
}

// onlyCookie is the session's cookie; "" when there are two: a neighbouring site can plant one beside ours.
func onlyCookie(h *fasthttp.RequestHeader) (secret string) {
	n := 0
	for name, value := range h.Cookies() {
		if string(name) == sessionCookie {
			secret = string(value)
			n++
		}
	}
	if n > 1 {
		return ""
	}
	return secret
}

// readQuery refuses parameters that the route does not take: a misspelt filter must not answer everything.
func (c *call) readQuery(args *fasthttp.Args) error {
	for name, value := range args.All() {
		key := string(name)
		if !slices.Contains(c.route.query, key) {
			return unknownParameter(key)
		}
		if _, twice := c.query[key]; twice {
			return fault.New(fault.InvalidQuery, key+" is given twice")
		}
		c.query[key] = string(value)
	}
	return nil
}

// unknownParameter names the parameter unless it is so odd that it may be anything, a secret included.
func unknownParameter(name string) error {
	if !plainID(name) {
		name = "a query parameter"
	}
	return fault.New(fault.InvalidQuery, name+" is not known to this route")
}

// answer is the response: a status and a JSON body, or a file.
type answer struct {
	status   int
	body     []byte
	file     *file // what the body is when it is not JSON
	isPage   bool  // the body is HTML for a browser
	cookie   *fasthttp.Cookie
	replayed bool
	code     fault.Code    // of a refusal
	wait     time.Duration // until a retry makes sense; 0 for no such advice
}

// file is the content type and name of a body that the client saves as a file.
type file struct{ contentType, name string }

// replyWith renders a document with a status.
func replyWith(status int, document any) (answer, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return answer{}, fmt.Errorf("render answer: %w", err)
	}
	return answer{status: status, body: body}, nil
}

// reply renders a document with 200.
func reply(document any) (answer, error) { return replyWith(fasthttp.StatusOK, document) }
