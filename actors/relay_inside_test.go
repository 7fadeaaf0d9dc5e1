package actors

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/authorizer/hold"
	"purser/persistence"
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

// growingLog is an authorizer of one shard, whose log grows with synced, and a journal.
type growingLog struct {
	Authorizer
	persistence.Journal
	synced    atomic.Uint64
	reads     atomic.Int64 // calls of Synced until afterRead is called
	afterRead func()       // called between a read and its return
}

func (g *growingLog) Synced(ident.Shard) uint64 {
	synced := g.synced.Load()
	if g.reads.Add(-1) == 0 {
		g.afterRead()
	}
	return synced
}

func (g *growingLog) ReadLog(_ ident.Shard, after uint64, _ int) ([]hold.Entry, error) {
	return []hold.Entry{{Seq: after + 1, Workspace: ident.System}}, nil
}

func (g *growingLog) MarkRelayed(ident.Shard, uint64) error { return nil }

func (g *growingLog) SaveCursor(context.Context, string, ident.Shard, uint64) error {
	return nil
}

// TestAnIdleShardHasNoRelayGoroutine: whenever entries are added, one goroutine relays all of them
// and ends.
func TestAnIdleShardHasNoRelayGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &growingLog{}
		l := newRelayer(&System{
			loops:   newLoops(&Config{Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Slack: 1}),
			journal: log, authorizer: log, listener: silent{},
			config: Config{RelayEvery: relayEvery, RelayWithin: relayWithin},
		})
		l.ask = func(context.Context, Envelope) (any, error) { return nil, nil }
		var kept atomic.Int64
		sh := &shard{id: 9, wanted: make(chan struct{}, 1), pending: pendingCards{kept: &kept}}
		l.wake(sh)
		l.running.Wait() // an empty log
		for range 100 {
			var appenders sync.WaitGroup
			for range 4 {
				pause := rand.N(2 * relayEvery)
				appenders.Go(func() {
					time.Sleep(pause)
					log.synced.Add(1)
					l.wake(sh)
				})
			}
			appenders.Wait()
			l.running.Wait()
			require.Equal(t, log.Synced(sh.id), sh.relayed.load())
		}
		log.afterRead = func() {
			log.synced.Add(1)
			l.wake(sh)
		}
		for read := range int64(8) { // an entry comes right after this read
			log.reads.Store(read + 1)
			log.synced.Add(1)
			l.wake(sh)
			l.running.Wait()
			require.Equal(t, log.synced.Load(), sh.relayed.load(), "entry after read %d", read)
		}
		log.synced.Add(1)
		_, ok := sh.pending.ofCard(ident.UUID{}, sh.relayed.load(), log.synced.Load(),
			func(after uint64, limit int) ([]hold.Entry, error) { return log.ReadLog(sh.id, after, limit) })
		require.True(t, ok)
		require.EqualValues(t, 1, kept.Load())
		for range 4 {
			l.wake(sh)
		}
		synctest.Wait()
		require.Equal(t, 1, relayRuns(), "runs of one shard")
		l.running.Wait()
		synctest.Wait()
		require.Zero(t, relayRuns())
		require.Zero(t, kept.Load(), "a read's entries that are relayed")
	})
}

// relayRuns counts the goroutines of synctest's bubble that relay a shard.
func relayRuns() (n int) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "synctest bubble") && strings.Contains(stack, "actors.(*relayer).run(") {
			n++
		}
	}
	return n
}
