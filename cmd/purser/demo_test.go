package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
)

// demoWith is the demo as it is asked for with flags, and where it would go.
func demoWith(t *testing.T, flags ...string) (c DemoCmd, secret string) {
	t.Helper()
	parser, err := kong.New(&c)
	require.NoError(t, err)
	_, err = parser.Parse(flags)
	require.NoError(t, err)
	secret, _, err = c.secret()
	require.NoError(t, err)
	return c, secret
}

// The demo reads the settings of the server it walks through.
func TestTheDemoReadsTheServersSettings(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "network-secret"), []byte("of the directory\n"), 0o600))
	named := filepath.Join(data, "named")
	require.NoError(t, os.WriteFile(named, []byte("of the file"), 0o600))
	t.Setenv("PURSER_DATA_DIR", data)
	t.Setenv("PURSER_HTTP_ADDR", "0.0.0.0:9080")
	t.Setenv("PURSER_AUTHORIZER_ADDR", "10.0.0.1:9081")
	c, secret := demoWith(t)
	require.Equal(t, "of the directory", secret)
	require.Equal(t, "http://localhost:9080", urlOf(c.HTTPAddr))
	require.Equal(t, "http://10.0.0.1:9081", urlOf(c.AuthorizerAddr))
	t.Setenv("PURSER_NETWORK_SECRET", "the first, the second")
	_, secret = demoWith(t)
	require.Equal(t, "the first", secret)
	_, secret = demoWith(t, "--network-secret-file", named)
	require.Equal(t, "of the file", secret)
	require.Equal(t, "http://localhost:80", urlOf(":80"))
	require.Equal(t, "http://localhost:80", urlOf("[::]:80"))
}

// Where the server's settings leave the demo nothing to show, it ends with the server's reason.
func TestTheDemoEndsWhereItIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  func(*Settings)
		says string
	}{
		{func(s *Settings) { s.Signup = "closed" }, "stop 1, "},
		{func(s *Settings) { s.Issuer = "connected" }, "the issuing partner needs an active cardholder"},
	} {
		data := t.TempDir()
		s := testSettings(t, data)
		c.set(&s)
		config, err := s.Config()
		require.NoError(t, err)
		m := NewMain(config, talkative())
		require.NoError(t, m.Start(t.Context()))
		out, err := runDemo(t, data)
		require.ErrorContains(t, err, c.says, out)
		require.ErrorContains(t, err, "the server as it is set does not let the demo go on", out)
		require.NoError(t, m.Close())
	}
}

// TestTheDemoNamesTheLimitOfRefusals: a server closes the connections of an address with too many
// refused requests, and does not say why.
func TestTheDemoNamesTheLimitOfRefusals(t *testing.T) {
	for _, linger := range []int{0, -1} { // seconds: the connection is reset, or ends
		network := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				err = connection.(*net.TCPConn).SetLinger(linger)
			}
			if err = errors.Join(err, connection.Close()); err != nil {
				panic(err)
			}
		}))
		walk := &tour{out: io.Discard, run: "run", network: newClient(network.URL, "secret")}
		_, err := walk.swipe(t.Context(), walk.message("lunch", "grocer", swipeCents, nil), "approved", "00", swipeCents)
		require.ErrorContains(t, err, "PURSER_REFUSALS")
		network.Close()
		_, err = walk.network.send(t.Context(), request{method: http.MethodGet, path: "/"})
		require.ErrorContains(t, err, "is the server running?")
	}
}

// A swipe that a busy machine has declined for good is made anew under an id of its own, which what follows refers to; a fact is
// sent again until it is taken. What promised nothing is not kept to be asked again.
func TestTheDemoOnABusyMachine(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	network := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var m struct{ ID string }
		_ = json.NewDecoder(r.Body).Decode(&m) // what cannot be read has no id
		asked[m.ID]++
		switch {
		case m.ID == "demo-run-lunch":
			_, _ = io.WriteString(w, `{"decision":"declined","reason":"timeout"}`)
		case m.ID == "demo-run-part" && asked[m.ID] == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, `{"decision":"approved","reason":"approved","responseCode":"00","approvedAmountCents":1250,`+
				`"heldAmountCents":0}`)
		}
	}))
	defer network.Close()
	walk := &tour{out: io.Discard, run: "run", anew: map[string]string{}, network: newClient(network.URL, "secret")}
	defer walk.network.http.CloseIdleConnections()
	_, err := walk.swipe(t.Context(), walk.message("lunch", "grocer", swipeCents, nil), "approved", "00", swipeCents)
	require.NoError(t, err)
	require.Equal(t, "demo-run-lunch-anew-1", walk.id("lunch"))
	require.NoError(t, walk.reverse(t.Context(), fields{"id": walk.id("part"), "originalId": walk.id("lunch")}, 0))
	require.Zero(t, walk.differences)
	require.Equal(t, 1, asked["demo-run-lunch-anew-1"])
	require.Equal(t, 2, asked["demo-run-part"])
	require.Len(t, walk.told, 2)
	require.Contains(t, walk.told[0].Body, "demo-run-lunch-anew-1")
}

// A server that has no room for a sign-up is asked again.
func TestTheDemoAsksAgainForRoom(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	walk := &tour{out: io.Discard, session: newClient(server.URL, "")}
	defer walk.session.http.CloseIdleConnections()
	_, err := walk.create(t.Context(), walk.session, "/room", fields{})
	require.NoError(t, err)
	require.Zero(t, walk.differences)
	require.Equal(t, 2, asked)
}

// A busy machine may decline one swipe many times. The ids of the new swipes do not exceed
// hold.MaxNetworkID. A server that did not run for a while declines every simulated swipe of the
// next AnswerWithin, and the demo has swipes left after that.
func TestTheDemoOutlastsABusyMachine(t *testing.T) {
	t.Parallel()
	began, swipes := time.Now(), 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy := time.Since(began) < hold.AnswerWithin
		if r.URL.Path != "/simulated" {
			swipes++
			busy = swipes <= mostAnew/2
		}
		decision, reason := "approved", "approved"
		if busy {
			decision, reason = "declined", "timeout"
		}
		_, _ = fmt.Fprintf(w, `{"decision":%q,"reason":%q,"responseCode":"00","approvedAmountCents":1250}`,
			decision, reason)
	}))
	defer server.Close()
	anyone := newClient(server.URL, "secret")
	defer anyone.http.CloseIdleConnections()
	walk := &tour{out: io.Discard, run: "ten letter", anew: map[string]string{}, network: anyone, api: anyone}
	simulated, err := walk.simulateSwipe(t.Context(), "/simulated")
	require.NoError(t, err)
	require.Equal(t, "approved", simulated.text("decision"))
	message := walk.message("all-there-is", "grocer", swipeCents, nil)
	_, err = walk.swipe(t.Context(), message, "approved", "00", swipeCents)
	require.NoError(t, err)
	require.Zero(t, walk.differences)
	require.LessOrEqual(t, len(walk.id("all-there-is")), hold.MaxNetworkID)
}

// The demo prints a line a step; each request too when it is asked to, or when the step has found a
// difference.
func TestTheDemoPrintsOneLineAStep(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	m := start(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	out, err := runDemo(t, data)
	require.NoError(t, err, out)
	require.Equal(t, len(stops)+2, strings.Count(out, "\n"), out)
	require.Regexp(t, `12\. A payment link that is paid on the sandbox chain: \d+ checks, look at it: http://\S+/checkout/cs_`, out)
	require.NotContains(t, out, "POST ")

	walk := &tour{out: &strings.Builder{}, run: "run", session: newClient("http://"+m.listeners.admin.Addr().String(), "")}
	walk.session.http.Transport = &http.Transport{DisableKeepAlives: true} // another server's port: the answers are not REST's
	err = walk.visitStop(t.Context(), 0)
	require.ErrorContains(t, err, "stop 1, Sign up")
	require.Contains(t, walk.out.(*strings.Builder).String(), "POST /api/dashboard/signup")
	walk.verbose = true
	require.Error(t, walk.visitStop(t.Context(), 0))
	require.Contains(t, walk.out.(*strings.Builder).String(), "\n 1. Sign up and make a workspace\n    POST")
}

// TestTheDemoEndsAtASecretThatTheServerDoesNotKnow: a rotation whose server was not restarted is
// named in one line.
func TestTheDemoEndsAtASecretThatTheServerDoesNotKnow(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	m := start(t, data)
	defer func() { require.NoError(t, m.Close()) }()
	require.NoError(t, run([]string{"rotate", "--data-dir", data, networkSecretFile}, io.Discard))
	out, err := runDemo(t, data)
	require.ErrorContains(t, err, "stop 6, A swipe that fits every rule: POST http://")
	require.ErrorContains(t, err, "answered 401: the server does not know the card network's secret, the first in "+
		filepath.Join(data, networkSecretFile)+"; while it rotates, restart the server first")
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, out, "DIFFERS")
	require.Equal(t, 6, strings.Count(out, "\n"), out)

	told := filepath.Join(data, "told.json")
	text := `{"apiKey":"apk_none","reads":[{"method":"GET","path":"/api/treasury"}]}`
	require.NoError(t, os.WriteFile(told, []byte(text), 0o600))
	_, err = runDemo(t, data, "--check", told)
	require.ErrorContains(t, err, "answered 401: the server does not know the API key in "+told)
}

// The container is given a secret that its reader knows: the one made in the volume cannot be read from outside.
func TestTheReadmeSaysTheContainersSecret(t *testing.T) {
	compose, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	found := regexp.MustCompile(`PURSER_NETWORK_SECRET: \$\{PURSER_NETWORK_SECRET:-([a-z-]+)\}`).FindSubmatch(compose)
	require.NotNil(t, found)
	require.GreaterOrEqual(t, len(found[1]), minSecretChars)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "PURSER_NETWORK_SECRET="+string(found[1])+" make demo")
}
