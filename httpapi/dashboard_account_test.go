package httpapi

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/workspace"
)

// invitationLink matches the link of a new invitation on its page.
var invitationLink = regexp.MustCompile(`<code id="link">http://purser\.test(/dashboard/invitation\?token=(invite_[^<]+))</code>`)

// invited invites an email from the page of the team, and returns the address and the token of its
// link.
func (w *world) invited(tn tenant, email, role string) (address, token string) {
	w.t.Helper()
	page := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/team/invite",
		url.Values{"email": {email}, "role": {role}})
	require.Equal(w.t, 200, page.status)
	link := invitationLink.FindStringSubmatch(page.text)
	require.NotNil(w.t, link, page.text)
	return link[1], link[2]
}

// A person without an account follows the link through the sign-up to the invitation, and joins.
func TestAnInvitationsLinkLeadsIntoTheWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	address, token := w.invited(tn, "bob@example.com", "admin")
	first := w.visit(nil, address, nil)
	require.Equal(t, "/dashboard/sign-in?next="+url.QueryEscape(address), first.location)
	signUp := "/dashboard/sign-up?next=" + url.QueryEscape(address)
	require.Contains(t, attributesOf(w.parsePage(w.visit(nil, first.location, nil).text), "a", "href"), signUp)
	joined := w.visit(nil, strings.Replace(signUp, "sign-up", "sign-up/join", 1),
		url.Values{"email": {"bob@example.com"}, "password": {right}})
	require.Equal(t, address, joined.location)
	page := w.visit(session(joined.cookie), address, nil)
	require.Contains(t, page.text, "You are signed in as bob@example.com.")
	require.Contains(t, page.text, `value="`+token+`"`)
	for _, shown := range []string{"Workspace olga", "Admin: does all but manage people", "olga@example.com",
		"Expires (UTC)"} {
		require.Contains(t, page.text, shown)
	}
	accepted := w.visit(session(joined.cookie), "/dashboard/invitation/accept", url.Values{"token": {token}})
	require.Equal(t, "/dashboard/"+tn.workspace, accepted.location, accepted.text)
	require.Equal(t, 200, w.visit(session(joined.cookie), accepted.location, nil).status)
	again := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/team/invite",
		url.Values{"email": {"bob@example.com"}, "role": {"member"}})
	require.Contains(t, again.text, "a member of the workspace has it")
}

// A declined or withdrawn invitation is refused, and the refusal says why.
func TestInvitationsAreDeclinedAndWithdrawnByForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	bob := w.ok(w.signup("bob@example.com")).cookie
	accept := func(token string) {
		t.Helper()
		refused := w.visit(session(bob), "/dashboard/invitation/accept", url.Values{"token": {token}})
		require.Equal(t, 404, refused.status)
		require.Contains(t, refused.text, "token is unknown, used, withdrawn, expired or for another email")
	}
	_, declined := w.invited(tn, "bob@example.com", "member")
	done := w.visit(session(bob), "/dashboard/invitation/decline", url.Values{"token": {declined}})
	require.Contains(t, w.visit(session(bob), done.location, nil).text, "The invitation is declined.")
	accept(declined)

	_, withdrawn := w.invited(tn, "bob@example.com", "member")
	team := "/dashboard/" + tn.workspace + "/team"
	id := w.ok(w.get(session(tn.cookie), invitations)).text("data", 0, "id")
	require.Contains(t, w.visit(session(tn.cookie), team, nil).text, `href="`+team+"/invitations/"+id+`"`)
	gone := w.visit(session(tn.cookie), team+"/invitations/"+id+"/withdraw", url.Values{})
	require.Equal(t, team, gone.location, gone.text)
	accept(withdrawn)
	require.Equal(t, 404, w.visit(session(tn.cookie), team+"/invitations/"+id, nil).status)
	accept("nonsense")
	_, others := w.invited(tn, "cyd@example.com", "member")
	accept(others)
}

// A link without an open invitation says so, alike for every reason, and shows nothing of the
// workspace. Another token may be entered.
func TestALinkThatAdmitsNobodyRevealsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	bob := w.ok(w.signup("bob@example.com")).cookie
	address, token := w.invited(tn, "cyd@example.com", "admin")
	expired, _ := w.invited(tn, "bob@example.com", "admin")
	page := "/dashboard/invitation"
	requireNothing := func(address string) {
		t.Helper()
		shown := w.visit(session(bob), address, nil)
		require.Equal(t, 200, shown.status)
		require.Contains(t, shown.text, "The token is unknown, used, withdrawn, expired or for another email.")
		require.Contains(t, shown.text, "Show the invitation")
		for _, hidden := range []string{"Workspace olga", "olga@example.com", "Admin", ">Join the workspace<",
			">Decline the invitation<"} {
			require.NotContains(t, shown.text, hidden)
		}
	}
	requireNothing(address)
	requireNothing(page + "?token=nonsense")
	require.Contains(t, w.visit(session(bob), expired, nil).text, "Workspace olga")
	w.clock.turn(workspace.InvitationLife)
	bob = w.ok(w.login("bob@example.com", right)).cookie
	requireNothing(expired)

	require.Equal(t, 404, w.visit(session(bob), page+"/find", url.Values{"token": {token}}).status)
	tn.cookie = w.ok(w.login("olga@example.com", right)).cookie
	_, fresh := w.invited(tn, "bob@example.com", "admin")
	found := w.visit(session(bob), page+"/find", url.Values{"token": {" " + fresh}})
	require.Equal(t, page+"?token="+fresh, found.location)
	require.Contains(t, w.visit(session(bob), found.location, nil).text, "Workspace olga")
}

// The header offers the user's other workspaces.
func TestTheHeaderSwitchesBetweenWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	home := "/dashboard/" + tn.workspace
	require.NotContains(t, w.visit(session(tn.cookie), home, nil).text, "Second")
	second := w.ok(w.post(session(tn.cookie), "/api/workspaces", `{"name":"<b>Second</b>"}`)).text("workspace", "id")
	page := w.visit(session(tn.cookie), home, nil)
	require.Contains(t, attributesOf(w.parsePage(page.text), "a", "href"), "/dashboard/"+second)
	require.Contains(t, page.text, "&lt;b&gt;Second&lt;/b&gt;")
	require.Contains(t, w.visit(session(tn.cookie), "/dashboard/"+second, nil).text, `href="`+home+`"`)
}

// The page of a member and the question before a removal name the person and count what ends with
// the departure: the same as the removal's answer.
func TestTheQuestionOfARemovalNamesThePersonAndWhatEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	bobID, bob := w.person(tn, workspace.Owner)
	at := session(bob).with("X-Workspace-Id", tn.workspace)
	var keys []string
	for _, label := range []string{"one", "two"} {
		made := w.ok(w.post(at, "/api/auth/keys", `{"label":"`+label+`","scopes":["read:api_keys"]}`))
		keys = append(keys, made.text("apiKey", "id"))
	}
	endpoint := w.ok(w.post(at, endpointsPath, endpointBody(hookURL, `["*"]`))).text("endpoint", "id")
	w.ok(w.post(at, members, `{"email":"cyd@example.com","role":"member"}`))
	w.ok(w.post(session(tn.cookie), members, `{"email":"dee@example.com","role":"member"}`))
	email := w.ok(w.get(at, "/api/dashboard/me")).text("user", "email")
	address := "/dashboard/" + tn.workspace + "/team/members/" + bobID
	page := w.visit(session(tn.cookie), address, nil)
	asked := w.visit(session(tn.cookie), address+"/remove", url.Values{"sure": {""}})
	require.Equal(t, 200, asked.status)
	for _, shown := range []pageReply{page, asked} {
		require.Contains(t, shown.text, "Remove "+email)
		require.Contains(t, shown.text, "2 API keys, 1 webhook endpoint and 1 pending invitation end.")
	}
	require.NotContains(t, page.text, "data-confirm=\"Remove", "a dialog would ask without what the form keeps")
	kept := w.visit(session(tn.cookie), address+"/remove", url.Values{"sure": {""}, "keepKeys": keys,
		"keepEndpoints": {endpoint}})
	require.Contains(t, kept.text, "0 API keys, 0 webhook endpoints and 1 pending invitation end.")
	demoted := w.visit(session(tn.cookie), address+"/role", url.Values{"role": {"member"}, "sure": {""}})
	require.Contains(t, demoted.text, "Change the role of "+email+" to member?")

	gone := w.ok(w.do(session(tn.cookie), "DELETE", members+"/"+bobID, ""))
	require.Len(t, gone.at("revokedKeys"), 2)
	require.Len(t, gone.at("removedEndpoints"), 1)
	pending := w.ok(w.get(session(tn.cookie), invitations))
	require.Len(t, pending.at("data"), 1)
	require.Equal(t, "dee@example.com", pending.text("data", 0, "email"))
}

// A page before the sign-in says beside its form what happens next, and so does an invitation.
func TestDoorsSayWhatHappensNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	address, _ := w.invited(tn, "bob@example.com", "admin")
	bob := w.ok(w.signup("bob@example.com")).cookie
	for page, says := range map[string]string{"/dashboard/sign-in": "From here to an approved swipe",
		"/dashboard/sign-up?next=" + url.QueryEscape(address): "See who invites you",
		"/dashboard/sign-in/code":                             "recovery codes",
		"/dashboard/forgot":                                   "A link is on its way",
		"/dashboard/reset?token=reset_x":                      "Every session ends",
		address:                                               "You join as admin"} {
		_, beside, isDoor := strings.Cut(w.visit(session(bob), page, nil).text, `<aside class="next">`)
		require.True(t, isDoor, page)
		require.Contains(t, beside, says, page)
	}
	require.Contains(t, w.visit(session(bob), address, nil).text, "<h1>Join Workspace olga")
}
