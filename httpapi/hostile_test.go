package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/workspace"
)

// Header lines that two servers in a row could parse differently are refused: folded lines and
// invalid names.
func TestMalformedHeaderLinesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	for _, line := range []string{"X: a\r\n b\r\n", "X: a\r\n\tTransfer-Encoding: chunked\r\n",
		"Content-Length: 0\r\n 5\r\n",
		"A b: c\r\n", "A\x00: c\r\n", "A: \x00\r\n", "A(b): c\r\n", ": x\r\n", "A\r\n", "A: b\n", "Host: other\r\n",
		"Transfer-Encoding:\r\n chunked\r\n", "Trailer: Authorization\r\n", " X: a\r\n"} {
		head := "GET /api/cards HTTP/1.1\r\nHost: purser.test\r\n"
		got := answersTo(t, w.server, []byte(head+"Authorization: Bearer "+tn.secret+"\r\n"+line+"\r\n"+head+"\r\n"))
		require.Len(t, got, 1, "%q: the connection goes on", line)
		require.Equal(t, 400, got[0].StatusCode(), "%q: %s", line, got[0].Body())
		require.Contains(t, string(got[0].Body()), `"error":"invalid_request"`)
	}
}

// A record has exactly one path. No other spelling reaches a route, so a proxy in front can filter
// by path.
func TestAPathHasOneSpelling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	card := w.mint(tn, "").text("card", "id")
	w.fund(tn, 100)
	for _, path := range []string{"/api/%63ards", "/api/x/../cards", "/api/cards;x", "/api/cards/%2e%2e/cards",
		"/api//cards",
		"//api/cards", "/API/cards", "/api/./cards", "/api/cards/..", "/api/cards/.", "/api/cards/", "/api/cards/%",
		"/api/cards/%00", "/api/cards/%ff", "/api/dev/cards//simulate/reversal", "/api/dashboard/members//",
		"/api/dev/cards/" + card + "/simulate/", "/api/dev/cards/" + card + "/simulate/nothing/",
		"/api/dev/cards/" + card + "/simulate/reversal/", "/api/cards/" + card + "/", "/api/cards/" + card + "%00",
		"/api/cards/" + card + "%2F", "/api/cards/" + card + "%20", "/api/cards/" + strings.ToUpper(card),
		"/api/cards/card_%30" + card[6:], "/api/cards/" + card + ".json", "/api/cards/" + strings.Repeat("a", 8000),
		"/api/cards/card_" + strings.Repeat("z", 26), "/api/cards/ws_" + card[5:]} {
		before := w.settled()
		methods := []string{"GET", "PATCH"}
		if strings.HasPrefix(path, "/api/dev/") {
			methods = []string{"POST"}
		}
		for _, method := range methods {
			got := answersTo(t, w.server,
				[]byte(method+" "+path+" HTTP/1.1\r\nHost: purser.test\r\nAuthorization: Bearer "+tn.secret+
					"\r\nContent-Length: 18\r\n\r\n{\"state\":\"frozen\"}"))
			require.Len(t, got, 1)
			require.Equal(t, 404, got[0].StatusCode(), "%s %s: %s", method, path, got[0].Body())
			require.Contains(t, string(got[0].Body()), `{"error":"not_found","message":"no such `)
		}
		require.Equal(t, before, w.settled(), path)
	}
}

// The target * is one of OPTIONS alone.
func TestTheTargetAsteriskNeedsOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, method := range []string{"GET", "PATCH"} {
		status, text := w.raw(method + " * HTTP/1.1\r\nHost: purser.test\r\n\r\n")
		require.Equal(t, 400, status, method)
		require.Contains(t, text, `"error":"invalid_request"`)
	}
}

// Methods outside the route table have no effect.
func TestUnlistedMethodsHaveNoEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	for _, method := range []string{"OPTIONS", "TRACE", "CONNECT", "PUT", "get", "PROPFIND"} {
		conn, err := w.listen.Dial()
		require.NoError(t, err)
		_, err = io.WriteString(conn,
			method+" /api/cards HTTP/1.1\r\nHost: purser.test\r\nX-HTTP-Method-Override: GET\r\nAuthorization: Bearer "+
				tn.secret+"\r\n\r\n")
		require.NoError(t, err)
		resp := fasthttp.Response{}
		require.NoError(t, resp.Read(bufio.NewReader(conn)))
		require.Equal(t, 405, resp.StatusCode(), method)
		require.Equal(t, "GET, HEAD, POST", string(resp.Header.Peek("Allow")), method)
		require.NoError(t, conn.Close())
	}
	for _, head := range []string{"OPTIONS *", "PUT /api/dev/cards//simulate/reversal",
		"POST /api/dev/cards//simulate/reversal"} {
		status, text := w.raw(head + " HTTP/1.1\r\nHost: purser.test\r\n\r\n")
		require.Equal(t, 404, status, "%s: %s", head, text)
	}
}

// The bytes after a request are the next request of its connection, whatever the outcome of the
// first and its body.
func TestPipelinedRequestsStayApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	caller := " HTTP/1.1\r\nHost: purser.test\r\nAuthorization: Bearer " + tn.secret + "\r\n"
	next := "GET /api/workspaces" + caller + "\r\n"
	chunked := "POST /api/workspaces" + caller + "Transfer-Encoding: chunked\r\n\r\n"
	f := func(first string, status int, goesOn bool) {
		t.Helper()
		got := answersTo(t, w.server, []byte(first+next))
		require.Equal(t, status, got[0].StatusCode(), "%q: %s", first, got[0].Body())
		if !goesOn {
			require.Len(t, got, 1, "%q", first)
			return
		}
		require.Len(t, got, 2, "%q", first)
		require.Equal(t, 200, got[1].StatusCode())
		require.Contains(t, string(got[1].Body()), tn.workspace)
	}
	f("GET /api/workspaces"+caller+"Content-Length: 5\r\n\r\nabcde", 200, true)
	f("POST /api/nothing"+caller+"Content-Length: 5\r\n\r\nabcde", 404, true)
	f("POST /api/cards HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 401, true)
	f("POST /api/cards"+caller+"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde", 415, true)
	f("POST /api/cards"+caller+"Content-Length: 0\r\n\r\n", 400, true)
	f("POST /api/cards"+caller+"\r\n", 400, true)
	f(chunked+"f\r\n{\"name\":\"Acme\"}\r\n0\r\n\r\n", 200, true)
	f(chunked+"f\r\n{\"name\":\"Acme\"}\r\n0\r\nX: y\r\n\r\n", 200, true)
	f(chunked+"f\r\n{\"name\":\"Acme\"}\r\n0\r\nAuthorization: Bearer x\r\nContent-Length: 5\r\n\r\n", 400, false)
	f(chunked+"0xf\r\n{\"name\":\"Acme\"}\r\n0\r\n\r\n", 400, false)
	f(chunked+"-1\r\n", 400, false)
	f(chunked+"ffffffffffffffff\r\n", 400, false)
	f(chunked+"f\n{\"name\":\"Acme\"}\n0\n\n", 400, false)
	f(chunked+"f\r\n{\"name\":\"Acme\"}XX0\r\n\r\n", 400, false)
	f("POST /api/cards"+caller+"Content-Length: 9999999\r\n\r\n", 413, false)
}

// A query parameter that the route does not take is refused by name, and nothing changes.
func TestBadQueries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	w.fund(tn, 100_000_000)
	tried := 0
	for _, op := range w.checked.operations(t) {
		if op.unavailable || op.gone {
			continue // refused before its query is read
		}
		r := w.newEstate(tn).ready(op, nil)
		r.path = strings.ReplaceAll(r.path, "//", "/nothing/") // an id of no workspace
		w.ok(w.get(tn.all, "/api/workspaces"))                 // records the key's use in this minute
		before := w.settled()
		path, own, _ := strings.Cut(r.path, "?")
		refused := func(field, query string) {
			t.Helper()
			// Sign-ins are limited, and this test is not about limits.
			w.server.limits.counts = newLimiter(maxWindows, w.clock.elapsed)
			r.path = path + "?" + strings.TrimPrefix(own+"&"+query, "&")
			got := w.send(r)
			require.Equal(t, "400 invalid_query", fmt.Sprint(got.status, " ", got.code()), "%s: %s", r.path, got.raw)
			require.Contains(t, got.text("message"), field, r.path)
			tried++
		}
		refused("surprise", "surprise=1")
		refused("not known", "%00=1")
		refused("not known", tn.secret)
		refused("LIMIT", "LIMIT=1")
		for _, p := range op.doc.Parameters {
			name := p.Value.Name
			if p.Value.In != "query" {
				continue
			}
			if !p.Value.Required {
				refused(name, name+"=1&"+name+"=1")
				refused(name, name+"=1&%"+fmt.Sprintf("%x", name[0])+name[1:]+"=1")
			}
			for _, bad := range badParameters[name] {
				refused(name, name+"="+bad)
			}
		}
		require.Equal(t, before, w.settled(), op.name)
	}
	t.Logf("%d bad queries", tried)
	require.Greater(t, tried, 100)
}

var badParameters = map[string][]string{
	"limit": {"", "0", "101", "-1", "+1", "01", "1.0", "1e1", "x", "%00", "%ff", "1%00", "%201", "99999999999999999999",
		"１",
		"0x1"},
	"cursor": {"", "x", "%00", "%ff", "AAAA", strings.Repeat("A", 22), strings.Repeat("_", 22),
		strings.Repeat("A", 5000),
		"AAAAAAAAAAAAAAAAAAAAAA=="},
	"decision": {"", "Approved", "pending", "%00"},
}

// A cursor is valid only for its own list, tenant and filter.
func TestCursorBelongsToOneList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, other := w.newTenant("mine"), w.newTenant("other")
	for _, tn := range []tenant{mine, other} {
		w.mint(tn, "")
		w.mint(tn, "")
	}
	cursor := w.ok(w.get(mine.all, "/api/cards?limit=1")).text("nextCursor")
	require.NotEmpty(t, cursor)
	require.Len(t, w.ok(w.get(mine.all, "/api/cards?cursor="+cursor)).at("data"), 1)
	for _, elsewhere := range []struct {
		who  as
		path string
	}{{other.all, "/api/cards"}, {mine.all, "/api/auth/keys"}, {mine.all, "/api/authorizations"},
		{mine.all, "/api/authorizations?decision=approved"},
		{mine.all, "/api/cardholders"}, {session(mine.cookie), members}} {
		join := map[bool]string{true: "&", false: "?"}[strings.Contains(elsewhere.path, "?")]
		w.fails(w.get(elsewhere.who, elsewhere.path+join+"cursor="+cursor), 400, "invalid_query")
	}
}

// A caller who loses the right while the request runs is refused: the workspace checks last.
func TestRightsLostDuringTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	owner := w.ok(w.get(session(tn.cookie), "/api/dashboard/me")).text("user", "id")
	parent := w.ok(w.post(tn.all, "/api/auth/keys", `{"label":"parent","scopes":["read:cards","write:api_keys"]}`))
	_, second := w.person(tn, workspace.Owner)
	me := w.ok(w.get(session(second), "/api/dashboard/me")).text("user", "id")
	late := session(second).with("X-Workspace-Id", tn.workspace) // the listing follows the workspace
	victim, _ := w.person(tn, workspace.Member)
	by := workspace.Principal{UserID: owner}
	revoke := workspace.RevokeKey{ID: parent.text("apiKey", "id"), By: workspace.Principal{KeyID: tn.keyID(w)}}
	remove := workspace.RemoveMember{UserID: me, By: by}
	demote := workspace.ChangeRole{UserID: me, Role: workspace.Member, By: by}
	newKey := readyRequest{who: late, method: "POST", path: "/api/auth/keys",
		body: `{"label":"late","scopes":["read:cards"]}`}
	add := readyRequest{who: late, method: "POST", path: members, body: `{"email":"olga@example.com","role":"member"}`}
	expel := readyRequest{who: late, method: "DELETE", path: members + "/" + victim}
	list := readyRequest{who: late, method: "GET", path: members}
	byKey := newKey
	byKey.who = key(parent.text("secret"))
	f := func(r readyRequest, loss any, status int, code string) {
		t.Helper()
		w.joinWorkspace(tn, me, workspace.Owner)
		w.runCommandBefore(tn, loss)
		got := w.send(r)
		w.actors.hook(nil)
		w.fails(got, status, code)
	}
	for _, r := range []readyRequest{newKey, add, expel, list} {
		f(r, remove, 404, "not_found")
		f(r, demote, 403, "role_required")
	}
	f(byKey, revoke, 401, "unauthorized")
	require.NotContains(t, w.ok(w.get(tn.all, "/api/auth/keys")).raw, "late")
}

// runCommandBefore runs a command in the workspace after the caller was authorized and before the
// caller's own command.
func (w *world) runCommandBefore(tn tenant, by any) {
	w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
		switch e.Command.(type) {
		case workspace.CreateKey, workspace.Invite, workspace.RemoveMember, workspace.ListMembers:
			w.askWorkspace(tn, by)
		}
		return w.system.Ask(ctx, e)
	})
}

// A neighbouring site can plant a second cookie of the same name, but cannot remove the first. Two
// cookies authenticate no user.
func TestTwoSessionCookiesAuthenticateNoUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, planted := w.newTenant("mine"), w.newTenant("planted")
	for _, cookies := range []string{mine.cookie + "; " + sessionCookie + "=" + planted.cookie,
		planted.cookie + "; " + sessionCookie + "=" + mine.cookie,
		mine.cookie + "; " + sessionCookie + "=" + mine.cookie,
		"; " + sessionCookie + "=" + mine.cookie} {
		w.fails(w.get(session(cookies), "/api/dashboard/me"), 401, "unauthorized")
	}
	w.ok(w.get(session(mine.cookie+"; theme=dark"), "/api/dashboard/me"))
	line := "Cookie: " + sessionCookie + "="
	status, text := w.raw("GET /api/dashboard/me HTTP/1.1\r\nHost: purser.test\r\n" + line + planted.cookie + "\r\n" + line +
		mine.cookie +
		"\r\n\r\n")
	require.Equal(t, 401, status, text)
}

// A sign-in creates a new session and ends the one of the request's cookie, so a planted session is
// useless.
func TestSignInEndsThePlantedSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.signup("ada@example.com"))
	planted := w.ok(w.signup("eve@example.com")).cookie
	in := w.ok(w.post(session(planted), "/api/dashboard/login",
		`{"email":"ada@example.com","password":"a long password"}`))
	require.NotEqual(t, planted, in.cookie)
	w.fails(w.get(session(planted), "/api/dashboard/me"), 401, "unauthorized")
	require.Equal(t, "ada@example.com", w.ok(w.get(session(in.cookie), "/api/dashboard/me")).text("user", "email"))
}

// An IPv6 client controls more addresses than the limiter has windows, so a /64 network counts as
// one peer.
func TestIPv6NetworkIsOnePeer(t *testing.T) {
	t.Parallel()
	f := func(address, want string) {
		t.Helper()
		require.Equal(t, want, peerOf(netip.MustParseAddr(address).Unmap()))
	}
	f("203.0.113.7", "203.0.113.7")
	f("::ffff:203.0.113.7", "203.0.113.7")
	f("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64")
	f("2001:db8:1:2::1", "2001:db8:1:2::/64")
	f("2001:db8:1:3::1", "2001:db8:1:3::/64")
	f("::1", "::/64")
}

// An Idempotency-Key belongs to one route of one tenant. A refused request does not use it up.
func TestIdempotencyKeyBelongsToOneRouteAndTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.newTenant("ada"), w.newTenant("bob")
	seen := map[string]string{}
	for _, tn := range []tenant{ada, bob} {
		w.fund(tn, 100_000_000)
		for _, op := range w.checked.operations(t) {
			if !op.takesParameter("Idempotency-Key") || op.unavailable {
				continue
			}
			r := w.newEstate(tn).ready(op, nil)
			r.who = r.who.with("Idempotency-Key", someUUID)
			first := w.send(r)
			require.Less(t, first.status, 300, "%s: %s", op.name, first.raw)
			require.Empty(t, first.header("Idempotent-Replayed"), "%s was answered with another's answer", op.name)
			if withoutIDs(first.raw) != first.raw { // otherwise the answers may be equal
				require.Empty(t, seen[first.raw], "%s and %s", op.name, seen[first.raw])
				seen[first.raw] = op.name
			}
			again := w.send(r)
			require.Equal(t, first.raw, again.raw, op.name)
			require.Equal(t, "true", again.header("Idempotent-Replayed"), op.name)
			r.body += " "
			w.fails(w.send(r), 422, "idempotency_key_mismatch")
			r.who = r.who.with("Idempotency-Key", "not a uuid")
			w.fails(w.send(r), 400, "invalid_idempotency_key")
		}
	}
	require.NotEmpty(t, seen)
}
