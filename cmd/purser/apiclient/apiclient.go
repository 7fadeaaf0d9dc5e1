// Package apiclient is an HTTP client of one of Purser's servers: REST, the card network's port or
// the admin port. It shares no request or answer types with the servers.
package apiclient

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
	"purser/persistence/retry"
)

// Client sends requests to one server with one credential: a bearer secret, or the session cookie
// that the server has set.
type Client struct {
	BaseURL, Bearer string
	HTTP            *http.Client
	// credential is the error text for a bearer secret that the server does not know: it names the
	// secret and the repair. When it is set, Send returns an error for the answer 401 unauthorized.
	credential string
}

// ErrRefusedSecret reports that the server does not know the client's secret.
var ErrRefusedSecret = errors.New("answered 401")

type Request struct {
	Method, Path, IdempotencyKey string
	Body                         []byte
}

type Answer struct {
	Status   int
	Raw      []byte
	Replayed bool
}

// New returns a client of the server at a base URL or unix:/path. It sends the bearer secret unless
// that is empty, and keeps cookies.
func New(base, bearer string) *Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic("BUG: a cookie jar without options fails: " + err.Error())
	}
	c := &Client{BaseURL: strings.TrimRight(base, "/"), Bearer: bearer, HTTP: &http.Client{Jar: jar, Timeout: requestTimeout}}
	if path, isUnix := adminport.SocketPath(base); isUnix {
		c.BaseURL, c.HTTP.Transport = "http://localhost", adminport.SocketTransport(path)
	}
	return c
}

// Send sends one request and reads the answer, of at most maxAnswerBytes. Any status is an answer.
// It fails when no answer comes, and with ErrRefusedSecret for a 401 to a credential that
// WithCredential describes.
func (c *Client) Send(ctx context.Context, r Request) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, c.BaseURL+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return Answer{}, err
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.Bearer)
	}
	if r.IdempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.IdempotencyKey)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("%w (%s)", err, whyUnanswered(err))
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Status: resp.StatusCode, Raw: raw, Replayed: resp.Header.Get("Idempotent-Replayed") == "true"}
	if c.credential != "" && a.Status == http.StatusUnauthorized && a.Text("error") == "unauthorized" {
		return Answer{}, fmt.Errorf("%s %s: %w: %s", r.Method, c.BaseURL+r.Path, ErrRefusedSecret, c.credential)
	}
	return a, nil
}

// closedIdle is the text of net/http's error for a connection that the server closed before the
// request was written. The package exports no value for it.
const closedIdle = "server closed idle connection"

// whyUnanswered returns a hint for a person whose request failed with err. For a connection
// closed before the answer it names the likely causes. For any other error it asks whether the
// server runs.
func whyUnanswered(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.HasSuffix(err.Error(), closedIdle) {
		return "the connection was closed without an answer: the server stops, or this address has caused too many " +
			"refused requests, whose connections a server closes for some seconds: PURSER_REFUSALS"
	}
	return "is the server running? make run starts one"
}

// WithCredential sets the error text of the credential and returns the client.
func (c *Client) WithCredential(credential string) *Client {
	c.credential = credential
	return c
}

// Limits of requests, and of retries of requests that a busy server did not decide.
const (
	DecidePause = 50 * time.Millisecond
	decidedSoon = time.Minute // after it no request is sent again
	roomPause   = time.Second // before a request that met a full server is sent again

	requestTimeout = 30 * time.Second
	maxAnswerBytes = 4 << 20
)

// SendUntilDecided sends a message of the card network until the answer is final, for decidedSoon
// at most. A busy server may answer with a timeout. A timeout that comes within hold.AnswerWithin
// is final: it is the stored answer of the same message. It fails when a request has no answer or
// ctx ends.
func (c *Client) SendUntilDecided(ctx context.Context, r Request) (a Answer, err error) {
	for first := time.Now(); ; {
		began := time.Now()
		a, err = c.Send(ctx, r)
		kept := !IsUndecided(a) || a.Text("reason") == "timeout" && time.Since(began) < hold.AnswerWithin
		if err != nil || kept || time.Since(first) > decidedSoon {
			return a, err
		}
		if !retry.Pause(ctx, DecidePause) {
			return Answer{}, ctx.Err()
		}
	}
}

// SendUntilRoom sends a request until the answer is not 503, for decidedSoon at most. A 503
// promises that nothing has changed. It fails when a request has no answer or ctx ends.
func (c *Client) SendUntilRoom(ctx context.Context, r Request) (Answer, error) {
	for first := time.Now(); ; {
		a, err := c.Send(ctx, r)
		if err != nil || a.Status != http.StatusServiceUnavailable || time.Since(first) > decidedSoon {
			return a, err
		}
		if !retry.Pause(ctx, roomPause) {
			return Answer{}, ctx.Err()
		}
	}
}

// IsUndecided reports whether an answer leaves the outcome open: a timeout, a full backlog, or a
// store that does not answer.
func IsUndecided(a Answer) bool {
	switch a.Text("reason") {
	case "timeout", "backlog_full", "system_unavailable":
		return true
	}
	return a.Status >= 500
}

// At returns the member of the answer at a path of field names, nil when there is none. Numbers are
// json.Number.
func (a Answer) At(path ...string) any {
	decoder := json.NewDecoder(bytes.NewReader(a.Raw))
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

// Text returns the string at a path, "" when At returns no string.
func (a Answer) Text(path ...string) string {
	s, _ := a.At(path...).(string)
	return s
}

// Rows returns the objects of the list at a path, nil when At returns no list.
func (a Answer) Rows(path ...string) []map[string]any {
	list, _ := a.At(path...).([]any)
	var rows []map[string]any
	for _, item := range list {
		if row, ok := item.(map[string]any); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// DollarBalance is the usd entry of the treasury's balances.
func DollarBalance(a Answer) map[string]any {
	for _, row := range a.Rows("balances") {
		if row["account"] == "usd" {
			return row
		}
	}
	return nil
}

// NewIdempotencyKey makes a random UUID (version 4) for an Idempotency-Key.
func NewIdempotencyKey() string {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("BUG: crypto/rand fails: " + err.Error())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
