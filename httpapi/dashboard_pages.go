package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/url"
	"slices"
	"strings"

	"github.com/fasthttp/router"
	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/workspace"
	"purser/authorizer/front"
	"purser/httpapi/dashboard"
	"purser/persistence/ident"
)

// pageRow stands for every page of the dashboard in the checks of a request, and in the log and the
// metrics where the request is no form.
var pageRow = route{method: "GET", path: dashboard.Root, auth: authNone, signsIn: true, maxBody: maxBody}

// formRow stands for every form of the dashboard in the log and the metrics.
var formRow = route{method: "POST", path: dashboard.Root}

// pageHandlers serve the pages of the dashboard, which run operations of the table of routes.
type pageHandlers struct {
	*edge
	site     *dashboard.Site
	accounts accountReader
	routes   map[string]*route // by "METHOD /path"
	program  string            // that signs an intent, for the shell
}

// addRoutes gives the pages the operations that they may run. It panics when a form's operation is
// not in the table.
func (h *pageHandlers) addRoutes(table []route) {
	h.routes = map[string]*route{}
	for i := range table {
		h.routes[table[i].method+" "+table[i].path] = &table[i]
	}
	for _, f := range h.site.Forms() {
		if h.routes[f.Method+" "+f.Path] == nil {
			panic("BUG: the form " + f.Name + " of " + f.Page + " runs an operation that is not a route")
		}
	}
}

// mountPages mounts the pages and their files, these with the checks of a hosted page. They are
// HTML, outside the described interface.
func (h *pageHandlers) mountPages(r *router.Router,
	hosted func(r *router.Router, method, path string, handle pageHandler)) {
	for _, method := range []string{fasthttp.MethodGet, fasthttp.MethodPost} {
		mountRoute(r, method, dashboard.Root, h.servePage)
		mountRoute(r, method, dashboard.Root+"/{path:*}", h.servePage)
	}
	hosted(r, fasthttp.MethodGet, dashboard.FilesPath+"{name}", h.showFile)
	hosted(r, fasthttp.MethodGet, dashboard.Root+"/{workspace}/live", h.streamChanges)
}

// showFile serves a style sheet or script of the dashboard by its versioned name, which browsers
// cache for a year. An unknown name is not_found.
func (h *pageHandlers) showFile(ctx *fasthttp.RequestCtx, c *call) error {
	return writeFile(ctx, h.site.Files, c.params["name"])
}

// servePage answers a request for a page or of a form, logs and counts it.
func (h *pageHandlers) servePage(ctx *fasthttp.RequestCtx) {
	start, id := h.actors.Clock(), h.assignRequestID(ctx)
	c := newCall(ctx, &pageRow, start)
	c.id = id
	a, err := h.answerPage(ctx, c)
	if err != nil {
		a = h.refusalPage(id, err)
	}
	if a.status >= fasthttp.StatusBadRequest && !c.authenticated {
		countRefusal(ctx, a)
	}
	h.writeAnswer(ctx, a)
	ctx.Response.Header.Set("Content-Security-Policy", dashboard.Policy)
	ctx.Response.Header.Set("Referrer-Policy", "same-origin") // else browsers send the Origin null with a form
	row := &pageRow
	if ctx.IsPost() {
		row = &formRow
	}
	h.recordRequest(id, row, a, h.actors.Clock().Sub(start))
}

// refusalPage turns an error before or behind a page into a page. Where none can be drawn it is
// JSON.
func (h *pageHandlers) refusalPage(id string, err error) answer {
	a := h.refusalOf(id, fasthttp.MethodGet, err)
	refused := answerOf(a)
	response, err := h.site.Refuse(refused)
	if err != nil {
		h.log.Error("a refusal is shown as JSON", "request", id, "err", err)
		return a
	}
	a.body, a.isPage = response.Body, true
	return a
}

// answerOf returns an answer as the pages read it: with the code and the message of a refusal.
func answerOf(a answer) dashboard.Answer {
	done := dashboard.Answer{Status: a.status, Body: a.body, Code: string(a.code), Wait: a.wait}
	if a.file != nil {
		done.File = &dashboard.File{Type: a.file.contentType, Name: a.file.name}
	}
	if a.status >= fasthttp.StatusBadRequest {
		var refused struct{ Error, Message string }
		if err := json.Unmarshal(a.body, &refused); err == nil {
			done.Code, done.Message = refused.Error, refused.Message
		}
	}
	return done
}

// answerPage checks a request like checkAndRun and renders its page. It fails with the first
// check's fault, with unsupported_media_type for a body that is no form, and like
// dashboard.Site.Serve.
func (h *pageHandlers) answerPage(ctx *fasthttp.RequestCtx, c *call) (a answer, err error) {
	if err := checkFraming(ctx); err != nil {
		return a, err
	}
	if err := h.admitHead(c); err != nil {
		return a, err
	}
	if err := h.readBody(ctx, c); err != nil {
		return a, err
	}
	defer h.startTimer(c)()
	// The turn of unauthenticated callers ends before a form may wait, such as for the queue of
	// passwords: each further connection needs one.
	front.EndTurn(ctx)
	if err := h.checkOrigin(c); err != nil {
		return a, err
	}
	visited := dashboard.Visit{Method: fasthttp.MethodGet, Now: c.now, BaseURL: h.cfg.BaseURL,
		IntentProgram: h.program,
		Path:          strings.Trim(strings.TrimPrefix(c.path, dashboard.Root), "/")}
	if visited.Query, err = url.ParseQuery(string(ctx.URI().QueryString())); err != nil {
		return a, fault.New(fault.InvalidQuery, "the query is malformed")
	}
	if c.method == fasthttp.MethodPost {
		visited.Method = c.method
		if visited.Form, err = c.readForm(); err != nil {
			return a, err
		}
	}
	if err := h.enterVisit(c, &visited); err != nil {
		return a, err
	}
	if err := h.limits.countCaller(c); err != nil {
		return a, err
	}
	if visited.Role != "" {
		if _, visited.Position, err = h.actors.ChangedSince(c.ctx, visited.Workspace, math.MaxUint64); err != nil {
			return a, err
		}
	}
	visitor := &pageVisit{handlers: h, call: c}
	visited.API = visitor
	response, err := h.site.Serve(&visited)
	a = answer{status: response.Status, body: response.Body, isPage: response.File == nil, cookie: visitor.cookie,
		wait: response.Wait, location: response.Location}
	if response.File != nil {
		a.file = &file{response.File.Type, response.File.Name}
	}
	return a, err
}

// readForm reads the body of a form. It fails with unsupported_media_type and invalid_body.
func (c *call) readForm() (url.Values, error) {
	media, _, err := mime.ParseMediaType(c.header.contentType)
	if err != nil || media != "application/x-www-form-urlencoded" {
		return nil, fault.New(fault.UnsupportedMediaType, "send a form")
	}
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return nil, fault.New(fault.InvalidBody, "the form is malformed")
	}
	return form, nil
}

// enterVisit finds the session of the cookie, and its role in the workspace of the path. Without a
// session, and in a workspace of others, the visit says so, which the pages answer. It fails with
// rate_limited and with an error of the store.
func (h *pageHandlers) enterVisit(c *call, v *dashboard.Visit) error {
	if first, _, _ := strings.Cut(v.Path, "/"); strings.HasPrefix(first, ident.Workspace+"_") {
		v.Workspace, c.header.workspaceID = first, first
	}
	hash, owner, err := h.sessionOf(c)
	if err != nil || owner == "" {
		return err
	}
	c.who, c.authenticated = caller{user: owner, session: hash}, true
	credential, err := h.accounts.readCredential(c.ctx, owner)
	if err != nil {
		return err
	}
	v.Email = credential.Email
	if v.Workspace == "" {
		return nil
	}
	if err := h.enterWorkspace(c); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if c.who.access.Role == "" {
		return nil
	}
	state, err := query.Workspaces.ReadPart(c.ctx, h.actors, v.Workspace, v.Workspace)
	v.Name, v.Role, v.Sandbox = state.Name, c.who.access.Role, c.who.access.Mode == modeSandbox
	if err != nil {
		return err
	}
	view, err := h.readUser(c.ctx, owner)
	for _, other := range view.Workspaces {
		if other.ID != v.Workspace && len(v.Workspaces) < dashboard.MaxSwitch {
			v.Workspaces = append(v.Workspaces, dashboard.Link{Text: other.Name, Href: dashboard.Root + "/" +
				other.ID})
		}
	}
	return err
}

// homeOf returns the address at which a signed-in person begins: the home page of the only
// workspace, or the list of them. It is "" without a session.
func (h *pageHandlers) homeOf(c *call) (string, error) {
	_, owner, err := h.sessionOf(c)
	if err != nil || owner == "" {
		return "", err
	}
	view, err := h.readUser(c.ctx, owner)
	if len(view.Workspaces) == 1 {
		return dashboard.Root + "/" + view.Workspaces[0].ID, err
	}
	return dashboard.Root, err
}

// pageVisit runs the operations of one request for a page, as its session.
type pageVisit struct {
	handlers *pageHandlers
	call     *call
	cookie   *fasthttp.Cookie // set by an operation that starts or ends a session
}

// May implements dashboard.API.
func (v *pageVisit) May(method, path string) bool {
	r := v.handlers.routes[method+" "+path]
	return r != nil && v.call.who.mayRun(r) && (!r.mail || v.handlers.cfg.Mail != nil)
}

// mayRun reports whether the role of a session permits a route. A route that names roles permits
// these; any other permits the roles that could have a key with its scope.
func (c *caller) mayRun(r *route) bool {
	switch {
	case r.auth == authNone:
		return true
	case c.user == "":
		return false
	case r.roles != nil:
		return slices.Contains(r.roles, c.access.Role)
	case r.auth == authSession, r.auth == authKeyOrSession:
		return true
	case r.auth != authKey || c.access.Role == "":
		return false
	}
	return r.scope == "" || workspace.Holds(workspace.RoleScopes(c.access.Role), r.scope)
}

// NewKey implements dashboard.API.
func (v *pageVisit) NewKey() (string, error) {
	id, err := uuid.NewRandomFromReader(v.handlers.actors.Entropy())
	return id.String(), err
}

// Do implements dashboard.API.
func (v *pageVisit) Do(op dashboard.Operation) dashboard.Answer {
	h := v.handlers
	start := h.actors.Clock()
	a, err := v.runOperation(op)
	if err != nil {
		a = h.refusalOf(v.call.id, op.Method, err)
	}
	if r := h.routes[op.Method+" "+op.Path]; r != nil && op.Method != fasthttp.MethodGet {
		took := h.actors.Clock().Sub(start)
		h.recordRequest(v.call.id, r, a, took)
		run := *v.call
		run.route = r
		h.requests.add(&run, a, took)
	}
	if a.cookie != nil {
		v.cookie = a.cookie
	}
	return answerOf(a)
}

// runOperation runs an operation with the checks that a request of a program passes after its
// authentication. It fails with their faults and with the handler's.
func (v *pageVisit) runOperation(op dashboard.Operation) (answer, error) {
	h, c := v.handlers, *v.call
	c.ofPage = true
	if c.route = h.routes[op.Method+" "+op.Path]; c.route == nil {
		return answer{}, fmt.Errorf("a page runs %s %s, which is not a route", op.Method, op.Path)
	}
	c.method, c.path, c.params, c.query, c.body = op.Method, op.Path, op.Params, op.Query, nil
	for name, value := range op.Params {
		c.path = strings.ReplaceAll(c.path, "{"+name+"}", value)
	}
	for name := range op.Query {
		if !slices.Contains(c.route.query, name) {
			return answer{}, unknownParameter(name)
		}
	}
	if op.Body != nil {
		var err error
		if c.body, err = json.Marshal(op.Body); err != nil {
			return answer{}, fmt.Errorf("body of %s %s: %w", op.Method, op.Path, err)
		}
	}
	c.header.contentType = "application/json"
	c.header.idempotencyKey, c.header.hasIdempotencyKey = op.Key, op.Key != ""
	if !c.who.mayRun(c.route) {
		return answer{}, fault.New(fault.RoleRequired, "your role in the workspace does not permit this")
	}
	if err := h.checkPermissions(&c); err != nil {
		return answer{}, err
	}
	if err := h.requireRoom(&c); err != nil {
		return answer{}, err
	}
	if err := c.readIdempotencyKey(); err != nil {
		return answer{}, err
	}
	return h.limits.runHandler(&c)
}
