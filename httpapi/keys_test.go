package httpapi

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/workspace"
)

const (
	someUUID  = "8e03978e-40d5-43e8-bc93-6894a57f9324"
	otherUUID = "b7a2f5a0-0f0e-4a53-9a44-2f8f6f3f7a11"
)

func TestTheFirstKeyMakesKeysOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	first := key(tn.firstSecret)
	r := w.ok(w.get(first, "/api/workspaces"))
	require.Equal(t, tn.workspace, r.text("workspace", "id"))
	require.Equal(t, "sandbox", r.text("workspace", "mode"))
	require.Equal(t, "placeholder", r.text("workspace", "bankAccount", "status"))
	w.fails(w.get(first, "/api/cards"), 403, "missing_scope:read:cards")
	w.fails(w.post(first, "/api/auth/keys", `{"label":"x","scopes":["read:cards"]}`), 403, "missing_scope:read:cards")
	w.fails(w.post(first, "/api/auth/keys", `{"label":"x","scopes":["*"]}`), 400, "invalid_body")
	w.fails(w.post(first, "/api/auth/keys", `{"label":"x","scopes":["read:everything"]}`), 400, "invalid_body")
	w.fails(w.post(first, "/api/auth/keys", `{"label":"x","scopes":[]}`), 400, "invalid_body")
	made := w.ok(w.post(first, "/api/auth/keys", `{"label":"x","scopes":["read:api_keys"]}`))
	require.Equal(t, made.text("secret")[:12], made.text("apiKey", "prefix"))
}

func TestRevocationIncludesDescendantKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	parent := w.ok(w.post(tn.all, "/api/auth/keys", `{"label":"parent","scopes":["read:api_keys","write:api_keys"]}`))
	child := w.ok(w.post(key(parent.text("secret")), "/api/auth/keys", `{"label":"child","scopes":["read:api_keys"]}`))
	w.ok(w.get(key(child.text("secret")), "/api/auth/keys"))
	id := parent.text("apiKey", "id")
	gone := w.ok(w.do(tn.all, "DELETE", "/api/auth/keys?id="+id, ""))
	require.Equal(t, []any{id, child.text("apiKey", "id")}, gone.at("revoked"))
	w.fails(w.get(key(parent.text("secret")), "/api/auth/keys"), 401, "unauthorized")
	w.fails(w.get(key(child.text("secret")), "/api/auth/keys"), 401, "unauthorized")
	again := w.ok(w.do(tn.all, "DELETE", "/api/auth/keys?id="+id, ""))
	require.Empty(t, again.at("revoked"))
	w.fails(w.do(tn.all, "DELETE", "/api/auth/keys", ""), 400, "invalid_query")
	w.fails(w.do(tn.all, "DELETE", "/api/auth/keys?id=key_x", ""), 404, "not_found")
	w.fails(w.do(key(tn.firstSecret), "DELETE", "/api/auth/keys?id="+tn.keyID(w), ""), 403,
		"missing_scope:read:treasury")
}

// keyID returns the id of the tenant's key with all scopes.
func (tn tenant) keyID(w *world) string {
	list := w.ok(w.get(tn.all, "/api/auth/keys"))
	for i := 0; list.at("data", i) != nil; i++ {
		if list.text("data", i, "label") == "all" {
			return list.text("data", i, "id")
		}
	}
	return ""
}

func TestSecretsAreShownOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	list := w.ok(w.get(tn.all, "/api/auth/keys"))
	require.Len(t, list.at("data"), 2)
	require.NotContains(t, list.raw, tn.secret)
	require.NotContains(t, list.raw, "secret")
	require.Equal(t, "all", list.text("data", 0, "label")) // newest first
}

func TestMalformedKeysAreIndistinguishable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	want := w.get(key("apk_x"), "/api/workspaces").raw
	last := tn.secret[len(tn.secret)-1:]
	flipped := tn.secret[:len(tn.secret)-1] + map[bool]string{true: "g", false: "0"}[last == "0"]
	for _, value := range []string{"", "Bearer", "Bearer ", "Basic " + tn.secret, tn.secret, "Bearer " + flipped,
		"Bearer " + tn.secret + "0"} {
		r := w.get(as{"Authorization": value}, "/api/workspaces")
		w.fails(r, 401, "unauthorized")
		require.Equal(t, want, r.raw)
	}
	w.ok(w.get(as{"Authorization": "bearer " + tn.secret}, "/api/workspaces"))
}

func TestARepeatIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	body := `{"label":"once","scopes":["read:cards"]}`
	first := w.ok(w.post(tn.all.with("Idempotency-Key", someUUID), "/api/auth/keys", body))
	require.Empty(t, first.header("Idempotent-Replayed"))
	again := w.ok(w.post(tn.all.with("Idempotency-Key", someUUID), "/api/auth/keys", body))
	require.Equal(t, first.raw, again.raw) // the secret included
	require.Equal(t, "true", again.header("Idempotent-Replayed"))
	w.fails(w.post(tn.all.with("Idempotency-Key", someUUID), "/api/auth/keys", body+" "), 422,
		"idempotency_key_mismatch")
	w.fails(w.post(tn.all.with("Idempotency-Key", "42"), "/api/auth/keys", body), 400, "invalid_idempotency_key")
	w.fails(w.get(tn.all.with("Idempotency-Key", ""), "/api/auth/keys"), 400, "invalid_idempotency_key")
	w.fails(w.get(nil, "/api/auth/keys"), 401, "unauthorized")
	// Another route, another tenant: another claim.
	w.ok(w.post(tn.all.with("Idempotency-Key", someUUID), "/api/cards",
		`{"holderKind":"human","holderLabel":"a","monthlyLimitUsdCents":1,"perTxnLimitUsdCents":1}`))
	other := w.newTenant("bob")
	theirs := w.ok(w.post(other.all.with("Idempotency-Key", someUUID), "/api/auth/keys", body))
	require.NotEqual(t, first.text("secret"), theirs.text("secret"))
	// A refused command holds no key.
	w.fails(w.post(tn.all.with("Idempotency-Key", otherUUID), "/api/auth/keys", `{"label":"","scopes":["read:cards"]}`),
		400,
		"invalid_body")
	w.ok(w.post(tn.all.with("Idempotency-Key", otherUUID), "/api/auth/keys", body))
	w.clock.turn(replayLife)
	fresh := w.ok(w.post(tn.all.with("Idempotency-Key", someUUID), "/api/auth/keys", body))
	require.NotEqual(t, first.text("secret"), fresh.text("secret"))
}

// A stored answer holds a secret: a caller without the right to create the key does not get it.
func TestAReplayHandsOutNoScopeThatItsCallerLacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	body, once := `{"label":"all","scopes":`+allScopes+`}`,
		func(who as) as { return who.with("Idempotency-Key", someUUID) }
	narrow := key(w.ok(w.post(tn.all, "/api/auth/keys",
		`{"label":"narrow","scopes":["write:api_keys"]}`)).text("secret"))
	secret := w.ok(w.post(once(tn.all), "/api/auth/keys", body)).text("secret")
	require.NotEmpty(t, secret)
	refused := w.post(once(narrow), "/api/auth/keys", body)
	w.fails(refused, 403, "missing_scope:read:treasury")
	require.NotContains(t, refused.raw, secret)
	require.Equal(t, secret, w.ok(w.post(once(tn.all), "/api/auth/keys", body)).text("secret"))
}

// Concurrent requests under one idempotency key create one record, and all answers have it.
func TestConcurrentRepeatsCreateOneRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	const callers = 8
	bodies := make(chan string, callers)
	for range callers {
		go func() {
			bodies <- w.post(tn.all.with("Idempotency-Key", someUUID), "/api/cards",
				`{"holderKind":"human","holderLabel":"a","monthlyLimitUsdCents":1,"perTxnLimitUsdCents":1}`).raw
		}()
	}
	first := <-bodies
	for range callers - 1 {
		require.Equal(t, first, <-bodies)
	}
	require.Len(t, w.ok(w.get(tn.all, "/api/cards")).at("data"), 1)
}

func TestAWorkspaceIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	for _, who := range []as{tn.all, session(tn.cookie)} {
		first := w.ok(w.post(who.with("Idempotency-Key", someUUID), "/api/workspaces", `{"name":"Twice"}`))
		again := w.ok(w.post(who.with("Idempotency-Key", someUUID), "/api/workspaces", `{"name":"Twice"}`))
		require.Equal(t, first.raw, again.raw)
		w.fails(w.post(who.with("Idempotency-Key", someUUID), "/api/workspaces", `{"name":"Other"}`), 422,
			"idempotency_key_mismatch")
		w.ok(w.get(key(first.text("secret")), "/api/workspaces"))
	}
	// The one made with the key belongs to the owners of the key's workspace; a reaction lists it.
	require.Eventually(t, func() bool {
		me := w.ok(w.get(session(tn.cookie), "/api/dashboard/me"))
		workspaces, _ := me.at("workspaces").([]any)
		return len(workspaces) == 3
	}, waitFor, pause)
}

func TestAStoredAnswerIsReadByItsKeyOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := call{method: "POST", path: "/api/auth/keys", key: someUUID,
		who: caller{access: workspace.Access{Workspace: "ws_1"}}}
	sealed, err := c.sealAnswer(answer{status: 202, body: []byte(`{"secret":"apk_1"}`)}, w.actors.Entropy())
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "apk_1")
	got, err := c.openAnswer(sealed)
	require.NoError(t, err)
	require.Equal(t, answer{status: 202, body: []byte(`{"secret":"apk_1"}`), replayed: true}, got)
	for _, other := range []call{{method: c.method, path: c.path, key: otherUUID, who: c.who},
		{method: c.method, path: "/api/cards", key: c.key, who: c.who}, {method: c.method, path: c.path, key: c.key}} {
		_, err := other.openAnswer(sealed)
		require.Error(t, err)
	}
	for i := range sealed {
		_, err := c.openAnswer(sealed[:i])
		require.Error(t, err)
	}
}

func TestLiveModeRequiresVerification(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	card := w.mint(tn, "").text("card", "id")
	w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Live})
	r := w.post(tn.all, "/api/cards", `{}`)
	w.fails(r, 403, "kyb_required")
	require.Equal(t, "not_started", r.text("kybStatus"))
	w.fails(w.post(tn.all, "/api/treasury/deposits", `{}`), 403, "sandbox_only")
	w.fails(w.post(tn.all, "/api/dev/cards/"+card+"/simulate/authorization", `{}`), 403, "sandbox_only")
	w.askWorkspace(tn, workspace.SetKYB{Status: workspace.Approved})
	w.fails(w.post(tn.all, "/api/cards", `{}`), 400, "invalid_body")
}

// An id of another workspace and an unknown id are answered with the same bytes, on every route
// that takes an id.
func TestTenantsAreIsolated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.newTenant("ada"), w.newTenant("bob")
	w.fund(ada, 100_000)
	card := w.mint(ada, "").text("card", "id")
	auth := w.swipe(ada, card, "a1", 1000).text("authorizationId")
	bobs := w.mint(bob, "").text("card", "id")
	f := func(method, path, body, theirs, never string) {
		t.Helper()
		one := w.do(bob.all, method, fmt.Sprintf(path, theirs), fmt.Sprintf(body, theirs))
		two := w.do(bob.all, method, fmt.Sprintf(path, never), fmt.Sprintf(body, never))
		w.fails(one, 404, "not_found")
		require.Equal(t, two.raw, one.raw)
		require.Equal(t, two.status, one.status)
	}
	never := card[:len(card)-4] + "0000"
	f("GET", "/api/cards/%s", "%.0s", card, never)
	f("PATCH", "/api/cards/%s", `{"state":"frozen"}%.0s`, card, never)
	f("GET", "/api/authorizations?cardId=%s", "%.0s", card, never)
	f("POST", "/api/dev/cards/%s/simulate/authorization", "{}%.0s", card, never)
	f("DELETE", "/api/auth/keys?id=%s", "%.0s", ada.keyID(w), "key_0000000000e000g0000000000a")
	f("POST", "/api/dev/cards/"+bobs+"/simulate/reversal%.0s", `{"authorizationId":%q}`, auth,
		auth[:len(auth)-4]+"0000")
	f("POST", "/api/dev/cards/"+bobs+"/simulate/expiry%.0s", `{"authorizationId":%q}`, auth, auth[:len(auth)-4]+"0000")
	// Network ids belong to the tenant: they do not collide, and do not reach another tenant's
	// authorization.
	require.Equal(t, "insufficient_funds", w.swipe(bob, bobs, "a1", 1000).text("reason"))
	r := w.ok(w.post(bob.all, "/api/dev/cards/"+bobs+"/simulate/reversal", `{"id":"r1","originalId":"a1"}`))
	require.NotEqual(t, auth, r.text("authorizationId"))
	w.relayed()
	require.Equal(t, 1000, w.ok(w.get(ada.all, "/api/cards/"+card)).cents("recentAuthorizations", 0, "heldCents"))
}
