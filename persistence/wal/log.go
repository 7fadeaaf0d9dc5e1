package wal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors of a log. The message names the file, and the offset in it where there is one.
var (
	ErrDamaged  = errors.New("wal: the log is damaged; restore the store or rebuild it")
	ErrForeign  = errors.New("wal: the segment belongs to another store or has another format")
	ErrGap      = errors.New("wal: the log lacks records that the store needs")
	ErrTooLarge = errors.New("wal: the record is too large")
	ErrClosed   = errors.New("wal: the log is closed")
)

// DefaultSegmentBytes is the length of a segment's records, frames and padding when Options has
// none.
const DefaultSegmentBytes = 16 << 20

// minSegmentBytes is room for a frame, a seal and the page that a header of either may skip.
const minSegmentBytes = 2 * pageBytes

// Options describes a log. T is the type of the owners that Durable gets.
type Options[T any] struct {
	FS           vfs.FS   // nil: the machine's
	Dir          string   // also for other files, and made when it is missing
	SegmentBytes int      // logical bytes of a segment, a multiple of 4 KiB; 0: DefaultSegmentBytes
	Store        [16]byte // identity of the store, in the header of each segment
	NoSync       bool     // groups are not synced, and nothing is promised
	// Durable receives the owners of each group's records in order, once the group is durable or
	// has failed. The writer's goroutine calls it, so it must not block on the log. The slice is
	// the log's again when Durable returns. Nil: no calls.
	Durable func(owners []T, err error)
}

// Log is an open log. All its methods are safe for concurrent use.
type Log[T any] struct {
	segments  *segmentFiles
	durableTo func([]T, error)
	noSync    bool
	maxRecord int

	mu       sync.Mutex
	advanced sync.Cond // the durable number, the failure or closed has changed
	queue    queue[T]
	appended uint64
	durable  uint64
	failure  error
	closed   bool
	idle     bool // the writer sleeps until wake

	lastAppended, lastDurable atomic.Uint64 // copies for readers without the lock
	wake                      chan struct{} // room for one
	writer                    *writer[T]
	finished                  chan struct{} // closed when the writer has ended
	closing                   sync.Once
	closeErr                  error
}

// Open opens the log of a directory and passes its records with numbers above from to replay, in
// order. The payload is valid during the call. Without a log, Open makes an empty one if from is 0.
//
// Every record that Open has replayed is durable when it returns. Open fails with ErrDamaged,
// ErrForeign, ErrGap, the error of replay, or the disk's error; some records may be replayed then.
func Open[T any](o Options[T], from uint64, replay func(number uint64, payload []byte) error) (*Log[T], error) {
	o.ensureDefaults()
	if o.SegmentBytes < minSegmentBytes || o.SegmentBytes%pageBytes != 0 {
		return nil, fmt.Errorf("wal: segments of %d bytes: a multiple of %d and at least %d is needed", o.SegmentBytes,
			pageBytes, minSegmentBytes)
	}
	files := newSegmentFiles(o.FS, o.Dir, o.Store, int64(o.SegmentBytes))
	r := recovery{files: files, from: from, replay: replay, noSync: o.NoSync}
	current, err := r.openLog()
	if err != nil {
		return nil, errors.Join(err, files.closeFiles())
	}
	maxGroup := min(maxGroupBytes, o.SegmentBytes-pageBytes)
	l := &Log[T]{
		segments: files, durableTo: o.Durable, noSync: o.NoSync, maxRecord: maxGroup - recordHeader,
		queue: queue[T]{limit: maxGroup}, appended: r.next - 1, durable: r.next - 1,
		wake: make(chan struct{}, 1), finished: make(chan struct{}),
	}
	l.advanced.L = &l.mu
	l.lastAppended.Store(l.appended)
	l.lastDurable.Store(l.durable)
	l.writer = newWriter(l, current, r.next-1)
	files.prepareNext()
	go l.writer.run()
	return l, nil
}

// Create makes an empty log whose records begin behind the number from, in a directory without one.
// It fails with the disk's error.
func Create[T any](o Options[T], from uint64) error {
	o.ensureDefaults()
	r := recovery{files: newSegmentFiles(o.FS, o.Dir, o.Store, int64(o.SegmentBytes)), from: from}
	first, err := r.createLog()
	if err != nil {
		return err
	}
	return errors.Join(first.file.Close(), r.files.closeFiles())
}

func (o *Options[T]) ensureDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
}

// MaxRecord returns the most bytes of a record: MaxRecordBytes, or what fits in a shorter
// segment.
func (l *Log[T]) MaxRecord() int { return l.maxRecord }

// Append copies a record into the log and returns its number. The first record has number 1. The
// record is durable once Durable has reached the number. Append never waits for the disk, and does
// not bound the records that wait for it: the caller does. It fails with ErrTooLarge and ErrClosed,
// and then no number is taken. A log whose disk has failed still accepts records, and reports the
// failure to Durable and Wait.
func (l *Log[T]) Append(payload []byte, owner T) (number uint64, err error) {
	if len(payload) > l.maxRecord {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), l.maxRecord)
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return 0, ErrClosed
	}
	l.appended++
	number = l.appended
	l.lastAppended.Store(number)
	l.queue.addToLast(number, payload, owner)
	wake := l.idle
	l.idle = false
	l.mu.Unlock()
	if wake {
		l.wakeWriter()
	}
	return number, nil
}

// wakeWriter makes the writer look at the queue.
func (l *Log[T]) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Appended returns the number of the last record that was appended, and 0 for an empty log.
func (l *Log[T]) Appended() uint64 { return l.lastAppended.Load() }

// Durable returns the number of the last durable record. With Options.NoSync the record is only
// written.
func (l *Log[T]) Durable() uint64 { return l.lastDurable.Load() }

// Wait returns once a record is durable. It fails with the log's first error, and with ErrClosed
// for a record that is not appended before the log is closed.
func (l *Log[T]) Wait(number uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.durable < number && l.failure == nil && (!l.closed || number <= l.appended) {
		l.advanced.Wait()
	}
	switch {
	case l.durable >= number:
		return nil
	case l.failure != nil:
		return l.failure
	}
	return ErrClosed
}

// Free gives up the records up to a number: no later Open passes a smaller from. It recycles the
// segments without other records, and keeps the segment that is being written. It fails with the
// disk's error, and a later call tries again.
func (l *Log[T]) Free(through uint64) error { return l.segments.freeThrough(through) }

// Close writes and syncs the appended records, ends the writer and closes the files. It returns the
// log's first error. Calls after the first return the same.
func (l *Log[T]) Close() error {
	l.closing.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.advanced.Broadcast()
		l.mu.Unlock()
		l.wakeWriter()
		<-l.finished
		l.closeErr = errors.Join(l.failure, l.writer.segment.file.Close(), l.segments.closeFiles())
	})
	return l.closeErr
}
