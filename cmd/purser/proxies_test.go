package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const trustedProxy, untrustedPeer = "127.0.0.9", "127.0.0.8"

func TestProxySettings(t *testing.T) {
	s := defaults(t)
	s.TrustedProxies, s.ProxyProtocol = "10.0.0.0/8, 2001:db8::1", "network, rest"
	c, err := s.Config()
	require.NoError(t, err)
	require.Len(t, c.Proxies.Trusted, 2)
	require.True(t, c.Proxies.REST && c.Proxies.Network)
	f := func(trusted, protocol, fault string) {
		t.Helper()
		s := defaults(t)
		s.TrustedProxies, s.ProxyProtocol = trusted, protocol
		_, err := s.Config()
		require.ErrorContains(t, err, fault)
	}
	f("proxy,10.1.2.3/8", "off",
		`PURSER_TRUSTED_PROXIES: "proxy" is neither an address nor a network such as 10.0.0.0/8; "10.1.2.3/8" has bits`)
	f("", "rest", "PURSER_PROXY_PROTOCOL: needs PURSER_TRUSTED_PROXIES")
	f("10.0.0.1", "v1", `PURSER_PROXY_PROTOCOL: "v1" is not off, or rest and network with a comma`)
}

// portClient sends requests to a port from a chosen address of this machine.
type portClient struct {
	from, to string // to is a base URL
	header   string // bytes sent before TLS and HTTP: a PROXY protocol header
	tls      *tls.Config
}

// send sends one request on a connection of its own. It returns an error if the connection ended
// without an answer.
func (a portClient) send(t *testing.T, request string) (*http.Response, string, error) {
	t.Helper()
	_, address, _ := strings.Cut(a.to, "://")
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(a.from)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(processTimeout)))
	_, err = io.WriteString(conn, a.header)
	require.NoError(t, err)
	if a.tls != nil {
		conn = tls.Client(conn, a.tls)
	}
	_, _ = io.WriteString(conn, request) // the server may have ended the connection already
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text), nil
}

// status sends a request and returns the answer's status, or 0 without an answer.
func (a portClient) status(t *testing.T, request string) int {
	t.Helper()
	resp, _, err := a.send(t, request)
	if err != nil {
		return 0
	}
	return resp.StatusCode
}

func rootRequest(headers string) string {
	return "GET / HTTP/1.1\r\nHost: purser.test\r\n" + headers + "\r\n"
}

// swipeRequest returns a request for a swipe of a card that does not exist.
func (p *process) swipeRequest(id string) string {
	body := fmt.Sprintf(`{"id":%q,"cardToken":"ctok_nobody","amountCents":1250,"currency":"USD",`+
		`"merchant":{"name":"Cafe","mcc":"5812"}}`, id)
	return fmt.Sprintf("POST /v1/authorizations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", p.secret, len(body), body)
}

// proxyHeader returns a header of the PROXY protocol, version 2, that names a client's address.
func proxyHeader(client string) string {
	return "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + string(net.ParseIP(client).To4()) +
		"\x7f\x00\x00\x01\x1f\x40\x01\xbb"
}

// Behind proxies, rate limits count the client that a trusted proxy names, and ignore the claims of
// an untrusted peer. The card network's port takes the client from the PROXY protocol.
func TestTheServerBehindProxies(t *testing.T) {
	purser := program{path: buildProgram(t), env: []string{"PURSER_TRUSTED_PROXIES=" + trustedProxy,
		"PURSER_PROXY_PROTOCOL=network",
		"PURSER_RATE_LIMITS=1000,1000,3"}}
	p := launch(t, purser, filepath.Join(t.TempDir(), "data"))
	byProxy, byStranger := portClient{from: trustedProxy, to: p.rest}, portClient{from: untrustedPeer, to: p.rest}
	for range 3 {
		require.Equal(t, 200, byProxy.status(t, rootRequest("X-Forwarded-For: 203.0.113.9, 192.0.2.1\r\n")))
	}
	require.Equal(t, 429, byProxy.status(t, rootRequest("X-Forwarded-For: 203.0.113.77, 192.0.2.1\r\n")),
		"rate limit of the client that the proxy added to the field")
	require.Equal(t, 200, byProxy.status(t, rootRequest("X-Forwarded-For: 192.0.2.2\r\n")), "another client")
	require.Equal(t, 429, byProxy.status(t, rootRequest("Forwarded: for=\"192.0.2.1:4711\"\r\n")))
	for i := range 3 {
		require.Equal(t, 200, byStranger.status(t, rootRequest(fmt.Sprintf("X-Forwarded-For: 192.0.2.%d\r\n", 10+i))))
	}
	require.Equal(t, 429, byStranger.status(t, rootRequest("X-Forwarded-For: 192.0.2.99\r\n")),
		"rate limit of an untrusted peer with a forged field")

	network := portClient{from: trustedProxy, to: p.network, header: proxyHeader("192.0.2.1")}
	resp, text, err := network.send(t, p.swipeRequest("proxied"))
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode, text)
	require.Contains(t, text, `"decision":"declined"`)
	network.header = "PROXY TCP4 192.0.2.1 127.0.0.1 8000 8081\r\n"
	require.Zero(t, network.status(t, p.swipeRequest("version 1")), "version 1 is refused")
	network.from, network.header = untrustedPeer, ""
	require.Equal(t, 200, network.status(t, p.swipeRequest("direct")), "an untrusted peer without a PROXY header")
	network.header = proxyHeader("192.0.2.1")
	require.Equal(t, 400, network.status(t, p.swipeRequest("forged")), "an untrusted peer with a PROXY header")
	require.Equal(t, 1.0, sumLabelled(p.adminPage("/metrics"), "purser_connections_unread_total",
		`port="card network",reason="proxy head"`))
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
}
