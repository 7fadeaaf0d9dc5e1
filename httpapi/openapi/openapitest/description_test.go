package openapitest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

func eachOperation(t *testing.T, f func(t *testing.T, d *Description, o *openapi3.Operation)) {
	t.Helper()
	d, err := Load()
	require.NoError(t, err)
	for path, item := range d.Doc.Paths.Map() {
		for method, o := range item.Operations() {
			t.Run(method+" "+path, func(t *testing.T) { f(t, d, o) })
		}
	}
}

// TestDescriptionIsValid checks that the examples fit their schemas.
func TestEveryOperationShowsWhatItTakesAndAnswers(t *testing.T) {
	eachOperation(t, func(t *testing.T, _ *Description, o *openapi3.Operation) {
		require.NotEmpty(t, o.OperationID)
		require.NotEmpty(t, o.Summary)
		if o.RequestBody != nil {
			shown(t, "the body", o.RequestBody.Value.Content)
		}
		answered := 0
		for status, response := range o.Responses.Map() {
			require.NotNil(t, response.Value.Description)
			if len(response.Value.Content) == 0 {
				require.Equal(t, "202", status, "an answer without a body")
				continue
			}
			shown(t, status, response.Value.Content)
			if strings.HasPrefix(status, "2") {
				answered++
			}
		}
		want := 1
		switch {
		case o.Extensions["x-gone"] == true:
			want = 0
		case o.OperationID == "login": // with a session, or with the challenge of a second factor
			want = 2
		}
		require.Equal(t, want, answered, "ways to succeed")
	})
}

func shown(t *testing.T, what string, content openapi3.Content) {
	t.Helper()
	require.NotEmpty(t, content, what)
	for kind, media := range content {
		require.True(t, media.Example != nil || len(media.Examples) > 0, "%s as %s has no example", what, kind)
	}
}

// A described status shows each listed code of an operation, and every described refusal has a
// listed code.
func TestEveryOperationListsItsErrors(t *testing.T) {
	eachOperation(t, func(t *testing.T, d *Description, o *openapi3.Operation) {
		own, common := codesOf(o.Extensions), d.commonCodes()
		require.NotNil(t, o.Extensions[errorsExtension], "no x-errors")
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(own))), len(own), "a code twice")
		for _, code := range own {
			require.NotContains(t, common, code)
			statuses := 1
			if two, _ := o.Extensions["x-two-statuses"].([]any); slices.Contains(two, any(code)) {
				statuses = 2
			}
			require.Equal(t, statuses, statusesOf(o, code), "statuses that show %s", code)
		}
		limited := o.Responses.Status(http.StatusTooManyRequests) != nil
		for _, code := range common {
			require.Equal(t, code != "rate_limited" || limited, statusesOf(o, code) == 1, "statuses that show %s", code)
		}
		for status, response := range o.Responses.Map() {
			media := response.Value.Content.Get("application/json")
			if strings.HasPrefix(status, "2") || strings.HasPrefix(status, "3") {
				continue
			}
			require.True(t, slices.ContainsFunc(slices.Concat(own, common),
				func(code string) bool { return media.Examples[code] != nil }), "no listed code is of status %s",
				status)
		}
	})
}

// statusesOf counts the statuses of an operation whose response shows a code.
func statusesOf(o *openapi3.Operation, code string) (n int) {
	for _, response := range o.Responses.Map() {
		if media := response.Value.Content.Get("application/json"); media != nil && media.Examples[code] != nil {
			n++
		}
	}
	return n
}

// A response that asks a client to wait has the headers with the time.
func TestEveryRateLimitSaysHowLong(t *testing.T) {
	eachOperation(t, func(t *testing.T, _ *Description, o *openapi3.Operation) {
		if limited := o.Responses.Status(http.StatusTooManyRequests); limited != nil {
			require.Contains(t, limited.Value.Headers, "Retry-After")
			require.Contains(t, limited.Value.Headers, "x-ratelimit-reset-ms")
		}
		require.Contains(t, o.Responses.Status(http.StatusServiceUnavailable).Value.Headers, "Retry-After")
	})
}
