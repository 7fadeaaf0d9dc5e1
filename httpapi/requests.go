package httpapi

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"

	"purser/persistence/ident"
)

const (
	requestIDHeader = "X-Request-Id"
	maxRequestID    = 64 // characters of an id that the client chose
	// unavailableRetry is the advised wait of a 503 without a more exact one.
	unavailableRetry = time.Second
)

// assignRequestID sets the request's id once: the client's own when plainID accepts it, else a
// random one. The answer and the log lines of the request carry it.
func (e *edge) assignRequestID(ctx *fasthttp.RequestCtx) string {
	if id := ctx.Response.Header.Peek(requestIDHeader); len(id) > 0 {
		return string(id)
	}
	id := string(ctx.Request.Header.Peek(requestIDHeader))
	if !plainID(id) {
		id = e.newRequestID()
	}
	ctx.Response.Header.Set(requestIDHeader, id)
	return id
}

// plainID reports whether an id is safe to write to a header and a log unescaped. An id with a part
// that begins like a secret is not: a client may have sent one by mistake.
func plainID(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return id != "" && len(id) <= maxRequestID && !ident.HasSecretPrefix(id)
}

// newRequestID draws 16 hexadecimal digits. Without entropy it logs the error and returns "none".
func (e *edge) newRequestID() string {
	var random [8]byte
	if _, err := io.ReadFull(e.actors.Entropy(), random[:]); err != nil {
		e.log.Error("no entropy for a request's id", "err", err)
		return "none"
	}
	return hex.EncodeToString(random[:])
}

// recordRequest counts an answered request and logs it, server errors as warnings and the rest at
// debug level. The line names the route, never the path, the peer or a part of the body. took is
// the time from the head of the request to its answer.
func (e *edge) recordRequest(id string, r *route, a answer, took time.Duration) {
	e.metrics.observeRequest(r, a.status, took)
	level := slog.LevelDebug
	if a.status >= fasthttp.StatusInternalServerError {
		level = slog.LevelWarn
	}
	e.log.LogAttrs(context.Background(), level, "request", slog.String("request", id), slog.String("method", r.method),
		slog.String("route", r.path), slog.Int("status", a.status), slog.String("code", string(a.code)),
		slog.Duration("took", took))
}
