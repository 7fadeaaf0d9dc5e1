package openapitest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// comparedEvery is the share of altered bodies that TestValidateAgreesWithTheValidatorOf2020
// compares: one of so many, because that validator takes some
// milliseconds for each.
const comparedEvery = 10

// Answers of the examples, whole and with one place altered, are accepted by validate exactly when
// the library's validator of JSON Schema 2020-12 accepts them.
func TestValidateAgreesWithTheValidatorOf2020(t *testing.T) {
	altered, accepted, refused := 0, 0, 0
	eachOperation(t, func(t *testing.T, _ *Description, o *openapi3.Operation) {
		for status, response := range o.Responses.Map() {
			media := response.Value.Content.Get("application/json")
			if media == nil || status[0] != '2' {
				continue
			}
			f := func(body any) {
				t.Helper()
				want := media.Schema.Value.VisitJSON(body, openapi3.VisitAsResponse(), openapi3.EnableJSONSchema2020())
				got := validate(media.Schema.Value, body)
				require.Equal(t, want == nil, got == nil, "%v: %v, %v", body, got, want)
				if got == nil {
					accepted++
				} else {
					refused++
				}
			}
			for _, body := range examplesOf(t, media) {
				f(body)
				eachAlteration(body, func(b any) {
					if altered++; altered%comparedEvery == 0 {
						f(b)
					}
				}, func(b any) any { return b })
			}
		}
	})
	t.Logf("of %d altered bodies and the examples, %d were accepted and %d refused", altered, accepted, refused)
	require.NotZero(t, accepted)
	require.NotZero(t, refused)
}

func examplesOf(t *testing.T, media *openapi3.MediaType) (bodies []any) {
	t.Helper()
	shown := []any{media.Example}
	for _, name := range slices.Sorted(maps.Keys(media.Examples)) {
		shown = append(shown, media.Examples[name].Value.Value)
	}
	for _, example := range shown {
		if example == nil {
			continue
		}
		text, err := json.Marshal(example)
		require.NoError(t, err)
		var body any
		require.NoError(t, json.Unmarshal(text, &body))
		bodies = append(bodies, body)
	}
	return bodies
}

// eachAlteration calls f with a body in which one value is another, or a member is missing or new.
// whole makes the body of an altered value.
func eachAlteration(value any, f func(body any), whole func(any) any) {
	for _, other := range []any{nil, true, "", "x", -1.0, 1.5, []any{}, map[string]any{}} {
		f(whole(other))
	}
	switch v := value.(type) {
	case map[string]any:
		extended := maps.Clone(v)
		extended["surprise"] = 1.0
		f(whole(extended))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			without := maps.Clone(v)
			delete(without, key)
			f(whole(without))
			eachAlteration(v[key], f, func(part any) any {
				changed := maps.Clone(v)
				changed[key] = part
				return whole(changed)
			})
		}
	case []any:
		for i := range v {
			eachAlteration(v[i], f, func(part any) any {
				changed := slices.Clone(v)
				changed[i] = part
				return whole(changed)
			})
		}
	}
}
