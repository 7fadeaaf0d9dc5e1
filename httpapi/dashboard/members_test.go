package dashboard

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// countingAPI counts the answers of a path.
type countingAPI struct {
	pathAPI
	path  string
	count int
}

func (a *countingAPI) Do(op Operation) Answer {
	if op.Path == a.path {
		a.count++
	}
	return a.pathAPI.Do(op)
}

// A workspace with keys without end has a page of each member: so many pages of keys are read, and
// the question before a removal says that there are more.
func TestKeysToKeepAreOfABoundedNumber(t *testing.T) {
	api := &countingAPI{path: keysPath, pathAPI: pathAPI{scriptedAPI: scriptedAPI{may: true},
		documents: map[string]string{
			keysPath:      `{"data":[{"id":"key_1","createdBy":"usr_1"},{"id":"key_2","createdBy":"usr_2"}],"nextCursor":"more"}`,
			endpointsPath: `{"data":[]}`, invitationsPath: `{"data":[]}`}}}
	v := &visit{Visit: newVisit(api, "GET", "ws_1", nil)}
	ending, err := v.offerKept("usr_1")
	require.NoError(t, err)
	require.Contains(t, ending, "more than 500 keys")
	require.Equal(t, keptPages, api.count)
	api.documents[keysPath] = `{"data":[{"id":"key_1","createdBy":"usr_1"}],"nextCursor":null}`
	ending, err = v.offerKept("usr_1")
	require.NoError(t, err)
	require.NotContains(t, ending, "more than 500 keys")
}

// The question before a change of a role says what the new role grants, and what ends with the old.
func TestTheQuestionOfARoleIsOfTheChosenRole(t *testing.T) {
	const keys, invitations, owns = "webhook endpoints end", "invitations that the person has sent end",
		"manages people. An owner can also change your role and remove you."
	f := func(from, to string, want ...string) {
		t.Helper()
		asked := (&teammate{Email: "bob@example.com", Role: from}).roleQuestion(to)
		require.Contains(t, asked, "Change the role of bob@example.com to "+to+"? The person then ")
		for _, part := range []string{keys, invitations, owns, "does all but manage people", "sees dollars"} {
			require.Equal(t, slices.Contains(want, part), strings.Contains(asked, part), part)
		}
	}
	f("member", "owner", owns)
	f("admin", "owner", owns)
	f("member", "admin", "does all but manage people")
	f("owner", "admin", "does all but manage people", invitations)
	f("owner", "member", "sees dollars", keys, invitations)
	f("admin", "member", "sees dollars", keys)
	require.Equal(t, "Change the role of bob@example.com?", (&teammate{Email: "bob@example.com"}).roleQuestion("x"))
}
