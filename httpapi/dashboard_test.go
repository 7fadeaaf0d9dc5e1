package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSignUpInAndOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.DerivePassword = nil }) // argon2id
	r := w.ok(w.signup("Ada@Example.com"))
	require.Equal(t, "Ada@Example.com", r.text("user", "email"))
	attributes := strings.ToLower(r.header("Set-Cookie"))
	for _, part := range []string{"httponly", "samesite=lax", "max-age=1209600", "path=/"} {
		require.Contains(t, attributes, part)
	}
	require.NotContains(t, attributes, "secure")
	w.fails(w.signup("ada@example.COM"), 409, "email_taken")

	me := w.ok(w.get(session(r.cookie), "/api/dashboard/me"))
	require.Equal(t, r.text("user", "id"), me.text("user", "id"))
	require.Empty(t, me.at("workspaces"))

	again := w.ok(w.post(nil, "/api/dashboard/login", `{"email":"ADA@example.com","password":"a long password"}`))
	require.NotEqual(t, r.cookie, again.cookie)
	out := w.ok(w.post(session(again.cookie), "/api/dashboard/logout", ""))
	require.Empty(t, out.cookie)
	w.fails(w.get(session(again.cookie), "/api/dashboard/me"), 401, "unauthorized")
	w.fails(w.post(session(again.cookie), "/api/dashboard/logout", ""), 401, "unauthorized")
	w.ok(w.get(session(r.cookie), "/api/dashboard/me"))

	w.clock.turn(sessionLife)
	w.fails(w.get(session(r.cookie), "/api/dashboard/me"), 401, "unauthorized")
}

func TestAWrongPasswordAndAnUnknownEmailReadTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.signup("ada@example.com"))
	wrong := w.post(nil, "/api/dashboard/login", `{"email":"ada@example.com","password":"a wrong password"}`)
	unknown := w.post(nil, "/api/dashboard/login", `{"email":"bob@example.com","password":"a long password"}`)
	w.fails(wrong, 401, "invalid_credentials")
	require.Equal(t, wrong.raw, unknown.raw)
}

func TestCredentialsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := func(body string) {
		t.Helper()
		w.fails(w.post(nil, "/api/dashboard/signup", body), 400, "invalid_body")
	}
	f(`{"email":"ada@example.com","password":"short"}`)
	f(`{"email":"ada@example.com","password":"` + strings.Repeat("x", 129) + `"}`)
	f(`{"email":"ada","password":"a long password"}`)
	f(`{"email":"ada@example.com"}`)
	f(`{"email":"ada@example.com","password":"a long password","role":"owner"}`)
}

func TestSignUpCanBeClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.SignupClosed = true })
	w.fails(w.signup("ada@example.com"), 403, "signup_closed")
}

func TestUnderHTTPSTheCookieIsSecure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.BaseURL = "https://purser.test" })
	require.Contains(t, strings.ToLower(w.ok(w.signup("ada@example.com")).header("Set-Cookie")), "secure")
}

func TestAnotherSitesPageCannotAct(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cookie := w.ok(w.signup("ada@example.com")).cookie
	f := func(header, value string, refused bool) {
		t.Helper()
		r := w.post(session(cookie).with(header, value), "/api/workspaces", `{"name":"Acme"}`)
		if refused {
			w.fails(r, 403, "origin_refused")
			return
		}
		w.ok(r)
	}
	f("Origin", "https://evil.test", true)
	f("Origin", "null", true)
	f("Origin", "https://purser.test", true) // another scheme is another origin
	f("Origin", "http://purser.test.evil.test", true)
	f("Sec-Fetch-Site", "cross-site", true)
	f("Sec-Fetch-Site", "same-site", true)
	f("Sec-Fetch-Site", "same-origin", false)
	f("Origin", "http://purser.test", false)
	w.ok(w.get(session(cookie).with("Origin", "https://evil.test"), "/api/dashboard/me"))
	r := w.post(as{"Origin": "https://evil.test"}, "/api/dashboard/login",
		`{"email":"ada@example.com","password":"a long password"}`)
	w.fails(r, 403, "origin_refused")
}

// A request of another site's page is refused exactly where x-errors lists it: where a session acts
// or begins, and where models call tools. Public routes answer every page.
func TestAnotherSitesPageOnEveryRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	w.fund(tn, 100_000_000)
	refused := 0
	for _, op := range w.checked.operations(t) {
		r := w.newEstate(tn).ready(op, nil)
		if op.session {
			r.who = session(tn.cookie).with("X-Workspace-Id", tn.workspace)
		}
		r.who = r.who.with("Origin", "https://evil.test")
		got := w.send(r)
		if codes, _ := op.doc.Extensions["x-errors"].([]any); slices.Contains(codes, any("origin_refused")) {
			require.Equal(t, 403, got.status, op.name)
			require.Contains(t, got.raw, `"error":"origin_refused"`, op.name)
			refused++
			continue
		}
		require.NotEqual(t, 403, got.status, "%s: %s", op.name, got.raw)
	}
	require.NotZero(t, refused)
}

func TestASessionFindsItsWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.newTenant("ada")
	bob := w.newTenant("bob")
	body := `{"label":"k","scopes":["read:cards"]}`
	second := w.ok(w.post(session(ada.cookie), "/api/workspaces",
		`{"name":"Second","plan":"growth"}`)).text("workspace", "id")
	w.fails(w.post(session(ada.cookie), "/api/auth/keys", body), 400, "workspace_required")
	w.ok(w.post(session(ada.cookie).with("X-Workspace-Id", second), "/api/auth/keys", body))
	w.fails(w.post(session(ada.cookie).with("X-Workspace-Id", bob.workspace), "/api/auth/keys", body), 404, "not_found")
	w.fails(w.post(session(ada.cookie).with("X-Workspace-Id", "nonsense"), "/api/auth/keys", body), 404, "not_found")
	me := w.ok(w.get(session(ada.cookie), "/api/dashboard/me"))
	require.Len(t, me.at("workspaces"), 2)
	require.Equal(t, "owner", me.text("workspaces", 1, "role"))
}

func TestKeysAndSessionsAreDistinguished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fails(w.get(tn.all, "/api/dashboard/me"), 403, "session_required")
	w.fails(w.get(key("apk_nonsense"), "/api/dashboard/me"), 401, "unauthorized")
	w.fails(w.get(nil, "/api/dashboard/me"), 401, "unauthorized")
	w.fails(w.get(session(tn.cookie), "/api/auth/keys"), 401, "unauthorized")
	w.fails(w.do(session(tn.cookie), "DELETE", "/api/auth/keys?id=x", ""), 401, "unauthorized")
	w.fails(w.get(session(tn.cookie), "/api/cards"), 401, "unauthorized")
	w.fails(w.post(nil, "/api/workspaces", `{"name":"Acme"}`), 401, "unauthorized")
	// With both, the key counts.
	w.fails(w.post(session(tn.cookie).with("Authorization", "Bearer apk_nonsense"), "/api/workspaces",
		`{"name":"Acme"}`), 401,
		"unauthorized")
}

func TestRateLimitsOfThreeLevels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.RateLimits = RateLimits{PerKey: 5, PerWorkspace: 8, PerAddress: 1000} })
	tn := w.newTenant("ada")
	w.clock.turn(rateWindow)
	other := w.ok(w.post(tn.all, "/api/auth/keys", `{"label":"b","scopes":["read:cards"]}`)).text("secret")
	for range 4 {
		w.ok(w.get(tn.all, "/api/workspaces"))
		w.clock.turn(time.Second)
	}
	r := w.get(tn.all, "/api/workspaces")
	w.fails(r, 429, "rate_limited")
	require.Equal(t, "56", r.header("Retry-After"))
	require.Equal(t, "56000", r.header("x-ratelimit-reset-ms"))
	for range 3 { // the workspace has used five
		w.ok(w.get(key(other), "/api/workspaces"))
	}
	w.fails(w.get(key(other), "/api/workspaces"), 429, "rate_limited")
	w.clock.turn(56 * time.Second) // exactly the first request leaves the window
	w.ok(w.get(tn.all, "/api/workspaces"))
	w.ok(w.get(key(other), "/api/workspaces"))
}

func TestTheAddressIsLimitedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.RateLimits = RateLimits{PerKey: 100, PerWorkspace: 100, PerAddress: 3} })
	w.fails(w.get(nil, "/api/nothing"), 404, "not_found")
	for range 2 {
		w.fails(w.get(key("apk_guess"), "/api/cards"), 401, "unauthorized")
	}
	w.fails(w.get(key("apk_guess").with("X-Forwarded-For", "10.0.0.1"), "/api/cards"), 429, "rate_limited")
	r := w.report(`{"id":"e","type":"unknown.type","data":{}}`) // partners are exempt
	require.Equal(t, 200, r.status)
}

func TestAFullLimiterRefusesAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.RateLimits = DefaultRateLimits() })
	for i := range w.server.limits.counts.shards {
		w.server.limits.counts.shards[i].max = 1
	}
	tn := ""
	for i := range 1000 {
		_, err := w.server.limits.counts.admitOne(fmt.Sprint("filler", i), 1)
		if err != nil {
			tn = "full"
			break
		}
	}
	require.Equal(t, "full", tn)
	for i := 0; w.server.limits.counts.windowCount() < limiterShards; i++ {
		_, _ = w.server.limits.counts.admitOne(fmt.Sprint("more", i), 1)
	}
	r := w.get(nil, "/api/v1/openapi.json")
	w.fails(r, 503, "rate_limit_unavailable")
	require.Equal(t, "1", r.header("Retry-After"))
	w.clock.turn(rateWindow)
	w.ok(w.get(nil, "/api/v1/openapi.json"))
}
