package httpapi

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/agent/intent"
	"purser/actors/workspace"
)

// A form registers an agent and shows its private key once. The agent's page has the fingerprint of
// its key, the log of its intents with the reason of a refusal, and its cards.
func TestAnAgentIsRegisteredAndShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	home := "/dashboard/" + tn.workspace
	form := url.Values{"key": {newUUID(1)}, "agentName": {"Buyer"}, "description": {"Buys tea"},
		"protocols": {"TAP", "ACP"}}
	registered := w.visit(session(tn.cookie), home+"/agents/register", form)
	require.Equal(t, 200, registered.status, registered.text)
	require.Contains(t, registered.text, "Sign the first intent")
	pem := registered.text[strings.Index(registered.text, "-----BEGIN PRIVATE KEY"):]
	key := privateKey(t, strings.ReplaceAll(pem[:strings.Index(pem, "</code>")], "&#43;", "+"))
	made := w.ok(w.get(tn.all, "/api/agents"))
	require.Equal(t, []any{"TAP", "ACP"}, made.at("data", 0, "protocols"))
	id, fingerprint := made.text("data", 0, "id"), intent.KeyID(intent.PublicKey(key))

	e := w.newEstate(tn)
	e.made["agent"], e.agentKey = id, key
	for _, op := range w.checked.operations(t) {
		if op.doc.OperationID != "submitIntent" {
			continue
		}
		w.ok(w.send(e.ready(op, nil)))
		again := w.send(e.ready(op, nil)) // the same intent_id
		w.fails(again, 422, "intent_replay")
	}
	w.ok(w.post(tn.all, "/api/cards",
		`{"holderKind":"agent","holderLabel":"Buyer","monthlyLimitUsdCents":100,"perTxnLimitUsdCents":100}`))
	w.mint(tn, "") // of another holder
	page := w.visit(session(tn.cookie), home+"/agents/"+id, nil)
	require.Equal(t, 200, page.status, page.text)
	require.NotContains(t, page.text, "PRIVATE KEY")
	require.Contains(t, page.text, "<code>"+fingerprint+"</code>")
	require.Equal(t, 1, strings.Count(page.text, "</svg>Accepted<"))
	require.Equal(t, 1, strings.Count(page.text, "</svg>Sent before<"))
	require.Contains(t, page.text, "Give each intent an intent_id of its own.")
	require.Equal(t, 1, strings.Count(page.text, `data-label="Card"`))
	require.Contains(t, page.text, "$0.00 of $1.00")
	require.Contains(t, w.visit(session(tn.cookie), home+"/agents", nil).text, "$0.00 of $1.00")
	require.Contains(t, page.text, `name="holderLabel" type="text" value="Buyer"`)
}

// The buttons of the lists freeze at once, and come back to the list.
func TestListsFreezeAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	home := "/dashboard/" + tn.workspace
	agent, _ := w.registerAgent(tn)
	card := w.mint(tn, "").text("card", "id")
	for _, list := range []struct{ name, record, path string }{{"cards", "card", "/api/cards/" + card},
		{"agents", "agent", "/api/agents/" + agent}} {
		for _, change := range [][2]string{{"freeze", "frozen"}, {"unfreeze", "active"}} {
			page := w.visit(session(tn.cookie), home+"/"+list.name, nil).text
			actions := attributesOf(w.parsePage(page), "form", "action")
			button := strings.Replace(list.path, "/api", home, 1) + "/" + change[0] + "?list=1"
			require.Contains(t, actions, button)
			sent := w.visit(session(tn.cookie), button, url.Values{"key": {newUUID(1)}})
			require.Equal(t, home+"/"+list.name+"?changed="+change[0], sent.location, sent.text)
			require.Equal(t, change[1], w.ok(w.get(tn.all, list.path)).text(list.record, "state"))
			require.Contains(t, w.visit(session(tn.cookie), sent.location, nil).text, `role="status"`)
		}
	}
}

func TestACardholderIsSavedWithAnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	address := "/dashboard/" + tn.workspace + "/cardholders"
	form := url.Values{"key": {newUUID(1)}, "displayName": {"Grace <b>"}, "kind": {"employee"},
		"firstName": {"Grace"}, "lastName": {"Hopper"}, "email": {"grace@example.com"},
		"phoneNumber": {"+14155550100"}, "line1": {"1 Main St"}, "city": {"Oakland"}, "region": {"CA"},
		"postalCode": {"94607"}, "country": {"US"}, "dateOfBirth": {"1906-12-09"}, "ssnLast4": {"1234"}}
	form.Del("city")
	form.Del("region")
	refused := w.visit(session(tn.cookie), address+"/create", form)
	require.Equal(t, 400, refused.status, refused.text)
	for id, problem := range map[string]string{"city": "City is required", "region": "State or region is required"} {
		require.Contains(t, refused.text, `id="f-`+id+`-problem">`+problem+"</span>",
			"each reason is beside its field")
	}
	form.Set("city", "Oakland")
	form.Set("region", "CA")
	require.Equal(t, address+"?done=create", w.visit(session(tn.cookie), address+"/create", form).location)
	page := w.visit(session(tn.cookie), address, nil).text
	for _, text := range []string{"Grace &lt;b&gt;", "Grace Hopper", "grace@example.com", "Pending"} {
		require.Contains(t, page, text)
	}
	for _, secret := range []string{"1234<", "1906"} {
		require.NotContains(t, page, secret)
	}
}

func TestAPhysicalCardIsOrdered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	w.fund(tn, 100_000)
	address := "/dashboard/" + tn.workspace + "/physical-cards"
	form := url.Values{"key": {newUUID(1)}, "holderLabel": {"Ada"}, "finish": {"standard"},
		"unlockMethod": {"premium_99"}, "monthlyLimitUsdCents": {"500"}, "perTxnLimitUsdCents": {"100"},
		"line1": {"1 Main St"}, "city": {"Oakland"}, "region": {"CA"},
		"postalCode": {"94607"}, "country": {"US"}}
	for range 2 {
		require.Equal(t, address+"?done=order", w.visit(session(tn.cookie), address+"/order", form).location)
	}
	ordered := w.ok(w.get(tn.all, "/api/physical-cards"))
	require.Len(t, ordered.at("data"), 1)
	page := w.visit(session(tn.cookie), address, nil).text
	for _, text := range []string{"Ada", "Oakland, US", "$99 from the balance", ordered.text("data", 0, "eta",
		"from"),
		`/cards/` + ordered.text("data", 0, "card", "id")} {
		require.Contains(t, page, text)
	}
}

// A member has no scope of agents and cards: the member has none of their entries and reads none of
// them.
func TestAMemberReadsNoAgentAndNoCardholder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	home := "/dashboard/" + tn.workspace
	agent, _ := w.registerAgent(tn)
	_, cookie := w.person(tn, workspace.Member)
	entries := attributesOf(w.parsePage(w.visit(session(cookie), home, nil).text), "a", "href")
	for _, path := range []string{"/agents", "/agents/" + agent, "/cardholders", "/physical-cards", "/cards"} {
		require.Equal(t, 403, w.visit(session(cookie), home+path, nil).status, path)
		require.NotContains(t, entries, home+path)
	}
	freeze := home + "/agents/" + agent + "/freeze?list=1"
	require.Equal(t, 403, w.visit(session(cookie), freeze, url.Values{"key": {newUUID(1)}}).status)
	require.Equal(t, "active", w.ok(w.get(tn.all, "/api/agents/"+agent)).text("agent", "state"))
}
