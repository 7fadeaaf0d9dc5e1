package httpapi

import (
	"fmt"
	"net/url"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/user"
	"purser/actors/workspace"
	"purser/httpapi/password"
	"purser/persistence/ident"
)

const emailRoute = "/api/dashboard/email"

// withoutMail is a server without a mail server.
func withoutMail(c *Config) { c.Mail = nil }

func (w *world) changeEmail(cookie, email, password string) testReply {
	w.t.Helper()
	return w.post(session(cookie), emailRoute, fmt.Sprintf(`{"newEmail":%q,"currentPassword":%q}`, email, password))
}

func (w *world) confirmEmail(cookie, token string) testReply {
	w.t.Helper()
	return w.post(session(cookie), emailRoute+"/confirm", fmt.Sprintf(`{"token":%q}`, token))
}

// emailToken opens a link that makes a fresh email the one of a session's user, and returns its
// token.
func (w *world) emailToken(cookie string) string {
	w.t.Helper()
	id := w.ok(w.get(session(cookie), "/api/dashboard/me")).text("user", "id")
	slot, err := ident.SlotOf(id)
	require.NoError(w.t, err)
	token, err := ident.NewSecret(ident.EmailSecret, slot, w.system.Entropy())
	require.NoError(w.t, err)
	_, hash, err := ident.ParseSecret(ident.EmailSecret, token)
	require.NoError(w.t, err)
	_, err = w.system.Ask(w.t.Context(), toUser(id, user.IssueEmailLink{TokenHash: hash, Email: hash[:32] + "@example.com",
		Expires: w.system.Clock().Add(emailLinkLife)}))
	require.NoError(w.t, err)
	return token
}

// released waits until an email is free for another account.
func (w *world) released(email string) {
	w.t.Helper()
	w.awaitCondition(func() bool {
		claim, err := w.server.sessions.accounts.claimOf(w.t.Context(), w.system.TenantSlot(email), email)
		return err == nil && claim.UserID == ""
	})
}

// Without a mail server the email changes at once. Every other session and reset ends, the old
// email signs in no more and is free for another account, and the account keeps its workspaces.
func TestAnEmailChangesAtOnceWithoutAMailServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutMail)
	tn := w.newTenant("olga")
	other := w.ok(w.login("olga@example.com", right)).cookie
	reset := w.resetToken("olga@example.com")
	changed := w.ok(w.changeEmail(tn.cookie, "New@Example.com", right))
	require.Equal(t, "New@Example.com", changed.text("user", "email"))
	require.Nil(t, changed.at("pending"))
	for _, ended := range []string{tn.cookie, other} {
		w.fails(w.get(session(ended), "/api/dashboard/me"), 401, "unauthorized")
	}
	w.fails(w.reset(reset, "another password"), 401, "invalid_credentials")
	me := w.ok(w.get(session(changed.cookie), "/api/dashboard/me"))
	require.Equal(t, "New@Example.com", me.text("user", "email"))
	require.Equal(t, tn.workspace, me.text("workspaces", 0, "id"))
	w.fails(w.login("olga@example.com", right), 401, "invalid_credentials")
	require.Equal(t, me.text("user", "id"), w.ok(w.login("new@example.com", right)).text("user", "id"))

	w.released("olga@example.com")
	w.ok(w.signup("olga@example.com"))
	w.fails(w.signup("new@example.com"), 409, "email_taken")
	again := w.ok(w.login("olga@example.com", right))
	require.NotEqual(t, me.text("user", "id"), again.text("user", "id"))
	w.fails(w.changeEmail(again.cookie, "new@example.com", right), 409, "email_taken")
}

// An account takes back an email that it had, and one that another account has given up.
func TestAReleasedEmailIsTakenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutMail)
	ada, bob := w.ok(w.signup("a@example.com")).cookie, w.ok(w.signup("b@example.com")).cookie
	ada = w.ok(w.changeEmail(ada, "c@example.com", right)).cookie
	moved := func(cookie, email string) string {
		t.Helper()
		w.released(email)
		return w.ok(w.changeEmail(cookie, email, right)).cookie
	}
	bob = moved(bob, "a@example.com")
	ada = moved(ada, "b@example.com")
	ada = moved(ada, "c@example.com")
	require.Equal(t, "a@example.com", w.ok(w.get(session(bob), "/api/dashboard/me")).text("user", "email"))
	require.Equal(t, "c@example.com", w.ok(w.get(session(ada), "/api/dashboard/me")).text("user", "email"))
	w.released("b@example.com")
	w.ok(w.signup("b@example.com"))
	for _, email := range []string{"a@example.com", "b@example.com", "c@example.com"} {
		w.ok(w.login(email, right))
		w.fails(w.signup(email), 409, "email_taken")
	}
}

// The form asks for the current password. Wrong guesses are bounded with those of a password
// change.
func TestAChangeOfEmailIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutMail)
	ada := w.ok(w.signup("ada@example.com")).cookie
	w.ok(w.signup("bob@example.com"))
	delayed := w.countDelays()
	w.fails(w.changeEmail(ada, "new!", right), 400, "invalid_body")
	w.fails(w.changeEmail(ada, "ADA@example.com", right), 400, "invalid_body")
	w.fails(w.changeEmail(ada, "Bob@example.com", right), 409, "email_taken")
	for range changesPerUser - 2 {
		w.fails(w.changeEmail(ada, "new@example.com", "a wrong password"), 401, "invalid_credentials")
	}
	require.Zero(t, *delayed)
	w.fails(w.post(session(ada), "/api/dashboard/password",
		`{"currentPassword":"a wrong password","newPassword":"another password"}`), 401, "invalid_credentials")
	require.Equal(t, 1, *delayed)
	w.fails(w.changeEmail(ada, "new@example.com", "a wrong password"), 401, "invalid_credentials")
	require.Equal(t, 2, *delayed)
	w.ok(w.login("ada@example.com", right))
	w.ok(w.signup("new@example.com"))
}

// Accounts and a sign-up that race for one email: one gets it, and each account has one email.
func TestOneOfManyGetsAnEmail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutMail)
	const racers = password.MaxQueuedPerAddress
	cookies := make([]string, racers)
	for i := range cookies {
		cookies[i] = w.ok(w.signup(fmt.Sprintf("racer-%d@example.com", i))).cookie
	}
	replies := make([]testReply, racers+1)
	var all sync.WaitGroup
	for i, cookie := range cookies {
		all.Go(func() { replies[i] = w.changeEmail(cookie, "prize@example.com", right) })
	}
	all.Go(func() { replies[racers] = w.signup("prize@example.com") })
	all.Wait()
	winners := 0
	for i, r := range replies {
		if r.status == 200 {
			winners++
			continue
		}
		w.fails(r, 409, "email_taken")
		if i < racers {
			w.ok(w.login(fmt.Sprintf("racer-%d@example.com", i), right))
		}
	}
	require.Equal(t, 1, winners)
	w.ok(w.login("prize@example.com", right))
}

// A change that stops between its steps leaves the old email. The new one is blocked only until the
// change has ended, and opens no session meanwhile.
func TestAnInterruptedChangeOfEmailBlocksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutMail)
	ada := w.ok(w.signup("ada@example.com"))
	id, hash := ada.text("user", "id"), user.EmailHash("new@example.com")
	address := user.AddressID(w.system.TenantSlot("new@example.com"), hash)
	begin := func() user.ClaimEmail {
		until := w.system.Clock().Add(emailChangeTime)
		begun, err := w.system.Ask(t.Context(), toUser(id,
			user.BeginEmailChange{Address: address, EmailHash: hash, Until: until}))
		require.NoError(t, err)
		return user.ClaimEmail{EmailHash: hash, UserID: id, Change: begun.(user.BegunChange).Number, Until: until}
	}
	claim := func(c user.ClaimEmail) error {
		_, err := w.system.Ask(t.Context(), actors.Envelope{Kind: actors.KindAddress, Stream: address, Workspace: address,
			Command: c})
		return err
	}
	require.NoError(t, claim(begin()))
	w.fails(w.login("new@example.com", right), 401, "invalid_credentials")
	w.fails(w.signup("new@example.com"), 409, "email_taken")
	w.ok(w.login("ada@example.com", right))
	w.fails(w.changeEmail(ada.cookie, "other@example.com", right), 503, "unavailable")
	w.clock.turn(emailChangeTime)
	w.released("new@example.com")
	w.ok(w.signup("new@example.com"))
	w.ok(w.changeEmail(ada.cookie, "other@example.com", right))
}

var emailLink = regexp.MustCompile(`http://purser\.test(/dashboard/account/email\?token=(\S+))`)

// With a mail server the email changes when the link to the new email is opened, once. The old
// email gets a notice.
func TestALinkConfirmsTheNewEmail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.ok(w.signup("ada@example.com")).cookie, w.ok(w.signup("bob@example.com")).cookie
	asked := w.ok(w.changeEmail(ada, "New@example.com", right))
	require.Equal(t, []any{"ada@example.com", "New@example.com"},
		[]any{asked.text("user", "email"), asked.text("pending", "email")})
	require.Empty(t, asked.cookie)
	sent := <-w.mails
	require.Equal(t, "New@example.com", sent.To)
	first := emailLink.FindStringSubmatch(sent.Text)[2]
	w.ok(w.login("ada@example.com", right))
	w.fails(w.login("new@example.com", right), 401, "invalid_credentials")

	w.ok(w.changeEmail(ada, "new@example.com", right))
	token := emailLink.FindStringSubmatch((<-w.mails).Text)[2]
	for _, wrong := range []string{first, "email_nonsense", "x"} {
		w.fails(w.confirmEmail(ada, wrong), 401, "invalid_credentials")
	}
	w.fails(w.confirmEmail(bob, token), 401, "invalid_credentials")
	w.fails(w.confirmEmail("", token), 401, "unauthorized")
	confirmed := w.ok(w.confirmEmail(ada, token))
	require.Equal(t, "new@example.com", confirmed.text("user", "email"))
	notice := <-w.mails
	require.Equal(t, "ada@example.com", notice.To)
	require.Contains(t, notice.Text, "new@example.com")
	w.fails(w.get(session(ada), "/api/dashboard/me"), 401, "unauthorized")
	w.fails(w.confirmEmail(confirmed.cookie, token), 401, "invalid_credentials")
	w.ok(w.login("new@example.com", right))
	w.fails(w.login("ada@example.com", right), 401, "invalid_credentials")
}

// A link ends with its hour and with a new password. An email that is taken meanwhile stays taken.
func TestALinkToANewEmailEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	ask := func(email string) string {
		t.Helper()
		w.ok(w.changeEmail(tn.cookie, email, right))
		return emailLink.FindStringSubmatch((<-w.mails).Text)[2]
	}
	token := ask("new@example.com")
	require.NotContains(t, w.storedOf(tn), token[len(token)-20:])
	w.clock.turn(emailLinkLife)
	w.fails(w.confirmEmail(tn.cookie, token), 401, "invalid_credentials")

	token = ask("new@example.com")
	w.ok(w.signup("new@example.com"))
	w.fails(w.confirmEmail(tn.cookie, token), 409, "email_taken")
	w.ok(w.login("ada@example.com", right))

	token = ask("another@example.com")
	changed := w.ok(w.post(session(tn.cookie), "/api/dashboard/password",
		fmt.Sprintf(`{"currentPassword":%q,"newPassword":"another password"}`, right)))
	w.fails(w.confirmEmail(changed.cookie, token), 401, "invalid_credentials")
}

// A user's mails to new emails are bounded.
func TestMailsToNewEmailsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.ok(w.signup("ada@example.com")).cookie
	for i := range emailMailsPerUser {
		w.ok(w.changeEmail(ada, fmt.Sprintf("new-%d@example.com", i), right))
		<-w.mails
	}
	w.overLimit(w.changeEmail(ada, "one-more@example.com", right), rateWindow)
	require.Empty(t, w.mails)
}

// A person changes the email by forms, with a link and without.
func TestAPersonChangesTheEmailByForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.ok(w.signup("ada@example.com")).cookie
	form := url.Values{"newEmail": {"new@example.com"}, "currentPassword": {right}}
	require.Contains(t, w.visit(session(ada), "/dashboard/account", nil).text, "Change the email")
	wrong := w.visit(session(ada), "/dashboard/account/email",
		url.Values{"newEmail": {"new@example.com"}, "currentPassword": {"a wrong password"}})
	require.Equal(t, 401, wrong.status)
	require.Contains(t, wrong.text, "Current password is wrong")
	sent := w.visit(session(ada), "/dashboard/account/email", form)
	require.Contains(t, w.visit(session(ada), sent.location, nil).text, "A mail with a link is on its way")
	link := emailLink.FindStringSubmatch((<-w.mails).Text)
	page := w.visit(session(ada), link[1], nil)
	require.Contains(t, page.text, `value="`+link[2]+`"`)
	require.Equal(t, "/dashboard/sign-in?next="+url.QueryEscape(link[1]), w.visit(nil, link[1], nil).location)
	done := w.visit(session(ada), "/dashboard/account/email/confirm", url.Values{"token": {link[2]}})
	shown := w.visit(session(done.cookie), done.location, nil).text
	require.Contains(t, shown, "The email is changed.")
	require.Contains(t, shown, "new@example.com")

	w = newWorld(t, withoutMail)
	ada = w.ok(w.signup("ada@example.com")).cookie
	done = w.visit(session(ada), "/dashboard/account/email", form)
	shown = w.visit(session(done.cookie), done.location, nil).text
	require.Contains(t, shown, "The email is changed.")
	require.Contains(t, shown, "new@example.com")
}

// An account may take an email that is not its person's. To invite that email gives a member of the
// account's neither a role nor a token, and a pending invitation of it stays the invited person's.
func TestATakenEmailGivesNoRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutMail)
	tn := w.newTenant("olga")
	id, mallory := w.person(tn, workspace.Member)
	invited := w.ok(w.inviteMember(tn.cookie, "cfo@example.com", workspace.Admin))
	mallory = w.ok(w.changeEmail(mallory, "cfo@example.com", right)).cookie
	w.fails(w.inviteMember(tn.cookie, "cfo@example.com", workspace.Owner), 409, "already_member")
	at := session(mallory).with("X-Workspace-Id", tn.workspace)
	w.listedAs(mallory, tn.workspace, workspace.Member)
	w.fails(w.get(at, members), 403, "role_required")
	list := w.ok(w.get(session(tn.cookie), invitations))
	require.Equal(t, invited.text("invitation", "id"), list.text("data", 0, "id"))
	require.Equal(t, workspace.Admin, list.text("data", 0, "role"))
	listed := w.ok(w.get(session(tn.cookie), members))
	require.Equal(t, "cfo@example.com", listed.text("data", 0, "email"))
	require.NotEmpty(t, listed.text("data", 0, "emailChangedAt"))
	require.Nil(t, listed.at("data", 1, "emailChangedAt"), "the owner's, of the sign-up")
	page := w.visit(session(tn.cookie), "/dashboard/"+tn.workspace+"/team/members/"+id, nil)
	require.Contains(t, page.text, "This person has changed the email of the account.")
	w.ok(w.post(session(mallory), "/api/dashboard/password",
		`{"currentPassword":"`+right+`","newPassword":"another password"}`))
	require.Equal(t, listed.raw, w.ok(w.get(session(tn.cookie), members)).raw, "also after a new password")
}

// Mails with a link count against their mailbox and the address that asks for them, whichever route
// and account asks.
func TestMailsOfAChangeOfEmailAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range mailsPerMailbox - 1 {
		made := w.signUpSoon(fmt.Sprintf("mallory-%d@example.com", i))
		w.ok(w.changeEmail(made.cookie, "victim@example.com", right))
		<-w.mails
	}
	w.ok(w.forgot("Victim@example.com"))
	more := w.signUpSoon("more@example.com")
	w.overLimit(w.changeEmail(more.cookie, "victim@example.com", right), rateWindow)
	w.overLimit(w.forgot("victim@example.com"), rateWindow)
	w.ok(w.changeEmail(more.cookie, "other@example.com", right))
}
