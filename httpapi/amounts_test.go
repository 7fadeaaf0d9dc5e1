package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// Texts that are not an amount: in every notation, as smallest units, as a decimal and as a number
// of cents.
var (
	noAmount = []string{"", "0", "-1", "+1", "1.", ".5", ".", "1,000", "1e3", "1E3", "1e-2", "0x10", "0b1", "1/2", "１２",
		"٣",
		"1２", " 1", "1 ", "1\t", "1\u00a0", "1_000", "--1", "$1", "1 EUR", "NaN", "Infinity", "null",
		"99999999999999999999999"}
	noMinor = []string{"00", "01", "007", "1.0", "0.001", "1000000000000000001", "9223372036854775807",
		"9223372036854775808",
		"10000000000000000000"}
	noDecimal = []string{"0.00", "1.005", "1.0.0", "0,5", "１.00"}
	noText    = []string{`1`, `1.5`, `null`, `true`, `["1"]`, `{"amount":"1"}`, `1e18`}
	noCents   = []string{`"1"`, `1.0`, `1.5`, `1e3`, `1E3`, `01`, `-1`, `+1`, `0x10`, `１`, `1_000`, `1000000000001`,
		`9223372036854775808`, `99999999999999999999`, `NaN`, `true`, `[1]`}
)

// Every route with an amount refuses a malformed one, names the field and changes nothing. For
// valid amounts see TestAmountsInCurrenciesAreExact and TestRateEstimates.
func TestMalformedAmountsAreRefusedOnEveryRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("mine")
	w.fund(tn, 100_000_000)
	texts, tried := 0, 0
	for _, op := range w.checked.operations(t) {
		if op.body == nil || op.rpc || op.unavailable || op.gone {
			continue
		}
		schema := variantOf(op.schema, op.example(t))
		for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
			bad := noMoney(field, schema.Properties[field].Value)
			if bad == nil {
				continue
			}
			if !strings.HasSuffix(field, "Cents") {
				texts++
			}
			w.refusesMoney(w.newEstate(tn), op, field, bad)
			tried += len(bad)
		}
	}
	t.Logf("%d amounts that are none, %d fields of text", tried, texts)
	require.GreaterOrEqual(t, texts, 3, "quotes of both kinds and pay-ins")
}

// noMoney lists JSON values that an amount field must refuse; it returns nil for other fields.
func noMoney(field string, p *openapi3.Schema) []string {
	texts := func(all ...string) []string {
		bad := slices.Clone(noText)
		for _, text := range all {
			bad = append(bad, fmt.Sprintf("%q", text))
		}
		return bad
	}
	switch {
	case p == nil || p.Type == nil:
		return nil
	case strings.HasSuffix(field, "Cents") && p.Type.Is("integer"):
		return noCents
	case strings.HasSuffix(field, "Minor") && p.Type.Is("string"):
		return texts(append(slices.Clone(noAmount), noMinor...)...)
	case field == "amount" && p.Type.Is("string"):
		return texts(append(slices.Clone(noAmount), noDecimal...)...)
	}
	return nil
}

func (w *world) refusesMoney(e *estate, op operation, field string, bad []string) {
	w.t.Helper()
	r := e.ready(op, nil)
	var tree map[string]any
	require.NoError(w.t, json.Unmarshal([]byte(r.body), &tree))
	w.ok(w.get(e.tn.all, "/api/workspaces")) // records the key's use in this minute
	before := w.settled()
	for _, value := range bad {
		w.server.limits.counts = newLimiter(maxWindows, w.clock.elapsed)
		r.body = (&spoiler{t: w.t}).with(tree, field, value)
		r.who = e.sign(op, r.who, r.body)
		got := w.send(r)
		require.Equal(w.t, 400, got.status, "%s with %s %s: %s", op.name, field, value, got.raw)
		require.Contains(w.t, []string{"invalid_body", "invalid_amount"}, got.code(), "%s with %s %s", op.name, field,
			value)
		require.NotEmpty(w.t, got.text("message"))
	}
	require.Equal(w.t, before, w.settled(), op.name)
}
