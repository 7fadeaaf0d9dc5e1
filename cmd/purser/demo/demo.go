// Package demo is `purser demo`: a tour through a running server that checks every answer. Files:
// demo.go (the command), steps.go (the table of steps), call.go (a request and its expected
// answer), names.go (values that calls make and keep).
package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"purser/cmd/purser/adminport"
	"purser/cmd/purser/apiclient"
	"purser/cmd/purser/datadir"
)

// Command walks through a running server as a customer and as the card network, and prints a line
// for each step. It prints the requests and answers of a step when it is verbose or the step fails.
// It shares no code with the server except the format of ids and the signature of agents.
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
	Verbose           bool   `name:"verbose" short:"v" help:"Print the requests and their whole answers below the line of their step, without secrets; of a poll the last."`
	Save              string `name:"save" xor:"file" help:"Keep requests and their answers in this file."`
	Check             string `name:"check" xor:"file" help:"Repeat the requests of this file and compare the answers. Makes nothing new."`
}

// ErrDifference reports that an answer differed from the expected one.
var ErrDifference = errors.New("an answer differs")

// Run walks through a running server, or with --check repeats the requests of a saved tour. A tour
// ends at the first answer that differs, with ErrDifference, and at a request without an answer.
func (d *Command) Run(out io.Writer) error {
	ctx := context.Background()
	secret, source, err := datadir.NetworkSecret(d.DataDir, d.NetworkSecret, d.NetworkSecretFile)
	if err != nil {
		return err
	}
	t := &tour{out: out, verbose: d.Verbose, clients: map[string]*apiclient.Client{
		session: apiclient.New(cmp.Or(d.URL, adminport.URL(d.HTTPAddr)), ""),
		network: apiclient.New(cmp.Or(d.AuthorizerURL, adminport.URL(d.AuthorizerAddr)), secret).
			WithCredential("the server does not know the card network's secret, the first in " + source +
				"; while it rotates, restart the server first"),
		admin: apiclient.New(cmp.Or(d.AdminURL, adminport.URL(d.AdminAddr)), ""),
	}}
	t.makeNames()
	if d.Check != "" {
		err = t.checkTour(ctx, d.Check)
	}
	for i := 0; i < len(steps) && err == nil && d.Check == ""; i++ {
		err = t.visitStep(ctx, i+1, steps[i])
	}
	if err == nil && d.Save != "" {
		err = t.saveTour(ctx, d.Save)
	}
	if err == nil {
		fmt.Fprintf(out, "\n%d answers checked, no difference\n", t.checked)
	}
	return err
}

// tour is the state of one run of the demo.
type tour struct {
	out     io.Writer
	verbose bool
	clients map[string]*apiclient.Client // by credential
	names   map[string]string            // values by name
	makers  map[string]func() string     // of names that have no value yet
	log     strings.Builder              // requests and answers of the current step
	last    exchange
	saved   []exchange // for --save
	checked int        // answers
}

// visitStep makes the calls of a step and prints its line.
func (t *tour) visitStep(ctx context.Context, number int, s step) (err error) {
	t.log.Reset()
	for i := 0; i < len(s.calls) && err == nil; i++ {
		err = t.makeCall(ctx, s.calls[i])
		if strings.HasPrefix(s.calls[i].request, "if ") && errors.Is(err, ErrDifference) {
			err = nil
			break
		}
	}
	if err != nil {
		fmt.Fprintf(t.out, "%2d. %s\n%s", number, s.title, t.log.String())
		return fmt.Errorf("step %d, %s: %w", number, s.title, err)
	}
	fmt.Fprintf(t.out, "%2d. %s: %s\n", number, s.title, t.fillNames(s.prints))
	if t.verbose {
		fmt.Fprint(t.out, t.log.String())
	}
	return nil
}

// savedTour is the file of --save. It holds an API key, so only its owner may read it.
type savedTour struct {
	APIKey string     `json:"apiKey"`
	Posts  []exchange `json:"posts"`
	Reads  []exchange `json:"reads"`
}

// savedReads are paths whose answers a restart must not change.
var savedReads = []string{"/api/treasury", "/api/cards", "/api/cards/$grocer", "/api/authorizations?limit=100",
	"/api/agents", "/api/v1/checkout/sessions/$link/status", "/api/ramp/orders", "/api/auth/keys", "/api/workspaces"}

// saveTour writes the saved calls and savedReads to a file. It fails when a read is refused or has
// no answer, and with the disk's error.
func (t *tour) saveTour(ctx context.Context, path string) error {
	s := savedTour{APIKey: t.names[key], Posts: t.saved}
	for _, read := range savedReads {
		if err := t.makeCall(ctx, call{key, "GET " + read, "", ""}); err != nil {
			return err
		}
		s.Reads = append(s.Reads, t.last)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "\n%d posts and %d reads kept in %s\n", len(s.Posts), len(s.Reads), path)
	return os.WriteFile(path, text, 0o600)
}

// checkTour repeats every request of a file. A repeated message or Idempotency-Key must get the
// first answer. The reads must be unchanged before and after the repeats. It prints the differences
// and fails with ErrDifference. It fails for a file that cannot be read, and when a request has no
// answer.
func (t *tour) checkTour(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s savedTour
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	t.clients[key] = apiclient.New(t.clients[session].BaseURL, s.APIKey).
		WithCredential("the server does not know the API key in " + path)
	differences := 0
	for _, group := range [][]exchange{s.Reads, s.Posts, s.Reads} {
		for _, e := range group {
			err := t.repeatExchange(ctx, e)
			if errors.Is(err, ErrDifference) {
				differences++
				fmt.Fprintln(t.out, err)
			} else if err != nil {
				return err
			}
		}
	}
	if differences > 0 {
		return fmt.Errorf("%w: %d of %d", ErrDifference, differences, t.checked)
	}
	return nil
}
