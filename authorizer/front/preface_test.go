package front

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/authorizer/forwarded"
)

func proxies(t *testing.T, text string) forwarded.Networks {
	t.Helper()
	networks, err := forwarded.ParseNetworks(text)
	require.NoError(t, err)
	return networks
}

// tlsPair makes the settings of a server with a certificate for 127.0.0.1, and those of its client.
func tlsPair(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	text, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(text)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{text}, PrivateKey: key}}, NextProtos: []string{"http/1.1"}},
		&tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

// tellClient answers with the client's address and whether it asked by https.
func tellClient(ctx *fasthttp.RequestCtx) {
	fmt.Fprintf(ctx, "%s %t", ClientOf(ctx), IsSecure(ctx))
}

// bodyOf reads an answer of status 200 and returns its body.
func bodyOf(t *testing.T, from io.Reader) string {
	t.Helper()
	var resp fasthttp.Response
	require.NoError(t, resp.Read(bufio.NewReader(from)))
	require.Equal(t, 200, resp.StatusCode())
	return string(resp.Body())
}

// headV2 is the head of the PROXY protocol for a client.
func headV2(client string) string {
	return "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + string(net.ParseIP(client).To4()) +
		"\x7f\x00\x00\x01\x1f\x40\x01\xbb"
}

const headLocal = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"

func TestHeaderFieldsCountOnlyFromTrustedProxies(t *testing.T) {
	_, address := startServer(t, Options{Proxies: proxies(t, "127.0.0.9")}, tellClient)
	const request = "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 192.0.2.1\r\n" +
		"Forwarded: for=203.0.113.9\r\nForwarded: for=192.0.2.1;proto=https\r\nX-Forwarded-Proto: https\r\n\r\n"
	for from, want := range map[string]string{"127.0.0.9": "192.0.2.1 true", "127.0.0.8": "127.0.0.8 false"} {
		conn := dialFrom(t, from, address)
		sendText(t, conn, request)
		require.Equal(t, want, bodyOf(t, conn))
	}
}

// A head of the PROXY protocol names the peer, with and without TLS, and with bodies withheld or
// not.
func TestAProxyHeadNamesTheClient(t *testing.T) {
	serverTLS, clientTLS := tlsPair(t)
	for name, o := range map[string]Options{"plain": {}, "bodies": {Bodies: NewBudget(1 << 20)},
		"TLS": {TLS: serverTLS}} {
		t.Run(name, func(t *testing.T) {
			o.Proxies, o.ProxyProtocol, o.PerPeer = proxies(t, "127.0.0.9"), true, 1
			s, address := startServer(t, o, tellClient)
			ask := func(from, head, request string) io.Reader {
				conn := dialFrom(t, from, address)
				sendText(t, conn, head)
				if o.TLS != nil {
					conn = tls.Client(conn, clientTLS)
				}
				_, _ = io.WriteString(conn, request)
				return conn
			}
			secure := fmt.Sprint(o.TLS != nil)
			require.Equal(t, "192.0.2.1 "+secure, bodyOf(t, ask("127.0.0.9", headV2("192.0.2.1"), get)))
			require.Equal(t, "192.0.2.2 "+secure, bodyOf(t, ask("127.0.0.9", headV2("192.0.2.2"), get)))
			_, err := io.ReadAll(ask("127.0.0.9", headV2("192.0.2.2"), get))
			_ = err // a reset or an end: the peer has its one connection
			require.EqualValues(t, 1, s.Counts().OverPeer, "the limit is the client's")
			for range 3 {
				require.Equal(t, "127.0.0.9 "+secure, bodyOf(t, ask("127.0.0.9", headLocal, get)))
			}
			forged := "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n"
			require.Equal(t, "192.0.2.3 "+secure, bodyOf(t, ask("127.0.0.9", headV2("192.0.2.3"), forged)),
				"a client is no proxy")
			require.Equal(t, "203.0.113.9 "+secure, bodyOf(t, ask("127.0.0.9", headV2("127.0.0.9"), forged)),
				"a proxy behind a proxy")
			require.Equal(t, "127.0.0.8 "+secure, bodyOf(t, ask("127.0.0.8", "", get)), "other peers send no head")
			require.Zero(t, s.Counts().NoHead)
		})
	}
}

// A trusted proxy without a valid head gets no answer, and an untrusted peer cannot send one.
func TestAProxyHeadIsRequiredOfProxiesAndOfNoOther(t *testing.T) {
	s, address := startServer(t, Options{Proxies: proxies(t, "127.0.0.9"), ProxyProtocol: true}, tellClient)
	for i, text := range []string{get, "PROXY TCP4 192.0.2.1 127.0.0.1 8000 443\r\n" + get, headV2("192.0.2.1")[:20]} {
		conn := dialFrom(t, "127.0.0.9", address)
		sendText(t, conn, text)
		_ = conn.(*net.TCPConn).CloseWrite() // the server may have ended it already
		answer, _ := io.ReadAll(conn)        // the end may be a reset
		require.Empty(t, answer)
		require.EqualValues(t, i+1, s.Counts().NoHead)
	}
	conn := dialFrom(t, "127.0.0.8", address)
	sendText(t, conn, headV2("192.0.2.1")+get)
	require.Equal(t, 400, statusOf(t, conn))
}

// A proxy's health check sends a PROXY head of the command LOCAL, and closes. It is not counted as
// a failed handshake, as other connections are that end before TLS.
func TestAHealthCheckOfAProxyIsNoFailedHandshake(t *testing.T) {
	serverTLS, _ := tlsPair(t)
	s, address := startServer(t, Options{TLS: serverTLS, Proxies: proxies(t, "127.0.0.9"), ProxyProtocol: true},
		tellClient)
	for i, text := range []string{headLocal, headLocal + "\x16\x03\x01", headV2("192.0.2.1")} {
		conn := dialFrom(t, "127.0.0.9", address)
		sendText(t, conn, text)
		require.NoError(t, conn.Close())
		require.Eventually(t, func() bool { return s.Counts().Accepted == int64(i+1) && s.Counts().Open == 0 },
			patiently, time.Millisecond)
		require.EqualValues(t, i, s.Counts().NoHandshake)
	}
}

func TestTLS(t *testing.T) {
	serverTLS, clientTLS := tlsPair(t)
	sockets := make(chan net.Conn, 10)
	s, address := startServer(t, Options{TLS: serverTLS, Bodies: NewBudget(1 << 20)}, func(ctx *fasthttp.RequestCtx) {
		sockets <- below(ctx.Conn())
		text, err := ReadBody(ctx, 100_000)
		if err != nil {
			ctx.Error(err.Error(), 400)
		}
		ctx.SetBody(text)
	})
	conn := tls.Client(dialFrom(t, "127.0.0.1", address), clientTLS)
	long := strings.Repeat("0123456789", 7_000)
	for range 2 {
		sendText(t, conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(long)))
		line := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
		_, err := io.ReadFull(conn, line)
		require.NoError(t, err)
		sendText(t, conn, long)
		require.Equal(t, long, bodyOf(t, conn))
		require.IsType(t, &net.TCPConn{}, <-sockets, "the kernel can be asked about the socket")
	}
	require.Zero(t, s.Counts().NoHandshake)

	plain := dialFrom(t, "127.0.0.1", address)
	sendText(t, plain, get)
	answer, err := io.ReadAll(plain)
	require.NoError(t, err)
	require.Equal(t, answerToHTTP, string(answer))
	require.EqualValues(t, 1, s.Counts().NoHandshake)
}

// below finds the socket below the connections that wrap it.
func below(conn net.Conn) net.Conn {
	for {
		wrapped, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = wrapped.NetConn()
	}
}

// helloBegins is the begin of a ClientHello of so many bytes.
func helloBegins(bytes int) string {
	return "\x16\x03\x01\x40\x00\x01" + string(binary.BigEndian.AppendUint32(nil, uint32(bytes))[1:])
}

// Connections that never finish their handshake fill no port: they count, and they are cut as
// silent ones are.
func TestAttackHalfOpenHandshakes(t *testing.T) {
	const places = 20
	serverTLS, clientTLS := tlsPair(t)
	s, address := startServer(t, Options{Connections: places, TLS: serverTLS}, tellClient)
	for i := range places {
		conn := dialFrom(t, "127.0.0.2", address)
		sendText(t, conn, helloBegins(2_000)[:1+i%8])
	}
	require.Eventually(t, func() bool { return s.Counts().Open == places }, patiently, time.Millisecond)
	require.Zero(t, statusOf(t, dialFrom(t, "127.0.0.1", address)), "full, and none waits too long yet")
	s.makeOlder(time.Hour)
	require.Eventually(t, func() bool {
		conn := tls.Client(dialFrom(t, "127.0.0.1", address), clientTLS)
		_, _ = io.WriteString(conn, get)
		return statusOf(t, conn) == 200
	}, patiently, time.Millisecond)
	require.EqualValues(t, places, s.Counts().Cut)
	require.Eventually(t, func() bool { return s.Counts().NoHandshake >= places }, patiently, time.Millisecond)
}

// A half-open handshake ends with the read timeout of a silent connection.
func TestAHalfOpenHandshakeEndsOnTheReadTimeout(t *testing.T) {
	serverTLS, _ := tlsPair(t)
	s, address := startImpatient(t, 20*time.Millisecond, Options{TLS: serverTLS}, tellClient)
	conn := dialFrom(t, "127.0.0.1", address)
	sendText(t, conn, helloBegins(2_000))
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Empty(t, answer)
	require.Eventually(t, func() bool { return s.Counts().Open == 0 }, patiently, time.Millisecond)
}

// A handshake cannot make the server gather a long message.
func TestAttackALongHandshakeIsCut(t *testing.T) {
	serverTLS, _ := tlsPair(t)
	s, address := startServer(t, Options{TLS: serverTLS}, tellClient)
	conn := dialFrom(t, "127.0.0.1", address)
	sendText(t, conn, helloBegins(60_000)+strings.Repeat("x", 16<<10-4))
	_, err := io.WriteString(conn, "\x16\x03\x01\x40\x00"+strings.Repeat("x", 1<<10))
	_ = err // the server may have ended the connection already
	require.Eventually(t, func() bool { return s.Counts().NoHandshake == 1 && s.Counts().Open == 0 }, patiently,
		time.Millisecond)
}

// deadlines notes how far ahead the write deadlines of a connection are set.
type deadlines struct {
	net.Conn
	ahead []time.Duration
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.ahead = append(d.ahead, time.Until(t))
	return d.Conn.SetWriteDeadline(t)
}

// The close of a TLS connection waits no longer than farewellWithin for a peer that reads nothing.
func TestTheFarewellDoesNotWait(t *testing.T) {
	serverTLS, clientTLS := tlsPair(t)
	here, there := net.Pipe() // its writes wait for a reader
	t.Cleanup(func() { _ = there.Close() })
	noted := &deadlines{Conn: here}
	c := &connection{Conn: noted, socket: noted, server: New(&fasthttp.Server{Handler: tellClient}, Options{TLS: serverTLS})}
	c.expectPreface()
	shaken := make(chan error, 1)
	go func() { shaken <- tls.Client(there, clientTLS).Handshake() }()
	require.NoError(t, c.passPreface())
	require.NoError(t, <-shaken)
	_ = c.Close() // the last record was not written
	require.NotEmpty(t, noted.ahead)
	for _, ahead := range noted.ahead {
		require.LessOrEqual(t, ahead, farewellWithin)
	}
}

func TestAShutdownDoesNotWaitForHandshakes(t *testing.T) {
	serverTLS, _ := tlsPair(t)
	s, address := startServer(t, Options{TLS: serverTLS}, tellClient)
	conn := dialFrom(t, "127.0.0.1", address)
	sendText(t, conn, helloBegins(2_000))
	require.Eventually(t, func() bool { return s.Counts().Open == 1 }, patiently, time.Millisecond)
	require.NoError(t, s.Shutdown(t.Context()))
}
