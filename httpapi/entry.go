package httpapi

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"purser/httpapi/dashboard"
	"purser/httpapi/web"
)

// entryPath is the root of the REST interface.
const entryPath = "/"

// entry is the JSON answer of the root path.
type entry struct {
	Name    string      `json:"name"`
	Sandbox bool        `json:"sandbox"`
	Links   []entryLink `json:"links"`
}

type entryLink struct {
	Rel    string `json:"rel"`
	Method string `json:"method"`
	Href   string `json:"href"`
}

// entryPlaces lists the first routes that a new user needs, in the order of use.
var entryPlaces = []struct{ rel, name, method, path string }{
	{"dashboard", "The dashboard", "GET", dashboard.Root},
	{"guides", "Guides", "GET", "/docs"},
	{"description", "The interface, as OpenAPI 3.1", "GET", "/api/v1/openapi.json"},
	{"signup", "Sign up", "POST", "/api/dashboard/signup"},
	{"workspaces", "Make a workspace", "POST", "/api/workspaces"},
	{"keys", "Make an API key", "POST", "/api/auth/keys"},
	{"mcp", "The Model Context Protocol, for models", "POST", "/api/mcp"},
}

func (s *Server) entryRoutes() []route {
	return []route{{method: "GET", path: entryPath, auth: authNone, handle: s.showEntry}}
}

// showEntry handles GET of the API's entry path: it answers the list of entry points, HTML to a
// browser, JSON to a program. It leads a browser with a session to the dashboard. It fails when the
// page cannot be rendered, and with an error of the store.
func (s *Server) showEntry(c *call) (answer, error) {
	program := entry{Name: "Purser", Sandbox: true}
	page := web.Entry{Sandbox: true}
	for _, p := range entryPlaces {
		program.Links = append(program.Links, entryLink{Rel: p.rel, Method: p.method, Href: s.cfg.BaseURL + p.path})
		page.Links = append(page.Links, web.Link{Name: p.name, Method: p.method, URL: s.cfg.BaseURL + p.path})
	}
	if !prefersHTML(c.header.accept) {
		return reply(program)
	}
	if home, err := s.pages.homeOf(c); home != "" || err != nil {
		return answer{status: fasthttp.StatusSeeOther, isPage: true, location: home}, err
	}
	var body bytes.Buffer
	if err := s.site.WriteEntry(&body, page); err != nil {
		return answer{}, err
	}
	return answer{status: fasthttp.StatusOK, body: body.Bytes(), isPage: true}, nil
}

// prefersHTML reports whether an Accept header names HTML and does not prefer JSON to it.
func prefersHTML(accept string) bool {
	html, json := 0.0, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		media, parameters, _ := strings.Cut(part, ";")
		quality := 1.0
		for parameter := range strings.SplitSeq(parameters, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
			if !strings.EqualFold(name, "q") {
				continue
			}
			var err error
			if quality, err = strconv.ParseFloat(value, 64); err != nil {
				quality = 0
			}
		}
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "text/html", "application/xhtml+xml":
			html = max(html, quality)
		case "application/json":
			json = max(json, quality)
		}
	}
	return html > 0 && html >= json
}
