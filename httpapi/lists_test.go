package httpapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// wholeArrays names the arrays of objects in answers that are no lists of records, or that another
// list has whole. Every other array of a GET's answer is a list with pages.
var wholeArrays = map[string]string{
	"GET /:links":                                                  "fixed",
	"GET /api/agents/{id}/jwks.json:keys":                          "one key",
	"GET /api/authorizations/totals:reasons":                       "one for each reason",
	"GET /api/cards/{id}:recentAuthorizations":                     "the newest 20 of /api/authorizations",
	"GET /api/dashboard/keys/{id}:descendants":                     "those that a revocation revokes",
	"GET /api/dashboard/me:workspaces":                             "part of the user",
	"GET /api/mca/accounts/{currency}/details:details":             "one for each rail",
	"GET /api/treasury/daily:days":                                 "30 days",
	"GET /api/treasury/payouts/{id}/tracking:events":               "part of the payout",
	"GET /api/treasury:balances":                                   "two accounts",
	"GET /api/treasury:ledger":                                     "the newest 25 of /api/treasury/ledger",
	"GET /api/v1/checkout/sessions/{id}/status:receivingAddresses": "part of the session",
}

// listedKinds names the kind of record in each list: of an estate, or of makeListed.
var listedKinds = map[string]string{
	"/api/agents": "agent", "/api/agents/{id}/intents": "intent", "/api/auth/keys": "key",
	"/api/authorizations": "authorization", "/api/cardholders": "cardholder", "/api/cards": "card",
	"/api/dashboard/invitations": "invitation", "/api/dashboard/keys": "key", "/api/dashboard/members": "user",
	"/api/dashboard/ramp/wallets": "ramp_wallet", "/api/dashboard/requests": "key",
	"/api/dashboard/sessions": "user_session", "/api/mca/accounts": "currency", "/api/mca/activity": "payin",
	"/api/mca/conversions": "conversion", "/api/mca/payouts": "none",
	"/api/payments/international": "international_payment", "/api/physical-cards": "physical_card",
	"/api/ramp/onramp/sessions": "ramp_session", "/api/ramp/orders": "ramp_order", "/api/requests": "key",
	"/api/treasury/counterparties": "counterparty", "/api/treasury/ledger": "deposit",
	"/api/treasury/payouts": "payout", "/api/v1/checkout/sessions": "checkout_session",
	"/api/webhooks/endpoints": "endpoint", "/api/webhooks/endpoints/{id}/deliveries": "webhook_delivery",
}

// listOf returns the name of the list in the answer of an operation; "" for none.
func listOf(t *testing.T, op operation) (list string) {
	t.Helper()
	answered := op.doc.Responses.Value("200")
	if op.method != "GET" || answered == nil || answered.Value.Content["application/json"] == nil {
		return ""
	}
	schema := answered.Value.Content["application/json"].Schema.Value
	for name, property := range schema.Properties {
		items := property.Value.Items
		if items == nil || !items.Value.Type.Is("object") || wholeArrays[op.name+":"+name] != "" {
			continue
		}
		require.Empty(t, list, "%s has two lists", op.name)
		require.Contains(t, schema.Required, "nextCursor", "%s lists %s without a cursor", op.name, name)
		list = name
	}
	return list
}

// makeListed makes a record of the kind of a list, under the same parent as the estate's others.
func (e *estate) makeListed(kind string) {
	e.t.Helper()
	switch kind {
	case "none":
	case "currency":
		e.open(e.tn, e.currencyFor(operation{doc: &openapi3.Operation{OperationID: "openCurrencyAccount"}}))
	case "deposit":
		e.fund(e.tn, 100)
	case "intent":
		e.refusesIntent(e.tn, e.id("agent"), `{}`, 400, "invalid_body", "invalid_body")
	case "payin":
		e.payIn(e.tn, e.id("currency"), "500")
	case "endpoint": // the estate's helper removes the others
		e.ok(e.post(e.tn.owner(), endpointsPath, endpointBody(hookURL, `["*"]`)))
	case "physical_card":
		e.ok(e.orderPhysical(e.keyed(e.tn), physicalOrder))
	case "authorization", "conversion", "ramp_order": // each of a card or quote of its own
		for _, of := range []string{"card", "conversion_quote", "ramp_quote"} {
			delete(e.made, of)
		}
		fallthrough
	default:
		e.made[kind] = e.make(kind)
	}
}

// Every array of records that a GET answers is a list with pages: limit and cursor walk through it
// and show the entries of the whole list in its order. The tool of a list walks in the same way. A
// new list needs a kind in listedKinds; an array that is no list, a reason in wholeArrays.
func TestEveryListPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lists := 0
	for _, op := range w.checked.operations(t) {
		list := listOf(t, op)
		if list == "" {
			continue
		}
		lists++
		for _, name := range []string{"limit", "cursor"} {
			require.True(t, op.takesParameter(name), "%s takes no %s", op.name, name)
		}
		kind := listedKinds[op.path]
		require.NotEmpty(t, kind, "%s: no kind in listedKinds", op.name)
		e := w.newEstate(w.newTenant(op.doc.OperationID))
		e.fund(e.tn, 10_000_000)
		e.makeListed(kind)
		e.makeListed(kind)
		w.settled()
		w.walkList(e, op, list, kind == "none")
	}
	require.Len(t, listedKinds, lists)
}

// walkList reads a list whole, and again entry by entry.
func (w *world) walkList(e *estate, op operation, list string, empty bool) {
	w.t.Helper()
	r := e.ready(op, nil)
	path := r.path + map[bool]string{true: "&", false: "?"}[strings.Contains(r.path, "?")]
	first, whole := w.ok(w.get(r.who, r.path)), w.ok(w.get(r.who, path+"limit=100"))
	require.Nil(w.t, whole.at("nextCursor"), op.name)
	want := whole.at(list).([]any)
	require.Equal(w.t, empty, len(want) < 2, "%s: %s", op.name, whole.raw)
	if shown := first.at(list).([]any); !strings.HasPrefix(op.doc.OperationID, "listRequests") {
		require.Equal(w.t, want[:min(len(want), defaultLimit)], shown, op.name)
	}
	requireNewestFirst(w.t, op.name, want)
	walked, cursor := []any{}, ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		require.LessOrEqual(w.t, pages, len(want)+2, "%s does not end", op.name)
		page := w.ok(w.get(r.who, path+"limit=1"+cursor))
		require.LessOrEqual(w.t, len(page.at(list).([]any)), 1, op.name)
		w.comparePage(e, op, page, cursor)
		walked = append(walked, page.at(list).([]any)...)
		if cursor = page.text("nextCursor"); cursor != "" {
			cursor = "&cursor=" + cursor
		}
	}
	if strings.HasPrefix(op.doc.OperationID, "listRequests") { // the walk's own requests come before
		walked = walked[max(0, len(walked)-len(want)):]
	}
	require.Equal(w.t, want, walked, op.name)
	w.fails(w.get(r.who, path+"cursor=AAAA"), 400, "invalid_query")
}

// undatedLists are lists whose entries show no time of their own.
var undatedLists = []string{"GET /api/dashboard/ramp/wallets", "GET /api/mca/accounts",
	"GET /api/payments/international", "GET /api/physical-cards"}

// requireNewestFirst compares the times of entries, by the first of these members that they have.
func requireNewestFirst(t testing.TB, list string, entries []any) {
	t.Helper()
	newer := ""
	for _, entry := range entries {
		for _, name := range []string{"bookedAt", "createdAt", "receivedAt", "received_at", "joinedAt",
			"since", "invitedAt", "orderedAt", "at"} {
			if at, dated := entry.(map[string]any)[name].(string); dated {
				require.True(t, newer == "" || at <= newer, "%s: %s is behind %s", list, at, newer)
				newer = at
				break
			}
		}
		if !slices.Contains(undatedLists, list) {
			require.NotEmpty(t, newer, "%s: an entry has no time: %v", list, entry)
		}
	}
}

// comparePage compares a page of one entry with the answer of the list's tools.
func (w *world) comparePage(e *estate, op operation, page testReply, cursor string) {
	w.t.Helper()
	for _, tool := range w.server.tools.byName {
		if tool.route.path != op.path {
			continue
		}
		arguments := map[string]any{}
		require.NoError(w.t, json.Unmarshal([]byte(e.argumentsOf(tool.Name)), &arguments))
		arguments["limit"] = 1
		if cursor != "" {
			arguments["cursor"] = strings.TrimPrefix(cursor, "&cursor=")
		}
		text, err := json.Marshal(arguments)
		require.NoError(w.t, err)
		answered, fault := w.called(e.tn.all, tool.Name, string(text))
		require.Nil(w.t, fault, tool.Name)
		require.Equal(w.t, page.raw, answered, tool.Name)
	}
}
