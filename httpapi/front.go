package httpapi

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/fault"
	"purser/authorizer/drain"
)

// Front answers every request of a listener with 503 unavailable until Open gives it the server. A
// start that waits for the journal needs it: clients learn at once that nothing changed.
type Front struct {
	httpServer *httpServer
	server     atomic.Pointer[Server]
}

// NewFront makes a front without a server, within limits of connections and bodies. The base URL is
// that of Config.
func NewFront(baseURL string, edge drain.Options, log *slog.Logger) *Front {
	if edge.Bodies == nil {
		edge.Bodies = drain.NewBudget(drain.DefaultBudget)
	}
	f := &Front{}
	f.httpServer = newHTTPServer(f.handle, f.malformed, log, edge)
	if strings.HasPrefix(baseURL, "https:") {
		f.httpServer.requireHTTPS()
	}
	return f
}

// Open hands all requests from now on to a server, which is not served by itself. It may be called once.
func (f *Front) Open(s *Server) { f.server.Store(s) }

// Serve answers requests from a listener until Shutdown, then returns nil. It may be called for several listeners.
func (f *Front) Serve(ln net.Listener) error { return f.httpServer.Serve(ln) }

// Counts returns the front's connection counters.
func (f *Front) Counts() drain.Counts { return f.httpServer.Counts() }

// Shutdown stops taking requests and waits for those that run, or for the context. It shuts the server too.
func (f *Front) Shutdown(ctx context.Context) error {
	err := f.httpServer.Shutdown(ctx)
	if s := f.server.Load(); s != nil {
		s.stopBackground()
	}
	return err
}

func (f *Front) handle(ctx *fasthttp.RequestCtx) {
	if s := f.server.Load(); s != nil {
		s.handler(ctx)
		return
	}
	turnAway(ctx, fault.New(fault.Unavailable, "The server is starting; nothing changed."))
	ctx.Response.Header.Set("Retry-After", strconv.Itoa(int(unavailableRetry/time.Second)))
}

func (f *Front) malformed(ctx *fasthttp.RequestCtx, err error) {
	if s := f.server.Load(); s != nil {
		s.malformed(ctx, err)
		return
	}
	turnAway(ctx, malformedFault(err))
}

func turnAway(ctx *fasthttp.RequestCtx, f *fault.Error) {
	respond(ctx, statuses[f.Code], errorBody{Error: f.Code, Message: f.Message})
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.Header.Set("X-Content-Type-Options", "nosniff")
}
