package journaltest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
)

// list returns a page of a list. It fails the test with the journal's error.
func (f *fixture) list(kind, workspace, parent string, page persistence.Page) []persistence.Record {
	f.t.Helper()
	records, err := f.j.List(f.ctx, slot, kind, workspace, parent, page)
	require.NoError(f.t, err)
	for i := 1; i < len(records); i++ {
		a, b := records[i-1], records[i]
		require.True(f.t, a.Position > b.Position || a.Position == b.Position && a.Ordinal > b.Ordinal, "%s before %s", a.ID,
			b.ID)
	}
	return records
}

func ids(records []persistence.Record) []string {
	got := []string{}
	for _, r := range records {
		got = append(got, r.ID)
	}
	return got
}

func (f *fixture) record(kind, id string) persistence.Record {
	f.t.Helper()
	r, err := f.j.Record(f.ctx, slot, kind, id)
	require.NoError(f.t, err)
	return r
}

var recordTests = map[string]func(*fixture){
	"a record comes back as it was": func(f *fixture) {
		want := record("card", "card_1", "p", `{"b": 1, "a":[ ]}`)
		want.Version = 41
		f.must(batch(want))
		f.again()
		got := f.record("card", "card_1")
		want.Position, want.Ordinal = got.Position, got.Ordinal
		require.Equal(f.t, want, got)
		for _, other := range []string{"card_", "card_2", ""} {
			_, err := f.j.Record(f.ctx, slot, "card", other)
			require.ErrorIs(f.t, err, persistence.ErrNotFound)
		}
		_, err := f.j.Record(f.ctx, slot, "car", "dcard_1")
		require.ErrorIs(f.t, err, persistence.ErrNotFound)
	},
	"the newest first, page by page": func(f *fixture) {
		for i := range 3 {
			f.must(batch(event("card", fmt.Sprint(i), 1), record("item", fmt.Sprint(2*i), "", `{}`),
				record("item", fmt.Sprint(2*i+1), "", `{}`)))
		}
		// Batches without an event stand where the shard stood, and still have their own places.
		f.must(batch(record("item", "6", "", `{}`)), batch(record("item", "7", "", `{}`)))
		f.must(batch(record("item", "8", "", `{}`)))
		want := []string{"8", "7", "6", "5", "4", "3", "2", "1", "0"}
		require.Equal(f.t, want, ids(f.list("item", workspace, "", persistence.Page{Limit: 100})))
		for size := 1; size <= len(want)+1; size++ {
			require.Equal(f.t, want, ids(f.pages("item", size)))
		}
	},
	"a list is read from any position": func(f *fixture) {
		for i := range 3 {
			f.must(batch(event("card", fmt.Sprint(i), 1), event("card", fmt.Sprint(i), 2),
				record("item", fmt.Sprint(2*i), "", `{}`), record("item", fmt.Sprint(2*i+1), "", `{}`)))
		}
		all := f.list("item", workspace, "", persistence.Page{Limit: 10})
		for position := uint64(1); position <= all[0].Position+1; position++ {
			want := []string{}
			for _, r := range all {
				if r.Position < position {
					want = append(want, r.ID)
				}
			}
			require.Equal(f.t, want, ids(f.list("item", workspace, "", persistence.Page{AfterPosition: position, Limit: 10})))
		}
	},
	"an empty shard's first record can be paged past": func(f *fixture) {
		f.must(batch(record("item", "a", "", `{}`)), batch(record("item", "b", "", `{}`)))
		require.Equal(f.t, []string{"b", "a"}, ids(f.pages("item", 1)))
	},
	"an update keeps its place": func(f *fixture) {
		f.must(batch(event("card", "a", 1), record("item", "a", "", `1`), record("item", "b", "", `1`)))
		before := f.record("item", "a")
		changed := record("item", "a", "", `2`)
		changed.Version = 2
		f.must(batch(event("card", "a", 2), changed, record("item", "c", "", `1`)))
		after := f.record("item", "a")
		require.Equal(f.t, before.Position, after.Position)
		require.Equal(f.t, before.Ordinal, after.Ordinal)
		require.Equal(f.t, json.RawMessage(`2`), after.Document)
		require.EqualValues(f.t, 2, after.Version)
		require.Equal(f.t, []string{"c", "b", "a"}, ids(f.list("item", workspace, "", persistence.Page{Limit: 10})))
	},
	"the last writing in a batch stands": func(f *fixture) {
		f.must(batch(record("item", "a", "", `1`), record("item", "a", "", `2`)))
		require.Equal(f.t, json.RawMessage(`2`), f.record("item", "a").Document)
		require.Len(f.t, f.list("item", workspace, "", persistence.Page{Limit: 10}), 1)
	},
	"a removed record is gone": func(f *fixture) {
		f.must(batch(event("card", "a", 1), record("item", "a", "", `1`), record("item", "b", "", `1`)))
		gone := persistence.Record{Kind: "item", ID: "a", Slot: slot, Workspace: workspace, Deleted: true}
		f.must(batch(gone))
		f.must(batch(gone)) // removing a missing record is no error
		_, err := f.j.Record(f.ctx, slot, "item", "a")
		require.ErrorIs(f.t, err, persistence.ErrNotFound)
		require.Equal(f.t, []string{"b"}, ids(f.list("item", workspace, "", persistence.Page{Limit: 10})))
		f.must(batch(event("card", "a", 2), record("item", "a", "", `2`)))
		require.Equal(f.t, []string{"a", "b"}, ids(f.list("item", workspace, "", persistence.Page{Limit: 10})))
	},
	"lists have walls": func(f *fixture) {
		f.must(batch(record("item", "a", "", `{}`), record("item", "b", "p", `{}`), record("other", "a", "", `{}`)))
		theirs := record("item", "c", "", `{}`)
		theirs.Workspace, theirs.Slot = stranger, neighbour
		f.must(&persistence.Batch{Workspace: stranger, Slot: neighbour, Records: []persistence.Record{theirs}})
		all := persistence.Page{Limit: 10}
		require.Equal(f.t, []string{"a"}, ids(f.list("item", workspace, "", all)))
		require.Equal(f.t, []string{"b"}, ids(f.list("item", workspace, "p", all)))
		require.Equal(f.t, []string{"c"}, ids(f.list("item", stranger, "", all)))
		for _, wall := range [][2]string{{workspace + "p", ""}, {"", workspace}, {workspace, "pp"}, {"", ""}} {
			require.Empty(f.t, f.list("item", wall[0], wall[1], all))
		}
	},
	"a record moves to another parent": func(f *fixture) {
		f.must(batch(record("item", "a", "p", `{}`), record("item", "b", "q", `{}`)))
		f.must(batch(record("item", "a", "q", `{}`)))
		require.Empty(f.t, f.list("item", workspace, "p", persistence.Page{Limit: 10}))
		require.Equal(f.t, []string{"b", "a"}, ids(f.list("item", workspace, "q", persistence.Page{Limit: 10})))
	},
	"what an item leaves empty is the batch's": func(f *fixture) {
		e := event("card", "a", 1)
		e.Workspace = ""
		f.must(batch(e, persistence.Record{Kind: "item", ID: "a", Document: json.RawMessage(`{}`)},
			persistence.Timer{Kind: "card", Stream: "a", Key: "k", Due: Start}))
		require.Equal(f.t, workspace, f.events(0, 1)[0].Workspace)
		require.Equal(f.t, slot, f.record("item", "a").Slot)
		require.Equal(f.t, []string{"a"}, ids(f.list("item", workspace, "", persistence.Page{Limit: 10})))
		sameTimers(f.t, []persistence.Timer{timer("a", "k", Start)}, f.timers(Start, 10))
	},
	"walks in the order of ids": func(f *fixture) {
		f.must(batch(record("item", "b", "x", `{}`), record("item", "aa", "", `{}`)))
		f.must(batch(record("item", "a", "y", `{}`), record("iten", "a", "", `{}`)))
		walk := func(after string, limit int) []string {
			records, err := f.j.Records(f.ctx, f.shard, "item", after, limit)
			require.NoError(f.t, err)
			return ids(records)
		}
		require.Equal(f.t, []string{"a", "aa", "b"}, walk("", 10))
		require.Equal(f.t, []string{"a", "aa"}, walk("", 2))
		require.Equal(f.t, []string{"b"}, walk("aa", 2))
		require.Equal(f.t, []string{"aa"}, walk("a", 1))
		require.Empty(f.t, walk("b", 10))
	},
	"a slot of another shard is a bug": func(f *fixture) {
		stray := record("item", "a", "", `{}`)
		stray.Slot = 0xfff
		for _, b := range []*persistence.Batch{{Slot: 0xfff}, batch(stray)} {
			require.Panics(f.t, func() { _, _ = f.j.Append(f.ctx, f.shard, f.epoch, f.now, []*persistence.Batch{b}) })
		}
		f.must(batch(event("card", "a", 1)))
	},
}

// pages reads a whole list by pages of a size.
func (f *fixture) pages(kind string, size int) []persistence.Record {
	f.t.Helper()
	var all []persistence.Record
	page := persistence.Page{Limit: size}
	for {
		records := f.list(kind, workspace, "", page)
		if len(records) == 0 {
			return all
		}
		require.LessOrEqual(f.t, len(records), size)
		all = append(all, records...)
		require.LessOrEqual(f.t, len(all), persistence.MaxPage, "pages never end")
		last := records[len(records)-1]
		page.AfterPosition, page.AfterOrdinal = last.Position, last.Ordinal
	}
}

// expectOnce requires that the claim stands at now, or does not.
func (f *fixture) expectOnce(want persistence.Once, now time.Time, stands bool) {
	f.t.Helper()
	got, ok, err := f.j.Once(f.ctx, f.shard, want.Scope, want.Hash, now)
	require.NoError(f.t, err)
	require.Equal(f.t, stands, ok)
	if stands {
		sameOnce(f.t, want, got)
	}
}

func (f *fixture) taken(b *persistence.Batch, by persistence.Once) {
	f.t.Helper()
	var taken *persistence.OnceError
	require.ErrorAs(f.t, f.refused(b), &taken)
	sameOnce(f.t, by, taken.Existing)
}

var onceTests = map[string]func(*fixture){
	"is claimed once": func(f *fixture) {
		first := once("http", "k", Start.Add(time.Hour))
		f.must(batch(event("card", "a", 1), first))
		again := first
		again.Fingerprint, again.Answer = sha256.Sum256([]byte("other")), []byte("other")
		f.taken(batch(event("card", "a", 2), again), first)
		f.again()
		f.taken(batch(event("card", "a", 2), again), first)
		f.expectOnce(first, f.now, true)
		f.expectOnce(once("bank", "k", Start), f.now, false)
		f.expectOnce(once("http", "j", Start), f.now, false)
		require.Len(f.t, f.events(0, 10), 1)
	},
	"is told before a version": func(f *fixture) {
		first := once("http", "k", Start.Add(time.Hour))
		f.must(batch(event("card", "a", 1), first))
		f.taken(batch(event("card", "a", 1), first), first)
	},
	"is claimed by the first of a group": func(f *fixture) {
		first, second := once("http", "k", Start.Add(time.Hour)), once("http", "k", Start.Add(time.Minute))
		outcomes := f.append(batch(event("card", "a", 1), first), batch(event("card", "b", 1), second),
			batch(event("card", "c", 1)))
		require.NoError(f.t, outcomes[0].Err)
		var taken *persistence.OnceError
		require.ErrorAs(f.t, outcomes[1].Err, &taken)
		sameOnce(f.t, first, taken.Existing)
		require.Equal(f.t, persistence.Outcome{First: 2, Last: 2}, outcomes[2])
	},
	"a batch with one taken key claims none of its others": func(f *fixture) {
		taken, free := once("http", "taken", Start.Add(time.Hour)), once("http", "free", Start.Add(time.Hour))
		f.must(batch(taken))
		f.taken(batch(free, taken), taken)
		f.expectOnce(free, f.now, false)
		f.taken(batch(free, free), free)
		f.expectOnce(free, f.now, false)
	},
	"holds until the instant it expires": func(f *fixture) {
		expires := Start.Add(time.Hour)
		first := once("http", "k", expires)
		f.must(batch(first))
		f.expectOnce(first, expires.Add(-time.Millisecond), true)
		f.expectOnce(first, expires, false)
		f.now = expires.Add(-time.Millisecond)
		f.taken(batch(first), first)
		f.now = expires
		second := once("http", "k", expires.Add(time.Hour))
		f.must(batch(second))
		f.expectOnce(second, expires, true)
	},
	"without an expiry holds for ever": func(f *fixture) {
		first := once("email", "k", time.Time{})
		f.must(batch(first))
		f.now = Start.AddDate(900, 0, 0)
		f.taken(batch(first), first)
		f.expectOnce(first, f.now, true)
	},
	"sweep removes what has expired": func(f *fixture) {
		at := Start.Add(time.Hour)
		var claims []persistence.Once
		for i := range 5 {
			claims = append(claims, once("http", fmt.Sprint(i), at.Add(time.Duration(i)*time.Minute)))
		}
		f.must(&persistence.Batch{Workspace: workspace, Slot: slot, Onces: append(claims, once("email", "e", time.Time{}))})
		sweep := func(now time.Time, limit, want int) {
			n, err := f.j.Sweep(f.ctx, now, limit)
			require.NoError(f.t, err)
			require.Equal(f.t, want, n)
		}
		sweep(at.Add(-time.Millisecond), 10, 0)
		sweep(at, 10, 1)
		f.expectOnce(claims[0], Start, false)
		f.expectOnce(claims[1], Start, true)
		sweep(at.Add(time.Hour), 3, 3)
		f.again()
		sweep(at.Add(time.Hour), 3, 1)
		sweep(at.AddDate(900, 0, 0), 3, 0)
		f.expectOnce(once("email", "e", time.Time{}), at, true)
	},
	"sweep spares a key that was claimed again": func(f *fixture) {
		first, second := once("http", "k", Start.Add(time.Minute)), once("http", "k", Start.Add(time.Hour))
		f.must(batch(first))
		f.now = Start.Add(time.Minute)
		f.must(batch(second))
		n, err := f.j.Sweep(f.ctx, Start.Add(30*time.Minute), 10)
		require.NoError(f.t, err)
		require.Zero(f.t, n)
		f.expectOnce(second, f.now, true)
		forever := once("http", "k", time.Time{})
		f.now = Start.Add(time.Hour)
		f.must(batch(forever))
		n, err = f.j.Sweep(f.ctx, Start.AddDate(1, 0, 0), 10)
		require.NoError(f.t, err)
		require.Zero(f.t, n)
		f.expectOnce(forever, f.now, true)
	},
	"sweep limits each shard": func(f *fixture) {
		for _, slot := range []ident.Slot{0x010, 0x020} {
			heads, err := f.j.Raise(f.ctx, slot.Shard())
			require.NoError(f.t, err)
			b := &persistence.Batch{Workspace: workspace, Slot: slot,
				Onces: []persistence.Once{once("s", "a", Start), once("s", "b", Start)}}
			_, err = f.j.Append(f.ctx, slot.Shard(), heads[0].Epoch, f.now, []*persistence.Batch{b})
			require.NoError(f.t, err)
		}
		for range 2 {
			n, err := f.j.Sweep(f.ctx, Start, 1)
			require.NoError(f.t, err)
			require.Equal(f.t, 2, n)
		}
	},
}

func (f *fixture) timers(now time.Time, limit int) []persistence.Timer {
	f.t.Helper()
	due := f.j.TimersDue(f.shard, now)
	timers, err := f.j.Timers(f.ctx, f.shard, now, persistence.Timer{}, limit)
	require.NoError(f.t, err)
	require.True(f.t, due || len(timers) == 0, "a due timer is never denied")
	return timers
}

var timerTests = map[string]func(*fixture){
	"earliest first, and stay": func(f *fixture) {
		late, early, later := timer("a", "x", Start.Add(2*time.Second)), timer("b", "x", Start),
			timer("a", "y", Start.Add(time.Hour))
		f.must(batch(late, later), batch(early))
		f.again()
		require.Empty(f.t, f.timers(Start.Add(-time.Millisecond), 10))
		sameTimers(f.t, []persistence.Timer{early}, f.timers(Start, 10))
		sameTimers(f.t, []persistence.Timer{early, late}, f.timers(Start.Add(2*time.Second), 10))
		sameTimers(f.t, []persistence.Timer{early, late, later}, f.timers(Start.Add(24*time.Hour), 10))
		sameTimers(f.t, []persistence.Timer{early, late}, f.timers(Start.Add(24*time.Hour), 2))
	},
	"a page goes on after another": func(f *fixture) {
		// The first three have one instant; kind, stream and key tell them apart.
		all := []persistence.Timer{timer("a", "x", Start), timer("b", "x", Start), timer("b", "y", Start),
			timer("a", "y", Start.Add(time.Second)), timer("c", "z", Start.Add(time.Minute))}
		f.must(batch(all[0], all[1], all[2], all[3], all[4]))
		f.again()
		for _, limit := range []int{1, 2, 3, 5} {
			var got []persistence.Timer
			for after := (persistence.Timer{}); ; {
				page, err := f.j.Timers(f.ctx, f.shard, Start.Add(time.Second), after, limit)
				require.NoError(f.t, err)
				got = append(got, page...)
				if len(page) < limit {
					break
				}
				after = page[len(page)-1]
			}
			sameTimers(f.t, all[:4], got)
		}
		// A page that begins later says nothing of the earliest timer.
		page, err := f.j.Timers(f.ctx, f.shard, Start, all[2], 10)
		require.NoError(f.t, err)
		require.Empty(f.t, page)
		sameTimers(f.t, all[:3], f.timers(Start, 10))
	},
	"a new due replaces the old": func(f *fixture) {
		f.must(batch(timer("a", "x", Start)))
		moved := timer("a", "x", Start.Add(time.Hour))
		f.must(batch(moved))
		require.Empty(f.t, f.timers(Start.Add(time.Minute), 10))
		sameTimers(f.t, []persistence.Timer{moved}, f.timers(Start.Add(time.Hour), 10))
		f.must(batch(timer("a", "x", Start.Add(time.Minute)), timer("a", "x", Start)))
		sameTimers(f.t, []persistence.Timer{timer("a", "x", Start)}, f.timers(Start.Add(time.Hour), 10))
	},
	"a zero due removes": func(f *fixture) {
		f.must(batch(timer("a", "x", Start), timer("a", "y", Start)))
		f.must(batch(timer("a", "x", time.Time{}), timer("a", "z", time.Time{})))
		sameTimers(f.t, []persistence.Timer{timer("a", "y", Start)}, f.timers(Start, 10))
	},
	"a stream is a kind and an id": func(f *fixture) {
		balance, workspace := timer("ws", "x", Start), timer("ws", "x", Start.Add(time.Second))
		balance.Kind, workspace.Kind = "balance", "workspace"
		f.must(batch(balance, workspace))
		sameTimers(f.t, []persistence.Timer{balance, workspace}, f.timers(Start.Add(time.Minute), 10))
	},
}
