package httpapi

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"purser/actors/workspace"
	"purser/httpapi/dashboard"
	"purser/httpapi/openapi"
)

// authKind is the kind of credentials that a route requires.
type authKind uint8

const (
	authNone         authKind = 1 + iota // none
	authKey                              // an API key; a session is ignored
	authKeyOrSession                     // the key of the Authorization header, or else a session
	authSession                          // a dashboard session; a key is session_required
	authPartner                          // a signed report of a partner
)

// idempotencyKind is a route's treatment of an Idempotency-Key.
type idempotencyKind uint8

const (
	keyIgnored idempotencyKind = iota // checked for its form only
	keyOptional
	keyRequired
)

// route is one row of the table: the checks that run before the handler, and the handler.
type route struct {
	method, path string
	auth         authKind
	partner      string   // the partner whose reports an authPartner route takes
	scope        string   // the scope a key must hold; "" for any valid key
	roles        []string // the roles that a session must hold in its workspace; nil: no workspace is required
	sandboxOnly  bool
	kyb          bool // live mode needs approved verification
	physical     bool // needs the product of physical cards
	currencies   bool // needs balances in currencies connected
	converts     bool // needs conversions between currencies
	unavailable  bool // refused as capability_unavailable before any other check of the request
	ramp         bool // needs the ramp connected
	mail         bool // needs a mail server
	idempotency  idempotencyKind
	query        []string // the query parameters
	use          string   // the replacement of a retired route, refused as gone before any other check of the request
	rpc          bool     // refuses callers in JSON-RPC too
	signsIn      bool     // answers with a session
	readsLog     bool     // reads the request log, and is not listed in it
	// onFullDisk marks a route that a nearly full disk still serves: it reads, restricts or ends
	// something. Every GET, every DELETE and partners' reports are served without the mark.
	onFullDisk bool
	maxBody    int // bytes; 0 means the package's maxBody
	handle     func(*call) (answer, error)
}

func (r *route) describedOperation() openapi.Operation {
	return openapi.Operation{Method: r.method, Path: r.path}
}

// anyMember holds the roles that may read the resources of a workspace, managers those that may
// change them.
var (
	anyMember = []string{workspace.Owner, workspace.Admin, workspace.Member}
	managers  = []string{workspace.Owner, workspace.Admin}
)

// neverReached is the handler of a route that is refused as unavailable before it runs.
func neverReached(c *call) (answer, error) {
	return answer{}, fmt.Errorf("%s %s ran though it is not available", c.method, c.path)
}

// allRoutes returns the whole route table. Each resource lists its rows beside its handlers.
func (s *Server) allRoutes(treasury *treasuryHandlers, cards *cardHandlers) []route {
	workspaces, agents := &workspaceHandlers{s.edge, accountReader{s.actors}}, &agentHandlers{s.edge}
	currencies, ramp, endpoints := &currencyHandlers{s.edge}, &rampHandlers{s.edge}, &endpointHandlers{s.edge}
	var all []route
	for _, resource := range []func() []route{
		workspaces.workspaceRoutes, workspaces.keyRoutes,
		cards.cardRoutes, cards.physicalRoutes, cards.cardholderRoutes,
		agents.agentRoutes,
		cards.authorizationRoutes, cards.simulateRoutes,
		treasury.treasuryRoutes, treasury.ledgerRoutes, treasury.statementRoutes, treasury.counterpartyRoutes,
		treasury.payoutRoutes,
		treasury.fxRoutes,
		currencies.mcaRoutes, currencies.conversionRoutes, ramp.rampRoutes, ramp.rampWalletRoutes,
		treasury.paymentRoutes, s.checkouts.checkoutRoutes, s.reports.webhookRoutes,
		s.sessions.dashboardRoutes, workspaces.memberRoutes, workspaces.invitationRoutes,
		endpoints.webhookEndpointRoutes, (&requestLogHandlers{s.edge}).requestLogRoutes,
		s.tools.mcpRoutes, s.descriptionRoutes, s.entryRoutes,
	} {
		all = append(all, resource()...)
	}
	return all
}

func (s *Server) descriptionRoutes() []route {
	return []route{{method: "GET", path: "/api/v1/openapi.json", auth: authNone, handle: func(*call) (answer, error) {
		return answer{status: fasthttp.StatusOK, body: s.openapi.JSON()}, nil
	}}}
}

// mountRoute mounts a handler for a path and answeredMethods of a method.
func mountRoute(r *router.Router, method, path string, handle fasthttp.RequestHandler) {
	for _, answered := range answeredMethods(method) {
		r.Handle(answered, path, handle)
	}
}

// answeredMethods returns the methods that a route's handler answers. A GET handler answers HEAD
// too, because RFC 9110 requires both of every server. fasthttp then sends the headers,
// Content-Length included, without the body.
func answeredMethods(method string) []string {
	if method == fasthttp.MethodGet {
		return []string{method, fasthttp.MethodHead}
	}
	return []string{method}
}

// newRouter mounts the table. An unknown path is not_found; a known path with another method is
// method_not_allowed. It panics for a row without a handler, credentials or partner.
func (s *Server) newRouter(table []route) fasthttp.RequestHandler {
	r := router.New()
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	r.HandleOPTIONS = false
	r.NotFound = s.notFound
	r.MethodNotAllowed = s.methodNotAllowed
	r.PanicHandler = s.refusePanicked
	for i := range table {
		row := &table[i]
		if row.handle == nil || row.auth == 0 || (row.auth == authPartner) != (row.partner != "") {
			panic(fmt.Sprintf("BUG: route %s %s is incomplete", row.method, row.path))
		}
		mountRoute(r, row.method, row.path, func(ctx *fasthttp.RequestCtx) { s.serveRoute(ctx, row) })
	}
	s.checkouts.mountHosted(r)
	s.pages.mountPages(r, s.checkouts.mountPage)
	literal := literalPaths(table)
	dropSlash := s.checkouts.hostedHandler(fasthttp.MethodGet, noPath, redirectWithoutSlash)
	return func(ctx *fasthttp.RequestCtx) {
		path := ctx.URI().PathOriginal()
		if string(path) == "*" || bytes.Contains(path, []byte("//")) {
			// The router matches "*" with every path, and an empty segment with any parameter.
			s.notFound(ctx)
			return
		}
		if methods := literal[string(path)]; methods != nil && !slices.Contains(methods, string(ctx.Method())) {
			ctx.Response.Header.Set("Allow", strings.Join(methods, ", "))
			s.methodNotAllowed(ctx)
			return
		}
		if (ctx.IsGet() || ctx.IsHead()) && isPageWithSlash(string(path)) {
			dropSlash(ctx)
			return
		}
		r.Handler(ctx)
	}
}

// isPageWithSlash reports whether a path is one below those of pages, and ends in a slash, which
// the path of no page does.
func isPageWithSlash(path string) bool {
	roots := []string{dashboard.Root, "/docs", "/checkout"}
	return strings.HasSuffix(path, "/") && slices.ContainsFunc(roots,
		func(root string) bool { return strings.HasPrefix(path, root+"/") })
}

// redirectWithoutSlash answers 308 with the request's address without the slash at the end of its
// path.
func redirectWithoutSlash(ctx *fasthttp.RequestCtx, _ *call) error {
	location := strings.TrimRight(string(ctx.URI().PathOriginal()), "/")
	if query := ctx.URI().QueryString(); len(query) > 0 {
		location += "?" + string(query)
	}
	ctx.SetStatusCode(fasthttp.StatusPermanentRedirect)
	ctx.Response.Header.Set("Location", location)
	return nil
}

// literalPaths maps each path that a path with parameters also matches to its methods. Such a path
// takes these methods only: /members/leave is never a member with the id leave.
func literalPaths(table []route) map[string][]string {
	methods := map[string][]string{}
	for _, literal := range table {
		if strings.Contains(literal.path, "{") {
			continue
		}
		if slices.ContainsFunc(table, func(r route) bool { return pathMatches(r.path, literal.path) }) {
			methods[literal.path] = append(methods[literal.path], answeredMethods(literal.method)...)
			slices.Sort(methods[literal.path])
		}
	}
	return methods
}

// pathMatches reports whether a pattern with parameters matches a path.
func pathMatches(pattern, path string) bool {
	parts, others := strings.Split(pattern, "/"), strings.Split(path, "/")
	if !strings.Contains(pattern, "{") || len(parts) != len(others) {
		return false
	}
	for i, part := range parts {
		if part != others[i] && !strings.HasPrefix(part, "{") {
			return false
		}
	}
	return true
}
