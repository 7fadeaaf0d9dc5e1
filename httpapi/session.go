package httpapi

import (
	"context"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/user"
	"purser/actors/workspace"
	"purser/persistence/ident"
)

const (
	sessionCookie = "purser_session"
	sessionLife   = 14 * 24 * time.Hour
)

// authenticateSession finds the user of the cookie and, when the route requires a role, the
// workspace. It fails with unauthorized without an open session, and like enterWorkspace.
func (e *edge) authenticateSession(c *call) error {
	hash, owner, err := e.sessionOf(c)
	if err != nil {
		return err
	}
	if owner == "" {
		return noSession()
	}
	c.who = caller{user: owner, session: hash}
	if c.route.roles == nil {
		return nil
	}
	return e.enterWorkspace(c)
}

// sessionOf finds the open session of the cookie: its hash and its user. The user is "" for a
// missing, malformed, unknown or expired cookie. It fails only with an error of the store.
func (e *edge) sessionOf(c *call) (hash, owner string, err error) {
	slot, hash, err := ident.ParseSecret(ident.SessionSecret, c.header.cookie)
	if err != nil {
		return "", "", nil
	}
	document, err := query.Sessions.Find(c.ctx, e.actors, slot, hash)
	if fault.Is(err, fault.NotFound) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	if !document.ExpiresAt.After(c.now) {
		return "", "", nil
	}
	if document.UseDue(c.now) {
		e.keyUsage.noteUse(toUser(document.UserID, user.NoteSession{SecretHash: hash}))
	}
	return hash, document.UserID, nil
}

// endCookieSession ends the open session of the cookie, whichever user owns it. Without one it does
// nothing. It fails only with an error of the store.
func (e *edge) endCookieSession(c *call) error {
	hash, owner, err := e.sessionOf(c)
	if err != nil || owner == "" {
		return err
	}
	_, err = e.actors.Ask(c.ctx, toUser(owner, user.EndSession{SecretHash: hash}))
	return err
}

// enterWorkspace finds the session's workspace (X-Workspace-Id, else the user's only choice) and
// asks that workspace for the user's role in it. It fails with workspace_required when the choice
// is not clear, and with not_found when the user is not a member.
func (e *edge) enterWorkspace(c *call) error {
	id := c.header.workspaceID
	if id == "" {
		view, err := e.readUser(c.ctx, c.who.user)
		if err != nil {
			return err
		}
		var clear bool
		if id, clear = view.DefaultWorkspace(); !clear {
			return fault.New(fault.WorkspaceRequired, "name the workspace in X-Workspace-Id")
		}
	}
	access, err := ask[workspace.Access](c.ctx, e.actors, toWorkspace(id, workspace.LookUpRole{UserID: c.who.user}))
	if err != nil {
		return err
	}
	c.who.access = access
	return nil
}

// readUser asks the user's actor for its current state. It fails with not_found for an unknown
// user, and with the store's error.
func (e *edge) readUser(ctx context.Context, id string) (user.View, error) {
	return ask[user.View](ctx, e.actors, toUser(id, decision.Read{}))
}

// checkOrigin keeps another site's page from acting with the browser's cookie. A request without
// Origin and Sec-Fetch-Site comes from no browser and passes. Routes without credentials ignore the
// cookie and pass too, except sign-in, which would store another user's session in the browser. A
// refusal is origin_refused.
func (e *edge) checkOrigin(c *call) error {
	if c.method == fasthttp.MethodGet || c.method == fasthttp.MethodHead || c.route.auth == authPartner ||
		c.route.auth == authNone && !c.route.signsIn {
		return nil
	}
	refused := fault.New(fault.OriginRefused, "a session acts only for pages of its own origin")
	switch c.header.fetchSite {
	case "cross-site", "same-site":
		return refused
	}
	scheme, _, _ := strings.Cut(e.origin, "://")
	switch c.header.origin {
	case "", e.origin, scheme + "://" + c.header.host:
		return nil
	}
	return refused
}

// newCookie returns the session's cookie; an empty secret deletes it. The cookie is HttpOnly and
// SameSite=Lax, Secure under https, and lasts sessionLife.
func (e *edge) newCookie(secret string) *fasthttp.Cookie {
	cookie := &fasthttp.Cookie{}
	cookie.SetKey(sessionCookie)
	cookie.SetValue(secret)
	cookie.SetPath("/")
	cookie.SetHTTPOnly(true)
	cookie.SetSecure(e.secure)
	cookie.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	cookie.SetMaxAge(int(sessionLife / time.Second))
	if secret == "" {
		cookie.SetExpire(fasthttp.CookieExpireDelete)
		cookie.SetMaxAge(0)
	}
	return cookie
}
