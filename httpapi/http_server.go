package httpapi

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"purser/authorizer/front"
)

// httpsOnlyFor is the max-age of Strict-Transport-Security.
const httpsOnlyFor = 365 * 24 * time.Hour

// httpServer is a fasthttp server with this package's settings and a shutdown that drains.
type httpServer struct {
	*front.Server
	http *fasthttp.Server
}

// newHTTPServer applies the same settings to every HTTP port of this package. onError answers bytes
// that are no request.
func newHTTPServer(handler fasthttp.RequestHandler, onError func(*fasthttp.RequestCtx, error), log *slog.Logger,
	edge front.Options) *httpServer {
	http := &fasthttp.Server{
		Handler: handler, ErrorHandler: onError, Logger: quietLogger{log}, Concurrency: maxConnections,
		ReadBufferSize: maxHeader, MaxRequestBodySize: wideBody, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, NoDefaultServerHeader: true, CloseOnShutdown: true,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true,
	}
	return &httpServer{front.New(http, edge), http}
}

// requireHTTPS adds Strict-Transport-Security to every answer to a request over https. Call it
// before the first request, for a server whose base URL is https.
func (d *httpServer) requireHTTPS() {
	only := "max-age=" + strconv.Itoa(int(httpsOnlyFor/time.Second))
	require := func(ctx *fasthttp.RequestCtx) {
		if front.IsSecure(ctx) {
			ctx.Response.Header.Set(fasthttp.HeaderStrictTransportSecurity, only)
		}
	}
	handle, refuse := d.http.Handler, d.http.ErrorHandler
	d.http.Handler = func(ctx *fasthttp.RequestCtx) {
		handle(ctx)
		require(ctx)
	}
	d.http.ErrorHandler = func(ctx *fasthttp.RequestCtx, err error) {
		refuse(ctx, err)
		require(ctx)
	}
}

// quietLogger logs fasthttp's errors about broken connections at debug level.
type quietLogger struct{ log *slog.Logger }

// Printf implements fasthttp.Logger. The text may quote a peer's bytes, so only the format is logged.
func (l quietLogger) Printf(format string, _ ...any) { l.log.Debug("fasthttp", "complaint", format) }
