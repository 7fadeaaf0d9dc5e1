package pgjournal

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence"
)

// shardModel is a model of one shard on the server, beside the cache under test.
type shardModel struct {
	*rapid.T
	cache   *recordCache
	rows    map[recordKey]persistence.Record
	lookups []*modelLookup
	open    *modelTransaction
	ordinal uint32
}

// modelLookup is a lookup under way.
type modelLookup struct {
	key     recordKey
	lookup  *pendingRead
	read    bool
	record  persistence.Record
	missing error
}

// modelTransaction is a transaction of a lane.
type modelTransaction struct {
	written map[recordKey]*recordState
	cached  map[recordKey]*cachedRecord
	visible bool // visible to reads
}

func (w *shardModel) key() recordKey {
	return recordKey{3, "item", rapid.SampledFrom([]string{"a", "b"}).Draw(w.T, "id")}
}

func (w *shardModel) read(key recordKey) (persistence.Record, error) {
	if r, found := w.rows[key]; found {
		return r, nil
	}
	return persistence.Record{}, persistence.ErrNotFound
}

// ask looks a record up. A cached answer must equal the table.
func (w *shardModel) ask(*rapid.T) {
	key := w.key()
	got, lookup, err := w.cache.lookUp(key)
	if lookup != nil {
		w.lookups = append(w.lookups, &modelLookup{key: key, lookup: lookup})
		return
	}
	want, missing := w.read(key)
	require.Equal(w.T, missing, err)
	require.Equal(w.T, want, got)
	if len(got.Document) > 0 {
		got.Document[0] = '!' // the caller owns the document
	}
}

// answer advances a lookup: first it reads the table, then it completes; sometimes it fails.
func (w *shardModel) answer(t *rapid.T) {
	if len(w.lookups) == 0 {
		return
	}
	n := rapid.IntRange(0, len(w.lookups)-1).Draw(t, "lookup")
	l := w.lookups[n]
	if !l.read && rapid.IntRange(0, 9).Draw(t, "patience") > 0 {
		l.record, l.missing = w.read(l.key)
		l.read = true
		return
	}
	if !l.read {
		l.missing = persistence.ErrUnavailable
	}
	w.cache.completeRead(l.key, l.lookup, l.record, l.missing)
	w.lookups = append(w.lookups[:n], w.lookups[n+1:]...)
}

// begin stages writes and deletions as a transaction does.
func (w *shardModel) begin(t *rapid.T) {
	if w.open != nil {
		return
	}
	tx := &modelTransaction{written: map[recordKey]*recordState{}}
	for range rapid.IntRange(1, 2).Draw(t, "records") {
		key := w.key()
		w.ordinal++
		change := rapid.IntRange(0, 4).Draw(t, "change") // 0: deletion, 1: deletion and new record, else record
		state := &recordState{cleared: change < 2, present: change > 0}
		if state.present {
			state.record = persistence.Record{Kind: key.kind, ID: key.id, Position: 7, Ordinal: w.ordinal,
				Document: json.RawMessage(fmt.Sprint(w.ordinal))}
		}
		tx.written[key] = state
	}
	tx.cached = w.cache.beginCommit(tx.written)
	w.open = tx
}

// commit makes the writes of the transaction visible in the table.
func (w *shardModel) commit(t *rapid.T) {
	if w.open == nil || w.open.visible {
		return
	}
	w.open.visible = true
	for key, state := range w.open.written {
		old, found := w.rows[key]
		if state.cleared {
			delete(w.rows, key)
			found = false
		}
		if !state.present {
			continue
		}
		next := state.record
		next.Document = append(json.RawMessage(nil), next.Document...)
		if found {
			next.Position, next.Ordinal = old.Position, old.Ordinal
		}
		w.rows[key] = next
	}
}

func (w *shardModel) end(t *rapid.T) {
	if w.open == nil {
		return
	}
	w.cache.endCommit(w.open.written, w.open.cached, w.open.visible)
	for _, state := range w.open.written {
		if state.present {
			state.record.Document[0] = '!' // the caller owns the document again
		}
	}
	w.open = nil
}

// lose ends a transaction with an unknown outcome: its writes may become visible until the shard is
// raised.
func (w *shardModel) lose(t *rapid.T) {
	if w.open == nil {
		return
	}
	tx := w.open
	w.cache.suspendShard(3)
	w.cache.endCommit(tx.written, tx.cached, false)
	for range rapid.IntRange(0, 5).Draw(t, "meanwhile") {
		w.ask(t)
		if len(w.lookups) > 0 {
			w.answer(t)
		}
	}
	if !tx.visible && rapid.Bool().Draw(t, "landed") {
		w.commit(t)
	}
	w.open = nil
	w.cache.beginTerm(3, time.Now())
}

// In any interleaving of lookups, commits and Raises, a cached record equals the stored one.
func TestCachedRecordsEqualStoredOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &shardModel{T: t, cache: newRecordCache(time.Hour), rows: map[recordKey]persistence.Record{}}
		w.cache.beginTerm(3, time.Now())
		raise := func(*rapid.T) {
			if w.open == nil { // a Raise waits for the transaction under way
				w.cache.beginTerm(3, time.Now())
			}
		}
		moves := []func(*rapid.T){w.ask, w.ask, w.ask, w.answer, w.answer, w.answer, w.begin, w.commit, w.end, w.lose, raise}
		for range rapid.IntRange(1, 400).Draw(t, "moves") {
			n := rapid.IntRange(0, 8*len(moves)).Draw(t, "move")
			if n < 2*len(moves) { // a Raise and a lost answer empty the cache, so they are rare
				moves[n%len(moves)](t)
			} else {
				moves[n%(len(moves)-2)](t)
			}
		}
		for len(w.lookups) > 0 {
			w.answer(t)
		}
		require.Empty(t, w.cache.reads)
	})
}

func lookUpOrFill(r *recordCache, key recordKey, document string) (kept bool) {
	record, lookup, err := r.lookUp(key)
	if lookup == nil {
		return err == nil && string(record.Document) == document
	}
	r.completeRead(key, lookup, persistence.Record{Kind: key.kind, ID: key.id, Document: json.RawMessage(document)}, nil)
	return false
}

// Nothing is cached for a shard that this process does not own for certain, nor by a fenced
// process, nor of a failed lookup.
func TestCacheNeedsOwnership(t *testing.T) {
	r, key := newRecordCache(time.Hour), recordKey{3, "item", "a"}
	require.False(t, lookUpOrFill(r, key, "1"))
	require.False(t, lookUpOrFill(r, key, "1"), "a lookup has cached the record")
	r.beginTerm(3, time.Now())
	require.False(t, lookUpOrFill(r, key, "1"))
	require.True(t, lookUpOrFill(r, key, "1"))
	r.beginTerm(3, time.Now())
	require.False(t, lookUpOrFill(r, key, "1"))
	r.suspendShard(3)
	require.False(t, lookUpOrFill(r, key, "1"))
	require.False(t, lookUpOrFill(r, key, "1"), "a lookup has cached the record")
	r.beginTerm(3, time.Now())
	_, lookup, _ := r.lookUp(key)
	r.completeRead(key, lookup, persistence.Record{}, errors.New("down"))
	require.False(t, lookUpOrFill(r, key, "1"))
	require.True(t, lookUpOrFill(r, key, "1"))
	r.stopServing()
	require.False(t, lookUpOrFill(r, key, "1"))
	require.False(t, lookUpOrFill(r, key, "1"), "a lookup has cached the record")
}

// The cache is bounded and evicts records without recent lookups first.
func TestCachedRecordsAreBounded(t *testing.T) {
	r := newRecordCache(time.Hour)
	r.beginTerm(3, time.Now())
	document := string(make([]byte, 64<<10))
	hot, most := recordKey{3, "item", "hot"}, 2*recordBytes/len(document)
	require.False(t, lookUpOrFill(r, hot, "1"))
	for i := range most {
		require.False(t, lookUpOrFill(r, recordKey{3, "item", fmt.Sprint(i)}, document))
		require.True(t, lookUpOrFill(r, hot, "1"))
		size := 0
		for _, part := range []map[recordKey]*cachedRecord{r.young, r.old} {
			for key, k := range part {
				size += k.memorySize(key)
			}
		}
		require.LessOrEqual(t, size, recordBytes+len(document)+2*recordOverhead)
	}
	require.False(t, lookUpOrFill(r, recordKey{3, "item", "0"}, document))
	last := recordKey{3, "item", fmt.Sprint(most - 1)}
	require.True(t, lookUpOrFill(r, last, document))
	for range most { // repeated writes of one record use no more memory
		written := map[recordKey]*recordState{hot: {present: true, record: persistence.Record{Document: json.RawMessage(document)}}}
		r.endCommit(written, r.beginCommit(written), true)
	}
	require.True(t, lookUpOrFill(r, last, document))
}

// Lookups with the longest names are bounded too, and a name longer than any record's is not
// cached.
func TestCachedNamesAreBounded(t *testing.T) {
	r := newRecordCache(time.Hour)
	r.beginTerm(3, time.Now())
	most := 2 * recordBytes / persistence.MaxName
	for length, are := range map[int]bool{persistence.MaxName: true, persistence.MaxName + 1: false} {
		bytes, last := 0, recordKey{}
		for i := range most {
			last = recordKey{3, "item", fmt.Sprintf("%0*d", length, i)}
			lookUpOrFill(r, last, "")
		}
		require.Equal(t, are, lookUpOrFill(r, last, ""))
		for _, part := range []map[recordKey]*cachedRecord{r.young, r.old} {
			for key := range part {
				bytes += len(key.id)
			}
		}
		require.LessOrEqual(t, bytes, recordBytes)
	}
}

// A record with lookups always under way is cached again after a concurrent commit or Raise.
func TestLookupsDoNotJoinAStaleRead(t *testing.T) {
	r, key := newRecordCache(time.Hour), recordKey{3, "item", "hot"}
	written := map[recordKey]*recordState{key: {present: true}}
	for name, beside := range map[string]func(meanwhile func()){
		"commit": func(meanwhile func()) {
			was := r.beginCommit(written)
			meanwhile()
			r.endCommit(written, was, true)
		},
		"Raise": func(meanwhile func()) {
			meanwhile()
			r.beginTerm(3, time.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.beginTerm(3, time.Now())
			_, before, _ := r.lookUp(key)
			var within *pendingRead
			beside(func() { _, within, _ = r.lookUp(key) })
			_, after, _ := r.lookUp(key)
			require.NotNil(t, after)
			r.completeRead(key, before, persistence.Record{}, nil)
			r.completeRead(key, within, persistence.Record{}, nil)
			_, joined, _ := r.lookUp(key)
			require.Same(t, after, joined)
			r.completeRead(key, after, persistence.Record{}, nil)
			r.completeRead(key, joined, persistence.Record{}, nil)
			require.True(t, lookUpOrFill(r, key, ""))
			require.Empty(t, r.reads)
		})
	}
}

// Cached records are served only for a while after the last confirmation of ownership.
func TestConfirmationExpires(t *testing.T) {
	start := time.Now()
	now := start
	r, key := newRecordCache(2*time.Second), recordKey{3, "item", "a"}
	r.now = func() time.Time { return now }
	r.beginTerm(3, now)
	require.False(t, lookUpOrFill(r, key, "1"))
	now = start.Add(2*time.Second - 1)
	require.True(t, lookUpOrFill(r, key, "1"))
	now = start.Add(2 * time.Second)
	require.False(t, lookUpOrFill(r, key, "1"))
	r.confirmOwnership(4, now)
	require.False(t, lookUpOrFill(r, key, "1"))
	r.confirmOwnership(3, start.Add(time.Second))
	require.True(t, lookUpOrFill(r, key, "1"))
	r.confirmOwnership(3, start) // a confirmation that arrives late
	require.True(t, lookUpOrFill(r, key, "1"))
}

// A standby may lag: its head confirms nothing.
func TestStandbyConfirmsNothing(t *testing.T) {
	start := time.Now()
	j := &Journal{recordCache: newRecordCache(2 * time.Second)}
	j.shards[3].raisedEpoch = 5
	for _, c := range []struct {
		epoch      uint64
		recovering bool
		sure       bool
	}{{5, true, false}, {6, false, false}, {4, false, false}, {5, false, true}} {
		require.Equal(t, c.sure, j.showHead(3, persistence.Head{Epoch: c.epoch}, c.recovering, start))
		require.Equal(t, c.sure, j.recordCache.shards[3].confirmed.Equal(start))
	}
	require.False(t, j.showHead(4, persistence.Head{}, false, start), "a shard that this process does not hold")
}

// The caller owns the record of a lookup; changing it does not change the cache.
func TestCallerOwnsTheRecord(t *testing.T) {
	r, key := newRecordCache(time.Hour), recordKey{3, "item", "a"}
	r.beginTerm(3, time.Now())
	_, lookup, _ := r.lookUp(key)
	record := persistence.Record{Document: json.RawMessage(`1`)}
	r.completeRead(key, lookup, record, nil)
	record.Document[0] = '!'
	require.True(t, lookUpOrFill(r, key, "1"))
}
