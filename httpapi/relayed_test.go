package httpapi

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client that was answered a swipe reads its effects afterwards, so a read of money waits for the
// relay of its workspace.
func TestReadingsAwaitTheRelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	card := w.mint(tn, "").text("card", "id")
	today := w.clock.now().UTC().Format("2006-01-02")
	for _, path := range []string{"/api/treasury", "/api/cards", "/api/cards/" + card, "/api/authorizations",
		"/api/treasury/statement?format=csv&from=" + today + "&to=" + today} {
		w.actors.awaited = nil
		require.Equal(t, 200, w.get(tn.all, path).status, path)
		require.Equal(t, []string{tn.workspace}, w.actors.awaited, path)
	}
}

// WaitRelayed records the workspace.
func (h *hooked) WaitRelayed(ctx context.Context, workspace string) {
	h.mu.Lock()
	h.awaited = append(h.awaited, workspace)
	h.mu.Unlock()
	h.Actors.WaitRelayed(ctx, workspace)
}
