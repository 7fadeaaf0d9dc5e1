package httpapi

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/httpapi/dashboard"
	"purser/httpapi/openapi/openapitest"
	"purser/httpapi/web"
)

// description is the OpenAPI description, from which the tables of this suite are made and against
// which every answer is checked.
type description struct{ *openapitest.Description }

var loadDescription = sync.OnceValues(openapitest.Load)

func describe(t testing.TB) *description {
	t.Helper()
	d, err := loadDescription()
	require.NoError(t, err)
	return &description{d}
}

// judgeAnswers checks every answer of a server against the description, over a client, a raw
// connection or a pipeline. Benchmarks are exempt, because the check takes longer than the answer.
func (w *world) judgeAnswers(s *Server) {
	if _, measured := w.t.(*testing.B); measured {
		return
	}
	serve, refuse := s.httpServer.http.Handler, s.httpServer.http.ErrorHandler
	judge := func(ctx *fasthttp.RequestCtx, method, path string) {
		err := w.checked.Judge(openapitest.Answer{Method: method, Path: path, Status: ctx.Response.StatusCode(),
			ContentType: string(ctx.Response.Header.ContentType()), Body: ctx.Response.Body()})
		if err != nil {
			w.t.Errorf("an answer that is not described: %v", err)
		}
	}
	s.httpServer.http.Handler = func(ctx *fasthttp.RequestCtx) {
		serve(ctx)
		if ctx.Response.StatusCode() == fasthttp.StatusHTTPVersionNotSupported {
			return // without an operation; the ErrorHandler below has judged the body
		}
		if path := string(ctx.URI().PathOriginal()); strings.HasPrefix(path, "/checkout/") || path == web.FaviconPath ||
			path == "/docs" || path == "/login" || strings.HasPrefix(path, "/docs/") || strings.HasPrefix(path, dashboard.Root) {
			return // HTML, or a stream
		}
		if ctx.Response.StatusCode() >= fasthttp.StatusBadRequest && prefersHTML(acceptOf(&ctx.Request.Header)) {
			return // a page to a browser
		}
		method := string(ctx.Method())
		if method == fasthttp.MethodHead {
			method = fasthttp.MethodGet // HEAD has the described answer of GET, without the body
		}
		judge(ctx, method, string(ctx.URI().PathOriginal()))
	}
	s.httpServer.http.ErrorHandler = func(ctx *fasthttp.RequestCtx, err error) {
		refuse(ctx, err)
		judge(ctx, "", "")
	}
}

// An answer that departs from the description fails its test.
func TestJudgeReportsUndescribedAnswers(t *testing.T) {
	t.Parallel()
	d := describe(t)
	f := func(method, path string, status int, body, want string) {
		t.Helper()
		err := d.Judge(openapitest.Answer{Method: method, Path: path, Status: status, ContentType: "application/json",
			Body: []byte(body)})
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, want)
	}
	f("GET", "/api/cards?limit=1", 200, `{"data":[],"nextCursor":null}`, "")
	f("GET", "/api/cards", 200, `{"data":[],"nextCursor":null,"surprise":1}`, "surprise")
	f("GET", "/api/cards", 200, `{"data":[]}`, "nextCursor")
	f("GET", "/api/cards", 200, ``, "unexpected end")
	f("GET", "/api/cards", 201, `{"data":[],"nextCursor":null}`, "status is not described")
	f("GET", "/api/cards", 403, `{"error":"missing_scope:read:cards"}`, "")
	f("GET", "/api/cards", 403, `{"error":"kyb_required"}`, "x-errors of listCards lacks kyb_required")
	f("GET", "/api/cards", 401, `{"error":"internal"}`, "no example of internal")
	f("PUT", "/api/cards", 405, `{"error":"method_not_allowed"}`, "")
	f("PUT", "/api/cards", 404, `{"error":"not_found"}`, "not_found is none of")
	f("GET", "/api/nothing", 404, `{"error":"not_found"}`, "")
	f("GET", "/api/nothing", 200, `{}`, "not described")
	f("", "", 431, `{"error":"header_too_large"}`, "")
	f("", "", 401, `{"error":"unauthorized"}`, "unauthorized is none of")
}
