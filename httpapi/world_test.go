package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/checkout"
	"purser/actors/checkout/address"
	"purser/actors/partner"
	"purser/actors/partner/sandbox"
	"purser/actors/processes"
	"purser/actors/reports"
	"purser/actors/seal"
	"purser/actors/workspace"
	"purser/authorizer"
	"purser/authorizer/network"
	"purser/httpapi/password"
	"purser/httpapi/webhook"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pebblejournal"
)

const (
	testSecret        = "partner-secret"
	testNetworkSecret = "network-secret"
	// the accounts of a published seed
	testXpub = "xpub6DCoCpSuQZB2jawqnGMEPS63ePKWkwWPH4TU45Q7LPXWuNd8TMtVxRrgjtEshuqpK3mdhaWHPFsBngh5GFZaM6si3yZdUsT8ddYM3PwnATt"
	testZpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"
)

// world is the product behind its REST interface: real actors over the embedded journal and the
// real authorizer, with a file system in memory and a clock that only tests turn.
type world struct {
	t       testing.TB
	clock   *testClock
	system  *processes.Product
	engine  *authorizer.Engine
	actors  *hooked
	server  *Server
	client  *fasthttp.HostClient
	listen  *fasthttputil.InmemoryListener
	checked *description
	journal persistence.Journal
	chains  *sandbox.Chains
	ramp    *quietRamp
	mails   mailbox
	people  int // users of person
	n       int // a number for unique names
	close   func()
}

// testClock is the wall clock and the monotonic clock of a machine.
type testClock struct {
	mu     sync.Mutex
	at     time.Time
	passed time.Duration
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) turn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.passed = c.at.Add(d), c.passed+d
}

// step changes the wall clock alone.
func (c *testClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (c *testClock) elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passed
}

// hooked lets a test intercept calls of the interface to the actors.
type hooked struct {
	Actors
	mu  sync.Mutex
	ask func(ctx context.Context, e actors.Envelope) (any, error)
	// refuseMint may be set only while no request runs.
	refuseMint func() error
	awaited    []string // workspaces whose relay a request awaited
	acquires   atomic.Int64
	// firmRate, which may be set only while no request runs, is called before the desk is asked.
	firmRate func()
}

func (h *hooked) Ask(ctx context.Context, e actors.Envelope) (any, error) {
	h.mu.Lock()
	ask := h.ask
	h.mu.Unlock()
	if ask == nil {
		ask = h.Actors.Ask
	}
	return ask(ctx, e)
}

func (h *hooked) hook(ask func(ctx context.Context, e actors.Envelope) (any, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ask = ask
}

// silentBank accepts every order and reports nothing: the tests report. An inquiry finds no order.
type silentBank struct{}

// descriptionLost is the description of a payout that never reaches the silent bank.
const descriptionLost = "lost on the way"

func (silentBank) Expect(context.Context, partner.Deposit) error { return nil }

func (silentBank) Tokenize(_ context.Context, a partner.Account) (string, error) {
	return "bat_" + a.Reference, nil
}

func (silentBank) Pay(_ context.Context, p partner.Payment) error {
	if p.Description == descriptionLost {
		return context.DeadlineExceeded
	}
	return nil
}

func (silentBank) Standing(context.Context, string) (partner.Standing, error) {
	return "", partner.ErrUnknown
}

// testNetwork posts to the authorizer's real port.
type testNetwork struct {
	engine *authorizer.Engine
	client *fasthttp.HostClient
}

func (n *testNetwork) Submit(_ context.Context, route string, body []byte) (int, []byte, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://network/v1/" + route)
	req.Header.SetMethod("POST")
	req.Header.Set("Authorization", "Bearer "+testNetworkSecret)
	req.SetBody(body)
	if err := n.client.Do(req, resp); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode(), append([]byte{}, resp.Body()...), nil
}

func (n *testNetwork) FindAuthorization(networkID string) (ident.UUID, bool, error) {
	return n.engine.FindAuthorization(networkID)
}

func (n *testNetwork) Expire(_ context.Context, id ident.UUID) error {
	return n.engine.ExpireHold(id)
}

func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, clock: &testClock{at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}, checked: describe(t),
		ramp: new(quietRamp)}
	fs, deployment := vfs.NewMem(), ident.Derive(0, time.UnixMilli(1), "tests of the interface")
	fatal := func(err error) { t.Errorf("fatal: %v", err) }
	journal, err := pebblejournal.Open(pebblejournal.Options{FS: fs, Dir: "journal", Deployment: deployment,
		Clock: w.clock.now, Entropy: rand.Reader, SegmentBytes: 1 << 20, Fatal: fatal})
	require.NoError(t, err)
	w.journal = journal
	w.engine, err = authorizer.Open(authorizer.Options{FS: fs, Dir: "authorizer", Deployment: deployment,
		Clock:   w.clock.now,
		Entropy: rand.Reader, CacheBytes: 8 << 20, Fatal: fatal, Deadline: never})
	require.NoError(t, err)
	sealer, err := seal.New(make([]byte, seal.KeyBytes), rand.Reader)
	require.NoError(t, err)
	accounts, err := address.New(testXpub, testZpub)
	require.NoError(t, err)
	simulated, err := sandbox.OpenStore(fs, "sandbox")
	require.NoError(t, err)
	w.chains, err = sandbox.NewChains(sandbox.ChainsConfig{Store: simulated,
		Chain: map[string]int{"ethereum": 6, "polygon": 6, "arbitrum": 6, "base": 6, "optimism": 6, "solana": 1,
			"bitcoin": 2},
		Final: time.Minute, Clock: w.clock.now})
	require.NoError(t, err)
	w.system, err = processes.Start(context.Background(), processes.Config{Bank: silentBank{},
		Ramp: w.ramp, Desk: sandbox.Desk{}, Accounts: accounts, Prices: sandbox.Prices{}, Chains: w.watched(),
		WatchEvery: 10 * time.Millisecond, Issuer: sandbox.Issuer{},
		Config: actors.Config{Journal: journal, Authorizer: w.engine, FollowedWithin: waitFor, RelayedWithin: waitFor,
			Sealer: sealer, Clock: w.clock.now, Entropy: rand.Reader, ExpireEvery: 50 * time.Millisecond, TimerEvery: 50 * time.Millisecond,
			Fatal:  fatal,
			Logger: suiteLog.logger()}})
	require.NoError(t, err)
	w.actors = &hooked{Actors: w.system}
	network, stopNetwork := w.newNetwork()
	config := Config{Actors: w.actors, Network: network, BaseURL: "http://purser.test", PartnerSecrets: onePartnerSecret(testSecret),
		RateLimits: RateLimits{Off: true}, Elapsed: w.clock.elapsed, Convert: true, DepositDelay: 2 * time.Second,
		RequestTimeout: time.Hour,
		DerivePassword: deriveCheaply, Logger: suiteLog.logger()}
	w.mails = make(mailbox, mailboxSize)
	config.Mail = w.mails
	config.WebhookGuard = webhook.NewGuard(false, publicHosts{})
	for _, c := range change {
		c(&config)
	}
	w.server, err = New(config)
	require.NoError(t, err)
	w.judgeAnswers(w.server)
	w.listen = fasthttputil.NewInmemoryListener()
	done := make(chan error, 1)
	go func() { done <- w.server.Serve(closedOnce{w.listen}) }()
	w.client = dial(w.listen)
	w.close = sync.OnceFunc(func() {
		w.client.CloseIdleConnections()
		stopListening(t, w.listen, done)
		require.NoError(t, w.server.Shutdown(context.Background()))
		stopNetwork()
		w.system.Stop()
		require.NoError(t, w.engine.Close())
		require.NoError(t, simulated.Close())
		require.NoError(t, journal.Close())
	})
	t.Cleanup(w.close)
	return w
}

// deriveCheaply derives a key like argon2id, but without its 19 MiB and two passes. The tests of
// httpapi/password, TestSignUpInAndOut and the program derive keys with argon2id.
func deriveCheaply(d password.Derivation) ([]byte, error) {
	key := sha256.Sum256(slices.Concat(d.Salt, d.Password))
	return key[:], nil
}

// closedOnce is a listener whose later Close calls do nothing.
type closedOnce struct{ *fasthttputil.InmemoryListener }

// Close implements net.Listener. The only error of an InmemoryListener is that it is closed
// already.
func (l closedOnce) Close() error {
	_ = l.InmemoryListener.Close()
	return nil
}

// stopListening ends a server's Serve before its shutdown, because a shutdown that finds it running
// looks again after 100 ms only.
func stopListening(t testing.TB, ln *fasthttputil.InmemoryListener, served <-chan error) {
	t.Helper()
	require.NoError(t, closedOnce{ln}.Close())
	require.NoError(t, <-served)
	for range 100 {
		runtime.Gosched() // the goroutines of the closed connections end
	}
}

// never is the deadline of a swipe, so that a slow machine never answers "timeout".
func never() <-chan time.Time { return nil }

func dial(ln *fasthttputil.InmemoryListener) *fasthttp.HostClient {
	return &fasthttp.HostClient{Addr: "purser.test", Dial: func(string) (net.Conn, error) { return ln.Dial() }}
}

func (w *world) newNetwork() (Network, func()) {
	server, err := network.New(network.Options{Decider: w.engine, Secrets: []string{testNetworkSecret},
		Clock: w.clock.now, ReadTimeout: waitFor, WriteTimeout: waitFor, IgnoreStops: true})
	require.NoError(w.t, err)
	ln := fasthttputil.NewInmemoryListener()
	done := make(chan error, 1)
	go func() { done <- server.Serve(closedOnce{ln}) }()
	client := dial(ln)
	return &testNetwork{engine: w.engine, client: client}, func() {
		client.CloseIdleConnections()
		stopListening(w.t, ln, done)
		require.NoError(w.t, server.Shutdown(context.Background()))
	}
}

// testReply is an answer with its decoded body.
type testReply struct {
	status int
	raw    string
	body   map[string]any
	header func(name string) string
	cookie string
}

// code returns the code of an error, also of a JSON-RPC error.
func (r testReply) code() string {
	if _, isRPC := r.body["error"].(map[string]any); isRPC {
		return r.text("error", "data", "error")
	}
	return r.text("error")
}

// onePartnerSecret gives every partner the same secret.
func onePartnerSecret(secret string) map[string][]string {
	secrets := map[string][]string{}
	for _, partner := range reports.Partners() {
		secrets[partner] = []string{secret}
	}
	return secrets
}

// at walks the body: at("data", 0, "id").
func (r testReply) at(path ...any) any {
	var v any = r.body
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			a, _ := v.([]any)
			if step >= len(a) {
				return nil
			}
			v = a[step]
		}
	}
	return v
}

func (r testReply) text(path ...any) string { s, _ := r.at(path...).(string); return s }

// cents reads a number; -1 when there is none.
func (r testReply) cents(path ...any) int {
	f, ok := r.at(path...).(float64)
	if !ok {
		return -1
	}
	return int(f)
}

// as is a caller: the headers of each of its requests.
type as map[string]string

func key(secret string) as { return as{"Authorization": "Bearer " + secret} }

func session(cookie string) as { return as{"Cookie": sessionCookie + "=" + cookie} }

func (a as) with(name, value string) as {
	b := as{name: value}
	for n, v := range a {
		if n != name {
			b[n] = v
		}
	}
	return b
}

// do sends a request.
func (w *world) do(who as, method, path, body string) testReply {
	w.t.Helper()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://purser.test" + path)
	req.Header.SetMethod(method)
	if body != "" {
		req.Header.SetContentType("application/json")
		req.SetBodyString(body)
	}
	for name, value := range who {
		req.Header.Set(name, value)
	}
	require.NoError(w.t, w.client.Do(req, resp))
	r := testReply{status: resp.StatusCode(), raw: string(resp.Body())}
	headers := map[string]string{}
	for name, value := range resp.Header.All() {
		headers[strings.ToLower(string(name))] = string(value)
	}
	r.header = func(name string) string { return headers[strings.ToLower(name)] }
	var cookie fasthttp.Cookie
	cookie.SetKey(sessionCookie)
	if resp.Header.Cookie(&cookie) {
		r.cookie = string(cookie.Value())
	}
	if r.header("Content-Disposition") == "" { // else it is a file
		require.NoError(w.t, json.Unmarshal(resp.Body(), &r.body), "%s %s: %s", method, path, r.raw)
	}
	suiteLog.recordExchange(who, r.cookie, body, r.raw)
	return r
}

func (w *world) get(who as, path string) testReply { w.t.Helper(); return w.do(who, "GET", path, "") }

func (w *world) post(who as, path, body string) testReply {
	w.t.Helper()
	return w.do(who, "POST", path, body)
}

// fails requires an error.
func (w *world) fails(r testReply, status int, code string) {
	w.t.Helper()
	require.Equal(w.t, fmt.Sprint(status, " ", code), fmt.Sprint(r.status, " ", r.code()), r.raw)
}

func (w *world) ok(r testReply) testReply {
	w.t.Helper()
	require.Equal(w.t, 200, r.status, r.raw)
	return r
}

// tenant is a workspace with its owner, and a key with all scopes.
type tenant struct {
	cookie, workspace, secret, firstSecret string
	all                                    as
}

// allScopes lists the scopes of the key with every permission.
var allScopes = `["` + strings.Join(workspace.Scopes(), `","`) + `"]`

func (w *world) signup(email string) testReply {
	w.t.Helper()
	return w.post(nil, "/api/dashboard/signup", fmt.Sprintf(`{"email":%q,"password":"a long password"}`, email))
}

func (w *world) newTenant(name string) tenant {
	w.t.Helper()
	var tn tenant
	tn.cookie = w.ok(w.signup(name + "@example.com")).cookie
	made := w.ok(w.post(session(tn.cookie), "/api/workspaces", fmt.Sprintf(`{"name":"Workspace %s"}`, name)))
	tn.workspace, tn.firstSecret = made.text("workspace", "id"), made.text("secret")
	tn.secret = w.ok(w.post(session(tn.cookie), "/api/auth/keys",
		`{"label":"all","scopes":`+allScopes+`}`)).text("secret")
	tn.all = key(tn.secret)
	return tn
}

// report sends a signed report of the bank.
func (w *world) report(body string) testReply {
	w.t.Helper()
	return w.sendReport("/api/webhooks/bank-transfer", body)
}

// fund deposits dollars and has the bank report them.
func (w *world) fund(tn tenant, cents int) {
	w.t.Helper()
	made := w.post(tn.all, "/api/treasury/deposits",
		fmt.Sprintf(`{"source":"bank_fiat","rail":"ach","amountUsdCents":%d}`,
			cents))
	require.Equal(w.t, 202, made.status, made.raw)
	id := made.text("deposit", "id")
	w.ok(w.report(fmt.Sprintf(`{"id":"evt-%s","type":"deposit.settled","data":{"depositId":%q}}`, id, id)))
}

func (w *world) mint(tn tenant, extra string) testReply {
	w.t.Helper()
	return w.ok(w.post(tn.all, "/api/cards",
		`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":100000,"perTxnLimitUsdCents":50000`+extra+`}`))
}

// swipe simulates an authorization.
func (w *world) swipe(tn tenant, card, id string, cents int) testReply {
	w.t.Helper()
	return w.ok(w.post(tn.all, "/api/dev/cards/"+card+"/simulate/authorization",
		fmt.Sprintf(`{"id":%q,"amountCents":%d,"currency":"USD","merchant":{"name":"Shop","mcc":"5411"}}`, id, cents)))
}

// relayed waits until the journal has the authorizer's decisions. A read waits for them too, but
// with a limit.
func (w *world) relayed() {
	w.t.Helper()
	require.NoError(w.t, w.system.RelayAll(context.Background()))
}

var errBroken = errors.New("the disk says: /secret/path is on fire")

// keptUnmatched requires a number of unmatched reports in the system's workspace.
func (w *world) keptUnmatched(want int) {
	w.t.Helper()
	system := ident.System.Format(ident.Workspace)
	records, err := w.system.List(context.Background(), balance.RecordUnmatched, system, "",
		persistence.Page{Limit: 100})
	require.NoError(w.t, err)
	require.Len(w.t, records, want)
}

// watched returns all sandbox chains.
func (w *world) watched() (all []partner.Chain) {
	for _, name := range checkout.Chains() {
		all = append(all, w.chains.Chain(name))
	}
	return all
}
