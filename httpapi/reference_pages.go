package httpapi

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"

	"purser/actors/fault"
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
	program   string // signs an intent, for the shell
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
	program, err := intentProgram()
	return &documents{library, r, program}, err
}

// passages returns a passage for each operation, for the search of the guides.
func (r *apiReference) passages() (passages []guides.Passage) {
	for _, g := range r.groups {
		for _, o := range g.Operations {
			passages = append(passages, guides.Passage{Page: "api/" + o.Anchor, Title: "API reference, " + g.Title,
				Heading: o.Summary, Names: []string{o.Anchor},
				Text: strings.ReplaceAll(o.Method+" "+o.Path+" "+o.Plain, "`", "")})
		}
	}
	return passages
}

// operationAt is an operation with its group.
type operationAt struct {
	group     reference.Group
	operation reference.Operation
}

// operations returns every operation in order.
func (r *apiReference) operations() (all []operationAt) {
	for _, g := range r.groups {
		for _, o := range g.Operations {
			all = append(all, operationAt{g, o})
		}
	}
	return all
}

// operationFault is an error that an operation answers.
type operationFault struct {
	Status int
	Code   string
	When   template.HTML
}

// faultsOf returns the errors of an operation, sorted by status. The codes of JSON-RPC, which are
// numbers, are in the description.
func faultsOf(o reference.Operation) (faults []operationFault) {
	for _, code := range o.Errors {
		if code == "missing_scope" {
			faults = append(faults, operationFault{fasthttp.StatusForbidden, code + ":" + o.Scope,
				"The key lacks the scope."})
			continue
		}
		status, ok := statuses[fault.Code(code)]
		if !ok {
			continue
		}
		faults = append(faults, operationFault{status, code, reference.Inline(meanings[fault.Code(code)])})
	}
	slices.SortStableFunc(faults, func(a, b operationFault) int { return a.Status - b.Status })
	return faults
}

func (h *checkoutHandlers) showReference(ctx *fasthttp.RequestCtx, _ *call) error {
	introduction, _ := h.library.Guide(referenceName)
	before, after, _ := strings.Cut(introduction.HTML, "<h2") // the list of operations stands between
	return h.writeReference(ctx, web.Reference{Docs: web.Docs{Title: introduction.Title}, Body: template.HTML(before),
		After: template.HTML("<h2" + after)})
}

// showReferenceOf handles GET /docs/api/{name}: the page of an operation, or of a group. An unknown
// name shows a page with status 404. It fails only when the page cannot be written.
func (h *checkoutHandlers) showReferenceOf(ctx *fasthttp.RequestCtx, c *call) error {
	name := c.params["name"]
	if at := slices.IndexFunc(h.reference.groups, func(g reference.Group) bool { return g.Name == name }); at >= 0 {
		group := h.reference.groups[at]
		return h.writeReference(ctx, web.Reference{Docs: web.Docs{Title: group.Title, Name: name}, Group: group})
	}
	all := h.reference.operations()
	at := slices.IndexFunc(all, func(o operationAt) bool { return o.operation.Anchor == name })
	if at < 0 {
		ctx.SetStatusCode(fasthttp.StatusNotFound)
		return h.writeReference(ctx, web.Reference{Docs: web.Docs{Title: "Not in the reference", Missing: true}})
	}
	o := all[at].operation
	page := web.Reference{Docs: web.Docs{Title: o.Summary, Name: name}, Group: all[at].group, Operation: o,
		Faults: faultsOf(o)}
	if at > 0 {
		page.Previous = all[at-1].operation
	}
	if at < len(all)-1 {
		page.Next = all[at+1].operation
	}
	return h.writeReference(ctx, page)
}

// sampleLanguages are the values of the parameter language. The first is the default.
var sampleLanguages = []string{"curl", "python", "typescript", "go"}

// writeReference answers with a page of the reference in the language of the query, which the links
// of the page keep. It fails only when the template does.
func (h *checkoutHandlers) writeReference(ctx *fasthttp.RequestCtx, page web.Reference) error {
	page.Language = sampleLanguages[0]
	if asked := string(ctx.QueryArgs().Peek("language")); slices.Contains(sampleLanguages[1:], asked) {
		page.Language, page.Kept = asked, template.URL("?language="+asked)
	}
	return h.pages.writePage(ctx, "/docs/api/"+page.Name+string(page.Kept)+"#"+page.Title, func(w io.Writer) error {
		page.Nav = h.reference.groups
		return h.site.WriteReference(w, page)
	})
}

// showNetworkDescription answers with the OpenAPI description of the card network's port.
func (h *checkoutHandlers) showNetworkDescription(ctx *fasthttp.RequestCtx, _ *call) error {
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(h.reference.network)
	return nil
}
