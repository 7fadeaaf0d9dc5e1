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
	"purser/authorizer/front"
	"purser/httpapi/mcp"
	"purser/persistence/ident"
)

// call is one request, copied out of fasthttp, with the caller that authentication found.
type call struct {
	ctx   context.Context
	route *route
	now   time.Time
	id    string // the request id that the answer carries

	method, path string // path as requested, its parameters filled in
	peer         string // the client, as peerOf names it for the limits
	params       map[string]string
	query        map[string]string
	body         []byte
	header       header

	who caller
	// the route requires credentials, and the caller has shown valid ones
	authenticated bool
	// the partner's signature covers the path of the report
	pathSigned bool
	// key is the Idempotency-Key in canonical form; "" when there is none.
	key     string
	charged int  // bytes of tools' answers and reads that chargeBytes has counted already
	read    int  // bytes of ledger lines and parts that the handler has read beyond its answer, about
	passed  int  // bytes of other records that its lists have read beyond its answer
	ofPage  bool // a page of the dashboard runs the call
}

// header holds the request headers that Purser reads.
type header struct {
	authorization, cookie, idempotencyKey, workspaceID, origin, fetchSite, host, contentType, accept, signature string
	hasAuthorization, hasIdempotencyKey                                                                         bool
	rpc                                                                                                         mcp.Head // set for a route with rpc
}

// caller is the principal of a request: a key with the Access of its workspace, or a user, with an
// Access when the route concerns a workspace.
type caller struct {
	access  workspace.Access
	user    string // usr_ id of a session
	session string // hash of the session's secret
}

// workspace returns the workspace that the request concerns; "" for a session without one.
func (c *caller) workspace() string { return c.access.Workspace }

// asPrincipal returns the author of the caller's changes: the user of a session, or else the API
// key.
func (c *caller) asPrincipal() workspace.Principal {
	if c.user != "" {
		return workspace.Principal{UserID: c.user}
	}
	return c.access.Principal
}

// author returns the id of asPrincipal: the session's user or the API key.
func (c *caller) author() string {
	by := c.asPrincipal()
	return by.UserID + by.KeyID
}

// keyScope returns the scope of idempotency keys and of concurrent requests: the workspace, or the
// user of a session without one; "" for an anonymous caller.
func (c *caller) keyScope() string {
	if c.workspace() == "" {
		return c.user
	}
	return c.workspace()
}

// slot returns the slot of the caller's workspace, in which its new records are stored. It fails
// only for a workspace id that does not parse, which is a fault of the program.
func (c *call) slot() (ident.Slot, error) {
	slot, err := ident.SlotOf(c.who.workspace())
	if err != nil {
		return 0, fmt.Errorf("slot of the caller's workspace: %w", err)
	}
	return slot, nil
}

// routeValue is the key of the route in the values of a request, for the log of a panic.
type routeValue struct{}

// acceptOf returns the values of all Accept headers.
func acceptOf(h *fasthttp.RequestHeader) string {
	return string(bytes.Join(h.PeekAll("Accept"), []byte(",")))
}

// newCall copies the head of a request. Nothing in the call aliases the RequestCtx. readBody adds
// the body, startTimer the context. A header that is given twice reads as "" and is refused later.
// Every route and hosted page begins with it.
func newCall(ctx *fasthttp.RequestCtx, r *route, now time.Time) *call {
	c := &call{route: r, now: now, method: string(ctx.Method()), path: string(ctx.URI().PathOriginal()),
		peer: peerOf(front.ClientOf(ctx)), params: map[string]string{}, query: map[string]string{}}
	h := &ctx.Request.Header
	read := func(name string) string { return string(h.Peek(name)) }
	// A header that is given twice reads as "", which no check of a caller accepts.
	only := func(name string) string {
		if len(h.PeekAll(name)) > 1 {
			return ""
		}
		return read(name)
	}
	c.header = header{
		authorization: only("Authorization"), cookie: onlyCookie(h), idempotencyKey: only("Idempotency-Key"),
		workspaceID: read("X-Workspace-Id"), origin: read("Origin"), fetchSite: read("Sec-Fetch-Site"),
		host:        string(h.Host()),
		contentType: read("Content-Type"), accept: acceptOf(h),
		signature: only("partner-signature"), hasAuthorization: len(h.PeekAll("Authorization")) > 0,
		hasIdempotencyKey: len(h.PeekAll("Idempotency-Key")) > 0,
	}
	if r.rpc {
		c.header.rpc = mcp.Head{Version: read("MCP-Protocol-Version"), Method: read("Mcp-Method"), Name: read("Mcp-Name")}
	}
	ctx.SetUserValue(routeValue{}, r)
	ctx.VisitUserValues(func(name []byte, value any) {
		if text, ok := value.(string); ok {
			c.params[string(name)] = strings.Clone(text)
		}
	})
	return c
}

// onlyCookie returns the session's cookie. It returns "" when there are two, because a neighbouring
// site can plant one beside ours.
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

// readQuery reads the query. It fails with invalid_query for a parameter that the route does not
// take, because a misspelt filter must not return every record, and for one that is given twice.
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

// unknownParameter names the parameter, unless its characters are unusual: it could then be a
// secret.
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
	file     *file // the content type and name of a body that is not JSON
	isPage   bool  // the body is HTML for a browser
	cookie   *fasthttp.Cookie
	location string // the target of a redirect, or ""
	replayed bool
	code     fault.Code    // the code of a refusal
	wait     time.Duration // the shortest useful wait before a retry; 0 gives no advice
}

// file is the content type and name of a body that the client saves as a file.
type file struct{ contentType, name string }

// replyWith returns an answer with a status and a document as its JSON body. It fails only for a
// document that JSON cannot represent.
func replyWith(status int, document any) (answer, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return answer{}, fmt.Errorf("render answer: %w", err)
	}
	return answer{status: status, body: body}, nil
}

// reply returns a 200 answer with a document as its JSON body.
func reply(document any) (answer, error) { return replyWith(fasthttp.StatusOK, document) }
