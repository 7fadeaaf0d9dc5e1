package main

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// floodsOfTLS returns the floods of a port that speaks TLS. In the first three the server signs
// once for each connection. In the second and third the attacker computes nothing, which costs it
// less.
func floodsOfTLS() []flood {
	rest := func(p *process) string { return p.rest }
	return []flood{
		{"TLS handshakes", rest, func(conn net.Conn, _ int64) {
			if isOpen(conn) {
				_ = tls.Client(conn, cheapTLS).Handshake()
			}
		}},
		{"TLS hellos that are abandoned", rest, func(conn net.Conn, _ int64) {
			_, _ = conn.Write(clientHello())
			_, _ = conn.Read(make([]byte, 1))
		}},
		{"TLS hellos and silence", rest, func(conn net.Conn, _ int64) {
			_, _ = conn.Write(clientHello())
			_, _ = io.Copy(io.Discard, conn)
		}},
		{"TLS hellos byte by byte", rest, func(conn net.Conn, _ int64) {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			hello := clientHello()
			for i := range len(hello) / 2 {
				if _, err := conn.Write(hello[i : i+1]); err != nil {
					return
				}
				time.Sleep(10 * floodPause)
			}
		}},
		{"garbage in place of TLS", rest, func(conn net.Conn, _ int64) {
			_, _ = conn.Write(make([]byte, 1<<10))
			_, _ = io.Copy(io.Discard, conn)
		}},
	}
}

// cheapTLS is the configuration of the handshake that costs an attacker least. The computation of
// attackers on the same machine slows the swipes, even at idle priority, and is no part of the
// test.
var cheapTLS = &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}

// isOpen reports whether the server has accepted a connection. It closes a refused one at once.
func isOpen(conn net.Conn) bool {
	if conn.SetReadDeadline(time.Now().Add(10*floodPause)) != nil {
		return false
	}
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded) && conn.SetReadDeadline(time.Time{}) == nil
}

// clientHello returns the first message of a TLS client. A server answers a copy of it every time.
var clientHello = sync.OnceValue(func() []byte {
	client, server := net.Pipe()
	go func() { _ = tls.Client(client, cheapTLS).Handshake() }()
	hello := make([]byte, 4<<10)
	n, err := server.Read(hello)
	if err != nil {
		panic(err)
	}
	_ = server.Close()
	return hello[:n]
})

// Floods of whole and abandoned TLS handshakes run beside swipes over TLS. Each connection without
// a request counts as a refusal of its address. With PURSER_TEST_FULL each flood but that of whole
// handshakes is compared with the same swipes without it, under an ECDSA and an RSA certificate.
// The attackers of whole handshakes compute on this machine's processors: four threads that
// compute at idle priority and send nothing slow the swipes as much.
func TestAttackFloodsOfTLS(t *testing.T) {
	onlyInFullLength(t)
	if os.Getenv(fullLengthVariable) == "" {
		floodTLS(t, newCertificate(t), floodsOfTLS())
		return
	}
	t.Run("ECDSA", func(t *testing.T) { floodTLS(t, newCertificate(t), floodsOfTLS()[1:]) })
	signed := floodsOfTLS()[1:3] // the floods for which the server signs, so that they depend on the key
	t.Run("RSA", func(t *testing.T) { floodTLS(t, newRSACertificate(t), signed) })
}

// floodTLS floods a server that has the certificate.
func floodTLS(t *testing.T, files testCertificate, floods []flood) {
	purser, full := program{path: buildProgram(t)}, os.Getenv(fullLengthVariable) != ""
	purser.env = append([]string{"PURSER_REFUSALS=20", "PURSER_TLS_CERT=" + files.cert, "PURSER_TLS_KEY=" + files.key}, asShipped...)
	data := filepath.Join(t.TempDir(), "data")
	p := launchWithFileLimit(t, purser, data, floodFiles)
	p.authorities = files.clientConfig(t).RootCAs
	counted := func() (unread, refused float64) {
		text := p.adminPage("/metrics")
		return sumLabelled(text, "purser_connections_unread_total", `reason="handshake"`),
			sumLabelled(text, "purser_connections_refused_total", `reason="refusals"`)
	}
	for _, f := range floods {
		if full {
			t.Run(f.name, func(t *testing.T) { p.requireBoundedSlowdown(t, data, f) })
		}
	}
	if !full {
		stage := measureSwipesDuring(t, p, data, 200, 5*time.Second, floods...)
		t.Logf("swipes beside the floods: p99 %.1f ms, %v", stage.Measures[0].P99Micros/1000, stage.Outcomes)
	}
	unread, refused := counted()
	t.Logf("connections without a handshake %.0f, refused %.0f", unread, refused)
	require.Positive(t, unread, "connections without a handshake are not counted")
	require.Positive(t, refused, "connections without a request did not fill the bucket of their address")
	rest := portClient{from: "127.0.0.1", to: p.rest, tls: files.clientConfig(t)}
	p.await(t, "an answer of REST", func() bool { return rest.status(t, rootRequest("")) == 200 })
	p.awaitEmptyBacklog(t)
	require.Empty(t, p.signalAndWait(t, syscall.SIGTERM))
	require.Contains(t, requireSuccess(t, purser, data, "audit"), "agree to the cent")
}
