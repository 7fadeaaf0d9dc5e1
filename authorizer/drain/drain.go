// Package drain serves HTTP with fasthttp so that it can be shut at any moment: before Serve has begun, with idle keep-alive
// connections, and with connections that have not sent a byte. It knows nothing of what is served. Both HTTP interfaces of
// Purser stand behind it. A peer that is refused in the middle of its request gets to read the answer: see linger.
package drain

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Server is a fasthttp server and what its shutdown must know of it. fasthttp alone forgets a Shutdown that comes before Serve
// and then serves for ever; and it takes a connection that never sent anything for a running request and waits for it.
type Server struct {
	http      *fasthttp.Server
	lingerFor time.Duration // lingerTime, unless a test has longer

	mu      sync.Mutex
	shut    bool
	open    []net.Listener
	silent  map[*silentConn]struct{} // connections that have not sent a byte
	serving sync.WaitGroup
}

// New makes a server of fasthttp's, which the caller has configured and must not serve or shut by itself.
func New(http *fasthttp.Server) *Server {
	if refuse := http.ErrorHandler; refuse != nil {
		http.ErrorHandler = func(ctx *fasthttp.RequestCtx, err error) {
			refuse(ctx, err)
			if conn, ok := ctx.Conn().(*silentConn); ok {
				conn.unread.Store(true)
			}
		}
	}
	return &Server{http: http, lingerFor: lingerTime, silent: map[*silentConn]struct{}{}}
}

// Serve answers from a listener until Shutdown, then returns nil; after Shutdown it closes the listener and returns at once. It
// may be called for several listeners at a time.
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
	return s.http.Serve(&listener{ln, s})
}

// Shutdown takes no new requests, for good, and waits for those that run, or for the context.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.shut = true
	open := s.open
	for conn := range s.silent {
		_ = conn.Conn.Close()
	}
	s.mu.Unlock()
	err := s.http.ShutdownWithContext(ctx)
	for _, ln := range open {
		_ = ln.Close() // most are closed already; one that fasthttp had not reached yet ends its Serve here
	}
	s.serving.Wait()
	return err
}

// listener knows which connections have not sent anything. Browsers and Go's own client open them ahead of need.
type listener struct {
	net.Listener
	server *Server
}

// Accept is net.Listener's.
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &silentConn{Conn: conn, server: l.server}
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	if l.server.shut {
		_ = conn.Close() // fasthttp sees it closed at its first read
		return c, nil
	}
	l.server.silent[c] = struct{}{}
	return c, nil
}

// silentConn is in its server's set until it sends its first byte or is closed.
type silentConn struct {
	net.Conn
	server *Server
	once   sync.Once
	unread atomic.Bool // a request was refused before it was read: linger at the close
}

// NetConn returns the listener's connection, as tls.Conn's method of this name does.
func (c *silentConn) NetConn() net.Conn { return c.Conn }

// Read is net.Conn's.
func (c *silentConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.once.Do(c.leave)
	}
	return n, err
}

// Close is net.Conn's.
func (c *silentConn) Close() error {
	c.once.Do(c.leave)
	if c.unread.Swap(false) {
		c.linger()
	}
	return c.Conn.Close()
}

func (c *silentConn) leave() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	delete(c.server.silent, c)
}
