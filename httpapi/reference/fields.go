package reference

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// maxDepth bounds the nesting of fields that are listed. Deeper fields are in the example.
const maxDepth = 4

// Field is a parameter, or a member of a body or of an answer.
type Field struct {
	Name        string // with the names of the objects around it: merchant.name, events[].type
	In          string // path, query or header of a parameter; "" of a member
	Type        string
	Bounds      string // the values that are allowed, in words
	Required    bool
	Description template.HTML
}

// parameter describes a parameter of a path, query or header.
func (d *description) parameter(source map[string]any) Field {
	schema := d.resolve(object(source["schema"]))
	f := Field{Name: text(source["name"]), In: text(source["in"]), Type: d.typeOf(schema), Bounds: bounds(schema),
		Description: inline(text(source["description"]))}
	f.Required, _ = source["required"].(bool)
	return f
}

// fields lists the members of an object, depth first. The variants of a schema follow each other,
// and a member that two variants share is listed once.
func (d *description) fields(schema map[string]any) []Field {
	var fields []Field
	d.collect(&fields, schema, "", 0)
	return fields
}

func (d *description) collect(fields *[]Field, schema map[string]any, prefix string, depth int) {
	if schema = d.resolve(schema); depth > maxDepth {
		return
	}
	for _, keyword := range []string{"allOf", "oneOf", "anyOf"} {
		for _, variant := range list(schema[keyword]) {
			d.collect(fields, object(variant), prefix, depth)
		}
	}
	if items := object(schema["items"]); items != nil {
		d.collect(fields, items, prefix+"[]", depth)
	}
	properties, required := object(schema["properties"]), list(schema["required"])
	names := sortedKeys(properties)
	slices.SortStableFunc(names, func(a, b string) int { // required members first
		return place(required, a) - place(required, b)
	})
	for _, name := range names {
		member := d.resolve(object(properties[name]))
		full := strings.TrimPrefix(prefix+"."+name, ".")
		if slices.ContainsFunc(*fields, func(f Field) bool { return f.Name == full }) {
			continue
		}
		*fields = append(*fields, Field{Name: full, Type: d.typeOf(member), Bounds: bounds(member),
			Required: slices.Contains(required, any(name)), Description: inline(describe(member))})
		d.collect(fields, member, full, depth+1)
	}
}

// place is the position of a name in a list, the length when it is not there.
func place(names []any, name string) int {
	if at := slices.Index(names, any(name)); at >= 0 {
		return at
	}
	return len(names)
}

// describe returns a member's description, with the meaning of its null.
func describe(member map[string]any) string {
	words := text(member["description"])
	if meaning := text(member["x-null-means"]); meaning != "" {
		words = strings.TrimSuffix(words+". ", ". ") + ". null: " + meaning
		words = strings.TrimPrefix(words, ". ")
	}
	return words
}

// typeOf writes the type of a schema: "integer (cents) or null", "array of string".
func (d *description) typeOf(schema map[string]any) string {
	switch stated := schema["type"].(type) {
	case string:
		if stated == "array" {
			items := d.resolve(object(schema["items"]))
			return "array of " + d.typeOf(items)
		}
		return stated
	case []any:
		var names []string
		for _, name := range stated {
			names = append(names, text(name))
		}
		return strings.Join(names, " or ")
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		var names []string
		for _, variant := range list(schema[keyword]) {
			if name := d.typeOf(d.resolve(object(variant))); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			return strings.Join(names, " or ")
		}
	}
	return "any"
}

// bounds writes what a schema allows beyond its type.
func bounds(schema map[string]any) string {
	var words []string
	if values := list(schema["enum"]); len(values) > 0 {
		var shown []string
		for _, value := range values {
			shown = append(shown, fmt.Sprint(value))
		}
		words = append(words, "one of "+strings.Join(shown, ", "))
	}
	if value := schema["const"]; value != nil {
		words = append(words, fmt.Sprint("always ", value))
	}
	for _, bound := range []struct{ least, most, unit string }{
		{"minimum", "maximum", ""}, {"minLength", "maxLength", " characters"}, {"minItems", "maxItems", " items"},
	} {
		words = append(words, between(schema[bound.least], schema[bound.most], bound.unit)...)
	}
	if pattern := text(schema["pattern"]); pattern != "" {
		words = append(words, "pattern "+pattern)
	}
	if value, ok := schema["default"]; ok {
		words = append(words, fmt.Sprint("default ", number(value)))
	}
	return strings.Join(words, "; ")
}

func between(least, most any, unit string) []string {
	switch {
	case least != nil && most != nil:
		return []string{number(least) + " to " + number(most) + unit}
	case least != nil:
		return []string{"at least " + number(least) + unit}
	case most != nil:
		return []string{"at most " + number(most) + unit}
	}
	return nil
}

// number writes a value without an exponent.
func number(value any) string {
	if n, ok := value.(float64); ok && n == float64(int64(n)) {
		return fmt.Sprint(int64(n))
	}
	return fmt.Sprint(value)
}
