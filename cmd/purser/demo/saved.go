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

// savedExchange is a request with its answer.
type savedExchange struct {
	Network        bool            `json:"network"` // sent to the card network's port
	Method         string          `json:"method"`
	Path           string          `json:"path"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
	Body           string          `json:"body,omitempty"` // to the byte: an Idempotency-Key goes with one body
	Status         int             `json:"status"`
	Answer         json.RawMessage `json:"answer"`
}

// savedTour is the file of --save. It holds an API key, so only its owner may read it.
type savedTour struct {
	APIKey string          `json:"apiKey"`
	Posts  []savedExchange `json:"posts"`
	Reads  []savedExchange `json:"reads"`
}

// save writes the recorded exchanges and reads of state that a restart must not change, for `purser
// demo --check`. It fails when a read has no answer, and with the disk's error.
func (t *Tour) save(ctx context.Context, path string) error {
	s := savedTour{APIKey: t.API.Bearer, Posts: t.told}
	for _, path := range []string{"/api/treasury", "/api/cards", "/api/cards/" + t.cards["grocer"].id,
		"/api/authorizations?limit=100", "/api/agents", t.link + "/status", "/api/ramp/orders", "/api/auth/keys", "/api/workspaces"} {
		a, err := t.API.Send(ctx, apiclient.Request{Method: "GET", Path: path})
		if err != nil {
			return err
		}
		t.expect("status of GET "+path, a.Status, 200)
		s.Reads = append(s.Reads, savedExchange{Method: "GET", Path: path, Status: a.Status, Answer: a.Raw})
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Out, "\n%d posts and %d reads kept in %s\n", len(s.Posts), len(s.Reads), path)
	return os.WriteFile(path, text, 0o600)
}

// checkAgain repeats every saved request. A repeated message or Idempotency-Key must get the first
// answer. The reads must be unchanged before and after the repeats. It fails with ErrDifference
// otherwise, for a file that cannot be read, and when a request has no answer.
func (t *Tour) checkAgain(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s savedTour
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	t.API = apiclient.New(t.Session.BaseURL, s.APIKey).WithCredential("the server does not know the API key in " + path)
	for _, group := range [][]savedExchange{s.Reads, s.Posts, s.Reads} {
		for _, e := range group {
			if err := t.repeat(ctx, e); err != nil {
				return err
			}
		}
	}
	return t.summarize()
}

// repeat sends a saved request again. An answer other than the saved one is a difference; an error
// is a request without an answer.
func (t *Tour) repeat(ctx context.Context, e savedExchange) error {
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
		fmt.Fprintf(t.Out, "    %s %s %s → %d\n", e.Method, e.Path, shortJSON([]byte(e.Body)), a.Status)
	}
	t.expect("status of "+e.Method+" "+e.Path, a.Status, e.Status)
	t.expect("replayed", a.Replayed, e.IdempotencyKey != "")
	t.checks++
	if !sameJSON(a.Raw, e.Answer) {
		t.Differences++
		fmt.Fprintf(t.Out, "    DIFFERS: answered  %s\n             at first  %s\n", a.Raw, compactJSON(e.Answer))
	}
	return nil
}

// sameJSON compares documents without the times at which they were read.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(withoutReadTimes(x), withoutReadTimes(y))
}

// withoutReadTimes removes the members "asOf" and "lastUsedAt" from decoded JSON, at any depth,
// because they differ between two reads of the same state. It changes v. sameJSON calls it.
func withoutReadTimes(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutReadTimes(v[i])
		}
	case map[string]any:
		delete(v, "asOf")
		delete(v, "lastUsedAt")
		for name := range v {
			v[name] = withoutReadTimes(v[name])
		}
	}
	return v
}

func compactJSON(raw []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}
