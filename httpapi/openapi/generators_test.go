package openapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// eachSchema visits every schema of the description with its place, except examples and negations.
func eachSchema(node any, place string, visit func(place string, schema map[string]any)) {
	for i, item := range list(node) {
		eachSchema(item, fmt.Sprintf("%s/%d", place, i), visit)
	}
	tree := asObject(node)
	if tree != nil {
		visit(place, tree)
	}
	for name, below := range tree {
		if name != "example" && name != "examples" && name != "not" {
			eachSchema(below, place+"/"+name, visit)
		}
	}
}

// untyped lists the schemas of any JSON value, which generators map to the type of any value.
var untyped = []string{"/components/schemas/RpcId", "/components/schemas/IntentLogEntry/properties/intent"}

// A generator maps a property without a type to the type of any value.
func TestEveryPropertyHasAType(t *testing.T) {
	tree, _, err := fromYAML(source)
	require.NoError(t, err)
	seen := 0
	eachSchema(tree, "", func(place string, schema map[string]any) {
		for name, property := range asObject(schema["properties"]) {
			at := place + "/properties/" + name
			p := asObject(property)
			if p == nil || slices.Contains(untyped, at) {
				continue
			}
			seen++
			require.True(t, p["type"] != nil || p["$ref"] != nil || p["oneOf"] != nil || p["anyOf"] != nil, at)
		}
	})
	require.Greater(t, seen, 500)
	for name, schema := range asObject(asObject(tree["components"])["schemas"]) {
		s := asObject(schema)
		if !slices.Contains(untyped, "/components/schemas/"+name) {
			require.True(t, s["type"] != nil || s["oneOf"] != nil, name)
		}
	}
}

// A generator invents a name for an unnamed variant, and cannot choose between two without a
// discriminator. A nullable value is exempt, and so are the forms of JSON-RPC, which differ by
// their members.
func TestVariantsAreNamedAndTellApart(t *testing.T) {
	tree, _, err := fromYAML(source)
	require.NoError(t, err)
	discriminators := 0
	eachSchema(tree, "", func(place string, schema map[string]any) {
		var variants []string
		for _, variant := range slices.Concat(list(schema["oneOf"]), list(schema["anyOf"])) {
			v := asObject(variant)
			ref, named := v["$ref"].(string)
			if v["type"] == "null" {
				continue
			}
			require.True(t, named, "%s has a variant without a name", place)
			variants = append(variants, ref)
		}
		if len(variants) < 2 || isRPC(variants) {
			return
		}
		discriminator := asObject(schema["discriminator"])
		mapped := 0
		for _, ref := range asObject(discriminator["mapping"]) {
			require.Contains(t, variants, ref, place)
			mapped++
		}
		require.NotEmpty(t, discriminator["propertyName"], place)
		require.Equal(t, len(variants), mapped, place)
		discriminators++
	})
	require.Equal(t, 2, discriminators)
}

// A generator that replaces a reference to a named string by string loses that it may be null.
// Objects and enumerations keep their names.
func TestNullablesAreObjectsOrEnumerations(t *testing.T) {
	tree, _, err := fromYAML(source)
	require.NoError(t, err)
	schemas := asObject(asObject(tree["components"])["schemas"])
	seen := 0
	eachSchema(tree, "", func(place string, schema map[string]any) {
		variants := slices.Concat(list(schema["oneOf"]), list(schema["anyOf"]))
		if !slices.ContainsFunc(variants, func(v any) bool { return asObject(v)["type"] == "null" }) {
			return
		}
		for _, variant := range variants {
			ref, _ := asObject(variant)["$ref"].(string)
			if named := asObject(schemas[strings.TrimPrefix(ref, "#/components/schemas/")]); ref != "" {
				require.True(t, named["type"] == "object" || named["enum"] != nil, place)
				seen++
			}
		}
	})
	require.Greater(t, seen, 5)
}

func isRPC(variants []string) bool {
	return slices.ContainsFunc(variants, func(ref string) bool {
		return slices.Contains([]string{"#/components/schemas/RpcRequest", "#/components/schemas/RpcError",
			"#/components/schemas/RpcRevisions"}, ref)
	})
}

// A generator for TypeScript takes a member with a default as always there, also in a body that may
// leave it out. Only parameters have defaults.
func TestMembersHaveNoDefault(t *testing.T) {
	tree, _, err := fromYAML(source)
	require.NoError(t, err)
	eachSchema(tree, "", func(place string, schema map[string]any) {
		if !strings.Contains(place, "/parameters/") {
			require.NotContains(t, schema, "default", place)
		}
	})
}

// A generator takes an alternative without a scheme for credentials that must be given. An
// operation without credentials has no alternatives.
func TestAlternativesOfCredentialsNameAScheme(t *testing.T) {
	tree, _, err := fromYAML(source)
	require.NoError(t, err)
	eachSchema(tree, "", func(place string, schema map[string]any) {
		for _, alternative := range list(schema["security"]) {
			require.NotEmpty(t, asObject(alternative), place)
		}
	})
}

// The format uuid becomes a type in generated clients, and openapi-python-client cannot send that
// type as a header. A parameter that must be a UUID therefore has a pattern and a sample.
func TestParametersAreUUIDsByPattern(t *testing.T) {
	tree, _, err := fromYAML(source)
	require.NoError(t, err)
	keys := 0
	eachSchema(tree, "", func(place string, parameter map[string]any) {
		schema := asObject(parameter["schema"])
		require.NotEqual(t, "uuid", schema["format"], place)
		if parameter["name"] != "Idempotency-Key" {
			return
		}
		sample, _ := parameter["example"].(string)
		require.NoError(t, uuid.Validate(sample), place)
		require.Regexp(t, schema["pattern"], sample)
		require.NotRegexp(t, schema["pattern"], "urn:uuid:"+sample)
		require.NotRegexp(t, schema["pattern"], sample+"0")
		keys++
	})
	require.Equal(t, 2, keys)
}
