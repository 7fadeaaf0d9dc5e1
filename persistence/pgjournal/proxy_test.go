package pgjournal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between a journal and its server and does as it is told with the next COMMITs.
type proxy struct {
	listener net.Listener
	server   string
	work     sync.WaitGroup

	mu    sync.Mutex
	fate  func(c *proxied)
	conns map[net.Conn]bool
}

// proxied is a connection of which the client has sent COMMIT, which the proxy still holds.
type proxied struct {
	client, server net.Conn
	commit         []byte
}

func startProxy(t *testing.T, database string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, server: u.Host, conns: map[net.Conn]bool{}}
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	u.Host = listener.Addr().String()
	return p, u.String()
}

// onCommit sets what happens to COMMITs from now on; nil forwards them.
func (p *proxy) onCommit(fate func(c *proxied)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fate = fate
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

func (p *proxy) accept() {
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
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
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
		})
	}
}

// forward passes the client's messages on, one by one.
func (p *proxy) forward(client, server net.Conn) error {
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
		if bytes.Equal(message[header:], []byte("COMMIT\x00")) {
			p.mu.Lock()
			fate := p.fate
			p.mu.Unlock()
			if fate != nil {
				fate(&proxied{client: client, server: server, commit: message})
				return errors.New("the client is gone")
			}
		}
		if _, err := server.Write(message); err != nil {
			return err
		}
	}
}

// loseAnswer forwards COMMIT and cuts the client off before it can hear of it. The server has read COMMIT, and will carry it
// out.
func (c *proxied) loseAnswer() {
	_ = c.client.Close()
	_, _ = c.server.Write(c.commit)
}

// cutThen cuts the client off, and forwards COMMIT when told to.
func (c *proxied) cutThen(release <-chan struct{}) {
	_ = c.client.Close()
	<-release
	_, _ = c.server.Write(c.commit)
}
