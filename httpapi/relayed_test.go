package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/query"
)

// A client that was answered a swipe reads its effects afterwards, so a read of money waits for the
// relay of its workspace.
func TestReadingsAwaitTheRelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.mint(tn, "")
	today := w.clock.now().UTC().Format("2006-01-02")
	for _, path := range []string{"/api/treasury", "/api/cards", "/api/authorizations",
		"/api/treasury/statement?format=csv&from=" + today + "&to=" + today} {
		w.actors.awaited = nil
		require.Equal(t, 200, w.get(tn.all, path).status, path)
		require.Equal(t, []string{tn.workspace}, w.actors.awaited, path)
	}
}

// The authorizations of a card are the journal's, with newer states in their places and new ones
// before them.
func TestPendingDecisionsAreShown(t *testing.T) {
	t.Parallel()
	stored := func(ids ...string) (records []query.Record[json.RawMessage]) {
		for _, id := range ids {
			records = append(records, query.Record[json.RawMessage]{ID: id, Document: json.RawMessage(`"` + id + `"`)})
		}
		return records
	}
	pending := func(id, status string, created bool) balance.CardDecision {
		return balance.CardDecision{Authorization: &balance.Authorization{ID: id, Status: status}, Created: created}
	}
	recent, err := addPending(stored("c", "b", "a"), []balance.CardDecision{
		pending("b", "cleared", false), pending("old", "expired", false), {}, pending("c", "held", true),
		pending("d", "held", true), pending("d", "held", true), pending("d", "reversed", false), pending("e", "held", true)})
	require.NoError(t, err)
	shown := make([]string, len(recent))
	for i, document := range recent {
		var a balance.Authorization
		if json.Unmarshal(document, &a) != nil {
			require.NoError(t, json.Unmarshal(document, &a.ID))
		}
		shown[i] = a.ID + " " + a.Status
	}
	require.Equal(t, []string{"e held", "d reversed", "c held", "b cleared", "a "}, shown)
	many := make([]balance.CardDecision, 2*recentAuthorizations)
	for i := range many {
		many[i] = pending(fmt.Sprint("p", i), "held", true)
	}
	recent, err = addPending(stored("a"), many)
	require.NoError(t, err)
	require.Len(t, recent, recentAuthorizations)
	var page []string
	for i := range recentAuthorizations {
		page = append(page, fmt.Sprint("p", 39-i))
	}
	for through := 39; through >= 10; through -= 29 { // the journal got all of them, or the page alone
		recent, err = addPending(stored(page...), many[10:through+1])
		require.NoError(t, err)
		require.Contains(t, string(recent[0]), "p39", "the newest, with pending ones through p%d", through)
		require.Contains(t, string(recent[recentAuthorizations-1]), "p20")
	}
	recent, err = addPending(nil, nil)
	require.NoError(t, err)
	require.NotNil(t, recent)
}

// WaitRelayed records the workspace.
func (h *hooked) WaitRelayed(ctx context.Context, workspace string) {
	h.mu.Lock()
	h.awaited = append(h.awaited, workspace)
	h.mu.Unlock()
	h.Actors.WaitRelayed(ctx, workspace)
}
