package pgjournal

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// Limits of the records in memory.
const (
	// recordBytes is what is kept of them, over all shards.
	recordBytes = 16 << 20
	// recordOverhead of a record beside its document.
	recordOverhead = 512
	// recordsTrusted is how long they are answered after the server has last said that nobody has taken their shard.
	recordsTrusted = 2 * time.Second
)

// records are the single records that were asked for of late, in shards that this process holds, and that there is none: an
// answer shows the same few every time. What they are changes by a commit of this process alone, as long as it holds the shard;
// whoever takes the shard ends this process when it next sees the server (see tenure), and while it does not see the server its
// answers are those of a moment before: the server has to have said of late that the shard is this process's.
//
// A lookup puts in what it has read unless a commit that began since writes it. A commit takes what it writes out before it can
// be seen, and puts it back once it is known what became of it. After an ambiguous commit nothing is kept of its shards until
// they are raised, which waits for the end of that commit.
type records struct {
	now     func() time.Time
	trusted time.Duration
	mu      sync.Mutex // of what follows
	fenced  bool
	shards  [ident.Shards]recordShard
	young   map[recordKey]*kept
	old     map[recordKey]*kept // what is asked for goes back into young; when that is full the rest is dropped
	bytes   int                 // of young
	reading map[recordKey]*reading
	writing map[recordKey]bool
}

type recordShard struct {
	held bool
	term uint64    // counts Raises: what is of an earlier one is not true
	sure time.Time // nobody had taken the shard by then
}

// kept is a record, or that there is none.
type kept struct {
	term   uint64
	found  bool
	record persistence.Record
}

// reading is a record that lookups under way ask for.
type reading struct {
	term    uint64
	lookups int
	stale   bool // a commit that writes it has begun since
}

func newRecords(trusted time.Duration) *records {
	return &records{now: time.Now, trusted: trusted,
		young: map[recordKey]*kept{}, reading: map[recordKey]*reading{}, writing: map[recordKey]bool{}}
}

// raised is told that this process holds a shard, as of a time before it asked for it.
func (r *records) raised(shard ident.Shard, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shards[shard] = recordShard{held: true, term: r.shards[shard].term + 1, sure: asked}
	for key := range r.reading {
		if key.shard == shard { // later lookups do not join one that keeps nothing
			delete(r.reading, key)
		}
	}
}

// trust is told that the server was asked at a time, and has answered that nobody else has taken the shard.
func (r *records) trust(shard ident.Shard, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := &r.shards[shard]; asked.After(s.sure) {
		s.sure = asked
	}
}

// doubt keeps nothing of a shard until it is raised.
func (r *records) doubt(shard ident.Shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shards[shard].held = false
}

// fence ends all keeping.
func (r *records) fence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fenced = true
}

// find returns a record as of now, or nil; it is under mu.
func (r *records) find(key recordKey) *kept {
	if r.fenced || !r.shards[key.shard].held {
		return nil
	}
	k := r.young[key]
	if k == nil {
		if k = r.old[key]; k != nil {
			r.keep(key, k)
		}
	}
	if k == nil || k.term != r.shards[key.shard].term {
		return nil
	}
	return k
}

func (r *records) keep(key recordKey, k *kept) {
	r.drop(key)
	if max(len(key.kind), len(key.id)) > persistence.MaxName { // there is no such record
		return
	}
	if len(k.record.Document) == 0 {
		k.record.Document = nil // as the table shows it
	}
	r.young[key], r.bytes = k, r.bytes+k.size(key)
	if r.bytes > recordBytes/2 {
		r.old, r.young, r.bytes = r.young, map[recordKey]*kept{}, 0
	}
}

func (r *records) drop(key recordKey) {
	if k := r.young[key]; k != nil {
		delete(r.young, key)
		r.bytes -= k.size(key)
	}
	delete(r.old, key)
}

// size counts the names of the key, which the record has too.
func (k *kept) size(key recordKey) int {
	return 2*(len(key.kind)+len(key.id)) + len(k.record.Workspace) + len(k.record.Parent) + len(k.record.Document) + recordOverhead
}

// ask returns a record that is kept, or ErrNotFound when it is known that there is none. When neither is known the lookup is to
// tell answer what it has read.
func (r *records) ask(key recordKey) (record persistence.Record, lookup *reading, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.find(key); k != nil && r.trusts(key.shard) {
		if !k.found {
			return record, nil, persistence.ErrNotFound
		}
		record = k.record
		record.Document = bytes.Clone(record.Document)
		return record, nil, nil
	}
	lookup = r.reading[key]
	if lookup == nil {
		lookup = &reading{term: r.shards[key.shard].term, stale: r.writing[key]}
		r.reading[key] = lookup
	}
	lookup.lookups++
	return record, lookup, nil
}

// trusts tells whether the server has confirmed of late that nobody has taken a shard. The machine may have slept, which the wall
// clock alone counts, and that may be set back.
func (r *records) trusts(shard ident.Shard) bool {
	now, sure := r.now(), r.shards[shard].sure
	wall := now.Round(0).Sub(sure.Round(0))
	return now.Sub(sure) < r.trusted && 0 <= wall && wall < r.trusted
}

// answer takes what a lookup has read: a record, ErrNotFound, or an error that says nothing.
func (r *records) answer(key recordKey, lookup *reading, record persistence.Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lookup.lookups--; lookup.lookups == 0 && r.reading[key] == lookup {
		delete(r.reading, key)
	}
	shard, none := &r.shards[key.shard], errors.Is(err, persistence.ErrNotFound)
	if lookup.stale || lookup.term != shard.term || r.fenced || !shard.held || err != nil && !none {
		return
	}
	record.Document = bytes.Clone(record.Document)
	r.keep(key, &kept{term: shard.term, found: !none, record: record})
}

// begin takes out what a commit writes, and returns what was known of it.
func (r *records) begin(written map[recordKey]*recordState) map[recordKey]*kept {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := make(map[recordKey]*kept)
	for key := range written {
		if k := r.find(key); k != nil {
			was[key] = k
		}
		r.drop(key)
		r.writing[key] = true
		if lookup := r.reading[key]; lookup != nil {
			lookup.stale = true
		}
	}
	return was
}

// end puts back what is known of what a commit wrote. Of a record whose place was not known nothing is.
func (r *records) end(written map[recordKey]*recordState, was map[recordKey]*kept, committed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, state := range written {
		delete(r.writing, key)
		delete(r.reading, key) // it is stale; later lookups do not join it
		k := was[key]
		if k != nil && committed {
			k = k.after(state)
		}
		if k != nil { // of an earlier term by now, it may be: then nobody finds it
			r.keep(key, k)
		}
	}
}

// after is a record after a commit: one that was there keeps its place.
func (k *kept) after(state *recordState) *kept {
	next := &kept{term: k.term, found: state.present}
	if !state.present {
		return next
	}
	next.record = state.record
	next.record.Document = bytes.Clone(next.record.Document)
	if k.found && !state.cleared {
		next.record.Position, next.record.Ordinal = k.record.Position, k.record.Ordinal
	}
	return next
}
