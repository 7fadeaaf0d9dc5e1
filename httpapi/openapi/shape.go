package openapi

import (
	"slices"
	"strings"
)

// Extensions of a schema that the validator ignores.
const (
	// nullMeansExtension marks an optional property whose null has a meaning, and states it.
	nullMeansExtension = "x-null-means"
	// overLimitExtension marks an array: an array over its maxItems is refused as limit_exceeded.
	overLimitExtension = "x-over-limit"
	// freeFormExtension marks an object whose values are kept as given, numbers of any size
	// included.
	freeFormExtension = "x-free-form"
)

// maxShapeDepth bounds the walk through the schemas of one body. No described body is that deep.
const maxShapeDepth = 16

// shape holds the rules of a body beside validation: which null members count as absent, which
// arrays have a limit of the interface, and which objects are free-form. Variants of one object
// share a shape. The nil shape, of a member that is not described, has no rules.
type shape struct {
	nullable map[string]bool // members whose null counts as absent
	members  map[string]*shape
	items    *shape
	limited  bool // an array over maxItems is limit_exceeded
	free     bool // values are kept as given
}

// shapeOf reads the shape of a schema. schemas holds the named ones for $ref.
func shapeOf(schema, schemas map[string]any, depth int) *shape {
	s := &shape{nullable: map[string]bool{}, members: map[string]*shape{}}
	if depth < maxShapeDepth {
		s.addSchema(schema, schemas, depth)
	}
	return s
}

// isFree reports whether a value is a free-form object, or belongs to one.
func (s *shape) isFree() bool { return s != nil && s.free }

// member returns the shape of a member of an object.
func (s *shape) member(name string) *shape {
	if s == nil || s.free {
		return s
	}
	return s.members[name]
}

// item returns the shape of the items of an array.
func (s *shape) item() *shape {
	if s == nil || s.free {
		return s
	}
	return s.items
}

// addSchema adds the members of a schema to a shape: its own, and those of its reference and of all
// its variants.
func (s *shape) addSchema(schema, schemas map[string]any, depth int) {
	if ref, ok := schema["$ref"].(string); ok {
		s.addSchema(asObject(schemas[strings.TrimPrefix(ref, schemaRef)]), schemas, depth)
	}
	for _, keyword := range []string{"oneOf", "anyOf", "allOf"} {
		variants, _ := schema[keyword].([]any)
		for _, variant := range variants {
			s.addSchema(asObject(variant), schemas, depth)
		}
	}
	s.limited = s.limited || schema[overLimitExtension] != nil
	s.free = s.free || schema[freeFormExtension] != nil
	if items := asObject(schema["items"]); items != nil {
		s.items = shapeOf(items, schemas, depth+1)
	}
	required, _ := schema["required"].([]any)
	for name, property := range asObject(schema["properties"]) {
		s.members[name] = shapeOf(asObject(property), schemas, depth+1)
		if !slices.Contains(required, any(name)) && asObject(property)[nullMeansExtension] == nil {
			s.nullable[name] = true
		}
	}
}

// dropNulls removes the null members that count as absent.
func (s *shape) dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if member == nil && s.nullable[name] {
				delete(v, name)
			} else if below := s.members[name]; below != nil {
				below.dropNulls(member)
			}
		}
	case []any:
		if s.items == nil {
			return
		}
		for _, item := range v {
			s.items.dropNulls(item)
		}
	}
}

// limitedAt reports whether the field at a path such as "allowedMccs" is an array with a limit of
// the interface.
func (s *shape) limitedAt(field string) bool {
	for name := range strings.SplitSeq(field, ".") {
		if s = s.members[name]; s == nil {
			return false
		}
	}
	return s.limited
}
