package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/valyala/fasthttp"
)

// door is a fasthttp server that can be shut at any moment, before its Serve has begun too: fasthttp alone would then serve
// for ever.
type door struct {
	http *fasthttp.Server

	mu      sync.Mutex
	shut    bool
	open    []net.Listener
	silent  map[*silentConn]struct{} // connections that have not sent a byte
	serving sync.WaitGroup
}

// newDoor has the one set of settings for every port that speaks HTTP here.
func newDoor(handler fasthttp.RequestHandler, onError func(*fasthttp.RequestCtx, error), log *slog.Logger) *door {
	return &door{silent: map[*silentConn]struct{}{}, http: &fasthttp.Server{
		Handler: handler, ErrorHandler: onError, Logger: quietLogger{log}, Concurrency: maxConnections,
		ReadBufferSize: maxHeader, MaxRequestBodySize: maxBody, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, NoDefaultServerHeader: true, CloseOnShutdown: true, DisablePreParseMultipartForm: true,
		SecureErrorLogMessage: true,
	}}
}

// quietLogger keeps fasthttp's complaints about broken connections out of the way.
type quietLogger struct{ log *slog.Logger }

// Printf is fasthttp's.
func (l quietLogger) Printf(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }

func (d *door) serve(ln net.Listener) error {
	d.mu.Lock()
	if d.shut {
		d.mu.Unlock()
		return ln.Close()
	}
	d.open = append(d.open, ln)
	d.serving.Add(1)
	d.mu.Unlock()
	defer d.serving.Done()
	return d.http.Serve(&watchedListener{ln, d})
}

// shutdown takes no new requests and waits for those that run, or for the context.
func (d *door) shutdown(ctx context.Context) error {
	d.mu.Lock()
	d.shut = true
	for conn := range d.silent {
		_ = conn.Conn.Close()
	}
	d.mu.Unlock()
	err := d.http.ShutdownWithContext(ctx)
	for _, ln := range d.open {
		_ = ln.Close() // most are closed already; one that fasthttp had not reached yet ends its serve here
	}
	d.serving.Wait()
	return err
}

// watchedListener knows which connections have not sent anything. Browsers open them ahead of need; fasthttp takes such a
// connection for a running request, and its shutdown would wait for the read timeout.
type watchedListener struct {
	net.Listener
	door *door
}

// Accept is net.Listener's.
func (l *watchedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := &silentConn{Conn: conn, door: l.door}
	l.door.mu.Lock()
	defer l.door.mu.Unlock()
	if l.door.shut {
		_ = conn.Close() // fasthttp sees it closed at its first read
		return s, nil
	}
	l.door.silent[s] = struct{}{}
	return s, nil
}

// silentConn is in its door's set until it sends its first byte or is closed.
type silentConn struct {
	net.Conn
	door *door
	once sync.Once
}

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
	return c.Conn.Close()
}

func (c *silentConn) leave() {
	c.door.mu.Lock()
	defer c.door.mu.Unlock()
	delete(c.door.silent, c)
}
