package httpapi

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/workspace"
	"purser/httpapi/webhook"
	"purser/persistence"
	"purser/persistence/ident"
)

// operation is one operation of the description with its extensions x-scope, x-roles, x-live and
// x-ids. An operation whose path parameter has an enumeration is listed once per value. The tables
// of isolation, scopes, roles and bad input are made of operations.
type operation struct { // the path still has its {id}
	name, method, path string // the path still with its {id}
	doc                *openapi3.Operation
	scope              string
	roles              []string
	live               string // needsKYB, onlySandbox or ""
	ids                []idPlace
	body               map[string]any // the example; nil without a body
	schema             *openapi3.Schema
	logsRefusals       bool // a refused request is logged
	rpc                bool // JSON-RPC has its own answers to bad bodies
	unavailable        bool // answers capability_unavailable to a permitted caller
	gone               bool // answers gone to a permitted caller
	key, session       bool
	partner            bool
}

// idPlace is where a request names a record: path.id, query.cardId, body.cardholderId or
// header.X-Workspace-Id.
type idPlace struct{ in, field, kind string }

func (p idPlace) String() string { return p.in + "." + p.field }

// Restrictions of live mode.
const (
	needsKYB    = "kyb"
	onlySandbox = "sandbox-only"
)

// noRecord is the kind of an id that does not name a record of a workspace.
const noRecord = "none"

// operations lists the operations of the description, sorted by name.
func (d *description) operations(t testing.TB) []operation {
	t.Helper()
	var all []operation
	for path, item := range d.Doc.Paths.Map() {
		for method, doc := range item.Operations() {
			parameters := slices.Concat(item.Parameters, doc.Parameters)
			for value, concrete := range expand(path, parameters) {
				all = append(all, newOperation(t, method, concrete, value, doc))
			}
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.name, b.name) })
	return all
}

// expand writes the enumerated values of a path parameter into the path.
func expand(path string, parameters openapi3.Parameters) map[string]string {
	for _, p := range parameters {
		if p.Value.In != "path" || len(p.Value.Schema.Value.Enum) == 0 {
			continue
		}
		paths := map[string]string{}
		for _, v := range p.Value.Schema.Value.Enum {
			value := fmt.Sprint(v)
			paths[value] = strings.ReplaceAll(path, "{"+p.Value.Name+"}", value)
		}
		return paths
	}
	return map[string]string{"": path}
}

func newOperation(t testing.TB, method, path, value string, doc *openapi3.Operation) operation {
	t.Helper()
	op := operation{name: method + " " + path, method: method, path: path, doc: doc}
	op.scope, _ = doc.Extensions["x-scope"].(string)
	op.live, _ = doc.Extensions["x-live"].(string)
	op.unavailable, _ = doc.Extensions["x-unavailable"].(bool)
	op.gone, _ = doc.Extensions["x-gone"].(bool)
	op.rpc, _ = doc.Extensions["x-json-rpc"].(bool)
	op.logsRefusals, _ = doc.Extensions["x-logs-refusals"].(bool)
	roles, _ := doc.Extensions["x-roles"].([]any)
	for _, role := range roles {
		op.roles = append(op.roles, fmt.Sprint(role))
	}
	ids, _ := doc.Extensions["x-ids"].(map[string]any)
	for _, place := range slices.Sorted(maps.Keys(ids)) {
		in, field, _ := strings.Cut(place, ".")
		op.ids = append(op.ids, idPlace{in: in, field: field, kind: fmt.Sprint(ids[place])})
	}
	security := openapi3.SecurityRequirements{{"apiKey": nil}} // the description's default
	if doc.Security != nil {
		security = *doc.Security
	}
	for _, way := range security {
		_, key := way["apiKey"]
		_, session := way["session"]
		_, partner := way["partnerSignature"]
		op.key, op.session, op.partner = op.key || key, op.session || session, op.partner || partner
	}
	if doc.RequestBody != nil {
		media := doc.RequestBody.Value.Content.Get("application/json")
		op.schema = media.Schema.Value
		op.body = exampleOf(t, op.name, media, value)
	}
	return op
}

// exampleOf returns the example named like the path's value, or else any.
func exampleOf(t testing.TB, name string, media *openapi3.MediaType, value string) map[string]any {
	t.Helper()
	example := media.Example
	for _, named := range slices.Sorted(maps.Keys(media.Examples)) {
		if example == nil || named == value {
			example = media.Examples[named].Value.Value
		}
	}
	object, ok := example.(map[string]any)
	require.True(t, ok, "%s has no example", name)
	return object
}

// serves reports whether an answer is the operation's answer to a permitted caller.
func (op operation) serves(r testReply) bool {
	if op.unavailable {
		return r.status == 422 && r.code() == "capability_unavailable"
	}
	if op.gone {
		return r.status == 410 && r.code() == "gone"
	}
	return r.status < 300
}

// answersInvitation reports whether the body is the token of an invitation for the caller.
func (op operation) answersInvitation() bool {
	return slices.Contains([]string{"showInvitation", "acceptInvitation", "declineInvitation"}, op.doc.OperationID)
}

func (op operation) takesParameter(name string) bool {
	return slices.ContainsFunc(op.doc.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name == name })
}

// requiredQuery returns the required parameters that name no record, with their examples.
func (op operation) requiredQuery(first bool) (query string) {
	for _, p := range op.doc.Parameters {
		names := slices.ContainsFunc(op.ids, func(place idPlace) bool {
			return place.in == "query" &&
				place.field == p.Value.Name
		})
		if p.Value.In != "query" || !p.Value.Required || names {
			continue
		}
		mark := "&"
		if first {
			mark, first = "?", false
		}
		query += fmt.Sprintf("%s%s=%v", mark, p.Value.Name, p.Value.Example)
	}
	return query
}

// example returns a copy of the operation's body that may be changed.
func (op operation) example(t testing.TB) map[string]any {
	t.Helper()
	if op.body == nil {
		return nil
	}
	text, err := json.Marshal(op.body)
	require.NoError(t, err)
	var body map[string]any
	require.NoError(t, json.Unmarshal(text, &body))
	return body
}

// estate is a tenant's records, created on demand.
type estate struct {
	*world
	tn   tenant
	made map[string]string
	// agentKey is the private key of the estate's agent.
	agentKey ed25519.PrivateKey
	// walletKey is the key of the estate's wallet.
	walletKey walletKey
}

func (w *world) newEstate(tn tenant) *estate {
	return &estate{world: w, tn: tn, made: map[string]string{}}
}

// id returns the id of the estate's record of a kind.
func (e *estate) id(kind string) string {
	e.t.Helper()
	if e.made[kind] == "" {
		e.made[kind] = e.make(kind)
	}
	return e.made[kind]
}

// make creates a record of a kind that x-ids may name. A new kind needs a case here.
func (e *estate) make(kind string) string {
	e.t.Helper()
	switch kind {
	case "workspace":
		return e.tn.workspace
	case "card":
		return e.mint(e.tn, "").text("card", "id")
	case "authorization":
		id := e.swipe(e.tn, e.id("card"), "m-"+e.id("card")[20:], 700).text("authorizationId")
		e.relayed()
		return id
	case "message":
		e.id("authorization")
		return "m-" + e.id("card")[20:]
	case "key":
		return e.ok(e.post(session(e.tn.cookie), "/api/auth/keys",
			`{"label":"k","scopes":["read:cards"]}`)).text("apiKey", "id")
	case "counterparty": // abroad, for an international payout
		e.fund(e.tn, 500_000)
		return e.newRecipientAbroad(e.tn)
	case "payout": // a held wire, which is never released
		return e.ok(e.pay(e.tn, `{"rail":"intl_wire","counterpartyId":"`+e.id("counterparty")+`","amountCents":1500,"description":"rent"}`)).
			text("payout", "id")
	case "cardholder":
		return e.ok(e.post(e.tn.all, "/api/cardholders",
			`{"displayName":"Grace Hopper","kind":"employee"}`)).text("cardholder", "id")
	case "agent":
		var id string
		id, e.agentKey = e.registerAgent(e.tn)
		return id
	case "checkout_session": // with a selected coin and network
		id := e.newCheckout(e.tn, "").text("session", "id")
		e.ok(e.post(nil, "/api/v1/checkout/sessions/"+id+"/select", `{"asset":"USDC","chain":"polygon"}`))
		return id
	case "webhook_endpoint":
		return e.newEndpoint(e.tn, `["*"]`).text("endpoint", "id")
	case "webhook_delivery":
		return e.ok(e.post(session(e.tn.cookie), "/api/webhooks/endpoints/"+e.id("webhook_endpoint")+"/test",
			"")).text("delivery", "id")
	case "currency":
		return e.currencyFor(operation{doc: &openapi3.Operation{}})
	case "fx_quote":
		return e.ok(e.post(e.keyed(e.tn), "/api/treasury/fx-quotes", `{"counterpartyId":"`+e.id("counterparty")+
			`","currency":"EUR","amountMinor":"1000"}`)).text("quote", "id")
	case "conversion_quote":
		e.currencyFor(operation{doc: &openapi3.Operation{}})
		return e.quoteConversion(e.tn, "EUR", "JPY", "10000").text("id")
	case "conversion":
		return e.convert(e.tn, e.id("conversion_quote")).text("orderId")
	case "approved_wallet":
		return e.approvedWallet(e.tn)
	case "ramp_wallet", "ramp_quote", "withdrawal_quote", "ramp_order", "ramp_session":
		return e.makeOfRamp(kind)
	case "international_payment": // from before the routes became unavailable
		slot, err := ident.SlotOf(e.tn.workspace)
		require.NoError(e.t, err)
		id := ident.Derive(slot, e.clock.now(), "payment/"+e.tn.workspace+fmt.Sprint(len(e.made))).Format("pay")
		e.legacy("international_payment", e.tn, id, `{"id":"`+id+`","status":"completed"}`)
		return id
	case "invitation":
		e.n++
		return e.ok(e.inviteMember(e.tn.cookie, fmt.Sprintf("invited-%d@example.com", e.n),
			workspace.Member)).text("invitation", "id")
	case "user_session": // of the tenant's user, beside the tenant's own
		email := e.ok(e.get(session(e.tn.cookie), "/api/dashboard/me")).text("user", "email")
		other := e.ok(e.login(email, "a long password")).cookie
		return e.ok(e.get(session(other), "/api/dashboard/sessions")).text("data", 0, "id")
	case "user":
		id, _ := e.person(e.tn, workspace.Member)
		return id
	}
	require.FailNow(e.t, "no way to make a record of kind "+kind)
	return ""
}

// makeOfRamp creates a record of one of the ramp's kinds.
func (e *estate) makeOfRamp(kind string) string {
	e.t.Helper()
	switch kind {
	case "ramp_wallet": // without a proof
		e.link(e.tn)
		e.n++
		e.walletKey = evmKey("base", fmt.Sprint("estate ", e.n))
		return e.addWallet(e.tn, e.walletKey)
	case "ramp_quote":
		e.link(e.tn)
		e.fund(e.tn, 10_000)
		return e.quoteRamp(e.tn, balance.RampOn, "100.00")
	case "withdrawal_quote":
		e.coins(e.tn, 10_000)
		return e.quoteRamp(e.tn, balance.RampWithdraw, "25.00")
	case "ramp_order":
		return e.ok(e.orderRamp(e.tn, "orders", e.id("ramp_quote"))).text("order", "id")
	}
	return e.olderSession(e.tn, balance.RampOn)
}

// person signs up a user and gives it a role in the tenant's workspace, or none for "".
func (w *world) person(tn tenant, role string) (id, cookie string) {
	w.t.Helper()
	w.people++
	made := w.signUpSoon(fmt.Sprintf("person-%d@example.com", w.people))
	id = made.text("user", "id")
	if role != "" {
		w.joinWorkspace(tn, id, role)
	}
	return id, made.cookie
}

// signUpSoon makes an account, a minute later when the address has made too many.
func (w *world) signUpSoon(email string) testReply {
	w.t.Helper()
	made := w.signup(email)
	if made.status == 429 {
		w.clock.turn(rateWindow)
		made = w.signup(email)
	}
	return w.ok(made)
}

// joinWorkspace gives a user a role in the tenant's workspace, with an invitation when the user is
// not a member.
func (w *world) joinWorkspace(tn tenant, id, role string) {
	w.t.Helper()
	owner := w.ok(w.get(session(tn.cookie), "/api/dashboard/me")).text("user", "id")
	w.n++
	of := workspace.Invitee{TokenHash: fmt.Sprint("token-", w.n), UserID: id, EmailHash: "email of " + id}
	by := workspace.Principal{UserID: owner}
	_, err := w.system.Ask(w.t.Context(), toWorkspace(tn.workspace,
		workspace.ChangeRole{UserID: id, Role: role, By: by}))
	if !fault.Is(err, fault.NotFound) {
		require.NoError(w.t, err)
		return
	}
	w.askWorkspace(tn, workspace.Invite{ID: fmt.Sprint("invitation-", w.n), Email: "x@example.com",
		EmailHash: of.EmailHash, TokenHash: of.TokenHash, UserID: id, Role: role, By: by})
	w.askWorkspace(tn, workspace.AcceptInvitation{Invitee: of})
}

// invitationTo returns the token of an invitation to a new workspace for the user of a session.
func (w *world) invitationTo(cookie string) string {
	w.t.Helper()
	email := w.ok(w.get(session(cookie), "/api/dashboard/me")).text("user", "email")
	_, inviter := w.person(tenant{}, "")
	w.ok(w.post(session(inviter), "/api/workspaces", `{"name":"Inviter"}`))
	return w.ok(w.inviteMember(inviter, email, workspace.Member)).text("token")
}

// readyRequest is a complete request.
type readyRequest struct {
	who                as
	method, path, body string
}

func (w *world) send(r readyRequest) testReply {
	w.t.Helper()
	return w.do(r.who, r.method, r.path, r.body)
}

// ready fills the places of an operation with the given ids, or else the estate's own, and writes
// the example as its body. Optional places are filled only when given.
func (e *estate) ready(op operation, given map[string]string) readyRequest {
	e.t.Helper()
	r := readyRequest{method: op.method, path: op.path}
	if strings.Contains(op.path, "{currency}") || strings.Contains(op.path, "/mca/") && op.method == "POST" {
		r.path = strings.ReplaceAll(op.path, "{currency}", e.currencyFor(op))
	}
	body, query := op.example(e.t), ""
	cookie := e.tn.cookie
	switch {
	case op.doc.OperationID == "leaveWorkspace": // another person leaves, so that the tenant's session stays
		_, cookie = e.person(e.tn, workspace.Owner)
	case op.doc.OperationID == "inviteMember": // a person who is not a member
		e.n++
		body["email"] = fmt.Sprintf("invited-%d@example.com", e.n)
	case op.doc.OperationID == "changePassword": // to the same password
		_, cookie = e.person(e.tn, "")
		body["currentPassword"], body["newPassword"] = "a long password", "a long password"
	case op.doc.OperationID == "changeEmail":
		e.n++
		_, cookie = e.person(e.tn, "")
		body["newEmail"], body["currentPassword"] = fmt.Sprintf("renamed-%d@example.com", e.n), "a long password"
	case op.doc.OperationID == "confirmEmail":
		_, cookie = e.person(e.tn, "")
		body["token"] = e.emailToken(cookie)
	case op.doc.OperationID == "beginSecondFactor", op.doc.OperationID == "disableSecondFactor":
		_, cookie = e.person(e.tn, "")
		body["password"] = "a long password"
	case op.doc.OperationID == "enableSecondFactor":
		_, cookie = e.person(e.tn, "")
		body["code"] = e.codeOf(e.beginFactor(cookie), 0)
	case op.doc.OperationID == "loginWithCode":
		e.n++
		email := fmt.Sprintf("careful-%d@example.com", e.n)
		secret, _ := e.withFactor(e.signUpSoon(email).cookie)
		body["challenge"] = e.login(email, "a long password").text("challenge")
		body["code"] = e.codeOf(secret, 1)
	case op.doc.OperationID == "resetPassword":
		e.n++
		email := fmt.Sprintf("forgetful-%d@example.com", e.n)
		e.signUpSoon(email)
		body["token"] = e.resetToken(email)
	case op.answersInvitation():
		body["token"] = e.invitationTo(cookie)
	}
	who := e.callerOf(op, cookie)
	if op.names(body, given) {
		for _, place := range op.ids {
			if place.in == "body" {
				delete(body, place.field) // a request names one record in one place
			}
		}
	}
	for _, place := range op.ids {
		id, isGiven := given[place.String()]
		own := func() string {
			if !isGiven && place.kind != noRecord {
				return e.id(place.kind)
			}
			return id
		}
		switch place.in {
		case "path":
			r.path = strings.ReplaceAll(r.path, "{"+place.field+"}", cmp.Or(own(), "nobody"))
		case "query":
			if isGiven || op.doc.Parameters.GetByInAndName("query", place.field).Required {
				query = "?" + place.field + "=" + own()
			}
		case "header":
			if isGiven {
				who = session(cookie).with(place.field, id)
			}
		case "body":
			if _, inExample := body[place.field]; isGiven || inExample && place.kind != noRecord {
				body[place.field] = own()
			}
		}
	}
	r.path += query + op.requiredQuery(query == "")
	if op.doc.OperationID == "submitIntent" {
		body["intent"].(map[string]any)["agent_id"] = e.id("agent")
		e.signIntent(body, e.agentKey)
	}
	if op.doc.OperationID == "proveRampWallet" {
		body["signature"] = e.walletKey.sign(e.wallet(e.tn, e.id("ramp_wallet"))["challenge"].(string))
	}
	if key := op.doc.Parameters.GetByInAndName("header", "Idempotency-Key"); key != nil && key.Required {
		who = who.with("Idempotency-Key", uuid.NewString())
	}
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(e.t, err)
		r.body = string(text)
	}
	r.who = e.sign(op, who, r.body)
	return r
}

// names reports whether the body has a given id that its example does not have.
func (op operation) names(body map[string]any, given map[string]string) bool {
	return slices.ContainsFunc(op.ids, func(p idPlace) bool {
		_, isGiven := given[p.String()]
		_, inExample := body[p.field]
		return p.in == "body" && isGiven && !inExample && p.field != "id"
	})
}

// callerOf returns a caller with every permission: a key with all scopes where a key suffices, or
// else the owner.
func (e *estate) callerOf(op operation, cookie string) as {
	switch {
	case op.key:
		return e.tn.all
	case op.session:
		return session(cookie).with("X-Workspace-Id", e.tn.workspace)
	}
	return as{}
}

// sign adds a partner's signature where the operation takes one.
func (e *estate) sign(op operation, who as, body string) as {
	if !op.partner {
		return who
	}
	return as{"partner-signature": webhook.Sign(testSecret, e.clock.now(), []byte(body))}
}

// positions returns the heads of all shards. Every change moves one of them.
func (w *world) positions() [ident.Shards]uint64 {
	var all [ident.Shards]uint64
	for i := range all {
		all[i] = w.journal.Head(ident.Shard(i)).Position
	}
	return all
}

// settled waits for the background work of the requests, so that the heads no longer change.
func (w *world) settled() [ident.Shards]uint64 {
	w.t.Helper()
	w.server.keyUsage.waitIdle()
	for {
		before := w.positions()
		require.NoError(w.t, w.system.RelayAll(context.Background()))
		w.awaitCondition(func() bool { return w.unhandled() == 0 })
		if w.pending() {
			w.awaitCondition(func() bool { return !w.pending() })
		}
		if after := w.positions(); after == before {
			return after
		}
	}
}

// unhandled returns how many events a reaction has not handled or the authorizer has not followed.
func (w *world) unhandled() int {
	w.t.Helper()
	health, err := w.system.Health()
	require.NoError(w.t, err)
	return health.Reactions + int(health.FollowerLag)
}

// pending reports whether background work remains: a due timer, an order that the ramp's partner
// has not received, or a bank's answer to a payout that is not recorded.
func (w *world) pending() bool {
	const most = 1_000 // timers of a shard in any test
	now := w.clock.now()
	for shard := range ident.Shards {
		if w.journal.Head(ident.Shard(shard)).Position == 0 {
			continue
		}
		timers, err := w.journal.Timers(context.Background(), ident.Shard(shard), now.AddDate(1, 0, 0),
			persistence.Timer{}, most)
		require.NoError(w.t, err)
		for _, timer := range timers {
			// An event may be slightly younger than the clock. The check of an overdue order is a
			// day away.
			asks := strings.HasPrefix(timer.Key, "ramp/") && !timer.Due.After(now.Add(2*balance.RampAskEvery))
			if asks || !timer.Due.After(now) || timer.Kind == "ramp" || strings.HasPrefix(timer.Key, "answer/") {
				return true
			}
		}
	}
	return false
}

func TestDescriptionExtensionsEqualTheRouteTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, r := range w.server.table {
		require.NotNil(t, w.checked.Doc.Paths.Value(r.path), "%s is not described", r.path)
		doc := w.checked.Doc.Paths.Value(r.path).GetOperation(r.method)
		require.NotNil(t, doc, "%s %s is not described", r.method, r.path)
		op := newOperationHead(t, r.method, r.path, doc)
		require.Equal(t, r.scope, op.scope, op.name)
		require.ElementsMatch(t, r.roles, op.roles, op.name)
		require.Equal(t, r.auth == authKey || r.auth == authKeyOrSession, op.key, op.name)
		require.Equal(t, r.auth == authSession || r.auth == authKeyOrSession, op.session, op.name)
		require.Equal(t, r.auth == authPartner, op.partner, op.name)
		require.Equal(t, map[[2]bool]string{{true, false}: needsKYB, {false, true}: onlySandbox,
			{}: ""}[[2]bool{r.kyb, r.sandboxOnly}], op.live,
			op.name)
	}
}

// newOperationHead is an operation without its body.
func newOperationHead(t testing.TB, method, path string, doc *openapi3.Operation) operation {
	t.Helper()
	head := *doc
	head.RequestBody = nil
	return newOperation(t, method, path, "", &head)
}

// Every field and parameter that is named like an id is in x-ids, so that the isolation tests cover
// it.
func TestEveryIDIsDeclared(t *testing.T) {
	t.Parallel()
	d := describe(t)
	for path, item := range d.Doc.Paths.Map() {
		for method, doc := range item.Operations() {
			declared := map[string]bool{}
			for _, place := range newOperationHead(t, method, path, doc).ids {
				declared[place.String()] = true
			}
			for place := range idsNamedIn(item, doc) {
				require.True(t, declared[place], "%s %s: x-ids lacks %s", method, path, place)
				delete(declared, place)
			}
			require.Empty(t, declared, "%s %s: x-ids names what is not there", method, path)
		}
	}
}

func idsNamedIn(item *openapi3.PathItem, doc *openapi3.Operation) map[string]bool {
	places := map[string]bool{}
	note := func(in, name string) {
		isID := name == "id" || strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "-Id")
		if isID && name != "requestId" { // which no record has
			places[in+"."+name] = true
		}
	}
	for _, p := range slices.Concat(item.Parameters, doc.Parameters) {
		note(p.Value.In, p.Value.Name)
	}
	if doc.RequestBody == nil {
		return places
	}
	schema := doc.RequestBody.Value.Content.Get("application/json").Schema.Value
	for _, variant := range append(schema.OneOf, &openapi3.SchemaRef{Value: schema}) {
		for name := range variant.Value.Properties {
			note("body", name)
		}
	}
	return places
}
