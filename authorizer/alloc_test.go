//go:build !race

package authorizer

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
)

// Under the race detector sync.Pool drops tickets at random, so this runs in make test only.
func TestDecisionAllocatesNothing(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	c := cardOf(50, 1)
	r.mint(c)
	r.deposit(c.workspace, 1_000_000)
	m := authorization("a1", c, 100)
	r.approved(m)
	sh := r.e.shards[c.card.Shard()]
	allocs := testing.AllocsPerRun(1000, func() {
		tk := r.e.newTicket(actDecide)
		tk.keep(m)
		tk.view.Now = epoch.UnixMilli()
		require.True(t, r.e.claim(tk, m))
		require.NoError(t, r.e.address(tk, &tk.message))
		sh.mu.Lock()
		ready := sh.fill(tk)
		tk.view.Spendable, _ = spendable(tk.funds)
		tk.view.Spend = tk.spend.spend
		err := r.e.judge(tk)
		sh.mu.Unlock()
		if !ready || err != nil || tk.entry.Decision != hold.Approved {
			t.Fatal("not decided")
		}
		r.e.release(tk)
	})
	require.Zero(t, allocs)
}
