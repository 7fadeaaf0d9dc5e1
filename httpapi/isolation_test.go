package httpapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/workspace"
	"purser/persistence/ident"
)

// An id of another workspace is answered byte for byte like an unknown id, wherever a request may
// name a record. The estate's own id shows that the request would otherwise have an effect.
func TestAnothersIDReadsAsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, other := w.newTenant("mine"), w.newTenant("other")
	for i := 0; w.shardOf(other) == w.shardOf(mine); i++ {
		other = w.newTenant(fmt.Sprint("other-", i))
	}
	w.fund(mine, 100_000_000)
	w.fund(other, 100_000_000)
	compared := 0
	for _, op := range w.checked.operations(t) {
		for _, place := range op.ids {
			if place.kind == noRecord {
				continue
			}
			t.Run(op.name+" "+place.String(), func(t *testing.T) {
				parent := w.t
				w.t = t
				defer func() { w.t = parent }()
				compared += w.compareOneID(op, place, mine, other)
			})
		}
	}
	t.Logf("%d answers about another's ids compared", compared)
	require.NotZero(t, compared)
}

// compareOneID tries one place of one operation.
func (w *world) compareOneID(op operation, place idPlace, mine, other tenant) int {
	w.t.Helper()
	own := w.newEstate(mine)
	r := w.send(own.ready(op, map[string]string{place.String(): own.id(place.kind)}))
	if judgedByNetwork := strings.Contains(op.path, "/simulate/") && place.in == "body"; !judgedByNetwork ||
		r.status != 400 {
		require.True(w.t, op.serves(r), "the caller's own id does nothing either: %s", r.raw)
	}
	e := w.newEstate(mine)
	anothers := w.newEstate(other).id(place.kind)
	asked := e.ready(op, map[string]string{place.String(): anothers})
	before := w.settled()
	got := w.answerOf(asked, anothers)
	after := w.settled()
	shard := w.shardOf(other)
	require.NotEqual(w.t, w.shardOf(mine), shard)
	require.Equal(w.t, before[shard], after[shard], "the other workspace was changed: %s", got)
	judgedByNetwork := strings.Contains(op.path, "/simulate/") && place.in == "body"
	if !judgedByNetwork {
		require.Contains(w.t, got, "404 ")
		require.Equal(w.t, before, after, "a refused request moved the journal")
	}
	compared := 0
	for _, unknown := range w.unknownLike(anothers, mine, other) {
		// A 200 changes the estate, so the next request needs a fresh one.
		fresh := e
		if strings.HasPrefix(got, "200") {
			fresh = w.newEstate(mine)
		}
		answered := w.answerOf(fresh.ready(op, map[string]string{place.String(): unknown}), unknown)
		if strings.HasPrefix(got, "200") {
			got, answered = withoutIDs(got), withoutIDs(answered)
		}
		require.Equal(w.t, got, answered)
		compared++
	}
	return compared
}

func (w *world) shardOf(tn tenant) ident.Shard {
	w.t.Helper()
	slot, err := ident.SlotOf(tn.workspace)
	require.NoError(w.t, err)
	return slot.Shard()
}

// unknownLike makes unknown ids in the shard of each tenant.
func (w *world) unknownLike(id string, tenants ...tenant) []string {
	w.t.Helper()
	prefix, _, isID := strings.Cut(id, "_")
	if !isID {
		return []string{"m-never-" + id[2:]}
	}
	var all []string
	for _, tn := range tenants {
		slot, err := ident.SlotOf(tn.workspace)
		require.NoError(w.t, err)
		all = append(all, ident.Derive(slot, time.UnixMilli(1), "never was").Format(prefix))
	}
	return all
}

// answerOf returns a whole answer as text: status, headers, body. The requested id is removed from
// an answer that is not a refusal.
func (w *world) answerOf(r readyRequest, id string) string {
	w.t.Helper()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://purser.test" + r.path)
	req.Header.Set(requestIDHeader, "the-same") // the only header that differs between answers
	req.Header.SetMethod(r.method)
	if r.body != "" {
		req.Header.SetContentType("application/json")
		req.SetBodyString(r.body)
	}
	req.Header.Set("X-Request-Id", "the-same") // or a random one is drawn
	for name, value := range r.who {
		req.Header.Set(name, value)
	}
	require.NoError(w.t, w.client.Do(req, resp))
	lines := []string{fmt.Sprint(resp.StatusCode(), " ", string(resp.Body()))}
	for name, value := range resp.Header.All() {
		if string(name) != "Date" {
			lines = append(lines, string(name)+": "+string(value))
		}
	}
	text := strings.Join(lines, "\n")
	if resp.StatusCode() < 400 {
		text = strings.ReplaceAll(text, id, "<id>")
	}
	return text
}

// withoutIDs removes the values that are drawn for every record.
func withoutIDs(text string) string {
	words := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(`" ,:{}[]`, c) })
	for _, word := range words {
		if prefix, _, isID := strings.Cut(word, "_"); isID && len(word) == len(prefix)+1+26 {
			text = strings.ReplaceAll(text, word, prefix)
		}
		if strings.HasPrefix(word, "sim-") {
			text = strings.ReplaceAll(text, word, "sim")
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "Content-Length: ") {
			text = strings.ReplaceAll(text, line, "")
		}
	}
	return text
}

// A key with every scope except the required one is refused with its name. A key with only that
// scope passes.
func TestEveryRouteNeedsItsScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	with := map[string]as{} // keys by their scopes
	keyWith := func(scopes []string) as {
		name := strings.Join(scopes, `","`)
		if with[name] == nil {
			made := w.ok(w.post(session(tn.cookie), "/api/auth/keys", `{"label":"k","scopes":["`+name+`"]}`))
			with[name] = key(made.text("secret"))
		}
		return with[name]
	}
	checked := 0
	for _, op := range w.checked.operations(t) {
		if !op.key || op.scope == "" {
			continue
		}
		e := w.newEstate(tn)
		r := e.ready(op, nil)
		for _, scope := range workspace.Scopes() {
			others := slices.DeleteFunc(workspace.Scopes(), func(s string) bool { return s == scope })
			r.who = keyWith(others)
			if scope == op.scope {
				w.fails(w.send(r), 403, "missing_scope:"+scope)
				r.who = keyWith([]string{scope})
			} else {
				r = w.newEstate(tn).ready(op, nil)
				r.who = keyWith(others)
			}
			got := w.send(r)
			require.NotEqual(t, "missing_scope:"+op.scope, got.code(), "%s without %s: %s", op.name, scope, got.raw)
			checked++
		}
	}
	t.Logf("%d pairs of route and scope", checked)
	require.NotZero(t, checked)
}

// Every route that a session may call admits exactly the roles of x-roles.
func TestEveryDashboardRouteRequiresItsRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	cookies := map[string]string{workspace.Owner: tn.cookie}
	_, cookies[workspace.Admin] = w.person(tn, workspace.Admin)
	_, cookies[workspace.Member] = w.person(tn, workspace.Member)
	_, cookies["stranger"] = w.person(tn, "")
	checked := 0
	for _, op := range w.checked.operations(t) {
		if !op.session {
			continue
		}
		for _, role := range slices.Sorted(maps.Keys(cookies)) {
			got := w.sendWith(op, tn, w.cookieFor(op, tn, cookies[role]), tn.workspace)
			checked++
			switch {
			case op.doc.OperationID == "endSession" && role != workspace.Owner: // the session is the owner's
				w.fails(got, 404, "not_found")
			case op.roles == nil || slices.Contains(op.roles, role):
				require.True(t, op.serves(got), "%s as %s: %s", op.name, role, got.raw)
			case role == "stranger":
				w.fails(got, 404, "not_found")
			default:
				w.fails(got, 403, "role_required")
			}
		}
		w.fails(w.sendWith(op, tn, "", tn.workspace), 401, "unauthorized")
		r := w.newEstate(tn).ready(op, nil)
		r.who = tn.all.once()
		if got := w.send(r); op.key {
			require.True(t, op.serves(got), "%s with a key: %s", op.name, got.raw)
		} else {
			w.fails(got, 403, "session_required")
		}
		checked += 2
	}
	t.Logf("%d pairs of route and caller", checked)
	require.NotZero(t, checked)
}

// sendWith calls an operation as a session.
func (w *world) sendWith(op operation, tn tenant, cookie, workspace string) testReply {
	w.t.Helper()
	r := w.newEstate(tn).ready(op, nil)
	if op.answersInvitation() && cookie != "" {
		r.body = fmt.Sprintf(`{"token":%q}`, w.invitationTo(cookie))
	}
	if op.doc.OperationID == "enableSecondFactor" && cookie != "" {
		r.body = fmt.Sprintf(`{"code":%q}`, w.codeOf(w.beginFactor(cookie), 0))
	}
	if op.doc.OperationID == "confirmEmail" && cookie != "" {
		r.body = fmt.Sprintf(`{"token":%q}`, w.emailToken(cookie))
	}
	key, keyed := r.who["Idempotency-Key"]
	r.who = as{"X-Workspace-Id": workspace}
	if cookie != "" {
		r.who = session(cookie).with("X-Workspace-Id", workspace)
	}
	if keyed {
		r.who = r.who.with("Idempotency-Key", key)
	}
	return w.send(r)
}

// cookieFor returns the session for an operation. Another session stands in on the route that ends
// sessions, and another person in the same role on the route that ends memberships.
func (w *world) cookieFor(op operation, tn tenant, cookie string) string {
	w.t.Helper()
	who := w.ok(w.get(session(cookie), "/api/dashboard/me"))
	switch op.doc.OperationID {
	case "logout":
		body := fmt.Sprintf(`{"email":%q,"password":"a long password"}`, who.text("user", "email"))
		return w.ok(w.post(nil, "/api/dashboard/login", body)).cookie
	case "changePassword", "changeEmail", "confirmEmail", "enableSecondFactor": // end all sessions of their user, or ask for a code at the next
		_, cookie = w.person(tn, "")
	case "leaveWorkspace":
		reply, err := w.system.Ask(w.t.Context(), actors.Envelope{Kind: "workspace", Stream: tn.workspace,
			Workspace: tn.workspace, Command: workspace.LookUpRole{UserID: who.text("user", "id")}})
		if err == nil {
			_, cookie = w.person(tn, reply.(workspace.Access).Role)
		}
	}
	return cookie
}

// In live mode, routes that move money require an approved verification before any other check, and
// simulations are refused. All other routes work as before. x-live lists which is which.
func TestLiveModeOnEveryRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	w.fund(tn, 100_000_000)
	kyb := []string{workspace.NotStarted, workspace.Pending, workspace.Rejected, workspace.Approved}
	counted := map[string]int{}
	for _, op := range w.checked.operations(t) {
		if !op.key && !op.session {
			continue
		}
		counted[op.live]++
		w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Sandbox})
		r := w.newEstate(tn).ready(op, nil)
		// The bodies of two operations are for the session that they have.
		if !op.key && !slices.Contains([]string{"enableSecondFactor", "confirmEmail"}, op.doc.OperationID) {
			r.who = session(w.cookieFor(op, tn, tn.cookie)).with("X-Workspace-Id", tn.workspace).once()
		}
		w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Live})
		for _, status := range kyb {
			w.askWorkspace(tn, workspace.SetKYB{Status: status})
			switch {
			case op.live == onlySandbox:
				w.refusedLive(r, "sandbox_only")
			case op.live == needsKYB && status != workspace.Approved:
				require.Equal(t, status, w.refusedLive(r, "kyb_required").text("kybStatus"), op.name)
			case op.live == needsKYB || status == workspace.NotStarted:
				got := w.send(r)
				require.True(t, op.serves(got), "%s in live mode: %s", op.name, got.raw)
			}
		}
	}
	t.Log("routes by x-live: ", counted)
	require.NotZero(t, counted[needsKYB])
	require.NotZero(t, counted[onlySandbox])
	require.NotZero(t, counted[""])
}

// askWorkspace sends a command that no route sends to a tenant's workspace.
func (w *world) askWorkspace(tn tenant, command any) {
	w.t.Helper()
	_, err := w.system.Ask(w.t.Context(), actors.Envelope{Kind: "workspace", Stream: tn.workspace,
		Workspace: tn.workspace,
		Command:   command})
	require.NoError(w.t, err)
}

// refusedLive requires that a request, with its own body and with a malformed one, is refused for
// the mode and changes nothing.
func (w *world) refusedLive(r readyRequest, code string) testReply {
	w.t.Helper()
	before := w.settled()
	got := w.send(r)
	w.fails(got, 403, code)
	r.body = "{"
	w.fails(w.send(r), 403, code)
	require.Equal(w.t, before, w.settled(), "%s %s", r.method, r.path)
	return got
}
