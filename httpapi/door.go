package httpapi

import (
	"log/slog"

	"github.com/valyala/fasthttp"

	"purser/authorizer/drain"
)

// door is where requests come in: fasthttp with the settings of this interface, behind a shutdown that drains.
type door struct {
	*drain.Server
	http *fasthttp.Server
}

// newDoor has the one set of settings for every port that speaks HTTP here.
func newDoor(handler fasthttp.RequestHandler, onError func(*fasthttp.RequestCtx, error), log *slog.Logger, edge drain.Options) *door {
	http := &fasthttp.Server{
		Handler: handler, ErrorHandler: onError, Logger: quietLogger{log}, Concurrency: maxConnections,
		ReadBufferSize: maxHeader, MaxRequestBodySize: wideBody, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, NoDefaultServerHeader: true, CloseOnShutdown: true, DisablePreParseMultipartForm: true,
		SecureErrorLogMessage: true,
	}
	return &door{drain.New(http, edge), http}
}

// quietLogger keeps fasthttp's complaints about broken connections out of the way.
type quietLogger struct{ log *slog.Logger }

// Printf is fasthttp's. Its text may quote what a peer sent, so only the format is logged.
func (l quietLogger) Printf(format string, _ ...any) { l.log.Debug("fasthttp", "complaint", format) }
