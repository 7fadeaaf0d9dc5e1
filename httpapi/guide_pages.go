package httpapi

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"purser/actors/fault"
	"purser/httpapi/guides"
	"purser/httpapi/web"
)

// docs holds the Markdown of the guides.
//
//go:embed docs/*.md
var docs embed.FS

// guideNames lists the guides in the order of the list beside each page.
var guideNames = []string{"quickstart", "cards-and-decisions", "ramp", "agents", "checkout", "webhooks", "errors",
	"sandbox",
	"operating"}

// newLibrary renders the guides. The guide of errors ends with the table of codes.
func newLibrary() (*guides.Library, error) {
	var sources []guides.Source
	for _, name := range guideNames {
		content, err := docs.ReadFile("docs/" + name + ".md")
		if err != nil {
			return nil, fmt.Errorf("guide %s: %w", name, err)
		}
		source := guides.Source{Name: name, Markdown: content}
		if name == "errors" {
			source.Markdown = append(source.Markdown, errorTable()...)
		}
		sources = append(sources, source)
	}
	return guides.New(sources)
}

// errorTable returns the table from codes to HTTP statuses as Markdown, sorted by status and code.
func errorTable() string {
	var table strings.Builder
	table.WriteString("\n| Status | `error` | Meaning of the status |\n|---|---|---|\n")
	codes := slices.SortedFunc(maps.Keys(statuses), func(a, b fault.Code) int {
		return cmp.Or(cmp.Compare(statuses[a], statuses[b]), cmp.Compare(a, b))
	})
	for _, code := range codes {
		fmt.Fprintf(&table, "| %d | `%s` | %s |\n", statuses[code], code, fasthttp.StatusMessage(statuses[code]))
	}
	return table.String()
}

// mountGuides mounts the guides. They are HTML, outside the described interface.
func (h *checkoutHandlers) mountGuides(r *router.Router) {
	mountRoute(r, fasthttp.MethodGet, "/docs", h.hosted(h.showGuides))
	mountRoute(r, fasthttp.MethodGet, "/docs/search", h.hosted(h.searchGuides))
	mountRoute(r, fasthttp.MethodGet, "/docs/{guide}", h.hosted(h.showGuide))
	mountRoute(r, fasthttp.MethodGet, "/docs/api", h.hosted(h.showReference))
	mountRoute(r, fasthttp.MethodGet, "/docs/api/network.json", h.hosted(h.showNetworkDescription))
	mountRoute(r, fasthttp.MethodGet, "/docs/api/{group}", h.hosted(h.showReferenceGroup))
}

func (h *checkoutHandlers) showGuides(ctx *fasthttp.RequestCtx, _ *call) error {
	return h.writeGuide(ctx, web.Guide{Title: "Guides"})
}

func (h *checkoutHandlers) showGuide(ctx *fasthttp.RequestCtx, c *call) error {
	guide, ok := h.library.Guide(c.params["guide"])
	if !ok {
		ctx.SetStatusCode(fasthttp.StatusNotFound)
		return h.writeGuide(ctx, web.Guide{Title: "Guide not found", Missing: true})
	}
	return h.writeGuide(ctx, web.Guide{Name: guide.Name, Title: guide.Title, Contents: guide.Contents,
		Body: template.HTML(guide.HTML)})
}

// searchGuides searches titles, headings and paragraphs for every word of the query.
func (h *checkoutHandlers) searchGuides(ctx *fasthttp.RequestCtx, _ *call) error {
	query := guides.Trim(string(ctx.QueryArgs().Peek("q")))
	return h.writeGuide(ctx, web.Guide{Title: "Search", Query: query, Searched: true, Results: h.library.Search(query)})
}

func (h *checkoutHandlers) writeGuide(ctx *fasthttp.RequestCtx, page web.Guide) error {
	page.Guides = h.library.All()
	var body bytes.Buffer
	if err := h.site.WriteGuide(&body, page); err != nil {
		return err
	}
	ctx.Response.Header.SetContentType("text/html; charset=utf-8")
	ctx.Response.SetBody(body.Bytes())
	return nil
}
