// Package openapitest checks answers against the description of the interface: an answer must have
// a status, a body and an error code that its operation describes. It is for the tests of this
// module's packages that call a REST server, and reads the description with another library than
// the server.
//
// It checks that an answer is described, not that it is the right one.
package openapitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"purser/httpapi/openapi"
)

// errorsExtension lists error codes: at the top those of every operation, at an operation its own.
const errorsExtension = "x-errors"

// Description is the description, read by an independent library. It is immutable and safe for
// concurrent use.
type Description struct {
	Doc   *openapi3.T
	paths map[string]*regexp.Regexp
}

// Answer is a server's answer to a client.
type Answer struct {
	// Method and Path are those of the request, the query included. Both are empty for a malformed
	// request.
	Method, Path string
	Status       int
	ContentType  string
	Body         []byte
}

// Load reads the embedded description. It fails only for a defect of it.
func Load() (*Description, error) {
	document, err := openapi.Load()
	if err != nil {
		return nil, err
	}
	d := &Description{paths: map[string]*regexp.Regexp{}}
	if d.Doc, err = openapi3.NewLoader().LoadFromData(document.JSON()); err != nil {
		return nil, err
	}
	permitAnyValue(d.Doc)
	if err = prepareSchemas(d.Doc); err != nil {
		return nil, err
	}
	parameter := regexp.MustCompile(`\\\{[^}]*\\\}`)
	for path := range d.Doc.Paths.Map() {
		pattern := parameter.ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		if d.paths[path], err = regexp.Compile("^" + pattern + "$"); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// permitAnyValue lets a property with the empty schema {} be null, as JSON Schema does. The library
// accepts any other value there, and refuses null.
func permitAnyValue(doc *openapi3.T) {
	always := true
	for _, schema := range doc.Components.Schemas {
		for _, property := range schema.Value.Properties {
			if property.Value.IsEmpty() {
				property.Value.Always = &always
			}
		}
	}
}

// prepareSchemas prepares the schemas of answers for validate: a const becomes an enum of that one
// value, and a schema that only excludes types takes null. It fails for other keywords that the
// library checks only with its validator of JSON Schema 2020-12. That one compiles the schema again
// for each value, which took half of the time of a client under test.
func prepareSchemas(doc *openapi3.T) error {
	prepare := func(where string, root *openapi3.SchemaRef) error {
		return root.WalkSubtree(func(at string, ref *openapi3.SchemaRef) error {
			s := ref.Value
			if s == nil {
				return nil
			}
			if s.Const != nil {
				s.Enum = []any{s.Const}
			}
			if s.Type == nil && s.Not != nil { // the ids of JSON-RPC, which may be null
				s.Nullable = true
			}
			if usesLaterKeywords(s) {
				return fmt.Errorf("%s: the schema at %q has a keyword that validate does not check", where, at)
			}
			return nil
		})
	}
	if err := prepare("ApiError", doc.Components.Schemas["ApiError"]); err != nil {
		return err
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				media := response.Value.Content.Get("application/json")
				if media == nil {
					continue
				}
				if err := prepare(method+" "+path+" "+status, media.Schema); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// usesLaterKeywords reports whether a schema has keywords of JSON Schema 2020-12, beside const,
// that VisitJSON ignores.
func usesLaterKeywords(s *openapi3.Schema) bool {
	return len(s.PrefixItems) > 0 || s.Contains != nil || len(s.PatternProperties) > 0 ||
		len(s.DependentSchemas) > 0 || s.PropertyNames != nil || s.UnevaluatedItems.Has != nil ||
		s.UnevaluatedItems.Schema != nil || s.UnevaluatedProperties.Has != nil ||
		s.UnevaluatedProperties.Schema != nil || s.If != nil || s.Then != nil || s.Else != nil ||
		len(s.DependentRequired) > 0 || len(s.Defs) > 0 || s.ContentSchema != nil
}

// Judge returns how an answer departs from the description, or nil.
func (d *Description) Judge(a Answer) error {
	if err := d.judgeAnswer(a); err != nil {
		return fmt.Errorf("%s %s: %d %.500s: %w", a.Method, a.Path, a.Status, a.Body, err)
	}
	return nil
}

// judgeAnswer is Judge without the request in the error. It fails for another content type, for a
// body that is not JSON, and for an answer that the description does not permit.
func (d *Description) judgeAnswer(a Answer) error {
	if len(a.Body) == 0 && d.isUndescribed(a) {
		return nil
	}
	if d.isFile(a) {
		return nil
	}
	if a.ContentType != "application/json" {
		return fmt.Errorf("content type %q", a.ContentType)
	}
	var body any
	if err := json.Unmarshal(a.Body, &body); err != nil {
		return err
	}
	operation, known := d.findOperation(a)
	switch {
	case operation != nil:
		return d.judgeDescribed(operation, a, body)
	case a.Method == "":
		return d.judgeRefusal(a, body, "invalid_request", "request_timeout", "body_too_large", "header_too_large")
	case known:
		return d.judgeRefusal(a, body, append(d.commonCodes(), "method_not_allowed")...)
	}
	return d.judgeRefusal(a, body, append(d.commonCodes(), "not_found")...)
}

// isUndescribed reports whether a status of an operation is described without a body.
func (d *Description) isUndescribed(a Answer) bool {
	operation, _ := d.findOperation(a)
	if operation == nil {
		return false
	}
	response := operation.Responses.Status(a.Status)
	return response != nil && len(response.Value.Content) == 0
}

// isFile reports whether an answer has a described content type other than JSON. The content of the
// file is not checked.
func (d *Description) isFile(a Answer) bool {
	operation, _ := d.findOperation(a)
	if operation == nil {
		return false
	}
	response := operation.Responses.Status(a.Status)
	kind, _, _ := strings.Cut(a.ContentType, ";")
	return response != nil && kind != "application/json" && response.Value.Content.Get(kind) != nil
}

// findOperation returns the operation of a request, and whether its path is described.
func (d *Description) findOperation(a Answer) (operation *openapi3.Operation, known bool) {
	path, _, _ := strings.Cut(a.Path, "?")
	if item := d.Doc.Paths.Value(path); item != nil { // precedes a template that matches it too
		return item.GetOperation(a.Method), true
	}
	for template, pattern := range d.paths {
		if !pattern.MatchString(path) {
			continue
		}
		known = true
		if found := d.Doc.Paths.Value(template).GetOperation(a.Method); found != nil {
			return found, true
		}
	}
	return nil, known
}

// judgeDescribed checks an answer against its operation. It fails for a status, a member or an
// error code that the operation does not describe.
func (d *Description) judgeDescribed(operation *openapi3.Operation, a Answer, body any) error {
	response := operation.Responses.Status(a.Status)
	if response == nil {
		return errors.New("the status is not described")
	}
	media := response.Value.Content.Get("application/json")
	if media == nil {
		return errors.New("no JSON is described")
	}
	if err := validate(media.Schema.Value, body); err != nil || a.Status < http.StatusBadRequest {
		return err
	}
	code := codeOf(body)
	if !slices.Contains(append(d.commonCodes(), codesOf(operation.Extensions)...), code) {
		return fmt.Errorf("x-errors of %s lacks %s", operation.OperationID, code)
	}
	if media.Examples[code] == nil {
		return fmt.Errorf("the response has no example of %s", code)
	}
	return nil
}

// judgeRefusal checks an answer that no operation gave against the permitted codes.
func (d *Description) judgeRefusal(a Answer, body any, codes ...string) error {
	if a.Status < http.StatusBadRequest {
		return errors.New("answered by an operation that is not described")
	}
	if err := validate(d.Doc.Components.Schemas["ApiError"].Value, body); err != nil {
		return err
	}
	if code := codeOf(body); !slices.Contains(codes, code) {
		return fmt.Errorf("%s is none of %s", code, strings.Join(codes, ", "))
	}
	return nil
}

// validate checks a body against a schema that prepareSchemas has prepared.
func validate(schema *openapi3.Schema, body any) error {
	return schema.VisitJSON(body, openapi3.VisitAsResponse())
}

// codeOf returns the code of an error answer as x-errors lists it: without the scope that
// follows a colon. In an error of JSON-RPC the code is in data; without data it is the error's
// number.
func codeOf(body any) string {
	object, _ := body.(map[string]any)
	if e, isRPC := object["error"].(map[string]any); isRPC {
		if e["data"] != nil {
			return codeOf(e["data"])
		}
		return fmt.Sprint(e["code"])
	}
	code, _ := object["error"].(string)
	name, _, _ := strings.Cut(code, ":")
	return name
}

func (d *Description) commonCodes() []string { return codesOf(d.Doc.Extensions) }

func codesOf(extensions map[string]any) []string {
	items, _ := extensions[errorsExtension].([]any)
	codes := make([]string, len(items))
	for i, item := range items {
		codes[i] = fmt.Sprint(item)
	}
	return codes
}
