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
)

// ErrFull means that the queue, or the share of one address in it, has no place. Nothing was
// hashed.
var ErrFull = errors.New("password queue is full")

// Queue runs one derivation at a time. Addresses take turns, so that the wait of one address does
// not grow with the requests of another beyond one derivation per turn. It is safe for concurrent
// use.
type Queue struct {
	derive Deriver

	mu      sync.Mutex
	waiting map[string][]*queued // by address, oldest first
	turns   []string             // the addresses in waiting, next turn first
	queued  int                  // in waiting, and the one that runs
	running bool
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
	return &Queue{derive: derive, waiting: map[string][]*queued{}}
}

// run waits for the turn of a derivation and returns its key.
func (q *Queue) run(ctx context.Context, address string, d Derivation) ([]byte, error) {
	entry := &queued{input: d, done: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !q.add(address, entry) {
		return nil, ErrFull
	}
	select {
	case <-entry.done:
		return entry.key, entry.err
	case <-ctx.Done():
		q.withdraw(address, entry)
		return nil, ctx.Err()
	}
}

func (q *Queue) add(address string, entry *queued) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued >= MaxQueued || len(q.waiting[address]) >= MaxQueuedPerAddress {
		return false
	}
	if len(q.waiting[address]) == 0 {
		q.turns = append(q.turns, address)
	}
	q.waiting[address] = append(q.waiting[address], entry)
	q.queued++
	if !q.running {
		q.running = true
		go q.drain()
	}
	return true
}

// withdraw gives back the place of an entry that has not begun.
func (q *Queue) withdraw(address string, entry *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if entry.active {
		return
	}
	q.queued--
	left := slices.DeleteFunc(q.waiting[address], func(other *queued) bool { return other == entry })
	if len(left) > 0 {
		q.waiting[address] = left
		return
	}
	delete(q.waiting, address)
	q.turns = slices.DeleteFunc(q.turns, func(other string) bool { return other == address })
}

// drain runs the queued derivations and ends when the queue is empty.
func (q *Queue) drain() {
	for entry := q.next(nil); entry != nil; entry = q.next(entry) {
		entry.key, entry.err = q.derive(entry.input)
		close(entry.done)
	}
}

// next takes the entry whose turn it is, after the one that has run; nil when there is none.
func (q *Queue) next(ran *queued) *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ran != nil {
		q.queued--
	}
	if len(q.turns) == 0 {
		q.running = false
		return nil
	}
	address := q.turns[0]
	q.turns = q.turns[1:]
	entry := q.waiting[address][0]
	if rest := q.waiting[address][1:]; len(rest) > 0 {
		q.waiting[address] = rest
		q.turns = append(q.turns, address)
	} else {
		delete(q.waiting, address)
	}
	entry.active = true
	return entry
}

func (q *Queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued
}
