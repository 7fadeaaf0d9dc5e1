package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const deliveryID = "whd_01m7wd7tg0ewcb8xd405hgxed0"

// newSender makes a sender with a timeout of a minute, unless o has one, because a machine may be
// busy.
func newSender(t *testing.T, o SenderOptions) *Sender {
	t.Helper()
	if o.Guard == nil {
		o.Guard = NewGuard(true, nil)
	}
	if o.Timeout == 0 {
		o.ConnectTimeout, o.Timeout = time.Minute, time.Minute
	}
	s, err := NewSender(o)
	require.NoError(t, err)
	return s
}

func serve(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server
}

func TestASignedBodyIsPosted(t *testing.T) {
	var got *http.Request
	var read []byte
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		read, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	})
	status, failure := newSender(t, SenderOptions{}).Post(t.Context(), server.URL+"/hook?a=b", "whsec_1", deliveryID,
		"ping", now, body)
	require.Equal(t, http.StatusAccepted, status)
	require.Empty(t, failure)
	require.Equal(t, "POST /hook?a=b", got.Method+" "+got.RequestURI)
	require.Equal(t, body, read)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	require.Equal(t, deliveryID, got.Header.Get("webhook-id"))
	require.Equal(t, "ping", got.Header.Get("webhook-event"))
	mac := hmac.New(sha256.New, []byte("whsec_1"))
	fmt.Fprintf(mac, "%d.%s", now.Unix(), body)
	require.Equal(t, fmt.Sprintf("t=%d,v1=%x", now.Unix(), mac.Sum(nil)), got.Header.Get("service-signature"))
}

// A receiver reads the raw body, parses the header, computes the same sum, compares it in constant
// time, and refuses an old one.
func ExampleSender() {
	receive := func(r *http.Request, secret string) bool {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		stamp, v1, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("service-signature"), "t="), ",v1=")
		given, err := hex.DecodeString(v1)
		if err != nil {
			return false
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "." + string(raw)))
		var at int64
		_, err = fmt.Sscan(stamp, &at)
		return err == nil && hmac.Equal(mac.Sum(nil), given) && time.Since(time.Unix(at, 0)).Abs() < 5*time.Minute
	}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(receive(r, "whsec_1"))
	}))
	defer server.Close()
	sender, err := NewSender(SenderOptions{Guard: NewGuard(true, nil)})
	if err != nil {
		panic(err)
	}
	sender.Post(context.Background(), server.URL, "whsec_1", deliveryID, "ping", time.Now(), []byte(`{"type":"ping"}`))
	sender.Post(context.Background(), server.URL, "another's", deliveryID, "ping", time.Now(),
		[]byte(`{"type":"ping"}`))
	sender.Post(context.Background(), server.URL, "whsec_1", deliveryID, "ping", time.Now().Add(-time.Hour),
		[]byte(`{"type":"ping"}`))
	// Output:
	// true
	// false
	// false
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var asked atomic.Int32
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	status, failure := newSender(t, SenderOptions{}).Post(t.Context(), server.URL, "s", deliveryID, "ping", now, body)
	require.Equal(t, http.StatusTemporaryRedirect, status)
	require.Empty(t, failure)
	require.EqualValues(t, 1, asked.Load())
}

func TestOnlySoMuchOfAnAnswerIsRead(t *testing.T) {
	written := make(chan int, 1)
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n, chunk := 0, make([]byte, 64<<10)
		for { // an endless answer
			wrote, err := w.Write(chunk)
			if n += wrote; err != nil {
				written <- n
				return
			}
		}
	})
	status, failure := newSender(t, SenderOptions{}).Post(t.Context(), server.URL, "s", deliveryID, "ping", now, body)
	require.Equal(t, 200, status)
	require.Empty(t, failure)
	require.Less(t, <-written, 64<<20) // more than this does not fit into the buffers in between
}

func TestWhatKeepsAReceiverFromAnswering(t *testing.T) {
	const moment = 200 * time.Millisecond
	slow := make(chan struct{})
	defer close(slow)
	hanging := serve(t, func(http.ResponseWriter, *http.Request) { <-slow })
	dripping := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		<-slow
	})
	cut := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	const gone = "http://127.0.0.1:1" // a port that no other test is given
	trusted := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer trusted.Close()
	roots := x509.NewCertPool()
	roots.AddCert(trusted.Certificate())
	resolved := NewGuard(true, names{"example.com": {{"127.0.0.1"}}, "other.test": {{"127.0.0.1"}}})
	impatient := newSender(t, SenderOptions{Guard: resolved, Timeout: moment, RootCAs: roots})
	patient := newSender(t, SenderOptions{Guard: resolved, RootCAs: roots})
	_, port, err := net.SplitHostPort(trusted.Listener.Addr().String())
	require.NoError(t, err)
	f := func(s *Sender, url string, status int, failure string) {
		t.Helper()
		gotStatus, got := s.Post(t.Context(), url, "s", deliveryID, "ping", now, body)
		require.Equal(t, fmt.Sprint(status, failure), fmt.Sprint(gotStatus, got))
	}
	f(impatient, hanging.URL, 0, "timeout")
	f(patient, cut.URL, 0, "connection")
	f(patient, gone, 0, "connect")
	f(patient, "https://unknown.example.com", 0, "dns")
	f(patient, strings.Replace(gone, "http", "ftp", 1), 0, "address_refused")
	f(patient, "https://example.com:"+port, 200, "") // the certificate is made out to example.com
	f(patient, "https://other.test:"+port, 0, "tls")
	f(newSender(t, SenderOptions{}), trusted.URL, 0, "tls")
	f(patient, strings.Replace(hanging.URL, "http", "https", 1), 0, "tls")

	// A receiver that sends its body without end has answered, and the body is ignored. A busy
	// machine needs longer until the answer begins.
	status, failure := 0, failureTimeout
	for within := moment; failure == failureTimeout && within < time.Minute; within *= 4 {
		status, failure = newSender(t, SenderOptions{Timeout: within}).Post(t.Context(), dripping.URL, "s",
			deliveryID, "ping", now, body)
	}
	require.Equal(t, "200", fmt.Sprint(status, failure))
}

// A name resolves to a public address when it is registered, and to a private one when it is
// dialled.
func TestANameThatChangesLeadsNowhere(t *testing.T) {
	reached := atomic.Bool{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer server.Close()
	guard := NewGuard(false, names{"rebinds.example.com": {{"93.184.216.34"}, {"127.0.0.1"}}})
	require.NoError(t, guard.Check(t.Context(), "https://rebinds.example.com"))
	status, failure := newSender(t, SenderOptions{Guard: guard}).Post(t.Context(), "https://rebinds.example.com", "s",
		deliveryID, "ping", now, body)
	require.Zero(t, status)
	require.Equal(t, "address_refused", failure)
	require.False(t, reached.Load())
}

// A URL that was registered while private addresses were allowed is refused when they no longer
// are.
func TestAURLIsJudgedAgainWhenItIsSentTo(t *testing.T) {
	reached := atomic.Bool{}
	server := serve(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	_, failure := newSender(t, SenderOptions{Guard: NewGuard(false, nil)}).Post(t.Context(), server.URL, "s",
		deliveryID, "ping", now, body)
	require.Equal(t, "address_refused", failure)
	require.False(t, reached.Load())
}

func TestSenderOptionsAreChecked(t *testing.T) {
	_, err := NewSender(SenderOptions{})
	require.Error(t, err)
	_, err = NewSender(SenderOptions{Guard: NewGuard(false, nil), Timeout: -1})
	require.Error(t, err)
}
