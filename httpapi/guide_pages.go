package httpapi

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"slices"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"purser/httpapi/guides"
	"purser/httpapi/web"
)

// docs holds the Markdown of the guides.
//
//go:embed docs/*.md
var docs embed.FS

// guideGroups lists the guides in the order of the list beside each page.
var guideGroups = []struct {
	title string
	names []string
}{
	{"Start", []string{"quickstart", "dashboard", "sandbox", "errors", "limits", "clients"}},
	{"Guides", []string{"cards-and-decisions", "agents", "treasury-and-payouts", "currencies", "ramp", "checkout",
		"webhooks"}},
	{"Operate", []string{"operating", "security"}},
}

// referenceName names the introduction of the API reference, which is a guide at /docs/api.
const referenceName = "api"

// guideNames returns the names of the guides in order.
func guideNames() (names []string) {
	for _, group := range guideGroups {
		names = append(names, group.names...)
	}
	return names
}

// newLibrary renders the guides. The guides of errors and of limits end with tables of the code. It
// fails only for a defect of the embedded guides.
func newLibrary() (*guides.Library, error) {
	var sources []guides.Source
	for _, name := range append(guideNames(), referenceName) {
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

// shellProgram matches the first program of a guide for the shell.
var shellProgram = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// intentProgram returns the guide's shell program that signs an intent. It fails only for a defect
// of the embedded guide.
func intentProgram() (string, error) {
	guide, err := docs.ReadFile("docs/agents.md")
	if err != nil {
		return "", fmt.Errorf("guide agents: %w", err)
	}
	program := shellProgram.FindSubmatch(guide)
	if program == nil {
		return "", errors.New("guide agents: no program for the shell")
	}
	return string(program[1]), nil
}

// mountGuides mounts the guides. They are HTML, outside the described interface.
func (h *checkoutHandlers) mountGuides(r *router.Router) {
	h.mountPage(r, fasthttp.MethodGet, "/docs", h.showGuides)
	h.mountPage(r, fasthttp.MethodGet, "/docs/search", h.searchGuides)
	h.mountPage(r, fasthttp.MethodGet, "/docs/{guide}", h.showGuide)
	h.mountPage(r, fasthttp.MethodGet, "/docs/api", h.showReference)
	h.mountPage(r, fasthttp.MethodGet, "/docs/api/network.json", h.showNetworkDescription)
	h.mountPage(r, fasthttp.MethodGet, "/docs/api/{name}", h.showReferenceOf)
}

// guideGroup is a list of guides under a title.
type guideGroup struct {
	Title  string
	Guides []*guides.Guide
}

// guideNav returns the lists beside a page of the guides.
func (h *checkoutHandlers) guideNav() (nav []guideGroup) {
	rest := h.library.All()
	for _, group := range guideGroups {
		nav = append(nav, guideGroup{group.title, rest[:len(group.names)]})
		rest = rest[len(group.names):]
	}
	return nav
}

func (h *checkoutHandlers) showGuides(ctx *fasthttp.RequestCtx, _ *call) error {
	return h.writeGuide(ctx, web.Guide{Docs: web.Docs{Title: "Guides"}})
}

// showGuide handles GET /docs/{guide}. An unknown guide shows a page with status 404. It fails only
// when the page cannot be written.
func (h *checkoutHandlers) showGuide(ctx *fasthttp.RequestCtx, c *call) error {
	names := guideNames()
	at := slices.Index(names, c.params["guide"])
	if at < 0 {
		ctx.SetStatusCode(fasthttp.StatusNotFound)
		return h.writeGuide(ctx, web.Guide{Docs: web.Docs{Title: "Guide not found", Missing: true}})
	}
	all := h.library.All()
	guide := all[at]
	page := web.Guide{Docs: web.Docs{Title: guide.Title, Name: guide.Name}, Contents: guide.Contents,
		Body: template.HTML(guide.HTML)}
	if at > 0 {
		page.Previous = all[at-1]
	}
	if at < len(names)-1 {
		page.Next = all[at+1]
	}
	return h.writeGuide(ctx, page)
}

// searchGuides handles GET /docs/search: it finds sections of the guides, operations, errors and
// settings. A query without a result shows an empty page. It fails only when the page cannot be
// written.
func (h *checkoutHandlers) searchGuides(ctx *fasthttp.RequestCtx, _ *call) error {
	query := guides.Trim(string(ctx.QueryArgs().Peek("q")))
	ctx.Response.Header.SetContentType("text/html; charset=utf-8")
	return h.site.WriteGuide(ctx.Response.BodyWriter(), web.Guide{
		Docs:     web.Docs{Title: "Search", Query: query, Nav: h.guideNav()},
		Searched: true, Results: h.library.Search(query)})
}

// writeGuide answers with a page of the guides. It fails only when the template does.
func (h *checkoutHandlers) writeGuide(ctx *fasthttp.RequestCtx, page web.Guide) error {
	return h.pages.writePage(ctx, "/docs/"+page.Name+"#"+page.Title, func(w io.Writer) error {
		page.Nav = h.guideNav()
		return h.site.WriteGuide(w, page)
	})
}
