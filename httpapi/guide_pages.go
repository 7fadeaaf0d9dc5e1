package httpapi

import (
	"embed"
	"fmt"
	"html/template"
	"io"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"purser/httpapi/guides"
	"purser/httpapi/web"
)

// docs holds the Markdown of the guides.
//
//go:embed docs/*.md
var docs embed.FS

// guideNames lists the guides in the order of the list beside each page.
var guideNames = []string{"quickstart", "dashboard", "cards-and-decisions", "treasury-and-payouts", "currencies",
	"ramp", "agents", "checkout", "webhooks", "errors", "limits", "sandbox", "operating", "security"}

// newLibrary renders the guides. The guides of errors and of limits end with tables of the code. It
// fails only for a defect of the embedded guides.
func newLibrary() (*guides.Library, error) {
	var sources []guides.Source
	for _, name := range guideNames {
		content, err := docs.ReadFile("docs/" + name + ".md")
		if err != nil {
			return nil, fmt.Errorf("guide %s: %w", name, err)
		}
		source := guides.Source{Name: name, Markdown: content}
		switch name {
		case "errors":
			source.Markdown = append(source.Markdown, errorTable()...)
		case "limits":
			source.Markdown = append(source.Markdown, limitTable()...)
		}
		sources = append(sources, source)
	}
	return guides.New(sources)
}

// mountGuides mounts the guides. They are HTML, outside the described interface.
func (h *checkoutHandlers) mountGuides(r *router.Router) {
	h.mountPage(r, fasthttp.MethodGet, "/docs", h.showGuides)
	h.mountPage(r, fasthttp.MethodGet, "/docs/search", h.searchGuides)
	h.mountPage(r, fasthttp.MethodGet, "/docs/{guide}", h.showGuide)
	h.mountPage(r, fasthttp.MethodGet, "/docs/api", h.showReference)
	h.mountPage(r, fasthttp.MethodGet, "/docs/api/network.json", h.showNetworkDescription)
	h.mountPage(r, fasthttp.MethodGet, "/docs/api/{group}", h.showReferenceGroup)
}

func (h *checkoutHandlers) showGuides(ctx *fasthttp.RequestCtx, _ *call) error {
	return h.writeGuide(ctx, web.Guide{Title: "Guides"})
}

// showGuide handles GET /docs/{guide}. An unknown guide shows a page with status 404. It fails only
// when the page cannot be written.
func (h *checkoutHandlers) showGuide(ctx *fasthttp.RequestCtx, c *call) error {
	guide, ok := h.library.Guide(c.params["guide"])
	if !ok {
		ctx.SetStatusCode(fasthttp.StatusNotFound)
		return h.writeGuide(ctx, web.Guide{Title: "Guide not found", Missing: true})
	}
	return h.writeGuide(ctx, web.Guide{Name: guide.Name, Title: guide.Title, Contents: guide.Contents,
		Body: template.HTML(guide.HTML)})
}

// searchGuides handles GET /docs/search: it searches titles, headings and paragraphs for every word
// of the query. A query without a result shows an empty page. It fails only when the page cannot be
// written.
func (h *checkoutHandlers) searchGuides(ctx *fasthttp.RequestCtx, _ *call) error {
	query := guides.Trim(string(ctx.QueryArgs().Peek("q")))
	ctx.Response.Header.SetContentType("text/html; charset=utf-8")
	return h.site.WriteGuide(ctx.Response.BodyWriter(), web.Guide{Title: "Search", Guides: h.library.All(), Query: query,
		Searched: true, Results: h.library.Search(query)})
}

// writeGuide answers with a page of the guides. It fails only when the template does.
func (h *checkoutHandlers) writeGuide(ctx *fasthttp.RequestCtx, page web.Guide) error {
	return h.pages.writePage(ctx, "/docs/"+page.Name+"#"+page.Title, func(w io.Writer) error {
		page.Guides = h.library.All()
		return h.site.WriteGuide(w, page)
	})
}
