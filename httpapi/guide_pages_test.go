package httpapi

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/httpapi/web"
)

// Every guide is a page under the policy of the hosted pages, and every link within the guides
// leads to a page and an anchor.
func TestGuidesRenderAndTheirLinksResolve(t *testing.T) {
	w := newWorld(t)
	link := regexp.MustCompile(`href="(/docs[^"#?]*)?(#[^"]*)?"`)
	pages := map[string]string{}
	for _, name := range append([]string{""}, guideNames...) {
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
			require.Contains(t, pages, target, path)
			if found[2] != "" {
				require.Contains(t, pages[target], `id="`+found[2][1:]+`"`, path+found[2])
			}
		}
	}
}

func TestEverySampleInTheGuidesHasALanguage(t *testing.T) {
	for _, name := range guideNames {
		content, err := docs.ReadFile("docs/" + name + ".md")
		require.NoError(t, err)
		for i, fence := range regexp.MustCompile("(?m)^```.*$").FindAllString(string(content), -1) {
			require.Equal(t, i%2 == 0, fence != "```", "%s: fence %d is %q", name, i, fence)
		}
	}
}

func TestUnknownGuideIsAPageThatIsNotFound(t *testing.T) {
	status, contentType, _, body := newWorld(t).askAs("/docs/nothing", "text/html")
	require.Equal(t, 404, status)
	require.Equal(t, "text/html; charset=utf-8", contentType)
	require.Contains(t, body, "Guide not found")
}

func TestSearchOfTheGuidesFindsAndEscapes(t *testing.T) {
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
	_, _, _, body := newWorld(t).askAs("/docs/errors", "text/html")
	for code := range statuses {
		require.Contains(t, body, "<code>"+string(code)+"</code>")
	}
}

func TestTheGuideOfCardsHasEveryReasonWithItsCode(t *testing.T) {
	content, err := docs.ReadFile("docs/cards-and-decisions.md")
	require.NoError(t, err)
	for reason := hold.ReasonApproved; reason <= hold.ReasonForcedPost; reason++ {
		require.Contains(t, string(content), "| `"+reason.String()+"` | `"+reason.ResponseCode(false)+"` |")
	}
}
