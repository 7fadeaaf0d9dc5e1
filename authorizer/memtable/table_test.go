package memtable

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence/ident"
)

// model is a table as maps: a nil value is a deleted key.
type model struct {
	active, frozen map[string][]byte
	logs           [2][]string // entries of loggedShard, active and frozen
	first          uint64
}

// commit runs do within a commit of its own.
func commit(t *Table, do func()) {
	t.Begin()
	defer t.End()
	do()
}

// stateOf returns the value and the state that the table must have for a key.
func (m *model) stateOf(key string) ([]byte, State) {
	for _, of := range []map[string][]byte{m.active, m.frozen} {
		if value, known := of[key]; known && value == nil {
			return nil, Deleted
		} else if known {
			return value, Set
		}
	}
	return nil, Unknown
}

const loggedShard = ident.Shard(7)

// Random commits, freezes and drops leave what maps would have.
func TestTheTableIsTwoGenerationsOfMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, m := New(), &model{active: map[string][]byte{}, first: 1}
		var frozen *Frozen
		keys := rapid.SampledFrom([]string{"a", "b1", "b2", "cccccccccccc1", "cccccccccccc2", ""})
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				key, value := keys.Draw(t, "key"), rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "value")
				commit(table, func() { table.Set([]byte(key), value) })
				m.active[key] = append([]byte{}, value...)
			},
			"delete": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				commit(table, func() { table.Delete([]byte(key)) })
				m.active[key] = nil
			},
			"entry": func(t *rapid.T) {
				seq := m.first + uint64(len(m.logs[0])+len(m.logs[1]))
				value := fmt.Sprint("entry ", seq)
				commit(table, func() { table.AddEntry(loggedShard, seq, []byte(value)) })
				m.logs[0] = append(m.logs[0], value)
			},
			"freeze": func(t *rapid.T) {
				notes := 0
				next := table.Freeze(func() { notes++ })
				if frozen != nil || table.active.bytes.Load() == 0 && next == nil {
					require.Nil(t, next)
					require.Zero(t, notes)
					return
				}
				require.Equal(t, 1, notes)
				frozen = next
				m.active, m.frozen = map[string][]byte{}, m.active
				m.logs[0], m.logs[1] = nil, m.logs[0]
			},
			"drop": func(t *rapid.T) {
				if frozen == nil {
					return
				}
				m.requireFrozen(t, frozen)
				frozen.Drop()
				m.first += uint64(len(m.logs[1]))
				frozen, m.frozen, m.logs[1] = nil, nil, nil
			},
			"": func(t *rapid.T) { m.requireTable(t, table) },
		})
	})
}

// requireTable compares all that the table answers.
func (m *model) requireTable(t *rapid.T, table *Table) {
	for _, key := range []string{"a", "b1", "b2", "cccccccccccc1", "cccccccccccc2", "", "never"} {
		want, state := m.stateOf(key)
		got, is := table.Get([]byte(key), []byte("before"))
		require.Equal(t, state, is, key)
		require.Equal(t, "before"+string(want), string(got), key)
	}
	all := append(slices.Clone(m.logs[1]), m.logs[0]...)
	for after := range len(all) + 2 {
		for through := after; through < len(all)+2; through++ {
			var got []string
			table.VisitEntries(loggedShard, m.first-1+uint64(after), m.first-1+uint64(through),
				func(_ uint64, value []byte) bool { got = append(got, string(value)); return true })
			want := all[min(after, len(all)):min(through, len(all))]
			require.Equal(t, len(want), len(got))
			require.True(t, slices.Equal(want, got), "%q, not %q", got, want)
		}
	}
}

// requireFrozen compares what the projector reads.
func (m *model) requireFrozen(t *rapid.T, f *Frozen) {
	pairs := f.Sorted(nil)
	keys := slices.Sorted(maps.Keys(m.frozen))
	require.Len(t, pairs, len(keys))
	for n, p := range pairs {
		require.Equal(t, keys[n], string(p.Key))
		require.Equal(t, m.frozen[keys[n]] == nil, p.Deleted)
		require.True(t, p.Deleted || bytes.Equal(m.frozen[keys[n]], p.Value))
	}
	var got []string
	f.VisitEntries(loggedShard, func(seq uint64, value []byte) bool {
		require.Equal(t, m.first+uint64(len(got)), seq)
		got = append(got, string(value))
		return true
	})
	require.True(t, slices.Equal(m.logs[1], got))
}

// Commits write two keys and an entry each. Every frozen generation has all three or none, the
// numbers up to its note, and a reader never misses a key that was written.
func TestAFrozenGenerationHoldsWholeCommits(t *testing.T) {
	table := New()
	var number atomic.Uint64 // number of the last record in a write-ahead log
	var shard sync.Mutex
	var stored sync.Map // key to value, as the store has them
	const commits, writers = 2000, 4
	read := func(key string) (string, bool) {
		if v, state := table.Get([]byte(key), nil); state == Set {
			return string(v), true
		}
		v, found := stored.Load(key)
		if !found {
			return "", false
		}
		return v.(string), true
	}
	var all sync.WaitGroup
	done := make(chan struct{})
	for range writers {
		all.Go(func() {
			for range commits {
				shard.Lock()
				table.Begin()
				n := number.Add(1)
				value := strconv.FormatUint(n, 10)
				table.Set([]byte("once "+value), []byte(value))
				table.Set([]byte("last"), []byte(value))
				table.AddEntry(loggedShard, n, []byte(value))
				table.End()
				shard.Unlock()
				if got, found := read("once " + value); !found || got != value {
					t.Errorf("commit %s reads as %q", value, got)
				}
			}
		})
	}
	go func() { all.Wait(); close(done) }()
	before := uint64(0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		note := uint64(0)
		f := table.Freeze(func() { note = number.Load() })
		if f == nil {
			continue
		}
		last := before
		f.VisitEntries(loggedShard, func(seq uint64, value []byte) bool {
			last = seq
			return strconv.FormatUint(seq, 10) == string(value)
		})
		require.Equal(t, note, last)
		pairs := f.Sorted(nil)
		require.Len(t, pairs, int(note-before)+1)
		require.Equal(t, strconv.FormatUint(note, 10), string(pairs[0].Value), "the last value of the key 'last'")
		for _, p := range pairs {
			stored.Store(string(p.Key), string(p.Value))
		}
		before = note
		f.Drop()
	}
	require.Equal(t, uint64(commits*writers), before)
	require.Zero(t, table.Bytes())
}

// Entries come in order, and a generation is dropped once.
func TestMisuseIsABug(t *testing.T) {
	table := New()
	commit(table, func() { table.AddEntry(loggedShard, 5, []byte("x")) })
	require.Panics(t, func() { commit(table, func() { table.AddEntry(loggedShard, 7, []byte("x")) }) })
	f := table.Freeze(func() {})
	f.Drop()
	require.Panics(t, f.Drop)
}

// A value that shrinks and grows again keeps its bytes, beside neighbours.
func TestValuesChangeTheirLength(t *testing.T) {
	table := New()
	for n, length := range []int{10, 3, 10, 20, 0, 20, 21} {
		value := bytes.Repeat([]byte{byte('a' + n)}, length)
		commit(table, func() { table.Set([]byte("key"), value); table.Set([]byte(strconv.Itoa(n)), []byte("neighbour")) })
		got, state := table.Get([]byte("key"), nil)
		require.Equal(t, Set, state)
		require.Equal(t, string(value), string(got))
		for m := range n + 1 {
			got, _ := table.Get([]byte(strconv.Itoa(m)), nil)
			require.Equal(t, "neighbour", string(got))
		}
	}
}

// BenchmarkCommit writes the five keys and the entry of a swipe, and freezes and drops when a
// projector would. It allocates nothing once the arenas have grown.
func BenchmarkCommit(b *testing.B) {
	const generationBytes = 16 << 20
	table, n, seq := New(), uint64(0), uint64(0)
	key, value := make([]byte, 20), make([]byte, 250)
	b.ReportAllocs()
	for b.Loop() {
		table.Begin()
		for k, bytes := range [...]int{150, 62, 28, 20, 4} {
			n++
			key[0], key[1], key[2], key[3] = byte(k), byte(n), byte(n>>8), byte(n>>16)
			table.Set(key, value[:bytes])
		}
		seq++
		table.AddEntry(loggedShard, seq, value)
		table.End()
		if table.active.bytes.Load() > generationBytes {
			table.Freeze(func() {}).Drop()
		}
	}
}
