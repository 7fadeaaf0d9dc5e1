package authorizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

var (
	epoch      = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	deployment = ident.Derive(ident.SystemSlot, epoch, "deployment")
	usd        = [3]byte{'U', 'S', 'D'}
)

// turnedClock is a clock that only a test turns.
type turnedClock struct{ ms atomic.Int64 }

func newClock() *turnedClock {
	c := &turnedClock{}
	c.ms.Store(epoch.UnixMilli())
	return c
}

func (c *turnedClock) now() time.Time          { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *turnedClock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// rig is an engine over a file system in memory, with a clock of the test.
type rig struct {
	t      testing.TB
	fs     vfs.FS
	clock  *turnedClock
	e      *Engine
	fatals atomic.Int64
	fatal  atomic.Pointer[error]
	follow map[ident.Shard]uint64
	mu     sync.Mutex
}

func newRig(t testing.TB, fs vfs.FS, change ...func(o *Options)) *rig {
	t.Helper()
	r := &rig{t: t, fs: fs, clock: newClock(), follow: make(map[ident.Shard]uint64)}
	r.open(change...)
	t.Cleanup(func() {
		if r.e != nil && r.fatals.Load() == 0 {
			require.NoError(t, r.e.Close())
		}
	})
	return r
}

func (r *rig) options(change ...func(o *Options)) Options {
	o := Options{
		FS: r.fs, Dir: "store", Deployment: deployment, CacheBytes: 64 << 20, Clock: r.clock.now,
		SegmentBytes: 256 << 10,
		Entropy:      newEntropy(), // another one after each start, because no behaviour may depend on it
		Fatal: func(err error) {
			r.fatal.Store(&err)
			r.fatals.Add(1)
		},
		// Answers are late only by a test's own deadline, so that a slow machine does not change a
		// result.
		Deadline: func() <-chan time.Time { return nil },
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func (r *rig) open(change ...func(o *Options)) {
	r.t.Helper()
	e, err := Open(r.options(change...))
	require.NoError(r.t, err)
	r.e = e
	for i := range ident.Shards {
		r.follow[ident.Shard(i)] = e.Followed(ident.Shard(i))
	}
}

var starts atomic.Uint64

func newEntropy() *rand.ChaCha8 {
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], starts.Add(1))
	return rand.NewChaCha8(seed)
}

// reopen closes and opens the engine, like a clean restart.
func (r *rig) reopen(change ...func(o *Options)) {
	r.t.Helper()
	require.NoError(r.t, r.e.Close())
	r.e = nil // closed only once, even if the start fails
	r.open(change...)
}

// testCard is a card of a workspace, both derived from a slot and a number.
type testCard struct {
	token     ident.Token
	card      ident.UUID
	workspace ident.UUID
}

func cardOf(slot ident.Slot, n int) testCard {
	var seed [32]byte
	copy(seed[:], fmt.Sprintf("%d/%d", slot, n))
	token, err := ident.NewToken(slot, bytes.NewReader(seed[:]))
	if err != nil {
		panic(err)
	}
	return testCard{
		token: token, card: ident.Derive(slot, epoch, fmt.Sprint("card", n)), workspace: workspaceOf(slot),
	}
}

func workspaceOf(slot ident.Slot) ident.UUID { return ident.Derive(slot, epoch, "workspace") }

func (c testCard) rule(version uint64, state hold.CardState) hold.Rule {
	return hold.Rule{
		Token: c.token, Card: c.card, Workspace: c.workspace, Version: version, State: state,
		PerTxnCents: 1_000_000, MonthCents: 10_000_000,
	}
}

// follows applies a Follow at the next position of its shard.
func (r *rig) follows(shard ident.Shard, f Follow) {
	r.t.Helper()
	r.mu.Lock()
	r.follow[shard]++
	f.Through = r.follow[shard]
	r.mu.Unlock()
	require.NoError(r.t, r.e.Follow(shard, f))
}

func (r *rig) mint(c testCard, change ...func(rule *hold.Rule)) {
	r.t.Helper()
	rule := c.rule(1, hold.CardActive)
	for _, f := range change {
		f(&rule)
	}
	r.follows(c.card.Shard(), Follow{Rules: []hold.Rule{rule}})
}

func (r *rig) deposit(workspace ident.UUID, cents money.Cents) {
	r.t.Helper()
	r.follows(workspace.Shard(), Follow{Credits: []Credit{{Workspace: workspace, Cents: cents}}})
}

func authorization(id string, c testCard, cents money.Cents) *hold.Message {
	return signed(&hold.Message{
		Kind: hold.Authorization, ID: id, Token: c.token, Amount: cents, Currency: usd,
		Merchant: hold.Merchant{Name: "Corner Shop", MCC: 5411},
	})
}

func incremental(id, original string, c testCard, cents money.Cents) *hold.Message {
	m := authorization(id, c, cents)
	m.Kind, m.OriginalID = hold.Incremental, original
	return signed(m)
}

func reversal(id, original string) *hold.Message {
	return signed(&hold.Message{Kind: hold.Reversal, ID: id, OriginalID: original, WholeHold: true})
}

func clearing(id, original string, c testCard, cents money.Cents) *hold.Message {
	m := authorization(id, c, cents)
	m.Kind, m.OriginalID = hold.Clearing, original
	return signed(m)
}

func refund(id, original string, c testCard, cents money.Cents) *hold.Message {
	m := clearing(id, original, c, cents)
	m.Kind = hold.Refund
	return signed(m)
}

func signed(m *hold.Message) *hold.Message {
	m.Fingerprint = m.Sum()
	return m
}

func (r *rig) submit(m *hold.Message) hold.Answer {
	r.t.Helper()
	return r.e.Submit(m)
}

func (r *rig) approved(m *hold.Message) hold.Answer {
	r.t.Helper()
	a := r.e.Submit(m)
	require.Equal(r.t, hold.Approved, a.Decision, "%+v", a)
	require.Equal(r.t, m.Amount, a.Approved)
	return a
}

func (r *rig) declined(m *hold.Message, why hold.Reason) hold.Answer {
	r.t.Helper()
	a := r.e.Submit(m)
	require.Equal(r.t, hold.Declined, a.Decision, "%+v", a)
	require.Equal(r.t, why, a.Reason)
	require.Zero(r.t, a.Approved)
	return a
}

func (r *rig) funds(workspace ident.UUID) Funds {
	f, _ := r.e.Funds(workspace)
	return f
}

// walk visits the store of now.
func (r *rig) walk(visit func(s *Snapshot) error) error {
	s := r.e.Snapshot()
	return errors.Join(visit(s), s.Close())
}

// hold returns an authorization, which must be known.
func (r *rig) hold(id ident.UUID) (h hold.Hold) {
	r.t.Helper()
	found, err := r.e.store.readHold(&scratch{}, &id, &h)
	require.NoError(r.t, err)
	require.True(r.t, found)
	return h
}

// log returns all durable entries of a shard.
func (r *rig) log(shard ident.Shard) []hold.Entry {
	r.t.Helper()
	var all []hold.Entry
	for {
		after := uint64(0)
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		more, err := r.e.ReadLog(shard, after, MaxRead)
		require.NoError(r.t, err)
		if len(more) == 0 {
			return all
		}
		all = append(all, more...)
	}
}

// agree checks that the log is gapless and that funds, spends and holds equal its sums.
func (r *rig) agree() {
	r.t.Helper()
	wsSeq, cents := make(map[ident.UUID]uint64), make(map[ident.UUID]money.Cents)
	held, spends := make(map[ident.UUID]money.Cents), make(map[ident.UUID]hold.Spend)
	for i := range ident.Shards {
		for j, n := range r.log(ident.Shard(i)) {
			require.Equal(r.t, uint64(j+1), n.Seq, "a hole in the log of shard %d", i)
			wsSeq[n.Workspace]++
			require.Equal(r.t, wsSeq[n.Workspace], n.WsSeq)
			cents[n.Workspace] += n.CardDelta
			held[n.After.ID] += n.HoldDelta
			if !n.Card.IsZero() {
				spends[n.Card] = n.Spend
			}
		}
	}
	require.NoError(r.t, r.walk(func(s *Snapshot) error {
		return errors.Join(
			s.WalkFunds(func(w ident.UUID, f Funds, seq uint64) error {
				require.Equal(r.t, cents[w], f.CardCents)
				require.Equal(r.t, wsSeq[w], seq)
				delete(cents, w)
				return nil
			}),
			s.WalkHolds(func(h *hold.Hold) error {
				require.Equal(r.t, held[h.ID], h.Held)
				return nil
			}),
			s.WalkSpends(func(card ident.UUID, s hold.Spend) error {
				require.Equal(r.t, spends[card], s)
				return nil
			}))
	}))
	require.Empty(r.t, cents)
}
