package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/authorizer/front"
	"purser/httpapi/webhook"
)

// headOnly sends the head of a request that announces a body, and no body. It returns the answer.
func (w *world) headOnly(method, path, header string, announced int) (status int, body string) {
	w.t.Helper()
	conn, err := w.listen.Dial()
	require.NoError(w.t, err)
	defer conn.Close()
	require.NoError(w.t, conn.SetReadDeadline(time.Now().Add(waitFor)))
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: purser.test\r\n%sContent-Length: %d\r\n\r\n", method, path,
		header, announced)
	require.NoError(w.t, err)
	var resp fasthttp.Response
	require.NoError(w.t, resp.Read(bufio.NewReader(conn)), "%s %s waits for a body", method, path)
	return resp.StatusCode(), string(resp.Body())
}

// A refusal that the head alone determines is sent without reading the body.
func TestAHeadIsAnsweredBeforeItsBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("a")
	bearer := "Authorization: Bearer " + tn.secret + "\r\n"
	f := func(method, path, header string, announced, status int, code string) {
		t.Helper()
		got, text := w.headOnly(method, path, header, announced)
		require.Equal(t, status, got, text)
		require.Contains(t, text, code)
	}
	f("POST", "/nowhere", bearer, 1000, 404, "not_found")
	f("PUT", "/api/cards", bearer, 1000, 405, "method_not_allowed")
	f("POST", "/api/cards", "", 1000, 401, "unauthorized")
	f("POST", "/api/cards", "Authorization: Bearer apk_nonsense\r\n", 1000, 401, "unauthorized")
	f("POST", "/api/dashboard/password", "Cookie: purser_session=x\r\n", 1000, 401, "unauthorized")
	f("POST", "/api/auth/keys", "Cookie: purser_session=x\r\n", 1000, 401, "unauthorized")
	f("POST", "/api/mcp", "", 1000, 401, "-32001")
	f("POST", "/api/webhooks/bank-transfer", "", 1000, 401, "signature_invalid")
	f("POST", "/api/webhooks/bank-transfer", "partner-signature: t=1,v1=00\r\n", 1000, 401, "signature_invalid")
	f("POST", "/api/workspaces", bearer, maxBody+1, 413, "at most 65536 bytes")
	f("POST", "/api/cards", bearer, wideBody+1, 413, "at most 1048576 bytes")
	f("GET", "/api/workspaces", bearer, wideBody+1, 200, tn.workspace)
	f("POST", "/checkout/cs_x/select", "", maxForm+1, 413, "body_too_large")
}

// An address over its limit gets 429 before its body is read, on known and unknown routes.
func TestALimitedAddressIsAnsweredBeforeItsBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.RateLimits = RateLimits{PerKey: 1000, PerWorkspace: 1000, PerAddress: 1} })
	for i, path := range []string{"/nowhere", "/nowhere", "/api/cards", "/checkout/cs_x/select"} {
		status, text := w.headOnly("POST", path, "", 1000)
		require.Equal(t, []int{404, 429, 429, 429}[i], status, text)
	}
}

// Reports that fail verification, on any partner path, keep no verified one out. Neither counts
// against a limit of the address.
func TestUnverifiedReportsKeepNoVerifiedOneOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	forged := as{"partner-signature": webhook.Sign("another secret of a partner", w.clock.now(), []byte(`{}`))}
	const many = 200
	for i := range many {
		w.fails(w.post(forged, "/api/webhooks/bank-transfer", `{}`), 401, "signature_invalid")
		status, text := w.headOnly("POST", "/api/webhooks/partner-onramp", "", 1000)
		require.Equal(t, 401, status, text)
		w.ok(w.report(received(fmt.Sprintf("evt-%d", i), tn.workspace)))
	}
	require.Equal(t, many*500, w.fiat(tn))
}

// A full budget of bodies refuses the next body with 503 and changes nothing. A short body and a
// request without one still fit.
func TestAFullBudgetOfBodies(t *testing.T) {
	t.Parallel()
	budget := front.NewBudget(12 << 10)
	w := newWorld(t, func(c *Config) { c.Edge = front.Options{Bodies: budget} })
	tn := w.newTenant("ada")
	w.ok(w.get(tn.all, "/api/workspaces"))
	before := w.settled()
	conn, err := w.listen.Dial()
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /api/workspaces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 6000\r\n\r\n%s",
		tn.secret, strings.Repeat(" ", 5000))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return budget.Used() > 5000 }, waitFor, pause)
	refused := w.post(tn.all, "/api/workspaces", `{"name":"`+strings.Repeat("x", 5000)+`"}`)
	w.fails(refused, 503, "unavailable")
	require.Equal(t, "1", refused.header("Retry-After"))
	require.Equal(t, before, w.settled())
	require.Positive(t, budget.Refused())
	w.ok(w.get(tn.all, "/api/workspaces"))
	w.ok(w.post(tn.all, "/api/workspaces", `{"name":"Acme"}`))
	_, err = io.WriteString(conn, strings.Repeat(" ", 1000))
	require.NoError(t, err)
	var resp fasthttp.Response
	require.NoError(t, resp.Read(bufio.NewReader(conn)))
	require.Equal(t, 400, resp.StatusCode(), "what had its memory is answered")
	require.Eventually(t, func() bool { return budget.Used() == 0 }, waitFor, pause)
}

// The longest card of the description fits: 1,000 merchants of 80 characters, each written as two
// escapes.
func TestTheLongestCardFits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	merchant, mcc := `"`+strings.Repeat(`\ud83d\ude00`, 80)+`"`, `"5411"`
	lists := fmt.Sprintf(`,"allowedMccs":[%s],"allowedMerchants":[%s]`, strings.Repeat(mcc+",", 999)+mcc,
		strings.Repeat(merchant+",", 999)+merchant)
	w.mint(tn, lists)
}
