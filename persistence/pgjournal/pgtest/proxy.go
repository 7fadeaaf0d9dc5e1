package pgtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
)

// Proxy forwards between clients and their server, and delays or loses COMMITs as a test decides.
type Proxy struct {
	listener net.Listener
	server   string
	work     sync.WaitGroup

	mu     sync.Mutex
	fate   func(*Commit)
	conns  map[net.Conn]bool
	closed bool
}

// Commit is a COMMIT that a client has sent and the proxy has not forwarded.
type Commit struct {
	client, server net.Conn
	message        []byte
	lost           bool
}

// StartProxy returns a proxy to the server of a database, and the URL through it. The proxy is
// closed after the test.
func StartProxy(test T, database string) (*Proxy, string) {
	test.Helper()
	u, err := url.Parse(database)
	requireNoError(test, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	requireNoError(test, err)
	p := &Proxy{listener: listener, server: u.Host, conns: map[net.Conn]bool{}}
	p.work.Go(p.acceptLoop)
	test.Cleanup(p.closeAll)
	u.Host = listener.Addr().String()
	return p, u.String()
}

// OnCommit sets the handler of later COMMITs. fate is called from any goroutine. The COMMIT is
// forwarded unless fate loses it; nil forwards all.
func (p *Proxy) OnCommit(fate func(*Commit)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fate = fate
}

// closeAll closes the listener and all connections, and waits for the proxy's goroutines.
func (p *Proxy) closeAll() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// acceptLoop connects each client to the server and forwards in both directions. It ends when the
// listener is closed.
func (p *Proxy) acceptLoop() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.trackConns(client, server) {
			return
		}
		answered := make(chan struct{})
		p.work.Go(func() {
			defer close(answered)
			_, _ = io.Copy(client, server)
			_ = client.Close()
		})
		p.work.Go(func() {
			_ = p.forwardMessages(client, server)
			_ = server.Close()
			<-answered
			p.untrackConns(client, server)
		})
	}
}

// trackConns records connections for closeAll, or closes them after it. It reports whether the
// proxy is open.
func (p *Proxy) trackConns(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return !p.closed
}

func (p *Proxy) untrackConns(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// forwardMessages forwards the messages of the client one by one, and may lose a COMMIT. It ends
// with an error when either side closes. acceptLoop runs it in a goroutine.
func (p *Proxy) forwardMessages(client, server net.Conn) error {
	// The startup message has no type byte.
	message := make([]byte, 4)
	for first := true; ; first = false {
		header := 5
		if first {
			header = 4
		}
		message = message[:header]
		if _, err := io.ReadFull(client, message); err != nil {
			return err
		}
		length := int(binary.BigEndian.Uint32(message[header-4:])) - 4
		message = append(message, make([]byte, length)...)
		if _, err := io.ReadFull(client, message[header:]); err != nil {
			return err
		}
		if bytes.EqualFold(message[header:], []byte("COMMIT\x00")) && p.losesCommit(client, server, message) {
			return errors.New("the client is gone")
		}
		if _, err := server.Write(message); err != nil {
			return err
		}
	}
}

// losesCommit calls the handler for a COMMIT and reports whether the COMMIT is lost.
func (p *Proxy) losesCommit(client, server net.Conn, message []byte) bool {
	p.mu.Lock()
	fate := p.fate
	p.mu.Unlock()
	c := &Commit{client: client, server: server, message: message}
	if fate != nil {
		fate(c)
	}
	return c.lost
}

// LoseAnswer disconnects the client before it can get the answer and forwards the COMMIT, which the
// server carries out.
func (c *Commit) LoseAnswer() {
	c.lost = true
	_ = c.client.Close()
	_, _ = c.server.Write(c.message)
}

// CutThen disconnects the client, and forwards the COMMIT when release is closed.
func (c *Commit) CutThen(release <-chan struct{}) {
	c.lost = true
	_ = c.client.Close()
	<-release
	_, _ = c.server.Write(c.message)
}
