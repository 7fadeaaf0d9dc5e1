package httpapi

import (
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// An owner changes the role of a member and removes the member, and keeps the keys that are chosen.
func TestAnOwnerManagesMembersByForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	_, token := w.invited(tn, "bob@example.com", "admin")
	bob := w.ok(w.signup("bob@example.com")).cookie
	w.visit(session(bob), "/dashboard/invitation/accept", url.Values{"token": {token}})
	home := "/dashboard/" + tn.workspace
	for _, label := range []string{"kept", "lost"} {
		w.visit(session(bob), home+"/keys/create", url.Values{"label": {label}, "scopes": {"read:cards"}})
	}
	keys := map[string]string{}
	list := w.ok(w.get(session(tn.cookie), "/api/dashboard/keys"))
	for i := range 2 {
		keys[list.text("data", i, "label")] = list.text("data", i, "id")
	}
	member := home + "/team/members/" + w.ok(w.get(session(bob), "/api/dashboard/me")).text("user", "id")
	require.Contains(t, attributesOf(w.parsePage(w.visit(session(tn.cookie), home+"/team", nil).text), "a", "href"), member)
	page := w.visit(session(tn.cookie), member, nil).text
	require.Contains(t, page, `value="`+keys["kept"]+`"`)
	require.Contains(t, page, `<option value="admin" selected>`)
	require.Contains(t, w.visit(session(tn.cookie), member+"/role", url.Values{"role": {"owner"}}).text, "The role is changed")

	w.visit(session(tn.cookie), member+"/role", url.Values{"role": {"admin"}})
	gone := w.visit(session(tn.cookie), member+"/remove", url.Values{"keepKeys": {keys["kept"]}})
	require.Equal(t, home+"/team", gone.location, gone.text)
	require.Equal(t, 404, w.visit(session(bob), home, nil).status)
	require.Equal(t, 404, w.visit(session(tn.cookie), member, nil).status)
	left := map[string]string{}
	list = w.ok(w.get(session(tn.cookie), "/api/dashboard/keys"))
	for i := range 2 {
		left[list.text("data", i, "label")], _ = list.at("data", i, "revokedAt").(string)
	}
	require.Empty(t, left["kept"])
	require.NotEmpty(t, left["lost"])
}

// A member leaves by a form, and the last owner stays.
func TestAMemberLeavesByAForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	_, token := w.invited(tn, "bob@example.com", "member")
	bob := w.ok(w.signup("bob@example.com")).cookie
	w.visit(session(bob), "/dashboard/invitation/accept", url.Values{"token": {token}})
	leave := "/dashboard/" + tn.workspace + "/leave"
	w.awaitCondition(func() bool {
		return slices.Contains(attributesOf(w.parsePage(w.visit(session(bob), "/dashboard", nil).text), "a", "href"), leave)
	})
	require.Equal(t, "/dashboard", w.visit(session(bob), leave+"/leave", url.Values{}).location)
	require.Equal(t, 404, w.visit(session(bob), leave, nil).status)
	refused := w.visit(session(tn.cookie), leave+"/leave", url.Values{})
	require.Equal(t, 409, refused.status)
	require.Contains(t, refused.text, "last owner")
}
