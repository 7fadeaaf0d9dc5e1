package pgjournal

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// Limits of recordCache.
const (
	// recordBytes bounds the memory of the cache over all shards.
	recordBytes = 16 << 20
	// recordOverhead is the memory of a record beside its names and document.
	recordOverhead = 512
	// recordsTrustedFor is how long cached records are served after the server last confirmed that
	// this process owns their shard.
	recordsTrustedFor = 2 * time.Second
)

// recordCache caches single records, and their absence, for shards that this process owns. Answers
// show the same few records again and again. As long as the process owns a shard, only its own
// commits change the records. A process that lost a shard stops when it next reads a head (see
// shardLease). Until then it serves cached records for at most recordsTrustedFor after the last
// confirmation.
//
// A lookup stores its result unless a commit that writes the record has begun since. A commit
// removes the records it writes before they become visible, and stores them after its outcome is
// known. After an ambiguous commit nothing is cached for its shards until they are raised, which
// waits for the end of that commit.
//
// All methods are safe for concurrent use.
type recordCache struct {
	now        func() time.Time
	trustedFor time.Duration
	mu         sync.Mutex // guards the fields below
	fenced     bool
	shards     [ident.Shards]cachedShard
	young      map[recordKey]*cachedRecord
	old        map[recordKey]*cachedRecord // a lookup moves its record to young; when young is full it replaces old
	bytes      int                         // memory of young
	reads      map[recordKey]*pendingRead
	writes     map[recordKey]bool
}

type cachedShard struct {
	owned     bool
	term      uint64    // number of Raises; entries of an earlier term are invalid
	confirmed time.Time // sending time of the last query that confirmed ownership
}

// cachedRecord is a record, or its absence (found is false).
type cachedRecord struct {
	term   uint64
	found  bool
	record persistence.Record
}

// pendingRead is a record that lookups under way read from the server.
type pendingRead struct {
	term    uint64
	lookups int
	stale   bool // a commit that writes the record has begun since; the result is not cached
}

func newRecordCache(trusted time.Duration) *recordCache {
	return &recordCache{now: time.Now, trustedFor: trusted,
		young: map[recordKey]*cachedRecord{}, reads: map[recordKey]*pendingRead{}, writes: map[recordKey]bool{}}
}

// beginTerm starts a term after a Raise. asked is a time before the Raise was sent.
func (r *recordCache) beginTerm(shard ident.Shard, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shards[shard] = cachedShard{owned: true, term: r.shards[shard].term + 1, confirmed: asked}
	for key := range r.reads {
		if key.shard == shard { // later lookups must not join a read that caches nothing
			delete(r.reads, key)
		}
	}
}

// confirmOwnership records that a query sent at asked found the shard owned by this process.
func (r *recordCache) confirmOwnership(shard ident.Shard, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := &r.shards[shard]; asked.After(s.confirmed) {
		s.confirmed = asked
	}
}

// suspendShard disables the cache for a shard until the next Raise.
func (r *recordCache) suspendShard(shard ident.Shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shards[shard].owned = false
}

// stopServing disables the cache for good.
func (r *recordCache) stopServing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fenced = true
}

// findLocked returns the valid entry of a key, or nil; mu is held.
func (r *recordCache) findLocked(key recordKey) *cachedRecord {
	if r.fenced || !r.shards[key.shard].owned {
		return nil
	}
	k := r.young[key]
	if k == nil {
		if k = r.old[key]; k != nil {
			r.storeLocked(key, k)
		}
	}
	if k == nil || k.term != r.shards[key.shard].term {
		return nil
	}
	return k
}

// storeLocked stores a record, or its absence, in the young half. A full young half becomes the old
// one, whose records are dropped. r.mu is held.
func (r *recordCache) storeLocked(key recordKey, k *cachedRecord) {
	r.dropLocked(key)
	if max(len(key.kind), len(key.id)) > persistence.MaxName { // no record has such a name
		return
	}
	if len(k.record.Document) == 0 {
		k.record.Document = nil // as a read of the table returns it
	}
	r.young[key], r.bytes = k, r.bytes+k.memorySize(key)
	if r.bytes > recordBytes/2 {
		r.old, r.young, r.bytes = r.young, map[recordKey]*cachedRecord{}, 0
	}
}

func (r *recordCache) dropLocked(key recordKey) {
	if k := r.young[key]; k != nil {
		delete(r.young, key)
		r.bytes -= k.memorySize(key)
	}
	delete(r.old, key)
}

// memorySize estimates the bytes of an entry. The names count twice: the key and the record hold
// them.
func (k *cachedRecord) memorySize(key recordKey) int {
	return 2*(len(key.kind)+len(key.id)) + len(k.record.Workspace) + len(k.record.Parent) + len(k.record.Document) + recordOverhead
}

// lookUp returns a cached record, or ErrNotFound for a cached absence. Otherwise it returns a
// pendingRead: the caller reads the record and calls completeRead.
func (r *recordCache) lookUp(key recordKey) (record persistence.Record, lookup *pendingRead, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.findLocked(key); k != nil && r.isConfirmed(key.shard) {
		if !k.found {
			return record, nil, persistence.ErrNotFound
		}
		record = k.record
		record.Document = bytes.Clone(record.Document)
		return record, nil, nil
	}
	lookup = r.reads[key]
	if lookup == nil {
		lookup = &pendingRead{term: r.shards[key.shard].term, stale: r.writes[key]}
		r.reads[key] = lookup
	}
	lookup.lookups++
	return record, lookup, nil
}

// isConfirmed reports whether the server has confirmed ownership of a shard within trustedFor. It
// checks the wall clock too, because the monotonic clock may stop while the machine sleeps. A wall
// clock that was set back does not count.
func (r *recordCache) isConfirmed(shard ident.Shard) bool {
	now, sure := r.now(), r.shards[shard].confirmed
	wall := now.Round(0).Sub(sure.Round(0))
	return now.Sub(sure) < r.trustedFor && 0 <= wall && wall < r.trustedFor
}

// completeRead caches the result of a lookup: a record or ErrNotFound. Any other error caches
// nothing. Record calls it once for each pendingRead.
func (r *recordCache) completeRead(key recordKey, lookup *pendingRead, record persistence.Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lookup.lookups--; lookup.lookups == 0 && r.reads[key] == lookup {
		delete(r.reads, key)
	}
	shard, none := &r.shards[key.shard], errors.Is(err, persistence.ErrNotFound)
	if lookup.stale || lookup.term != shard.term || r.fenced || !shard.owned || err != nil && !none {
		return
	}
	record.Document = bytes.Clone(record.Document)
	r.storeLocked(key, &cachedRecord{term: shard.term, found: !none, record: record})
}

// beginCommit removes the records that a commit writes, and returns their valid entries.
func (r *recordCache) beginCommit(written map[recordKey]*recordState) map[recordKey]*cachedRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	cached := make(map[recordKey]*cachedRecord)
	for key := range written {
		if k := r.findLocked(key); k != nil {
			cached[key] = k
		}
		r.dropLocked(key)
		r.writes[key] = true
		if lookup := r.reads[key]; lookup != nil {
			lookup.stale = true
		}
	}
	return cached
}

// endCommit stores the entries of written records after a commit, or as before when it failed. A
// record that was not cached before stays uncached: its list position is unknown.
func (r *recordCache) endCommit(written map[recordKey]*recordState, cached map[recordKey]*cachedRecord, committed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, state := range written {
		delete(r.writes, key)
		delete(r.reads, key) // stale: later lookups must not join it
		k := cached[key]
		if k != nil && committed {
			k = k.afterCommit(state)
		}
		if k != nil { // findLocked ignores an entry of an earlier term
			r.storeLocked(key, k)
		}
	}
}

// afterCommit returns the entry of a record after a commit. An existing record keeps its list
// position.
func (k *cachedRecord) afterCommit(state *recordState) *cachedRecord {
	next := &cachedRecord{term: k.term, found: state.present}
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
