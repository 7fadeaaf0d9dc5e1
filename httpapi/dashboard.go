package httpapi

import (
	"fmt"
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/user"
	"purser/httpapi/mail"
	"purser/httpapi/password"
	"purser/persistence/ident"
)

// sessionHandlers serve the users of the dashboard: sign-up, sign-in, sessions and passwords.
type sessionHandlers struct {
	*edge
	accounts   accountReader
	passwords  *password.Hasher
	delays     *delayLine
	mails      *mail.Queue // nil without a mail server
	challenges *challenges
}

// dashboardRoutes returns the routes of a person: sign-up, sign-in, sessions and passwords.
func (h *sessionHandlers) dashboardRoutes() []route {
	return append([]route{
		{method: "POST", path: "/api/dashboard/signup", auth: authNone, signsIn: true, handle: h.signUp},
		{method: "POST", path: "/api/dashboard/login", onFullDisk: true, auth: authNone, signsIn: true,
			handle: h.logIn},
		{method: "POST", path: "/api/dashboard/password", onFullDisk: true, auth: authSession, signsIn: true,
			handle: h.changePassword},
		{method: "POST", path: "/api/dashboard/logout", onFullDisk: true, auth: authSession, handle: h.logOut},
		{method: "GET", path: "/api/dashboard/me", auth: authSession, handle: h.showMe},
	}, slices.Concat((&emailHandlers{h}).emailRoutes(), h.resetRoutes(), h.sessionRoutes(), h.factorRoutes())...)
}

// userDocument is a user in the interface.
type userDocument struct {
	ID        string         `json:"id"`
	Email     string         `json:"email"`
	CreatedAt decision.Stamp `json:"createdAt"`
}

// listedWorkspace is a workspace in the list of its member.
type listedWorkspace struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role"`
}

// credentials is the body of sign-up and sign-in.
type credentials struct {
	Email    string `json:"email"`
	Password string `json:"password"`
	folded   string
}

// readCredentials reads the body of a sign-up or sign-in and folds the email. It fails with
// invalid_body.
func (h *sessionHandlers) readCredentials(c *call) (credentials, error) {
	var body credentials
	if err := h.decode(c, &body); err != nil {
		return body, err
	}
	folded, ok := user.FoldEmail(body.Email)
	if !ok {
		return body, fault.New(fault.InvalidBody, "email must be an email address")
	}
	body.folded = folded
	return body, nil
}

// signUp handles POST /api/dashboard/signup: it creates a user and starts a session. It fails with
// signup_closed, rate_limited, invalid_body, email_taken, and unavailable when the password queue
// is full.
func (h *sessionHandlers) signUp(c *call) (answer, error) {
	if h.cfg.SignupClosed {
		return answer{}, fault.New(fault.SignupClosed, "this deployment takes no new users")
	}
	if err := h.limitSignUp(c); err != nil {
		return answer{}, err
	}
	body, err := h.readCredentials(c)
	if err != nil {
		return answer{}, err
	}
	hash, err := h.passwords.Hash(c.ctx, password.Caller{Address: c.peer}, body.Password)
	if err != nil {
		return answer{}, passwordFault(err)
	}
	view, err := h.registerUser(c, body, hash)
	if err != nil {
		return answer{}, err
	}
	return h.startSession(c, userDocument{ID: view.ID, Email: view.Email, CreatedAt: view.CreatedAt},
		user.StartSession{})
}

// registerUser creates the user in the slot of the email. It fails with email_taken, without
// entropy, and with an error of the store.
func (h *sessionHandlers) registerUser(c *call, body credentials, passwordHash string) (user.View, error) {
	slot := h.actors.TenantSlot(body.folded)
	u, err := ident.New(slot, c.now, h.actors.Entropy())
	if err != nil {
		return user.View{}, err
	}
	claim, err := h.accounts.claimOf(c.ctx, slot, body.folded)
	if err != nil {
		return user.View{}, err
	}
	id := u.Format(ident.User)
	return ask[user.View](c.ctx, h.actors, toUser(id, user.Register{ID: id, Email: body.Email,
		PasswordHash: passwordHash, Generation: claim.Generation}))
}

// logIn handles POST /api/dashboard/login. It answers an unknown email like a wrong password, after
// the same work, so that it discloses no accounts: both are invalid_credentials. With a second
// factor the answer is a challenge, and no session starts. It also fails with invalid_body,
// rate_limited, and unavailable when the password queue is full.
func (h *sessionHandlers) logIn(c *call) (answer, error) {
	body, err := h.readCredentials(c)
	if err != nil {
		return answer{}, err
	}
	id, credential, err := h.accounts.credentialOf(c.ctx, body.folded)
	if err != nil {
		return answer{}, err
	}
	places, err := h.placesOf(c.ctx, id)
	if err != nil {
		return answer{}, err
	}
	known := places.Knows(user.PlaceHash(id, c.peer), c.now)
	if err := h.guardSignIn(c, user.EmailHash(body.folded), known); err != nil {
		return answer{}, err
	}
	matches, err := h.passwords.Matches(c.ctx, password.Caller{Address: c.peer, Known: known}, credential.PasswordHash,
		body.Password)
	if err != nil {
		return answer{}, passwordFault(err)
	}
	if !matches {
		return answer{}, fault.New(fault.InvalidCredentials, "the email or the password is wrong")
	}
	view, err := h.readUser(c.ctx, id)
	if err != nil {
		return answer{}, err
	}
	who := userDocument{ID: id, Email: credential.Email, CreatedAt: view.CreatedAt}
	start := user.StartSession{Changes: credential.Changes, Places: places}
	if view.Factor != nil {
		return h.challengeSignIn(c, who, start)
	}
	return h.startSession(c, who, start)
}

// changePassword handles POST /api/dashboard/password: it replaces the password of the session's
// user. Every session ends, and the answer starts a new one. It fails with invalid_credentials for
// a wrong current password, with invalid_body, rate_limited or unavailable.
func (h *sessionHandlers) changePassword(c *call) (answer, error) {
	var body struct {
		CurrentPassword string `json:"currentPassword"`
		NewPassword     string `json:"newPassword"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	credential, err := h.matchPassword(c, "currentPassword", body.CurrentPassword)
	if err != nil {
		return answer{}, err
	}
	hash, err := h.passwords.Hash(c.ctx, password.Caller{Address: c.peer, Known: true}, body.NewPassword)
	if err != nil {
		return answer{}, passwordFault(err)
	}
	start, secret, err := h.newSession(c, c.who.user, user.StartSession{Changes: credential.Changes})
	if err != nil {
		return answer{}, err
	}
	view, err := ask[user.View](c.ctx, h.actors, toUser(c.who.user,
		user.ChangePassword{Email: credential.Email, PasswordHash: hash, Start: start}))
	if err != nil {
		return answer{}, err
	}
	a, err := reply(map[string]any{"user": userDocument{ID: view.ID, Email: credential.Email,
		CreatedAt: view.CreatedAt}})
	a.cookie = h.newCookie(secret)
	return a, err
}

// newSession completes a command with a fresh secret and the place (a hash of the address) of the
// request. It returns the secret for the cookie. It fails only without entropy.
func (h *sessionHandlers) newSession(c *call, id string, start user.StartSession) (user.StartSession, string, error) {
	slot, err := ident.SlotOf(id)
	if err != nil {
		return start, "", fmt.Errorf("slot of a user: %w", err)
	}
	secret, err := ident.NewSecret(ident.SessionSecret, slot, h.actors.Entropy())
	if err != nil {
		return start, "", err
	}
	_, hash, err := ident.ParseSecret(ident.SessionSecret, secret)
	if err != nil {
		return start, "", fmt.Errorf("a fresh secret: %w", err)
	}
	start.SecretHash, start.Life = hash, sessionLife
	start.Places = start.Places.With(user.PlaceHash(id, c.peer), c.now)
	return start, secret, nil
}

// startSession starts a session for the user of a sign-up or sign-in. The session of the request's
// cookie ends, because the answer replaces its cookie. It fails with the user's refusal after a
// password change in between, and with the store's error.
func (h *sessionHandlers) startSession(c *call, who userDocument, start user.StartSession) (answer, error) {
	start, secret, err := h.newSession(c, who.ID, start)
	if err != nil {
		return answer{}, err
	}
	if err := h.endCookieSession(c); err != nil {
		return answer{}, err
	}
	_, err = h.actors.Ask(c.ctx, toUser(who.ID, start))
	if err != nil {
		return answer{}, err
	}
	a, err := reply(map[string]any{"user": who})
	a.cookie = h.newCookie(secret)
	return a, err
}

// logOut handles POST /api/dashboard/logout: it ends the session and deletes its cookie. It fails
// only with an error of the store.
func (h *sessionHandlers) logOut(c *call) (answer, error) {
	_, err := h.actors.Ask(c.ctx, toUser(c.who.user, user.EndSession{SecretHash: c.who.session}))
	if err != nil {
		return answer{}, err
	}
	a, err := reply(map[string]bool{"ended": true})
	a.cookie = h.newCookie("")
	return a, err
}

// showMe handles GET /api/dashboard/me: the session's user and the user's workspaces. It fails only
// with an error of the store.
func (h *sessionHandlers) showMe(c *call) (answer, error) {
	view, err := h.readUser(c.ctx, c.who.user)
	if err != nil {
		return answer{}, err
	}
	credential, err := h.accounts.readCredential(c.ctx, c.who.user)
	if err != nil {
		return answer{}, err
	}
	workspaces := []listedWorkspace{}
	for _, w := range view.Workspaces {
		workspaces = append(workspaces, listedWorkspace{ID: w.ID, Name: w.Name, Role: w.Role})
	}
	return reply(map[string]any{
		"user":       userDocument{ID: view.ID, Email: credential.Email, CreatedAt: view.CreatedAt},
		"workspaces": workspaces,
	})
}
