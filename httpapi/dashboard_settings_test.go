package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const workspaceOfSession = "/api/dashboard/workspace"

// named waits until a user's own list shows a workspace under a name.
func (w *world) named(cookie, id, name string) {
	w.t.Helper()
	w.awaitCondition(func() bool {
		me := w.ok(w.get(session(cookie), "/api/dashboard/me"))
		for i := 0; me.at("workspaces", i) != nil; i++ {
			if me.text("workspaces", i, "id") == id {
				return me.text("workspaces", i, "name") == name
			}
		}
		return false
	})
}

// An owner and an admin rename the workspace, a member does not. Every place that shows the name
// shows the new one: the reads, the lists of the members, the header, payment pages and
// invitations.
func TestARenamedWorkspaceHasItsNewNameEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	_, admin := w.person(tn, "admin")
	_, reader := w.person(tn, "member")
	checkout := w.newCheckout(tn, "").text("session", "id")
	settings := "/dashboard/" + tn.workspace + "/settings"
	page := w.visit(session(admin), settings, nil)
	require.Contains(t, page.text, `value="Workspace olga"`)
	sent := w.visit(session(admin), settings+"/rename", url.Values{"name": {"Bolt & Co"}})
	require.Equal(t, 303, sent.status, sent.text)
	page = w.visit(session(admin), sent.location, nil)
	require.Contains(t, page.text, "The workspace has its new name.")
	require.Contains(t, page.text, `value="Bolt &amp; Co"`)

	require.Equal(t, "Bolt & Co", w.ok(w.get(tn.all, "/api/workspaces")).text("workspace", "name"))
	require.Contains(t, w.browse("GET", "/checkout/"+checkout, "").html, "Bolt &amp; Co")
	for _, cookie := range []string{tn.cookie, admin, reader} {
		w.named(cookie, tn.workspace, "Bolt & Co")
	}
	require.Contains(t, w.visit(session(tn.cookie), "/dashboard/"+tn.workspace, nil).text, "Bolt &amp; Co")
	bob := w.ok(w.signup("bob@example.com")).cookie
	token := w.ok(w.inviteMember(tn.cookie, "bob@example.com", "member")).text("token")
	require.Equal(t, "Bolt & Co", w.ok(w.answerInvitation(bob, "show", token)).text("invitation", "workspaceName"))

	renamed := w.ok(w.do(session(tn.cookie), "PATCH", workspaceOfSession, `{"name":"Acme"}`))
	require.Equal(t, "Acme", renamed.text("workspace", "name"))
	require.Equal(t, "Acme", w.ok(w.get(session(tn.cookie), workspaceOfSession)).text("workspace", "name"))
	w.named(reader, tn.workspace, "Acme")
}

// The name has the limits of a new workspace's name. A member neither renames nor sees the page,
// and a stranger finds no workspace.
func TestTheNameOfAWorkspaceIsItsManagers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn, other := w.newTenant("olga"), w.newTenant("pete")
	_, reader := w.person(tn, "member")
	for _, name := range []string{"A", strings.Repeat("x", 81)} {
		body := fmt.Sprintf(`{"name":%q}`, name)
		w.fails(w.do(session(tn.cookie), "PATCH", workspaceOfSession, body), 400, "invalid_body")
	}
	w.fails(w.do(session(tn.cookie), "PATCH", workspaceOfSession, `{}`), 400, "invalid_body")
	refused := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/settings/rename", url.Values{"name": {"A"}})
	require.Equal(t, 400, refused.status)
	require.Contains(t, refused.text, "Name ")

	inside := session(reader).with("X-Workspace-Id", tn.workspace)
	w.fails(w.do(inside, "PATCH", workspaceOfSession, `{"name":"Mine"}`), 403, "role_required")
	w.fails(w.get(inside, workspaceOfSession), 403, "role_required")
	home := "/dashboard/" + tn.workspace
	require.Equal(t, 403, w.visit(session(reader), home+"/settings", nil).status)
	links := attributesOf(w.parsePage(w.visit(session(reader), home, nil).text), "a", "href")
	require.False(t, slices.Contains(links, home+"/settings"))
	outside := session(other.cookie).with("X-Workspace-Id", tn.workspace)
	w.fails(w.do(outside, "PATCH", workspaceOfSession, `{"name":"Mine"}`), 404, "not_found")
	require.Equal(t, "Workspace olga", w.ok(w.get(tn.all, "/api/workspaces")).text("workspace", "name"))
}
