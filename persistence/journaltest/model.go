package journaltest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence"
)

// model is a journal of one shard in plain maps: what the contract says, without a store.
type model struct {
	events   []persistence.Event
	versions map[[2]string]uint64
	records  map[[2]string]modelRecord
	written  int // counts first writings of records
	onces    map[[2]string]persistence.Once
	timers   map[[3]string]persistence.Timer
	cursors  map[string]uint64
}

type modelRecord struct {
	persistence.Record
	place int // the order of first writing
}

func newModel() *model {
	return &model{
		versions: map[[2]string]uint64{}, records: map[[2]string]modelRecord{}, onces: map[[2]string]persistence.Once{},
		timers: map[[3]string]persistence.Timer{}, cursors: map[string]uint64{},
	}
}

func onceKey(o persistence.Once) [2]string { return [2]string{o.Scope, string(o.Hash[:])} }

// refusal returns why the batch loses: "once", "version" or "".
func (m *model) refusal(b *persistence.Batch, now time.Time) string {
	claimed := map[[2]string]bool{}
	for _, o := range b.Onces {
		old, found := m.onces[onceKey(o)]
		if found && (old.Expires.IsZero() || old.Expires.After(now)) || claimed[onceKey(o)] {
			return "once"
		}
		claimed[onceKey(o)] = true
	}
	at := map[[2]string]uint64{}
	for _, e := range b.Events {
		stream := [2]string{e.Kind, e.Stream}
		if _, ok := at[stream]; !ok {
			at[stream] = m.versions[stream]
		}
		if at[stream]++; e.Version != at[stream] {
			return "version"
		}
	}
	return ""
}

// append applies a batch to the model, or returns the reason of its refusal as refusal does.
func (m *model) append(b *persistence.Batch, now time.Time) string {
	if refusal := m.refusal(b, now); refusal != "" {
		return refusal
	}
	for _, e := range b.Events {
		m.versions[[2]string{e.Kind, e.Stream}] = e.Version
		m.events = append(m.events, e)
	}
	for _, r := range b.Records {
		key := [2]string{r.Kind, r.ID}
		old, found := m.records[key]
		if r.Deleted {
			delete(m.records, key)
			continue
		}
		if !found {
			m.written++
			old.place = m.written
		}
		r.New = false // a hint to the store, which does not keep it
		m.records[key] = modelRecord{Record: r, place: old.place}
	}
	for _, o := range b.Onces {
		m.onces[onceKey(o)] = o
	}
	for _, t := range b.Timers {
		key := [3]string{t.Kind, t.Stream, t.Key}
		if delete(m.timers, key); !t.Due.IsZero() {
			m.timers[key] = t
		}
	}
	return ""
}

// sweep removes the expired once-keys and returns their number.
func (m *model) sweep(now time.Time) int {
	swept := 0
	for key, o := range m.onces {
		if !o.Expires.IsZero() && !o.Expires.After(now) {
			delete(m.onces, key)
			swept++
		}
	}
	return swept
}

// list returns the ids of a list's records, newest first.
func (m *model) list(kind, workspace, parent string) []string {
	var found []modelRecord
	for _, r := range m.records {
		if r.Kind == kind && r.Workspace == workspace && r.Parent == parent {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b modelRecord) int { return cmp.Compare(b.place, a.place) })
	got := []string{}
	for _, r := range found {
		got = append(got, r.ID)
	}
	return got
}

// due returns the timers due at a time, in any order.
func (m *model) due(now time.Time) []persistence.Timer {
	var due []persistence.Timer
	for _, t := range m.timers {
		if !t.Due.After(now) {
			due = append(due, t)
		}
	}
	return due
}

// The values that the model test draws from: few, so that they meet.
var (
	names       = []string{"a", "b", "d-a", "a/", "é", ""}
	drawKind    = rapid.SampledFrom([]string{"card", "car", ""})
	drawName    = rapid.SampledFrom(names)
	drawTenant  = rapid.SampledFrom([]string{workspace, stranger})
	drawSeconds = rapid.IntRange(-3, 6)
)

// drawBatch draws a random batch; about one event in ten has a wrong version.
func (f *fixture) drawBatch(t *rapid.T, m *model) *persistence.Batch {
	b := &persistence.Batch{Workspace: workspace, Slot: slot}
	at := map[[2]string]uint64{}
	for range rapid.IntRange(0, 3).Draw(t, "events") {
		kind, stream := drawKind.Draw(t, "kind"), drawName.Draw(t, "stream")
		key := [2]string{kind, stream}
		if _, ok := at[key]; !ok {
			at[key] = m.versions[key]
		}
		at[key]++
		e := event(kind, stream, at[key])
		if rapid.IntRange(0, 9).Draw(t, "wrong version") == 0 {
			e.Version += rapid.SampledFrom([]uint64{1, ^uint64(0)}).Draw(t, "off by")
		}
		b.Events = append(b.Events, e)
	}
	for range rapid.IntRange(0, 3).Draw(t, "records") {
		r := record(drawKind.Draw(t, "kind"), drawName.Draw(t, "id"), drawName.Draw(t, "parent"), "")
		r.Workspace, r.Deleted = drawTenant.Draw(t, "workspace"), rapid.IntRange(0, 3).Draw(t, "deleted") == 0
		r.Version = rapid.Uint64Max(1<<62).Draw(t, "version")
		r.Document = json.RawMessage(fmt.Sprintf(`{"version":%d}`, r.Version))
		_, there := m.records[[2]string{r.Kind, r.ID}]
		r.New = rapid.Bool().Draw(t, "said to be new") && !there && !r.Deleted
		b.Records = append(b.Records, r)
	}
	for range rapid.IntRange(0, 2).Draw(t, "onces") {
		o := once(drawKind.Draw(t, "scope"), drawName.Draw(t, "key"), time.Time{})
		if rapid.IntRange(0, 4).Draw(t, "expires") > 0 {
			o.Expires = f.now.Add(time.Duration(drawSeconds.Draw(t, "after")) * time.Second)
		}
		b.Onces = append(b.Onces, o)
	}
	for range rapid.IntRange(0, 2).Draw(t, "timers") {
		due := f.now.Add(time.Duration(drawSeconds.Draw(t, "after")) * time.Second)
		if rapid.IntRange(0, 3).Draw(t, "removed") == 0 {
			due = time.Time{}
		}
		tm := timer(drawName.Draw(t, "stream"), drawName.Draw(t, "key"), due)
		tm.Kind = drawKind.Draw(t, "kind")
		b.Timers = append(b.Timers, tm)
	}
	return b
}

// runModel applies random operations to a journal and to the model. After each operation it
// compares everything that can be read from both.
func runModel(t *testing.T, open Factory) {
	rapid.Check(t, func(t *rapid.T) {
		f, m := start(t, open), newModel()
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { f.modelAppend(t, m) },
			"clock": func(t *rapid.T) {
				f.now = f.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
			},
			"raise": func(*rapid.T) { f.raise() },
			"sweep": func(t *rapid.T) {
				n, err := f.j.Sweep(f.ctx, f.now, persistence.MaxPage)
				require.NoError(t, err)
				require.Equal(t, m.sweep(f.now), n)
			},
			"cursor": func(t *rapid.T) {
				name, position := drawName.Draw(t, "name"), rapid.Uint64Max(1<<62).Draw(t, "position")
				require.NoError(t, f.j.SaveCursor(f.ctx, name, f.shard, position))
				m.cursors[name] = position
			},
			"reopen": func(*rapid.T) { f.again() },
			"":       func(t *rapid.T) { f.compare(t, m) },
		})
	})
}

// modelAppend appends random batches to the journal and to the model, and requires equal outcomes.
func (f *fixture) modelAppend(t *rapid.T, m *model) {
	var group []*persistence.Batch
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		group = append(group, f.drawBatch(t, m))
	}
	outcomes := f.append(group...)
	for i, b := range group {
		first := uint64(len(m.events)) + 1
		var taken *persistence.OnceError
		switch m.append(b, f.now) {
		case "once":
			require.ErrorAs(t, outcomes[i].Err, &taken)
		case "version":
			require.ErrorIs(t, outcomes[i].Err, persistence.ErrVersion)
		default:
			want := persistence.Outcome{First: first, Last: uint64(len(m.events))}
			if len(b.Events) == 0 {
				want = persistence.Outcome{}
			}
			require.Equal(t, want, outcomes[i])
		}
	}
}

// compare reads everything that the journal can show and finds it in the model.
func (f *fixture) compare(t *rapid.T, m *model) {
	require.Equal(t, persistence.Head{Position: uint64(len(m.events)), Epoch: f.epoch}, f.j.Head(f.shard))
	from := rapid.IntRange(0, len(m.events)).Draw(t, "from")
	to := min(len(m.events), from+rapid.IntRange(1, 5).Draw(t, "limit"))
	sameEvents(t, m.events[from:to], f.events(uint64(from), max(1, to-from)), uint64(from)+1)
	for name, position := range m.cursors {
		got, err := f.j.Cursor(f.ctx, name, f.shard)
		require.NoError(t, err)
		require.Equal(t, position, got)
	}
	for _, kind := range []string{"card", "car", ""} {
		f.compareRecords(t, m, kind)
		f.compareOnces(t, m, kind)
	}
	f.compareTimers(t, m)
}

// compareRecords requires that the records and lists of a kind are those of the model. compare
// calls it.
func (f *fixture) compareRecords(t *rapid.T, m *model, kind string) {
	all := []string{}
	for key, want := range m.records {
		if key[0] == kind {
			all = append(all, key[1])
			got := f.record(kind, key[1])
			want.Position, want.Ordinal = got.Position, got.Ordinal
			require.Equal(t, want.Record, got)
		}
	}
	slices.Sort(all)
	walked, err := f.j.Records(f.ctx, f.shard, kind, "", persistence.MaxPage)
	require.NoError(t, err)
	require.Equal(t, all, ids(walked))
	for _, tenant := range []string{workspace, stranger} {
		for _, parent := range []string{"a", "a/", ""} {
			require.Equal(t, m.list(kind, tenant, parent), ids(f.list(kind, tenant, parent, persistence.Page{})))
		}
	}
	require.Equal(t, m.list(kind, workspace, "a"), f.listByPages(kind, "a", rapid.IntRange(1, 3).Draw(t, "page")))
}

// listByPages returns the ids of a whole list, read by pages of a size.
func (f *fixture) listByPages(kind, parent string, size int) []string {
	got, page := []string{}, persistence.Page{Limit: size}
	for {
		records := f.list(kind, workspace, parent, page)
		if len(records) == 0 {
			return got
		}
		got = append(got, ids(records)...)
		last := records[len(records)-1]
		page.AfterPosition, page.AfterOrdinal = last.Position, last.Ordinal
	}
}

// compareOnces requires that the once-keys of a scope are those of the model. compare calls it.
func (f *fixture) compareOnces(t *rapid.T, m *model, scope string) {
	for _, name := range names {
		asked := once(scope, name, time.Time{})
		want, found := m.onces[onceKey(asked)]
		got, ok, err := f.j.Once(f.ctx, f.shard, scope, asked.Hash, f.now)
		require.NoError(t, err)
		require.Equal(t, found && (want.Expires.IsZero() || want.Expires.After(f.now)), ok)
		if ok {
			sameOnce(t, want, got)
		}
	}
}

// compareTimers requires that the due timers are those of the model, in their order. compare calls
// it.
func (f *fixture) compareTimers(t *rapid.T, m *model) {
	want, got := m.due(f.now), f.timers(f.now, persistence.MaxPage)
	require.True(t, slices.IsSortedFunc(got, func(a, b persistence.Timer) int { return a.Due.Compare(b.Due) }))
	byName := func(a, b persistence.Timer) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Stream, b.Stream), strings.Compare(a.Key, b.Key))
	}
	slices.SortFunc(want, byName)
	slices.SortFunc(got, byName)
	sameTimers(t, want, got)
}
