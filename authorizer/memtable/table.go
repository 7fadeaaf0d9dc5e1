package memtable

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"purser/persistence/ident"
)

// stripeBits of a key's hash choose the stripe.
const (
	stripeBits = 8
	stripes    = 1 << stripeBits
)

// State is what a Table knows of a key.
type State uint8

// States of a key.
const (
	Unknown State = iota // the store has the key's value, if there is one
	Deleted
	Set
)

// Table is the memtable of one engine. Its methods are safe for concurrent use.
type Table struct {
	seed maphash.Seed

	// commits is held for reading by each commit and each look-up, and for writing while the
	// generations change.
	commits sync.RWMutex
	active  *generation
	frozen  *Frozen     // nil: none
	spare   *generation // the emptied one, for the next Freeze
	bytes   atomic.Int64
	fresh   atomic.Int64 // in the active generation
}

// generation holds the writes between two freezes.
type generation struct {
	stripes [stripes]stripe
	logs    [ident.Shards]entries
	bytes   atomic.Int64
}

// New returns an empty table.
func New() *Table {
	return &Table{seed: maphash.MakeSeed(), active: &generation{}, spare: &generation{}}
}

// Begin starts a commit: its record in the write-ahead log and its keys. End it.
func (t *Table) Begin() { t.commits.RLock() }

// End ends a commit.
func (t *Table) End() { t.commits.RUnlock() }

// Set sets a key within a commit, and copies both slices.
func (t *Table) Set(key, value []byte) { t.putPair(key, value, false) }

// Delete deletes a key within a commit: the store's value no longer counts.
func (t *Table) Delete(key []byte) { t.putPair(key, nil, true) }

func (t *Table) putPair(key, value []byte, deleted bool) {
	hash := maphash.Bytes(t.seed, key)
	s := &t.active.stripes[hash>>(64-stripeBits)]
	s.mu.Lock()
	before := len(s.arena)
	s.putPair(hash, key, value, deleted)
	grown := int64(len(s.arena) - before)
	s.mu.Unlock()
	t.countBytes(grown)
}

// AddEntry adds the next entry of a shard's decision log within a commit. It panics when the
// sequence number does not follow the one before in the same generation.
func (t *Table) AddEntry(shard ident.Shard, seq uint64, value []byte) {
	t.active.logs[shard].addEntry(seq, value)
	t.countBytes(int64(len(value)))
}

func (t *Table) countBytes(grown int64) {
	if grown > 0 {
		t.active.bytes.Add(grown)
		t.fresh.Add(grown)
		t.bytes.Add(grown)
	}
}

// Bytes returns the bytes of keys, values and entries in both generations.
func (t *Table) Bytes() int64 { return t.bytes.Load() }

// ActiveBytes returns the bytes of the active generation.
func (t *Table) ActiveBytes() int64 { return t.fresh.Load() }

// Get appends the value of a key to dst and returns it, with what the table knows of the key.
func (t *Table) Get(key, dst []byte) ([]byte, State) {
	hash := maphash.Bytes(t.seed, key)
	t.commits.RLock()
	defer t.commits.RUnlock()
	dst, state := t.active.getPair(hash, key, dst)
	if state == Unknown && t.frozen != nil {
		return t.frozen.of.getPair(hash, key, dst)
	}
	return dst, state
}

func (g *generation) getPair(hash uint64, key, dst []byte) ([]byte, State) {
	s := &g.stripes[hash>>(64-stripeBits)]
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.findItem(hash, key)
	switch {
	case n < 0:
		return dst, Unknown
	case s.items[n].deleted:
		return dst, Deleted
	}
	return append(dst, s.valueOf(&s.items[n])...), Set
}

// VisitEntries calls read for the table's entries of a shard after one sequence number, through
// another, in order, until it returns false. The bytes are read's only while it runs, and read must
// not call the table.
func (t *Table) VisitEntries(shard ident.Shard, after, through uint64, read func(seq uint64, value []byte) bool) {
	t.commits.RLock()
	defer t.commits.RUnlock()
	if t.frozen == nil || t.frozen.of.logs[shard].visitRange(after, through, read) {
		t.active.logs[shard].visitRange(after, through, read)
	}
}

// Frozen is a generation that takes no more writes.
type Frozen struct {
	table *Table
	of    *generation
}

// Freeze makes the active generation the frozen one, and calls note, which must not call the table,
// between the last commit of the one and the first of the next. It returns nil, without a call of
// note, when the last frozen generation has not been dropped or nothing was written.
func (t *Table) Freeze(note func()) *Frozen {
	t.commits.Lock()
	defer t.commits.Unlock()
	if t.frozen != nil || t.active.bytes.Load() == 0 {
		return nil
	}
	note()
	t.fresh.Store(0)
	t.frozen = &Frozen{table: t, of: t.active}
	t.active = t.spare
	return t.frozen
}

// Drop forgets a frozen generation, which the store has now.
func (f *Frozen) Drop() {
	t := f.table
	t.commits.Lock()
	defer t.commits.Unlock()
	if t.frozen != f {
		panic("BUG: dropped twice")
	}
	t.frozen = nil
	t.bytes.Add(-f.of.bytes.Load())
	f.of.resetEmpty()
	t.spare = f.of
}

func (g *generation) resetEmpty() {
	for n := range g.stripes {
		g.stripes[n].resetEmpty()
	}
	for n := range g.logs {
		g.logs[n].resetEmpty()
	}
	g.bytes.Store(0)
}
