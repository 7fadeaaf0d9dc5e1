package journaltest

import (
	"encoding/json"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
)

// groupTests are of batches of one Append that meet: each sees what the ones before it did, and nothing of the losers.
var groupTests = map[string]func(*fixture){
	"a record is written, moved, removed and written again": func(f *fixture) {
		f.must(batch(event("card", "old", 1), record("item", "old", "p", `1`)))
		changed, moved := record("item", "a", "p", `2`), record("item", "a", "q", `3`)
		changed.Version, moved.Version = 2, 3
		f.must(
			// In a batch the records are numbered as they stand in it, whatever the order of their ids.
			batch(event("card", "s", 1), record("item", "b", "p", `1`), record("item", "a", "p", `1`)),
			batch(changed, record("item", "old", "q", `2`)),
			batch(event("card", "s", 2), moved),
			batch(gone("item", "a"), gone("item", "old"), record("item", "c", "q", `1`)),
			batch(event("card", "s", 3), record("item", "a", "r", `4`), record("item", "d", "p", `1`)),
			batch(record("item", "d", "q", `2`), gone("item", "d")),
		)
		for range 2 {
			f.expectPlaces("p", []any{"b", 2, 1})
			f.expectPlaces("q", []any{"c", 3, 1})
			f.expectPlaces("r", []any{"a", 4, 1})
			require.Equal(f.t, json.RawMessage(`4`), f.record("item", "a").Document)
			walked, err := f.j.Records(f.ctx, f.shard, "item", "", 10)
			require.NoError(f.t, err)
			require.Equal(f.t, []string{"a", "b", "c"}, ids(walked))
			f.again()
		}
		// The next group finds the state that this one left.
		f.must(batch(record("item", "a", "p", `5`)), batch(gone("item", "c")), batch(record("item", "d", "q", `3`)))
		f.expectPlaces("p", []any{"a", 4, 1}, []any{"b", 2, 1})
		f.expectPlaces("r")
		d := f.record("item", "d")
		require.EqualValues(f.t, 4, d.Position)
		require.Greater(f.t, d.Ordinal, uint32(2), "the place of what was removed is not given again")
		f.expectPlaces("q", []any{"d", 4, int(d.Ordinal)})
	},
	"a record updated in a group keeps its place": func(f *fixture) {
		f.must(batch(event("card", "s", 1), record("item", "a", "p", `1`)))
		theirs := record("item", "a", "p", `2`)
		theirs.Workspace = stranger
		f.must(batch(event("card", "s", 2), theirs), batch(event("card", "s", 3), record("item", "a", "q", `3`)),
			batch(event("card", "s", 4), record("item", "a", "p", `4`)))
		f.expectPlaces("p", []any{"a", 1, 1})
		f.expectPlaces("q")
		require.Empty(f.t, f.list("item", stranger, "p", persistence.Page{}))
		f.must(batch(theirs))
		f.expectPlaces("p")
		require.Equal(f.t, []string{"a"}, ids(f.list("item", stranger, "p", persistence.Page{})))
	},
	"a once that has expired goes to the first of a group": func(f *fixture) {
		expired, second := once("http", "k", Start.Add(time.Minute)), once("http", "k", Start.Add(time.Hour))
		second.Answer = []byte("second")
		f.must(batch(expired))
		f.now = Start.Add(time.Minute)
		outcomes := f.append(batch(second), batch(event("card", "s", 1), once("http", "k", time.Time{})), batch(event("card", "s", 1)))
		require.NoError(f.t, outcomes[0].Err)
		f.takenBy(second, outcomes[1])
		require.Equal(f.t, persistence.Outcome{First: 1, Last: 1}, outcomes[2])
		f.expectSwept(Start.Add(30*time.Minute), 0)
		f.expectOnce(second, f.now, true)
		f.expectSwept(Start.Add(time.Hour), 1)
		f.expectSwept(Start.AddDate(900, 0, 0), 0)
	},
	"a once that a group claims and finds expired is its next batch's": func(f *fixture) {
		// The key expires at the time of its claim.
		brief, second := once("http", "k", Start), once("http", "k", Start.Add(time.Hour))
		outcomes := f.append(batch(brief), batch(second), batch(brief))
		require.NoError(f.t, outcomes[0].Err)
		require.NoError(f.t, outcomes[1].Err)
		f.takenBy(second, outcomes[2])
		f.expectSwept(Start, 0)
		f.expectOnce(second, f.now, true)
	},
	"a loser claims nothing that its group's next wants": func(f *fixture) {
		claim, late := once("http", "k", Start.Add(time.Hour)), once("http", "k", Start.Add(time.Minute))
		outcomes := f.append(batch(event("card", "s", 2), claim), batch(event("card", "s", 1), late), batch(claim))
		require.ErrorIs(f.t, outcomes[0].Err, persistence.ErrVersion)
		require.Equal(f.t, persistence.Outcome{First: 1, Last: 1}, outcomes[1])
		f.takenBy(late, outcomes[2])
		f.expectOnce(late, f.now, true)
	},
	"a timer is set, moved, removed and set again": func(f *fixture) {
		f.must(batch(timer("old", "x", Start)))
		first, moved, last := timer("a", "x", Start), timer("a", "x", Start.Add(time.Minute)), timer("a", "x", Start.Add(time.Hour))
		f.must(
			batch(first, timer("b", "x", Start)),
			batch(moved, timer("old", "x", Start.Add(time.Second))),
			batch(timer("a", "x", time.Time{})),
			batch(timer("old", "x", time.Time{}), timer("b", "x", time.Time{})),
			batch(last),
			batch(timer("b", "x", time.Time{})),
		)
		for range 2 {
			require.Empty(f.t, f.timers(Start.Add(time.Hour-time.Millisecond), 10))
			sameTimers(f.t, []persistence.Timer{last}, f.timers(Start.Add(24*time.Hour), 10))
			f.again()
		}
		f.must(batch(first))
		sameTimers(f.t, []persistence.Timer{first}, f.timers(Start.Add(24*time.Hour), 10))
	},
	"a stream goes on through a group": func(f *fixture) {
		a, b, c := event("card", "a", 1), event("card", "a", 2), event("card", "a", 3)
		f.must(batch(a))
		outcomes := f.append(batch(b), batch(c), batch(event("card", "a", 3)), batch(event("card", "b", 1)))
		require.Equal(f.t, []persistence.Outcome{{First: 2, Last: 2}, {First: 3, Last: 3}}, outcomes[:2])
		require.ErrorIs(f.t, outcomes[2].Err, persistence.ErrVersion)
		require.Equal(f.t, persistence.Outcome{First: 4, Last: 4}, outcomes[3])
		sameEvents(f.t, []persistence.Event{a, b, c, event("card", "b", 1)}, f.events(0, 10), 1)
		f.must(batch(event("card", "a", 4)))
	},
	"what a group of losers found in one shard is not another's": func(f *fixture) {
		claim, other := once("http", "k", time.Time{}), ident.Slot(0x456)
		f.must(batch(event("card", "a", 1), claim))
		heads, err := f.j.Raise(f.ctx, other.Shard())
		require.NoError(f.t, err)
		there := &persistence.Batch{Workspace: stranger, Slot: other,
			Events: []persistence.Event{event("card", "a", 1)}, Onces: []persistence.Once{claim}}
		for _, loser := range []*persistence.Batch{batch(claim), batch(event("card", "a", 1))} {
			require.Error(f.t, f.refused(loser))
		}
		outcomes, err := f.j.Append(f.ctx, other.Shard(), heads[0].Epoch, f.now, []*persistence.Batch{there})
		require.NoError(f.t, err)
		require.Equal(f.t, []persistence.Outcome{{First: 1, Last: 1}}, outcomes)
	},
	"what a caller does to an answer is not seen by the next": func(f *fixture) {
		claim := once("http", "k", Start.Add(time.Hour))
		f.must(batch(claim))
		var taken [2]*persistence.OnceError
		for i, o := range f.append(batch(claim), batch(claim)) {
			require.ErrorAs(f.t, o.Err, &taken[i])
		}
		clear(taken[0].Existing.Answer)
		sameOnce(f.t, claim, taken[1].Existing)
	},
}

func gone(kind, id string) persistence.Record {
	return persistence.Record{Kind: kind, ID: id, Workspace: workspace, Slot: slot, Deleted: true}
}

// expectPlaces requires that the items of a parent are these, each an id, a position and an ordinal.
func (f *fixture) expectPlaces(parent string, want ...[]any) {
	f.t.Helper()
	var got [][]any
	for _, r := range f.list("item", workspace, parent, persistence.Page{}) {
		got = append(got, []any{r.ID, int(r.Position), int(r.Ordinal)})
	}
	require.Equal(f.t, want, got, "the items of %s", parent)
}

// takenBy requires that a batch lost to a claim.
func (f *fixture) takenBy(by persistence.Once, o persistence.Outcome) {
	f.t.Helper()
	var taken *persistence.OnceError
	require.ErrorAs(f.t, o.Err, &taken)
	sameOnce(f.t, by, taken.Existing)
}

func (f *fixture) expectSwept(now time.Time, want int) {
	f.t.Helper()
	n, err := f.j.Sweep(f.ctx, now, 10)
	require.NoError(f.t, err)
	require.Equal(f.t, want, n)
}
