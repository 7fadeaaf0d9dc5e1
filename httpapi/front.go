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
	"purser/authorizer/front"
	"purser/httpapi/web"
)

// Front answers every request of a listener with 503 unavailable until Open gives it the server:
// JSON to a program, a page to a browser. It lets a client of a server that still waits for the
// journal learn at once that nothing changed.
type Front struct {
	httpServer *httpServer
	site       *web.Site
	server     atomic.Pointer[Server]
}

// NewFront makes a front without a server: until Open, it answers 503 unavailable to every request,
// so that the port listens while the stores recover. edge limits connections and bodies, and the
// base URL is that of Config.
func NewFront(baseURL string, edge front.Options, log *slog.Logger) *Front {
	if edge.Bodies == nil {
		edge.Bodies = front.NewBudget(front.DefaultBudget)
	}
	site, err := web.New(hostedFiles)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	f := &Front{site: site}
	f.httpServer = newHTTPServer(f.handleRequest, f.refuseMalformed, log, edge)
	if strings.HasPrefix(baseURL, "https:") {
		f.httpServer.requireHTTPS()
	}
	return f
}

// Open hands all later requests to a server, which must not Serve by itself. Open may be called
// once.
func (f *Front) Open(s *Server) { f.server.Store(s) }

// Serve answers requests from a listener until Shutdown, and then returns nil. It may be called for
// several listeners. It returns the error of a listener that fails earlier.
func (f *Front) Serve(ln net.Listener) error { return f.httpServer.Serve(ln) }

// Counts returns the front's connection counters.
func (f *Front) Counts() front.Counts { return f.httpServer.Counts() }

// Shutdown stops accepting requests and waits for the running ones, at most until the context ends.
// It shuts down the server too. It returns the context's error when requests are still running
// then.
func (f *Front) Shutdown(ctx context.Context) error {
	if s := f.server.Load(); s != nil {
		s.streams.endStreams()
	}
	err := f.httpServer.Shutdown(ctx)
	if s := f.server.Load(); s != nil {
		s.stopBackground()
	}
	return err
}

func (f *Front) handleRequest(ctx *fasthttp.RequestCtx) {
	if s := f.server.Load(); s != nil {
		s.handler(ctx)
		return
	}
	respondFault(ctx, fault.New(fault.Unavailable, "The server is starting; nothing changed."))
	ctx.Response.Header.Set("Retry-After", strconv.Itoa(int(unavailableRetry/time.Second)))
	if prefersHTML(acceptOf(&ctx.Request.Header)) {
		_ = writeSitePage(ctx, f.site, web.Page{Step: web.Broken}) // else the JSON stays
	}
}

func (f *Front) refuseMalformed(ctx *fasthttp.RequestCtx, err error) {
	if s := f.server.Load(); s != nil {
		s.refuseMalformed(ctx, err)
		return
	}
	respondFault(ctx, malformedFault(err))
}

func respondFault(ctx *fasthttp.RequestCtx, f *fault.Error) {
	respondJSON(ctx, statuses[f.Code], errorBody{Error: f.Code, Message: f.Message})
	ctx.Response.Header.Set("Cache-Control", "no-store")
	ctx.Response.Header.Set("X-Content-Type-Options", "nosniff")
}
