package demo

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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
)

// demoWith parses flags of the demo, and returns it with the secret that it would use.
func demoWith(t *testing.T, flags ...string) (c Command, secret string) {
	t.Helper()
	parser, err := kong.New(&c)
	require.NoError(t, err)
	_, err = parser.Parse(flags)
	require.NoError(t, err)
	secret, _, err = datadir.NetworkSecret(c.DataDir, c.NetworkSecret, c.NetworkSecretFile)
	require.NoError(t, err)
	return c, secret
}

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
	require.Equal(t, "http://localhost:9080", adminport.URL(c.HTTPAddr))
	require.Equal(t, "http://10.0.0.1:9081", adminport.URL(c.AuthorizerAddr))
	t.Setenv("PURSER_NETWORK_SECRET", "the first, the second")
	_, secret = demoWith(t)
	require.Equal(t, "the first", secret)
	_, secret = demoWith(t, "--network-secret-file", named)
	require.Equal(t, "of the file", secret)
	require.Equal(t, "http://localhost:80", adminport.URL(":80"))
	require.Equal(t, "http://localhost:80", adminport.URL("[::]:80"))
}

// A server closes the connections of an address with too many refused requests, without an answer.
// The demo's error names the setting.
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
		walk := &Tour{Out: io.Discard, run: "run", network: apiclient.New(network.URL, "secret")}
		_, err := walk.swipeAndExpect(t.Context(), walk.networkMessage("lunch", "grocer", swipeCents, nil), "approved", "00", swipeCents)
		require.ErrorContains(t, err, "PURSER_REFUSALS")
		network.Close()
		_, err = walk.network.Send(t.Context(), apiclient.Request{Method: http.MethodGet, Path: "/"})
		require.ErrorContains(t, err, "is the server running?")
	}
}

// The demo retries a swipe that timed out under a new id, and later messages refer to that id. It
// repeats a reversal until the server accepts it. --save keeps only final answers.
func TestTheDemoOnABusyMachine(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	network := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var m struct{ ID string }
		_ = json.NewDecoder(r.Body).Decode(&m) // an unreadable body has no id
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
	walk := &Tour{Out: io.Discard, run: "run", anew: map[string]string{}, network: apiclient.New(network.URL, "secret")}
	defer walk.network.HTTP.CloseIdleConnections()
	_, err := walk.swipeAndExpect(t.Context(), walk.networkMessage("lunch", "grocer", swipeCents, nil), "approved", "00", swipeCents)
	require.NoError(t, err)
	require.Equal(t, "demo-run-lunch-anew-1", walk.networkID("lunch"))
	require.NoError(t, walk.reverseAndExpect(t.Context(), jsonObject{"id": walk.networkID("part"), "originalId": walk.networkID("lunch")}, 0))
	require.Zero(t, walk.Differences)
	require.Equal(t, 1, asked["demo-run-lunch-anew-1"])
	require.Equal(t, 2, asked["demo-run-part"])
	require.Len(t, walk.told, 2)
	require.Contains(t, walk.told[0].Body, "demo-run-lunch-anew-1")
}

// The demo repeats a sign-up that was answered with 503.
func TestTheDemoAsksAgainForRoom(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	walk := &Tour{Out: io.Discard, Session: apiclient.New(server.URL, "")}
	defer walk.Session.HTTP.CloseIdleConnections()
	_, err := walk.mustPost(t.Context(), walk.Session, "/room", jsonObject{})
	require.NoError(t, err)
	require.Zero(t, walk.Differences)
	require.Equal(t, 2, asked)
}

// A busy server may decline one swipe many times. The ids of the retries do not exceed
// hold.MaxNetworkID. A server whose process was paused declines every simulated swipe of the next
// AnswerWithin, and the demo has retries left after that.
func TestTheDemoOutlastsABusyMachine(t *testing.T) {
	t.Parallel()
	began, swipes := time.Now(), 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy := time.Since(began) < hold.AnswerWithin
		if r.URL.Path != "/simulated" {
			swipes++
			busy = swipes <= maxRetries/2
		}
		decision, reason := "approved", "approved"
		if busy {
			decision, reason = "declined", "timeout"
		}
		_, _ = fmt.Fprintf(w, `{"decision":%q,"reason":%q,"responseCode":"00","approvedAmountCents":1250}`,
			decision, reason)
	}))
	defer server.Close()
	anyone := apiclient.New(server.URL, "secret")
	defer anyone.HTTP.CloseIdleConnections()
	walk := &Tour{Out: io.Discard, run: "ten letter", anew: map[string]string{}, network: anyone, API: anyone}
	simulated, err := walk.simulateSwipe(t.Context(), "/simulated")
	require.NoError(t, err)
	require.Equal(t, "approved", simulated.Text("decision"))
	message := walk.networkMessage("all-there-is", "grocer", swipeCents, nil)
	_, err = walk.swipeAndExpect(t.Context(), message, "approved", "00", swipeCents)
	require.NoError(t, err)
	require.Zero(t, walk.Differences)
	require.LessOrEqual(t, len(walk.networkID("all-there-is")), hold.MaxNetworkID)
}

// The tour prints the requests of a stop that ends with an error, and all requests when it is
// verbose.
func TestTheDemoPrintsTheRequestsOfAFailedStop(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	walk := &Tour{Out: &strings.Builder{}, run: "run", Session: apiclient.New(other.URL, "")}
	walk.Session.HTTP.Transport = &http.Transport{DisableKeepAlives: true} // another server's port: the answers are not REST's
	err := walk.visitStop(t.Context(), 0)
	require.ErrorContains(t, err, "stop 1, Sign up")
	require.Contains(t, walk.Out.(*strings.Builder).String(), "POST /api/dashboard/signup")
	walk.verbose = true
	require.Error(t, walk.visitStop(t.Context(), 0))
	require.Contains(t, walk.Out.(*strings.Builder).String(), "\n 1. Sign up and make a workspace\n    POST")
}
