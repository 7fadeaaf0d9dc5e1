package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/workspace"
	"purser/httpapi/openapi"
)

func TestTheTableAndTheDescriptionAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var built, described []openapi.Operation
	for _, r := range w.server.table {
		built = append(built, r.describedOperation())
	}
	for path, item := range describe(t).Doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, openapi.Operation{Method: method, Path: path})
		}
	}
	require.ElementsMatch(t, described, built)
}

// The description lists the checks of each row of the table: its callers, idempotency keys and
// parameters.
func TestDescriptionListsTheChecksOfEachRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, r := range w.server.table {
		name := r.method + " " + r.path
		require.NotNil(t, w.checked.Doc.Paths.Value(r.path), name)
		operation := w.checked.Doc.Paths.Value(r.path).GetOperation(r.method)
		if r.scope != "" {
			require.Contains(t, operation.Description+operation.Summary, r.scope, name)
		}
		var parameters []string
		takesKey := false
		for _, p := range operation.Parameters {
			if p.Value.In == "query" {
				parameters = append(parameters, p.Value.Name)
			}
			takesKey = takesKey || p.Value.Name == "Idempotency-Key"
		}
		require.ElementsMatch(t, r.query, parameters, name)
		require.Equal(t, r.idempotency != keyIgnored, takesKey, name)
	}
}

func TestEveryScopeIsInTheInterfacesTable(t *testing.T) {
	t.Parallel()
	for _, scope := range workspace.Scopes() {
		require.True(t, slices.Contains(sharedEnum(t), scope), scope)
	}
	require.Len(t, sharedEnum(t), len(workspace.Scopes()))
}

func sharedEnum(t *testing.T) []string {
	t.Helper()
	var scopes []string
	for _, v := range describe(t).Doc.Components.Schemas["Scope"].Value.Enum {
		scopes = append(scopes, fmt.Sprint(v))
	}
	return scopes
}

func TestTheDescriptionIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.ok(w.get(nil, "/api/v1/openapi.json"))
	require.Equal(t, "0.1.0", r.text("info", "version"))
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fails(w.get(nil, "/api"), 404, "not_found")
	w.fails(w.get(nil, "/api/payouts"), 404, "not_found")
	w.fails(w.get(nil, "/api/cards/"), 404, "not_found")
	w.fails(w.get(nil, "/API/cards"), 404, "not_found")
	status, _ := w.raw("GET /api//cards HTTP/1.1\r\nHost: purser.test\r\n\r\n")
	require.Equal(t, 404, status)
	r := w.do(nil, "PUT", "/api/cards", "")
	w.fails(r, 405, "method_not_allowed")
	require.Equal(t, "GET, HEAD, POST", r.header("Allow"))
	require.NotEmpty(t, r.text("message"))
	require.NotEmpty(t, w.get(nil, "/api").text("message"))
	require.NotEmpty(t, w.get(w.newTenant("ada").all, "/api/cards/card_unknown").text("message"))
	r = w.do(nil, "OPTIONS", "/api/auth/keys", "")
	w.fails(r, 405, "method_not_allowed")
	require.Equal(t, "DELETE, GET, HEAD, POST", r.header("Allow"))
	// A path without a parameter takes no method of a path with one.
	r = w.do(nil, "DELETE", "/api/dashboard/members/leave", "")
	w.fails(r, 405, "method_not_allowed")
	require.Equal(t, "POST", r.header("Allow"))
	r = w.get(nil, "/api/payments/international/quote")
	w.fails(r, 405, "method_not_allowed")
	require.Equal(t, "POST", r.header("Allow"))
}

// raw sends bytes and returns the status and the body of the first answer.
func (w *world) raw(request string) (int, string) {
	w.t.Helper()
	conn, err := w.listen.Dial()
	require.NoError(w.t, err)
	defer conn.Close()
	go func() { _, _ = conn.Write([]byte(request)) }() // the server may stop reading
	var resp fasthttp.Response
	require.NoError(w.t, resp.Read(bufio.NewReader(conn)))
	return resp.StatusCode(), string(resp.Body())
}

// A header that identifies the caller or a repeat must be given once: two servers in a row could
// each read another one.
func TestRepeatedIdentityHeadersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	caller, once := "Authorization: Bearer "+tn.secret+"\r\n", "Idempotency-Key: "+someUUID+"\r\n"
	f := func(headers string, status int, code string) {
		t.Helper()
		got, text := w.raw("GET /api/treasury HTTP/1.1\r\nHost: purser.test\r\n" + headers + "\r\n")
		require.Equal(t, status, got, text)
		require.Contains(t, text, code)
	}
	f(caller+once, 200, "balances")
	f(caller+caller, 401, `"error":"unauthorized"`)
	f(caller+"authorization: Bearer other\r\n", 401, `"error":"unauthorized"`)
	f(caller+once+once, 400, `"error":"invalid_idempotency_key"`)
}

func TestFraming(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := func(header, body string, status int, code string) {
		t.Helper()
		got, text := w.raw("POST /api/cards HTTP/1.1\r\nHost: purser.test\r\n" + header + "\r\n" + body)
		require.Equal(t, status, got, text)
		require.Contains(t, text, `"error":"`+code+`"`)
	}
	f("Content-Length: 2\r\n", "{}", 401, "unauthorized")
	f("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400, "invalid_request")
	f("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n", 400, "invalid_request")
	f("transfer-encoding: chunked\r\ncontent-length: 5\r\n", "0\r\n\r\n", 400, "invalid_request")
	f("Transfer-Encoding: identity\r\nContent-Length: 2\r\n", "{}", 400, "invalid_request")
	f("Content-Length: 2\r\nContent-Length: 2\r\n", "{}", 400, "invalid_request")
	f("Content-Length: 2\r\nContent-Encoding: gzip\r\n", "{}", 415, "unsupported_media_type")
	f("Content-Length: 2\r\ncontent-encoding: identity\r\n", "{}", 415, "unsupported_media_type")
	long := fmt.Sprintf("Content-Length: %d\r\n", wideBody+1)
	f(long, strings.Repeat("x", wideBody+1), 401, "unauthorized")
	tn := w.newTenant("a")
	f(long+"Authorization: Bearer "+tn.secret+"\r\n", strings.Repeat("x", wideBody+1), 413, "body_too_large")
	f("X: "+strings.Repeat("x", maxHeader)+"\r\n", "", 431, "header_too_large")
	got, text := w.raw("POST nonsense\r\n\r\n")
	require.Equal(t, 400, got)
	require.Contains(t, text, "invalid_request")
}

func TestBodiesMustBeJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("a")
	f := func(contentType string, status int, code string) {
		t.Helper()
		w.fails(w.post(tn.all.with("Content-Type", contentType), "/api/cards", `{}`), status, code)
	}
	f("application/json", 400, "invalid_body")
	f("application/json; charset=utf-8", 400, "invalid_body")
	f("application/json; charset=Utf-8", 400, "invalid_body")
	f("application/json; charset=latin1", 415, "unsupported_media_type")
	f("text/plain", 415, "unsupported_media_type")
	f("application/x-www-form-urlencoded", 415, "unsupported_media_type")
	f("application/", 415, "unsupported_media_type")
}

func TestAnInternalFaultShowsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("a")
	w.actors.hook(func(context.Context, actors.Envelope) (any, error) { return nil, errBroken })
	r := w.get(tn.all, "/api/workspaces")
	w.fails(r, 500, "internal")
	require.NotContains(t, r.raw, "disk")
	w.actors.hook(func(context.Context, actors.Envelope) (any, error) { panic("a bug with a secret") })
	r = w.get(tn.all, "/api/workspaces")
	w.fails(r, 500, "internal")
	require.NotContains(t, r.raw, "secret")
	w.actors.hook(func(context.Context, actors.Envelope) (any, error) {
		return nil, fault.New("a_code_not_listed", "text")
	})
	w.fails(w.get(tn.all, "/api/workspaces"), 500, "internal")
}

// A change without an answer in time may have happened; a read has changed nothing.
func TestDeadlineLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("a")
	w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
		if _, authenticating := e.Command.(workspace.Authenticate); authenticating {
			return w.system.Ask(ctx, e)
		}
		return nil, context.DeadlineExceeded
	})
	w.fails(w.get(tn.all, "/api/workspaces"), 503, "unavailable")
	w.fails(w.post(tn.all, "/api/treasury/deposits", `{"source":"bank_fiat","rail":"ach","amountUsdCents":1}`), 500,
		"outcome_unknown")
}

func TestEveryCodeHasAStatus(t *testing.T) {
	t.Parallel()
	for _, code := range []fault.Code{fault.InvalidBody, fault.Unauthorized, fault.MissingScope("read:cards"),
		fault.NotFound,
		fault.CardTerminated, fault.LimitExceeded, fault.RateLimited, fault.Unavailable} {
		status, known := statusOf(code)
		require.True(t, known, code)
		require.GreaterOrEqual(t, status, 400)
	}
	_, known := statusOf("nonsense")
	require.False(t, known)
}

// A request that runs when the shutdown begins is answered, and Shutdown waits for it.
func TestShutdownDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("a")
	entered, release := make(chan struct{}), make(chan struct{})
	w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
		if _, reading := e.Command.(decision.Read); reading {
			close(entered)
			<-release
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		return w.system.Ask(ctx, e)
	})
	answered := make(chan testReply, 1)
	go func() { answered <- w.get(tn.all, "/api/workspaces") }()
	<-entered
	down := make(chan error, 1)
	go func() { down <- w.server.Shutdown(context.Background()) }()
	require.Eventually(t, func() bool {
		conn, err := w.listen.Dial()
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, waitFor, pause)
	select {
	case err := <-down:
		t.Fatalf("Shutdown returned %v while a request was running", err)
	default:
	}
	close(release)
	require.Equal(t, 200, (<-answered).status)
	require.NoError(t, <-down)
}

func TestConfigNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Issuer: "other", DepositDelay: -1, RateLimits: RateLimits{PerKey: 1}})
	require.Error(t, err)
	for _, part := range []string{"Actors", "Network", "PartnerSecrets", "BaseURL", "Issuer", "DepositDelay",
		"RateLimits"} {
		require.Contains(t, err.Error(), part)
	}
}
