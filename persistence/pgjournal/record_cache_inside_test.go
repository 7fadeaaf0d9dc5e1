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

// table is what the server has, of one shard, beside the records that are kept of it.
type table struct {
	*rapid.T
	known   *recordCache
	rows    map[recordKey]persistence.Record
	lookups []*asked
	under   *transaction
	ordinal uint32
}

// asked is a lookup that is on its way.
type asked struct {
	key     recordKey
	lookup  *pendingRead
	read    bool
	record  persistence.Record
	missing error
}

// transaction is one of a lane.
type transaction struct {
	written map[recordKey]*recordState
	was     map[recordKey]*cachedRecord
	seen    bool // by who reads
}

func (w *table) key() recordKey {
	return recordKey{3, "item", rapid.SampledFrom([]string{"a", "b"}).Draw(w.T, "id")}
}

func (w *table) read(key recordKey) (persistence.Record, error) {
	if r, found := w.rows[key]; found {
		return r, nil
	}
	return persistence.Record{}, persistence.ErrNotFound
}

// ask must be answered by what the table has, or not at all.
func (w *table) ask(*rapid.T) {
	key := w.key()
	got, lookup, err := w.known.lookUp(key)
	if lookup != nil {
		w.lookups = append(w.lookups, &asked{key: key, lookup: lookup})
		return
	}
	want, missing := w.read(key)
	require.Equal(w.T, missing, err)
	require.Equal(w.T, want, got)
	if len(got.Document) > 0 {
		got.Document[0] = '!' // it is the caller's
	}
}

// answer takes a lookup on: first to the table, then home, or gives it up.
func (w *table) answer(t *rapid.T) {
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
	w.known.completeRead(l.key, l.lookup, l.record, l.missing)
	w.lookups = append(w.lookups[:n], w.lookups[n+1:]...)
}

// begin stages writes and removals as a transaction does.
func (w *table) begin(t *rapid.T) {
	if w.under != nil {
		return
	}
	tx := &transaction{written: map[recordKey]*recordState{}}
	for range rapid.IntRange(1, 2).Draw(t, "records") {
		key := w.key()
		w.ordinal++
		change := rapid.IntRange(0, 4).Draw(t, "change") // a removal, one with a new record, or mostly a record
		state := &recordState{cleared: change < 2, present: change > 0}
		if state.present {
			state.record = persistence.Record{Kind: key.kind, ID: key.id, Position: 7, Ordinal: w.ordinal,
				Document: json.RawMessage(fmt.Sprint(w.ordinal))}
		}
		tx.written[key] = state
	}
	tx.was = w.known.beginCommit(tx.written)
	w.under = tx
}

// commit has the table show what the transaction under way wrote.
func (w *table) commit(t *rapid.T) {
	if w.under == nil || w.under.seen {
		return
	}
	w.under.seen = true
	for key, state := range w.under.written {
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

func (w *table) end(t *rapid.T) {
	if w.under == nil {
		return
	}
	w.known.endCommit(w.under.written, w.under.was, w.under.seen)
	for _, state := range w.under.written {
		if state.present {
			state.record.Document[0] = '!' // it is the caller's again
		}
	}
	w.under = nil
}

// lose ends the transaction whose answer to COMMIT is lost: it may come to be seen until the shard is raised.
func (w *table) lose(t *rapid.T) {
	if w.under == nil {
		return
	}
	tx := w.under
	w.known.suspendShard(3)
	w.known.endCommit(tx.written, tx.was, false)
	for range rapid.IntRange(0, 5).Draw(t, "meanwhile") {
		w.ask(t)
		if len(w.lookups) > 0 {
			w.answer(t)
		}
	}
	if !tx.seen && rapid.Bool().Draw(t, "landed") {
		w.commit(t)
	}
	w.under = nil
	w.known.beginTerm(3, time.Now())
}

// TestWhatIsKeptIsTrue: whatever lookups, commits and Raises come between each other, a record is answered as it is, or not at
// all.
func TestWhatIsKeptIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &table{T: t, known: newRecordCache(time.Hour), rows: map[recordKey]persistence.Record{}}
		w.known.beginTerm(3, time.Now())
		raise := func(*rapid.T) {
			if w.under == nil { // it waits for who holds the shard
				w.known.beginTerm(3, time.Now())
			}
		}
		moves := []func(*rapid.T){w.ask, w.ask, w.ask, w.answer, w.answer, w.answer, w.begin, w.commit, w.end, w.lose, raise}
		for range rapid.IntRange(1, 400).Draw(t, "moves") {
			n := rapid.IntRange(0, 8*len(moves)).Draw(t, "move")
			if n < 2*len(moves) { // a Raise, or a lost answer, forgets all: seldom
				moves[n%len(moves)](t)
			} else {
				moves[n%(len(moves)-2)](t)
			}
		}
		for len(w.lookups) > 0 {
			w.answer(t)
		}
		require.Empty(t, w.known.reads)
	})
}

func look(r *recordCache, key recordKey, document string) (kept bool) {
	record, lookup, err := r.lookUp(key)
	if lookup == nil {
		return err == nil && string(record.Document) == document
	}
	r.completeRead(key, lookup, persistence.Record{Kind: key.kind, ID: key.id, Document: json.RawMessage(document)}, nil)
	return false
}

// Of a shard that this process does not hold, or not for sure, nothing is kept, nor by a process that was fenced, and no failure
// is.
func TestWhatIsNotKept(t *testing.T) {
	r, key := newRecordCache(time.Hour), recordKey{3, "item", "a"}
	require.False(t, look(r, key, "1"))
	require.False(t, look(r, key, "1"), "a lookup has put it in")
	r.beginTerm(3, time.Now())
	require.False(t, look(r, key, "1"))
	require.True(t, look(r, key, "1"))
	r.beginTerm(3, time.Now())
	require.False(t, look(r, key, "1"))
	r.suspendShard(3)
	require.False(t, look(r, key, "1"))
	require.False(t, look(r, key, "1"), "a lookup has put it in")
	r.beginTerm(3, time.Now())
	_, lookup, _ := r.lookUp(key)
	r.completeRead(key, lookup, persistence.Record{}, errors.New("down"))
	require.False(t, look(r, key, "1"))
	require.True(t, look(r, key, "1"))
	r.stopServing()
	require.False(t, look(r, key, "1"))
	require.False(t, look(r, key, "1"), "a lookup has put it in")
}

// What is kept has a bound, beyond which what nobody has asked for goes first.
func TestKeptRecordsAreBounded(t *testing.T) {
	r := newRecordCache(time.Hour)
	r.beginTerm(3, time.Now())
	document := string(make([]byte, 64<<10))
	hot, most := recordKey{3, "item", "hot"}, 2*recordBytes/len(document)
	require.False(t, look(r, hot, "1"))
	for i := range most {
		require.False(t, look(r, recordKey{3, "item", fmt.Sprint(i)}, document))
		require.True(t, look(r, hot, "1"))
		size := 0
		for _, part := range []map[recordKey]*cachedRecord{r.young, r.old} {
			for key, k := range part {
				size += k.memorySize(key)
			}
		}
		require.LessOrEqual(t, size, recordBytes+len(document)+2*recordOverhead)
	}
	require.False(t, look(r, recordKey{3, "item", "0"}, document))
	last := recordKey{3, "item", fmt.Sprint(most - 1)}
	require.True(t, look(r, last, document))
	for range most { // what is written again and again takes no more
		written := map[recordKey]*recordState{hot: {present: true, record: persistence.Record{Document: json.RawMessage(document)}}}
		r.endCommit(written, r.beginCommit(written), true)
	}
	require.True(t, look(r, last, document))
}

// What lookups of the longest names leave in memory is bounded too, and a name that no record has leaves nothing.
func TestNamesOfKeptRecordsAreBounded(t *testing.T) {
	r := newRecordCache(time.Hour)
	r.beginTerm(3, time.Now())
	most := 2 * recordBytes / persistence.MaxName
	for length, are := range map[int]bool{persistence.MaxName: true, persistence.MaxName + 1: false} {
		bytes, last := 0, recordKey{}
		for i := range most {
			last = recordKey{3, "item", fmt.Sprintf("%0*d", length, i)}
			look(r, last, "")
		}
		require.Equal(t, are, look(r, last, ""))
		for _, part := range []map[recordKey]*cachedRecord{r.young, r.old} {
			for key := range part {
				bytes += len(key.id)
			}
		}
		require.LessOrEqual(t, bytes, recordBytes)
	}
}

// A record of which some lookup is always under way is kept again after a commit, or a Raise, that came beside one.
func TestLookupsDoNotJoinOneThatKeepsNothing(t *testing.T) {
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
			require.True(t, look(r, key, ""))
			require.Empty(t, r.reads)
		})
	}
}

// A record is answered only while the server has said of late that nobody has taken the shard.
func TestKeptRecordsAreTrustedForAMoment(t *testing.T) {
	start := time.Now()
	now := start
	r, key := newRecordCache(2*time.Second), recordKey{3, "item", "a"}
	r.now = func() time.Time { return now }
	r.beginTerm(3, now)
	require.False(t, look(r, key, "1"))
	now = start.Add(2*time.Second - 1)
	require.True(t, look(r, key, "1"))
	now = start.Add(2 * time.Second)
	require.False(t, look(r, key, "1"))
	r.confirmOwnership(4, now)
	require.False(t, look(r, key, "1"))
	r.confirmOwnership(3, start.Add(time.Second))
	require.True(t, look(r, key, "1"))
	r.confirmOwnership(3, start) // an answer that was overtaken
	require.True(t, look(r, key, "1"))
}

// What a standby shows may be of a while ago: it is not kept, and says nothing of what is.
func TestAStandbyIsNotTrusted(t *testing.T) {
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

// What a lookup has read is its caller's: what that does to it changes nothing of what is kept.
func TestWhatIsReadIsTheCallers(t *testing.T) {
	r, key := newRecordCache(time.Hour), recordKey{3, "item", "a"}
	r.beginTerm(3, time.Now())
	_, lookup, _ := r.lookUp(key)
	record := persistence.Record{Document: json.RawMessage(`1`)}
	r.completeRead(key, lookup, record, nil)
	record.Document[0] = '!'
	require.True(t, look(r, key, "1"))
}
