package reference

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
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
	Summary     string
	Description template.HTML
	Access      string // the credentials that the operation takes
	Deprecated  bool
	Parameters  []Field
	Body        []Field // empty without a body
	Answers     []Answer
	Errors      []string // codes, in the order of the description
	Samples     []Sample
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
// have the order of the document's tags, operations that of their paths' names. An operation with a
// tag or credentials that are not known is an error.
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
	for _, path := range sortedKeys(paths) {
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
	return slices.DeleteFunc(groups, func(g Group) bool { return len(g.Operations) == 0 }), nil
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
		Summary: asText(source["summary"]), Access: d.describeAccess(source)}
	o.Deprecated, _ = source["deprecated"].(bool)
	o.Description = renderMarkdown(asText(source["description"]))
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
		answer.Description = renderInline(strings.TrimSuffix(asText(response["description"]), "."))
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

// credentials are the names of the security schemes in words.
var credentials = map[string]string{"apiKey": "an API key", "session": "a session",
	"partnerSignature": "a partner's signature", "networkSecret": "the card network's secret"}

// describeAccess writes the credentials, the scope, the roles and the mode that an operation needs.
func (d *description) describeAccess(source map[string]any) string {
	var kinds []string
	for _, name := range d.schemesOf(source) {
		kinds = append(kinds, cmp.Or(credentials[name], name))
	}
	access := "Takes " + cmp.Or(strings.Join(kinds, " or "), "no credentials")
	if scope := asText(source["x-scope"]); scope != "" {
		access += " with the scope " + scope
	}
	if roles := asList(source["x-roles"]); len(roles) > 0 {
		var names []string
		for _, role := range roles {
			names = append(names, asText(role))
		}
		access += "; roles of a session: " + strings.Join(names, ", ")
	}
	switch asText(source["x-live"]) {
	case "sandbox-only":
		access += "; only in the sandbox"
	case "kyb":
		access += "; a live workspace needs approved verification"
	}
	return access + "."
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

// renderInline renders Markdown of one paragraph to HTML, without the tags <p> and </p>.
func renderInline(source string) template.HTML {
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
