package reference_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/httpapi/openapi"
	"purser/httpapi/reference"
)

// descriptions returns the groups of both descriptions with their texts.
func descriptions(t *testing.T) (rest, network []reference.Group, document *openapi.Document) {
	t.Helper()
	document, err := openapi.Load()
	require.NoError(t, err)
	rest, err = reference.New(document.JSON())
	require.NoError(t, err)
	text, err := openapi.NetworkJSON()
	require.NoError(t, err)
	network, err = reference.New(text)
	require.NoError(t, err)
	return rest, network, document
}

func TestReferenceHasEveryOperationOnce(t *testing.T) {
	rest, network, document := descriptions(t)
	anchors, shown := map[string]bool{}, map[openapi.Operation]bool{}
	for _, g := range rest {
		require.NotEmpty(t, g.Description, g.Name)
		for _, o := range g.Operations {
			require.False(t, anchors[o.Anchor], o.Anchor)
			anchors[o.Anchor], shown[openapi.Operation{Method: o.Method, Path: o.Path}] = true, true
			require.NotEmpty(t, o.Summary, o.Anchor)
			require.True(t, o.Scope != "" || len(o.Access) > 0, o.Anchor)
			require.NotContains(t, o.Description, "Needs <code>"+o.Scope+"</code>.", o.Anchor)
		}
	}
	var described struct{ Paths map[string]map[string]any }
	require.NoError(t, json.Unmarshal(document.JSON(), &described))
	for path, item := range described.Paths {
		delete(item, "parameters")
		for method := range item {
			o := openapi.Operation{Method: strings.ToUpper(method), Path: path}
			require.True(t, shown[o], "%s %s", o.Method, o.Path)
			delete(shown, o)
		}
	}
	require.Empty(t, shown)
	require.Len(t, network, 1)
	require.Len(t, network[0].Operations, 4)
}

var keyOfSample = regexp.MustCompile(`Idempotency-Key\W*([0-9a-f-]{36})`)

// Each sample in Go is a program, and the body of each sample in curl is the description's example,
// with variables for ids and secrets.
func TestEverySampleIsWellFormed(t *testing.T) {
	rest, network, document := descriptions(t)
	keys := map[string]string{}
	for _, g := range append(rest, network...) {
		for _, o := range g.Operations {
			require.Len(t, o.Samples, 4, o.Anchor)
			_, err := parser.ParseFile(token.NewFileSet(), "main.go", o.Samples[3].Code, parser.AllErrors)
			require.NoError(t, err, o.Anchor)
			curl := o.Samples[0].Code
			address, _, _ := strings.Cut(curl, " \\\n")
			require.NotRegexp(t, `//|[^L]/"|=["&]|[{]`, strings.TrimSpace(address), o.Anchor)
			for _, sample := range o.Samples {
				if key := keyOfSample.FindStringSubmatch(sample.Code); key != nil {
					require.Empty(t, keys[key[1]], o.Anchor)
					keys[key[1]] = o.Anchor
				}
			}
			_, body, found := strings.Cut(curl, "-d '")
			if !found || g.Name == "network" || g.Name == "mcp" {
				continue
			}
			body, variables := strings.TrimSuffix(body, "'\n"), strings.Contains(body, `'"$`)
			body = regexp.MustCompile(`'"[$]PURSER_[A-Z_]+"'`).ReplaceAllString(body, "x")
			body = strings.ReplaceAll(body, `'\''`, "'")
			require.True(t, json.Valid([]byte(body)), "%s: %s", o.Anchor, body)
			if !variables {
				_, err = document.Parse(openapi.Operation{Method: o.Method, Path: o.Path}, []byte(body))
				require.NoError(t, err, o.Anchor)
			}
		}
	}
}

// An id is a variable in each language: in the address, in a header and in the body.
func TestSamplesTakeIdsFromTheEnvironment(t *testing.T) {
	rest, _, _ := descriptions(t)
	samples := map[string][]reference.Sample{}
	for _, g := range rest {
		for _, o := range g.Operations {
			samples[o.Anchor] = o.Samples
		}
	}
	for anchor, want := range map[string][]string{
		"getCard": {`"$PURSER_URL/api/cards/$PURSER_CARD_ID"`,
			`os.environ["PURSER_URL"] + "/api/cards/" + os.environ["PURSER_CARD_ID"],`,
			"`${process.env.PURSER_URL}/api/cards/${process.env.PURSER_CARD_ID}`",
			`os.Getenv("PURSER_URL")+"/api/cards/"+os.Getenv("PURSER_CARD_ID"),`},
		"renameWorkspace": {`-H "X-Workspace-Id: $PURSER_WORKSPACE_ID"`,
			`"X-Workspace-Id": os.environ["PURSER_WORKSPACE_ID"],`,
			"\"X-Workspace-Id\": `${process.env.PURSER_WORKSPACE_ID}`,",
			`req.Header.Set("X-Workspace-Id", os.Getenv("PURSER_WORKSPACE_ID"))`},
		"createConversion": {`-d '{"quoteId": "'"$PURSER_CONVERSION_QUOTE_ID"'"}'`,
			`json={"quoteId": os.environ["PURSER_CONVERSION_QUOTE_ID"]},`,
			`JSON.stringify({"quoteId": process.env.PURSER_CONVERSION_QUOTE_ID})`,
			"`{\"quoteId\": \"`+os.Getenv(\"PURSER_CONVERSION_QUOTE_ID\")+`\"}`"},
	} {
		for i, sample := range samples[anchor] {
			require.Contains(t, sample.Code, want[i], sample.Language)
		}
	}
}

func TestFieldsOfNestedObjectsHaveTheirPath(t *testing.T) {
	_, network, _ := descriptions(t)
	names := map[string]reference.Field{}
	for _, f := range network[0].Operations[0].Body {
		names[f.Name] = f
	}
	require.Equal(t, "pattern ^\\d{4}$", names["merchant.mcc"].Bounds)
	require.True(t, names["merchant.mcc"].Required)
	require.False(t, names["merchant.country"].Required)
	require.Equal(t, "0 to 1,000,000,000,000", names["amountCents"].Bounds)
}

// A body with variants lists the members of each with the value that selects it.
func TestFieldsOfVariantsSayWhenTheyAreThere(t *testing.T) {
	rest, _, _ := descriptions(t)
	of := map[string][]string{}
	for _, g := range rest {
		for _, o := range g.Operations {
			for _, f := range o.Body {
				require.NotContains(t, f.Bounds, "nil", o.Anchor)
				of[o.Anchor+" "+f.Name] = append(of[o.Anchor+" "+f.Name], f.When+": "+f.Bounds)
			}
		}
	}
	require.Equal(t, []string{"source is bank_fiat: always bank_fiat",
		"source is partner_stablecoin: always partner_stablecoin"}, of["createDeposit source"])
	require.Len(t, of["createDeposit chain"], 1)
	require.Contains(t, of["createDeposit chain"][0], "source is partner_stablecoin: ")
	require.Contains(t, of["createKey scopes"][0], "each one of read:treasury, ")
}

// Operations are listed in the order in which a caller uses them.
func TestOperationsOfAResourceHaveTheOrderOfTheirUse(t *testing.T) {
	rest, network, _ := descriptions(t)
	order := func(groups []reference.Group, name, from string) (listed []string) {
		for _, g := range groups {
			for _, o := range g.Operations {
				if g.Name == name && strings.HasPrefix(o.Path, from) {
					listed = append(listed, o.Anchor)
				}
			}
		}
		return listed
	}
	require.Equal(t, []string{"mintCard", "getCard", "listCards", "updateCard"}, order(rest, "cards", "/api/cards"))
	require.Equal(t, []string{"createPayout", "getPayout", "listPayouts", "trackPayout", "releasePayout",
		"cancelPayout"},
		order(rest, "treasury", "/api/treasury/payouts"))
	require.Equal(t, []string{"createWebhookEndpoint", "getWebhookEndpoint", "listWebhookEndpoints",
		"listWebhookDeliveries",
		"pingWebhookEndpoint", "removeWebhookEndpoint"}, order(rest, "webhooks", "/api/webhooks/endpoints"))
	require.Equal(t, []string{"authorize", "reverse", "clear", "refund"}, order(network, "network", ""))
}

func TestSectionsHoldTheAttributesByTheirPlace(t *testing.T) {
	rest, _, _ := descriptions(t)
	for _, g := range rest {
		for _, o := range g.Operations {
			var titles []string
			shown := 0
			for _, s := range o.Sections() {
				titles, shown = append(titles, s.Title), shown+len(s.Fields)
			}
			require.Equal(t, len(o.Parameters)+len(o.Body), shown, o.Anchor)
			if o.Anchor == "releasePayout" {
				require.Equal(t, []string{"Header", "Path"}, titles)
			}
		}
	}
}

func TestDescriptionsThatCannotBeShownAreRefused(t *testing.T) {
	for text, fault := range map[string]string{
		`{`: "reference: ",
		`{"paths":{"/x":{"get":{"tags":["none"]}}}}`:                                            `get /x has the tag "none"`,
		`{"tags":[{"name":"a"}],"paths":{"/x":{"get":{"tags":["a"],"security":[{"odd":[]}]}}}}`: `the credentials "odd"`,
	} {
		_, err := reference.New([]byte(text))
		require.ErrorContains(t, err, fault)
	}
}
