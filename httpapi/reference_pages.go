package httpapi

import (
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/valyala/fasthttp"

	"purser/httpapi/guides"
	"purser/httpapi/openapi"
	"purser/httpapi/reference"
	"purser/httpapi/web"
)

// apiReference is the API reference, ready to be shown: the groups of the REST interface and that
// of the card network's port.
type apiReference struct {
	groups  []reference.Group
	network []byte // the description of the card network's port, as JSON
}

// newAPIReference renders the reference of both ports. It fails only for a defect of the
// descriptions.
func newAPIReference(description *openapi.Document) (*apiReference, error) {
	groups, err := reference.New(description.JSON())
	if err != nil {
		return nil, err
	}
	network, err := openapi.NetworkJSON()
	if err != nil {
		return nil, err
	}
	ofNetwork, err := reference.New(network)
	if err != nil {
		return nil, fmt.Errorf("card network: %w", err)
	}
	return &apiReference{groups: append(groups, ofNetwork...), network: network}, nil
}

// documents are the guides and the API reference. They are immutable.
type documents struct {
	library   *guides.Library
	reference *apiReference
}

// renderedDocuments returns the documents of the process, which its first call renders. It fails
// only for a defect of the embedded texts.
var renderedDocuments = sync.OnceValues(newDocuments)

// newDocuments renders the guides and the reference. The search of the guides finds operations too.
// It fails only for a defect of the embedded texts.
func newDocuments() (*documents, error) {
	description, err := openapi.Load()
	if err != nil {
		return nil, err
	}
	library, err := newLibrary()
	if err != nil {
		return nil, err
	}
	r, err := newAPIReference(description)
	if err != nil {
		return nil, err
	}
	library.AddPassages(r.passages()...)
	return &documents{library, r}, nil
}

// passages returns a passage for each operation, for the search of the guides.
func (r *apiReference) passages() (passages []guides.Result) {
	for _, g := range r.groups {
		for _, o := range g.Operations {
			passages = append(passages, guides.Result{Guide: "api/" + g.Name, Title: g.Title, Anchor: o.Anchor,
				Heading: o.Summary, Text: o.Method + " " + o.Path})
		}
	}
	return passages
}

func (h *checkoutHandlers) showReference(ctx *fasthttp.RequestCtx, _ *call) error {
	return h.writeReference(ctx, web.Reference{Title: "API reference"})
}

// showReferenceGroup handles GET /docs/api/{group}. An unknown group shows a page with status 404.
// It fails only when the page cannot be written.
func (h *checkoutHandlers) showReferenceGroup(ctx *fasthttp.RequestCtx, c *call) error {
	name := c.params["group"]
	at := slices.IndexFunc(h.reference.groups, func(g reference.Group) bool { return g.Name == name })
	if at < 0 {
		ctx.SetStatusCode(fasthttp.StatusNotFound)
		return h.writeReference(ctx, web.Reference{Title: "Not in the reference", Missing: true})
	}
	group := h.reference.groups[at]
	return h.writeReference(ctx, web.Reference{Title: group.Title, Name: name, Group: group})
}

// writeReference answers with a page of the reference. It fails only when the template does.
func (h *checkoutHandlers) writeReference(ctx *fasthttp.RequestCtx, page web.Reference) error {
	return h.pages.writePage(ctx, "/docs/api/"+page.Name+"#"+page.Title, func(w io.Writer) error {
		page.Groups = h.reference.groups
		return h.site.WriteReference(w, page)
	})
}

// showNetworkDescription answers with the OpenAPI description of the card network's port.
func (h *checkoutHandlers) showNetworkDescription(ctx *fasthttp.RequestCtx, _ *call) error {
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(h.reference.network)
	return nil
}
