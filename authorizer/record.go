package authorizer

import (
	"encoding/binary"
	"fmt"

	"purser/authorizer/hold"
)

// Kinds of the log's records, as their first byte.
const (
	recordDecision = 1 + iota // an entry of the decision log, with what its effects need beside it
	recordChanges             // keys with their values
)

// Flags of a decision's record.
const (
	flagSpent = 1 << iota
	flagHeld
	flagNamed
)

// batch is the keys that one commit sets and deletes, as the log's record.
type batch struct{ record []byte }

func newBatch() *batch { return &batch{record: []byte{recordChanges}} }

// setKey sets a key. Both slices are copied.
func (b *batch) setKey(key, value []byte) {
	b.record = append(binary.AppendUvarint(b.record, uint64(len(key))<<1), key...)
	b.record = append(binary.AppendUvarint(b.record, uint64(len(value))), value...)
}

// deleteKey deletes a key, which is copied.
func (b *batch) deleteKey(key []byte) {
	b.record = append(binary.AppendUvarint(b.record, uint64(len(key))<<1|1), key...)
}

// walkChanges visits the keys of a batch's record in order; a nil value deletes. It fails with
// ErrCorrupt.
func walkChanges(record []byte, visit func(key, value []byte)) error {
	rest := record[1:]
	take := func(n uint64) ([]byte, bool) {
		if n > uint64(len(rest)) {
			return nil, false
		}
		taken := rest[:n:n]
		rest = rest[n:]
		return taken, true
	}
	number := func() (uint64, bool) {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			return 0, false
		}
		rest = rest[size:]
		return n, true
	}
	for len(rest) > 0 {
		head, ok := number()
		key, whole := take(head >> 1)
		if !ok || !whole {
			return fmt.Errorf("%w: a record of changes", ErrCorrupt)
		}
		if head&1 == 1 {
			visit(key, nil)
			continue
		}
		n, ok := number()
		value, whole := take(n)
		if !ok || !whole {
			return fmt.Errorf("%w: a record of changes", ErrCorrupt)
		}
		visit(key, value)
	}
	return nil
}

// appendRecord appends the record of a decision to dst, and returns the bytes of its entry within.
func (c *change) appendRecord(dst []byte) (record, entry []byte) {
	var flags byte
	if c.spent {
		flags |= flagSpent
	}
	if c.held {
		flags |= flagHeld
	}
	if c.named != nil {
		flags |= flagNamed
	}
	dst = append(dst, recordDecision, flags)
	dst = appendCents(dst, c.cardCents)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.dueBefore))
	if c.named != nil {
		dst = appendRemembered(dst, c.named)
	}
	begin := len(dst)
	dst = hold.AppendEntry(dst, c.entry)
	return dst, dst[begin:]
}

const decisionHead = 2 + 8 + 8 // kind, flags, cardCents, the expiry before

// decodeRecord reads the record of a decision, and returns the bytes of its entry within. It fails
// with ErrCorrupt.
func (c *change) decodeRecord(record []byte) (entry []byte, err error) {
	if len(record) < decisionHead {
		return nil, fmt.Errorf("%w: a record of %d bytes", ErrCorrupt, len(record))
	}
	flags, rest := record[1], record[decisionHead:]
	c.spent, c.held = flags&flagSpent != 0, flags&flagHeld != 0
	c.cardCents = decodeCents(record[2:])
	c.dueBefore = int64(binary.BigEndian.Uint64(record[10:]))
	if flags&flagNamed != 0 {
		if len(rest) < rememberedBytes {
			return nil, fmt.Errorf("%w: a record of %d bytes", ErrCorrupt, len(record))
		}
		r, err := decodeRemembered(rest[:rememberedBytes])
		if err != nil {
			return nil, err
		}
		c.named, rest = &r, rest[rememberedBytes:]
	}
	if err := hold.DecodeEntry(rest, c.entry); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	c.findIDs()
	return rest, nil
}

// findIDs finds the network ids of an entry's message and of the message that it names.
func (c *change) findIDs() {
	if n := c.entry; n.NetworkID != "" {
		c.own = networkIDOf(routeOf(n.Kind), n.NetworkID)
	}
	if n := c.entry; n.OriginalID != "" {
		c.original = networkIDOf(routeAuthorizations, n.OriginalID)
	}
}
