package httpapi

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/authorizer/hold"
	"purser/httpapi/web"
)

// docsPages returns the pages of the guides and the reference by their paths.
func docsPages(t *testing.T, w *world) map[string]string {
	t.Helper()
	pages := map[string]string{}
	names := append([]string{"", "api"}, guideNames()...)
	for _, group := range w.server.checkouts.reference.groups {
		names = append(names, "api/"+group.Name)
		for _, o := range group.Operations {
			names = append(names, "api/"+o.Anchor)
		}
	}
	for _, name := range names {
		path := strings.TrimSuffix("/docs/"+name, "/")
		require.NotContains(t, pages, path, "a group and an operation have the same name")
		status, contentType, policy, body := w.askAs(path, "text/html")
		require.Equal(t, 200, status, path)
		require.Equal(t, "text/html; charset=utf-8", contentType)
		require.Equal(t, web.Policy, policy)
		pages[path] = body
	}
	return pages
}

// Every guide, group and operation is a page under the policy of the hosted pages, and every link
// among them leads to an existing page and anchor.
func TestGuidesRenderAndTheirLinksResolve(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := regexp.MustCompile(`href="(/docs[^"#?]*)?(#[^"]*)?"`)
	pages := docsPages(t, w)
	for _, guide := range w.server.checkouts.library.All() {
		require.NotEmpty(t, guide.Summary, guide.Name)
	}
	for path, body := range pages {
		require.NotContains(t, body, " style=", path)
		for _, found := range link.FindAllStringSubmatch(body, -1) {
			target := found[1]
			if target == "" {
				target = path
			}
			if target == "/docs/api/network.json" {
				continue // no page
			}
			page, exists := pages[target]
			require.True(t, exists, "%s leads to %s", path, target)
			if found[2] != "" {
				require.True(t, strings.Contains(page, `id="`+found[2][1:]+`"`), "%s leads to %s%s", path, target,
					found[2])
			}
		}
	}
}

// A page that is the same for everybody is rendered once: a stranger's requests for it cost no
// rendering. Both answers have the same bytes in memory.
func TestPagesOfTheDocumentsAreRenderedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.server.checkouts
	group := h.reference.groups[0].Name
	for path, show := range map[string]func(*fasthttp.RequestCtx) error{
		"/docs":          func(ctx *fasthttp.RequestCtx) error { return h.showGuides(ctx, nil) },
		"/docs/webhooks": func(ctx *fasthttp.RequestCtx) error { return h.showGuide(ctx, namedCall("guide", "webhooks")) },
		"/docs/none":     func(ctx *fasthttp.RequestCtx) error { return h.showGuide(ctx, namedCall("guide", "none")) },
		"/docs/api":      func(ctx *fasthttp.RequestCtx) error { return h.showReference(ctx, nil) },
		"/docs/api/a": func(ctx *fasthttp.RequestCtx) error {
			return h.showReferenceOf(ctx, namedCall("name", group))
		},
		"/docs/api/none": func(ctx *fasthttp.RequestCtx) error {
			return h.showReferenceOf(ctx, namedCall("name", "none"))
		},
		"/docs/api/network.json": func(ctx *fasthttp.RequestCtx) error {
			return h.showNetworkDescription(ctx, nil)
		},
	} {
		var first, second fasthttp.RequestCtx
		require.NoError(t, show(&first), path)
		require.NoError(t, show(&second), path)
		require.NotEmpty(t, first.Response.Body(), path)
		require.Same(t, &first.Response.Body()[0], &second.Response.Body()[0], path)
	}
}

// Callers' texts add no page: neither unknown names nor searches are kept.
func TestNoCallerAddsAKeptPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept := func() (n int) {
		w.server.checkouts.pages.bodies.Range(func(any, any) bool { n++; return true })
		return n
	}
	for n := range 20 {
		for _, path := range []string{"/docs/x%d", "/docs/api/x%d", "/docs/api?language=x%d", "/docs/search?q=x%d"} {
			w.askAs(fmt.Sprintf(path, n), "text/html")
		}
	}
	require.Equal(t, 3, kept(), "the guide and the operation that do not exist, and the index")
}

func namedCall(parameter, value string) *call {
	return &call{params: map[string]string{parameter: value}}
}

func TestEverySampleInTheGuidesHasALanguage(t *testing.T) {
	t.Parallel()
	for _, name := range guideNames() {
		content, err := docs.ReadFile("docs/" + name + ".md")
		require.NoError(t, err)
		for i, fence := range regexp.MustCompile("(?m)^```.*$").FindAllString(string(content), -1) {
			require.Equal(t, i%2 == 0, fence != "```", "%s: fence %d is %q", name, i, fence)
		}
	}
}

func TestUnknownGuideIsAPageThatIsNotFound(t *testing.T) {
	t.Parallel()
	status, contentType, _, body := newWorld(t).askAs("/docs/nothing", "text/html")
	require.Equal(t, 404, status)
	require.Equal(t, "text/html; charset=utf-8", contentType)
	require.Contains(t, body, "Guide not found")
}

// The search finds a thing by the name that a person, a program or an operator has for it. The best
// place is the first.
func TestSearchFindsWhatAPersonCallsIt(t *testing.T) {
	t.Parallel()
	h := newWorld(t).server.checkouts
	for query, want := range map[string]string{
		"verify webhook":    "webhooks#verify-the-signature-of-a-delivery",
		"webhook signature": "webhooks#verify-the-signature-of-a-delivery",
		"create card":       "api/mintCard", "new card": "api/mintCard", "mint a card": "api/mintCard",
		"mintCard":    "api/mintCard",
		"freeze card": "api/updateCard", "how do I freeze a card?": "api/updateCard", "list cards": "api/listCards",
		"refund": "api/refund", "pay someone": "quickstart#pay-someone", "order a payout": "api/createPayout",
		"cancel wire": "api/cancelPayout", "add recipient": "api/createCounterparty", "login": "api/login",
		"create api key": "api/createKey", "idempotency_key_mismatch": "errors#idempotency_key_mismatch",
		"insufficient_funds": "errors#insufficient_funds", "unauthorized": "errors#unauthorized",
		"monthly_limit_exceeded":     "cards-and-decisions#monthly_limit_exceeded",
		"PURSER_DATA_DIR":            "operating#PURSER_DATA_DIR",
		"purser_tls_key":             "operating#PURSER_TLS_CERT",
		"PURSER_PARTNER_SECRET_RAMP": "operating#PURSER_PARTNER_SECRET_BANK",
		"PURSER_CARD_TOKEN":          "api#PURSER_CARD_TOKEN", "DATABASE_URL": "operating#DATABASE_URL",
		"/v1/reversals": "api/reverse",
		"quickstart":    "quickstart#quickstart", "generated clients": "clients#generated-clients",
		"magic amounts": "sandbox#magic-amounts", "backup": "operating#backup-and-restore",
	} {
		found := h.library.Search(query)
		require.NotEmpty(t, found, query)
		require.Equal(t, want, strings.TrimSuffix(found[0].Page+"#"+found[0].Anchor, "#"), query)
	}
}

// Every variable of the table of settings, and every code of the errors, is found by its name.
func TestSearchFindsEveryVariableAndEveryCode(t *testing.T) {
	t.Parallel()
	h := newWorld(t).server.checkouts
	content, err := docs.ReadFile("docs/operating.md")
	require.NoError(t, err)
	var names []string
	variables := regexp.MustCompile(`(?m)^\| ((?:[A-Z]+_[A-Z_]+(?:, )?)+) \|`)
	for _, row := range variables.FindAllStringSubmatch(string(content), -1) {
		names = append(names, strings.Split(row[1], ", ")...)
	}
	require.Greater(t, len(names), 50)
	for code := range statuses {
		names = append(names, string(code))
	}
	for _, name := range names {
		found := h.library.Search(name)
		require.NotEmpty(t, found, name)
		require.Contains(t, found[0].Names, name)
	}
}

func TestSearchPageEscapesTheQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, _, body := w.askAs("/docs/search?q=monthly_limit_exceeded", "text/html")
	require.Contains(t, body, `href="/docs/cards-and-decisions#monthly_limit_exceeded"`)
	_, _, _, body = w.askAs("/docs/search?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E%ff", "text/html")
	require.NotContains(t, body, "<script>")
	require.Contains(t, body, "&lt;script&gt;")
	_, _, _, body = w.askAs("/docs/search?q="+strings.Repeat("w", 101), "text/html")
	require.NotContains(t, body, strings.Repeat("w", 101))
}

func TestTheGuideOfErrorsHasEveryCode(t *testing.T) {
	t.Parallel()
	_, _, _, body := newWorld(t).askAs("/docs/errors", "text/html")
	for code := range statuses {
		require.Contains(t, body, "<code>"+string(code)+"</code>")
	}
}

func TestTheGuideOfCardsHasEveryReasonWithItsCode(t *testing.T) {
	t.Parallel()
	content, err := docs.ReadFile("docs/cards-and-decisions.md")
	require.NoError(t, err)
	for reason := hold.ReasonApproved; ; reason++ {
		name, err := reason.MarshalText()
		if err != nil {
			require.Greater(t, reason, hold.ReasonForcedPost)
			return
		}
		require.Contains(t, string(content), "| `"+string(name)+"` | `"+reason.ResponseCode(false)+"` |")
	}
}

// The page of an operation has its sample and its answer open, in the language of the address, which
// every link to another operation keeps.
func TestOperationHasAPageInEachLanguage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for query, want := range map[string]string{"": "curl", "?language=go": "go", "?language=python": "python",
		"?language=cobol": "curl"} {
		_, _, _, body := w.askAs("/docs/api/createPayout"+query, "text/html")
		require.Contains(t, body, "<h1>Order a payout</h1>")
		require.Equal(t, 1, strings.Count(body, `<code class="language-`), query)
		require.Contains(t, body, `<code class="language-`+want+`">`)
		require.Contains(t, body, `aria-label="Answer 200 application/json"`)
		require.Equal(t, 1, strings.Count(body, "write:payouts</li>"), "the scope stands once")
		require.NotContains(t, body, "Needs <code>")
		kept := ""
		if want != "curl" {
			kept = query
		}
		require.Contains(t, body, `href="/docs/api/mintCard`+kept+`"`)
		require.Contains(t, body, `href="?language=typescript#samples"`)
		require.Contains(t, body, `<code>missing_scope:write:payouts</code>`)
	}
	status, _, _, body := w.askAs("/docs/api/nothing", "text/html")
	require.Equal(t, 404, status)
	require.Contains(t, body, "Not in the reference")
}

// An address of the time when a group was one page still leads to its operations.
func TestOldAnchorsOfAGroupLeadToTheirOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, g := range w.server.checkouts.reference.groups {
		_, _, _, body := w.askAs("/docs/api/"+g.Name, "text/html")
		for _, o := range g.Operations {
			link := `<li id="` + o.Anchor + `"><a href="/docs/api/` + o.Anchor + `">`
			require.Equal(t, 1, strings.Count(body, link), o.Anchor)
		}
	}
}

// Every error of an operation has a status and a meaning.
func TestErrorsOfOperationsHaveTheirMeaning(t *testing.T) {
	t.Parallel()
	for _, g := range newWorld(t).server.checkouts.reference.groups {
		for _, o := range g.Operations {
			for _, f := range faultsOf(o) {
				require.NotZero(t, f.Status, "%s %s", o.Anchor, f.Code)
				require.NotEmpty(t, f.When, "%s %s", o.Anchor, f.Code)
			}
		}
	}
}

func TestNetworkPortHasItsOwnDescription(t *testing.T) {
	t.Parallel()
	status, contentType, _, body := newWorld(t).askAs("/docs/api/network.json", "application/json")
	require.Equal(t, 200, status)
	require.Equal(t, "application/json", contentType)
	require.Contains(t, body, `"/v1/authorizations"`)
}

func TestEveryErrorCodeHasAMeaning(t *testing.T) {
	t.Parallel()
	for code := range statuses {
		require.NotEmpty(t, meanings[code], code)
	}
	require.Len(t, meanings, len(statuses))
}

func TestGuideOfLimitsHasTheLimitsOfTheCode(t *testing.T) {
	t.Parallel()
	_, _, _, body := newWorld(t).askAs("/docs/limits", "text/html")
	require.Contains(t, body, `>10,000,000</td>`+"\n"+`<td role="cell" data-label="Of">cards of a workspace</td>`)
	require.Contains(t, body, `>366</td>`+"\n"+`<td role="cell" data-label="Of">days of a statement</td>`)
}
