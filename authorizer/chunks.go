package authorizer

import (
	"encoding/binary"
	"errors"
	"fmt"

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
	last   [ident.Shards]uint64 // of each shard, in this chunk or an earlier one; 0 for none
	newest int64                // the latest time of an entry, Unix milliseconds
}

const chunkHeadsBytes = 8*ident.Shards + 8

func (h *chunkHeads) appendTo(dst []byte) []byte {
	for _, seq := range h.last {
		dst = binary.BigEndian.AppendUint64(dst, seq)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(h.newest))
}

func (h *chunkHeads) decode(v []byte) error {
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

// close returns the first error of the cursor.
func (c *chunks) close() error { return errors.Join(c.err, c.it.Close()) }

// load reads the chunk at which the iterator is.
func (c *chunks) load(valid bool) bool {
	if c.at = false; !valid || c.err != nil {
		return false
	}
	v, err := c.it.ValueAndErr()
	if err == nil {
		err = c.heads.decode(v)
	}
	if c.err = err; err != nil {
		return false
	}
	c.at, c.number = true, binary.BigEndian.Uint64(c.it.Key()[1:])
	return true
}

func (c *chunks) oldest() bool { return c.load(c.it.First()) }
func (c *chunks) latest() bool { return c.load(c.it.Last()) }
func (c *chunks) next() bool   { return c.load(c.it.Next()) }

// seek goes to the first chunk with a number of at least n.
func (c *chunks) seek(n uint64) bool { return c.load(c.it.SeekGE(appendChunkKey(nil, n))) }

// find goes to the first chunk that ends behind the entry of a shard or with it. It tries the next
// one, and then searches by halves.
func (c *chunks) find(shard ident.Shard, seq uint64) bool {
	reaches := func() bool { return c.heads.last[shard] >= seq }
	if c.at && !reaches() && c.next() && reaches() {
		return true
	}
	if !c.latest() || !reaches() {
		return false
	}
	found := c.number
	for low, high := uint64(0), found; low < high; {
		middle := low + (high-low)/2
		switch {
		case !c.seek(middle):
			return false
		case reaches():
			found, high = c.number, middle
		default:
			low = c.number + 1
		}
	}
	return c.seek(found)
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
	for next := after + 1; len(entries) < limit && next <= through && c.find(shard, next); {
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
	return entries, errors.Join(err, c.close())
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
	if c.latest() {
		heads = c.heads
	}
	return heads, c.close()
}

// trimChunks deletes the chunks without an entry behind the given ones, and returns the number of
// the last one, or before. The heads of the newest chunk stay.
func (s *store) trimChunks(b *pebble.Batch, through *[ident.Shards]uint64, before uint64) (trimmed uint64, err error) {
	c, err := openChunks(s.db)
	if err != nil {
		return before, err
	}
	trimmed = before
	for more := c.oldest(); more && c.heads.within(through); more = c.next() {
		trimmed = c.number
	}
	if err := c.close(); err != nil || trimmed == before {
		return before, err
	}
	heads := trimmed // the newest chunk's
	if c.at {
		heads++
	}
	return trimmed, errors.Join(
		b.DeleteRange([]byte{prefixLog}, appendLogKey(nil, trimmed+1, 0, 0), nil),
		b.DeleteRange([]byte{prefixChunk}, appendChunkKey(nil, heads), nil))
}

func (h *chunkHeads) within(through *[ident.Shards]uint64) bool {
	for i, seq := range h.last {
		if seq > through[i] {
			return false
		}
	}
	return true
}
