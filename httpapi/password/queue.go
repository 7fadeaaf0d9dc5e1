package password

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Limits of the queue.
const (
	MaxQueued           = 64 // hashes that are queued or run
	MaxQueuedPerAddress = 4
	placesForKnown      = 16 // places that strangers leave free
)

// Caller is the origin of a password. Known callers are those that have authenticated before: a
// session that changes its password, and a sign-in from a place that the account knows. Strangers
// at many addresses can neither take the places of known callers nor more than every second turn.
type Caller struct {
	Address string
	Known   bool
}

// ErrFull means that the queue, or the share of one address in it, has no place. Nothing was
// hashed.
var ErrFull = errors.New("password queue is full")

// Queue runs one derivation at a time. Known callers and strangers take turns, and so do the
// addresses of either: the wait of one address does not grow with the requests of another beyond
// one derivation per turn. It is safe for concurrent use.
type Queue struct {
	derive Deriver

	mu        sync.Mutex
	known     line
	strangers line
	queued    int // entries of both lines, and the running one
	running   bool
	// strangersNext gives the next turn to strangers, when one of them waits.
	strangersNext bool
}

// line holds the waiting derivations of known callers or of strangers.
type line struct {
	waiting map[string][]*queued // by address, oldest first
	turns   []string             // the addresses in waiting, next turn first
	count   int
}

func (q *Queue) lineOf(c Caller) *line {
	if c.Known {
		return &q.known
	}
	return &q.strangers
}

// queued is one derivation.
type queued struct {
	input  Derivation
	done   chan struct{} // closed when key or err is set
	key    []byte
	err    error
	active bool // runs or has run; guarded by the queue's mutex
}

func newQueue(derive Deriver) *Queue {
	return &Queue{derive: derive, known: line{waiting: map[string][]*queued{}},
		strangers: line{waiting: map[string][]*queued{}}}
}

// runQueued waits for the turn of a derivation and returns its key. It fails with ErrFull when no
// place is free, with the context's error, and with the deriver's.
func (q *Queue) runQueued(ctx context.Context, c Caller, d Derivation) ([]byte, error) {
	entry := &queued{input: d, done: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !q.addEntry(c, entry) {
		return nil, ErrFull
	}
	select {
	case <-entry.done:
		return entry.key, entry.err
	case <-ctx.Done():
		q.withdrawEntry(c, entry)
		return nil, ctx.Err()
	}
}

// addEntry adds an entry to its line, and starts the queue if it is idle. It returns false when the
// queue, or the places of the caller's address, are full.
func (q *Queue) addEntry(c Caller, entry *queued) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lineOf(c)
	full := q.queued >= MaxQueued || !c.Known && l.count >= MaxQueued-placesForKnown
	if full || len(l.waiting[c.Address]) >= MaxQueuedPerAddress {
		return false
	}
	if len(l.waiting[c.Address]) == 0 {
		l.turns = append(l.turns, c.Address)
	}
	l.waiting[c.Address] = append(l.waiting[c.Address], entry)
	l.count++
	q.queued++
	if !q.running {
		q.running = true
		go q.drainQueue()
	}
	return true
}

// withdrawEntry frees the place of an entry that has not begun.
func (q *Queue) withdrawEntry(c Caller, entry *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if entry.active {
		return
	}
	q.queued--
	l := q.lineOf(c)
	l.count--
	left := slices.DeleteFunc(l.waiting[c.Address], func(other *queued) bool { return other == entry })
	if len(left) > 0 {
		l.waiting[c.Address] = left
		return
	}
	delete(l.waiting, c.Address)
	l.turns = slices.DeleteFunc(l.turns, func(other string) bool { return other == c.Address })
}

// drainQueue runs the queued derivations and ends when the queue is empty.
func (q *Queue) drainQueue() {
	for entry := q.nextEntry(nil); entry != nil; entry = q.nextEntry(entry) {
		entry.key, entry.err = q.derive(entry.input)
		close(entry.done)
	}
}

// nextEntry counts ran, unless nil, as done. It then removes and returns the entry whose turn is
// next, nil when the queue is empty.
func (q *Queue) nextEntry(ran *queued) *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ran != nil {
		q.queued--
	}
	l := &q.known
	if q.strangersNext && q.strangers.count > 0 || l.count == 0 {
		l = &q.strangers
	}
	if l.count == 0 {
		q.running = false
		return nil
	}
	q.strangersNext = l == &q.known
	entry := l.nextQueued()
	entry.active = true
	return entry
}

// nextQueued removes and returns the entry with the next turn. The line must not be empty.
func (l *line) nextQueued() *queued {
	address := l.turns[0]
	l.turns = l.turns[1:]
	entry := l.waiting[address][0]
	if rest := l.waiting[address][1:]; len(rest) > 0 {
		l.waiting[address] = rest
		l.turns = append(l.turns, address)
	} else {
		delete(l.waiting, address)
	}
	l.count--
	return entry
}

func (q *Queue) queuedCount() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued
}
