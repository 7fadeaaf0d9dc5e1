package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// TestSwipesAloneAdvanceTheFollower: relayed swipes carry no rule or credit for the authorizer, and
// still advance its stored position, so a start reads fewer events again.
func TestSwipesAloneAdvanceTheFollower(t *testing.T) {
	const swipes, bytesOfASwipe = 2000, 300
	w := newTestStack(t, vfs.NewMem(), stackOptions{})
	defer w.stop()
	ws := w.newWorkspace(21)
	w.deposit(ws, 10_000_000)
	c := w.mintCard(ws, 10_000_000, 10_000)
	id, err := ident.Parse(ident.Workspace, ws)
	require.NoError(t, err)
	shard := id.Shard()
	before := w.engine.Followed(shard)
	for i := range swipes {
		require.Equal(t, hold.Approved, w.submit(networkMessage(hold.Authorization, fmt.Sprint("s", i), c,
			100)).Decision)
	}
	require.Greater(t, swipes*bytesOfASwipe, 2*256<<10, "twice followBytes")
	require.Eventually(t, func() bool { return w.engine.Followed(shard) > before }, time.Minute, 10*time.Millisecond)
	w.requireCleanAudit()
}
