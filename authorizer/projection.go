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

// projectionName is the file of a projection until Pebble has taken it over.
const projectionName = "projection.sst"

// projector writes the durable changes into Pebble, each time as one sorted table that Pebble takes
// over whole, with the number of the log that it reaches.
type projector struct {
	running sync.Mutex
	frozen  *memtable.Frozen // the generation whose projection failed, or nil
	through uint64           // the last record in it
	pairs   []memtable.Pair

	asked atomic.Bool
	wake  chan struct{} // room for one
	done  chan struct{}
	loop  sync.WaitGroup

	mu       sync.Mutex
	dropped  chan struct{} // closed when memory is free again
	due      atomic.Int64  // the earliest expiry that was set since the last freeze
	reserved atomic.Bool   // a reservation was set or deleted since the last freeze
}

func newProjector() *projector {
	p := &projector{wake: make(chan struct{}, 1), done: make(chan struct{}), dropped: make(chan struct{})}
	p.due.Store(math.MaxInt64)
	return p
}

// noteDue notes the expiry of an authorization whose place in the due index is set.
func (s *store) noteDue(at int64) {
	for {
		earliest := s.projector.due.Load()
		if at >= earliest || s.projector.due.CompareAndSwap(earliest, at) {
			return
		}
	}
}

// projectDue writes the changes into Pebble when an authorization among them is due.
func (s *store) projectDue(now int64) error {
	if s.projector.due.Load() > now {
		return nil
	}
	return s.projectAll()
}

// projectReserved writes the changes into Pebble when a reservation is among them. It waits for a
// projection under way.
func (s *store) projectReserved() error {
	s.projector.running.Lock()
	reserved := s.projector.reserved.Load()
	s.projector.running.Unlock()
	if !reserved {
		return nil
	}
	return s.projectAll()
}

// askProjection has the changes projected when there are enough.
func (s *store) askProjection() {
	if s.table.ActiveBytes() < projectBytes || s.projector.asked.Swap(true) {
		return
	}
	select {
	case s.projector.wake <- struct{}{}:
	default:
	}
}

// projectLoop projects whenever there are enough changes, until the store closes.
func (s *store) projectLoop() {
	p := s.projector
	for {
		select {
		case <-p.wake:
		case <-p.done:
			return
		}
		p.asked.Store(false)
		err := s.projectAll()
		if err == nil {
			continue
		}
		slog.Error("the authorizer's changes stay in memory and in the log: its store does not take them", "err", err)
		select {
		case <-time.After(projectAgain):
			s.askProjection()
		case <-p.done:
			return
		}
	}
}

// lacksRoom reports that the changes in memory are too many.
func (s *store) lacksRoom() bool { return s.table.Bytes() >= maxUnprojected }

// awaitRoom waits while the changes in memory are too many. It ends when stopped is closed.
func (s *store) awaitRoom(stopped <-chan struct{}) {
	for s.lacksRoom() {
		s.projector.mu.Lock()
		dropped := s.projector.dropped
		s.projector.mu.Unlock()
		if !s.lacksRoom() {
			return
		}
		select {
		case <-dropped:
		case <-stopped:
			return
		}
	}
}

// projectAll writes all changes that are visible now into Pebble, durably before it returns. It fails
// with the error of the log or of Pebble; the changes then stay where they are.
func (s *store) projectAll() error {
	p := s.projector
	p.running.Lock()
	defer p.running.Unlock()
	if p.frozen != nil {
		if err := s.projectFrozen(); err != nil {
			return err
		}
	}
	p.frozen = s.table.Freeze(func() {
		p.through = s.log.Appended()
		p.due.Store(math.MaxInt64)
		p.reserved.Store(false)
	})
	if p.frozen == nil {
		return nil
	}
	err := s.projectFrozen()
	if err != nil {
		p.due.Store(math.MinInt64)
		p.reserved.Store(true)
	}
	return err
}

// projectFrozen writes the frozen changes into Pebble, and frees their records of the log.
func (s *store) projectFrozen() error {
	p := s.projector
	if err := s.log.Wait(p.through); err != nil {
		return err
	}
	p.pairs = p.frozen.Sorted(p.pairs[:0])
	path := s.options.FS.PathJoin(s.dir, projectionName)
	if err := s.writeProjection(path); err != nil {
		return fmt.Errorf("authorizer: projection: %w", err)
	}
	if err := s.db.Ingest(context.Background(), []string{path}); err != nil {
		return fmt.Errorf("authorizer: projection: %w", err)
	}
	clear(p.pairs)
	p.frozen.Drop()
	p.frozen = nil
	p.mu.Lock()
	close(p.dropped)
	p.dropped = make(chan struct{})
	p.mu.Unlock()
	return s.log.Free(p.through)
}

// writeProjection writes the frozen changes as a table, in the order of their keys.
func (s *store) writeProjection(path string) error {
	f, err := s.options.FS.Create(path, projectionCategory)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{
		TableFormat: s.db.TableFormat(), FilterPolicy: bloom.FilterPolicy(bloomBitsPerKey)})
	logs := false
	for i := range s.projector.pairs {
		pair := &s.projector.pairs[i]
		if !logs && pair.Key[0] > prefixLog {
			logs = true
			err = s.writeEntries(w)
		}
		switch {
		case err != nil:
		case pair.Deleted:
			err = w.Delete(pair.Key)
		default:
			err = w.Set(pair.Key, pair.Value)
		}
		if err != nil {
			return errors.Join(err, w.Close())
		}
	}
	if !logs {
		err = s.writeEntries(w)
	}
	if err == nil {
		err = w.Set(keyProjected(), binary.BigEndian.AppendUint64(nil, s.projector.through))
	}
	return errors.Join(err, w.Close())
}

// writeEntries writes the frozen entries of the decision log.
func (s *store) writeEntries(w *sstable.Writer) (err error) {
	var key []byte
	for shard := range ident.Shards {
		s.projector.frozen.VisitEntries(ident.Shard(shard), func(seq uint64, value []byte) bool {
			key = appendLogKey(key[:0], ident.Shard(shard), seq)
			err = w.Set(key, value)
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// projectionCategory makes a projection pause like Pebble's own flushes.
const projectionCategory = vfs.DiskWriteCategory("pebble-memtable-flush")

// projectedNumber returns the number of the last record that Pebble has, 0 for a new store.
func (s *store) projectedNumber() (number uint64, err error) {
	_, err = s.getStored(s.db, keyProjected(), decodeUint64(&number))
	return number, err
}
