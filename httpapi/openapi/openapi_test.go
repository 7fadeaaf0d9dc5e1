package openapi

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

func TestDescriptionIsValid(t *testing.T) {
	d, err := Load()
	require.NoError(t, err)
	doc, err := openapi3.NewLoader().LoadFromData(d.JSON())
	require.NoError(t, err)
	require.NoError(t, doc.Validate(context.Background(), openapi3.EnableExamplesValidation()))
}

// Any request can have a body that is too large or encoded, even where the operation takes none.
func TestEveryOperationDescribesTheRefusalOfABody(t *testing.T) {
	d, err := Load()
	require.NoError(t, err)
	doc, err := openapi3.NewLoader().LoadFromData(d.JSON())
	require.NoError(t, err)
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			require.NotNil(t, operation.Responses.Value("413"), "%s %s", method, path)
			require.NotNil(t, operation.Responses.Value("415"), "%s %s", method, path)
		}
	}
}

// A list describes exactly the members of its items.
func TestAuthorizationsDescribeWhatIsSent(t *testing.T) {
	tree, _, err := fromYAML(source)
	require.NoError(t, err)
	authorization := asObject(asObject(asObject(tree["components"])["schemas"])["Authorization"])
	for field := range asObject(authorization["properties"]) {
		require.Contains(t, authorization["required"], field, "described and perhaps never sent")
	}
}

// Every amount of a request is bounded, so that no sum of one body comes near the end of int64.
func TestEveryAmountHasABound(t *testing.T) {
	tree, _, err := fromYAML(source)
	require.NoError(t, err)
	schemas := asObject(asObject(tree["components"])["schemas"])
	amount := asObject(schemas["Amount"])
	require.NotNil(t, amount["maximum"])
	for name, schema := range schemas {
		if !strings.HasPrefix(name, "New") && name != "CardChange" {
			continue
		}
		walk(schema, func(field string, s map[string]any) {
			if strings.HasSuffix(field, "Cents") && s["maximum"] == nil { // or a lower bound
				require.Equal(t, "#/components/schemas/Amount", s["$ref"], "%s.%s", name, field)
			}
		})
	}
}

func walk(schema any, visit func(field string, schema map[string]any)) {
	s := asObject(schema)
	for field, property := range asObject(s["properties"]) {
		visit(field, asObject(property))
	}
	variants, _ := s["oneOf"].([]any)
	for _, variant := range variants {
		walk(variant, visit)
	}
}

var mint = Operation{Method: "POST", Path: "/api/cards"}

type minted struct {
	HolderKind           string    `json:"holderKind"`
	HolderLabel          string    `json:"holderLabel"`
	CardholderID         string    `json:"cardholderId"`
	MonthlyLimitUsdCents int64     `json:"monthlyLimitUsdCents"`
	PerTxnLimitUsdCents  int64     `json:"perTxnLimitUsdCents"`
	AllowedMccs          *[]string `json:"allowedMccs"`
	AllowedMerchants     *[]string `json:"allowedMerchants"`
}

func TestDecode(t *testing.T) {
	d, err := Load()
	require.NoError(t, err)
	const rest = `"holderLabel":"a","monthlyLimitUsdCents":2,"perTxnLimitUsdCents":1`
	f := func(body, want string) {
		t.Helper()
		var into minted
		err := d.Decode(mint, []byte(body), &into)
		if want == "" {
			require.NoError(t, err)
			return
		}
		faults, ok := err.(Faults)
		require.True(t, ok, "%v", err)
		require.Equal(t, want, faults.Error())
	}
	f(`{"holderKind":"agent",`+rest+`}`, "")
	f(`{"holderKind":"agent",`+rest+`,"allowedMccs":null,"allowedMerchants":[]} `, "")
	f(``, "the body is empty; a JSON object is required")
	f(`{`, "the body is not valid JSON")
	f(`[]`, "the body must be of type object")
	f(`null`, "the body must be of type object")
	f(`{"holderKind":"agent",`+rest+`} {}`, "the body has data after the JSON value")
	f(`{"holderKind":"agent",`+rest+`}x`, "the body has data after the JSON value")
	f(`{"holderKind":"agent","holderKind":"human",`+rest+`}`, "holderKind is given twice")
	f(`{"holderKind":null,`+rest+`}`, "holderKind must be of type string")
	f(`{"holderKind":"robot",`+rest+`}`, "holderKind must be one of agent, human")
	f(`{`+rest+`}`, "holderKind is required")
	f(`{"holderKind":"agent",`+rest+`,"HolderKind":"x"}`, "HolderKind is not a known field")
	f(`{"holderKind":"agent",`+rest+`,"apk_0123":1}`, "(field) is not a known field")
	f(`{"holderKind":"agent","holderLabel":"a\u0000","monthlyLimitUsdCents":2,"perTxnLimitUsdCents":1}`,
		"holderLabel holds the character U+0000")
	f("{\"holderKind\":\"agent\",\"holderLabel\":\"\xff\",\"monthlyLimitUsdCents\":2,\"perTxnLimitUsdCents\":1}",
		"holderLabel is not valid UTF-8")
	f(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":9223372036854775808,"perTxnLimitUsdCents":1}`,
		"monthlyLimitUsdCents must fit in 64 bits")
	f(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":1e999999999,"perTxnLimitUsdCents":1}`,
		"monthlyLimitUsdCents is out of range")
	f(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":1.0,"perTxnLimitUsdCents":1}`,
		"monthlyLimitUsdCents must be of type integer")
	f(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":1e-999999999,"perTxnLimitUsdCents":1}`,
		"monthlyLimitUsdCents is out of range")
	f(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":0.0e-999999999,"perTxnLimitUsdCents":1}`,
		"monthlyLimitUsdCents is out of range")
	f(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":1.5,"perTxnLimitUsdCents":1}`,
		"monthlyLimitUsdCents must be of type integer")
	f(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":1000000000001,"perTxnLimitUsdCents":1}`,
		"monthlyLimitUsdCents must be at most 1000000000000")
	f(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":0,"perTxnLimitUsdCents":-1}`,
		"monthlyLimitUsdCents must be at least 1; perTxnLimitUsdCents must be at least 1")
	f(`{"holderKind":"agent","holderLabel":"","monthlyLimitUsdCents":2,"perTxnLimitUsdCents":1}`,
		"holderLabel must have at least 1 character")
	f(`{"holderKind":"agent","holderLabel":"`+strings.Repeat("a",
		61)+`","monthlyLimitUsdCents":2,"perTxnLimitUsdCents":1}`,
		"holderLabel must have at most 60 characters")
	f(`{"holderKind":"agent",`+rest+`,"allowedMccs":["12a4"]}`, "allowedMccs[0] does not have the required form")
	f(`{"holderKind":"agent",`+rest+`,"allowedMccs":["1234\n"]}`, "allowedMccs[0] does not have the required form")
	f(`{"holderKind":"agent",`+rest+`,"allowedMccs":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`}`,
		"allowedMccs is nested too deeply")
	f(`{"holderLabel":"","perTxnLimitUsdCents":"1","allowedMccs":["1"],"surprise":null}`,
		"allowedMccs[0] does not have the "+
			"required form; holderKind is required; holderLabel must have at least 1 character; monthlyLimitUsdCents is required; "+
			"perTxnLimitUsdCents must be of type integer; surprise is not a known field")
	f(`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"holderKind":"agent",`+rest+`}`,
		strings.Join(strings.Split("abcdefghijklmnop", ""), " is not a known field; ")+
			" is not a known field; and 1 more fault")
}

// A list over the interface's limit is distinguished from a malformed body.
func TestOverLimit(t *testing.T) {
	d, err := Load()
	require.NoError(t, err)
	body := func(items int, rest string) error {
		_, err := d.Parse(mint, []byte(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":2,"perTxnLimitUsdCents":1,`+
			`"allowedMccs":["5411"`+strings.Repeat(`,"5411"`, items-1)+`]`+rest+`}`))
		return err
	}
	over := func(err error) bool {
		faults, ok := err.(Faults)
		require.True(t, ok, "%v", err)
		require.ErrorContains(t, err, "allowedMccs")
		return faults.OverLimit()
	}
	require.NoError(t, body(1000, ""))
	require.True(t, over(body(1001, "")))
	require.True(t, over(body(maxItems+1, "")))
	require.False(t, over(body(1001, `,"surprise":1`)))
}

// A null optional member counts as absent, and neither satisfies nor breaks a rule.
func TestNullCountsAsAbsent(t *testing.T) {
	d, err := Load()
	require.NoError(t, err)
	f := func(method, path, body, want string) {
		t.Helper()
		value, err := d.Parse(Operation{Method: method, Path: path}, []byte(body))
		if want == "" {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		text, err := json.Marshal(value)
		require.NoError(t, err)
		require.JSONEq(t, want, string(text))
	}
	f("PATCH", "/api/cards/{id}", `{"state":null,"allowedMccs":null}`, `{"allowedMccs":null}`)
	f("PATCH", "/api/cards/{id}", `{"state":null}`, "")
	f("POST", "/api/workspaces", `{"name":"Ada","plan":null}`, `{"name":"Ada"}`)
	f("POST", "/api/workspaces", `{"name":null,"plan":null}`, "")
	f("POST", "/api/treasury/counterparties",
		`{"kind":null,"name":"A","routingNumber":"021000021","accountNumber":"1234",`+
			`"accountType":"checking"}`, `{"name":"A","routingNumber":"021000021","accountNumber":"1234","accountType":"checking"}`)
	f("POST", "/api/v1/checkout/sessions",
		`{"amountUsdCents":1,"successUrl":"HTTPS://a.example","metadata":{"a":null}}`,
		`{"amountUsdCents":1,"successUrl":"HTTPS://a.example","metadata":{"a":null}}`)
	f("POST", "/api/cardholders", `{"displayName":"A","kind":"agent","shippingAddress":null}`,
		`{"displayName":"A","kind":"agent"}`)
}

// Numbers have bounds everywhere but in a free-form object, which keeps them as given.
func TestFreeFormNumbersAreKept(t *testing.T) {
	d, err := Load()
	require.NoError(t, err)
	for _, number := range []string{"9223372036854775808", "1e308", "1E+999999999", "-0.0", "0.1e-999999999"} {
		for member, kept := range map[string]bool{"metadata": true, "description": false} {
			value, err := d.Parse(Operation{Method: "POST", Path: "/api/v1/checkout/sessions"},
				[]byte(`{"amountUsdCents":1,"successUrl":"https://a.example","`+member+`":{"a":[{"b":`+number+`}]}}`))
			if !kept {
				require.Error(t, err)
				continue
			}
			require.NoError(t, err)
			text, err := json.Marshal(asObject(value)[member])
			require.NoError(t, err)
			require.Equal(t, `{"a":[{"b":`+number+`}]}`, string(text))
		}
	}
}

// Every optional member of a body may be null in the description too, so that a client that
// validates by it can send null.
func TestOptionalMembersAreNullable(t *testing.T) {
	tree, _, err := fromYAML(source)
	require.NoError(t, err)
	schemas := asObject(asObject(tree["components"])["schemas"])
	checked := 0
	var look func(where string, schema map[string]any)
	look = func(where string, schema map[string]any) {
		if ref, ok := schema["$ref"].(string); ok {
			look(where, asObject(schemas[strings.TrimPrefix(ref, "#/components/schemas/")]))
		}
		variants, _ := schema["oneOf"].([]any)
		for _, variant := range variants {
			look(where, asObject(variant))
		}
		required, _ := schema["required"].([]any)
		for name, property := range asObject(schema["properties"]) {
			if !slices.Contains(required, any(name)) {
				require.True(t, takesNull(schemas, asObject(property)), "%s.%s", where, name)
				checked++
			}
			look(where+"."+name, asObject(property))
		}
	}
	for path, item := range asObject(tree["paths"]) {
		for method, operation := range asObject(item) {
			body := asObject(asObject(operation)["requestBody"])
			look(method+" "+path, asObject(asObject(asObject(body["content"])["application/json"])["schema"]))
		}
	}
	require.Greater(t, checked, 40)
}

func takesNull(schemas, schema map[string]any) bool {
	if ref, ok := schema["$ref"].(string); ok {
		return takesNull(schemas, asObject(schemas[strings.TrimPrefix(ref, "#/components/schemas/")]))
	}
	variants := slices.Concat(list(schema["oneOf"]), list(schema["anyOf"]))
	if slices.ContainsFunc(variants, func(v any) bool { return takesNull(schemas, asObject(v)) }) {
		return true
	}
	return schema["type"] == "null" || slices.Contains(list(schema["type"]), any("null"))
}

func list(v any) []any {
	items, _ := v.([]any)
	return items
}

func TestDecodeNamesTheNearestVariant(t *testing.T) {
	d, err := Load()
	require.NoError(t, err)
	_, err = d.Parse(Operation{Method: "POST", Path: "/api/treasury/deposits"},
		[]byte(`{"source":"bank_fiat","rail":"pigeon","amountUsdCents":5}`))
	require.EqualError(t, err, "rail must be one of ach, fednow, wire")
}

// For all bytes, Decode returns Faults or fills the struct within the bounds of the schema.
func FuzzDecode(f *testing.F) {
	d, err := Load()
	require.NoError(f, err)
	f.Add([]byte(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":2,"perTxnLimitUsdCents":1}`))
	f.Add([]byte(`{"holderKind":"agent","holderLabel":"a","monthlyLimitUsdCents":1e30}`))
	f.Add([]byte("{\"\xff\":[[[]]]}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var into minted
		err := d.Decode(mint, raw, &into)
		if err != nil {
			_, ok := err.(Faults)
			require.True(t, ok, "%v", err)
			return
		}
		require.Contains(t, []string{"agent", "human"}, into.HolderKind)
		require.True(t, into.MonthlyLimitUsdCents >= 1 && into.MonthlyLimitUsdCents <= 1_000_000_000_000)
		require.NotContains(t, into.HolderLabel, "\x00")
	})
}
