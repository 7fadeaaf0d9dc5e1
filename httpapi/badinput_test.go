package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// badBody is a body that must be refused.
type badBody struct {
	what, field string // field is "" when the whole body is at fault
	text        string
	status      int
	code        string
}

// Every body of every operation, with every fault that its schema can name, is refused as
// described. The message names the field, and nothing changes.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	w.fund(tn, 100_000_000)
	total := 0
	for _, op := range w.checked.operations(t) {
		if op.body == nil || op.rpc {
			continue
		}
		e := w.newEstate(tn)
		r := e.ready(op, nil)
		w.ok(w.get(tn.all, "/api/workspaces")) // records the key's use in this minute
		before := w.settled()
		bodies := spoil(t, op, r.body)
		for _, bad := range bodies {
			w.refuses(e, op, r, bad)
			require.True(t, op.logsRefusals || before == w.positions(), "%s: %s changed something", op.name, bad.what)
		}
		require.True(t, op.logsRefusals || before == w.settled(), op.name)
		total += len(bodies)
	}
	t.Logf("%d bad bodies", total)
	require.Greater(t, total, 300)
}

func (w *world) refuses(e *estate, op operation, r readyRequest, bad badBody) {
	w.t.Helper()
	if !op.key && !op.session && !op.partner {
		// Sign-ins are limited, and this test is not about limits.
		w.server.limits.counts = newLimiter(maxWindows, w.clock.elapsed)
	}
	r.body, r.who = bad.text, e.sign(op, r.who, bad.text)
	got := w.onTheWire(r)
	want := fmt.Sprint(bad.status, " ", bad.code)
	require.Equal(w.t, want, fmt.Sprint(got.status, " ", got.code()), "%s: %s: %s answered %s", op.name, bad.what,
		shorten(bad.text), got.raw)
	require.Contains(w.t, got.text("message"), bad.field, "%s: %s", op.name, bad.what)
	require.NotEmpty(w.t, got.text("message"), "%s: %s", op.name, bad.what)
}

// onTheWire sends a request. A body that the server does not read to its end is sent as raw bytes,
// because the client would report an error.
func (w *world) onTheWire(r readyRequest) testReply {
	w.t.Helper()
	if len(r.body) <= maxBody {
		return w.send(r)
	}
	var got testReply
	got.status, got.raw = w.raw(wire(r, fmt.Sprintf("Content-Length: %d\r\n", len(r.body))))
	require.NoError(w.t, json.Unmarshal([]byte(got.raw), &got.body))
	return got
}

// wire writes a request as bytes. framing is the framing header.
func wire(r readyRequest, framing string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: purser.test\r\nContent-Type: application/json\r\n", r.method, r.path)
	for name, value := range r.who {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	return b.String() + framing + "\r\n" + r.body
}

func shorten(text string) string { return text[:min(len(text), 300)] }

// spoil returns every bad variant of a good body.
func spoil(t testing.TB, op operation, good string) []badBody {
	t.Helper()
	s := &spoiler{t: t, good: good}
	s.whole()
	var tree map[string]any
	require.NoError(t, json.Unmarshal([]byte(good), &tree))
	s.object(nil, variantOf(op.schema, tree), tree)
	return s.bodies
}

// spoiler collects bad bodies. It edits the parsed good body and serializes it.
type spoiler struct {
	t      testing.TB
	good   string
	bodies []badBody
}

func (s *spoiler) add(what, field, text string) {
	s.bodies = append(s.bodies, badBody{what: what, field: field, text: text, status: 400, code: "invalid_body"})
}

// whole spoils the body as text.
func (s *spoiler) whole() {
	for what, text := range map[string]string{"empty": " ", "null": "null", "array": "[]", "string": `"x"`,
		"number": "1",
		"cut":    s.good[:len(s.good)-1], "two values": s.good + s.good, "data after it": s.good + "x",
		"byte order mark": "\ufeff" + s.good, "comment": "/**/" + s.good,
		"trailing comma": s.good[:len(s.good)-1] + ",}", "single quotes": strings.ReplaceAll(s.good, `"`, `'`),
		"deep object":      strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100),
		"deep array":       strings.Repeat("[", 60_000),
		"U+0000 in a name": `{"\u0000":1,` + s.good[1:], "invalid UTF-8 in a name": "{\"\xff\":1," + s.good[1:]} {
		s.add(what, "", text)
	}
	s.bodies = append(s.bodies, badBody{what: "2 MiB", text: s.good[:len(s.good)-1] + strings.Repeat(" ", 2<<20) + "}",
		status: 413, code: "body_too_large"})
}

// object spoils each field of the object at path.
func (s *spoiler) object(path []string, schema *openapi3.Schema, tree map[string]any) {
	place := strings.Join(path, ".")
	if closed := schema.AdditionalProperties.Has; closed != nil && !*closed {
		s.write("unknown field", join(place, "surprise"), tree, "surprise", 1)
		first := slices.Min(slices.Collect(maps.Keys(tree)))
		s.write("another case of a field", join(place, strings.ToUpper(first)), tree, strings.ToUpper(first),
			tree[first])
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := orNull(schema.Properties[name].Value)
		if property == nil {
			continue
		}
		value, given := tree[name]
		if given && slices.Contains(schema.Required, name) {
			delete(tree, name)
			s.add("without "+name, join(place, name), s.text(tree))
			tree[name] = value
		}
		s.syntax(join(place, name), name, tree)
		if property.Type == nil && property.Const == nil {
			continue // other tests cover its values
		}
		s.values(path, name, property, tree)
		if inner, ok := value.(map[string]any); ok {
			s.inner(path, name, property, tree, inner)
		}
	}
}

// orNull returns the schema of a nullable property, with null among its types.
func orNull(p *openapi3.Schema) *openapi3.Schema {
	if p == nil || len(p.AnyOf) != 2 || !p.AnyOf[1].Value.Type.Is("null") {
		return p
	}
	both := *p.AnyOf[0].Value
	types := append(slices.Clone(both.Type.Slice()), "null")
	both.Type = (*openapi3.Types)(&types)
	return &both
}

func join(place, name string) string { return strings.TrimPrefix(place+"."+name, ".") }

// inner spoils an object within an object, and writes each result into the body.
func (s *spoiler) inner(path []string, name string, schema *openapi3.Schema, tree, inner map[string]any) {
	deeper := &spoiler{t: s.t, good: s.good}
	deeper.object(append(slices.Clone(path), name), schema, inner)
	for _, bad := range deeper.bodies {
		s.bodies = append(s.bodies, badBody{what: bad.what, field: bad.field, status: bad.status, code: bad.code,
			text: s.with(tree, name, bad.text)})
	}
}

// text serializes an object. inner adds the enclosing objects.
func (s *spoiler) text(tree map[string]any) string {
	text, err := json.Marshal(tree)
	require.NoError(s.t, err)
	return string(text)
}

// with writes an object with one field replaced by raw JSON.
func (s *spoiler) with(tree map[string]any, name, raw string) string {
	var b strings.Builder
	b.WriteString("{")
	rest := maps.Clone(tree)
	delete(rest, name)
	if len(rest) > 0 {
		text := s.text(rest)
		b.WriteString(text[1:len(text)-1] + ",")
	}
	label, err := json.Marshal(name)
	require.NoError(s.t, err)
	b.WriteString(string(label) + ":" + raw + "}")
	return b.String()
}

func (s *spoiler) write(what, field string, tree map[string]any, name string, value any) {
	text, err := json.Marshal(value)
	require.NoError(s.t, err)
	s.add(what, field, s.with(tree, name, string(text)))
}

// syntax spoils the text of one field.
func (s *spoiler) syntax(field, name string, tree map[string]any) {
	raw := func(what, text string) { s.add(what+" in "+name, field, s.with(tree, name, text)) }
	raw("a huge number", "99999999999999999999999999")
	raw("a huge exponent", "1e999999999")
	raw("U+0000", `"a\u0000b"`)
	raw("invalid UTF-8", "\"a\xffb\"")
	raw("half a surrogate", `"\ud800"`)
	raw("deep nesting", strings.Repeat("[", 100)+strings.Repeat("]", 100))
	raw("given twice", `1,"`+name+`":2`)
}

// values spoils one field by its schema: another type, out of bounds, not in the enumeration, or
// against the format.
func (s *spoiler) values(path []string, name string, p *openapi3.Schema, tree map[string]any) {
	field := join(strings.Join(path, "."), name)
	bad := func(what string, value any) { s.write(what+" for "+name, field, tree, name, value) }
	if p.Const != nil {
		return // a constant chooses the variant; another value is another body
	}
	for kind, value := range map[string]any{"null": nil, "string": "x", "number": 1.5, "boolean": true,
		"object": map[string]any{}, "array": []any{[]any{}}} {
		// A number with a fraction is never an integer, and no field takes a list of lists.
		if kind == "array" || !p.Type.Permits(kind) {
			bad(kind, value)
		}
	}
	for _, value := range outside(p) {
		bad("out of bounds", value)
	}
	if len(p.Enum) > 0 {
		bad("not in the list", "surprise")
	}
	if p.Pattern != "" || p.Format == "email" || p.Format == "date" {
		bad("another form", strings.Repeat("~", int(max(p.MinLength, 1))))
	}
	if p.Items != nil {
		s.items(field, name, p, tree, bad)
	}
}

// items spoils the second item of a list, so that the message must name its index.
func (s *spoiler) items(field, name string, p *openapi3.Schema, tree map[string]any, bad func(string, any)) {
	good := "0000"
	if pattern := p.Items.Value.Pattern; pattern != "" {
		require.True(s.t, regexp.MustCompile(pattern).MatchString(good), "%s: an item that fits %s", field, pattern)
	}
	if len(p.Items.Value.Enum) > 0 {
		good = fmt.Sprint(p.Items.Value.Enum[0])
	}
	for _, item := range append(outside(p.Items.Value), nil, 1, []any{}) {
		bad("an item", []any{good, item})
		s.bodies[len(s.bodies)-1].field = field + "[1]"
	}
	if p.MaxItems != nil {
		bad("too many items", slices.Repeat([]any{good}, int(*p.MaxItems)+1))
		if code, limited := p.Extensions["x-over-limit"].(string); limited {
			last := &s.bodies[len(s.bodies)-1]
			last.status, last.code = 422, code
		}
	}
}

// outside returns the values one step beyond the bounds of a schema.
func outside(p *openapi3.Schema) []any {
	var all []any
	if p.Min != nil {
		all = append(all, int64(*p.Min)-1)
	}
	if p.Max != nil {
		all = append(all, int64(*p.Max)+1)
	}
	if p.MinLength > 0 {
		all = append(all, strings.Repeat("a", int(p.MinLength)-1))
	}
	if p.MaxLength != nil {
		all = append(all, strings.Repeat("a", int(*p.MaxLength)+1), strings.Repeat("ü", int(*p.MaxLength)+1))
	}
	if p.MinItems > 0 {
		all = append(all, slices.Repeat([]any{"a"}, int(p.MinItems)-1))
	}
	return all
}

// variantOf returns the variant of a schema that accepts the example.
func variantOf(schema *openapi3.Schema, tree map[string]any) *openapi3.Schema {
	for _, variant := range schema.OneOf {
		if variant.Value.VisitJSON(any(tree), openapi3.EnableJSONSchema2020()) == nil {
			return variant.Value
		}
	}
	return schema
}

// A value on its bound is accepted, in contrast to the value one step beyond it.
func TestBoundsAreInclusive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	tried := 0
	for _, op := range w.checked.operations(t) {
		if op.body == nil || op.rpc {
			continue
		}
		schema := variantOf(op.schema, op.example(t))
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			for _, value := range bounds(schema.Properties[name].Value) {
				got := w.sendChanged(tn, op, func(_ *estate, body map[string]any) { body[name] = value })
				require.NotEqual(t, 400, got.status, "%s with %s %v: %s", op.name, name, value, got.raw)
				tried++
			}
		}
	}
	t.Logf("%d values on their bounds", tried)
	require.NotZero(t, tried)
}

// bounds returns the values on the bounds of a schema without other rules.
func bounds(p *openapi3.Schema) []any {
	var all []any
	if p.Pattern != "" || p.Format != "" && p.Format != "int64" {
		return nil
	}
	if p.Min != nil {
		all = append(all, int64(*p.Min))
	}
	if p.Max != nil {
		all = append(all, int64(*p.Max))
	}
	if p.MinLength > 0 {
		all = append(all, strings.Repeat("a", int(p.MinLength)))
	}
	if p.MaxLength != nil {
		all = append(all, strings.Repeat("a", int(*p.MaxLength)), strings.Repeat("ü", int(*p.MaxLength)))
	}
	return all
}

// A null optional member counts as absent, at any depth of any body: it is refused as invalid_body
// only when the body without it is.
func TestNullMembersOfBodiesCountAsAbsent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	w.fund(tn, 100_000_000)
	seen := map[string]bool{} // whether a body had a place for the member
	for _, op := range w.checked.operations(t) {
		if op.body == nil || op.rpc {
			continue
		}
		for _, path := range optionalMembers(t, op.schema, nil) {
			at := op.doc.OperationID + " " + strings.Join(path, ".")
			seen[at] = seen[at] || parentOf(op.body, path) != nil
			if parentOf(op.body, path) == nil {
				continue
			}
			send := func(change func(parent map[string]any, name string)) testReply {
				return w.sendChanged(tn, op, func(e *estate, body map[string]any) {
					change(parentOf(body, path), path[len(path)-1])
					if op.doc.OperationID == "submitIntent" {
						e.signIntent(body, e.agentKey)
					}
				})
			}
			got := send(func(parent map[string]any, name string) { parent[name] = nil })
			if got.code() == "invalid_body" {
				absent := send(func(parent map[string]any, name string) { delete(parent, name) })
				require.Equal(t, absent.text("message"), got.text("message"), "%s: null %s", op.name, at)
			}
		}
	}
	require.NotEmpty(t, seen)
	for at, placed := range seen {
		require.True(t, placed, "no example has the object of %s", at)
	}
}

// optionalMembers returns the paths of the optional members of a schema and of all its variants
// whose null has no meaning.
func optionalMembers(t testing.TB, schema *openapi3.Schema, path []string) (all [][]string) {
	t.Helper()
	for _, variant := range slices.Concat(schema.OneOf, schema.AnyOf, schema.AllOf) {
		all = append(all, optionalMembers(t, variant.Value, path)...)
	}
	if schema.Items != nil {
		require.Empty(t, optionalMembers(t, schema.Items.Value, nil), "%v: objects in a list need a case", path)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		member, at := schema.Properties[name], append(slices.Clone(path), name)
		if !slices.Contains(schema.Required, name) && member.Extensions["x-null-means"] == nil {
			all = append(all, at)
		}
		all = append(all, optionalMembers(t, member.Value, at)...)
	}
	return all
}

// parentOf returns the object of a body that has the member at a path, or nil.
func parentOf(body map[string]any, path []string) map[string]any {
	for _, name := range path[:len(path)-1] {
		body, _ = body[name].(map[string]any)
	}
	return body
}

// sendChanged sends a request of new records with a changed body.
func (w *world) sendChanged(tn tenant, op operation, change func(e *estate, body map[string]any)) testReply {
	w.t.Helper()
	e := w.newEstate(tn)
	r := e.ready(op, nil)
	var body map[string]any
	require.NoError(w.t, json.Unmarshal([]byte(r.body), &body))
	change(e, body)
	text, err := json.Marshal(body)
	require.NoError(w.t, err)
	r.body, r.who = string(text), e.sign(op, r.who, string(text))
	w.server.limits.counts = newLimiter(maxWindows, w.clock.elapsed)
	return w.send(r)
}
