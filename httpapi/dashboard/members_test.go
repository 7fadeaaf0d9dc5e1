package dashboard

import (
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
	api := &countingAPI{path: keysPath, pathAPI: pathAPI{scriptedAPI: scriptedAPI{may: true}, documents: map[string]string{
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
