package httpapi

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/stretchr/testify/require"

	"purser/actors/user"
	"purser/persistence/ident"
)

// codeOf returns the code of a secret, some steps from now.
func (w *world) codeOf(secret string, steps int64) string {
	w.t.Helper()
	code, err := hotp.GenerateCodeCustom(secret, uint64(w.clock.now().Unix()/codePeriod+steps),
		hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
	require.NoError(w.t, err)
	return code
}

// beginFactor returns a pending secret of a session.
func (w *world) beginFactor(cookie string) string {
	w.t.Helper()
	return w.ok(w.post(session(cookie), "/api/dashboard/second-factor", `{"password":"a long password"}`)).
		text("secondFactor", "pending", "secret")
}

// withFactor turns on the second factor of a session's user, and returns its secret and its first
// recovery code.
func (w *world) withFactor(cookie string) (secret, recovery string) {
	w.t.Helper()
	secret = w.beginFactor(cookie)
	enabled := w.ok(w.post(session(cookie), "/api/dashboard/second-factor/enable", `{"code":"`+w.codeOf(secret, 0)+`"}`))
	require.Len(w.t, enabled.at("recoveryCodes"), user.RecoveryCodes)
	return secret, enabled.text("recoveryCodes", 0)
}

func (w *world) sendCode(challenge, code string) testReply {
	w.t.Helper()
	return w.post(nil, "/api/dashboard/login/code", fmt.Sprintf(`{"challenge":%q,"code":%q}`, challenge, code))
}

// challenged signs in with the right password, and returns the challenge.
func (w *world) challenged(email string) string {
	w.t.Helper()
	r := w.login(email, right)
	require.Equal(w.t, 202, r.status, r.raw)
	require.Empty(w.t, r.cookie, "no session before the code")
	return r.text("challenge")
}

func TestASignInWithASecondFactorNeedsACode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cookie := w.ok(w.signup("Ada@example.com")).cookie
	secret, recovery := w.withFactor(cookie)
	w.ok(w.get(session(cookie), "/api/dashboard/me"))
	w.fails(w.login("ada@example.com", wrong), 401, "invalid_credentials")
	first := w.challenged("ada@example.com")
	w.fails(w.sendCode(first, "000000"), 401, "invalid_credentials")
	w.fails(w.sendCode(first, w.codeOf(secret, 0)), 401, "invalid_credentials") // it has turned the factor on
	w.clock.turn(codePeriod * time.Second)
	code := w.codeOf(secret, 0)
	in := w.ok(w.sendCode(first, code[:3]+" "+code[3:]))
	require.Equal(t, "Ada@example.com", in.text("user", "email"))
	w.ok(w.get(session(in.cookie), "/api/dashboard/me"))
	w.fails(w.sendCode(first, w.codeOf(secret, 1)), 401, "invalid_credentials") // a used challenge

	second := w.challenged("ada@example.com")
	w.fails(w.sendCode(second, code), 401, "invalid_credentials")
	w.ok(w.sendCode(second, strings.ToUpper(recovery)))
	third := w.challenged("ada@example.com")
	w.fails(w.sendCode(third, recovery), 401, "invalid_credentials")
	left := w.ok(w.get(session(in.cookie), "/api/dashboard/second-factor"))
	require.EqualValues(t, 9, left.at("secondFactor", "recoveryCodesLeft"))
	require.Nil(t, left.at("secondFactor", "pending"))
}

// Before the code there is no session: the challenge opens no route and no page, and turns no
// factor off.
func TestAChallengeIsNoSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.withFactor(tn.cookie)
	challenge := w.challenged("ada@example.com")
	for _, who := range []as{session(challenge), key(challenge)} {
		at := who.with("X-Workspace-Id", tn.workspace)
		for _, path := range []string{"/api/dashboard/me", "/api/dashboard/second-factor", "/api/treasury"} {
			w.fails(w.get(at, path), 401, "unauthorized")
		}
		w.fails(w.post(at, "/api/dashboard/second-factor/disable", `{"password":"a long password"}`), 401, "unauthorized")
		page := w.visit(who, "/dashboard/account", nil)
		require.Equal(t, "/dashboard/sign-in?next=%2Fdashboard%2Faccount", page.location)
	}
	require.Equal(t, 202, w.login("ada@example.com", right).status, "the factor is on")
}

// A phone's clock may differ by one step.
func TestACodeIsTakenWithinOneStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret, _ := w.withFactor(w.ok(w.signup("ada@example.com")).cookie)
	w.clock.turn(time.Hour)
	for _, steps := range []int64{-2, 2} {
		w.fails(w.sendCode(w.challenged("ada@example.com"), w.codeOf(secret, steps)), 401, "invalid_credentials")
	}
	for _, steps := range []int64{-1, 0, 1} {
		w.ok(w.sendCode(w.challenged("ada@example.com"), w.codeOf(secret, steps)))
	}
}

// aheadOfOthers is the actors of a server whose trusted time is ahead of other machines.
type aheadOfOthers struct {
	Actors
	by time.Duration
}

// WallTime implements Actors.
func (a aheadOfOthers) WallTime() time.Time { return a.Actors.WallTime().Add(-a.by) }

// A phone's clock is right when trusted time is ahead, as for hours after a wall clock was set back.
func TestACodeIsOfTheTimeOfOtherMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Actors = aheadOfOthers{c.Actors, time.Hour} })
	cookie := w.ok(w.signup("ada@example.com")).cookie
	const anHour = 3600 / codePeriod
	secret := w.beginFactor(cookie)
	enable := func(steps int64) testReply {
		return w.post(session(cookie), "/api/dashboard/second-factor/enable", `{"code":"`+w.codeOf(secret, steps)+`"}`)
	}
	w.fails(enable(0), 401, "invalid_credentials")
	w.ok(enable(-anHour))
	w.fails(w.sendCode(w.challenged("ada@example.com"), w.codeOf(secret, 0)), 401, "invalid_credentials")
	w.ok(w.sendCode(w.challenged("ada@example.com"), w.codeOf(secret, 1-anHour)))
}

func TestAChallengeExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret, _ := w.withFactor(w.ok(w.signup("ada@example.com")).cookie)
	challenge := w.challenged("ada@example.com")
	w.clock.turn(challengeLife)
	w.fails(w.sendCode(challenge, w.codeOf(secret, 0)), 401, "invalid_credentials")
	w.fails(w.sendCode("signin_nonsense", w.codeOf(secret, 0)), 401, "invalid_credentials")
}

// A password change ends the challenges that the old password has opened.
func TestAChallengeDoesNotOutlastAPasswordChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret, _ := w.withFactor(w.ok(w.signup("ada@example.com")).cookie)
	challenge := w.challenged("ada@example.com")
	w.ok(w.reset(w.resetToken("ada@example.com"), "another password"))
	w.clock.turn(codePeriod * time.Second)
	w.fails(w.sendCode(challenge, w.codeOf(secret, 0)), 401, "invalid_credentials")
	require.Equal(t, 202, w.login("ada@example.com", "another password").status, "a reset keeps the factor")
}

// The codes of an account are bounded over all its challenges and addresses, and those of an
// address.
func TestCodesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.countDelays()
	secret, _ := w.withFactor(w.ok(w.signup("ada@example.com")).cookie)
	w.clock.turn(time.Hour)
	for i := range triesPerHour {
		w.at(fmt.Sprint("10.0.0.", i), func() {
			w.fails(w.sendCode(w.challenged("ada@example.com"), "000000"), 401, "invalid_credentials")
		})
		if i == triesPerHour/2 {
			w.clock.turn(time.Minute)
		}
	}
	w.at("10.0.1.1", func() {
		w.overLimit(w.sendCode(w.challenged("ada@example.com"), w.codeOf(secret, 0)), tryWindow-time.Minute)
	})
	w.clock.turn(tryWindow)
	w.ok(w.sendCode(w.challenged("ada@example.com"), w.codeOf(secret, 0)))
	for range codesPerAddress - 1 {
		w.fails(w.sendCode("signin_guess", "000000"), 401, "invalid_credentials")
	}
	w.overLimit(w.sendCode("signin_guess", "000000"), rateWindow)
}

func TestChallengesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret, _ := w.withFactor(w.ok(w.signup("ada@example.com")).cookie)
	first := w.challenged("ada@example.com")
	for range challengesPerUser {
		w.challenged("ada@example.com")
	}
	require.Len(t, w.server.sessions.challenges.pending, challengesPerUser)
	w.clock.turn(codePeriod * time.Second)
	w.fails(w.sendCode(first, w.codeOf(secret, 0)), 401, "invalid_credentials")
	for i := range maxChallenges - challengesPerUser {
		_, err := w.server.sessions.challenges.open(openChallenge{who: userDocument{ID: fmt.Sprint(i)}},
			w.clock.now(),
			w.system.Entropy())
		require.NoError(t, err)
	}
	w.ok(w.signup("bob@example.com"))
	secret, _ = w.withFactor(w.ok(w.login("bob@example.com", right)).cookie)
	require.NotEmpty(t, secret)
	full := w.login("bob@example.com", right)
	w.fails(full, 503, "unavailable")
	w.clock.turn(challengeLife)
	w.challenged("bob@example.com")
}

// Turning the factor on and off asks for the password, and a secret is shown to its session alone.
func TestTheSecondFactorIsTurnedOnAndOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cookie := w.ok(w.signup("ada@example.com")).cookie
	other := w.ok(w.login("ada@example.com", right)).cookie
	const path = "/api/dashboard/second-factor"
	w.fails(w.post(session(cookie), path, `{"password":"a wrong password"}`), 401, "invalid_credentials")
	w.fails(w.post(session(cookie), path+"/enable", `{"code":"000000"}`), 401, "invalid_credentials")
	secret := w.beginFactor(cookie)
	uri := w.ok(w.get(session(cookie), path)).text("secondFactor", "pending", "uri")
	key, err := otp.NewKeyFromURL(uri)
	require.NoError(t, err)
	require.Equal(t, []string{secret, "Purser", "ada@example.com", "totp"}, []string{key.Secret(), key.Issuer(),
		key.AccountName(), key.Type()})
	require.Nil(t, w.ok(w.get(session(other), path)).at("secondFactor", "pending"))
	w.fails(w.post(session(other), path+"/enable", `{"code":"`+w.codeOf(secret, 0)+`"}`), 401, "invalid_credentials")
	w.ok(w.post(session(cookie), path+"/enable", `{"code":"`+w.codeOf(secret, 0)+`"}`))
	w.fails(w.post(session(cookie), path, `{"password":"a long password"}`), 409, "second_factor_enabled")
	w.fails(w.post(session(cookie), path+"/disable", `{"password":"a wrong password"}`), 401, "invalid_credentials")
	w.ok(w.post(session(cookie), path+"/disable", `{"password":"a long password"}`))
	w.ok(w.login("ada@example.com", right))
}

func TestAnOperatorRemovesASecondFactor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withFactor(w.ok(w.signup("ada@example.com")).cookie)
	_, err := w.server.IssueReset(t.Context(), "ada@example.com", true)
	require.NoError(t, err)
	w.ok(w.login("ada@example.com", right))
}

// The secret is sealed, and recovery codes are stored as hashes.
func TestTheSecondFactorIsStoredSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	secret, recovery := w.withFactor(tn.cookie)
	pending := w.newTenant("bob")
	begun := w.beginFactor(pending.cookie)
	stored := strings.ToUpper(w.storedOf(tn) + w.storedOf(pending) + w.recordOf(tn, user.RecordFactor) +
		w.recordOf(pending, user.RecordPendingFactor))
	for _, hidden := range []string{secret, begun, recovery, plainCode(recovery)} {
		require.NotContains(t, stored, strings.ToUpper(hidden))
	}
}

// recordOf returns the stored text of a record of a tenant's user.
func (w *world) recordOf(tn tenant, kind string) string {
	w.t.Helper()
	id := w.ok(w.get(session(tn.cookie), "/api/dashboard/me")).text("user", "id")
	slot, err := ident.SlotOf(id)
	require.NoError(w.t, err)
	record, err := w.journal.Record(w.t.Context(), slot, kind, id)
	require.NoError(w.t, err)
	require.Contains(w.t, string(record.Document), "sealed")
	return string(record.Document)
}

// The account page shows how many recovery codes are left.
func TestTheAccountShowsTheRecoveryCodesThatAreLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cookie := w.ok(w.signup("ada@example.com")).cookie
	left := regexp.MustCompile(`Recovery codes left</dt>\s*<dd[^>]*>\s*(\d+)`)
	account := func(cookie string) string { return w.visit(session(cookie), "/dashboard/account", nil).text }
	require.Contains(t, account(cookie), "Turn it on")
	require.NotRegexp(t, left, account(cookie))
	_, recovery := w.withFactor(cookie)
	require.Contains(t, account(cookie), "Turn it off")
	require.Equal(t, "10", left.FindStringSubmatch(account(cookie))[1])
	cookie = w.ok(w.sendCode(w.challenged("ada@example.com"), recovery)).cookie
	require.Equal(t, "9", left.FindStringSubmatch(account(cookie))[1])
}

func TestAPersonUsesASecondFactorByForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cookie := w.ok(w.signup("ada@example.com")).cookie
	const address = "/dashboard/account/second-factor"
	begun := w.visit(session(cookie), address+"/begin", url.Values{"password": {right}})
	require.Equal(t, 303, begun.status, begun.text)
	secret := w.ok(w.get(session(cookie), "/api/dashboard/second-factor")).text("secondFactor", "pending", "secret")
	page := w.visit(session(cookie), address, nil)
	require.Contains(t, page.text, secret)
	require.Contains(t, page.text, `<svg class="qr"`)
	refused := w.visit(session(cookie), address+"/enable", url.Values{"code": {"000000"}})
	require.Equal(t, 401, refused.status)
	require.Contains(t, refused.text, "Code is wrong")
	on := w.visit(session(cookie), address+"/enable", url.Values{"code": {w.codeOf(secret, 0)}})
	require.Contains(t, on.text, "Keep these codes now")
	require.NotContains(t, w.visit(session(cookie), address, nil).text, secret)

	asked := w.visit(nil, "/dashboard/sign-in/enter?next=%2Fdashboard%2Faccount",
		url.Values{"email": {"ada@example.com"}, "password": {right}})
	require.Equal(t, 303, asked.status, asked.text)
	require.Empty(t, asked.cookie)
	require.True(t, strings.HasPrefix(asked.location, "/dashboard/sign-in/code?challenge=signin_"), asked.location)
	form := w.visit(nil, asked.location, nil)
	require.Equal(t, 200, form.status)
	to, err := url.Parse(asked.location)
	require.NoError(t, err)
	w.clock.turn(codePeriod * time.Second)
	values := url.Values{"challenge": {to.Query().Get("challenge")}, "code": {"000000"}}
	again := w.visit(nil, "/dashboard/sign-in/code/verify?"+to.RawQuery, values)
	require.Equal(t, 401, again.status)
	require.Contains(t, again.text, `value="`+to.Query().Get("challenge")+`"`)
	values.Set("code", w.codeOf(secret, 0))
	in := w.visit(nil, "/dashboard/sign-in/code/verify?"+to.RawQuery, values)
	require.Equal(t, "/dashboard/account", in.location, in.text)
	off := w.visit(session(in.cookie), address+"/disable", url.Values{"password": {right}})
	require.Equal(t, address+"?done=disable", off.location, off.text)
	w.ok(w.login("ada@example.com", right))
}
