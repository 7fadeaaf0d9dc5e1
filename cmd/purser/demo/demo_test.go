package demo

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

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

// newTestTour returns a tour whose session and network are a server with the handler.
func newTestTour(t *testing.T, handler http.HandlerFunc) (*tour, *strings.Builder) {
	t.Helper()
	server := httptest.NewServer(handler)
	out := &strings.Builder{}
	walk := &tour{out: out, clients: map[string]*apiclient.Client{session: apiclient.New(server.URL, ""),
		network: apiclient.New(server.URL, "secret")}}
	walk.makeNames()
	t.Cleanup(server.Close)
	return walk, out
}

// answerInTurn answers requests with the texts in turn, a leading status included.
func answerInTurn(t *testing.T, answers ...string) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, _ *http.Request) {
		status, text, _ := strings.Cut(answers[0], " ")
		answers = answers[1:]
		code, err := strconv.Atoi(status)
		if err != nil {
			panic(err)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text) // an answer that is not read fails the test
	}
}

// A server closes the connections of an address with too many refused requests, without an answer.
// The demo's error names the setting.
func TestTheDemoNamesTheLimitOfRefusals(t *testing.T) {
	for _, linger := range []int{0, -1} { // seconds: the connection is reset, or ends
		walk, _ := newTestTour(t, func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				err = connection.(*net.TCPConn).SetLinger(linger)
			}
			if err = errors.Join(err, connection.Close()); err != nil {
				panic(err)
			}
		})
		err := walk.makeCall(t.Context(), approvedSwipe("lunch", "grocer", 12_50, atGrocer, `"responseCode":"00"`))
		require.ErrorContains(t, err, "PURSER_REFUSALS")
	}
}

// The demo repeats a request that was answered with 503 or 429, and keeps the final answer for
// --save.
func TestTheDemoAsksAgainForRoom(t *testing.T) {
	t.Parallel()
	walk, _ := newTestTour(t, answerInTurn(t, `503 {}`, `200 {"heldAmountCents":0}`, `503 {}`, `429 {}`, `200 {}`))
	require.NoError(t, walk.makeCall(t.Context(), sendReversal("part", `"originalId":"$lunch"`, `{"heldAmountCents":0}`)))
	require.NoError(t, walk.makeCall(t.Context(), call{session, "POST /room", `{}`, ``}))
	require.Equal(t, 2, walk.checked)
	require.Len(t, walk.saved, 1)
	require.Equal(t, `{"heldAmountCents":0}`, string(walk.saved[0].Answer))
	require.Contains(t, walk.saved[0].Body, walk.names["lunch"])
}

// The tour prints the requests of a step that fails with their whole answers, and all requests when
// it is verbose. It hides secrets.
func TestTheDemoPrintsTheRequestsOfAFailedStep(t *testing.T) {
	t.Parallel()
	long := `{"text":"` + strings.Repeat("long", 1000) + `"}`
	walk, out := newTestTour(t, answerInTurn(t, `404 `+long, `200 {"secret":"apk_1","id":"ws_1"}`))
	first := step{"Try", "it is $id", []call{{session, "POST /try", `{"password":"$password"}`, `{"id":"$id"}`}}}
	err := walk.visitStep(t.Context(), 1, first)
	require.ErrorIs(t, err, ErrDifference)
	require.ErrorContains(t, err, "step 1, Try: an answer differs: POST /try: answered 404 ")
	require.Equal(t, " 1. Try\n    POST /try {\"password\":\"(hidden)\"}\n    → 404 "+long+"\n", out.String())
	out.Reset()
	walk.verbose = true
	require.NoError(t, walk.visitStep(t.Context(), 2, first))
	require.Equal(t, " 2. Try: it is ws_1\n    POST /try {\"password\":\"(hidden)\"}\n"+
		"    → 200 {\"secret\":\"(hidden)\",\"id\":\"ws_1\"}\n", out.String())
}

// A condition that does not hold ends its step without an error. A poll ends with the expected
// answer. A repeat must have the first answer.
func TestTheWordsBeforeARequest(t *testing.T) {
	t.Parallel()
	calls := []call{{session, "until GET /", ``, `{"status":"done"}`}, {session, "if GET /", ``, `{"on":true}`},
		{session, "GET /", ``, `{"reached":true}`}}
	walk, _ := newTestTour(t, answerInTurn(t, `200 {"status":"open"}`, `200 {"status":"done"}`, `200 {"on":false}`))
	require.NoError(t, walk.visitStep(t.Context(), 1, step{"Off", "", calls}))
	walk, _ = newTestTour(t, answerInTurn(t, `200 {"status":"done"}`, `200 {"on":true}`, `200 {"reached":false}`))
	require.ErrorIs(t, walk.visitStep(t.Context(), 1, step{"On", "", calls}), ErrDifference)
	again := []call{{network, "POST /", `{}`, ``}, {request: "again"}}
	walk, _ = newTestTour(t, answerInTurn(t, `200 {"a":1,"asOf":"x"}`, `200 {"a":1,"asOf":"y"}`))
	require.NoError(t, walk.visitStep(t.Context(), 1, step{"Same", "", again}))
	walk, _ = newTestTour(t, answerInTurn(t, `200 {"a":1}`, `200 {"a":2}`))
	require.ErrorContains(t, walk.visitStep(t.Context(), 1, step{"Other", "", again}), `answered 200 {"a":2}, at first 200 {"a":1}`)
}

// A pattern names the members that an answer must have. A difference is told in words, and keeps no
// name.
func TestMatch(t *testing.T) {
	t.Parallel()
	walk := &tour{names: map[string]string{"known": "k"}}
	for _, c := range []struct{ want, got, difference string }{
		{`{"a":{"b":1},"gone":null}`, `{"a":{"b":1,"c":2}}`, ""},
		{`{"a":{"b":1}}`, `{"a":{"b":10}}`, "a.b is 10, expected 1"},
		{`{"a":"$known"}`, `{"a":"x"}`, `a is "x", expected "k"`},
		{`{"a":"$new","b":true}`, `{"a":"n","b":false}`, "b is false, expected true"},
		{`{"a":"$new"}`, `{"a":null}`, `a is null, expected "$new"`},
		{`{"rows":[{"id":"$row","state":"on"}]}`, `{"rows":[{"id":"1","state":"off"},{"id":"2","state":"on"}]}`, ""},
		{`{"rows":[{"id":"$row","state":"off"}]}`, `{"rows":[{"id":"1","state":"off"}]}`, `rows has no {"id":"2","state":"off"}`},
	} {
		before := maps.Clone(walk.names)
		err := walk.matchJSON("", decodeJSON(c.want), decodeJSON(c.got))
		if c.difference == "" {
			require.NoError(t, err, c.want)
			continue
		}
		require.ErrorContains(t, err, c.difference)
		require.Equal(t, before, walk.names)
	}
	require.Equal(t, "2", walk.names["row"])
}
