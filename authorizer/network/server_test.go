package network

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

var epoch = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

const (
	testSecret = "network-secret"
	nextSecret = "the-next-one"
)

type decider func(m *hold.Message) hold.Answer

func (d decider) Submit(m *hold.Message) hold.Answer { return d(m) }

func approve(m *hold.Message) hold.Answer {
	return hold.Answer{Status: hold.StatusOK, ID: m.ID, Decision: hold.Approved, Approved: m.Amount}
}

// testServer is a server that listens.
type testServer struct {
	t       *testing.T
	server  *Server
	address string
	served  chan error
}

// openServer opens a server with timeouts that no slow machine reaches.
func openServer(t *testing.T, d decider, change ...func(*Options)) *testServer {
	options := Options{Decider: d, Secrets: []string{testSecret, nextSecret}, Clock: func() time.Time { return epoch },
		ReadTimeout: time.Hour, WriteTimeout: time.Hour, IdleTimeout: time.Hour}
	for _, c := range change {
		c(&options)
	}
	server, err := New(options)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o := &testServer{t: t, server: server, address: ln.Addr().String(), served: make(chan error, 1)}
	go func() { o.served <- server.Serve(ln) }()
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown(context.Background()))
		require.NoError(t, <-o.served)
	})
	return o
}

func (o *testServer) do(method, path, secret, body string, headers ...string) (int, string) {
	request, err := http.NewRequest(method, "http://"+o.address+path, strings.NewReader(body))
	require.NoError(o.t, err)
	request.Header.Set("Authorization", "Bearer "+secret)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(o.t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(o.t, err)
	require.Equal(o.t, "application/json", response.Header.Get("Content-Type"))
	require.True(o.t, json.Valid(answer), "%s", answer)
	return response.StatusCode, string(answer)
}

// raw sends bytes and returns all answers until the peer closes.
func (o *testServer) raw(request string) string {
	conn, err := net.Dial("tcp", o.address)
	require.NoError(o.t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, request)
	require.NoError(o.t, err)
	answer, _ := io.ReadAll(bufio.NewReader(conn))
	return string(answer)
}

const (
	swipeBody  = `{"id":"n\"1","cardToken":"x","amountCents":1250,"currency":"USD","merchant":{"name":"Shop","mcc":"5411"}}`
	factBody   = `{"id":"n2","cardToken":"x","amountCents":5,"currency":"USD","merchant":{"name":"Shop","mcc":"5411"}}`
	returnBody = `{"id":"n3","originalId":"n1"}`
)

func TestServerAnswersInTheShapeOfTheRoute(t *testing.T) {
	id := ident.Derive(7, epoch, "auth")
	var answer hold.Answer
	told := make(chan int, 1)
	o := openServer(t, func(m *hold.Message) hold.Answer { return answer }, func(options *Options) {
		options.Answered = func(_ hold.Kind, status int, _ time.Duration) { told <- status }
	})
	auth, swiped := id.Format(ident.Authorization), `{"id":"n\"1","authorizationId":`
	for _, c := range []struct {
		path, body string
		a          hold.Answer
		status     int
		want       string
	}{
		{"authorizations", swipeBody, hold.Answer{Status: 200, Authorization: id, Decision: hold.Approved,
			Approved: 1250}, 200,
			swiped + `"` + auth + `","decision":"approved","reason":"approved","responseCode":"00","approvedAmountCents":1250}`},
		{"authorizations", swipeBody, hold.Answer{Status: 200, Authorization: id, Decision: hold.Approved,
			Approved: 1249}, 200,
			swiped + `"` + auth + `","decision":"approved","reason":"approved","responseCode":"10","approvedAmountCents":1249}`},
		{"authorizations", swipeBody, hold.Answer{Status: 200, Decision: hold.Declined,
			Reason: hold.ReasonCardNotFound}, 200,
			swiped + `null,"decision":"declined","reason":"card_not_found","responseCode":"14","approvedAmountCents":0}`},
		{"authorizations", swipeBody,
			hold.Answer{Status: 200, Decision: hold.Declined, Reason: hold.ReasonInvalidRequest, Message: `mcc: "x"`},
			200,
			swiped + `null,"decision":"declined","reason":"invalid_request","responseCode":"30","approvedAmountCents":0,` +
				`"message":"mcc: \"x\""}`},
		{"reversals", returnBody, hold.Answer{Status: 200, Authorization: id, Decision: hold.Applied, Held: 7}, 200,
			`{"id":"n3","authorizationId":"` + auth + `","heldAmountCents":7}`},
		{"reversals", returnBody, hold.Answer{Status: 200, Decision: hold.Applied}, 200,
			`{"id":"n3","authorizationId":null,"heldAmountCents":0}`},
		{"clearings", factBody, hold.Answer{Status: 200, Decision: hold.Posted}, 200, `{"id":"n2","status":"posted"}`},
		{"refunds", factBody, hold.Answer{Status: 200, Decision: hold.Unmatched}, 200,
			`{"id":"n2","status":"unmatched"}`},
		{"refunds", factBody, hold.Answer{Status: hold.StatusConflict}, 409, `{"error":"duplicate_mismatch"}`},
		{"reversals", returnBody, hold.Answer{Status: hold.StatusFull}, 503, `{"error":"unavailable"}`},
	} {
		answer = c.a
		status, got := o.do("POST", "/v1/"+c.path, testSecret, c.body)
		require.Equal(t, c.status, status)
		require.Equal(t, c.want, got)
		require.Equal(t, c.status, <-told)
	}
}

func TestServerSubmitsTheMessage(t *testing.T) {
	kinds := make(chan hold.Message, 1)
	o := openServer(t, func(m *hold.Message) hold.Answer {
		kinds <- hold.Message{Kind: m.Kind, ID: strings.Clone(m.ID), Amount: m.Amount, WholeHold: m.WholeHold,
			Invalid: m.Invalid}
		return approve(m)
	})
	for _, c := range []struct {
		path, body string
		want       hold.Message
	}{
		{"authorizations", swipeBody, hold.Message{Kind: hold.Authorization, ID: `n"1`, Amount: 1250}},
		{"reversals", returnBody, hold.Message{Kind: hold.Reversal, ID: "n3", WholeHold: true}},
		{"clearings", factBody, hold.Message{Kind: hold.Clearing, ID: "n2", Amount: 5}},
		{"refunds", factBody, hold.Message{Kind: hold.Refund, ID: "n2", Amount: 5}},
		{"authorizations", `{"id":"n4"}`, hold.Message{Kind: hold.Authorization, ID: "n4", Invalid: badCardToken}},
	} {
		o.do("POST", "/v1/"+c.path, nextSecret, c.body)
		require.Equal(t, c.want, <-kinds)
	}
}

func TestServerRefusals(t *testing.T) {
	o := openServer(t, func(m *hold.Message) hold.Answer {
		t.Errorf("decided %+v", m)
		return approve(m)
	}, func(options *Options) { options.MaxBody = 1000 })
	long := `{"id":"` + strings.Repeat("x", 1000) + `"}`
	for name, c := range map[string]struct {
		method, path, secret, body string
		status                     int
		code                       string
	}{
		"wrong secret": {"POST", "/v1/authorizations", testSecret + "x", swipeBody, 401, "unauthorized"},
		"no secret":    {"POST", "/v1/authorizations", "", swipeBody, 401, "unauthorized"},
		"both secrets": {"POST", "/v1/authorizations", testSecret + nextSecret, swipeBody, 401, "unauthorized"},
		"unknown path": {"POST", "/v1/authorization", testSecret, swipeBody, 404, "not_found"},
		"root":         {"POST", "/", testSecret, swipeBody, 404, "not_found"},
		"wrong method": {"PUT", "/v1/authorizations", testSecret, swipeBody, 405, "method_not_allowed"},
		"not json":     {"POST", "/v1/authorizations", testSecret, "hello", 400, "invalid_body"},
		"too large":    {"POST", "/v1/authorizations", testSecret, long, 413, "body_too_large"},
		"bad field": {"POST", "/v1/clearings", testSecret, strings.Replace(factBody, "5411", "54", 1), 400,
			"invalid_body"},
		"of another form": {"POST", "/v1/reversals", testSecret, factBody, 400, "invalid_body"},
	} {
		status, body := o.do(c.method, c.path, c.secret, c.body)
		require.Equal(t, c.status, status, name)
		require.Contains(t, body, `{"error":"`+c.code+`"`, name)
		require.NotContains(t, body, testSecret)
	}
	_, body := o.do("POST", "/v1/clearings", testSecret, strings.Replace(factBody, "5411", "54", 1))
	require.Contains(t, body, "merchant.mcc")
	status, body := o.do("POST", "/v1/refunds", testSecret, factBody, "Content-Encoding", "gzip")
	require.Equal(t, 400, status, body)
	long = o.raw("POST /v1/refunds HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 20_000) + "\r\n\r\n")
	require.True(t, strings.HasPrefix(long, "HTTP/1.1 431"), long)
	require.Contains(t, long, `{"error":"header_too_large"`)
}

func TestServerRefusesABodyOfTwoLengthsAndAnotherVersion(t *testing.T) {
	o := openServer(t, func(m *hold.Message) hold.Answer {
		t.Errorf("decided %+v", m)
		return approve(m)
	})
	head := "POST /v1/reversals HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + testSecret + "\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(returnBody), returnBody)
	length := fmt.Sprintf("Content-Length: %d\r\n", len(returnBody))
	for name, request := range map[string]string{
		"length first":   head + length + "Transfer-Encoding: chunked\r\n\r\n" + chunked,
		"transfer first": head + "transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n" + chunked,
		"identity":       head + "Transfer-Encoding: identity\r\n" + length + "\r\n" + returnBody,
	} {
		answer := o.raw(request)
		require.True(t, strings.HasPrefix(answer, "HTTP/1.1 400"), "%s: %s", name, answer)
		require.Contains(t, answer, "invalid_body", name)
	}
	require.Contains(t, o.raw("nonsense\r\n\r\n"), `{"error":"invalid_body"`)
	answer := o.raw(strings.Replace(head, "1.1", "9.9", 1) + length + "\r\n" + returnBody)
	require.True(t, strings.HasPrefix(answer, "HTTP/1.1 505"), answer)
	require.Contains(t, answer, `{"error":"invalid_body"`)
}

func TestServerRequiresOneSecret(t *testing.T) {
	o := openServer(t, approve)
	secret := "Authorization: Bearer " + testSecret + "\r\n"
	answer := o.raw("POST /v1/reversals HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + secret + secret +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(returnBody), returnBody))
	require.True(t, strings.HasPrefix(answer, "HTTP/1.1 401"), answer)
}

// RFC 9110 compares the scheme without regard to case, and lets spaces follow it.
func TestServerReadsTheSchemeInAnyCase(t *testing.T) {
	o := openServer(t, approve)
	for credentials, status := range map[string]int{
		"Bearer " + testSecret:     200,
		"bearer " + testSecret:     200,
		"BEARER " + nextSecret:     200,
		"bEaReR  " + testSecret:    200,
		"bearer " + testSecret[1:]: 401,
		"Bearer" + testSecret:      401,
		"Basic " + testSecret:      401,
		"bearers " + testSecret:    401,
		" " + testSecret:           401,
		testSecret:                 401,
		"bearer":                   401,
	} {
		got, body := o.do("POST", "/v1/authorizations", "", swipeBody, "Authorization", credentials)
		require.Equal(t, status, got, "%q: %s", credentials, body)
	}
}

// A connection that never sends anything does not delay the shutdown.
func TestServerShutsDespiteASilentConnection(t *testing.T) {
	server, err := New(Options{Decider: decider(approve), Secrets: []string{testSecret}, Clock: time.Now,
		ReadTimeout: time.Hour, WriteTimeout: time.Hour})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	silent, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer silent.Close()
	o := &testServer{t: t, address: ln.Addr().String()}
	status, _ := o.do("POST", "/v1/authorizations", testSecret, swipeBody) // accepted after the silent connection
	require.Equal(t, 200, status)
	within, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, server.Shutdown(within))
	require.NoError(t, <-served)
}

func TestServerTakesAChunkedBody(t *testing.T) {
	o := openServer(t, approve)
	answer := o.raw("POST /v1/reversals HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + testSecret +
		"\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(returnBody), returnBody))
	require.True(t, strings.HasPrefix(answer, "HTTP/1.1 200"), answer)
}

func TestServerClosesWhenTheOutcomeIsUnknown(t *testing.T) {
	o := openServer(t, func(*hold.Message) hold.Answer { return hold.Answer{} })
	answer := o.raw("POST /v1/reversals HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + testSecret +
		fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s", len(returnBody), returnBody))
	require.Empty(t, answer)
}

func TestShutdownLetsTheRequestUnderWayBeAnswered(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	server, err := New(Options{
		Decider: decider(func(m *hold.Message) hold.Answer {
			close(entered)
			<-leave
			return approve(m)
		}),
		Secrets: []string{testSecret}, Clock: time.Now, ReadTimeout: time.Hour, WriteTimeout: time.Hour,
	})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served, answered, down := make(chan error, 1), make(chan string, 1), make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	o := &testServer{t: t, address: ln.Addr().String()}
	go func() {
		_, body := o.do("POST", "/v1/authorizations", testSecret, swipeBody)
		answered <- body
	}()
	<-entered
	go func() { down <- server.Shutdown(context.Background()) }()
	require.NoError(t, <-served, "it stops taking connections at once")
	close(leave)
	require.Contains(t, <-answered, `"decision":"approved"`)
	require.NoError(t, <-down)
}

func TestAServerShutBeforeServingDoesNotServe(t *testing.T) {
	server, err := New(Options{Decider: decider(approve), Secrets: []string{testSecret}, Clock: time.Now})
	require.NoError(t, err)
	require.NoError(t, server.Shutdown(context.Background()))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, server.Serve(ln))
	require.ErrorIs(t, ln.Close(), net.ErrClosed, "the listener is closed")
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Decider: decider(approve), Clock: time.Now, Secrets: []string{"a"}}
	_, err := New(good)
	require.NoError(t, err)
	for name, change := range map[string]func(*Options){
		"no decider":    func(o *Options) { o.Decider = nil },
		"no clock":      func(o *Options) { o.Clock = nil },
		"no secret":     func(o *Options) { o.Secrets = nil },
		"empty secret":  func(o *Options) { o.Secrets = []string{"a", ""} },
		"three secrets": func(o *Options) { o.Secrets = []string{"a", "b", "c"} },
		"negative":      func(o *Options) { o.MaxBody = -1 },
	} {
		options := good
		change(&options)
		_, err := New(options)
		require.Error(t, err, name)
	}
}

// prepareHandler returns a server and a handler call on a request in the form of fasthttp.
func prepareHandler(t testing.TB) (*Server, func()) {
	server, err := New(Options{Decider: decider(approve), Secrets: []string{testSecret, nextSecret}, Clock: time.Now})
	require.NoError(t, err)
	ctx := &fasthttp.RequestCtx{}
	raw := "POST /v1/authorizations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + testSecret +
		fmt.Sprintf("\r\nContent-Type: application/json\r\n"+"Content-Length: %d\r\n\r\n%s", len(factBody), factBody)
	require.NoError(t, ctx.Request.Read(bufio.NewReader(strings.NewReader(raw))))
	return server, func() {
		server.handleRequest(ctx)
		if ctx.Response.StatusCode() != fasthttp.StatusOK {
			t.Fatalf("%s", ctx.Response.Body())
		}
	}
}

func TestParseAndAnswerDoNotAllocate(t *testing.T) {
	_, handle := prepareHandler(t)
	require.Zero(t, testing.AllocsPerRun(1000, handle))
}

func BenchmarkHandle(b *testing.B) {
	_, handle := prepareHandler(b)
	b.ReportAllocs()
	for b.Loop() {
		handle()
	}
}
