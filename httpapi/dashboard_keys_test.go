package httpapi

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/workspace"
)

const dashboardKeys = "/api/dashboard/keys"

// makeKey makes a key with another one, or with a session.
func (w *world) makeKey(by as, label string) (id, secret string) {
	w.t.Helper()
	made := w.ok(w.post(by, "/api/auth/keys", `{"label":"`+label+`","scopes":["read:api_keys","write:api_keys"]}`))
	return made.text("apiKey", "id"), made.text("secret")
}

// A key shows the live keys that it made, directly or not: exactly those that revoking it revokes.
func TestAKeyShowsWhatIsRevokedWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	who, page := session(tn.cookie), "/dashboard/"+tn.workspace+"/keys/"
	parent, parentSecret := w.makeKey(who, "parent")
	child, childSecret := w.makeKey(key(parentSecret), "child")
	grandchild, _ := w.makeKey(key(childSecret), "grandchild")
	gone, _ := w.makeKey(key(parentSecret), "gone")
	w.ok(w.do(who, "DELETE", dashboardKeys+"?id="+gone, ""))
	other, _ := w.makeKey(who, "other")

	shown := w.ok(w.get(who, dashboardKeys+"/"+parent))
	require.Equal(t, "parent", shown.text("apiKey", "label"))
	require.Len(t, shown.at("descendants"), 2)
	require.Equal(t, child, shown.text("descendants", 0, "id"))
	require.Equal(t, grandchild, shown.text("descendants", 1, "id"))
	require.NotContains(t, shown.raw, parentSecret)
	require.Empty(t, w.ok(w.get(who, dashboardKeys+"/"+other)).at("descendants"))
	w.fails(w.get(session(w.newTenant("eve").cookie), dashboardKeys+"/"+parent), 404, "not_found")
	w.fails(w.get(who, dashboardKeys+"/garbage"), 404, "not_found")

	text := w.visit(who, page+parent, nil).text
	before := strings.Index(text, `action="`+page+parent+"/revoke")
	require.Positive(t, before)
	for _, id := range []string{child, grandchild} {
		at := strings.Index(text, id)
		require.True(t, 0 < at && at < before, "the cascade stands before the button")
	}
	require.NotContains(t, text, other)
	require.NotContains(t, text, gone)
	require.Contains(t, w.visit(who, page+child, nil).text, `href="`+page+parent+`"`, "a key's maker")

	revoked := w.ok(w.do(who, "DELETE", dashboardKeys+"?id="+parent, ""))
	require.Equal(t, []any{parent, child, grandchild}, revoked.at("revoked"))
	require.Empty(t, w.ok(w.get(who, dashboardKeys+"/"+parent)).at("descendants"))
	text = w.visit(who, page+parent, nil).text
	require.Contains(t, text, "Revoked (UTC)")
	require.NotContains(t, text, "/revoke")
}

// The form of a new key offers every scope and says which routes it opens.
func TestTheFormOfAKeyOffersEveryScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	home := "/dashboard/" + tn.workspace + "/keys"
	page := w.visit(session(tn.cookie), home, nil).text
	var offered []string
	for _, found := range regexp.MustCompile(`name="scopes" value="([^"]+)"[^>]*><span>[^<]+<small>[A-Z][^<]+`).
		FindAllStringSubmatch(page, -1) {
		offered = append(offered, found[1])
	}
	require.Equal(t, workspace.Scopes(), offered)
	made := w.visit(session(tn.cookie), home+"/create", url.Values{"label": {"all"}, "scopes": offered})
	require.Equal(t, 200, made.status, made.text)
	shown := w.visit(session(tn.cookie), home+"/"+w.ok(w.get(session(tn.cookie), dashboardKeys)).text("data", 0, "id"),
		nil).text
	require.Contains(t, shown, "<code>write:webhooks</code>")
	require.Equal(t, 2, strings.Count(shown, "Reserved: no route uses it yet"))
}
