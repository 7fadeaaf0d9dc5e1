package httpapi

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"purser/actors/fault"
	"purser/actors/workspace"

	"github.com/stretchr/testify/require"
)

// longCards mints cards whose allowlists have a thousand merchants of 80 characters.
func (w *world) longCards(tn tenant, n int) {
	w.t.Helper()
	names := make([]string, 1_000)
	for i := range names {
		names[i] = fmt.Sprintf(`"%04d%s"`, i, strings.Repeat("m", 76))
	}
	for range n {
		w.mint(tn, `,"allowedMerchants":[`+strings.Join(names, ",")+`]`)
	}
}

// A page ends at about maxPageBytes, and the pages together have every card once.
func TestAPageOfLongRecordsEnds(t *testing.T) {
	w := newWorld(t)
	tn := w.newTenant("ada")
	const cards = 40 // about 84 kB each
	w.longCards(tn, cards)
	seen, pages := map[string]bool{}, 0
	for cursor := ""; ; pages++ {
		got := w.ok(w.get(tn.all, "/api/cards?limit=100"+cursor))
		require.Less(t, len(got.raw), 2*maxPageBytes)
		for _, one := range got.at("data").([]any) {
			id := one.(map[string]any)["id"].(string)
			require.False(t, seen[id], id)
			seen[id] = true
		}
		next, more := got.at("nextCursor").(string)
		if !more {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(next)
	}
	require.Len(t, seen, cards)
	require.GreaterOrEqual(t, pages, 2)
}

// Bytes of requests and answers count against the workspace and the address: a batch of tools ends
// with rate_limited, and so does the workspace's next request until a minute has passed. Another
// workspace is answered.
func TestLongAnswersCountByTheirBytes(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.RateLimits = RateLimits{PerKey: 1_000, PerWorkspace: 1_000, PerAddress: 1_000} })
	ada, bob := w.newTenant("ada"), w.newTenant("bob")
	w.longCards(ada, 16)
	w.clock.turn(rateWindow)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_cards","arguments":{"limit":100}}}`
	status, batch := w.rpc(ada.all, "["+strings.Repeat(call+",", 31)+call+"]")
	require.Equal(t, 200, status)
	require.Contains(t, batch, "rate_limited")
	require.Less(t, len(batch), 2*byteUnit*unitsPerWorkspace)
	w.fails(w.get(ada.all, "/api/cards?limit=1"), 429, "rate_limited")
	w.ok(w.get(bob.all, "/api/cards?limit=1"))
	w.clock.turn(rateWindow)
	w.ok(w.get(ada.all, "/api/cards?limit=1"))
}

// A workspace makes one statement at a time, and leaves the other places to others.
func TestAWorkspaceHasOnePlaceForStatements(t *testing.T) {
	h := newTreasuryHandlers(nil, nil)
	of := func(ctx context.Context, name string) *call {
		return &call{ctx: ctx, who: caller{access: workspace.Access{Workspace: name}}}
	}
	done, err := h.statementTurn(of(t.Context(), "ada"))
	require.NoError(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.statementTurn(of(over, "ada"))
	require.True(t, fault.Is(err, fault.Unavailable), err)
	other, err := h.statementTurn(of(t.Context(), "bob"))
	require.NoError(t, err)
	other()
	done()
	again, err := h.statementTurn(of(t.Context(), "ada"))
	require.NoError(t, err)
	again()
}
