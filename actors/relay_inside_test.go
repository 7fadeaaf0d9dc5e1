package actors

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// TestARoundIsSplitByWorkspace: the runs have the entries of each workspace in their order, and
// begin in the order of the round. The round itself is unchanged, because a balance that answered
// the previous send late may still read it.
func TestARoundIsSplitByWorkspace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workspaces := rapid.SliceOfN(rapid.ByteRange(1, 4), 1, 40).Draw(t, "workspaces")
		entries := make([]hold.Entry, len(workspaces))
		for i, w := range workspaces {
			entries[i] = hold.Entry{Seq: uint64(i + 1), Workspace: ident.UUID{w}}
		}
		read := slices.Clone(entries)
		var want []workspaceRun
		for _, e := range read {
			i := slices.IndexFunc(want, func(r workspaceRun) bool { return r.workspace == e.Workspace })
			if i < 0 {
				i, want = len(want), append(want, workspaceRun{workspace: e.Workspace})
			}
			want[i].entries = append(want[i].entries, e)
		}
		require.Equal(t, want, splitByWorkspace(entries))
		require.Equal(t, read, entries)
	})
	require.Empty(t, splitByWorkspace(nil))
}

func BenchmarkByWorkspace(b *testing.B) {
	for _, workspaces := range []int{1, 4, 40} {
		b.Run(fmt.Sprint("workspaces=", workspaces), func(b *testing.B) {
			b.ReportAllocs()
			entries := make([]hold.Entry, 40)
			for i := range entries {
				entries[i].Workspace = ident.UUID{byte(i % workspaces)}
			}
			for b.Loop() {
				splitByWorkspace(entries)
			}
		})
	}
}

// TestTheRelayTurnsCoverAllShards: every shard has a turn of its own, and the shards of one residue
// follow each other.
func TestTheRelayTurnsCoverAllShards(t *testing.T) {
	turns := make([]ident.Shard, ident.Shards)
	for id := range ident.Shards {
		turns[relayTurn(ident.Shard(id))] = ident.Shard(id)
	}
	sorted := slices.Clone(turns)
	slices.Sort(sorted)
	for id, got := range sorted {
		require.Equal(t, ident.Shard(id), got)
	}
	for turn := 1; turn < len(turns); turn++ {
		changed := turns[turn]%relayResidues != turns[turn-1]%relayResidues
		require.Equal(t, turn%(ident.Shards/relayResidues) == 0, changed, "turn %d", turn)
	}
}
