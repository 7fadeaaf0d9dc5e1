package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"github.com/valyala/fasthttp/pprofhandler"

	"github.com/fasthttp/router"

	"purser/actors/fault"
)

// Command is what an operator's command does in the running server. The context ends with the server, not with the
// connection. Its result is written as JSON; its error is shown whole, for only an operator reads it.
type Command func(ctx context.Context, body []byte) (result any, err error)

// AdminConfig is what NewAdmin needs. Ready and Registry are required.
type AdminConfig struct {
	// Ready returns why the server should get no traffic, nil when it should. Each line of its text is one reason.
	Ready    func() error
	Registry *prometheus.Registry
	// Commands are mounted under POST /<name>.
	Commands map[string]Command
	Logger   *slog.Logger
}

// Admin serves the operator's port: /healthz, /readyz, /metrics, pprof and the commands. It has no authentication: bind it
// to an address that only operators reach. Pages of a browser are refused.
type Admin struct {
	cfg    AdminConfig
	log    *slog.Logger
	door   *door
	base   context.Context
	cancel context.CancelFunc
}

// NewAdmin makes the operator's server.
func NewAdmin(c AdminConfig) (*Admin, error) {
	if c.Ready == nil || c.Registry == nil {
		return nil, errors.New("httpapi.AdminConfig: Ready and Registry are required")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Admin{cfg: c, log: c.Logger}
	a.base, a.cancel = context.WithCancel(context.Background())
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath, r.HandleOPTIONS = false, false, false
	r.GET("/healthz", func(ctx *fasthttp.RequestCtx) { respond(ctx, fasthttp.StatusOK, map[string]string{"status": "ok"}) })
	r.GET("/readyz", a.readyz)
	r.GET("/metrics", fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(c.Registry, promhttp.HandlerOpts{})))
	r.GET("/debug/pprof/{name:*}", pprofhandler.PprofHandler)
	for name, command := range c.Commands {
		r.POST("/"+name, func(ctx *fasthttp.RequestCtx) { a.run(ctx, name, command) })
	}
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		respond(ctx, fasthttp.StatusNotFound, errorBody{Error: fault.NotFound})
	}
	r.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) {
		respond(ctx, fasthttp.StatusMethodNotAllowed, errorBody{Error: fault.MethodNotAllowed})
	}
	r.PanicHandler = func(ctx *fasthttp.RequestCtx, cause any) {
		a.log.Error("admin panic", slog.Any("cause", cause))
		respond(ctx, fasthttp.StatusInternalServerError, errorBody{Error: fault.Internal, Message: fmt.Sprint(cause)})
	}
	a.door = newDoor(noBrowser(r.Handler), func(ctx *fasthttp.RequestCtx, err error) {
		f := malformedFault(err)
		respond(ctx, statuses[f.Code], errorBody{Error: f.Code, Message: f.Message})
	}, c.Logger)
	a.door.http.WriteTimeout = 0 // a profile or an audit takes as long as it takes
	return a, nil
}

// noBrowser refuses requests that a page made: the port trusts whoever reaches it, and every page can reach a local port.
func noBrowser(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		site := string(ctx.Request.Header.Peek("Sec-Fetch-Site"))
		if len(ctx.Request.Header.Peek("Origin")) > 0 || site == "cross-site" || site == "same-site" {
			respond(ctx, fasthttp.StatusForbidden, errorBody{Error: fault.OriginRefused})
			return
		}
		next(ctx)
	}
}

// Serve answers from a listener until Shutdown, then returns nil.
func (a *Admin) Serve(ln net.Listener) error {
	return a.door.Serve(ln)
}

// Shutdown ends running commands and waits for them, or for the context.
func (a *Admin) Shutdown(ctx context.Context) error {
	a.cancel()
	return a.door.Shutdown(ctx)
}

func (a *Admin) readyz(ctx *fasthttp.RequestCtx) {
	if err := a.cfg.Ready(); err != nil {
		respond(ctx, fasthttp.StatusServiceUnavailable, map[string]any{"status": "not ready",
			"reasons": strings.Split(err.Error(), "\n")})
		return
	}
	respond(ctx, fasthttp.StatusOK, map[string]string{"status": "ready"})
}

func (a *Admin) run(ctx *fasthttp.RequestCtx, name string, command Command) {
	result, err := command(a.base, append([]byte{}, ctx.PostBody()...))
	if err != nil {
		a.log.Error("command failed", "command", name, "err", err)
		respond(ctx, fasthttp.StatusInternalServerError, errorBody{Error: fault.Internal, Message: err.Error()})
		return
	}
	respond(ctx, fasthttp.StatusOK, result)
}

func respond(ctx *fasthttp.RequestCtx, status int, document any) {
	text, err := json.Marshal(document)
	if err != nil {
		status, text = fasthttp.StatusInternalServerError, []byte(`{"error":"internal"}`)
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(text)
}
