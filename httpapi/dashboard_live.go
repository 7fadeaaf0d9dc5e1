package httpapi

import (
	"fmt"
	"strconv"

	"github.com/valyala/fasthttp"

	"purser/actors/fault"
	"purser/httpapi/dashboard"
)

// streamChanges handles GET /dashboard/{workspace}/live: server-sent events that say only whether
// something has changed in the workspace, on which an open page asks for itself again. Each stream
// begins with an event. It continues behind Last-Event-ID, or else behind the parameter after,
// which is the position that the page shows. Streams count only against the limit of the address,
// so that open pages use up no requests of their user. A stream ends with the session, and with the
// first change after the end of the membership. streamChanges fails with unauthorized without a
// session, with not_found in a workspace of others, with invalid_query for a position that is no
// number, and like eventStreams.send.
func (h *pageHandlers) streamChanges(ctx *fasthttp.RequestCtx, c *call) error {
	visited := dashboard.Visit{Path: c.params["workspace"]}
	if err := h.enterVisit(c, &visited); err != nil {
		return err
	}
	switch {
	case visited.Email == "":
		return noSession()
	case visited.Role == "":
		return fault.New(fault.NotFound, "")
	}
	behind := ctx.Request.Header.Peek("Last-Event-ID")
	if len(behind) == 0 {
		behind = ctx.QueryArgs().Peek("after")
	}
	at, err := strconv.ParseUint(string(behind), 10, 64)
	if err != nil {
		return fault.New(fault.InvalidQuery, "after must be a position")
	}
	begun := false
	return h.streams.send(ctx, c, c.who.user, func(c *call) (string, error) {
		c.now = h.actors.Clock()
		if _, owner, err := h.sessionOf(c); err != nil || owner == "" {
			return "", noSession()
		}
		changed, next, err := h.actors.ChangedSince(c.ctx, visited.Workspace, at)
		if err != nil {
			return "", err
		}
		at = next
		if begun && !changed {
			return "", nil
		}
		// The end of a membership is itself a change of the workspace.
		if err := h.enterWorkspace(c); err != nil {
			return "", err
		}
		word := "unchanged"
		if changed {
			word = "changed"
		}
		begun = true
		return fmt.Sprintf("id: %d\ndata: %s\n\n", at, word), nil
	})
}
