package dashboard

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// A form that takes something away runs nothing before its question is answered. The page of the
// question carries all that was entered, as text.
func TestAQuestionStandsBeforeTheOperation(t *testing.T) {
	api := &scriptedAPI{may: true, answer: Answer{Status: 200,
		Body: []byte(`{"apiKey":{"id":"key_1","label":"Shop"}}`)}}
	form := url.Values{"key": {"k"}, "note": {"<b>x</b>"}}
	asked, err := newSite(t).Serve(newVisit(api, "POST", "ws_1/keys/key_1/revoke", form))
	require.NoError(t, err)
	require.Equal(t, 200, asked.Status)
	require.Empty(t, changesOf(api))
	page := string(asked.Body)
	for _, part := range []string{"Revoke the key and all keys that it made?", "They stop working at once.",
		`action="/dashboard/ws_1/keys/key_1/revoke"`, `name="key" value="k"`, `name="sure" value="yes"`,
		`name="note" value="&lt;b&gt;x&lt;/b&gt;"`, `href="/dashboard/ws_1/keys/key_1"`} {
		require.Contains(t, page, part)
	}
	form.Set("sure", "yes")
	done, err := newSite(t).Serve(newVisit(api, "POST", "ws_1/keys/key_1/revoke", form))
	require.NoError(t, err)
	require.Equal(t, Response{Status: 303, Location: "/dashboard/ws_1/keys"}, done)
	require.Len(t, changesOf(api), 1)
}

// A password stands in no page: a form with one is its own answer.
func TestAQuestionShowsNoPassword(t *testing.T) {
	api := &scriptedAPI{may: true, answer: Answer{Status: 200, Body: []byte(`{}`)}}
	r, err := newSite(t).Serve(&Visit{Method: "POST", Path: "account/second-factor/disable", Query: url.Values{},
		Form: url.Values{"key": {"k"}, "password": {"a long password"}}, API: api, Email: "ada@example.com"})
	require.NoError(t, err)
	require.NotContains(t, string(r.Body), "a long password")
	require.Len(t, changesOf(api), 1)
}

// changesOf returns the operations that are no reads.
func changesOf(api *scriptedAPI) (changes []Operation) {
	for _, op := range api.operated {
		if op.Method != "GET" {
			changes = append(changes, op)
		}
	}
	return changes
}
