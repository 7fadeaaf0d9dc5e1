package httpapi

import (
	"slices"

	"purser/actors/decision"
	"purser/actors/user"
)

// sessionRoutes returns the routes by which a person sees and ends sessions.
func (h *sessionHandlers) sessionRoutes() []route {
	const path = "/api/dashboard/sessions"
	return []route{
		{method: "GET", path: path, auth: authSession, handle: h.listSessions},
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

// showSessions lists sessions, the newest first. Every session lasts equally long, so its start
// follows from its end.
func showSessions(c *call, sessions []user.Session) []sessionDocument {
	shown := []sessionDocument{}
	for _, s := range slices.Backward(sessions) {
		shown = append(shown, sessionDocument{ID: s.ID(), CreatedAt: decision.StampOf(s.ExpiresAt.Add(-sessionLife)),
			LastUsedAt: s.UsedAt, ExpiresAt: s.ExpiresAt, Current: s.Hash == c.who.session})
	}
	return shown
}

// listSessions handles GET /api/dashboard/sessions: the open sessions of the session's user, at
// most user.MaxSessions. It fails only with an error of the store.
func (h *sessionHandlers) listSessions(c *call) (answer, error) {
	open, err := ask[[]user.Session](c.ctx, h.actors, toUser(c.who.user, user.ListSessions{}))
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"data": showSessions(c, open)})
}

// endSession handles DELETE /api/dashboard/sessions/{id}. It fails with not_found for an id without
// an open session of the user. The end of the request's own session deletes its cookie.
func (h *sessionHandlers) endSession(c *call) (answer, error) {
	ended, err := ask[[]user.Session](c.ctx, h.actors, toUser(c.who.user, user.EndSessions{ID: c.params["id"]}))
	if err != nil {
		return answer{}, err
	}
	shown := showSessions(c, ended)
	a, err := reply(map[string]any{"session": shown[0]})
	if shown[0].Current {
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
