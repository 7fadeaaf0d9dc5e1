package wal

import (
	"errors"
	"log/slog"
	"runtime"
	"time"
)

// noteAfter is how long a log is idle before its synced length is noted in the header, and the time
// between the notes of a busy one. A note of a busy log is a write that the next group's sync makes
// durable with the group; that of an idle log has a sync of its own.
const noteAfter = 10 * time.Millisecond

// writer is the goroutine that writes the groups.
type writer[T any] struct {
	log     *Log[T]
	segment *segment
	synced  uint64 // every record up to this one is synced
	note    *time.Timer
	noted   time.Time // when the busy log wrote its last note
	failing bool      // the last note of the idle log failed
}

func newWriter[T any](l *Log[T], current *segment, synced uint64) *writer[T] {
	return &writer[T]{log: l, segment: current, synced: synced, note: time.NewTimer(noteAfter), noted: time.Now()}
}

// run writes groups until the log is closed and the queue is empty.
func (w *writer[T]) run() {
	defer close(w.log.finished)
	defer w.note.Stop()
	var err error
	for g := w.nextGroup(); g != nil; g = w.nextGroup() {
		if err == nil {
			err = w.writeGroup(g)
		}
		w.publishOutcome(g, err)
	}
	if err == nil {
		w.noteEnd()
	}
}

// nextGroup returns the oldest group. It sleeps while there is none, and notes the synced length
// once the log has been idle for noteAfter. It returns nil when the log is closed and all groups
// are taken.
func (w *writer[T]) nextGroup() *group[T] {
	l := w.log
	w.note.Reset(noteAfter)
	runtime.Gosched() // the owners of the last group, which are awake now, append first
	for {
		l.mu.Lock()
		g := l.queue.takeOldest()
		done := g == nil && l.closed
		l.idle = g == nil && !done
		l.mu.Unlock()
		if g != nil || done {
			return g
		}
		select {
		case <-l.wake:
		case <-w.note.C:
			if l.stopIdling() {
				w.noteEnd()
			}
		}
	}
}

// stopIdling reports whether the log is still idle. Appends no longer wake the writer then.
func (l *Log[T]) stopIdling() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.idle && l.failure == nil
	l.idle = false
	return was
}

// writeGroup makes a group durable. It fails with the disk's error.
func (w *writer[T]) writeGroup(g *group[T]) error {
	f := frame{payload: g.payload()}
	if !w.segment.fits(f.bytes()) {
		if err := w.startSegment(g.first); err != nil {
			return err
		}
	}
	s := w.segment
	if now := time.Now(); !w.log.noSync && s.noted != s.end && now.Sub(w.noted) >= noteAfter {
		if err := s.writeNote(); err != nil {
			return err
		}
		w.noted = now
	}
	if err := s.writeFrame(g.finishFrame(s.key, frameStart(s.end), s.segment, w.synced)); err != nil {
		return err
	}
	if w.log.noSync {
		return nil
	}
	if err := s.syncData(); err != nil {
		return err
	}
	w.synced = g.last()
	return nil
}

// startSegment makes the next segment the current one, for records from first on. The old segment
// is sealed and synced before a frame of the next one is written, so a valid frame of a segment
// proves that the segments before it are whole. Without Options.NoSync they are synced already.
func (w *writer[T]) startSegment(first uint64) error {
	next, err := w.log.segments.takeNext()
	if err != nil {
		return err
	}
	old := w.segment
	if err := w.changeSegments(old, next, first); err != nil {
		return errors.Join(err, next.file.Close())
	}
	next.buffer, next.tail = old.buffer, old.tail[:0]
	w.segment, w.synced = next, first-1
	w.log.segments.holdSegment(next.segment, first)
	w.log.segments.prepareNext()
	return old.file.Close()
}

func (w *writer[T]) changeSegments(old, next *segment, first uint64) error {
	if w.log.noSync {
		if err := old.syncData(); err != nil {
			return err
		}
	}
	if err := next.beginSegment(first); err != nil {
		return err
	}
	return old.sealSegment(next.segment, first)
}

// publishOutcome reports a group's outcome to those who wait, then to its owners.
func (w *writer[T]) publishOutcome(g *group[T], err error) {
	l := w.log
	l.mu.Lock()
	if err == nil {
		l.durable = g.last()
		l.lastDurable.Store(l.durable)
	} else {
		l.failure = err
	}
	l.advanced.Broadcast()
	l.mu.Unlock()
	if l.durableTo != nil {
		l.durableTo(g.owners, err)
	}
	l.mu.Lock()
	l.queue.giveBack(g)
	l.mu.Unlock()
}

// noteEnd notes the synced length in the header, if it is not noted yet. A failure is logged: the
// records are durable without a note.
func (w *writer[T]) noteEnd() {
	if s := w.segment; w.log.noSync || s.noted == s.end {
		return
	}
	err := w.segment.writeNote()
	if err == nil {
		err = w.segment.syncData()
	}
	if err != nil && !w.failing {
		slog.Warn("the synced length of the log is not noted", "err", err)
	}
	w.failing = err != nil
}
