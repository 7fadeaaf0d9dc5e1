// Package demo is `purser demo`: a tour through a running server that checks every answer. Files:
// demo.go (the tour and its stops), stops.go (cards and swipes), agents.go, checkout.go, ramp.go,
// currencies.go (the stops of these products), saved.go (--save and --check).
package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"purser/cmd/purser/adminport"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
	"purser/persistence/retry"
)

// Command walks through a running server as a customer and as the card network, and checks every
// answer. It prints a line per stop. It prints requests with their answers when it is verbose or
// when the stop has found a difference. It shares no code with the server except the format of ids
// and the signature of agents.
type Command struct {
	URL               string `name:"url" env:"PURSER_DEMO_URL" help:"The REST server; http:// and its address when unset."`
	AuthorizerURL     string `name:"authorizer-url" env:"PURSER_DEMO_AUTHORIZER_URL" help:"The card network's server; http:// and its address when unset."`
	AdminURL          string `name:"admin-url" env:"PURSER_DEMO_ADMIN_URL" help:"The admin port, which pays on the sandbox chain; http:// and its address when unset."`
	NetworkSecretFile string `name:"network-secret-file" help:"Where the server keeps the card network's secret; network-secret in the data directory when unset."`
	HTTPAddr          string `name:"http-addr" env:"PURSER_HTTP_ADDR" default:"127.0.0.1:8080" help:"REST address of the server."`
	AuthorizerAddr    string `name:"authorizer-addr" env:"PURSER_AUTHORIZER_ADDR" default:"127.0.0.1:8081" help:"Card network address of the server."`
	AdminAddr         string `name:"admin-addr" env:"PURSER_ADMIN_ADDR" default:"127.0.0.1:8082" help:"Admin address of the server."`
	DataDir           string `name:"data-dir" env:"PURSER_DATA_DIR" default:"./data" help:"Data directory of the server."`
	NetworkSecret     string `name:"network-secret" env:"PURSER_NETWORK_SECRET" secret:"" help:"The card network's secret, when the server was given one; two with a comma while rotating."`
	Verbose           bool   `name:"verbose" short:"v" help:"Print every request and its answer, not one line a step."`
	Save              string `name:"save" xor:"file" help:"Keep all that was told in this file."`
	Check             string `name:"check" xor:"file" help:"Ask again what this file keeps, and compare. Makes nothing new."`
}

// Limits of the demo. It stays well below 100 requests a minute per key.
const (
	settlePolls  = 60                    // polls of a path whose answer changes later: about a minute
	firstPause   = 50 * time.Millisecond // after the first poll
	pauseGrowth  = 3
	longestPause = time.Second
	maxRetries   = 20       // new swipes in place of one that timed out
	retryMark    = "-anew-" // precedes the number of a new swipe in its id
)

// ErrDifference reports that an answer differed from the expected one. The output names it.
var ErrDifference = errors.New("the demo found a difference")

// Run is `purser demo`: it walks through a running server and checks every answer, or with --check
// repeats the requests of a saved tour. It fails with ErrDifference when an answer differs, and
// when a request has no answer.
func (d *Command) Run(out io.Writer) error {
	ctx := context.Background()
	t, err := d.newTour(out)
	if err != nil {
		return err
	}
	if d.Check != "" {
		return t.checkAgain(ctx, d.Check)
	}
	for i := range stops {
		if err := t.visitStop(ctx, i); err != nil {
			return err
		}
	}
	if d.Save != "" {
		if err := t.save(ctx, d.Save); err != nil {
			return err
		}
	}
	return t.summarize()
}

// visitStop runs one stop of the tour. Unless the tour is verbose it prints a line, and the
// requests only of a stop that failed or found a difference.
func (t *Tour) visitStop(ctx context.Context, i int) error {
	stop, out := stops[i], t.Out
	t.remark = ""
	if t.verbose {
		fmt.Fprintf(out, "\n%2d. %s\n", i+1, stop.title)
		return t.stopError(i, stop.visit(ctx, t))
	}
	var requests bytes.Buffer
	checks, differences := t.checks, t.Differences
	t.Out = &requests
	err := stop.visit(ctx, t)
	t.Out = out
	line := fmt.Sprintf("%2d. %s: %d checks", i+1, stop.title, t.checks-checks)
	if t.remark != "" {
		line += ", " + t.remark
	}
	fmt.Fprintln(out, line)
	if err != nil && !errors.Is(err, apiclient.ErrRefusedSecret) || t.Differences > differences {
		_, _ = requests.WriteTo(out) // a failed write of a command's output is not reported
	}
	return t.stopError(i, err)
}

// stopError names the stop at which the tour ends.
func (t *Tour) stopError(i int, err error) error {
	if err != nil {
		return fmt.Errorf("stop %d, %s: %w", i+1, stops[i].title, err)
	}
	return nil
}

// newTour makes the clients of a tour. It fails when the card network's secret cannot be read.
func (d *Command) newTour(out io.Writer) (*Tour, error) {
	secret, source, err := datadir.NetworkSecret(d.DataDir, d.NetworkSecret, d.NetworkSecretFile)
	if err != nil {
		return nil, err
	}
	rest, network, admin := d.URL, d.AuthorizerURL, d.AdminURL
	if rest == "" {
		rest = adminport.URL(d.HTTPAddr)
	}
	if network == "" {
		network = adminport.URL(d.AuthorizerAddr)
	}
	if admin == "" {
		admin = adminport.URL(d.AdminAddr)
	}
	run := strings.ToLower(rand.Text()[:10])
	return &Tour{Out: out, verbose: d.Verbose, run: run, anew: map[string]string{},
		network: apiclient.New(network, secret).WithCredential("the server does not know the card network's secret, " +
			"the first in " + source + "; while it rotates, restart the server first"),
		Session: apiclient.New(rest, "").WithCredential("the server does not know the session that the sign-up has made"),
		API:     apiclient.New(rest, ""), admin: apiclient.New(admin, ""), cards: map[string]card{}}, nil
}

// Tour is the state of one run of the demo. Tests use its exported fields and methods.
type Tour struct {
	Out                          io.Writer
	run                          string            // part of every id of this run
	anew                         map[string]string // id of the retry, by the id of the timed-out swipe
	Session, API, network, admin *apiclient.Client
	firstKey                     string
	cards                        map[string]card
	link                         string          // the path of the payment link
	remark                       string          // printed behind the line of the current stop
	told                         []savedExchange // sent again by --check
	checks, Differences          int
	verbose                      bool // every request is printed
}

type card struct{ id, token string }

// stops are the stops of the tour, in order. A stop needs those before it.
var stops = []struct {
	title string
	visit func(context.Context, *Tour) error
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
	{"An AI agent signs what it means to pay; a replay and a forgery are refused", visitAgent},
	{"A payment link that is paid on the sandbox chain", visitCheckout},
	{"Dollars into USDC and back, and USDC to a wallet whose key answers for it", visitRamp},
	{"Balances in euros and yen, money from abroad, and a conversion where it is switched on", visitCurrencies},
	{"The same reads for a model: the Model Context Protocol", visitMCP},
	{"The books", visitBooks},
}

// expect counts a comparison and prints it when it fails.
func (t *Tour) expect(what string, got, want any) {
	t.checks++
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Differences++
		fmt.Fprintf(t.Out, "    DIFFERS: %s is %v, expected %v\n", what, got, want)
	}
}

func (t *Tour) summarize() error {
	fmt.Fprintf(t.Out, "\n%d checks, %d differences\n", t.checks, t.Differences)
	if t.Differences > 0 {
		return ErrDifference
	}
	return nil
}

// send sends a request. It repeats a request of the card network until it is decided, and one of
// the session until the server has room. The error is a request without an answer.
func (t *Tour) send(ctx context.Context, c *apiclient.Client, r apiclient.Request) (apiclient.Answer, error) {
	switch c {
	case t.network:
		return c.SendUntilDecided(ctx, r)
	case t.Session:
		return c.SendUntilRoom(ctx, r)
	}
	return c.Send(ctx, r)
}

// callExpecting sends a request, prints both directions and expects the status. Another status is a
// difference; an error is a request without an answer.
func (t *Tour) callExpecting(ctx context.Context, c *apiclient.Client, r apiclient.Request, status int) (apiclient.Answer, error) {
	a, err := t.send(ctx, c, r)
	if err != nil {
		return apiclient.Answer{}, err
	}
	fmt.Fprintf(t.Out, "    %s %s %s\n    → %d %s\n", r.Method, r.Path, shortJSON(r.Body), a.Status, shortJSON(a.Raw))
	t.expect("status of "+r.Method+" "+r.Path, a.Status, status)
	return a, nil
}

// Post is callExpecting for a POST whose answer must be the same when it is sent again. It records
// the exchange for --save.
func (t *Tour) Post(ctx context.Context, c *apiclient.Client, path string, body any, status int) (apiclient.Answer, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return apiclient.Answer{}, err
	}
	r := apiclient.Request{Method: "POST", Path: path, Body: raw}
	if c == t.API {
		r.IdempotencyKey = apiclient.NewIdempotencyKey()
	}
	a, err := t.callExpecting(ctx, c, r, status)
	if err == nil && (c == t.API || c == t.network && !apiclient.IsUndecided(a)) {
		t.told = append(t.told, savedExchange{Network: c == t.network, Method: r.Method, Path: path, IdempotencyKey: r.IdempotencyKey,
			Body: string(raw), Status: a.Status, Answer: a.Raw})
	}
	return a, err
}

// AwaitValue polls a path until read returns want for its answer. A value that differs after
// settlePolls polls is a difference of the tour. An error is a request without an answer, or the
// end of ctx.
func (t *Tour) AwaitValue(ctx context.Context, c *apiclient.Client, path, want string, read func(apiclient.Answer) string) error {
	got := ""
	last, err := t.pollUntil(ctx, c, path, func(a apiclient.Answer) bool {
		got = read(a)
		return got == want
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Out, "    %s: GET %s → %s\n", got, path, shortJSON(last.Raw))
	t.expect("what GET "+path+" shows", got, want)
	return nil
}

// pollUntil reads a path until holds accepts the answer, settlePolls times at most, and returns the
// last answer. The pauses grow from firstPause to longestPause. It fails when a request has no
// answer or ctx ends.
func (t *Tour) pollUntil(ctx context.Context, c *apiclient.Client, path string, holds func(apiclient.Answer) bool) (a apiclient.Answer, err error) {
	wait := firstPause
	for range settlePolls {
		if a, err = c.Send(ctx, apiclient.Request{Method: "GET", Path: path}); err != nil || holds(a) {
			return a, err
		}
		if !retry.Pause(ctx, wait) {
			return apiclient.Answer{}, ctx.Err()
		}
		wait = min(wait*pauseGrowth, longestPause)
	}
	return a, nil
}

// mustPost is Post for a request that all later stops need: a refusal ends the tour with the
// server's text.
func (t *Tour) mustPost(ctx context.Context, c *apiclient.Client, path string, body any) (apiclient.Answer, error) {
	a, err := t.Post(ctx, c, path, body, 200)
	if err == nil && a.Status != 200 {
		err = fmt.Errorf("the server as it is set does not let the demo go on: %d %s", a.Status, shortJSON(a.Raw))
	}
	return a, err
}

// shortJSON shortens a body for the eye and hides secrets.
func shortJSON(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw[:min(len(raw), 200)])
	}
	line, err := json.Marshal(hideSecrets(v))
	if err != nil {
		return err.Error()
	}
	const most = 280
	if text := []rune(string(line)); len(text) > most {
		return string(text[:most]) + " …"
	}
	return string(line)
}

// hideSecrets replaces the members "secret" and "password" of decoded JSON by "(hidden)", at any
// depth of objects. It changes v. shortJSON calls it before the tour prints an answer.
func hideSecrets(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for name, value := range object {
		switch name {
		case "secret", "password":
			object[name] = "(hidden)"
		default:
			object[name] = hideSecrets(value)
		}
	}
	return object
}
