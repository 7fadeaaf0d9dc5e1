package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"purser/cmd/purser/apiclient"
	"purser/persistence/retry"
)

// call is a request and the answer that the tour expects. Both may have names, as $name; $answer is
// the text of the previous answer.
type call struct {
	credential string
	// request is a method and a path. A word may precede them. once: the server keeps the answer
	// under an Idempotency-Key, and --check repeats the request. until: polls for the expected
	// answer. if: another answer ends the step. The word "again" alone repeats the previous
	// request.
	request string
	body    string
	// answer is the expected status, 200 if left out, and JSON whose members the answer must have.
	// An element of a list must be in the answer's list. null stands for an absent member too. A
	// string "$name" that has no value is kept from the answer. Text that is not JSON must be in
	// the answer.
	answer string
}

// Credentials of calls. The API keys are names; firstKey can make keys and nothing else. The
// network has the card network's secret, on its port, and admin none, on the admin port.
const session, firstKey, key, network, admin = "session", "firstKey", "key", "network", "admin"

var messageID, isTimeout = regexp.MustCompile(`^\{"id":"\$([A-Za-z]+)"`), regexp.MustCompile(`"reason":"timeout"`)

// Limits of polls, about a minute, and of requests over a rate limit.
const maxPolls, firstPause, longestPause = 60, 50 * time.Millisecond, time.Second

// makeCall makes a call and compares its answer. It fails with ErrDifference, and for a request
// without an answer.
func (t *tour) makeCall(ctx context.Context, c call) error {
	if c.request == "again" {
		return t.repeatExchange(ctx, t.last)
	}
	words := strings.Fields(c.request)
	method, path := words[len(words)-2], words[len(words)-1]
	e := exchange{Credential: c.credential, Method: method, Path: t.fillNames(path), Body: t.fillNames(c.body)}
	if method == "POST" && c.credential != network {
		e.IdempotencyKey = apiclient.NewIdempotencyKey() // a route that keeps no answers ignores it
	}
	for polls, pause := 1, firstPause; ; polls, pause = polls+1, min(4*pause, longestPause) {
		if _, err := t.sendExchange(ctx, &e); err != nil {
			return err
		}
		if id := messageID.FindStringSubmatch(c.body); id != nil && polls < maxPolls && isTimeout.Match(e.Answer) {
			t.names[id[1]] = fmt.Sprintf("%s-%s-%d", t.names["run"], id[1], polls) // the message stays timed out
			e.Body = t.fillNames(c.body)
			continue
		}
		difference := t.compareAnswer(c, e)
		if difference == nil || words[0] != "until" || polls == maxPolls {
			t.noteExchange(e)
			if words[0] == "once" || c.credential == network {
				t.saved = append(t.saved, e)
			}
			return difference
		}
		if !retry.Pause(ctx, pause) {
			return ctx.Err()
		}
	}
}

// sendExchange sends the request of an exchange and sets its answer. It repeats a request that is
// over a rate limit or that the server has no room for, and one of the card network until it is
// decided. It fails when a request has no answer.
func (t *tour) sendExchange(ctx context.Context, e *exchange) (a apiclient.Answer, err error) {
	c := t.clients[e.Credential]
	if c == nil { // of an API key
		c = apiclient.New(t.clients[session].BaseURL, t.names[e.Credential])
		t.clients[e.Credential] = c
	}
	r := apiclient.Request{Method: e.Method, Path: e.Path, IdempotencyKey: e.IdempotencyKey}
	if e.Body != "" {
		r.Body = []byte(e.Body)
	}
	for range maxPolls {
		if e.Credential == network {
			a, err = c.SendUntilDecided(ctx, r)
		} else {
			a, err = c.SendUntilRoom(ctx, r)
		}
		if err != nil || a.Status != http.StatusTooManyRequests || !retry.Pause(ctx, longestPause) {
			break
		}
	}
	e.Status, e.Answer = a.Status, a.Raw
	return a, err
}

// noteExchange counts an exchange, writes it to the log of the step, and makes it the previous one.
func (t *tour) noteExchange(e exchange) {
	t.checked++
	t.last, t.names["answer"] = e, string(e.Answer)
	fmt.Fprintf(&t.log, "    %s %s %s\n", e.Method, e.Path, printable(e.Body))
	fmt.Fprintf(&t.log, "    → %d %s\n", e.Status, printable(string(e.Answer)))
}

var secretMember = regexp.MustCompile(`"(secret|password)":"[^"]*"`)

// printable returns a body without its secrets.
func printable(body string) string {
	return secretMember.ReplaceAllString(body, `"$1":"(hidden)"`)
}

// compareAnswer compares an answer with the expected one, and keeps names from it. It fails with
// ErrDifference.
func (t *tour) compareAnswer(c call, e exchange) error {
	status, text := 200, strings.TrimLeft(c.answer, "0123456789 ")
	_, _ = fmt.Sscan(c.answer, &status) // without a number it stays 200
	if e.Status != status {
		return e.differs("answered %d %s, expected %d", e.Status, printable(string(e.Answer)), status)
	}
	if want := decodeJSON(text); want != nil {
		if err := t.matchJSON("", want, decodeJSON(string(e.Answer))); err != nil {
			return e.differs("%w", err)
		}
	} else if !strings.Contains(string(e.Answer), text) {
		return e.differs("the answer does not have the text %q", text)
	}
	return nil
}

// exchange is a request with its answer.
type exchange struct {
	Credential     string          `json:"credential"` // key or network, of a saved request
	Method         string          `json:"method"`
	Path           string          `json:"path"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
	Body           string          `json:"body,omitempty"` // to the byte: an Idempotency-Key goes with one body
	Status         int             `json:"status"`
	Answer         json.RawMessage `json:"answer"`
}

// differs returns an ErrDifference that names the request.
func (e exchange) differs(format string, values ...any) error {
	return fmt.Errorf("%w: %s %s: %w", ErrDifference, e.Method, e.Path, fmt.Errorf(format, values...))
}

// repeatExchange sends a request again and expects the same answer. It fails with ErrDifference,
// and when the request has no answer.
func (t *tour) repeatExchange(ctx context.Context, first exchange) error {
	e := first
	a, err := t.sendExchange(ctx, &e)
	if err != nil {
		return err
	}
	t.noteExchange(e)
	if e.Status != first.Status || !reflect.DeepEqual(stateOf(e.Answer), stateOf(first.Answer)) {
		return e.differs("answered %d %s, at first %d %s", e.Status, e.Answer, first.Status, first.Answer)
	}
	if kept := e.IdempotencyKey != ""; a.Replayed != kept {
		return e.differs("Idempotent-Replayed is %t, expected %t", a.Replayed, kept)
	}
	return nil
}

var readTime = regexp.MustCompile(`"(asOf|lastUsedAt)":\s*("[^"]*"|null)`)

// stateOf returns an answer's JSON without the times "asOf" and "lastUsedAt", which differ between
// two reads of the same state.
func stateOf(answer []byte) any {
	return decodeJSON(readTime.ReplaceAllString(string(answer), `"$1":null`))
}
