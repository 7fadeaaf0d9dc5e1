package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"syscall"
	"time"

	"purser/authorizer/hold"
	"purser/cmd/purser/adminport"
)

// client speaks to one of the servers with one credential: a bearer secret, or the session cookie it was given.
type client struct {
	base, bearer string
	http         *http.Client
	// credential is the error text for a bearer secret that the server does not know: it names the
	// secret and the repair. With it send returns an error for the answer 401 unauthorized; without
	// it that answer is one like any other.
	credential string
}

// errRefusedSecret: the server does not know a secret.
var errRefusedSecret = errors.New("answered 401")

type request struct {
	method, path, idempotencyKey string
	body                         []byte
}

type answer struct {
	status   int
	raw      []byte
	replayed bool
}

func newClient(base, bearer string) *client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic("BUG: a cookie jar without options fails: " + err.Error())
	}
	c := &client{base: strings.TrimRight(base, "/"), bearer: bearer, http: &http.Client{Jar: jar, Timeout: requestTimeout}}
	if path, isUnix := adminport.SocketPath(base); isUnix {
		c.base, c.http.Transport = "http://localhost", adminport.SocketTransport(path)
	}
	return c
}

func (c *client) send(ctx context.Context, r request) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	if r.idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.idempotencyKey)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("%w (%s)", err, whyUnanswered(err))
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, raw: raw, replayed: resp.Header.Get("Idempotent-Replayed") == "true"}
	if c.credential != "" && a.status == http.StatusUnauthorized && a.text("error") == "unauthorized" {
		return answer{}, fmt.Errorf("%s %s: %w: %s", r.method, c.base+r.path, errRefusedSecret, c.credential)
	}
	return a, nil
}

// whyUnanswered says what to look at after a request without an answer.
func whyUnanswered(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return "the connection was closed without an answer: the server stops, or this address has caused too many " +
			"refused requests, whose connections a server closes for some seconds: PURSER_REFUSALS"
	}
	return "is the server running? make run starts one"
}

// withCredential sets the error text of the credential and returns the client.
func (c *client) withCredential(credential string) *client {
	c.credential = credential
	return c
}

// How a message of the card network is asked for again that was not decided in time.
const (
	decidePause = 50 * time.Millisecond
	decidedSoon = time.Minute // at last, by any machine that works at all
)

// decided sends a message of the card network until it has an answer that is kept. A busy machine may not come to it in time, and
// says so. A timeout that comes at once is kept: it is what the message was answered with before.
func (c *client) decided(ctx context.Context, r request) (a answer, err error) {
	for first := time.Now(); ; {
		began := time.Now()
		a, err = c.send(ctx, r)
		kept := !undecided(a) || a.text("reason") == "timeout" && time.Since(began) < hold.AnswerWithin
		if err != nil || kept || time.Since(first) > decidedSoon {
			return a, err
		}
		if err := pause(ctx, decidePause); err != nil {
			return answer{}, err
		}
	}
}

// patiently sends a person's request until the server has room for it: a 503 says that nothing has
// changed, as when a busy machine does not come to a sign-up's password. It gives up after decidedSoon.
func (c *client) patiently(ctx context.Context, r request) (answer, error) {
	for first := time.Now(); ; {
		a, err := c.send(ctx, r)
		if err != nil || a.status != http.StatusServiceUnavailable || time.Since(first) > decidedSoon {
			return a, err
		}
		if err := pause(ctx, longestPause); err != nil {
			return answer{}, err
		}
	}
}

// undecided tells the answers that promise nothing: a timeout, a full backlog, a store that does not answer.
func undecided(a answer) bool {
	switch a.text("reason") {
	case "timeout", "backlog_full", "system_unavailable":
		return true
	}
	return a.status >= 500
}

// at walks into the answer by field names; nil when there is nothing there. Numbers are json.Number.
func (a answer) at(path ...string) any {
	decoder := json.NewDecoder(bytes.NewReader(a.raw))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil
	}
	for _, name := range path {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}

// text is at for a string, "" when there is none.
func (a answer) text(path ...string) string {
	s, _ := a.at(path...).(string)
	return s
}

// rows is at for a list of objects.
func (a answer) rows(path ...string) []map[string]any {
	list, _ := a.at(path...).([]any)
	var rows []map[string]any
	for _, item := range list {
		if row, ok := item.(map[string]any); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// newUUID makes a random UUID (version 4) for an Idempotency-Key.
func newUUID() string {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("BUG: crypto/rand fails: " + err.Error())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// pause waits between two questions, or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
