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

// Proxy stands between a client and its server and does as it is told with the client's COMMITs.
type Proxy struct {
	listener net.Listener
	server   string
	work     sync.WaitGroup

	mu     sync.Mutex
	fate   func(*Commit)
	conns  map[net.Conn]bool
	closed bool
}

// Commit is one that a client has sent and the proxy still holds.
type Commit struct {
	client, server net.Conn
	message        []byte
	lost           bool
}

// StartProxy returns a proxy to the server of a database and the URL that leads through it. It goes with the test.
func StartProxy(test T, database string) (*Proxy, string) {
	test.Helper()
	u, err := url.Parse(database)
	must(test, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(test, err)
	p := &Proxy{listener: listener, server: u.Host, conns: map[net.Conn]bool{}}
	p.work.Go(p.accept)
	test.Cleanup(p.close)
	u.Host = listener.Addr().String()
	return p, u.String()
}

// OnCommit sets what happens to COMMITs from now on. fate is called from any goroutine; the COMMIT is forwarded unless fate has
// lost it. nil forwards all.
func (p *Proxy) OnCommit(fate func(*Commit)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fate = fate
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Proxy) accept() {
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
		if !p.keep(client, server) {
			return
		}
		answered := make(chan struct{})
		p.work.Go(func() {
			defer close(answered)
			_, _ = io.Copy(client, server)
			_ = client.Close()
		})
		p.work.Go(func() {
			_ = p.forward(client, server)
			_ = server.Close()
			<-answered
			p.forget(client, server)
		})
	}
}

// keep notes connections for close, or closes them after it.
func (p *Proxy) keep(conns ...net.Conn) bool {
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

func (p *Proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// forward passes the client's messages on, one by one.
func (p *Proxy) forward(client, server net.Conn) error {
	// The first message has no type.
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
		if bytes.EqualFold(message[header:], []byte("COMMIT\x00")) && p.lose(client, server, message) {
			return errors.New("the client is gone")
		}
		if _, err := server.Write(message); err != nil {
			return err
		}
	}
}

// lose asks for a COMMIT's fate; true when it is lost.
func (p *Proxy) lose(client, server net.Conn, message []byte) bool {
	p.mu.Lock()
	fate := p.fate
	p.mu.Unlock()
	c := &Commit{client: client, server: server, message: message}
	if fate != nil {
		fate(c)
	}
	return c.lost
}

// LoseAnswer forwards the COMMIT and cuts the client off before it can hear of it. The server has read it, and will carry it out.
func (c *Commit) LoseAnswer() {
	c.lost = true
	_ = c.client.Close()
	_, _ = c.server.Write(c.message)
}

// CutThen cuts the client off, and forwards the COMMIT when told to.
func (c *Commit) CutThen(release <-chan struct{}) {
	c.lost = true
	_ = c.client.Close()
	<-release
	_, _ = c.server.Write(c.message)
}
