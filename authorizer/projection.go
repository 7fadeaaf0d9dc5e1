package authorizer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/authorizer/hold"
	"purser/authorizer/memtable"
	"purser/persistence/ident"
)

// Limits of the changes that are in memory and in the log, and not yet in Pebble.
const (
	// projectBytes is the size of a projection. A start replays as much at least.
	projectBytes = 16 << 20
	// maxUnprojected bounds the memory; a message waits while it is reached.
	maxUnprojected = 4 * projectBytes
	// projectAgain is the pause after a projection that failed.
	projectAgain = time.Second
)

// projector writes the durable changes into Pebble, each time as sorted tables that Pebble takes
// over whole, with the number of the log that they reach.
type projector struct {
	store   *store
	running sync.Mutex
	frozen  *memtable.Frozen // the generation whose projection failed, or nil
	through uint64           // the last record in it
	pairs   []memtable.Pair
	heads   chunkHeads // the last projection's
	hurried bool       // before the engine serves: tables are written without pauses

	asked   atomic.Bool
	wake    chan struct{} // room for one
	closing chan struct{} // closed when the engine begins to close
	done    chan struct{}
	loop    sync.WaitGroup

	mu       sync.Mutex
	dropped  chan struct{} // closed when memory is free again
	due      atomic.Int64  // the earliest expiry that was set since the last freeze
	reserved atomic.Bool   // a reservation was set or deleted since the last freeze
}

func newProjector(s *store) *projector {
	p := &projector{store: s, wake: make(chan struct{}, 1), closing: make(chan struct{}),
		done: make(chan struct{}), dropped: make(chan struct{})}
	p.due.Store(math.MaxInt64)
	return p
}

// noteDue notes the expiry of an authorization whose place in the due index is set.
func (p *projector) noteDue(at int64) {
	for {
		earliest := p.due.Load()
		if at >= earliest || p.due.CompareAndSwap(earliest, at) {
			return
		}
	}
}

// projectDue writes the changes into Pebble when an authorization among them is due.
func (p *projector) projectDue(now int64) error {
	if p.due.Load() > now {
		return nil
	}
	return p.projectAll()
}

// projectReserved writes the changes into Pebble when a reservation is among them. It waits for a
// projection under way.
func (p *projector) projectReserved() error {
	p.running.Lock()
	reserved := p.reserved.Load()
	p.running.Unlock()
	if !reserved {
		return nil
	}
	return p.projectAll()
}

// askProjection has the changes projected when there are enough.
func (p *projector) askProjection() {
	if p.store.table.ActiveBytes() >= projectBytes && !p.asked.Swap(true) {
		p.wakeLoop()
	}
}

func (p *projector) wakeLoop() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// projectLoop projects whenever there are enough changes, until the store closes.
func (p *projector) projectLoop() {
	for {
		select {
		case <-p.wake:
		case <-p.done:
			return
		}
		p.asked.Store(false)
		err := p.projectAll()
		if err == nil {
			continue
		}
		slog.Error("the authorizer's changes stay in memory and in the log: its store does not take them", "err", err)
		select {
		case <-time.After(projectAgain):
			p.wakeLoop()
		case <-p.done:
			return
		}
	}
}

// lacksRoom reports that the changes in memory are too many.
func (p *projector) lacksRoom() bool { return p.store.table.Bytes() >= maxUnprojected }

// awaitRoom waits while the changes in memory are too many. It is false when stopped is closed, or
// when the engine closes.
func (p *projector) awaitRoom(stopped <-chan struct{}) bool {
	for p.lacksRoom() {
		p.mu.Lock()
		dropped := p.dropped
		p.mu.Unlock()
		if !p.lacksRoom() {
			return true
		}
		select {
		case <-dropped:
		case <-stopped:
			return false
		case <-p.closing:
			return false
		}
	}
	return true
}

// projectAll writes all changes that are visible now into Pebble, durably before it returns. It
// fails with the error of the log or of Pebble; the changes then stay where they are.
func (p *projector) projectAll() error {
	p.running.Lock()
	defer p.running.Unlock()
	if p.frozen != nil {
		if err := p.projectFrozen(); err != nil {
			return err
		}
	}
	p.frozen = p.store.table.Freeze(func() {
		p.through = p.store.log.Appended()
		p.due.Store(math.MaxInt64)
		p.reserved.Store(false)
	})
	if p.frozen == nil {
		return nil
	}
	err := p.projectFrozen()
	if err != nil {
		p.due.Store(math.MinInt64)
		p.reserved.Store(true)
	}
	return err
}

// projectFrozen writes the frozen changes into Pebble, and frees their records of the log.
func (p *projector) projectFrozen() error {
	if err := p.store.log.Wait(p.through); err != nil {
		return err
	}
	p.pairs = p.frozen.Sorted(p.pairs[:0])
	w, heads := projection{store: p.store, hurried: p.hurried}, p.heads
	heads.newest = 0
	w.writeChunk(p.frozen, p.through, &heads)
	w.writePairs(p.pairs)
	w.setKey(keyProjected(), binary.BigEndian.AppendUint64(nil, p.through))
	if heads.last != p.heads.last {
		w.setKey(appendChunkKey(nil, p.through), heads.appendHeads(nil))
	}
	w.endTable()
	if w.err == nil {
		w.err = p.store.db.Ingest(context.Background(), w.paths)
	}
	if w.err != nil {
		return fmt.Errorf("authorizer: projection: %w", w.err)
	}
	clear(p.pairs)
	p.frozen.Drop()
	p.frozen, p.heads.last = nil, heads.last
	p.mu.Lock()
	close(p.dropped)
	p.dropped = make(chan struct{})
	p.mu.Unlock()
	return p.store.log.Free(p.through)
}

// projection writes the tables of one projection: the decision log, the authorizations and the
// rest. The keys of the first two grow with time, so their tables rarely overlap older ones. Its
// first error stays, and nothing is written after it.
type projection struct {
	store   *store
	hurried bool
	paths   []string
	table   *sstable.Writer
	err     error
}

// Names of a projection's files until Pebble has taken them over.
const (
	logProjection  = "projection-log.sst"
	holdProjection = "projection-holds.sst"
	restProjection = "projection-rest.sst"
)

// projectionCategory makes a projection pause like Pebble's own flushes. A hurried one does not.
const projectionCategory = vfs.DiskWriteCategory("pebble-memtable-flush")

// beginTable ends the table before and begins one.
func (w *projection) beginTable(name string) {
	if w.endTable(); w.err != nil {
		return
	}
	o := w.store.options
	path := o.FS.PathJoin(w.store.dir, name)
	category := projectionCategory
	if w.hurried {
		category = vfs.WriteCategoryUnspecified
	}
	f, err := o.FS.Create(path, category)
	if w.err = err; err != nil {
		return
	}
	w.paths = append(w.paths, path)
	w.table = sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{
		TableFormat: w.store.db.TableFormat(), FilterPolicy: bloom.FilterPolicy(bloomBitsPerKey)})
}

func (w *projection) endTable() {
	if w.table != nil {
		w.err = errors.Join(w.err, w.table.Close())
	}
	w.table = nil
}

func (w *projection) setKey(key, value []byte) {
	if w.err == nil {
		w.err = w.table.Set(key, value)
	}
}

// writeChunk writes the frozen entries of the decision log, and moves the heads behind them.
func (w *projection) writeChunk(frozen *memtable.Frozen, number uint64, heads *chunkHeads) {
	var key, last []byte
	var n hold.Entry
	for i := range ident.Shards {
		shard, before := ident.Shard(i), heads.last[i]
		frozen.VisitEntries(shard, func(seq uint64, value []byte) bool {
			if w.table == nil {
				w.beginTable(logProjection)
			}
			key = appendLogKey(key[:0], number, shard, seq)
			w.setKey(key, value)
			heads.last[i], last = seq, append(last[:0], value...)
			return w.err == nil
		})
		if heads.last[i] == before || w.err != nil {
			continue
		}
		if w.err = hold.DecodeEntry(last, &n); w.err == nil {
			heads.newest = max(heads.newest, n.At)
		}
	}
}

// writePairs writes the frozen keys, which are in order, and leaves the last table open.
func (w *projection) writePairs(pairs []memtable.Pair) {
	holds := 0
	for holds < len(pairs) && pairs[holds].Key[0] <= prefixHold {
		holds++
	}
	for _, group := range []struct {
		name  string
		pairs []memtable.Pair
	}{{holdProjection, pairs[:holds]}, {restProjection, pairs[holds:]}} {
		if len(group.pairs) > 0 || group.name == restProjection {
			w.beginTable(group.name)
		}
		for i := range group.pairs {
			w.writePair(&group.pairs[i])
		}
	}
}

func (w *projection) writePair(p *memtable.Pair) {
	if !p.Deleted {
		w.setKey(p.Key, p.Value)
	} else if w.err == nil {
		w.err = w.table.Delete(p.Key)
	}
}

// projectedNumber returns the number of the last record that Pebble has, 0 for a new store.
func (s *store) projectedNumber() (number uint64, err error) {
	_, err = s.getStored(s.db, keyProjected(), decodeUint64(&number))
	return number, err
}
