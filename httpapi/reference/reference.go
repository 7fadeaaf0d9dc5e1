package reference

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
)

// methods are the HTTP methods of operations, in the order in which a path's operations are shown.
var methods = []string{"get", "post", "put", "patch", "delete"}

// Group is the operations of one tag.
type Group struct {
	Name        string // the tag
	Title       string
	Description string
	Operations  []Operation
}

// Operation is one method of one path.
type Operation struct {
	Anchor      string // its operationId
	Method      string // in capitals
	Path        string
	Summary     string        // a verb and an object, such as "Order a payout"
	Description template.HTML // without the scope
	Plain       string        // the description as Markdown
	Scope       string        // the scope that a key needs; "" for none
	Access      []string      // the credentials, the roles and the mode that it needs, besides the scope
	Deprecated  bool
	Parameters  []Field
	Body        []Field // empty without a body
	Answers     []Answer
	Errors      []string // codes, in the order of the description
	Samples     []Sample
}

// Section is a list of attributes under a heading.
type Section struct {
	Title  string
	Fields []Field
}

// Sections returns the attributes of a request by their place, in the order header, path, query and
// body, without the places that have none.
func (o Operation) Sections() (sections []Section) {
	for _, title := range []string{"Header", "Path", "Query"} {
		of := Section{Title: title}
		for _, f := range o.Parameters {
			if strings.EqualFold(f.In, title) {
				of.Fields = append(of.Fields, f)
			}
		}
		sections = append(sections, of)
	}
	sections = append(sections, Section{"Body", o.Body})
	return slices.DeleteFunc(sections, func(s Section) bool { return len(s.Fields) == 0 })
}

// Answer is a successful answer.
type Answer struct {
	Status, ContentType string
	Description         template.HTML // a sentence without its full stop
	Fields              []Field
	Example             string // JSON or text; "" without one
}

// description is an OpenAPI document as a tree.
type description struct {
	root map[string]any
	host host
}

// New reads a description in JSON. An operation with several tags appears under the first. Groups
// have the order of the document's tags. The resources of a group have the order of the document,
// their operations that of their use: create, get, list, change, end. An operation with a tag or
// credentials that are not known is an error.
func New(text []byte) ([]Group, error) {
	d := description{host: restHost}
	if err := json.Unmarshal(text, &d.root); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	if _, network := d.securitySchemes()["networkSecret"]; network {
		d.host = networkHost
	}
	groups, byName := d.emptyGroups()
	paths := asObject(d.root["paths"])
	written, err := pathOrder(text)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	for _, path := range written {
		for _, method := range methods {
			source := asObject(asObject(paths[path])[method])
			if source == nil {
				continue
			}
			tag := firstText(source["tags"])
			at, ok := byName[tag]
			if !ok {
				return nil, fmt.Errorf("reference: %s %s has the tag %q, which is not described", method, path, tag)
			}
			operation, err := d.readOperation(method, path, source)
			if err != nil {
				return nil, fmt.Errorf("reference: %s %s: %w", method, path, err)
			}
			groups[at].Operations = append(groups[at].Operations, operation)
		}
	}
	for _, g := range groups {
		sortByUse(g.Operations)
	}
	return slices.DeleteFunc(groups, func(g Group) bool { return len(g.Operations) == 0 }), nil
}

// pathOrder returns the paths of a description in the order in which it has them.
func pathOrder(text []byte) (paths []string, err error) {
	var document struct{ Paths json.RawMessage }
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(document.Paths))
	if _, err := d.Token(); err != nil { // the opening brace
		return nil, err
	}
	for d.More() {
		path, err := d.Token()
		if err != nil {
			return nil, err
		}
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return nil, err
		}
		paths = append(paths, asText(path))
	}
	return paths, nil
}

// sortByUse sorts the operations of a group by their resources, which keep their order, and those of
// a resource by their use.
func sortByUse(operations []Operation) {
	first := map[string]int{}
	for i, o := range operations {
		if _, ok := first[resourceOf(o)]; !ok {
			first[resourceOf(o)] = i
		}
	}
	slices.SortStableFunc(operations, func(a, b Operation) int {
		return cmp.Or(first[resourceOf(a)]-first[resourceOf(b)], useOf(a)-useOf(b))
	})
}

// resourceOf returns the path before the first parameter, such as /api/cards.
func resourceOf(o Operation) string {
	collection, _, _ := strings.Cut(o.Path, "/{")
	return collection
}

// useOf ranks an operation among those of its resource: create, get, list, change, end.
func useOf(o Operation) int {
	_, record, _ := strings.Cut(o.Path, "/{")
	acts := strings.Contains(record, "}/") // on a part of a record, or an action of it
	switch {
	case o.Method == "DELETE":
		return 4
	case acts || o.Method == "PATCH" || o.Method == "PUT":
		return 3
	case o.Method == "POST":
		return 0
	case record != "":
		return 1
	}
	return 2
}

// emptyGroups returns the tags as empty groups, and the place of each by its name.
func (d *description) emptyGroups() ([]Group, map[string]int) {
	var groups []Group
	byName := map[string]int{}
	for _, tag := range asList(d.root["tags"]) {
		name := asText(asObject(tag)["name"])
		byName[name] = len(groups)
		groups = append(groups, Group{Name: name, Title: tagTitle(name), Description: asText(asObject(tag)["description"])})
	}
	return groups, byName
}

// tagTitle writes a tag with a capital.
func tagTitle(name string) string {
	if name == "mcp" {
		return "Model Context Protocol"
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// securitySchemes returns the security schemes.
func (d *description) securitySchemes() map[string]any {
	return asObject(asObject(d.root["components"])["securitySchemes"])
}

// readOperation reads one operation and writes its samples. It fails for credentials that are not
// known.
func (d *description) readOperation(method, path string, source map[string]any) (Operation, error) {
	o := Operation{Anchor: asText(source["operationId"]), Method: strings.ToUpper(method), Path: path,
		Summary: asText(source["summary"]), Scope: asText(source["x-scope"]), Access: d.describeAccess(source)}
	o.Deprecated, _ = source["deprecated"].(bool)
	o.Plain = scopeSentence.ReplaceAllString(asText(source["description"]), "")
	o.Description = renderMarkdown(o.Plain)
	for _, code := range asList(source["x-errors"]) {
		o.Errors = append(o.Errors, asText(code))
	}
	request := request{method: o.Method, path: path, security: d.schemesOf(source), host: d.host}
	for _, shared := range [][]any{asList(asObject(asObject(d.root["paths"])[path])["parameters"]),
		asList(source["parameters"])} {
		for _, p := range shared {
			parameter := d.resolveRef(asObject(p))
			o.Parameters = append(o.Parameters, d.describeParameter(parameter))
			request.addParameter(parameter, d.exampleOf(parameter, source))
		}
	}
	for contentType, media := range asObject(d.resolveRef(asObject(source["requestBody"]))["content"]) {
		o.Body = d.listFields(asObject(asObject(media)["schema"]))
		request.contentType, request.body = contentType, bodyOf(firstExample(asObject(media)), source, "body")
	}
	o.Answers = d.successfulAnswers(source)
	var err error
	o.Samples, err = request.writeSamples()
	return o, err
}

// successfulAnswers returns the successful answers, by status and content type.
func (d *description) successfulAnswers(source map[string]any) []Answer {
	var answers []Answer
	responses := asObject(source["responses"])
	for _, status := range sortedKeys(responses) {
		if status[0] != '2' {
			continue
		}
		response := d.resolveRef(asObject(responses[status]))
		answer := Answer{Status: status}
		answer.Description = Inline(strings.TrimSuffix(asText(response["description"]), "."))
		content := asObject(response["content"])
		if len(content) == 0 {
			answers = append(answers, answer)
		}
		for _, contentType := range sortedKeys(content) {
			media := asObject(content[contentType])
			answer.ContentType = contentType
			answer.Fields = d.listFields(asObject(media["schema"]))
			answer.Example = formatExample(firstExample(media))
			answers = append(answers, answer)
		}
	}
	return answers
}

// firstExample returns the example of a content type, or the first by name of several; nil without
// one.
func firstExample(media map[string]any) any {
	if one := media["example"]; one != nil {
		return one
	}
	several := asObject(media["examples"])
	for _, name := range sortedKeys(several) {
		return asObject(several[name])["value"]
	}
	return nil
}

// formatExample writes an example as indented JSON, or as it is when it is text.
func formatExample(value any) string {
	if value == nil {
		return ""
	}
	if written, ok := value.(string); ok {
		return written
	}
	return indentedJSON(value, "")
}

// schemesOf returns the names of the schemes of which an operation takes one. An operation without
// credentials has none.
func (d *description) schemesOf(source map[string]any) []string {
	stated, ok := source["security"]
	if !ok {
		stated = d.root["security"]
	}
	var names []string
	for _, alternative := range asList(stated) {
		names = append(names, sortedKeys(asObject(alternative))...)
	}
	return names
}

// scopeSentence is the sentence of a description that says what Scope and Access say.
var scopeSentence = regexp.MustCompile("Needs `[a-z_:]+`(?:; in live mode approved KYB)?\\.\\s*")

// credentials are the names of the security schemes in words.
var credentials = map[string]string{"apiKey": "API key", "session": "session",
	"partnerSignature": "partner's signature", "networkSecret": "card network's secret"}

// describeAccess returns the credentials, the roles and the mode that an operation needs. A scope
// alone says that an API key is needed.
func (d *description) describeAccess(source map[string]any) (access []string) {
	var kinds []string
	for _, name := range d.schemesOf(source) {
		kinds = append(kinds, cmp.Or(credentials[name], name))
	}
	if scoped := asText(source["x-scope"]) != "" && len(kinds) == 1; !scoped {
		words := cmp.Or(strings.Join(kinds, " or "), "no credentials")
		access = append(access, strings.ToUpper(words[:1])+words[1:])
	}
	if roles := asList(source["x-roles"]); len(roles) > 0 {
		var names []string
		for _, role := range roles {
			names = append(names, asText(role))
		}
		access = append(access, "Roles: "+strings.Join(names, ", "))
	}
	switch asText(source["x-live"]) {
	case "sandbox-only":
		access = append(access, "Sandbox only")
	case "kyb":
		access = append(access, "Live mode: approved KYB")
	}
	return access
}

// resolveRef follows $ref. Members beside $ref replace those that it leads to.
func (d *description) resolveRef(node map[string]any) map[string]any {
	ref := asText(node["$ref"])
	if ref == "" {
		return node
	}
	var target any = d.root
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		target = asObject(target)[name]
	}
	merged := map[string]any{}
	for name, value := range d.resolveRef(asObject(target)) {
		merged[name] = value
	}
	for name, value := range node {
		if name != "$ref" {
			merged[name] = value
		}
	}
	return merged
}

// renderMarkdown renders a description's text. Raw HTML in it is dropped.
func renderMarkdown(source string) template.HTML {
	var page bytes.Buffer
	if err := goldmark.Convert([]byte(source), &page); err != nil {
		panic("BUG: a buffer refuses bytes: " + err.Error())
	}
	return template.HTML(page.String())
}

// Inline renders Markdown of one paragraph to HTML, without the tags <p> and </p>.
func Inline(source string) template.HTML {
	page := strings.TrimSuffix(strings.TrimSpace(string(renderMarkdown(source))), "</p>")
	return template.HTML(strings.TrimPrefix(page, "<p>"))
}

func asObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func asList(v any) []any {
	l, _ := v.([]any)
	return l
}

func asText(v any) string {
	s, _ := v.(string)
	return s
}

// firstText returns the first text of a list, "" without one.
func firstText(v any) string {
	if l := asList(v); len(l) > 0 {
		return asText(l[0])
	}
	return ""
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
