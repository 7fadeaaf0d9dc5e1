package pebblejournal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
)

// restless is a journal that moves its memtable into a table before every second Append, so that
// groups find keys in both.
type restless struct {
	*Journal
	t       journaltest.T
	appends atomic.Int64
}

func (r *restless) Append(
	ctx context.Context, id ident.Shard, epoch uint64, now time.Time, group []*persistence.Batch,
) ([]persistence.Outcome, error) {
	if ctx.Err() == nil && r.appends.Add(1)%2 == 0 {
		r.flush()
	}
	return r.Journal.Append(ctx, id, epoch, now, group)
}

// flush flushes a journal that is not closed.
func (r *restless) flush() {
	if r.enter(context.Background()) == nil {
		defer r.leave()
		require.NoError(r.t, r.store.db.Flush())
	}
}

// TestJournalInTables runs the contract, its model included, over values that lie in tables as often as in memory.
func TestJournalInTables(t *testing.T) {
	journaltest.Run(t, func(t journaltest.T) journaltest.Reopen {
		fs := vfs.NewMem()
		return func() persistence.Journal {
			j, err := Open(Options{FS: fs, Dir: "journal", SegmentBytes: 64 << 10,
				Deployment: ident.Derive(ident.SystemSlot, journaltest.Start, "tables")})
			require.NoError(t, err)
			return &restless{Journal: j, t: t}
		}
	})
}

const testSlot ident.Slot = 0x123

// shardOf opens a journal and takes the shard of testSlot.
func shardOf(t *testing.T, fs vfs.FS) (*Journal, uint64) {
	t.Helper()
	j, err := Open(Options{FS: fs, Dir: "journal", SegmentBytes: 64 << 10})
	require.NoError(t, err)
	heads, err := j.Raise(t.Context(), testSlot.Shard())
	require.NoError(t, err)
	return j, heads[0].Epoch
}

// TestAnAuditReadsWhatIsStored: the newest events come from memory, except for a caller that asks
// for stored ones.
func TestAnAuditReadsWhatIsStored(t *testing.T) {
	j, epoch := shardOf(t, vfs.NewMem())
	event := persistence.Event{Kind: "card", Stream: "a", Version: 1, At: journaltest.Start, Payload: []byte("committed")}
	b := &persistence.Batch{Workspace: "ws", Slot: testSlot, Events: []persistence.Event{event}}
	_, err := j.Append(t.Context(), testSlot.Shard(), epoch, journaltest.Start, []*persistence.Batch{b})
	require.NoError(t, err)
	event.Payload = []byte("changed on disk")
	require.NoError(t, j.store.db.Set(keyEvent(testSlot.Shard(), 1), appendEvent(nil, b, &event), pebble.NoSync))
	for want, ctx := range map[string]context.Context{
		"committed": t.Context(), "changed on disk": persistence.AsStored(t.Context()),
	} {
		events, err := j.Events(ctx, testSlot.Shard(), 0, 1)
		require.NoError(t, err)
		require.Equal(t, want, string(events[0].Payload))
	}
	require.NoError(t, j.Close())
}

// TestGroupOfTwoCommits: a group that is too large for one commit continues in the next with the
// state of the first.
func TestGroupOfTwoCommits(t *testing.T) {
	fs := vfs.NewMem()
	j, epoch := shardOf(t, fs)
	at := journaltest.Start
	claim := persistence.Once{Scope: "s", Expires: at.Add(time.Hour), Answer: []byte("first")}
	expired := persistence.Once{Scope: "brief", Expires: at}
	timer := persistence.Timer{Kind: "card", Stream: "a", Key: "k", Due: at}
	moved, removed := timer, timer
	moved.Due, removed.Due = at.Add(time.Minute), time.Time{}
	event := func(version uint64) persistence.Event {
		return persistence.Event{Kind: "card", Stream: "a", Version: version, At: at}
	}
	group := []*persistence.Batch{
		{Events: []persistence.Event{event(2)}, Onces: []persistence.Once{claim, expired}, Timers: []persistence.Timer{moved},
			Records: []persistence.Record{{Kind: "item", ID: "a", Parent: "q"}, {Kind: "item", ID: "b", Parent: "p"}}},
		noise(t, maxCommit),
		{Events: []persistence.Event{event(3)}, Timers: []persistence.Timer{removed}, Onces: []persistence.Once{expired},
			Records: []persistence.Record{{Kind: "item", ID: "a", Parent: "r"}, {Kind: "item", ID: "b", Deleted: true}}},
		{Onces: []persistence.Once{claim}},
		{Events: []persistence.Event{event(3)}},
	}
	_, err := j.Append(t.Context(), testSlot.Shard(), epoch, at, []*persistence.Batch{{Workspace: "ws", Slot: testSlot,
		Events: []persistence.Event{event(1)}, Timers: []persistence.Timer{timer},
		Records: []persistence.Record{{Kind: "item", ID: "a", Parent: "p"}}}})
	require.NoError(t, err)
	require.NoError(t, j.store.db.Flush())
	for _, b := range group {
		b.Workspace, b.Slot = "ws", testSlot
	}
	outcomes, err := j.Append(t.Context(), testSlot.Shard(), epoch, at, group)
	require.NoError(t, err)
	require.Equal(t, []persistence.Outcome{{First: 2, Last: 2}, {}, {First: 3, Last: 3}}, outcomes[:3])
	var taken *persistence.OnceError
	require.ErrorAs(t, outcomes[3].Err, &taken)
	require.Equal(t, []byte("first"), taken.Existing.Answer)
	require.ErrorIs(t, outcomes[4].Err, persistence.ErrVersion)
	require.NoError(t, j.Close())

	j, _ = shardOf(t, fs)
	for parent, want := range map[string]int{"p": 0, "q": 0, "r": 1} {
		records, err := j.List(t.Context(), testSlot, "item", "ws", parent, persistence.Page{})
		require.NoError(t, err)
		require.Len(t, records, want, parent)
		for _, r := range records {
			require.Equal(t, []any{"a", uint64(1), uint32(1)}, []any{r.ID, r.Position, r.Ordinal})
		}
	}
	timers, err := j.Timers(t.Context(), testSlot.Shard(), at.Add(time.Hour), persistence.Timer{}, 10)
	require.NoError(t, err)
	require.Empty(t, timers)
	events, err := j.Events(t.Context(), testSlot.Shard(), 0, 10)
	require.NoError(t, err)
	require.Len(t, events, 3)
	require.NoError(t, j.Close())
}

// noise is a batch of documents that do not shrink and take this many bytes together.
func noise(t *testing.T, size int) *persistence.Batch {
	t.Helper()
	b, random := &persistence.Batch{}, rand.NewChaCha8([32]byte{1})
	for ; size > 0; size -= persistence.MaxPayload {
		document := make([]byte, persistence.MaxPayload)
		_, err := random.Read(document)
		require.NoError(t, err)
		b.Records = append(b.Records, persistence.Record{Kind: "noise", ID: fmt.Sprint(size), Document: document})
	}
	return b
}

// TestNothingIsHeldThroughASync: while a group waits for its sync, no look-up of it holds a table.
func TestNothingIsHeldThroughASync(t *testing.T) {
	var on atomic.Bool
	reached, gate := make(chan struct{}), make(chan struct{})
	j, epoch := shardOf(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if on.CompareAndSwap(true, false) {
				close(reached)
				<-gate
			}
		}
		return nil
	})))
	put := func() error {
		_, err := j.Append(context.Background(), testSlot.Shard(), epoch, journaltest.Start, []*persistence.Batch{{
			Workspace: "ws", Slot: testSlot, Onces: []persistence.Once{{Scope: "s", Expires: journaltest.Start}},
			Records: []persistence.Record{{Kind: "item", ID: "a"}},
		}})
		return err
	}
	require.NoError(t, put())
	require.NoError(t, j.store.db.Flush())
	p := probe{store: j.store}
	value, err := p.get(keyOnce(testSlot.Shard(), "s", [32]byte{}))
	require.NoError(t, err)
	require.NotNil(t, value)
	require.NotZero(t, j.store.db.Metrics().TableIters, "a look-up holds the table that it found its key in")
	require.NoError(t, p.close())

	on.Store(true)
	answer := make(chan error, 1)
	go func() { answer <- put() }()
	<-reached
	held := j.store.db.Metrics().TableIters
	close(gate)
	require.NoError(t, <-answer)
	require.Zero(t, held)
	require.NoError(t, j.Close())
}

// TestKnownForgets: nothing of one group is there for the next, and only some of its memory.
func TestKnownForgets(t *testing.T) {
	empty := func(k *groupCache) {
		require.Empty(t, k.versions)
		require.Empty(t, k.records)
		require.Empty(t, k.onces)
		require.Empty(t, k.timers)
	}
	k := newGroupCache()
	k.value = make([]byte, 0, keepBytes)
	k.versions[stream{"card", "a"}], k.records[document{"card", "a"}] = 1, place{stored: true}
	k.onces[claim{scope: "s"}], k.timers[alarm{key: "k"}] = []byte{1}, journaltest.Start
	k.forget()
	empty(k)
	require.Equal(t, keepBytes, cap(k.value))
	k.value = make([]byte, 0, keepBytes+1)
	k.forget()
	require.Nil(t, k.value)
	for i := range keepKeys + 1 {
		k.timers[alarm{key: fmt.Sprint(i)}] = journaltest.Start
	}
	large := k.timers
	k.forget()
	empty(k)
	require.NotEmpty(t, large, "a large map is given up, not emptied: it would keep its memory")

	j, epoch := shardOf(t, vfs.NewMem())
	a := appending{j: j, id: testSlot.Shard(), now: journaltest.Start, writes: j.store.writes(), probe: probe{store: j.store},
		known: k}
	a.head.Epoch = epoch
	_, err := a.stage(&persistence.Batch{Workspace: "ws", Slot: testSlot, Records: []persistence.Record{{Kind: "item", ID: "a"}}})
	require.NoError(t, err)
	require.NotEmpty(t, k.records)
	require.NoError(t, a.commit())
	empty(k) // committed keys are in the store: a long group does not keep them twice
	require.NoError(t, j.Close())
}

// TestTimersThatAreNotDueAskNobody has a shard tell its timers while an Append holds it, for as long as none of them is due.
func TestTimersThatAreNotDueAskNobody(t *testing.T) {
	j, _ := shardOf(t, vfs.NewMem())
	id, at := testSlot.Shard(), journaltest.Start
	timers := func(now time.Time) int {
		found, err := j.Timers(t.Context(), id, now, persistence.Timer{}, 10)
		require.NoError(t, err)
		return len(found)
	}
	set := func(due time.Time) {
		timer := persistence.Timer{Kind: "a", Stream: "s", Key: "k", Due: due}
		b := &persistence.Batch{Workspace: "ws", Slot: testSlot, Timers: []persistence.Timer{timer}}
		outcomes, err := j.Append(t.Context(), id, j.Head(id).Epoch, at, []*persistence.Batch{b})
		require.NoError(t, err)
		require.NoError(t, outcomes[0].Err)
	}
	held := func(now time.Time) {
		t.Helper()
		j.shards[id].mu.Lock()
		defer j.shards[id].mu.Unlock()
		told := make(chan int, 1)
		go func() { told <- timers(now) }()
		select {
		case n := <-told:
			require.Zero(t, n)
		case <-time.After(time.Minute):
			require.Fail(t, "it waits for the shard")
		}
	}
	require.Zero(t, timers(at))
	held(at.Add(time.Hour)) // no earlier key is there
	set(at.Add(time.Minute))
	held(at)
	require.Equal(t, 1, timers(at.Add(time.Minute)))
	set(at.Add(time.Hour)) // moved: the first read after it finds out
	require.Zero(t, timers(at.Add(time.Minute)))
	held(at.Add(time.Minute))
	require.Equal(t, 1, timers(at.Add(time.Hour)))
	require.NoError(t, j.Close())
}

// TestATimerSetBesideAReadIsTold: a read that began before a commit does not know of it, and must not say that there is nothing.
// It takes a while over the timers that were removed, and the commit comes at any moment of it.
func TestATimerSetBesideAReadIsTold(t *testing.T) {
	j, _ := shardOf(t, vfs.NewMem())
	id, at := testSlot.Shard(), journaltest.Start
	set := func(n int, due time.Time) {
		b := &persistence.Batch{Workspace: "ws", Slot: testSlot}
		for i := range n {
			b.Timers = append(b.Timers, persistence.Timer{Kind: "a", Stream: fmt.Sprint(i), Key: "k", Due: due})
		}
		outcomes, err := j.Append(t.Context(), id, j.Head(id).Epoch, at, []*persistence.Batch{b})
		require.NoError(t, err)
		require.NoError(t, outcomes[0].Err)
	}
	for i := range 20 {
		set(1000, at.Add(time.Duration(-i)))
	}
	set(1000, time.Time{})
	for i := range 200 {
		j.shards[id].due.Forget()
		read := make(chan error)
		go func() {
			_, err := j.Timers(context.Background(), id, at, persistence.Timer{}, 10)
			read <- err
		}()
		for range i % 20 * 1000 {
			runtime.Gosched()
		}
		set(1, at)
		require.NoError(t, <-read)
		timers, err := j.Timers(t.Context(), id, at, persistence.Timer{}, 10)
		require.NoError(t, err)
		require.Len(t, timers, 1)
		set(1, time.Time{})
	}
	require.NoError(t, j.Close())
}
