package authorizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Retention of network ids. A new message is looked for in every bucket that holds anything, one
// look-up in the store for each: of ten days that is at most four, where buckets of a day would be
// 31.
const (
	RepeatDays       = 30
	repeatBucketDays = 10 // a bucket of ids is dropped whole, once its last day is RepeatDays ago
	dayMillis        = int64(24 * time.Hour / time.Millisecond)
	claimStripes     = 256
)

// networkID is a route and the hash of a network's message id: repeats are per route.
type networkID [17]byte

// Routes of the network interface, as the first byte of a networkID.
const (
	routeAuthorizations = 1 + iota
	routeReversals
	routeClearings
	routeRefunds
)

func routeOf(k hold.Kind) byte {
	switch k {
	case hold.Authorization, hold.Incremental, hold.TimeoutReturn:
		return routeAuthorizations
	case hold.Reversal:
		return routeReversals
	case hold.Clearing:
		return routeClearings
	case hold.Refund:
		return routeRefunds
	}
	panic("BUG: no route for this kind of message")
}

func networkIDOf(route byte, id string) networkID {
	var text [1 + hold.MaxNetworkID*4]byte // characters, so four bytes each at most
	text[0] = route
	sum := sha256.Sum256(text[:1+copy(text[1:], id)])
	var n networkID
	n[0] = route
	copy(n[1:], sum[:])
	return n
}

// remembered is a message's record for its repeats: the answer, and the position of its entry in
// the log. A tombstone stands for an authorization that was reversed before it came.
type remembered struct {
	tombstone     bool
	fingerprint   [16]byte
	shard         ident.Shard
	seq           uint64
	authorization ident.UUID
	decision      hold.Decision
	reason        hold.Reason
	approved      money.Cents
	held          money.Cents
}

const rememberedBytes = 1 + 16 + 1 + 8 + 16 + 1 + 1 + 8 + 8

func appendRemembered(dst []byte, e *hold.Entry, tombstone bool) []byte {
	var flag byte
	if tombstone {
		flag = 1
	}
	dst = append(append(dst, flag), e.Fingerprint[:]...)
	dst = binary.BigEndian.AppendUint64(append(dst, byte(e.Shard)), e.Seq)
	dst = append(dst, e.After.ID[:]...)
	decision, reason, approved := e.Decision, e.Reason, e.Approved
	if e.Kind == hold.TimeoutReturn {
		decision, reason, approved = hold.Declined, hold.ReasonTimeout, 0
	}
	dst = binary.BigEndian.AppendUint64(append(dst, byte(decision), byte(reason)), uint64(approved))
	return binary.BigEndian.AppendUint64(dst, uint64(e.After.Held))
}

func decodeRemembered(b []byte) (remembered, error) {
	if len(b) != rememberedBytes {
		return remembered{}, ErrCorrupt
	}
	return remembered{
		tombstone:     b[0] == 1,
		fingerprint:   [16]byte(b[1:17]),
		shard:         ident.Shard(b[17]),
		seq:           binary.BigEndian.Uint64(b[18:]),
		authorization: ident.UUID(b[26:42]),
		decision:      hold.Decision(b[42]),
		reason:        hold.Reason(b[43]),
		approved:      money.Cents(binary.BigEndian.Uint64(b[44:])),
		held:          money.Cents(binary.BigEndian.Uint64(b[52:])),
	}, nil
}

func bucketOf(unixMilli int64) uint16 { return uint16(unixMilli / dayMillis / repeatBucketDays) }

// oldestBucket is the first bucket that may hold an id of the last RepeatDays.
func oldestBucket(now int64) uint16 { return bucketOf(now - RepeatDays*dayMillis) }

// recall looks for a message in the live buckets, the newest first. Pebble's Bloom filters answer
// for the tables; buckets known to be empty are skipped.
func (e *Engine) recall(t *ticket, id *networkID, now int64) (r remembered, found bool, err error) {
	p, err := e.store.probe()
	if err != nil {
		return r, false, err
	}
	oldest := oldestBucket(now)
	newest := max(bucketOf(now), e.buckets.latest()) // a clock that went back hides nothing
	for b := newest; b >= oldest && !found && err == nil; b-- {
		if !e.buckets.used(b) {
			continue
		}
		var v []byte
		t.key = appendRepeatKey(t.key[:0], b, id)
		if v, err = p.get(t.key); v != nil && err == nil {
			found = true
			r, err = decodeRemembered(v)
		}
	}
	return r, found, errors.Join(err, p.close())
}

// buckets knows which of the live buckets hold anything, so that a young store does not search the
// past.
type buckets struct {
	mu     sync.RWMutex
	known  map[uint16]bool
	newest uint16
}

func (b *buckets) latest() uint16 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.newest
}

func (b *buckets) used(n uint16) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.known[n]
}

func (b *buckets) mark(n uint16) {
	if b.used(n) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[n] = true
	b.newest = max(b.newest, n)
}

func (b *buckets) drop(before uint16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n := range b.known {
		if n < before {
			delete(b.known, n)
		}
	}
}

// findBuckets asks the store once for each bucket that exists: a seek per bucket, for any
// content.
func (s *store) findBuckets() (*buckets, error) {
	b := &buckets{known: make(map[uint16]bool)}
	upper := []byte{prefixRepeat + 1}
	for {
		p, err := s.last([]byte{prefixRepeat}, upper)
		if err != nil || p == nil {
			return b, err
		}
		n := binary.BigEndian.Uint16(p.key[1:])
		b.mark(n)
		upper = binary.BigEndian.AppendUint16([]byte{prefixRepeat}, n)
	}
}

// claims serialize the messages of one network id: the second message waits until the first is
// durable and then finds its answer in the store. There are at most two per admitted ticket.
type claims struct{ stripes [claimStripes]stripe }

type stripe struct {
	mu   sync.Mutex
	held map[networkID]*claim
}

type claim struct {
	id      networkID
	owner   *ticket
	waiters []chan struct{}
}

func newClaims() *claims {
	c := &claims{}
	for i := range c.stripes {
		c.stripes[i].held = make(map[networkID]*claim)
	}
	return c
}

// take claims the ids in one order for all, so that no two tickets wait for each other. It is false
// when the deadline comes first, or when it shall not wait and would; it has then taken nothing.
func (c *claims) take(t *ticket, wait bool, ids ...networkID) bool {
	if len(ids) == 2 && bytes.Compare(ids[0][:], ids[1][:]) > 0 {
		ids[0], ids[1] = ids[1], ids[0]
	}
	for i := range ids {
		if i == 1 && ids[1] == ids[0] {
			break
		}
		t.claims[i].id = ids[i]
		if !c.acquire(&t.claims[i], wait) {
			c.release(t)
			return false
		}
		t.claimed++
	}
	return true
}

func (c *claims) acquire(own *claim, wait bool) bool {
	s := &c.stripes[own.id[1]]
	for {
		s.mu.Lock()
		first := s.held[own.id]
		if first == nil {
			s.held[own.id] = own
			s.mu.Unlock()
			return true
		}
		if !wait {
			s.mu.Unlock()
			return false
		}
		freed := make(chan struct{})
		first.waiters = append(first.waiters, freed)
		s.mu.Unlock()
		select {
		case <-freed:
		case <-own.owner.deadline:
			if s.doom(own.id) {
				return false
			}
			own.owner.deadline = passed
		}
	}
}

// doom makes the holder of a claim answer timeout, as the waiter is about to. It is false when the
// holder is already durable: its claim is then free in a moment.
func (s *stripe) doom(id networkID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.held[id]
	if first == nil {
		return false
	}
	return first.owner.state.CompareAndSwap(pending, doomed) || first.owner.state.Load() != synced
}

func (c *claims) release(t *ticket) {
	for i := range t.claims[:t.claimed] {
		own := &t.claims[i]
		s := &c.stripes[own.id[1]]
		s.mu.Lock()
		delete(s.held, own.id)
		for _, w := range own.waiters {
			close(w)
		}
		clear(own.waiters)
		own.waiters = own.waiters[:0]
		s.mu.Unlock()
	}
	t.claimed = 0
}

// passed is a deadline in the past.
var passed = func() <-chan time.Time { c := make(chan time.Time); close(c); return c }()
