package httpapi

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"purser/actors/workspace"
	"purser/httpapi/dashboard"
)

// sitePage is a page of the dashboard in a table of all of them. Its kinds are the kinds of records
// that the parameters of its address name, as x-ids has them.
type sitePage struct {
	dashboard.PageAddress
	kinds map[string]string
}

// sitePages lists every page that the dashboard has. A page is in it as soon as the site has it:
// the operations that it reads say which record its address names.
func (w *world) sitePages() (all []sitePage) {
	w.t.Helper()
	for _, listed := range w.server.pages.site.Pages() {
		p := sitePage{PageAddress: listed, kinds: map[string]string{}}
		names := parametersOf(listed.Address)
		for _, op := range append(w.readsOf(listed), operationsOf(listed.Forms)...) {
			for _, name := range names {
				if kind := w.kindOf(op, name); kind != "" && p.kinds[name] == "" {
					p.kinds[name] = kind
				}
			}
		}
		for _, name := range names {
			if name == "currency" { // a code, of which a workspace has one account
				p.kinds[name] = name
			}
			require.NotEmpty(w.t, p.kinds[name], "no operation of %s takes its {%s}", listed.Address, name)
		}
		all = append(all, p)
	}
	return all
}

// parametersOf returns the names of an address's parameters but the workspace.
func parametersOf(address string) (names []string) {
	for _, part := range strings.Split(address, "/") {
		if name := strings.Trim(part, "{}"); name != part && name != "workspace" {
			names = append(names, name)
		}
	}
	return names
}

// recordingAPI records the operations that a page reads. It answers each with an empty document.
type recordingAPI struct{ read []dashboard.Operation }

func (a *recordingAPI) Do(op dashboard.Operation) dashboard.Answer {
	a.read = append(a.read, op)
	return dashboard.Answer{Status: 200, Body: []byte(`{}`)}
}
func (a *recordingAPI) May(string, string) bool { return true }
func (a *recordingAPI) NewKey() (string, error) { return someUUID, nil }

// readsOf returns the operations that a page reads.
func (w *world) readsOf(p dashboard.PageAddress) []dashboard.Operation {
	w.t.Helper()
	address := strings.ReplaceAll(p.Address, "{workspace}", "ws_1")
	for _, name := range parametersOf(address) {
		address = strings.ReplaceAll(address, "{"+name+"}", "the-"+name)
	}
	api := new(recordingAPI)
	v := &dashboard.Visit{Method: "GET", Path: strings.Trim(strings.TrimPrefix(address, dashboard.Root), "/"),
		Query: url.Values{}, API: api, Email: "ada@example.com", Sandbox: true, Now: w.clock.now()}
	if p.Member {
		v.Workspace, v.Name, v.Role = "ws_1", "Ada", workspace.Owner
	}
	_, err := w.server.pages.site.Serve(v)
	require.NoError(w.t, err, p.Address)
	return api.read
}

// operationsOf returns the operations that forms run, with the parameters of their pages.
func operationsOf(forms []dashboard.FormAddress) (all []dashboard.Operation) {
	for _, f := range forms {
		op := dashboard.Operation{Method: f.Method, Path: f.Path, Params: map[string]string{},
			Query: map[string]string{}}
		for _, name := range parametersOf(f.Page) {
			op.Params[name] = "the-" + name
		}
		if f.Method == "DELETE" && !strings.Contains(f.Path, "{") {
			op.Query["id"] = "the-id"
		}
		all = append(all, op)
	}
	return all
}

// kindOf returns the kind of record that an operation finds with a parameter of a page's address,
// or "".
func (w *world) kindOf(op dashboard.Operation, name string) string {
	item := w.checked.Doc.Paths.Value(op.Path)
	if item == nil || item.GetOperation(op.Method) == nil {
		return ""
	}
	ids, _ := item.GetOperation(op.Method).Extensions["x-ids"].(map[string]any)
	for in, values := range map[string]map[string]string{"path.": op.Params, "query.": op.Query} {
		for field, value := range values {
			if kind, _ := ids[in+field].(string); value == "the-"+name && kind != "" && kind != noRecord {
				return kind
			}
		}
	}
	return ""
}

// addressIn returns the page's address in a workspace, with an id of the estate for each parameter.
func (p *sitePage) addressIn(workspace string, e *estate) string {
	address := strings.ReplaceAll(p.Address, "{workspace}", workspace)
	for name, kind := range p.kinds {
		address = strings.ReplaceAll(address, "{"+name+"}", e.id(kind))
	}
	return address
}

// fillForm returns a value for every field of a form: its default or first choice, or else the
// value of the operation's example.
func (w *world) fillForm(f dashboard.FormAddress) url.Values {
	w.t.Helper()
	form, example := url.Values{"key": {newUUID(w.n)}}, w.bodyExample(f)
	w.n++
	for _, field := range f.Fields {
		text, _ := example[field.Name].(string)
		value := cmp.Or(field.Default, text, "x")
		switch {
		case field.Default == "" && len(field.Options) > 0:
			value = field.Options[len(field.Options)-1].Value
		case field.Default == "" && (field.Kind == "dollars" || field.Kind == "number"):
			value = "1"
		}
		form.Set(field.Name, value)
	}
	return form
}

// bodyExample returns the example of the body of the operation that a form runs.
func (w *world) bodyExample(f dashboard.FormAddress) map[string]any {
	w.t.Helper()
	doc := w.checked.Doc.Paths.Value(f.Path).GetOperation(f.Method)
	if doc.RequestBody == nil {
		return nil
	}
	return exampleOf(w.t, f.Method+" "+f.Path, doc.RequestBody.Value.Content.Get("application/json"), "")
}

// parsePage parses a page as a browser does.
func (w *world) parsePage(text string) *html.Node {
	w.t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	require.NoError(w.t, err)
	return root
}

// attributesOf returns the values of an attribute of all elements with a name.
func attributesOf(root *html.Node, element, attribute string) (values []string) {
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != element {
			continue
		}
		for _, a := range n.Attr {
			if a.Key == attribute && !slices.Contains(values, a.Val) {
				values = append(values, a.Val)
			}
		}
	}
	return values
}

// cast is a workspace with a session for every role. A stranger owns another workspace.
type cast struct {
	tenant
	estate   *estate
	stranger tenant
	cookies  map[string]string // by role
}

// newCast signs up a workspace's owner, an admin, a member, and a stranger.
func (w *world) newCast() *cast {
	w.t.Helper()
	c := &cast{tenant: w.rampTenant("olga"), stranger: w.rampTenant("mallory")}
	c.estate = w.newEstate(c.tenant)
	c.cookies = map[string]string{workspace.Owner: c.cookie}
	for _, role := range []string{workspace.Admin, workspace.Member} {
		_, c.cookies[role] = w.person(c.tenant, role)
	}
	return c
}

// permits reports whether a role may run the operation of a form.
func (w *world) permits(role string, f dashboard.FormAddress) bool {
	who := caller{user: "usr_x", access: workspace.Access{Role: role}}
	return who.mayRun(w.server.pages.routes[f.Method+" "+f.Path])
}

// formName names a form in the message of a failed test.
func formName(who string, f dashboard.FormAddress) string {
	return fmt.Sprintf("%s: form %s of %s", who, f.Name, f.Page)
}
