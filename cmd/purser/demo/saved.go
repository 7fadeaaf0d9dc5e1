package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"purser/cmd/purser/apiclient"
)

// exchange is a request and what it was answered with.
type exchange struct {
	Network        bool            `json:"network"` // sent to the card network's port
	Method         string          `json:"method"`
	Path           string          `json:"path"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
	Body           string          `json:"body,omitempty"` // to the byte: an Idempotency-Key goes with one body
	Status         int             `json:"status"`
	Answer         json.RawMessage `json:"answer"`
}

// saved is the file of --save. It holds an API key: it is readable by its owner alone.
type saved struct {
	APIKey string     `json:"apiKey"`
	Posts  []exchange `json:"posts"`
	Reads  []exchange `json:"reads"`
}

// save keeps what was told, and reads once more what a restart must not change.
func (t *Tour) save(ctx context.Context, path string) error {
	s := saved{APIKey: t.API.Bearer, Posts: t.told}
	for _, path := range []string{"/api/treasury", "/api/cards", "/api/cards/" + t.cards["grocer"].id,
		"/api/authorizations?limit=100", "/api/agents", t.link + "/status", "/api/ramp/orders", "/api/auth/keys", "/api/workspaces"} {
		a, err := t.API.Send(ctx, apiclient.Request{Method: "GET", Path: path})
		if err != nil {
			return err
		}
		t.expect("status of GET "+path, a.Status, 200)
		s.Reads = append(s.Reads, exchange{Method: "GET", Path: path, Status: a.Status, Answer: a.Raw})
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Out, "\n%d posts and %d reads kept in %s\n", len(s.Posts), len(s.Reads), path)
	return os.WriteFile(path, text, 0o600)
}

// checkAgain sends every saved request once more. A repeated message or Idempotency-Key must get the first answer, and the
// reads must show what they showed, before the repeats and after them.
func (t *Tour) checkAgain(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	t.API = apiclient.New(t.Session.BaseURL, s.APIKey).WithCredential("the server does not know the API key in " + path)
	for _, group := range [][]exchange{s.Reads, s.Posts, s.Reads} {
		for _, e := range group {
			if err := t.again(ctx, e); err != nil {
				return err
			}
		}
	}
	return t.verdict()
}

func (t *Tour) again(ctx context.Context, e exchange) error {
	c := t.API
	if e.Network {
		c = t.network
	}
	r := apiclient.Request{Method: e.Method, Path: e.Path, IdempotencyKey: e.IdempotencyKey}
	if e.Body != "" {
		r.Body = []byte(e.Body)
	}
	a, err := t.send(ctx, c, r)
	if err != nil {
		return err
	}
	if t.verbose {
		fmt.Fprintf(t.Out, "    %s %s %s → %d\n", e.Method, e.Path, brief([]byte(e.Body)), a.Status)
	}
	t.expect("status of "+e.Method+" "+e.Path, a.Status, e.Status)
	t.expect("replayed", a.Replayed, e.IdempotencyKey != "")
	t.checks++
	if !sameJSON(a.Raw, e.Answer) {
		t.Differences++
		fmt.Fprintf(t.Out, "    DIFFERS: answered  %s\n             at first  %s\n", a.Raw, compact(e.Answer))
	}
	return nil
}

// sameJSON compares documents, leaving out the moments at which they were read.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(timeless(x), timeless(y))
}

func timeless(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = timeless(v[i])
		}
	case map[string]any:
		delete(v, "asOf")
		delete(v, "lastUsedAt")
		for name := range v {
			v[name] = timeless(v[name])
		}
	}
	return v
}

func compact(raw []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}
