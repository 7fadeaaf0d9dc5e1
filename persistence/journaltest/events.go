package journaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/tail"
)

var identityTests = map[string]func(*fixture){
	"stays and differs between stores": func(f *fixture) {
		identity := f.j.Identity()
		require.False(f.t, identity.Store.IsZero())
		require.False(f.t, identity.Deployment.IsZero())
		f.again()
		require.Equal(f.t, identity, f.j.Identity())
		other := start(f.t, f.open)
		require.NotEqual(f.t, identity.Store, other.j.Identity().Store)
	},
}

var eventTests = map[string]func(*fixture){
	"an empty shard": func(f *fixture) {
		require.Zero(f.t, f.j.Head(f.shard).Position)
		require.Empty(f.t, f.events(0, 10))
		require.Empty(f.t, f.append())
	},
	"the time of the newest event": func(f *fixture) {
		newest := func() time.Time {
			at, err := tail.NewestEventTime(f.ctx, f.j)
			require.NoError(f.t, err)
			return at
		}
		require.True(f.t, newest().IsZero())
		f.must(batch(event("card", "a", 1), event("card", "a", 2)), batch(event("card", "b", 1), event("card", "a", 3)))
		sameInstant(f.t, event("card", "a", 3).At, newest())
		f.again()
		sameInstant(f.t, event("card", "a", 3).At, newest())
	},
	"positions are gapless from 1": func(f *fixture) {
		a, b, c := event("card", "a", 1), event("card", "a", 2), event("card", "b", 1)
		outcomes := f.must(batch(a, b), batch(c))
		require.Equal(f.t, []persistence.Outcome{{First: 1, Last: 2}, {First: 3, Last: 3}}, outcomes)
		require.EqualValues(f.t, 3, f.j.Head(f.shard).Position)
		sameEvents(f.t, []persistence.Event{a, b, c}, f.events(0, 10), 1)
		f.again()
		sameEvents(f.t, []persistence.Event{a, b, c}, f.events(0, 10), 1)
		require.EqualValues(f.t, 3, f.j.Head(f.shard).Position)
	},
	"a loser leaves no gap and stops nobody": func(f *fixture) {
		first, last := event("card", "a", 1), event("card", "a", 2)
		outcomes := f.append(batch(first), batch(event("card", "a", 1)), batch(event("card", "b", 9)), batch(last))
		require.NoError(f.t, outcomes[0].Err)
		require.ErrorIs(f.t, outcomes[1].Err, persistence.ErrVersion)
		require.ErrorIs(f.t, outcomes[2].Err, persistence.ErrVersion)
		require.Equal(f.t, persistence.Outcome{First: 2, Last: 2}, outcomes[3])
		sameEvents(f.t, []persistence.Event{first, last}, f.events(0, 10), 1)
	},
	"a name that no store keeps is refused alone": func(f *fixture) {
		for _, name := range []string{"nul\x00", "\xff"} {
			head := f.j.Head(f.shard).Position
			before, after := event("card", fmt.Sprintf("before %x", name), 1), event("card", fmt.Sprintf("after %x", name), 1)
			outcomes := f.append(batch(before), batch(event("card", name, 1)), batch(after))
			require.ErrorIs(f.t, outcomes[1].Err, persistence.ErrRefused)
			require.Equal(f.t, []persistence.Outcome{{First: head + 1, Last: head + 1}, {First: head + 2, Last: head + 2}},
				[]persistence.Outcome{outcomes[0], outcomes[2]})
		}
	},
	"pages": func(f *fixture) {
		var want []persistence.Event
		for version := uint64(1); version <= 7; version++ {
			want = append(want, event("card", "a", version))
		}
		f.must(&persistence.Batch{Workspace: workspace, Slot: slot, Events: want})
		sameEvents(f.t, want[:3], f.events(0, 3), 1)
		sameEvents(f.t, want[3:6], f.events(3, 3), 4)
		sameEvents(f.t, want[6:], f.events(6, 3), 7)
		require.Empty(f.t, f.events(7, 3))
		require.Empty(f.t, f.events(99, 3))
	},
	"a page is bounded in bytes but never empty": func(f *fixture) {
		large := json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), persistence.MaxPayload-2)) + `"`)
		for version := uint64(1); version <= 3; version++ {
			e := event("card", "a", version)
			e.Payload = large
			f.must(batch(e))
		}
		for after := uint64(0); after < 3; after++ {
			events := f.events(after, 3)
			require.NotEmpty(f.t, events)
			require.Less(f.t, len(events), 3)
			require.Equal(f.t, after+1, events[0].Position)
			require.Equal(f.t, large, events[0].Payload)
		}
	},
	"versions are gapless from 1": func(f *fixture) {
		for _, version := range []uint64{0, 2} {
			require.ErrorIs(f.t, f.refused(batch(event("card", "a", version))), persistence.ErrVersion)
		}
		f.must(batch(event("card", "a", 1), event("card", "a", 2)))
		for _, version := range []uint64{0, 1, 2, 4} {
			require.ErrorIs(f.t, f.refused(batch(event("card", "a", version))), persistence.ErrVersion)
		}
		require.ErrorIs(f.t, f.refused(batch(event("card", "a", 3), event("card", "a", 3))), persistence.ErrVersion)
		require.ErrorIs(f.t, f.refused(batch(event("card", "a", 3), event("card", "a", 5))), persistence.ErrVersion)
		f.again()
		require.ErrorIs(f.t, f.refused(batch(event("card", "a", 2))), persistence.ErrVersion)
		f.must(batch(event("card", "a", 3)))
	},
	"a stream is a kind and an id": func(f *fixture) {
		f.must(batch(event("balance", "ws", 1)), batch(event("workspace", "ws", 1)), batch(event("workspac", "ews", 1)))
	},
	"a batch over several streams is checked whole": func(f *fixture) {
		f.must(batch(event("card", "a", 1), event("card", "b", 1), event("card", "a", 2)))
		require.ErrorIs(f.t, f.refused(batch(event("card", "a", 3), event("card", "b", 3))), persistence.ErrVersion)
		f.must(batch(event("card", "b", 2), event("card", "a", 3)))
	},
	"nothing of a loser is written": func(f *fixture) {
		claim := once("http", "k", Start.Add(1e9))
		require.ErrorIs(f.t, f.refused(batch(
			event("card", "a", 2), record("card", "a", "", `{}`), claim, timer("a", "t", Start),
		)), persistence.ErrVersion)
		_, err := f.j.Record(f.ctx, slot, "card", "a")
		require.ErrorIs(f.t, err, persistence.ErrNotFound)
		_, ok, err := f.j.Once(f.ctx, f.shard, claim.Scope, claim.Hash, f.now)
		require.NoError(f.t, err)
		require.False(f.t, ok)
		timers, err := f.j.Timers(f.ctx, f.shard, Start, persistence.Timer{}, 10)
		require.NoError(f.t, err)
		require.Empty(f.t, timers)
	},
	"shards do not see each other": func(f *fixture) {
		other := ident.Slot(0x456)
		heads, err := f.j.Raise(f.ctx, other.Shard())
		require.NoError(f.t, err)
		f.must(batch(event("card", "a", 1)))
		outcomes, err := f.j.Append(f.ctx, other.Shard(), heads[0].Epoch, f.now,
			[]*persistence.Batch{{Workspace: stranger, Slot: other, Events: []persistence.Event{event("card", "a", 1)}}})
		require.NoError(f.t, err)
		require.Equal(f.t, []persistence.Outcome{{First: 1, Last: 1}}, outcomes)
		require.EqualValues(f.t, 1, f.j.Head(f.shard).Position)
		require.EqualValues(f.t, 1, f.j.Head(other.Shard()).Position)
	},
	"the caller keeps what it passed, and owns what it got": func(f *fixture) {
		e := event("card", "a", 1)
		want := event("card", "a", 1)
		b := batch(e)
		f.must(b)
		require.Equal(f.t, want, b.Events[0])
		copy(b.Events[0].Payload, "overwritten")
		got := f.events(0, 1)
		copy(got[0].Payload, "overwritten")
		sameEvents(f.t, []persistence.Event{want}, f.events(0, 1), 1)
	},
	"an advance wakes all that wait": func(f *fixture) {
		f.must(batch(event("card", "a", 1)))
		seen, err := f.j.WaitAdvance(f.ctx, 0)
		require.NoError(f.t, err)
		require.NotZero(f.t, seen)
		done := make(chan error, 2)
		for range cap(done) {
			go func() {
				advances, err := f.j.WaitAdvance(f.ctx, seen)
				if err == nil && (advances <= seen || f.j.Head(f.shard).Position != 2) {
					err = fmt.Errorf("%d advances after %d, head %v", advances, seen, f.j.Head(f.shard))
				}
				done <- err
			}()
		}
		f.raise() // no position advances
		select {
		case err := <-done:
			require.Fail(f.t, "woken too early", "%v", err)
		default:
		}
		f.must(batch(event("card", "a", 2)))
		for range cap(done) {
			require.NoError(f.t, <-done)
		}
	},
	"an advance before the wait ends it": func(f *fixture) {
		seen := uint64(0)
		for version := uint64(1); version <= 3; version++ {
			f.must(batch(event("card", "a", version)))
			advances, err := f.j.WaitAdvance(f.ctx, seen)
			require.NoError(f.t, err)
			require.Greater(f.t, advances, seen)
			seen = advances
		}
	},
	"wait ends with its context": func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		done := make(chan error, 1)
		go func() {
			_, err := f.j.WaitAdvance(ctx, 0)
			done <- err
		}()
		cancel()
		require.ErrorIs(f.t, <-done, context.Canceled)
	},
}

var limitTests = map[string]func(*fixture){
	"a group": func(f *fixture) {
		var group []*persistence.Batch
		for i := range persistence.MaxGroup + 1 {
			group = append(group, batch(event("card", fmt.Sprint(i), 1)))
		}
		_, err := f.j.Append(f.ctx, f.shard, f.epoch, f.now, group)
		require.ErrorIs(f.t, err, persistence.ErrTooLarge)
		require.Zero(f.t, f.j.Head(f.shard).Position)
		f.must(group[1:]...)
		require.EqualValues(f.t, persistence.MaxGroup, f.j.Head(f.shard).Position)
	},
	"a batch too large loses alone": func(f *fixture) {
		var many []persistence.Event
		for version := uint64(1); version <= persistence.MaxBatchEvents+1; version++ {
			many = append(many, event("card", "many", version))
		}
		long := event("card", "long", 1)
		long.Payload = bytes.Repeat([]byte(" "), persistence.MaxPayload+1)
		large := record("card", "large", "", "")
		large.Document = long.Payload
		answer := once("http", "k", Start)
		answer.Answer = long.Payload
		name := record("card", string(bytes.Repeat([]byte("n"), persistence.MaxName+1)), "", `{}`)
		group := []*persistence.Batch{
			{Workspace: workspace, Slot: slot, Events: many}, batch(long), batch(large), batch(answer), batch(name),
			{Workspace: workspace, Slot: slot, Timers: make([]persistence.Timer, persistence.MaxBatchItems+1)},
			batch(event("card", "good", 1)),
		}
		outcomes := f.append(group...)
		for _, o := range outcomes[:len(outcomes)-1] {
			require.ErrorIs(f.t, o.Err, persistence.ErrTooLarge)
		}
		require.Equal(f.t, persistence.Outcome{First: 1, Last: 1}, outcomes[len(outcomes)-1])
		f.must(&persistence.Batch{Workspace: workspace, Slot: slot, Events: many[:persistence.MaxBatchEvents]})
	},
	"a group of large batches": func(f *fixture) {
		document := string(bytes.Repeat([]byte(" "), persistence.MaxPayload-2)) + `{}`
		var group []*persistence.Batch
		for i := range 6 {
			group = append(group, batch(event("card", fmt.Sprint(i), 1), record("card", fmt.Sprint(i), "", document)))
		}
		outcomes := f.must(group...)
		require.EqualValues(f.t, 6, outcomes[5].Last)
		f.again()
		require.Len(f.t, f.events(0, 10), 6)
	},
	"a page": func(f *fixture) {
		for n := range 2 {
			b := batch()
			for i := range 1 + persistence.MaxPage/2 {
				b.Events = append(b.Events, event("card", fmt.Sprint(n), uint64(i+1)))
				b.Records = append(b.Records, record("item", fmt.Sprint(n, i), "", `{}`))
			}
			f.must(b)
		}
		require.Len(f.t, f.events(0, 2*persistence.MaxPage), persistence.MaxPage)
		records, err := f.j.List(f.ctx, slot, "item", workspace, "", persistence.Page{Limit: 2 * persistence.MaxPage})
		require.NoError(f.t, err)
		require.Len(f.t, records, persistence.MaxPage)
	},
}

var contextTests = map[string]func(*fixture){
	"a cancelled call does nothing": func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		_, err := f.j.Append(ctx, f.shard, f.epoch, f.now, []*persistence.Batch{batch(event("card", "a", 1))})
		require.ErrorIs(f.t, err, persistence.ErrUnavailable)
		require.ErrorIs(f.t, err, context.Canceled)
		_, err = f.j.Raise(ctx, f.shard)
		require.ErrorIs(f.t, err, context.Canceled)
		_, err = f.j.Events(ctx, f.shard, 0, 1)
		require.ErrorIs(f.t, err, context.Canceled)
		_, err = f.j.Record(ctx, slot, "card", "a")
		require.ErrorIs(f.t, err, context.Canceled)
		_, err = f.j.List(ctx, slot, "card", workspace, "", persistence.Page{Limit: 1})
		require.ErrorIs(f.t, err, context.Canceled)
		_, err = f.j.Sweep(ctx, f.now, 1)
		require.ErrorIs(f.t, err, context.Canceled)
		require.Equal(f.t, persistence.Head{Epoch: f.epoch}, f.j.Head(f.shard))
	},
	"a closed journal is unavailable": func(f *fixture) {
		waiting := make(chan error, 1)
		go func() { waiting <- AwaitHead(f.ctx, f.j, f.shard, 0) }()
		require.NoError(f.t, f.j.Close())
		require.ErrorIs(f.t, <-waiting, persistence.ErrUnavailable)
		_, err := f.j.Append(f.ctx, f.shard, f.epoch, f.now, []*persistence.Batch{batch(event("card", "a", 1))})
		require.ErrorIs(f.t, err, persistence.ErrUnavailable)
		_, err = f.j.Record(f.ctx, slot, "card", "a")
		require.ErrorIs(f.t, err, persistence.ErrUnavailable)
		require.NoError(f.t, f.j.Close())
	},
}

var epochTests = map[string]func(*fixture){
	"raising fences": func(f *fixture) {
		old := f.epoch
		f.raise()
		require.Greater(f.t, f.epoch, old)
		_, err := f.j.Append(f.ctx, f.shard, old, f.now, []*persistence.Batch{batch(event("card", "a", 1))})
		require.ErrorIs(f.t, err, persistence.ErrFenced)
		_, err = f.j.Append(f.ctx, f.shard, f.epoch+1, f.now, []*persistence.Batch{batch(event("card", "a", 1))})
		require.ErrorIs(f.t, err, persistence.ErrFenced)
		require.Zero(f.t, f.j.Head(f.shard).Position)
		f.must(batch(event("card", "a", 1)))
		require.Equal(f.t, persistence.Head{Position: 1, Epoch: f.epoch}, f.j.Head(f.shard))
	},
	"nobody holds the first epoch": func(f *fixture) {
		_, err := f.j.Append(f.ctx, 0x77, 0, f.now, []*persistence.Batch{{Workspace: workspace, Slot: 0x770}})
		require.ErrorIs(f.t, err, persistence.ErrFenced)
	},
	"an epoch outlives a restart": func(f *fixture) {
		f.must(batch(event("card", "a", 1)))
		old := f.epoch
		f.again()
		require.Equal(f.t, persistence.Head{Position: 1, Epoch: old}, f.j.Head(f.shard))
		f.raise()
		require.Greater(f.t, f.epoch, old)
	},
	"heads come in the order asked": func(f *fixture) {
		f.must(batch(event("card", "a", 1)))
		heads, err := f.j.Raise(f.ctx, 200, f.shard, 3)
		require.NoError(f.t, err)
		require.Equal(f.t, []persistence.Head{{Epoch: 1}, {Position: 1, Epoch: f.epoch + 1}, {Epoch: 1}}, heads)
	},
	"all shards at once": func(f *fixture) {
		var all []ident.Shard
		for i := range ident.Shards {
			all = append(all, ident.Shard(i))
		}
		heads, err := f.j.Raise(f.ctx, all...)
		require.NoError(f.t, err)
		for i, h := range heads {
			require.Equal(f.t, h, f.j.Head(ident.Shard(i)))
			require.NotZero(f.t, h.Epoch)
		}
	},
}

var cursorTests = map[string]func(*fixture){
	"are kept by name and shard": func(f *fixture) {
		expect := func(name string, shard ident.Shard, want uint64) {
			got, err := f.j.Cursor(f.ctx, name, shard)
			require.NoError(f.t, err)
			require.Equal(f.t, want, got)
		}
		expect("relay", 1, 0)
		require.NoError(f.t, f.j.SaveCursor(f.ctx, "relay", 1, 7))
		require.NoError(f.t, f.j.SaveCursor(f.ctx, "relay", 1, 8))
		require.NoError(f.t, f.j.SaveCursor(f.ctx, "relay", 2, 9))
		require.NoError(f.t, f.j.SaveCursor(f.ctx, "book", 1, 3))
		f.again()
		expect("relay", 1, 8)
		expect("relay", 2, 9)
		expect("book", 1, 3)
		expect("book", 2, 0)
	},
}
