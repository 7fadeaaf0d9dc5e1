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

// Every guide and every group of the reference is a page under the policy of the hosted pages, and
// every link among them leads to an existing page and anchor.
func TestGuidesRenderAndTheirLinksResolve(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := regexp.MustCompile(`href="(/docs[^"#?]*)?(#[^"]*)?"`)
	pages := map[string]string{}
	names := append([]string{"", "api"}, guideNames...)
	for _, group := range w.server.checkouts.reference.groups {
		names = append(names, "api/"+group.Name)
	}
	for _, name := range names {
		path := strings.TrimSuffix("/docs/"+name, "/")
		status, contentType, policy, body := w.askAs(path, "text/html")
		require.Equal(t, 200, status, path)
		require.Equal(t, "text/html; charset=utf-8", contentType)
		require.Equal(t, web.Policy, policy)
		pages[path] = body
	}
	for _, guide := range w.server.checkouts.library.All() {
		require.NotEmpty(t, guide.Summary, guide.Name)
	}
	for path, body := range pages {
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
		"/docs/api/a":    func(ctx *fasthttp.RequestCtx) error { return h.showReferenceGroup(ctx, namedCall("group", group)) },
		"/docs/api/none": func(ctx *fasthttp.RequestCtx) error { return h.showReferenceGroup(ctx, namedCall("group", "none")) },
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
		for _, path := range []string{"/docs/x%d", "/docs/api/x%d", "/docs/search?q=x%d"} {
			w.askAs(fmt.Sprintf(path, n), "text/html")
		}
	}
	require.Equal(t, 2, kept(), "the guide and the group that do not exist")
}

func namedCall(parameter, value string) *call {
	return &call{params: map[string]string{parameter: value}}
}

func TestEverySampleInTheGuidesHasALanguage(t *testing.T) {
	t.Parallel()
	for _, name := range guideNames {
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

func TestSearchOfTheGuidesFindsAndEscapes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, _, body := w.askAs("/docs/search?q=monthly_limit_exceeded", "text/html")
	require.Contains(t, body, `href="/docs/cards-and-decisions#reasons"`)
	_, _, _, body = w.askAs("/docs/search?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E%ff", "text/html")
	require.NotContains(t, body, "<script")
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

func TestReferenceShowsEveryOperationOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, g := range w.server.checkouts.reference.groups {
		_, _, _, body := w.askAs("/docs/api/"+g.Name, "text/html")
		for _, o := range g.Operations {
			require.Equal(t, 1, strings.Count(body, `<h2 id="`+o.Anchor+`">`), o.Anchor)
		}
	}
	status, _, _, body := w.askAs("/docs/api/nothing", "text/html")
	require.Equal(t, 404, status)
	require.Contains(t, body, "Not in the reference")
}

func TestNetworkPortHasItsOwnDescription(t *testing.T) {
	t.Parallel()
	status, contentType, _, body := newWorld(t).askAs("/docs/api/network.json", "application/json")
	require.Equal(t, 200, status)
	require.Equal(t, "application/json", contentType)
	require.Contains(t, body, `"/v1/authorizations"`)
}

func TestSearchOfTheGuidesFindsOperations(t *testing.T) {
	t.Parallel()
	_, _, _, body := newWorld(t).askAs("/docs/search?q=%2Fv1%2Freversals", "text/html")
	require.Contains(t, body, `href="/docs/api/network#reverse"`)
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
	require.Contains(t, body, "<td>10,000,000</td>\n<td>cards of a workspace</td>")
	require.Contains(t, body, "<td>366</td>\n<td>days of a statement</td>")
}
