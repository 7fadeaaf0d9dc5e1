package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// DemoCmd walks through a running server as a customer and as the card network would, printing each request and its answer,
// and checks every one. It is a client over the wire and shares no code with the server but the form of an id.
type DemoCmd struct {
	URL               string `name:"url" env:"PURSER_DEMO_URL" default:"http://127.0.0.1:8080" help:"The REST server."`
	AuthorizerURL     string `name:"authorizer-url" env:"PURSER_DEMO_AUTHORIZER_URL" default:"http://127.0.0.1:8081" help:"The card network's server."`
	NetworkSecretFile string `name:"network-secret-file" default:"./data/network-secret" help:"Where the server keeps the card network's secret."`
	Save              string `name:"save" xor:"file" help:"Keep all that was told in this file."`
	Check             string `name:"check" xor:"file" help:"Ask again what this file keeps, and compare. Makes nothing new."`
}

// Limits of the demo. It stays well below 100 requests a minute per key.
const (
	settlePolls    = 40 // of settlePause each
	settlePause    = time.Second
	requestTimeout = 10 * time.Second
	maxAnswerBytes = 4 << 20
)

// errDiffers ends the demo when an answer was not the one that was expected; the lines above it say which.
var errDiffers = errors.New("the demo found a difference")

// Run walks the tour, or checks a saved one.
func (d *DemoCmd) Run(out io.Writer) error {
	ctx := context.Background()
	t, err := d.tour(out)
	if err != nil {
		return err
	}
	if d.Check != "" {
		return t.checkAgain(ctx, d.Check)
	}
	for i, stop := range stops {
		fmt.Fprintf(out, "\n%2d. %s\n", i+1, stop.title)
		if err := stop.visit(ctx, t); err != nil {
			return fmt.Errorf("stop %d, %s: %w", i+1, stop.title, err)
		}
	}
	if d.Save != "" {
		if err := t.save(ctx, d.Save); err != nil {
			return err
		}
	}
	return t.verdict()
}

func (d *DemoCmd) tour(out io.Writer) (*tour, error) {
	secret, err := os.ReadFile(d.NetworkSecretFile)
	if err != nil {
		return nil, fmt.Errorf("the card network's secret: %w (name its file with --network-secret-file)", err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(secret)), ",")
	run := strings.ToLower(rand.Text()[:10])
	return &tour{out: out, run: run, network: newClient(d.AuthorizerURL, first), session: newClient(d.URL, ""),
		api: newClient(d.URL, ""), cards: map[string]card{}}, nil
}

// tour is the state of one walk.
type tour struct {
	out                   io.Writer
	run                   string // makes ids of this walk its own
	session, api, network *client
	firstKey              string
	cards                 map[string]card
	told                  []exchange // what is asked again after a restart
	checks, differences   int
}

type card struct{ id, token string }

// stops of the tour, in order: each needs the ones before it.
var stops = []struct {
	title string
	visit func(context.Context, *tour) error
}{
	{"Sign up and make a workspace", visitSignup},
	{"Make an API key that can do what this tour needs", visitKeys},
	{"Announce a deposit; the bank reports it settled a little later", visitDeposit},
	{"A deposit that the bank reports twice counts once", visitDoubleReport},
	{"Mint three cards", visitCards},
	{"A swipe that fits every rule", visitApproved},
	{"One decline for each reason", visitDeclines},
	{"A partial approval takes what is there, and a reversal gives it back", visitPartial},
	{"The life of an authorization: increment, reversal, clearing, refund", visitLife},
	{"A simulated swipe whose hold runs out", visitExpiry},
	{"The books", visitBooks},
}

// expect notes one comparison and prints it when it fails.
func (t *tour) expect(what string, got, want any) {
	t.checks++
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.differences++
		fmt.Fprintf(t.out, "    DIFFERS: %s is %v, expected %v\n", what, got, want)
	}
}

func (t *tour) verdict() error {
	fmt.Fprintf(t.out, "\n%d checks, %d differences\n", t.checks, t.differences)
	if t.differences > 0 {
		return errDiffers
	}
	return nil
}

// call sends a request, prints both directions and expects the status.
func (t *tour) call(ctx context.Context, c *client, r request, status int) (answer, error) {
	a, err := c.send(ctx, r)
	if err != nil {
		return answer{}, err
	}
	fmt.Fprintf(t.out, "    %s %s %s\n    → %d %s\n", r.method, r.path, brief(r.body), a.status, brief(a.raw))
	t.expect("status of "+r.method+" "+r.path, a.status, status)
	return a, nil
}

// post is call for a POST whose answer must be the same when it is sent again.
func (t *tour) post(ctx context.Context, c *client, path string, body any, status int) (answer, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	r := request{method: "POST", path: path, body: raw}
	if c == t.api {
		r.idempotencyKey = newUUID()
	}
	a, err := t.call(ctx, c, r, status)
	if err == nil && c != t.session {
		t.told = append(t.told, exchange{Network: c == t.network, Method: r.method, Path: path, IdempotencyKey: r.idempotencyKey,
			Body: string(raw), Status: a.status, Answer: a.raw})
	}
	return a, err
}

// brief shortens a body for the eye and hides secrets.
func brief(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw[:min(len(raw), 200)])
	}
	line, err := json.Marshal(hide(v))
	if err != nil {
		return err.Error()
	}
	const most = 280
	if text := []rune(string(line)); len(text) > most {
		return string(text[:most]) + " …"
	}
	return string(line)
}

func hide(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for name, value := range object {
		switch name {
		case "secret", "password":
			object[name] = "(hidden)"
		default:
			object[name] = hide(value)
		}
	}
	return object
}
