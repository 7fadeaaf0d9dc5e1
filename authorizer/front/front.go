// Package front serves HTTP with fasthttp within named limits, and so that it can be shut at any
// moment: before Serve has begun, with idle keep-alive connections, and with connections that have
// not sent a byte. It does not know the interfaces that it serves.
//
//	front.go        a server, its Serve and its Shutdown
//	accept.go       accepting: exhaustion is waited out, a connection over a limit is refused
//	pool.go         how many connections there may be, and how long each may wait as the pool fills
//	connection.go   one connection: its phase, and the end of a request's head
//	preface.go      before HTTP: the head of the PROXY protocol, and the TLS handshake
//	client.go       whose request it is, behind trusted proxies
//	body.go         bodies are read on demand, in pieces that are claimed from a budget
//	turns.go        how many unauthenticated connections use a processor at once
//	refusals.go     a peer whose requests are refused too often has its connections closed at once
//	linger.go       a peer that is refused in the middle of its request gets to read the answer
package front

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"purser/authorizer/forwarded"
)

// Options are the limits of a server. The zero value bounds nothing and has fasthttp read the
// bodies.
type Options struct {
	// Connections is how many connections may be open at once, PerPeer how many of them one peer
	// may have (see PeerOf). Zero is no bound.
	Connections, PerPeer int
	// AtOnce is how many connections may use a processor at once before EndTurn is called for their
	// request. Zero is no bound. A TLS handshake uses one too.
	AtOnce int
	// Refusals is how many requests of a peer may be refused in a second before they are
	// authenticated (see CountRefusal). Zero is no bound.
	Refusals int
	// Proxies are the networks of trusted proxies. PerPeer and Refusals do not bound a proxy,
	// which stands for many clients.
	Proxies forwarded.Networks
	// ProxyProtocol has every connection of a trusted proxy begin with a head of the PROXY
	// protocol, version 2. The client that the head names is then the peer.
	ProxyProtocol bool
	// TLS secures the connections of sockets; nil leaves them plain. Connections within the process
	// are always plain.
	TLS *tls.Config
	// Bodies is the memory for request bodies. With it ReadBody alone reads bodies, so that the
	// handler sees the head first. Without it fasthttp reads every body before the handler runs.
	Bodies *Budget
}

// Server is a fasthttp server with its limits and the state that its shutdown needs. fasthttp alone
// forgets a Shutdown that comes before Serve and then serves for ever; and it takes a connection
// that never sent anything for a running request and waits for it.
type Server struct {
	http      *fasthttp.Server
	options   Options
	lingerFor time.Duration // lingerTime, unless a test has longer
	aged      atomic.Int64  // nanoseconds by which a test makes connections older
	epoch     time.Time     // connections note times as durations since then, which no change of the wall clock moves
	pool      pool
	turns     *turns
	refusals  *refusals
	counters  counters

	mu      sync.Mutex
	shut    bool
	done    chan struct{} // closed by Shutdown
	open    []net.Listener
	serving sync.WaitGroup
}

// New makes a server of fasthttp's, which the caller has configured and must not serve or shut by
// itself.
func New(http *fasthttp.Server, options Options) *Server {
	s := &Server{http: http, options: options, lingerFor: lingerTime, epoch: time.Now(), done: make(chan struct{})}
	s.turns = newTurns(options.AtOnce)
	s.refusals = newRefusals(options.Refusals, s.sinceEpoch)
	s.pool = pool{server: s, open: map[*connection]struct{}{}, peers: map[Peer]int{}}
	if refuse := http.ErrorHandler; refuse != nil {
		http.ErrorHandler = func(ctx *fasthttp.RequestCtx, err error) {
			c, ok := ctx.Conn().(*connection)
			if ok {
				c.noteRequest()
			}
			refuse(ctx, err)
			if ok {
				c.unread.Store(true)
				CountRefusal(ctx)
			}
		}
	}
	if options.Bodies != nil {
		http.HeaderReceived = withholdBody
		http.ReduceMemoryUsage = true // a connection without a request holds no buffer
	}
	handle := http.Handler
	http.Handler = func(ctx *fasthttp.RequestCtx) {
		if c, ok := ctx.Conn().(*connection); ok {
			c.beginRequest(ctx)
			defer c.endRequest(ctx)
		}
		if !hasKnownVersion(&ctx.Request.Header) {
			s.refuseVersion(ctx)
			return
		}
		handle(ctx)
	}
	return s
}

var errVersion = errors.New("the version of HTTP is neither 1.0 nor 1.1")

// hasKnownVersion reports whether a request is of a version that the server speaks. fasthttp takes
// any digit on both sides of the point.
func hasKnownVersion(header *fasthttp.RequestHeader) bool {
	return header.IsHTTP11() || string(header.Protocol()) == "HTTP/1.0"
}

// refuseVersion answers 505 with the body of the server's ErrorHandler, and ends the connection:
// only the version says where the request ends.
func (s *Server) refuseVersion(ctx *fasthttp.RequestCtx) {
	if refuse := s.http.ErrorHandler; refuse != nil {
		refuse(ctx, errVersion)
	}
	ctx.SetStatusCode(fasthttp.StatusHTTPVersionNotSupported)
	ctx.SetConnectionClose()
}

// Serve answers from a listener until Shutdown, then returns nil; after Shutdown it closes the
// listener and returns at once. It may be called for several listeners at a time, and again after a
// fault of one. It returns only for a fault of the listener itself: exhausted descriptors or memory
// are waited out.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	if s.shut {
		s.mu.Unlock()
		return ln.Close()
	}
	s.open = append(s.open, ln)
	s.serving.Add(1)
	s.mu.Unlock()
	defer s.serving.Done()
	err := s.http.Serve(&listener{ln, s})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(other net.Listener) bool { return other == ln })
	if s.shut {
		return nil
	}
	return err
}

// ServeConn answers one connection until it is closed.
func (s *Server) ServeConn(conn net.Conn) error { return s.http.ServeConn(s.wrapConn(conn)) }

// Shutdown takes no new requests, for good, and waits for those that run, or for the context.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.shut {
		s.shut = true
		close(s.done)
	}
	open := slices.Clone(s.open)
	s.mu.Unlock()
	s.pool.closeSilent()
	err := s.http.ShutdownWithContext(ctx)
	for _, ln := range open {
		_ = ln.Close() // most are closed already; one that fasthttp had not reached yet ends its Serve here
	}
	s.serving.Wait()
	return err
}

// sinceEpoch is the time since New in nanoseconds, at least 1. Zero stands for no time.
func (s *Server) sinceEpoch() int64 { return int64(time.Since(s.epoch)) + 1 + s.aged.Load() }
