package httpapi

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/user"
)

func TestAUserListsAndEndsSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.ok(w.signup("ada@example.com")).cookie
	w.clock.turn(user.UseResolution)
	second := w.ok(w.login("ada@example.com", right)).cookie
	third := w.ok(w.login("ada@example.com", right)).cookie
	other := w.ok(w.signup("bob@example.com")).cookie
	list := w.ok(w.get(session(second), "/api/dashboard/sessions"))
	require.Len(t, list.at("data"), 3)
	require.Equal(t, []any{false, true, false}, []any{list.at("data", 0, "current"), list.at("data", 1, "current"),
		list.at("data", 2, "current")})
	require.Equal(t, "2026-11-20T12:00:00.000Z", list.text("data", 2, "createdAt"))
	require.NotContains(t, list.raw, strings.TrimPrefix(second, "ses_"))

	id := list.text("data", 2, "id")
	w.fails(w.do(session(other), "DELETE", "/api/dashboard/sessions/"+id, ""), 404, "not_found")
	ended := w.ok(w.do(session(second), "DELETE", "/api/dashboard/sessions/"+id, ""))
	require.Equal(t, id, ended.text("session", "id"))
	w.fails(w.get(session(first), "/api/dashboard/me"), 401, "unauthorized")
	w.fails(w.do(session(second), "DELETE", "/api/dashboard/sessions/"+id, ""), 404, "not_found")

	w.ok(w.login("ada@example.com", right))
	require.Equal(t, `{"ended":2}`, w.ok(w.post(session(second), "/api/dashboard/sessions/end-others", "")).raw)
	w.fails(w.get(session(third), "/api/dashboard/me"), 401, "unauthorized")
	own := w.ok(w.get(session(second), "/api/dashboard/sessions")).text("data", 0, "id")
	require.Empty(t, w.ok(w.do(session(second), "DELETE", "/api/dashboard/sessions/"+own, "")).cookie)
	w.fails(w.get(session(second), "/api/dashboard/me"), 401, "unauthorized")
	w.ok(w.get(session(other), "/api/dashboard/me"))
}

// The last use is recorded once an hour, whichever route uses the session.
func TestASessionsUseIsRecordedOnceAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cookie := w.ok(w.signup("ada@example.com")).cookie
	used := func() string {
		w.server.keyUsage.waitIdle()
		return w.ok(w.get(session(cookie), "/api/dashboard/sessions")).text("data", 0, "lastUsedAt")
	}
	require.Equal(t, "2026-11-20T12:00:00.000Z", used())
	w.clock.turn(user.UseResolution - 1)
	require.Equal(t, "2026-11-20T12:00:00.000Z", used())
	require.Equal(t, "2026-11-20T12:00:00.000Z", used())
	w.clock.turn(1)
	require.Equal(t, 200, w.visit(session(cookie), "/dashboard/account", nil).status)
	require.Equal(t, "2026-11-20T13:00:00.000Z", used())
}

func TestAPersonEndsSessionsByForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.ok(w.signup("ada@example.com")).cookie
	second := w.ok(w.login("ada@example.com", right)).cookie
	page := w.visit(session(second), "/dashboard/account", nil)
	require.Contains(t, page.text, "End all other sessions")
	list := w.ok(w.get(session(second), "/api/dashboard/sessions"))
	address := "/dashboard/account/sessions/" + list.text("data", 1, "id")
	require.Contains(t, page.text, `href="`+address+`"`)
	require.Contains(t, w.visit(session(second), address, nil).text, "End the session")
	ended := w.visit(session(second), address+"/end", url.Values{})
	require.Equal(t, "/dashboard/account?done=others", ended.location, ended.text)
	require.Equal(t, 404, w.visit(session(second), address, nil).status)
	w.fails(w.get(session(first), "/api/dashboard/me"), 401, "unauthorized")
	require.NotContains(t, w.visit(session(second), "/dashboard/account", nil).text, "End all other sessions")
	w.ok(w.login("ada@example.com", right))
	require.Equal(t, 303, w.visit(session(second), "/dashboard/account/others", url.Values{}).status)
	require.Len(t, w.ok(w.get(session(second), "/api/dashboard/sessions")).at("data"), 1)
}
