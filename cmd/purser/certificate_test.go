package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/settings"
)

// testCertificate names the files of a self-signed certificate for 127.0.0.1 and of its key.
type testCertificate struct{ cert, key string }

func newCertificate(t *testing.T) testCertificate {
	dir := t.TempDir()
	c := testCertificate{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	c.writeNewPair(t, 1)
	return c
}

// rsaBits is the shortest RSA key that public certificate authorities sign.
const rsaBits = 2048

func newRSACertificate(t *testing.T) testCertificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	require.NoError(t, err)
	dir := t.TempDir()
	c := testCertificate{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	c.writePair(t, 1, key)
	return c
}

// writeNewPair overwrites the files with a new ECDSA pair that has a serial number. It returns the
// configuration of a client that trusts only the new certificate.
func (c testCertificate) writeNewPair(t *testing.T, serial int64) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c.writePair(t, serial, key)
	return c.clientConfig(t)
}

func (c testCertificate) writePair(t *testing.T, serial int64, key crypto.Signer) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	text, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: text})
	require.NoError(t, os.WriteFile(c.cert, cert, 0o600))
	require.NoError(t, os.WriteFile(c.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

func (c testCertificate) clientConfig(t *testing.T) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(c.cert)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", NextProtos: []string{"h2", "http/1.1"}}
}

func TestCertificateSettings(t *testing.T) {
	pair, other := newCertificate(t), newCertificate(t)
	f := func(set func(*settings.Settings), fault string) {
		t.Helper()
		s := defaults(t)
		s.TLSCert, s.TLSKey = pair.cert, pair.key
		set(&s)
		c, err := s.Config()
		if fault == "" {
			require.NoError(t, err)
			require.Equal(t, "https://x:1", c.URLOf("x:1"))
			return
		}
		require.ErrorContains(t, err, fault)
	}
	f(func(*settings.Settings) {}, "")
	f(func(s *settings.Settings) { s.BaseURL = "https://purser.test" }, "")
	f(func(s *settings.Settings) { s.BaseURL = "http://purser.test" },
		`PURSER_BASE_URL: "http://purser.test" is not https`)
	f(func(s *settings.Settings) { s.TLSKey = "" }, "PURSER_TLS_KEY: is missing beside PURSER_TLS_CERT")
	f(func(s *settings.Settings) { s.TLSCert = "" }, "PURSER_TLS_CERT: is missing beside PURSER_TLS_KEY")
	f(func(s *settings.Settings) { s.TLSKey = other.key },
		"PURSER_TLS_CERT: with PURSER_TLS_KEY: tls: private key does not match")
	f(func(s *settings.Settings) { s.TLSKey = pair.key + "x" }, "PURSER_TLS_KEY: open ")
	f(func(s *settings.Settings) { s.TLSKey = pair.cert }, "PURSER_TLS_CERT: with PURSER_TLS_KEY: ")
}

// A reload takes a valid pair from the files. After an invalid one the pair in use stays.
func TestCertificateReloadKeepsTheOldPairAfterAFault(t *testing.T) {
	files, s := newCertificate(t), defaults(t)
	s.TLSCert, s.TLSKey = files.cert, files.key
	config, err := s.Config()
	require.NoError(t, err)
	c, m, log := config.Certificate, newDaemon(config, nil), new(bytes.Buffer)
	m.log = settings.NewLogger(log, config)
	serial := func() int64 {
		pair, err := c.ServerConfig().GetCertificate(nil)
		require.NoError(t, err)
		return pair.Leaf.SerialNumber.Int64()
	}
	requireReload := func(loaded, failed, used int64) {
		t.Helper()
		reloadCertificate(c, m.log)
		reloadCertificate(c, m.log) // unchanged files count once
		require.Equal(t, []int64{loaded, failed, used}, []int64{c.Loaded.Load(), c.Failed.Load(), serial()})
		require.Equal(t, failed > 0 && loaded == 0, c.Unusable.Load())
	}
	requireReload(0, 0, 1)
	require.NoError(t, os.WriteFile(files.cert, []byte("no certificate"), 0o600))
	requireReload(0, 1, 1)
	require.Contains(t, log.String(), "the one before stays")
	require.NoError(t, os.Remove(files.key))
	requireReload(0, 2, 1)
	files.writeNewPair(t, 2)
	requireReload(1, 2, 2)
}

// With a certificate both ports speak HTTP/1.1 over TLS, also behind the PROXY protocol. A renewed
// pair is used from the next handshake on. Half-open handshakes do not keep clients out.
func TestServerSpeaksTLS(t *testing.T) {
	files := newCertificate(t)
	purser := program{path: buildProgram(t), env: []string{"PURSER_TLS_CERT=" + files.cert,
		"PURSER_TLS_KEY=" + files.key, "PURSER_TRUSTED_PROXIES=" + trustedProxy, "PURSER_PROXY_PROTOCOL=rest"}}
	p := launchWithFileLimit(t, purser, filepath.Join(t.TempDir(), "data"), floodFiles)
	rest := portClient{from: "127.0.0.1", to: p.rest, tls: files.clientConfig(t)}
	network := portClient{from: "127.0.0.1", to: p.network, tls: rest.tls}

	resp, text, err := rest.send(t, rootRequest("Accept: application/json\r\n"))
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "max-age=31536000", resp.Header.Get("Strict-Transport-Security"))
	base := strings.Replace(p.rest, "http://", "https://", 1)
	require.Contains(t, text, base+"/api/v1/openapi.json", "links are https")
	proxied := portClient{from: trustedProxy, to: p.rest, header: proxyHeader("192.0.2.1"), tls: rest.tls}
	require.Equal(t, 200, proxied.status(t, rootRequest("")))
	resp, text, err = network.send(t, p.swipeRequest("secure"))
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode, text)
	plain := portClient{from: "127.0.0.1", to: p.rest}
	resp, text, err = plain.send(t, rootRequest(""))
	require.NoError(t, err)
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, text, "https")
	require.Empty(t, resp.Header.Get("Strict-Transport-Security"))

	rest.tls = p.renewCertificate(t, files, rest)
	network.tls = rest.tls
	p.depositOverTLS(t, rest.tls)
	p.holdHalfOpenHandshakes(t, rest, network)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
}

// depositOverTLS signs up with a session cookie over TLS and waits until a deposit is settled. The
// sandbox bank runs in the server's process and reports it without a connection.
func (p *process) depositOverTLS(t *testing.T, config *tls.Config) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	session := apiclient.New(strings.Replace(p.rest, "http://", "https://", 1), "")
	session.HTTP.Transport = responseJudge.Through(transport)
	must := func(c *apiclient.Client, path string, body fields) apiclient.Answer {
		a, err := c.Send(t.Context(), apiclient.Request{Method: "POST", Path: path,
			IdempotencyKey: apiclient.NewIdempotencyKey(), Body: marshal(body)})
		require.NoError(t, err)
		require.Equal(t, 2, a.Status/100, string(a.Raw))
		return a
	}
	must(session, "/api/dashboard/signup", fields{"email": "storm-1@example.com", "password": "a long password"})
	must(session, "/api/workspaces", fields{"name": "Storm"})
	key := *session
	key.Bearer = must(session, "/api/auth/keys",
		fields{"label": "storm", "scopes": []string{"read:treasury", "write:treasury"}}).Text("secret")
	must(&key, "/api/treasury/deposits", depositRequest(100_00))
	p.await(t, "a settled deposit", func() bool {
		a, err := key.Send(t.Context(), apiclient.Request{Method: "GET", Path: "/api/treasury"})
		return err == nil && fmt.Sprint(apiclient.DollarBalance(a)["availableCents"]) == "10000"
	})
}

// renewCertificate gives a running server an invalid pair, then a new one. It returns the
// configuration of a client that trusts the new certificate.
func (p *process) renewCertificate(t *testing.T, files testCertificate, rest portClient) *tls.Config {
	t.Helper()
	require.NoError(t, os.WriteFile(files.key, []byte("not a key"), 0o600))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	p.await(t, "a refused pair", func() bool {
		return sumLabelled(p.adminPage("/metrics"), "purser_tls_reloads_total", `outcome="failed"`) == 1
	})
	require.Equal(t, 200, rest.status(t, rootRequest("")), "the old pair stays in use")
	require.Equal(t, 1.0, p.scrape(t)["purser_tls_files_unusable"])
	rest.tls = files.writeNewPair(t, 2)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	p.await(t, "the renewed pair", func() bool { return rest.status(t, rootRequest("")) == 200 })
	require.Positive(t, sumLabelled(p.adminPage("/metrics"), "purser_tls_reloads_total", `outcome="done"`))
	return rest.tls
}

// holdHalfOpenHandshakes begins more handshakes than the REST port takes connections, from many
// addresses, and finishes none. The server cuts them, so that REST clients and swipes are answered.
func (p *process) holdHalfOpenHandshakes(t *testing.T, rest, network portClient) {
	t.Helper()
	_, address, _ := strings.Cut(p.rest, "://")
	for n := range 800 { // under floodFiles the port takes fewer connections
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+n%floodAddresses))}}
		conn, err := dialer.DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
	}
	require.Equal(t, 200, network.status(t, p.swipeRequest("beside a flood")))
	p.await(t, "a full port", func() bool { // a busy server accepts with delay
		return sumLabelled(p.adminPage("/metrics"), "purser_connections_refused_total", `reason="full"`) > 0
	})
	p.await(t, "an answer beside the flood", func() bool { return rest.status(t, rootRequest("")) == 200 })
	require.Positive(t, sumLabelled(p.adminPage("/metrics"), "purser_connections_cut_total", `port="REST"`))
}
