package authorizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the filters of network ids.
const (
	filterBitsPerID = 16               // about one new id in 1,000 seems to be known
	filterFirst     = 256 << 10        // bytes of a bucket's first part; each next part has twice as many
	maxFilterBytes  = 128 << 20        // of all buckets; a bucket that needs more has no filter
	filterScanKeys  = 1024             // stored ids that a start reads before it pauses
	filterScanPause = time.Millisecond // so that swipes have the processors
)

// filterBlock is the words of a block. An id has all its bits in one block, two in each word.
const filterBlock = 4

// filterSalts choose the bits, as in Parquet's split block Bloom filters.
var filterSalts = [2 * filterBlock]uint32{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b,
	0x9efc4947, 0x5c6bfb31}

// idFilter knows from memory that a bucket does not have a network id. Every id is added before its
// commit is visible. It is a chain of blocked Bloom filters that grows with the bucket; a bucket
// with too many ids has an empty chain. It is safe for concurrent use.
type idFilter struct {
	whole atomic.Bool                   // every id of the bucket is in it
	parts atomic.Pointer[[]*filterPart] // the last one takes the new ids
	grow  sync.Mutex
}

// newIDFilter returns the filter of a bucket. Without stored ids it is whole.
func newIDFilter(stored bool, used *atomic.Int64) *idFilter {
	f := &idFilter{}
	f.whole.Store(!stored)
	used.Add(filterFirst)
	f.parts.Store(&[]*filterPart{newFilterPart(filterFirst)})
	return f
}

type filterPart struct {
	words []uint64
	left  atomic.Int64 // ids that it still takes
}

func newFilterPart(bytes int) *filterPart {
	p := &filterPart{words: make([]uint64, bytes/8)}
	p.left.Store(int64(bytes) * 8 / filterBitsPerID)
	return p
}

// findBlock returns the block of an id and the bits that the id has in it.
func (p *filterPart) findBlock(id *networkID) (block []uint64, bits [filterBlock]uint64) {
	hash := binary.LittleEndian.Uint64(id[1:])
	n := hash >> 32 * uint64(len(p.words)/filterBlock) >> 32
	for i, salt := range filterSalts {
		bits[i/2] |= 1 << (uint64(uint32(hash)*salt>>27) + 32*uint64(i%2))
	}
	return p.words[n*filterBlock:][:filterBlock], bits
}

func (p *filterPart) addID(id *networkID) {
	block, bits := p.findBlock(id)
	for i := range block {
		atomic.OrUint64(&block[i], bits[i])
	}
}

func (p *filterPart) mayHave(id *networkID) bool {
	block, bits := p.findBlock(id)
	for i := range block {
		if atomic.LoadUint64(&block[i])&bits[i] != bits[i] {
			return false
		}
	}
	return true
}

// mayHave reports whether the bucket may have an id. Without a whole filter it may have any.
func (f *idFilter) mayHave(id *networkID) bool {
	parts := *f.parts.Load()
	if len(parts) == 0 || !f.whole.Load() {
		return true
	}
	for _, p := range parts {
		if p.mayHave(id) {
			return true
		}
	}
	return false
}

// addID adds an id. used counts the bytes of all filters.
func (f *idFilter) addID(id *networkID, used *atomic.Int64) {
	parts := *f.parts.Load()
	if len(parts) == 0 {
		return
	}
	last := parts[len(parts)-1]
	last.addID(id)
	if last.left.Add(-1) == 0 {
		f.addPart(used)
	}
}

// addPart begins the next part, or gives up the filter when there is no room for it. An id that is
// added meanwhile lies in the part before.
func (f *idFilter) addPart(used *atomic.Int64) {
	f.grow.Lock()
	defer f.grow.Unlock()
	parts := *f.parts.Load()
	if len(parts) == 0 {
		return
	}
	size := 2 * 8 * len(parts[len(parts)-1].words)
	if used.Add(int64(size)) > maxFilterBytes {
		used.Add(int64(-size))
		f.freeParts(used)
		return
	}
	grown := append(parts[:len(parts):len(parts)], newFilterPart(size))
	f.parts.Store(&grown)
}

// giveUp empties the chain, for good.
func (f *idFilter) giveUp(used *atomic.Int64) {
	f.grow.Lock()
	defer f.grow.Unlock()
	f.freeParts(used)
}

// freeParts empties the chain. The caller holds grow.
func (f *idFilter) freeParts(used *atomic.Int64) {
	for _, p := range *f.parts.Swap(new([]*filterPart)) {
		used.Add(int64(-8 * len(p.words)))
	}
}

// fillFilters adds the ids that Pebble has to the filters of their buckets. Until a bucket's filter
// is whole, Pebble is asked about its ids. It ends early when the store closes.
func (s *store) fillFilters() {
	for _, n := range s.buckets.storedBuckets() {
		err := s.fillFilter(n)
		if errors.Is(err, errClosing) {
			return
		}
		if err != nil {
			slog.Warn("the authorizer looks for repeats in its store: its network ids cannot be read", "err", err)
			return
		}
	}
}

// errClosing ends a scan of a store that closes.
var errClosing = errors.New("the store closes")

// fillFilter reads the ids of a bucket, some at a time, because an iterator keeps the files that it
// reads from being removed.
func (s *store) fillFilter(bucket uint16) error {
	f := s.buckets.filterOf(bucket)
	next := binary.BigEndian.AppendUint16([]byte{prefixRepeat}, bucket)
	upper := binary.BigEndian.AppendUint16([]byte{prefixRepeat}, bucket+1)
	for f != nil && len(*f.parts.Load()) > 0 {
		lower, read := bytes.Clone(next), 0
		err := s.scan(s.db, lower, upper, func(key, _ []byte) (bool, error) {
			if len(key) != repeatKeyBytes {
				return false, ErrCorrupt
			}
			f.addID((*networkID)(key[repeatKeyBytes-len(networkID{}):]), &s.buckets.filterBytes)
			next = append(append(next[:0], key...), 0)
			read++
			return read == filterScanKeys, nil
		})
		if err != nil {
			return err
		}
		if read < filterScanKeys {
			f.whole.Store(true)
			return nil
		}
		select {
		case <-time.After(filterScanPause):
		case <-s.projector.done:
			return errClosing
		}
	}
	return nil
}
