package httpapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence/ident"
)

// worldRequests is the number of requests per fuzzed world, which bounds the memory of their
// records.
const worldRequests = 20_000

// lasting is the testing.TB of a world that outlives the fuzz call that created it.
type lasting struct{ testing.TB }

func (lasting) Helper()                           {}
func (lasting) Cleanup(func())                    {}
func (lasting) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (lasting) FailNow()                          { panic("FailNow") }

// fuzzWorld is a world with the placeholders that stand for its secrets and ids in fuzzed bytes.
type fuzzWorld struct {
	*world
	names *strings.Replacer
	seen  int
	heads [ident.Shards]uint64 // after the last request
}

func newFuzzWorld(t testing.TB) *fuzzWorld {
	w := newWorld(lasting{t}, func(c *Config) { c.Logger = slog.New(slog.DiscardHandler) })
	tn := w.newTenant("fuzz")
	w.fund(tn, 1_000_000_00)
	e := w.newEstate(tn)
	f := &fuzzWorld{world: w, names: strings.NewReplacer("{key}", tn.secret, "{cookie}", tn.cookie, "{card}",
		e.id("card"),
		"{auth}", e.id("authorization"), "{ws}", tn.workspace, "{message}", e.id("message"))}
	w.ok(w.get(tn.all, "/api/workspaces"))
	f.heads = w.settled()
	return f
}

// seeds returns a valid request of every operation, with placeholders for the world's secrets.
func seeds(t testing.TB) (heads, bodies []string) {
	for _, op := range describe(t).operations(t) {
		path := strings.NewReplacer("{id}", "{card}", "{userId}", "{user}").Replace(op.path)
		head := op.method + " " + path + " HTTP/1.1\r\nHost: purser.test\r\n"
		switch {
		case op.key:
			head += "Authorization: Bearer {key}\r\n"
		case op.session:
			head += "Cookie: " + sessionCookie + "={cookie}\r\nX-Workspace-Id: {ws}\r\n"
		}
		if op.takesParameter("Idempotency-Key") {
			head += "Idempotency-Key: 6f1f6ad4-6e0b-4c3e-9f6b-0d8b3d9e8a10\r\n"
		}
		body := ""
		if op.body != nil {
			text, err := json.Marshal(op.body)
			require.NoError(t, err)
			body = string(text)
			head += "Content-Type: application/json\r\n"
		}
		heads, bodies = append(heads, head), append(bodies, body)
	}
	return heads, bodies
}

// FuzzRequest sends whole requests as bytes. Every answer is a described one and never 500, and a
// refused request changes nothing.
func FuzzRequest(f *testing.F) {
	heads, bodies := seeds(f)
	for i := range heads {
		f.Add(heads[i], bodies[i], true)
	}
	const caller = " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}\r\n"
	f.Add("GET /api/cards?limit=1&cursor=AAAA"+caller+"\r\nGET /api/workspaces HTTP/1.0\r\n\r\n", "", false)
	f.Add("POST /api/cards"+caller+"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "", false)
	var w *fuzzWorld
	f.Fuzz(func(t *testing.T, head, body string, framed bool) {
		if w == nil || w.seen >= worldRequests {
			if w != nil {
				w.close()
			}
			w = newFuzzWorld(t)
		}
		w.seen++
		w.try(t, head, body, framed)
	})
	if w != nil {
		w.close()
	}
}

func (w *fuzzWorld) try(t *testing.T, head, body string, framed bool) {
	head, body = w.names.Replace(head), w.names.Replace(body)
	if framed && body != "" {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	if framed {
		head += "\r\n"
	}
	changed := false
	for _, resp := range answersTo(t, w.server, []byte(head+body)) {
		status := resp.StatusCode()
		require.NotEqual(t, 500, status, "%q %q: %s", head, body, resp.Body())
		if len(resp.Body()) > 0 { // a HEAD has none
			require.True(t, json.Valid(resp.Body()), "%q %q: %s", head, body, resp.Body())
		}
		// A simulated clearing, refund or reversal whose sync is late answers 503 although it is
		// applied: the card network repeats it.
		changed = changed || status < 400 || status == 503
	}
	if changed {
		w.heads = w.settled()
		return
	}
	if now := w.positions(); now != w.heads {
		require.Fail(t, "a refused request changed something", "%q %q", head, body)
	}
}
