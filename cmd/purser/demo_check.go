package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
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
func (t *tour) save(ctx context.Context, path string) error {
	s := saved{APIKey: t.api.bearer, Posts: t.told}
	for _, path := range []string{"/api/treasury", "/api/cards", "/api/cards/" + t.cards["grocer"].id,
		"/api/authorizations?limit=100", "/api/agents", t.link + "/status", "/api/ramp/orders", "/api/auth/keys", "/api/workspaces"} {
		a, err := t.api.send(ctx, request{method: "GET", path: path})
		if err != nil {
			return err
		}
		t.expect("status of GET "+path, a.status, 200)
		s.Reads = append(s.Reads, exchange{Method: "GET", Path: path, Status: a.status, Answer: a.raw})
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "\n%d posts and %d reads kept in %s\n", len(s.Posts), len(s.Reads), path)
	return os.WriteFile(path, text, 0o600)
}

// checkAgain sends every saved request once more. A repeated message or Idempotency-Key must get the first answer, and the
// reads must show what they showed, before the repeats and after them.
func (t *tour) checkAgain(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	t.api = newClient(t.session.base, s.APIKey).withCredential("the server does not know the API key in " + path)
	for _, group := range [][]exchange{s.Reads, s.Posts, s.Reads} {
		for _, e := range group {
			if err := t.again(ctx, e); err != nil {
				return err
			}
		}
	}
	return t.verdict()
}

func (t *tour) again(ctx context.Context, e exchange) error {
	c := t.api
	if e.Network {
		c = t.network
	}
	r := request{method: e.Method, path: e.Path, idempotencyKey: e.IdempotencyKey}
	if e.Body != "" {
		r.body = []byte(e.Body)
	}
	a, err := t.send(ctx, c, r)
	if err != nil {
		return err
	}
	if t.verbose {
		fmt.Fprintf(t.out, "    %s %s %s → %d\n", e.Method, e.Path, brief([]byte(e.Body)), a.status)
	}
	t.expect("status of "+e.Method+" "+e.Path, a.status, e.Status)
	t.expect("replayed", a.replayed, e.IdempotencyKey != "")
	t.checks++
	if !sameJSON(a.raw, e.Answer) {
		t.differences++
		fmt.Fprintf(t.out, "    DIFFERS: answered  %s\n             at first  %s\n", a.raw, compact(e.Answer))
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
