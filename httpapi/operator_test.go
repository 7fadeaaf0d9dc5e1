package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"purser/actors/fault"
	"purser/httpapi/dashboard"
)

const operatorSecret = "the operator's own secret"

// testServer is the state of a server that the operator's pages show.
type testServer struct {
	status dashboard.ServerStatus
	quiet  bool // nothing is unmatched
	err    error
}

func (s *testServer) Status() dashboard.ServerStatus { return s.status }

func (s *testServer) Unmatched(_ context.Context, cursor string) (page dashboard.UnmatchedPage, err error) {
	if cursor != "" && cursor != "7.umr_1" {
		return page, fault.New(fault.InvalidQuery, "the address is not of a page of this list")
	}
	if s.quiet {
		return page, s.err
	}
	return dashboard.UnmatchedPage{Next: "7.umr_1", Reports: []dashboard.UnmatchedReport{{ID: "umr_1",
		Partner: "bank",
		EventID: `<script>alert(1)</script>`, Type: `"><img src=x onerror=alert(1)>`}}}, s.err
}

func (s *testServer) Workspaces(context.Context, string) (dashboard.WorkspacePage, error) {
	return dashboard.WorkspacePage{Workspaces: []dashboard.WorkspaceSummary{{ID: "ws_1", Name: `<b>Tea</b>`,
		Mode: "sandbox", Members: 2, Keys: 1234}}}, s.err
}

// operatorPort is an admin port with the operator's pages.
type operatorPort struct {
	t      *testing.T
	client *fasthttp.HostClient
	state  *testServer
	now    time.Time
}

func newOperatorPort(t *testing.T) *operatorPort {
	p := &operatorPort{t: t, state: &testServer{}, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	admin, err := NewAdmin(AdminConfig{Ready: func() error { return nil }, Registry: prometheus.NewRegistry(),
		Names: []string{"purser.test"}, Operator: &OperatorConfig{Secret: operatorSecret, State: p.state,
			Clock: func() time.Time { return p.now }, Entropy: rand.Reader}})
	require.NoError(t, err)
	ln := fasthttputil.NewInmemoryListener()
	done := make(chan error, 1)
	go func() { done <- admin.Serve(ln) }()
	p.client = dial(ln)
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		require.NoError(t, admin.Shutdown(context.Background()))
		require.NoError(t, <-done)
	})
	return p
}

// visit requests a page by its path, or by its whole address; with a form it posts it. The reply
// has the cookie of a new session.
func (p *operatorPort) visit(who as, address string, form url.Values) pageReply {
	p.t.Helper()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	if strings.HasPrefix(address, "/") {
		address = "http://purser.test" + address
	}
	req.SetRequestURI(address)
	if form != nil {
		req.Header.SetMethod(fasthttp.MethodPost)
		req.Header.SetContentType("application/x-www-form-urlencoded")
		req.SetBodyString(form.Encode())
	}
	for name, value := range who {
		req.Header.Set(name, value)
	}
	require.NoError(p.t, p.client.Do(req, resp))
	if strings.Contains(string(resp.Header.ContentType()), "html") {
		requireOnlyOurs(p.t, string(resp.Body()))
		require.Equal(p.t, dashboard.Policy, string(resp.Header.Peek("Content-Security-Policy")))
	}
	r := pageReply{status: resp.StatusCode(), text: string(resp.Body()),
		location: string(resp.Header.Peek("Location"))}
	var cookie fasthttp.Cookie
	cookie.SetKey(operatorCookie)
	if resp.Header.Cookie(&cookie) {
		r.cookie = string(cookie.Value())
		if r.cookie != "" {
			require.True(p.t, cookie.HTTPOnly())
			require.Equal(p.t, "/operator", string(cookie.Path()))
			require.Equal(p.t, fasthttp.CookieSameSiteStrictMode, cookie.SameSite())
		}
	}
	return r
}

func operatorSession(cookie string) as { return as{"Cookie": operatorCookie + "=" + cookie} }

// enter signs in with a secret.
func (p *operatorPort) enter(secret string) pageReply {
	p.t.Helper()
	return p.visit(as{"Origin": "http://purser.test", "Sec-Fetch-Site": "same-origin"}, "/operator/sign-in",
		url.Values{"secret": {secret}})
}

// Only the secret opens the pages, and a session ends by its age and at the sign-out.
func TestTheOperatorSignsIn(t *testing.T) {
	t.Parallel()
	p := newOperatorPort(t)
	require.Equal(t, "/operator", p.visit(as{"Accept": "text/html,*/*"}, "/", nil).location)
	require.Equal(t, "/operator", p.visit(nil, "/operator/", nil).location)
	program := p.visit(nil, "/", nil)
	require.Equal(t, 404, program.status)
	require.JSONEq(t, `{"error":"not_found"}`, program.text)
	for _, page := range []string{"/operator", "/operator/unmatched", "/operator/workspaces", "/operator/nothing"} {
		for _, who := range []as{nil, operatorSession(""), operatorSession("00"), operatorSession(operatorSecret)} {
			require.Equal(t, "/operator/sign-in", p.visit(who, page, nil).location, page)
		}
	}
	wrong := p.enter("the operator's own secre")
	require.Equal(t, 401, wrong.status)
	require.Empty(t, wrong.cookie)
	require.Contains(t, wrong.text, "This is not the operator secret.")
	in := p.enter(operatorSecret)
	require.Equal(t, "/operator", in.location, in.text)
	require.Len(t, in.cookie, 64)
	require.Equal(t, 200, p.visit(operatorSession(in.cookie), "/operator", nil).status)
	require.Equal(t, 404, p.visit(operatorSession(in.cookie), "/operator/nothing", nil).status)

	other := p.enter(operatorSecret)
	require.Equal(t, "/operator/sign-in", p.visit(operatorSession(in.cookie), "/operator/sign-out",
		url.Values{}).location)
	require.Equal(t, 303, p.visit(operatorSession(in.cookie), "/operator", nil).status)
	require.Equal(t, 200, p.visit(operatorSession(other.cookie), "/operator", nil).status)
	p.now = p.now.Add(operatorSessionLife)
	require.Equal(t, 303, p.visit(operatorSession(other.cookie), "/operator", nil).status)
}

// After maxOperatorGuesses wrong secrets further wrong ones are answered 429 until the window ends.
// The right one opens a session all the time, so that another process cannot lock the operator out.
func TestWrongSecretsDoNotLockTheOperatorOut(t *testing.T) {
	t.Parallel()
	p := newOperatorPort(t)
	for range maxOperatorGuesses {
		require.Equal(t, 401, p.enter("wrong").status)
	}
	late := p.enter("wrong")
	require.Equal(t, 429, late.status)
	require.Contains(t, late.text, "Too many wrong secrets were sent.")
	require.Equal(t, 303, p.enter(operatorSecret).status)
	p.now = p.now.Add(operatorGuessWindow - 1)
	require.Equal(t, 429, p.enter("wrong").status)
	p.now = p.now.Add(1)
	require.Equal(t, 401, p.enter("wrong").status)
}

// The session that ends first ends for one beyond maxOperatorSessions.
func TestOperatorSessionsAreBounded(t *testing.T) {
	t.Parallel()
	p := newOperatorPort(t)
	first := p.enter(operatorSecret)
	p.now = p.now.Add(time.Minute)
	second := p.enter(operatorSecret)
	for range maxOperatorSessions - 1 {
		p.now = p.now.Add(time.Second)
		require.Equal(t, 303, p.enter(operatorSecret).status)
	}
	require.Equal(t, "/operator/sign-in", p.visit(operatorSession(first.cookie), "/operator", nil).location)
	require.Equal(t, 200, p.visit(operatorSession(second.cookie), "/operator", nil).status)
}

// A form of another origin is refused, and so is every other request of a page.
func TestTheOperatorsFormsRefuseForeignOrigins(t *testing.T) {
	t.Parallel()
	p := newOperatorPort(t)
	for _, foreign := range []as{{"Origin": "http://evil.example"}, {"Origin": "null"},
		{"Origin": "https://purser.test"},
		{"Origin": "http://purser.test:8080"}, {"Sec-Fetch-Site": "cross-site"},
		{"Origin": "http://purser.test", "Sec-Fetch-Site": "same-site"}} {
		for _, form := range []string{"/operator/sign-in", "/operator/sign-out"} {
			require.Equal(t, 403, p.visit(foreign, form, url.Values{"secret": {operatorSecret}}).status, "%v",
				foreign)
		}
	}
	own := as{"Origin": "http://purser.test", "Sec-Fetch-Site": "same-origin"}
	for _, path := range []string{"/audit", "/operator", "/operator/unmatched", "/operator/sign-in/"} {
		require.Equal(t, 403, p.visit(own, path, url.Values{"secret": {operatorSecret}}).status, path)
	}
	script := regexp.MustCompile(`src="([^"]+\.js)"`).FindStringSubmatch(p.visit(as{}, "/operator/sign-in", nil).text)[1]
	require.Equal(t, 200, p.visit(own, script, nil).status, "the module of an own page has an Origin")
	for _, foreign := range []as{{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
		{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, {"Origin": "http://purser.test"}} {
		require.Equal(t, 403, p.visit(foreign, script, nil).status, "%v", foreign)
	}
	require.Equal(t, 421, p.visit(as{"Origin": "http://evil.example"}, "http://evil.example/operator/sign-in",
		url.Values{"secret": {operatorSecret}}).status, "a rebound name")
}

// The pages show the state of the server, and what others have written as text.
func TestTheOperatorsPages(t *testing.T) {
	t.Parallel()
	p := newOperatorPort(t)
	who := operatorSession(p.enter(operatorSecret).cookie)
	starting := p.visit(who, "/operator", nil)
	require.Contains(t, starting.text, "The stores are not open")
	p.state.status = dashboard.ServerStatus{Version: "v1", Running: true, BacklogCents: 123456, BacklogEntries: 1234,
		BacklogLimit: 10_000_000, RelayLag: 1500 * time.Millisecond, FollowerLag: 42, Overdue: 3}
	quiet := dashboard.ServerStatus{Running: true, BacklogLimit: 100, Disks: []dashboard.DiskSpace{{Store: "journal",
		Dir: "<data>/journal", Free: "12.5 GiB", Kept: "1 GiB"}}}
	p.state.status, quiet, p.state.quiet = quiet, p.state.status, true
	calm := p.visit(who, "/operator", nil)
	require.Contains(t, calm.text, "Nothing waits for you.")
	require.Contains(t, calm.text, "12.5 GiB")
	require.Contains(t, calm.text, "&lt;data&gt;/journal")
	require.NotContains(t, calm.text, `class="badge warn"`)
	p.state.status, p.state.quiet = quiet, false
	page := p.visit(who, "/operator", nil)
	require.Contains(t, page.text, "<strong>Orders overdue</strong>")
	require.Contains(t, page.text, "<strong>Unmatched reports</strong>")
	p.state.err = errors.New("the stores are busy")
	require.NotContains(t, p.visit(who, "/operator", nil).text, "<strong>Unmatched reports</strong>", "not known")
	p.state.err = nil
	for _, shown := range []string{"Ready", "$1,234.56", "1.5 s", "1,234 of 10,000,000",
		"None since the server started"} {
		require.Contains(t, page.text, shown)
	}
	p.state.status.Problems = []string{"a shard is not held", "the clock is suspect"}
	p.state.status.Audit = &dashboard.AuditResult{At: p.now, Findings: []string{"<i>balance</i> differs"}, More: 1000}
	p.state.status.SetAside, p.state.status.SetAsideEntries = 1, 7
	p.state.status.Disks = []dashboard.DiskSpace{{Dir: "/full", Free: "0.9 GiB", Kept: "1 GiB", Resumes: "1.2 GiB",
		Scarce: true},
		{Dir: "/gone", Unknown: true}}
	p.state.status.LostShards = 2
	page = p.visit(who, "/operator", nil)
	require.Contains(t, page.text, "The journal refuses 7 of their decisions.")
	require.Contains(t, page.text, "Approvals have stopped: the disk of /full is nearly full")
	require.Contains(t, page.text, "above 1.2 GiB.")
	require.Contains(t, page.text, "The free space of /gone is not known")
	require.Contains(t, page.text, "<strong>Shards with an unresolved commit</strong>")
	require.Contains(t, page.text, "a shard is not held; the clock is suspect")
	require.Contains(t, page.text, "1,001 findings")
	require.Contains(t, page.text, "&lt;i&gt;balance")

	unmatched := p.visit(who, "/operator/unmatched", nil)
	require.Contains(t, unmatched.text, "&lt;script&gt;alert(1)&lt;/script&gt;")
	require.Contains(t, unmatched.text, "/operator/unmatched?cursor=7.umr_1")
	require.Equal(t, 200, p.visit(who, "/operator/unmatched?cursor=7.umr_1", nil).status)
	for _, cursor := range []string{"garbage", "%3Cb%3E", "%zz"} {
		wrong := p.visit(who, "/operator/unmatched?cursor="+cursor, nil)
		require.Equal(t, 400, wrong.status)
		require.Contains(t, wrong.text, "The first page is shown.")
		require.Contains(t, wrong.text, "umr_1")
	}
	require.Contains(t, p.visit(who, "/operator/workspaces", nil).text, "&lt;b&gt;Tea")
	p.state.err = errors.New("the server is starting or stopping")
	failed := p.visit(who, "/operator/workspaces", nil)
	require.Equal(t, 503, failed.status)
	require.Contains(t, failed.text, "the server is starting or stopping")
}
