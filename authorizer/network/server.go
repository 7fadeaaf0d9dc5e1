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

	"purser/authorizer/drain"
	"purser/authorizer/forwarded"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// Limits of the network-facing server, where its options name no other.
const (
	DefaultMaxBody        = 16 << 10
	DefaultMaxHeader      = 16 << 10
	DefaultReadTimeout    = 5 * time.Second
	DefaultWriteTimeout   = 5 * time.Second
	DefaultIdleTimeout    = 2 * time.Minute
	DefaultMaxConnections = 16_384
	spareWorkers          = 64 // connections that are closing, or come from inside, beside MaxConnections
)

// Options configure a Server. Zero values of the limits mean their defaults.
type Options struct {
	Decider hold.Decider
	// Secrets are the bearer secrets of the card network: one, or two while rotating.
	Secrets []string
	// Clock gives the time against which holdExpiresAt is checked and latency measured.
	Clock func() time.Time
	// Answered is told of every message that was decided; it must not block. It may be nil.
	Answered func(kind hold.Kind, status int, took time.Duration)

	MaxBody, MaxHeader                     int // bytes
	MaxConnections                         int
	MaxPerPeer                             int // connections of one peer that have not shown the secret; 0: MaxConnections
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// AtOnce is how many connections that have not shown the secret use a processor at once, with
	// their handshakes; 0: no bound.
	AtOnce int
	// Refusals is how many messages of a peer without the secret may be refused in a second; see
	// drain.Options.
	Refusals int
	// Proxies, ProxyProtocol and TLS are those of drain.Options.
	Proxies       forwarded.Networks
	ProxyProtocol bool
	TLS           *tls.Config
	// IgnoreStops leaves the age of messages after a stop of the process unjudged, for tests on a
	// machine so busy that it looks stopped.
	IgnoreStops bool
}

func (o *Options) ensureDefaults() {
	o.MaxBody = orDefault(o.MaxBody, DefaultMaxBody)
	o.MaxHeader = orDefault(o.MaxHeader, DefaultMaxHeader)
	o.MaxConnections = orDefault(o.MaxConnections, DefaultMaxConnections)
	o.ReadTimeout = orDefault(o.ReadTimeout, DefaultReadTimeout)
	o.WriteTimeout = orDefault(o.WriteTimeout, DefaultWriteTimeout)
	o.IdleTimeout = orDefault(o.IdleTimeout, DefaultIdleTimeout)
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

// Server is the door of the card network: four routes over HTTP, behind a shared secret. It reads a message, has it decided and
// writes the answer, without an allocation of its own; it keeps nothing.
type Server struct {
	options  Options
	secrets  secrets
	http     fasthttp.Server
	door     *drain.Server // of http
	pulse    pulse
	messages sync.Pool // holds *hold.Message
}

// NewServer makes a server that does not listen yet.
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
		Handler:                      s.handle,
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
	s.door = drain.New(&s.http, drain.Options{Connections: options.MaxConnections, PerPeer: options.MaxPerPeer, AtOnce: options.AtOnce,
		Refusals: options.Refusals, Proxies: options.Proxies, ProxyProtocol: options.ProxyProtocol, TLS: options.TLS})
	return s, nil
}

// quiet drops what the HTTP library would log: faults of peers, which the answers tell them.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Serve answers connections of ln until Shutdown or a fault of ln; after Shutdown it returns at once.
func (s *Server) Serve(ln net.Listener) error {
	if !s.options.IgnoreStops {
		s.pulse.begin()
	}
	if err := s.door.Serve(ln); err != nil {
		return fmt.Errorf("network server: %w", err)
	}
	return nil
}

// Counts is what the server has counted of its connections.
func (s *Server) Counts() drain.Counts { return s.door.Counts() }

// Shutdown takes no new connection, lets the requests under way be answered, and returns when they are or ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.pulse.end()
	return s.door.Shutdown(ctx)
}

// Codes of the errors that the card network is answered.
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

func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	kind, known := route(ctx.URI().PathOriginal())
	switch {
	case !framed(ctx.Request.Header.RawHeaders()):
		ctx.SetConnectionClose() // where the next request begins is not certain
		turnAway(ctx, fasthttp.StatusBadRequest, codeInvalidBody, "the body must be plain and have one length")
	case !known:
		turnAway(ctx, fasthttp.StatusNotFound, codeNotFound, "")
	case !ctx.IsPost():
		ctx.Response.Header.Set(fasthttp.HeaderAllow, fasthttp.MethodPost)
		turnAway(ctx, fasthttp.StatusMethodNotAllowed, codeMethod, "")
	case !s.admits(ctx):
		turnAway(ctx, fasthttp.StatusUnauthorized, codeUnauthorized, "")
	default:
		drain.Vouch(ctx)
		s.decide(ctx, kind)
	}
}

func route(path []byte) (hold.Kind, bool) {
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

func (s *Server) admits(ctx *fasthttp.RequestCtx) bool {
	given := ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization)
	if len(given) != 1 {
		return false
	}
	secret, ok := bytes.CutPrefix(given[0], bearer)
	return s.secrets.admits(secret) && ok
}

// The names of headers, as they are compared.
var (
	bearer           = []byte("Bearer ")
	contentEncoding  = []byte("content-encoding")
	contentLength    = []byte("content-length")
	transferEncoding = []byte("transfer-encoding")
)

// framed tells whether the headers leave no doubt about the body: no Content-Encoding, and not both Content-Length and
// Transfer-Encoding, of which the HTTP library drops one in silence.
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

// decide reads the message, has it decided and answers. The message lives no longer than that: its strings are the request's.
func (s *Server) decide(ctx *fasthttp.RequestCtx, kind hold.Kind) {
	start := s.options.Clock()
	m := s.messages.Get().(*hold.Message)
	defer func() {
		*m = hold.Message{} // the pool keeps no request alive
		s.messages.Put(m)
	}()
	if why := Scan(kind, ctx.PostBody(), start.UnixMilli(), m); why != "" {
		turnAway(ctx, fasthttp.StatusBadRequest, codeInvalidBody, why)
		return
	}
	m.Waited = s.pulse.waited(ctx.Conn())
	answer := s.options.Decider.Submit(m)
	if answer.Status == 0 {
		_ = ctx.Conn().Close() // the peer learns nothing, which is the truth
		return
	}
	var buffer [answerBytes]byte
	body := AppendAnswer(buffer[:0], m, &answer)
	respond(ctx, answer.Status, body)
	s.options.Answered(kind, answer.Status, s.options.Clock().Sub(start))
}

// refuseUnread answers what could not be read as a request.
func (s *Server) refuseUnread(ctx *fasthttp.RequestCtx, err error) {
	var (
		header  *fasthttp.ErrSmallBuffer
		network net.Error
	)
	switch {
	case errors.As(err, &header):
		turnAway(ctx, fasthttp.StatusRequestHeaderFieldsTooLarge, codeHeaderTooLarge, "")
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		turnAway(ctx, fasthttp.StatusRequestEntityTooLarge, codeBodyTooLarge, "")
	case errors.As(err, &network) && network.Timeout():
		turnAway(ctx, fasthttp.StatusRequestTimeout, codeTimeout, "")
	default:
		turnAway(ctx, fasthttp.StatusBadRequest, codeInvalidBody, "the request is not HTTP")
	}
}

// answerBytes holds an answer with the longest id, every character of it escaped, and a message.
const answerBytes = 1024

func turnAway(ctx *fasthttp.RequestCtx, status int, code, message string) {
	var buffer [answerBytes]byte
	respond(ctx, status, appendError(buffer[:0], code, message))
	drain.CountRefusal(ctx)
}

func respond(ctx *fasthttp.RequestCtx, status int, body []byte) {
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

// AppendAnswer appends the body of an answer in the shape of its route; a.Status is the HTTP status that goes with it.
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
		dst = strconv.AppendInt(append(dst, `,"heldAmountCents":`...), a.Held, 10)
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

func appendDecision(dst []byte, m *hold.Message, a *hold.Answer) []byte {
	dst = appendQuoted(append(dst, `,"decision":`...), a.Decision.String())
	dst = appendQuoted(append(dst, `,"reason":`...), a.Reason.String())
	dst = appendQuoted(append(dst, `,"responseCode":`...), a.Reason.ResponseCode(a.Approved < m.Amount))
	dst = strconv.AppendInt(append(dst, `,"approvedAmountCents":`...), a.Approved, 10)
	if a.Reason == hold.ReasonInvalidRequest {
		dst = appendQuoted(append(dst, `,"message":`...), a.Message)
	}
	return dst
}
