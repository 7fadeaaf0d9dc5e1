package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/pprof"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"github.com/valyala/fasthttp/pprofhandler"

	"github.com/fasthttp/router"

	"purser/actors/fault"
	"purser/authorizer/front"
	"purser/httpapi/dashboard"
)

// Command is an operation that an operator starts in the running server.
type Command struct {
	// Do runs the command. Its context ends with the server or after adminCommandWithin, not with
	// the connection. The result is written as JSON. A fault.Error answers the status of its code;
	// the text of any other error is shown whole, because only an operator reads it.
	Do func(ctx context.Context, body []byte) (result any, err error)
	// AtOnce bounds the concurrent calls; one more answers 409 command_running. 0 means
	// commandsAtOnce.
	AtOnce int
}

// Limits of the admin port.
const (
	commandsAtOnce     = 64 // calls of one command that sets no AtOnce
	scrapesAtOnce      = 4  // of /metrics; one more answers 503
	adminCommandWithin = 2 * time.Hour
)

// AdminConfig holds the dependencies of NewAdmin. Ready and Registry are required.
type AdminConfig struct {
	// Ready returns nil when the server may get traffic, or else the reasons, one per line.
	Ready    func() error
	Build    string // version and commit of the program, which /readyz shows
	Registry *prometheus.Registry
	// Names are the host names of the port, in lower case and without a port number. localhost and
	// the address of the connection need no entry.
	Names []string
	// Commands are mounted under POST /<name>.
	Commands map[string]Command
	// Operator configures the pages for an operator's browser; nil serves none.
	Operator *OperatorConfig
	// Edge bounds connections. Bodies are few and short here, so fasthttp reads them.
	Edge   front.Options
	Logger *slog.Logger
}

// Admin serves the operator's port: /healthz, /readyz, /metrics, pprof, the commands, and pages
// that show the server's state. Only the pages need a sign-in: bind the port to an address or a
// unix socket that only operators reach. It refuses requests that a web page makes, but for the
// pages' own.
type Admin struct {
	cfg        AdminConfig
	log        *slog.Logger
	pages      *operatorPages // nil: none
	httpServer *httpServer
	base       context.Context
	cancel     context.CancelFunc
}

// NewAdmin makes the server of the operator's admin port, which does not listen yet. It fails when
// Ready or Registry is missing.
func NewAdmin(c AdminConfig) (*Admin, error) {
	if c.Ready == nil || c.Registry == nil {
		return nil, errors.New("httpapi.AdminConfig: Ready and Registry are required")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Admin{cfg: c, log: c.Logger}
	a.base, a.cancel = context.WithCancel(context.Background())
	if c.Operator != nil {
		pages, err := newOperatorPages(a.base, *c.Operator, c.Logger)
		if err != nil {
			return nil, err
		}
		a.pages = pages
	}
	a.httpServer = newHTTPServer(a.ownNames(noBrowser(a.newRouter().Handler)), func(ctx *fasthttp.RequestCtx, err error) {
		f := malformedFault(err)
		respondJSON(ctx, statuses[f.Code], errorBody{Error: f.Code, Message: f.Message})
	}, c.Logger, c.Edge)
	// A profile or an audit has no bound on its time.
	a.httpServer.http.WriteTimeout = 0
	return a, nil
}

// newRouter mounts /healthz, /readyz, /metrics, the pages of pprof, and one POST route per
// configured command.
func (a *Admin) newRouter() *router.Router {
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath, r.HandleOPTIONS = false, false, false
	mountRoute(r, fasthttp.MethodGet, "/healthz",
		func(ctx *fasthttp.RequestCtx) { respondJSON(ctx, fasthttp.StatusOK, map[string]string{"status": "ok"}) })
	mountRoute(r, fasthttp.MethodGet, "/readyz", a.showReadiness)
	r.GET("/metrics", fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(a.cfg.Registry,
		promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce})))
	r.GET("/debug/pprof/", fasthttpadaptor.NewFastHTTPHandlerFunc(pprof.Index))
	r.GET("/debug/pprof/{name:*}", serveProfile)
	for name, command := range a.cfg.Commands {
		atOnce := command.AtOnce
		if atOnce == 0 {
			atOnce = commandsAtOnce
		}
		running := make(chan struct{}, atOnce)
		r.POST("/"+name, func(ctx *fasthttp.RequestCtx) { a.runCommand(ctx, name, command, running) })
	}
	if a.pages != nil {
		a.pages.mount(r)
	}
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		// The router finds no empty rest behind the slash.
		if a.pages != nil && string(ctx.Path()) == dashboard.OperatorRoot+"/" {
			redirect(ctx, dashboard.OperatorRoot)
			return
		}
		respondJSON(ctx, fasthttp.StatusNotFound, errorBody{Error: fault.NotFound})
	}
	r.MethodNotAllowed = func(ctx *fasthttp.RequestCtx) {
		respondJSON(ctx, fasthttp.StatusMethodNotAllowed, errorBody{Error: fault.MethodNotAllowed})
	}
	r.PanicHandler = func(ctx *fasthttp.RequestCtx, cause any) {
		a.log.Error("admin panic", slog.Any("cause", cause))
		respondJSON(ctx, fasthttp.StatusInternalServerError, errorBody{Error: fault.Internal, Message: fmt.Sprint(cause)})
	}
	return r
}

// serveProfile answers the pages of pprof. Its cmdline page shows the program's name alone, because
// flags can hold secrets. The path is compared as pprofhandler reads it, with its dots resolved.
func serveProfile(ctx *fasthttp.RequestCtx) {
	if string(ctx.Path()) != "/debug/pprof/cmdline" {
		pprofhandler.PprofHandler(ctx)
		return
	}
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(filepath.Base(os.Args[0]))
}

// ownNames answers 421 to a request whose Host header is not a name of this port, against DNS
// rebinding. A page whose domain was rebound to this port's address shares the port's origin, but
// its requests carry the page's domain in Host. The port number is not compared: tunnels and
// published container ports change it, and it does not help a rebound page. NewAdmin wraps every
// request of the admin port in it.
func (a *Admin) ownNames(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if len(ctx.Request.Header.PeekAll(fasthttp.HeaderHost)) > 1 || !a.isOwnName(ctx) {
			respondJSON(ctx, statuses[hostRefused], errorBody{Error: hostRefused,
				Message: "the Host header is not a name of the admin port; PURSER_ADMIN_HOSTS adds names"})
			return
		}
		next(ctx)
	}
}

// isOwnName reports whether the Host header names this port: localhost, a loopback address, the
// address that the connection reached, or a configured name. Every request on a unix socket passes.
func (a *Admin) isOwnName(ctx *fasthttp.RequestCtx) bool {
	if _, isUnix := ctx.LocalAddr().(*net.UnixAddr); isUnix {
		// No browser reaches a unix socket.
		return true
	}
	host := strings.ToLower(string(ctx.Request.Header.Host()))
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap().WithZone("")
		local, isTCP := ctx.LocalAddr().(*net.TCPAddr)
		return ip.IsLoopback() || isTCP && ip == local.AddrPort().Addr().Unmap().WithZone("")
	}
	return host == "localhost" || slices.Contains(a.cfg.Names, host)
}

// noBrowser refuses requests that a web page makes, because every page can reach a local port that
// has no authentication. A person may open a page of the port in a browser and follow the links of
// pprof. The forms and the script of the operator's pages come from these pages. A refusal is 403
// origin_refused.
// NewAdmin wraps every request of the admin port in it.
func noBrowser(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		h := &ctx.Request.Header
		site := string(h.Peek("Sec-Fetch-Site"))
		reads := ctx.IsGet() || ctx.IsHead()
		if isOperatorForm(ctx) || reads && site == "same-origin" && hasOwnOrigin(ctx) {
			next(ctx)
			return
		}
		if len(h.Peek("Origin")) > 0 || site == "cross-site" || site == "same-site" || site != "" && !reads {
			respondJSON(ctx, fasthttp.StatusForbidden, errorBody{Error: fault.OriginRefused,
				Message: "the admin port takes no requests of a browser's pages"})
			return
		}
		next(ctx)
	}
}

// Counts returns the port's connection counters.
func (a *Admin) Counts() front.Counts { return a.httpServer.Counts() }

// Serve answers requests from a listener until Shutdown, and then returns nil. It returns the error
// of a listener that fails earlier.
func (a *Admin) Serve(ln net.Listener) error {
	return a.httpServer.Serve(ln)
}

// Shutdown ends running commands and waits for them, at most until the context ends.
func (a *Admin) Shutdown(ctx context.Context) error {
	a.cancel()
	return a.httpServer.Shutdown(ctx)
}

// showReadiness handles GET /readyz: 200 when the process can serve, else 503 with one reason per
// line of Ready's error. Both name the build.
func (a *Admin) showReadiness(ctx *fasthttp.RequestCtx) {
	if err := a.cfg.Ready(); err != nil {
		respondJSON(ctx, fasthttp.StatusServiceUnavailable, map[string]any{"status": "not ready",
			"build": a.cfg.Build, "reasons": strings.Split(err.Error(), "\n")})
		return
	}
	respondJSON(ctx, fasthttp.StatusOK, map[string]string{"status": "ready", "build": a.cfg.Build})
}

// runCommand handles a POST of a command. It answers the command's result as JSON, a fault under
// its own status, and any other error as 500 with its text. A command whose concurrent calls are at
// their limit is refused. A command ends after adminCommandWithin, or at Shutdown.
func (a *Admin) runCommand(ctx *fasthttp.RequestCtx, name string, command Command, running chan struct{}) {
	select {
	case running <- struct{}{}:
		defer func() { <-running }()
	default:
		respondJSON(ctx, statuses[commandRunning], errorBody{Error: commandRunning, Message: "the command " + name +
			" is running and goes on without its caller; ask again when it has ended"})
		return
	}
	within, cancel := context.WithTimeout(a.base, adminCommandWithin)
	defer cancel()
	result, err := command.Do(within, bytes.Clone(ctx.PostBody()))
	if f, isFault := errors.AsType[*fault.Error](err); isFault {
		if status, known := statusOf(f.Code); known {
			respondJSON(ctx, status, errorBody{Error: f.Code, Message: f.Message})
			return
		}
	}
	if err != nil {
		a.log.Error("command failed", "command", name, "err", err)
		respondJSON(ctx, fasthttp.StatusInternalServerError, errorBody{Error: fault.Internal, Message: err.Error()})
		return
	}
	respondJSON(ctx, fasthttp.StatusOK, result)
}

// respondJSON writes a status and a document as JSON. A document that cannot be encoded becomes a
// 500 with the code internal.
func respondJSON(ctx *fasthttp.RequestCtx, status int, document any) {
	text, err := json.Marshal(document)
	if err != nil {
		status, text = fasthttp.StatusInternalServerError, []byte(`{"error":"internal"}`)
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(text)
}
