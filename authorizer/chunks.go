package authorizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// A chunk is the entries of the decision log that one projection has written. Its number is the
// projection's in the write-ahead log. The tables of two chunks do not overlap, so Pebble takes each
// to its lowest level at once and no compaction writes an entry again. With the shard in front of
// the number every compaction rewrote the log.

// chunkHeads says where the decision log ends with a chunk.
type chunkHeads struct {
	last   [ident.Shards]uint64 // each shard's, in this chunk or an earlier one; 0 for none
	newest int64                // the latest time of the chunk's entries, Unix milliseconds
}

const chunkHeadsBytes = 8*ident.Shards + 8

func (h *chunkHeads) appendHeads(dst []byte) []byte {
	for _, seq := range h.last {
		dst = binary.BigEndian.AppendUint64(dst, seq)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(h.newest))
}

func (h *chunkHeads) decodeHeads(v []byte) error {
	if len(v) != chunkHeadsBytes {
		return fmt.Errorf("%w: heads of a chunk of %d bytes", ErrCorrupt, len(v))
	}
	for i := range h.last {
		h.last[i] = binary.BigEndian.Uint64(v[8*i:])
	}
	h.newest = int64(binary.BigEndian.Uint64(v[8*ident.Shards:]))
	return nil
}

// chunks is a cursor over the chunks of a store, or of a snapshot of it. Close it. After a method
// that returns true it is at a chunk.
type chunks struct {
	it     *pebble.Iterator
	at     bool
	number uint64
	heads  chunkHeads
	err    error
}

func openChunks(from reader) (*chunks, error) {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixChunk}, UpperBound: []byte{prefixChunk + 1}})
	return &chunks{it: it}, err
}

// closeCursor returns the first error of the cursor.
func (c *chunks) closeCursor() error { return errors.Join(c.err, c.it.Close()) }

// loadChunk reads the chunk at which the iterator is.
func (c *chunks) loadChunk(valid bool) bool {
	if c.at = false; !valid || c.err != nil {
		return false
	}
	v, err := c.it.ValueAndErr()
	if err == nil {
		err = c.heads.decodeHeads(v)
	}
	if c.err = err; err != nil {
		return false
	}
	c.at, c.number = true, binary.BigEndian.Uint64(c.it.Key()[1:])
	return true
}

func (c *chunks) goOldest() bool { return c.loadChunk(c.it.First()) }
func (c *chunks) goLatest() bool { return c.loadChunk(c.it.Last()) }
func (c *chunks) goNext() bool   { return c.loadChunk(c.it.Next()) }

// goFrom goes to the first chunk with a number of at least n.
func (c *chunks) goFrom(n uint64) bool { return c.loadChunk(c.it.SeekGE(appendChunkKey(nil, n))) }

// findEntry goes to the first chunk that ends behind the entry of a shard or with it. It tries the
// next one, and then searches by halves.
func (c *chunks) findEntry(shard ident.Shard, seq uint64) bool {
	reaches := func() bool { return c.heads.last[shard] >= seq }
	if c.at && !reaches() && c.goNext() && reaches() {
		return true
	}
	if !c.goLatest() || !reaches() {
		return false
	}
	found := c.number
	for low, high := uint64(0), found; low < high; {
		middle := low + (high-low)/2
		switch {
		case !c.goFrom(middle):
			return false
		case reaches():
			found, high = c.number, middle
		default:
			low = c.number + 1
		}
	}
	return c.goFrom(found)
}

// readLog appends the entries after one sequence number, through another, to entries, until there
// are limit.
func (s *store) readLog(
	from reader, shard ident.Shard, after, through uint64, limit int, entries []hold.Entry,
) ([]hold.Entry, error) {
	c, err := openChunks(from)
	if err != nil {
		return entries, err
	}
	for next := after + 1; len(entries) < limit && next <= through && c.findEntry(shard, next); {
		next = max(next, c.heads.last[shard]+1) // the chunk may have lost its entries
		lower, upper := appendLogKey(nil, c.number, shard, after+1), appendLogKey(nil, c.number, shard, through+1)
		err = s.scan(from, lower, upper, func(_, v []byte) (bool, error) {
			var n hold.Entry
			if err := hold.DecodeEntry(v, &n); err != nil {
				return false, fmt.Errorf("%w: log of shard %d: %w", ErrCorrupt, shard, err)
			}
			entries = append(entries, n)
			return len(entries) >= limit, nil
		})
		if err != nil {
			break
		}
	}
	return entries, errors.Join(err, c.closeCursor())
}

// firstLogged returns the first entry of a shard that Pebble has, 0 for none.
func (s *store) firstLogged(shard ident.Shard) (first uint64, err error) {
	entries, err := s.readLog(s.db, shard, 0, ^uint64(0)-1, 1, nil)
	if len(entries) == 0 {
		return 0, err
	}
	return entries[0].Seq, err
}

// newestHeads returns where the log of Pebble ends, zeros for an empty one.
func (s *store) newestHeads() (heads chunkHeads, err error) {
	c, err := openChunks(s.db)
	if err != nil {
		return heads, err
	}
	if c.goLatest() {
		heads = c.heads
	}
	return heads, c.closeCursor()
}

// trimLook bounds the young chunks that a trim looks at behind each other.
const trimLook = 1024

// trimmer deletes old entries in a batch, in the order of the chunks.
type trimmer struct {
	b       *pebble.Batch
	through *[ident.Shards]uint64 // the last old entry of each shard
	before  *[ident.Shards]uint64 // that of the trim before, whose entries are deleted
	err     error

	earlier [ident.Shards]uint64 // heads of the chunk before
	run     []uint64             // neighbours that go
}

// trimChunks deletes the old entries: all of a shard's in a chunk, or none, so that no log has a
// gap, and the chunks without another entry. The heads of the newest chunk stay. Entries from a time
// after 1970 on are young.
func (s *store) trimChunks(b *pebble.Batch, through, before *[ident.Shards]uint64, cutoff time.Duration) error {
	c, err := openChunks(s.db)
	if err != nil {
		return err
	}
	if !c.goLatest() {
		return c.closeCursor()
	}
	newest, young := c.number, 0
	t := trimmer{b: b, through: through, before: before}
	for more := c.goOldest(); more && young < trimLook; more = c.goNext() {
		if young++; c.heads.newest < cutoff.Milliseconds() {
			young = 0
		}
		t.judgeChunk(c, newest)
	}
	t.dropRun()
	return errors.Join(t.err, c.closeCursor())
}

// judgeChunk judges the next chunk by its own entries. A chunk all of whose entries are old goes
// with its neighbours; the newest one keeps its heads.
func (t *trimmer) judgeChunk(c *chunks, newest uint64) {
	fresh, whole := false, true
	for i, last := range c.heads.last {
		own := last != t.earlier[i]
		whole = whole && (!own || last <= t.through[i])
		fresh = fresh || own && last <= t.through[i] && last > t.before[i]
	}
	switch {
	case whole && c.number != newest:
		t.run = append(t.run, c.number)
	default:
		t.dropRun()
		if fresh {
			t.dropShards(c)
		}
	}
	t.earlier = c.heads.last
}

// dropShards deletes the entries of the shards whose own entries are all old from a chunk that
// stays. Neighbours are deleted as one range.
func (t *trimmer) dropShards(c *chunks) {
	for i := 0; i < ident.Shards; i++ {
		begin := i
		for i < ident.Shards && (c.heads.last[i] == t.earlier[i] || c.heads.last[i] <= t.through[i]) {
			i++
		}
		if i > begin {
			t.noteError(t.b.DeleteRange(appendLogKey(nil, c.number, ident.Shard(begin), 0),
				append(appendLogKey(nil, c.number, ident.Shard(i-1), ^uint64(0)), 0), nil))
		}
	}
}

// dropRun deletes the neighbours that go.
func (t *trimmer) dropRun() {
	if len(t.run) == 0 {
		return
	}
	first, last := t.run[0], t.run[len(t.run)-1]
	t.noteError(t.b.DeleteRange(appendLogKey(nil, first, 0, 0), appendLogKey(nil, last+1, 0, 0), nil))
	t.noteError(t.b.DeleteRange(appendChunkKey(nil, first), appendChunkKey(nil, last+1), nil))
	t.run = nil
}

func (t *trimmer) noteError(err error) { t.err = errors.Join(t.err, err) }
