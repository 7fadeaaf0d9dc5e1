package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"purser/actors/fault"
	"purser/actors/user"
	"purser/httpapi/mail"
	"purser/persistence"
	"purser/persistence/ident"
)

// mailbox receives the mails of a test's server.
type mailbox chan mail.Message

const mailboxSize = 64

// Send implements mail.Sender.
func (b mailbox) Send(_ context.Context, m mail.Message) error {
	b <- m
	return nil
}

// resetToken returns the token of an operator's reset for an email.
func (w *world) resetToken(email string) string {
	w.t.Helper()
	link, err := w.server.IssueReset(w.t.Context(), email, false)
	require.NoError(w.t, err)
	return link.Token
}

func (w *world) reset(token, password string) testReply {
	w.t.Helper()
	return w.post(nil, "/api/dashboard/password/reset", fmt.Sprintf(`{"token":%q,"newPassword":%q}`, token, password))
}

func TestAResetSetsThePasswordOnceAndEndsAllSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cookie := w.ok(w.signup("Ada@example.com")).cookie
	first, second := w.resetToken("ada@example.com"), w.resetToken("ADA@example.com")
	w.fails(w.reset(first, "short"), 400, "invalid_body")
	w.ok(w.get(session(cookie), "/api/dashboard/me"))
	done := w.ok(w.reset(first, "another password"))
	require.Empty(t, done.cookie, "a second factor is not skipped")
	w.fails(w.get(session(cookie), "/api/dashboard/me"), 401, "unauthorized")
	w.fails(w.login("ada@example.com", right), 401, "invalid_credentials")
	signedIn := w.ok(w.login("ada@example.com", "another password"))
	require.Equal(t, "Ada@example.com", signedIn.text("user", "email"))
	for _, token := range []string{first, second, "reset_nonsense", "", signedIn.cookie} {
		w.fails(w.reset(token, "a third password"), 401, "invalid_credentials")
	}
	w.ok(w.get(session(signedIn.cookie), "/api/dashboard/me"))
}

func TestAResetExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.signup("ada@example.com"))
	token := w.resetToken("ada@example.com")
	w.clock.turn(resetLife)
	w.fails(w.reset(token, "another password"), 401, "invalid_credentials")
	w.ok(w.login("ada@example.com", right))
}

func TestAResetTokenIsStoredAsItsHashAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	token := w.resetToken("ada@example.com")
	require.NotContains(t, w.storedOf(tn), token[len(token)-20:])
}

func TestAnOperatorResetsKnownEmailsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.server.IssueReset(t.Context(), "bob@example.com", false)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = w.server.IssueReset(t.Context(), "bob", false)
	require.True(t, fault.Is(err, fault.InvalidBody), "%v", err)
}

// Guesses of tokens are delayed by their address, and attempts on an account by the account.
func TestResetsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.signup("ada@example.com"))
	token := w.resetToken("ada@example.com")
	delayed := w.countDelays()
	for range resetsPerAddress {
		w.fails(w.reset("reset_guess", "another password"), 401, "invalid_credentials")
	}
	require.Zero(t, *delayed)
	w.fails(w.reset("reset_guess", "another password"), 401, "invalid_credentials")
	require.Equal(t, 1, *delayed)
	for i := range resetsPerAccount + 1 {
		w.at(fmt.Sprint("10.0.1.", i), func() { w.fails(w.reset(token, ""), 400, "invalid_body") })
	}
	require.Equal(t, 1, *delayed, "a bad body is no attempt")
	for i := range resetsPerAccount {
		w.at(fmt.Sprint("10.0.2.", i), func() { w.ok(w.reset(w.resetToken("ada@example.com"), "another password")) })
	}
	require.Equal(t, 1, *delayed)
	w.at("10.0.3.1", func() { w.ok(w.reset(w.resetToken("ada@example.com"), "another password")) })
	require.Equal(t, 2, *delayed)
}

func (w *world) forgot(email string) testReply {
	w.t.Helper()
	return w.post(nil, "/api/dashboard/password/forgot", fmt.Sprintf(`{"email":%q}`, email))
}

var linkedToken = regexp.MustCompile(`http://purser\.test/dashboard/reset\?token=(\S+)`)

// The answer for an unknown email is the same, and is given without a look at the accounts.
func TestForgottenPasswordsDiscloseNoAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.signup("Ada@example.com"))
	unknown, known := w.ok(w.forgot("bob@example.com")), w.ok(w.forgot("ada@example.com"))
	require.Equal(t, unknown.raw, known.raw)
	sent := <-w.mails
	require.Equal(t, "Ada@example.com", sent.To)
	token := linkedToken.FindStringSubmatch(sent.Text)
	require.NotNil(t, token, sent.Text)
	w.ok(w.reset(token[1], "another password"))
	w.ok(w.login("ada@example.com", "another password"))
	require.Empty(t, w.mails)
}

// heldLookUps are the actors of a server that can hold the look-ups of emails.
type heldLookUps struct {
	Actors
	held *atomic.Bool
	gate chan struct{} // closed to let them through
}

// Find implements query.Reader.
func (a heldLookUps) Find(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error) {
	if kind == user.RecordEmail && a.held.Load() {
		<-a.gate
	}
	return a.Actors.Find(ctx, slot, kind, id)
}

// A forgotten password is answered before the account is looked up, so that the time of the answer
// discloses nothing either.
func TestForgottenPasswordsAreAnsweredBeforeTheLookUp(t *testing.T) {
	t.Parallel()
	var held atomic.Bool
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	w := newWorld(t, func(c *Config) { c.Actors = heldLookUps{c.Actors, &held, gate} })
	t.Cleanup(release)
	w.ok(w.signup("ada@example.com"))
	held.Store(true)
	w.ok(w.forgot("bob@example.com"))
	w.ok(w.forgot("ada@example.com"))
	require.Empty(t, w.mails)
	release()
	require.Equal(t, "ada@example.com", (<-w.mails).To)
}

// A mailbox gets at most MaxResets links at once, and an email few requests a minute.
func TestMailedResetsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.signup("ada@example.com"))
	for sent := 0; sent < user.MaxResets; {
		for range min(mailsPerMailbox, user.MaxResets-sent) {
			w.ok(w.forgot("ada@example.com"))
			<-w.mails
			sent++
		}
		if sent == mailsPerMailbox {
			w.overLimit(w.forgot("ADA@example.com"), rateWindow)
			w.ok(w.forgot("bob@example.com"))
		}
		w.clock.turn(rateWindow)
	}
	id, _, err := w.server.sessions.accounts.credentialOf(t.Context(), "ada@example.com")
	require.NoError(t, err)
	require.NotEmpty(t, id)
	_, err = w.server.sessions.prepareReset(t.Context(), "ada@example.com")
	require.ErrorIs(t, err, mail.ErrNoMail)
	w.resetToken("ada@example.com")
}

// refusingServer is a mail server that refuses every mail and quotes it in the reason.
type refusingServer struct{}

func (refusingServer) Send(_ context.Context, m mail.Message) error {
	return &mail.Permanent{Cause: errors.New("554 looks like spam: " + m.Text)}
}

// A mail that the server refuses is counted, and logged without the token that it holds.
func TestADroppedMailIsCountedAndLoggedWithoutItsToken(t *testing.T) {
	t.Parallel()
	log, withLog := logged(slog.LevelWarn)
	registry := prometheus.NewRegistry()
	w := newWorld(t, withLog, func(c *Config) { c.Mail, c.Registry = refusingServer{}, registry })
	w.ok(w.signup("ada@example.com"))
	w.ok(w.forgot("ada@example.com"))
	require.Eventually(t, func() bool { return len(log.with(t, "msg", "a mail was dropped")) == 1 }, waitFor,
		time.Millisecond)
	line := log.with(t, "msg", "a mail was dropped")[0]
	require.Equal(t, "refused", line["reason"])
	require.Contains(t, line["err"], "554 looks like spam")
	require.NotRegexp(t, `reset_[0-9a-z]`, line["err"])
	require.Equal(t, 1.0, metric(t, registry, "purser_mails_dropped_total", map[string]string{"reason": "refused"}))
}

func TestWithoutAMailServerNothingIsMailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Mail = nil })
	w.fails(w.forgot("ada@example.com"), 422, "capability_unavailable")
	page := w.visit(nil, "/dashboard/forgot", nil)
	require.Contains(t, page.text, "This server sends no mail.")
	require.NotContains(t, page.text, "<button class=\"button\">")
	cookie := w.ok(w.signup("ada@example.com")).cookie
	for _, path := range []string{"sign-in", "sign-up", "forgot", "reset", "account", "invitation"} {
		text := w.visit(session(cookie), "/dashboard/"+path, nil).text
		for _, offered := range []string{"/forgot/send", "a mail", "A mail", "Send the link"} {
			require.NotContains(t, text, offered, path)
		}
	}
}

func TestAPersonResetsAPasswordByForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.signup("ada@example.com"))
	require.Contains(t, w.visit(nil, "/dashboard/sign-in", nil).text, `href="/dashboard/forgot"`)
	sent := w.visit(nil, "/dashboard/forgot/send", url.Values{"email": {"ada@example.com"}})
	require.Equal(t, "/dashboard/forgot?done=send", sent.location, sent.text)
	require.Contains(t, w.visit(nil, sent.location, nil).text, "a mail with a link is on its way")
	link := strings.TrimPrefix(linkedToken.FindString((<-w.mails).Text), "http://purser.test")
	token := strings.TrimPrefix(link, "/dashboard/reset?token=")
	require.Contains(t, w.visit(nil, link, nil).text, `value="`+token+`"`)
	wrong := w.visit(nil, "/dashboard/reset/set", url.Values{"token": {"reset_x"},
		"newPassword": {"another password"}})
	require.Equal(t, 401, wrong.status)
	require.Contains(t, wrong.text, "Token is unknown, used or expired")
	set := w.visit(nil, "/dashboard/reset/set", url.Values{"token": {token}, "newPassword": {"another password"}})
	require.Equal(t, "/dashboard/reset?done=set", set.location, set.text)
	require.Contains(t, w.visit(nil, set.location, nil).text, "The password is set")
	w.ok(w.login("ada@example.com", "another password"))
}
