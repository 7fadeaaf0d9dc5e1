package reference

import (
	"cmp"
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
	When        string // the value that selects a body's variant: "source is bank_fiat"; "" in each
	Description template.HTML
}

// describeParameter describes a parameter of a path, query or header.
func (d *description) describeParameter(source map[string]any) Field {
	schema := d.resolveRef(asObject(source["schema"]))
	f := Field{Name: asText(source["name"]), In: asText(source["in"]), Type: d.typeOf(schema),
		Bounds: d.describeBounds(schema), Description: Inline(asText(source["description"]))}
	f.Required, _ = source["required"].(bool)
	return f
}

// listFields lists the members of an object, depth first. Variants that a member selects follow
// each other whole; of others, a member that two share is listed once.
func (d *description) listFields(schema map[string]any) []Field {
	var fields []Field
	d.collectFields(&fields, schema, fieldPlace{})
	return fields
}

// fieldPlace is where fields are: the path before their names, how deep it is, and Field.When.
type fieldPlace struct {
	prefix string
	depth  int
	when   string
}

// collectFields appends the fields of a schema and of its variants, items and members to fields, at
// most maxDepth deep. Required members come first.
func (d *description) collectFields(fields *[]Field, schema map[string]any, at fieldPlace) {
	if schema = d.resolveRef(schema); at.depth > maxDepth {
		return
	}
	for _, keyword := range []string{"allOf", "oneOf", "anyOf"} {
		for _, variant := range asList(schema[keyword]) {
			of := at
			of.when = cmp.Or(variantCondition(schema, asObject(variant)), at.when)
			d.collectFields(fields, asObject(variant), of)
		}
	}
	if items := asObject(schema["items"]); items != nil {
		d.collectFields(fields, items, fieldPlace{at.prefix + "[]", at.depth, at.when})
	}
	properties, required := asObject(schema["properties"]), asList(schema["required"])
	names := sortedKeys(properties)
	slices.SortStableFunc(names, func(a, b string) int { // required members first
		return positionOf(required, a) - positionOf(required, b)
	})
	for _, name := range names {
		member := d.resolveRef(asObject(properties[name]))
		full := strings.TrimPrefix(at.prefix+"."+name, ".")
		if slices.ContainsFunc(*fields, func(f Field) bool { return f.Name == full && f.When == at.when }) {
			continue
		}
		*fields = append(*fields, Field{Name: full, Type: d.typeOf(member), Bounds: d.describeBounds(member),
			When: at.when, Required: slices.Contains(required, any(name)),
			Description: Inline(describeMember(member))})
		d.collectFields(fields, member, fieldPlace{full, at.depth + 1, at.when})
	}
}

// variantCondition returns the value of the discriminator that selects a variant, such as "source
// is bank_fiat", or "".
func variantCondition(schema, variant map[string]any) string {
	discriminator := asObject(schema["discriminator"])
	mapping := asObject(discriminator["mapping"])
	for _, value := range sortedKeys(mapping) {
		if mapping[value] == variant["$ref"] {
			return asText(discriminator["propertyName"]) + " is " + value
		}
	}
	return ""
}

// positionOf is the position of a name in a list, the length when it is not there.
func positionOf(names []any, name string) int {
	if at := slices.Index(names, any(name)); at >= 0 {
		return at
	}
	return len(names)
}

// describeMember returns a member's description, with the meaning of its null.
func describeMember(member map[string]any) string {
	words := asText(member["description"])
	if meaning := asText(member["x-null-means"]); meaning != "" {
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
			items := d.resolveRef(asObject(schema["items"]))
			return "array of " + d.typeOf(items)
		}
		return stated
	case []any:
		var names []string
		for _, name := range stated {
			names = append(names, asText(name))
		}
		return strings.Join(names, " or ")
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		var names []string
		for _, variant := range asList(schema[keyword]) {
			if name := d.typeOf(d.resolveRef(asObject(variant))); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			return strings.Join(names, " or ")
		}
	}
	return "any"
}

// describeBounds writes what a schema allows beyond its type. The type says that null is allowed.
func (d *description) describeBounds(schema map[string]any) string {
	var words []string
	if values := asList(schema["enum"]); len(values) > 0 {
		var shown []string
		for _, value := range values {
			if value != nil {
				shown = append(shown, fmt.Sprint(value))
			}
		}
		words = append(words, "one of "+strings.Join(shown, ", "))
	}
	if value := schema["const"]; value != nil {
		words = append(words, fmt.Sprint("always ", value))
	}
	for _, bound := range []struct{ least, most, unit string }{
		{"minimum", "maximum", ""}, {"minLength", "maxLength", " characters"}, {"minItems", "maxItems", " items"},
	} {
		words = append(words, describeRange(schema[bound.least], schema[bound.most], bound.unit)...)
	}
	if items := asObject(schema["items"]); items != nil {
		if each := d.describeBounds(d.resolveRef(items)); each != "" {
			words = append(words, "each "+each)
		}
	}
	if pattern := asText(schema["pattern"]); pattern != "" {
		words = append(words, "pattern "+pattern)
	}
	if value, ok := schema["default"]; ok {
		words = append(words, fmt.Sprint("default ", plainNumber(value)))
	}
	return strings.Join(words, "; ")
}

// describeRange describes the bounds of a number or length, such as "1 to 10 characters"; nil
// without bounds.
func describeRange(least, most any, unit string) []string {
	switch {
	case least != nil && most != nil:
		return []string{groupedNumber(least) + " to " + groupedNumber(most) + unit}
	case least != nil:
		return []string{"at least " + groupedNumber(least) + unit}
	case most != nil:
		return []string{"at most " + groupedNumber(most) + unit}
	}
	return nil
}

// groupedNumber writes a bound, a whole number from 0 on, with a comma between thousands.
func groupedNumber(value any) string {
	text := plainNumber(value)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// plainNumber writes a value without an exponent.
func plainNumber(value any) string {
	if n, ok := value.(float64); ok && n == float64(int64(n)) {
		return fmt.Sprint(int64(n))
	}
	return fmt.Sprint(value)
}
