// Package openapi holds the single description of Purser's interface, the embedded openapi.yaml. It
// serves the description as JSON and checks request bodies against it, so that formats and bounds
// are defined in one place.
//
// A body is parsed strictly (see parseStrict) and then validated against the schema of its
// operation, which the first Load compiles. The package is independent of HTTP and of the meaning
// of a request; it returns Faults, each of which names a field.
package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var source []byte

//go:embed network.yaml
var networkSource []byte

// location names the description for the schema compiler, which fetches nothing from it.
const location = "urn:purser:openapi"

// Operation names a route as in the description: "POST" and "/api/cards/{id}".
type Operation struct{ Method, Path string }

// body holds the schema and the shape of a request body.
type body struct {
	schema *jsonschema.Schema
	shape  *shape
}

// Document is the description, ready to be served and to check bodies. It is immutable and safe for
// concurrent use.
type Document struct {
	json   []byte
	tree   map[string]any
	bodies map[Operation]*body
}

// Load returns the embedded description with the compiled schema of every request body. The first
// call of a process compiles it, and all calls share the result. An error is a defect of the
// description.
func Load() (*Document, error) { return loadOnce() }

var loadOnce = sync.OnceValues(compileDocument)

// compileDocument reads the embedded description and compiles the schemas. It fails only for a
// defect of the description. Load calls it once.
func compileDocument() (*Document, error) {
	tree, text, err := fromYAML(source)
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(location, tree); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	d := &Document{json: text, tree: tree, bodies: map[Operation]*body{}}
	schemas := asObject(asObject(tree["components"])["schemas"])
	for path, item := range asObject(tree["paths"]) {
		for method, operation := range asObject(item) {
			if method == "parameters" {
				continue // parameters that the path's operations share
			}
			op := Operation{Method: strings.ToUpper(method), Path: path}
			if err := d.compileOperation(compiler, op, method, asObject(operation), schemas); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// fromYAML converts the YAML to JSON and to the tree that the schema compiler reads. It fails for a
// source that is not YAML.
func fromYAML(source []byte) (map[string]any, []byte, error) {
	var tree map[string]any
	if err := yaml.Unmarshal(source, &tree); err != nil {
		return nil, nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	var written struct{ Paths yaml.Node }
	if err := yaml.Unmarshal(source, &written); err != nil {
		return nil, nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	paths := orderedPaths{items: asObject(tree["paths"])}
	for i := 0; i < len(written.Paths.Content); i += 2 {
		paths.order = append(paths.order, written.Paths.Content[i].Value)
	}
	tree["paths"] = paths
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return asObject(parsed), text, nil
}

// orderedPaths writes the paths of a description in the order in which the YAML has them.
type orderedPaths struct {
	order []string
	items map[string]any
}

// MarshalJSON implements json.Marshaler. It fails for a value that JSON does not have.
func (p orderedPaths) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, path := range p.order {
		item, err := json.Marshal(map[string]any{path: p.items[path]})
		if err != nil {
			return nil, err
		}
		b.WriteByte("{,"[min(i, 1)])
		b.Write(item[1 : len(item)-1])
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// compileOperation compiles the schema of an operation's body; an operation without a body has
// none. It fails for a schema that does not compile.
func (d *Document) compileOperation(compiler *jsonschema.Compiler, op Operation, method string, operation,
	schemas map[string]any) error {
	if operation["requestBody"] == nil {
		return nil
	}
	media := asObject(asObject(asObject(operation["requestBody"])["content"])["application/json"])
	pointer := "/paths/" + escapePointer(op.Path) + "/" + method + "/requestBody/content/application~1json/schema"
	schema, err := compiler.Compile(location + "#" + pointer)
	if err != nil {
		return fmt.Errorf("openapi: body of %s %s: %w", op.Method, op.Path, err)
	}
	d.bodies[op] = &body{schema: schema, shape: shapeOf(asObject(media["schema"]), schemas, 0)}
	return nil
}

// escapePointer escapes a path as one segment of a JSON pointer inside a URL fragment.
func escapePointer(path string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path)
}

// NetworkJSON returns the description of the card network's port as JSON.
func NetworkJSON() ([]byte, error) {
	_, text, err := fromYAML(networkSource)
	return text, err
}

func asObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// JSON returns the description as JSON, with its paths in the order of the YAML. The caller must not
// change it.
func (d *Document) JSON() []byte { return d.json }

// schemaRef begins a reference to a named schema.
const schemaRef = "#/components/schemas/"

// AnswerSchema returns the schema of an operation's 200 in JSON, which is an object. The schemas
// that it refers to are among its $defs.
func (d *Document) AnswerSchema(op Operation) json.RawMessage {
	answer := d.tree
	for _, name := range []string{"paths", op.Path, strings.ToLower(op.Method), "responses", "200", "content",
		"application/json", "schema"} {
		answer = asObject(answer[name])
	}
	definitions := map[string]any{}
	d.collectRefs(answer, definitions)
	schema := map[string]any{"type": "object", "$defs": definitions}
	maps.Copy(schema, answer)
	text, err := json.Marshal(schema)
	if err != nil {
		panic("BUG: a schema that was JSON is none: " + err.Error())
	}
	return bytes.ReplaceAll(text, []byte(schemaRef), []byte("#/$defs/"))
}

// collectRefs adds the named schemas that a part of the description refers to, and those that they
// refer to.
func (d *Document) collectRefs(part any, into map[string]any) {
	switch v := part.(type) {
	case map[string]any:
		for _, member := range v {
			d.collectRefs(member, into)
		}
	case []any:
		for _, item := range v {
			d.collectRefs(item, into)
		}
	case string:
		if name, isRef := strings.CutPrefix(v, schemaRef); isRef && into[name] == nil {
			into[name] = asObject(asObject(d.tree["components"])["schemas"])[name]
			d.collectRefs(into[name], into)
		}
	}
}

// Decode parses a body strictly, validates it against the operation's schema and decodes it into a
// zero struct, which must have every field of the schema. An optional member that is null counts as
// absent, unless its property has x-null-means. Faults holds all faults of the body; any other
// error is a defect of the description.
func (d *Document) Decode(op Operation, raw []byte, into any) error {
	if _, err := d.Parse(op, raw); err != nil {
		return err
	}
	if err := jsonv2.Unmarshal(raw, into, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Faults{semanticFault(err)}
	}
	return nil
}

// Parse is like Decode, but returns a tree as parseStrict does. Errors are those of Decode.
func (d *Document) Parse(op Operation, raw []byte) (any, error) {
	b := d.bodies[op]
	if b == nil {
		return nil, fmt.Errorf("openapi: %s %s describes no body", op.Method, op.Path)
	}
	value, err := parseStrict(raw, b.shape)
	if err != nil {
		return nil, b.checkFields(err)
	}
	b.shape.dropNulls(value)
	if err := b.schema.Validate(value); err != nil {
		return nil, b.checkFields(schemaFault(err))
	}
	return value, nil
}

// checkFields returns the error of a refused body as Faults, and marks arrays with more items than
// the interface allows as OverLimit. It returns an error without a Fault unchanged.
func (b *body) checkFields(err error) error {
	faults, several := errors.AsType[Faults](err)
	if one, ok := errors.AsType[*Fault](err); ok && !several {
		faults = Faults{one}
	}
	if faults == nil {
		return err
	}
	for _, f := range faults {
		f.OverLimit = f.tooMany && b.shape.limitedAt(f.Field)
	}
	return faults
}

// semanticFault reports a value that passes its schema but does not fit the Go field: 1.0 for an
// integer.
func semanticFault(err error) *Fault {
	semantic, ok := errors.AsType[*jsonv2.SemanticError](err)
	if !ok {
		return &Fault{Problem: "is not valid JSON"}
	}
	if errors.Is(semantic.Err, jsonv2.ErrUnknownName) {
		return &Fault{Field: fieldOf(semantic.JSONPointer), Problem: "is not a known field"}
	}
	if semantic.GoType != nil && semantic.GoType.Kind() == reflect.Int64 {
		return &Fault{Field: fieldOf(semantic.JSONPointer), Problem: "must be of type integer"}
	}
	return &Fault{Field: fieldOf(semantic.JSONPointer), Problem: "is not of the right type"}
}
