package httpapi

import (
	"time"

	"purser/actors/decision"
	"purser/actors/user"
)

// sessionRoutes returns the routes by which a person sees and ends sessions.
func (h *sessionHandlers) sessionRoutes() []route {
	const path = "/api/dashboard/sessions"
	return []route{
		{method: "GET", path: path, auth: authSession, query: pageQuery, handle: h.listSessions},
		{method: "DELETE", path: path + "/{id}", auth: authSession, handle: h.endSession},
		{method: "POST", path: path + "/end-others", onFullDisk: true, auth: authSession, handle: h.endOtherSessions},
	}
}

// sessionDocument is a session in the interface.
type sessionDocument struct {
	ID         string         `json:"id"`
	CreatedAt  decision.Stamp `json:"createdAt"`
	LastUsedAt decision.Stamp `json:"lastUsedAt"`
	ExpiresAt  decision.Stamp `json:"expiresAt"`
	Current    bool           `json:"current"`
}

// showSession shows a session. Every session lasts equally long, so its start follows from its end.
func showSession(c *call, s user.Session) sessionDocument {
	return sessionDocument{ID: s.ID(), CreatedAt: decision.StampOf(s.ExpiresAt.Add(-sessionLife)),
		LastUsedAt: s.UsedAt, ExpiresAt: s.ExpiresAt, Current: s.Hash == c.who.session}
}

// listSessions handles GET /api/dashboard/sessions: the open sessions of the session's user, at
// most user.MaxSessions. It fails like listInState.
func (h *sessionHandlers) listSessions(c *call) (answer, error) {
	open, err := ask[[]user.Session](c.ctx, h.actors, toUser(c.who.user, user.ListSessions{}))
	if err != nil {
		return answer{}, err
	}
	return listInState(c, "session", open,
		func(s user.Session) time.Time { return s.ExpiresAt.Time },
		func(s user.Session) (any, error) { return showSession(c, s), nil })
}

// endSession handles DELETE /api/dashboard/sessions/{id}. It fails with not_found for an id without
// an open session of the user. The end of the request's own session deletes its cookie.
func (h *sessionHandlers) endSession(c *call) (answer, error) {
	ended, err := ask[[]user.Session](c.ctx, h.actors, toUser(c.who.user, user.EndSessions{ID: c.params["id"]}))
	if err != nil {
		return answer{}, err
	}
	shown := showSession(c, ended[0])
	a, err := reply(map[string]any{"session": shown})
	if shown.Current {
		a.cookie = h.newCookie("")
	}
	return a, err
}

// endOtherSessions handles POST /api/dashboard/sessions/end-others: every session of the user but
// the request's own ends. It fails only with an error of the store.
func (h *sessionHandlers) endOtherSessions(c *call) (answer, error) {
	ended, err := ask[[]user.Session](c.ctx, h.actors, toUser(c.who.user, user.EndSessions{Keep: c.who.session}))
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]int{"ended": len(ended)})
}
