package memtable

import "sync"

// entries is the part of a shard's decision log that one generation has: encoded entries in the
// order of their sequence numbers, without gaps.
type entries struct {
	mu    sync.Mutex
	first uint64 // sequence number of the first entry
	ends  []int  // where each entry ends in the arena
	arena []byte
}

// addEntry appends the entry with the next sequence number.
func (e *entries) addEntry(seq uint64, value []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ends) == 0 {
		e.first = seq
	}
	if seq != e.first+uint64(len(e.ends)) {
		panic("BUG: an entry out of order")
	}
	e.arena = append(e.arena, value...)
	e.ends = append(e.ends, len(e.arena))
}

// visitRange calls read for the entries after one sequence number, through another, in order, until
// it returns false. The bytes are read's only while it runs.
func (e *entries) visitRange(after, through uint64, read func(seq uint64, value []byte) bool) (more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for seq := max(after+1, e.first); seq < e.first+uint64(len(e.ends)); seq++ {
		if seq > through || !read(seq, e.entryAt(int(seq-e.first))) {
			return false
		}
	}
	return true
}

func (e *entries) entryAt(n int) []byte {
	begin := 0
	if n > 0 {
		begin = e.ends[n-1]
	}
	return e.arena[begin:e.ends[n]]
}

func (e *entries) resetEmpty() { e.first, e.ends, e.arena = 0, e.ends[:0], e.arena[:0] }
