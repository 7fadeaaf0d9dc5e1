package network

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"purser/authorizer/forwarded"
	"purser/authorizer/front"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// Defaults of the server's limits.
const (
	DefaultMaxBody        = 16 << 10
	DefaultMaxHeader      = 16 << 10
	DefaultReadTimeout    = 5 * time.Second
	DefaultWriteTimeout   = 5 * time.Second
	DefaultIdleTimeout    = 2 * time.Minute
	DefaultMaxConnections = 16_384
	spareWorkers          = 64 // for connections that are closing or refused, beside MaxConnections
)

// Options configures a Server. Zero values of the limits mean their defaults.
type Options struct {
	Decider hold.Decider
	// Secrets are the card network's bearer secrets: one, or two during a rotation.
	Secrets []string
	// Clock returns the time for the check of holdExpiresAt and for latencies.
	Clock func() time.Time
	// Answered is called for every decided message. It must not block; nil calls nothing.
	Answered func(kind hold.Kind, status int, took time.Duration)

	MaxBody, MaxHeader                     int // bytes
	MaxConnections                         int
	MaxPerPeer                             int // connections of a peer that has not shown the secret; 0: MaxConnections
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// AtOnce bounds the connections without the secret that use a processor at once, handshakes
	// included; 0: no bound.
	AtOnce int
	// Refusals bounds the refused messages per second of a peer without the secret; see
	// front.Options.
	Refusals int
	// Proxies, ProxyProtocol and TLS are those of front.Options.
	Proxies       forwarded.Networks
	ProxyProtocol bool
	TLS           *tls.Config
	// AnswerWithin is the authorizer's; 0: hold.AnswerWithin.
	AnswerWithin time.Duration
	// IgnoreStops turns off the check of messages' age after a stop of the process, for tests on a
	// machine that is busy enough to look stopped.
	IgnoreStops bool
}

// ensureDefaults sets every absent option to its default.
func (o *Options) ensureDefaults() {
	o.MaxBody = orDefault(o.MaxBody, DefaultMaxBody)
	o.MaxHeader = orDefault(o.MaxHeader, DefaultMaxHeader)
	o.MaxConnections = orDefault(o.MaxConnections, DefaultMaxConnections)
	o.ReadTimeout = orDefault(o.ReadTimeout, DefaultReadTimeout)
	o.WriteTimeout = orDefault(o.WriteTimeout, DefaultWriteTimeout)
	o.IdleTimeout = orDefault(o.IdleTimeout, DefaultIdleTimeout)
	o.AnswerWithin = orDefault(o.AnswerWithin, hold.AnswerWithin)
	if o.Answered == nil {
		o.Answered = func(hold.Kind, int, time.Duration) {}
	}
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// validate fails for missing Decider or Clock and for a negative limit.
func (o *Options) validate() error {
	switch {
	case o.Decider == nil:
		return errors.New("network server: no decider")
	case o.Clock == nil:
		return errors.New("network server: no clock")
	case min(o.MaxBody, o.MaxHeader, o.MaxConnections) < 0 || min(o.ReadTimeout, o.WriteTimeout, o.IdleTimeout) < 0:
		return errors.New("network server: a negative limit")
	}
	return nil
}

// Server is the card network's HTTP server: four routes behind a shared secret. It is safe for
// concurrent use.
type Server struct {
	options  Options
	secrets  secrets
	http     fasthttp.Server
	drained  *front.Server // serves http
	pulse    pulse
	messages sync.Pool // holds *hold.Message
}

// New makes the server of the card network's port, which does not listen yet. It fails for a
// missing Decider or Clock, a negative limit and unusable secrets. The serve command calls it once.
func New(options Options) (*Server, error) {
	options.ensureDefaults()
	if err := options.validate(); err != nil {
		return nil, err
	}
	valid, err := newSecrets(options.Secrets)
	if err != nil {
		return nil, err
	}
	s := &Server{options: options, secrets: valid}
	s.messages.New = func() any { return new(hold.Message) }
	s.http = fasthttp.Server{
		Handler:                      s.handleRequest,
		ErrorHandler:                 s.refuseUnread,
		Concurrency:                  options.MaxConnections + spareWorkers,
		ReadBufferSize:               options.MaxHeader,
		MaxRequestBodySize:           options.MaxBody,
		ReadTimeout:                  options.ReadTimeout,
		WriteTimeout:                 options.WriteTimeout,
		IdleTimeout:                  options.IdleTimeout,
		CloseOnShutdown:              true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		Logger:                       quiet{},
	}
	s.drained = front.New(&s.http, front.Options{Connections: options.MaxConnections, PerPeer: options.MaxPerPeer, AtOnce: options.AtOnce,
		Refusals: options.Refusals, Proxies: options.Proxies, ProxyProtocol: options.ProxyProtocol, TLS: options.TLS})
	return s, nil
}

// quiet discards fasthttp's log: errors of peers, which get them as answers.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Serve answers connections of ln until Shutdown, and then returns nil. It returns the error of a
// listener that fails earlier. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	if !s.options.IgnoreStops {
		s.pulse.start()
	}
	if err := s.drained.Serve(ln); err != nil {
		return fmt.Errorf("network server: %w", err)
	}
	return nil
}

// Counts returns the server's connection counters.
func (s *Server) Counts() front.Counts { return s.drained.Counts() }

// Shutdown accepts no new connection, waits for the running requests and returns when they are
// answered or ctx ends. It returns the context's error when requests are still running then.
func (s *Server) Shutdown(ctx context.Context) error {
	s.pulse.stop()
	return s.drained.Shutdown(ctx)
}

// Error codes of the answers.
const (
	codeInvalidBody    = "invalid_body"
	codeUnauthorized   = "unauthorized"
	codeNotFound       = "not_found"
	codeMethod         = "method_not_allowed"
	codeTimeout        = "request_timeout"
	codeBodyTooLarge   = "body_too_large"
	codeHeaderTooLarge = "header_too_large"
	codeMismatch       = "duplicate_mismatch"
	codeUnavailable    = "unavailable"
)

// handleRequest checks a request's path, framing, method and secret, in this order of refusal: 400,
// 404, 405, 401. It then has decide answer it. fasthttp calls it for every request.
func (s *Server) handleRequest(ctx *fasthttp.RequestCtx) {
	kind, known := routeKind(ctx.URI().PathOriginal())
	switch {
	case !framed(ctx.Request.Header.RawHeaders()):
		// The next request's first byte is uncertain.
		ctx.SetConnectionClose()
		respondError(ctx, fasthttp.StatusBadRequest, codeInvalidBody, "the body must be plain and have one length")
	case !known:
		respondError(ctx, fasthttp.StatusNotFound, codeNotFound, "")
	case !ctx.IsPost():
		ctx.Response.Header.Set(fasthttp.HeaderAllow, fasthttp.MethodPost)
		respondError(ctx, fasthttp.StatusMethodNotAllowed, codeMethod, "")
	case !s.admitsRequest(ctx):
		respondError(ctx, fasthttp.StatusUnauthorized, codeUnauthorized, "")
	default:
		front.Vouch(ctx)
		s.decide(ctx, kind)
	}
}

// routeKind returns the kind of message that a path takes, and false for an unknown path.
func routeKind(path []byte) (hold.Kind, bool) {
	switch string(path) {
	case "/v1/authorizations":
		return hold.Authorization, true
	case "/v1/reversals":
		return hold.Reversal, true
	case "/v1/clearings":
		return hold.Clearing, true
	case "/v1/refunds":
		return hold.Refund, true
	}
	return 0, false
}

// admitsRequest reports whether a request has one Authorization header, of the scheme bearer in
// letters of any case, with a valid secret behind one space or more.
func (s *Server) admitsRequest(ctx *fasthttp.RequestCtx) bool {
	given := ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization)
	if len(given) != 1 {
		return false
	}
	scheme, secret, _ := bytes.Cut(given[0], space)
	return s.secrets.admits(bytes.TrimLeft(secret, " ")) && bytes.EqualFold(scheme, bearer)
}

// Header names and the parts of a header, in the form for comparison.
var (
	bearer           = []byte("bearer")
	space            = []byte{' '}
	contentEncoding  = []byte("content-encoding")
	contentLength    = []byte("content-length")
	transferEncoding = []byte("transfer-encoding")
)

// framed reports whether the headers determine the body: no Content-Encoding, and not both
// Content-Length and Transfer-Encoding, of which fasthttp silently drops one.
func framed(headers []byte) bool {
	length, transfer := false, false
	for len(headers) > 0 {
		var line []byte
		line, headers, _ = bytes.Cut(headers, []byte{'\n'})
		if len(line) == 0 || line[0]|0x20 != 'c' && line[0]|0x20 != 't' {
			continue
		}
		name, _, _ := bytes.Cut(line, []byte{':'})
		switch {
		case bytes.EqualFold(name, contentEncoding):
			return false
		case bytes.EqualFold(name, contentLength):
			length = true
		case bytes.EqualFold(name, transferEncoding):
			transfer = true
		}
	}
	return !length || !transfer
}

// decide parses a message, submits it and writes the answer. The message is valid only for that
// time, because its strings alias the request. A bad body answers 400. When the authorizer has
// stopped, the outcome is unknown and the connection closes without an answer.
func (s *Server) decide(ctx *fasthttp.RequestCtx, kind hold.Kind) {
	start := s.options.Clock()
	m := s.messages.Get().(*hold.Message)
	defer func() {
		*m = hold.Message{} // the pool must not keep the request alive
		s.messages.Put(m)
	}()
	if why := Scan(kind, ctx.PostBody(), start.UnixMilli(), m); why != "" {
		respondError(ctx, fasthttp.StatusBadRequest, codeInvalidBody, why)
		return
	}
	m.Waited = s.pulse.waitedInSocket(ctx.Conn(), s.options.AnswerWithin)
	answer := s.options.Decider.Submit(m)
	if answer.Status == 0 {
		// An unknown outcome has no answer: the closed connection states none.
		_ = ctx.Conn().Close()
		return
	}
	var buffer [answerBytes]byte
	body := AppendAnswer(buffer[:0], m, &answer)
	respondJSON(ctx, answer.Status, body)
	s.options.Answered(kind, answer.Status, s.options.Clock().Sub(start))
}

// refuseUnread answers a request that could not be parsed: 431, 413, 408 or 400. fasthttp calls it.
func (s *Server) refuseUnread(ctx *fasthttp.RequestCtx, err error) {
	var (
		header  *fasthttp.ErrSmallBuffer
		network net.Error
	)
	switch {
	case errors.As(err, &header):
		respondError(ctx, fasthttp.StatusRequestHeaderFieldsTooLarge, codeHeaderTooLarge, "")
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		respondError(ctx, fasthttp.StatusRequestEntityTooLarge, codeBodyTooLarge, "")
	case errors.As(err, &network) && network.Timeout():
		respondError(ctx, fasthttp.StatusRequestTimeout, codeTimeout, "")
	default:
		respondError(ctx, fasthttp.StatusBadRequest, codeInvalidBody, "the request is not HTTP")
	}
}

// answerBytes holds an answer with the longest id, fully escaped, and a message.
const answerBytes = 1024

func respondError(ctx *fasthttp.RequestCtx, status int, code, message string) {
	var buffer [answerBytes]byte
	respondJSON(ctx, status, appendError(buffer[:0], code, message))
	front.CountRefusal(ctx)
}

func respondJSON(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentTypeBytes(contentTypeJSON)
	ctx.Response.SetBody(body)
}

var contentTypeJSON = []byte("application/json")

func appendError(dst []byte, code, message string) []byte {
	dst = appendQuoted(append(dst, `{"error":`...), code)
	if message != "" {
		dst = appendQuoted(append(dst, `,"message":`...), message)
	}
	return append(dst, '}')
}

// AppendAnswer appends the body of an answer in the format of its route. Its HTTP status is
// a.Status. It never fails. m is the answered message, whose id the body repeats.
func AppendAnswer(dst []byte, m *hold.Message, a *hold.Answer) []byte {
	switch a.Status {
	case hold.StatusConflict:
		return appendError(dst, codeMismatch, a.Message)
	case hold.StatusFull:
		return appendError(dst, codeUnavailable, a.Message)
	}
	dst = appendQuoted(append(dst, `{"id":`...), m.ID)
	switch m.Kind {
	case hold.Authorization, hold.Incremental:
		dst = appendDecision(appendAuthorization(dst, a), m, a)
	case hold.Reversal:
		dst = appendAuthorization(dst, a)
		dst = strconv.AppendInt(append(dst, `,"heldAmountCents":`...), int64(a.Held), 10)
	default:
		dst = appendQuoted(append(dst, `,"status":`...), a.Decision.String())
	}
	return append(dst, '}')
}

func appendAuthorization(dst []byte, a *hold.Answer) []byte {
	dst = append(dst, `,"authorizationId":`...)
	if a.Authorization.IsZero() {
		return append(dst, "null"...)
	}
	return append(a.Authorization.Append(append(dst, '"'), ident.Authorization), '"')
}

// appendDecision appends the members of an authorization's answer: decision, reason, response code
// and approved cents.
func appendDecision(dst []byte, m *hold.Message, a *hold.Answer) []byte {
	dst = appendQuoted(append(dst, `,"decision":`...), a.Decision.String())
	dst = appendQuoted(append(dst, `,"reason":`...), a.Reason.String())
	dst = appendQuoted(append(dst, `,"responseCode":`...), a.Reason.ResponseCode(a.Approved < m.Amount))
	dst = strconv.AppendInt(append(dst, `,"approvedAmountCents":`...), int64(a.Approved), 10)
	if a.Reason == hold.ReasonInvalidRequest {
		dst = appendQuoted(append(dst, `,"message":`...), a.Message)
	}
	return dst
}
