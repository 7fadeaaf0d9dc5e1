package authorizer

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"purser/authorizer/hold"
	"purser/authorizer/memtable"
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

// remembered is a message's record for its repeats and for the messages that name it: the answer,
// and the position of its entry in the log. A tombstone stands for a message that was reversed
// before it came.
type remembered struct {
	tombstone     bool
	increment     bool
	fingerprint   [16]byte
	shard         ident.Shard
	seq           uint64
	authorization ident.UUID
	decision      hold.Decision
	reason        hold.Reason
	approved      money.Cents
	held          money.Cents
	left          money.Cents // the approved amount that no reversal of an increment has undone
}

// Flags of a record's first byte.
const (
	flagTombstone = 1 << iota
	flagIncrement
)

const rememberedBytes = 1 + 16 + 1 + 8 + 16 + 1 + 1 + 8 + 8 + 8

// rememberedOf returns the record of an entry's message. An authorization bears the id of its first
// message; any other message of its route is an increment.
func rememberedOf(e *hold.Entry) remembered {
	r := remembered{increment: e.After.NetworkID != e.NetworkID, fingerprint: e.Fingerprint, shard: e.Shard,
		seq: e.Seq, authorization: e.After.ID, decision: e.Decision, reason: e.Reason, approved: e.Approved,
		held: e.After.Held, left: e.Approved}
	if e.Kind == hold.TimeoutReturn {
		r.decision = hold.Declined
	}
	return r
}

func appendRemembered(dst []byte, r *remembered) []byte {
	var flags byte
	if r.tombstone {
		flags |= flagTombstone
	}
	if r.increment {
		flags |= flagIncrement
	}
	dst = append(append(dst, flags), r.fingerprint[:]...)
	dst = binary.BigEndian.AppendUint64(append(dst, byte(r.shard)), r.seq)
	dst = append(dst, r.authorization[:]...)
	dst = binary.BigEndian.AppendUint64(append(dst, byte(r.decision), byte(r.reason)), uint64(r.approved))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.held))
	return binary.BigEndian.AppendUint64(dst, uint64(r.left))
}

func decodeRemembered(b []byte) (remembered, error) {
	if len(b) != rememberedBytes {
		return remembered{}, ErrCorrupt
	}
	return remembered{
		tombstone:     b[0]&flagTombstone != 0,
		increment:     b[0]&flagIncrement != 0,
		fingerprint:   [16]byte(b[1:17]),
		shard:         ident.Shard(b[17]),
		seq:           binary.BigEndian.Uint64(b[18:]),
		authorization: ident.UUID(b[26:42]),
		decision:      hold.Decision(b[42]),
		reason:        hold.Reason(b[43]),
		approved:      money.Cents(binary.BigEndian.Uint64(b[44:])),
		held:          money.Cents(binary.BigEndian.Uint64(b[52:])),
		left:          money.Cents(binary.BigEndian.Uint64(b[60:])),
	}, nil
}

func bucketOf(unixMilli int64) uint16 { return uint16(unixMilli / dayMillis / repeatBucketDays) }

// oldestBucket is the first bucket that may hold an id of the last RepeatDays.
func oldestBucket(now int64) uint16 { return bucketOf(now - RepeatDays*dayMillis) }

// buckets knows which of the live buckets hold anything, so that a young store does not search the
// past, and has a filter of the ids of each.
type buckets struct {
	mu          sync.RWMutex
	filters     map[uint16]*idFilter // only buckets that hold anything have one
	newest      uint16
	filterBytes atomic.Int64 // all filters together
}

func (b *buckets) latest() uint16 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.newest
}

// filterOf returns the filter of a bucket, nil for one that holds nothing.
func (b *buckets) filterOf(n uint16) *idFilter {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.filters[n]
}

// ensureFilter returns the filter of a bucket, a new one when it held nothing.
func (b *buckets) ensureFilter(n uint16, stored bool) *idFilter {
	if f := b.filterOf(n); f != nil {
		return f
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.filters[n]; f != nil {
		return f
	}
	f := newIDFilter(stored, &b.filterBytes)
	b.filters[n] = f
	b.newest = max(b.newest, n)
	return f
}

// storedBuckets returns the buckets whose filters lack stored ids.
func (b *buckets) storedBuckets() (numbers []uint16) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for n, f := range b.filters {
		if !f.whole.Load() {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func (b *buckets) drop(before uint16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, f := range b.filters {
		if n < before {
			delete(b.filters, n)
			f.giveUp(&b.filterBytes)
		}
	}
}

// mayHold reports whether a bucket may have an id.
func (b *buckets) mayHold(n uint16, id *networkID) bool {
	f := b.filterOf(n)
	return f != nil && f.mayHave(id)
}

// liveBuckets returns the buckets in which an id is looked for. A clock that went back hides nothing.
func (b *buckets) liveBuckets(now int64) (oldest, newest uint16) {
	return oldestBucket(now), max(bucketOf(now), b.latest())
}

// isNew reports that no live bucket has an id. It is false when only the store can tell.
func (b *buckets) isNew(id *networkID, now int64) bool {
	oldest, newest := b.liveBuckets(now)
	for n := newest; n >= oldest; n-- {
		if b.mayHold(n, id) {
			return false
		}
	}
	return true
}

// recallAnswer looks for a message in the live buckets, the newest first: in those whose filter may
// have it. Changes that Pebble does not have yet come before it.
func (b *buckets) recallAnswer(s *store, sc *scratch, id *networkID, now int64) (r remembered, found bool, err error) {
	if b.isNew(id, now) {
		return r, false, nil
	}
	oldest, newest := b.liveBuckets(now)
	for n := newest; n >= oldest; n-- {
		sc.key = appendRepeatKey(sc.key[:0], n, id)
		var state memtable.State
		if sc.val, state = s.table.Get(sc.key, sc.val[:0]); state == memtable.Set {
			r, err = decodeRemembered(sc.val)
			return r, err == nil, err
		}
	}
	p, err := s.probe()
	if err != nil {
		return r, false, err
	}
	for n := newest; n >= oldest && !found && err == nil; n-- {
		if !b.mayHold(n, id) {
			continue
		}
		var v []byte
		sc.key = appendRepeatKey(sc.key[:0], n, id)
		if v, err = p.get(sc.key); v != nil && err == nil {
			found = true
			r, err = decodeRemembered(v)
		}
	}
	return r, found, errors.Join(err, p.close())
}

// recallOriginal looks for t.original, the message that the ticket's message names. It fails like
// recallAnswer.
func (b *buckets) recallOriginal(s *store, t *ticket, now int64) error {
	first, found, err := b.recallAnswer(s, &t.scratch, &t.original, now)
	t.named, t.originalSeen = first, found && !first.tombstone
	t.view.OfIncrement, t.view.Left = first.increment, first.left
	return err
}

// FindAuthorization returns the authorization that the network id of an authorization or an
// increment names. It may not be durable yet. It fails with the store's error.
func (e *Engine) FindAuthorization(networkID string) (id ident.UUID, found bool, err error) {
	own := networkIDOf(routeAuthorizations, networkID)
	r, _, err := e.buckets.recallAnswer(e.store, &scratch{}, &own, e.clock().UnixMilli())
	return r.authorization, !r.authorization.IsZero(), err
}

// findBuckets asks the store once for each bucket that exists: a seek per bucket, for any
// content.
func (s *store) findBuckets() (*buckets, error) {
	b := &buckets{filters: make(map[uint16]*idFilter)}
	upper := []byte{prefixRepeat + 1}
	for {
		p, err := s.last([]byte{prefixRepeat}, upper)
		if err != nil || p == nil {
			return b, err
		}
		n := binary.BigEndian.Uint16(p.key[1:])
		b.ensureFilter(n, true)
		upper = binary.BigEndian.AppendUint16([]byte{prefixRepeat}, n)
	}
}
