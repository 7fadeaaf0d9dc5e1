package authorizer

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// The log of each shard reads as one, in whatever chunks its entries lie, with some in memory and
// old ones trimmed: without gaps, up to the last entry, and from a snapshot too.
func TestChunksReadAsOneLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, vfs.NewMem())
		cards := make([]testCard, 4)
		want := map[ident.Shard]uint64{}   // last entry
		marked := map[ident.Shard]uint64{} // last relayed entry that a trim may drop
		for i := range cards {
			cards[i] = cardOf(ident.Slot(16*i+3), 1)
			r.mint(cards[i])
			r.deposit(cards[i].workspace, 1_000_000)
		}
		pick := rapid.SampledFrom(cards)
		n := 0
		rt.Repeat(map[string]func(*rapid.T){
			"decide": func(rt *rapid.T) {
				for range rapid.IntRange(1, 3).Draw(rt, "decisions") {
					c := pick.Draw(rt, "card")
					n++
					r.approved(authorization(fmt.Sprint("m", n), c, 1))
					want[c.card.Shard()]++
				}
			},
			"project": func(*rapid.T) { require.NoError(t, r.e.store.projector.projectAll()) },
			"reopen":  func(*rapid.T) { r.reopen() },
			"trim": func(rt *rapid.T) {
				shard := pick.Draw(rt, "card").card.Shard()
				marked[shard] = rapid.Uint64Range(marked[shard], want[shard]).Draw(rt, "relayed")
				require.NoError(t, r.e.MarkRelayed(shard, marked[shard]))
				require.NoError(t, r.e.Trim(r.clock.now().Add(KeepRelayed+2*time.Hour)))
			},
			"": func(rt *rapid.T) {
				for _, c := range cards {
					shard := c.card.Shard()
					require.Equal(t, want[shard], r.e.Synced(shard))
					after := rapid.Uint64Range(marked[shard], want[shard]).Draw(rt, "after")
					limit := rapid.IntRange(1, 5).Draw(rt, "limit")
					requireLog(t, r.e.ReadLog, shard, after, want[shard], limit)
				}
			},
			"snapshot": func(rt *rapid.T) {
				snapshot := r.e.Snapshot()
				for _, c := range cards {
					shard := c.card.Shard()
					after := rapid.Uint64Range(marked[shard], want[shard]).Draw(rt, "after")
					requireLog(t, snapshot.ReadLog, shard, after, want[shard], 3)
				}
				require.NoError(t, snapshot.Close())
			},
		})
		require.NoError(t, r.e.Close())
		r.e = nil
	})
}

// requireLog reads the entries of a shard after one number, page by page, through the last one.
func requireLog(t *testing.T, read func(ident.Shard, uint64, int) ([]hold.Entry, error), shard ident.Shard,
	after, last uint64, limit int) {
	t.Helper()
	for {
		entries, err := read(shard, after, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(entries), limit)
		if len(entries) == 0 {
			break
		}
		for _, n := range entries {
			after++
			require.Equal(t, after, n.Seq)
			require.Equal(t, shard, n.Shard)
		}
	}
	require.Equal(t, last, after)
}
