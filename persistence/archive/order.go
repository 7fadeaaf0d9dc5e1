package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"purser/persistence"
	"purser/persistence/ident"
)

// order checks that parts arrive in the order of persistence.Content. The writer and Reader share
// it, so that every archive that Write completes can be read.
type order struct {
	shards   int // shards begun
	head     persistence.ShardHead
	position uint64 // the shard's last event
	letter   byte   // the last part's letter
	key      []byte // the last part's key
	next     []byte
}

// partRank returns the order of a part's letter within a shard; a head begins the next shard.
func partRank(letter byte) int { return bytes.IndexByte([]byte("herotc"), letter) }

// checkNext checks that a part may come after the one before. ErrDamaged reports any other part:
// out of order, of another shard, or after missing events.
func (o *order) checkNext(p persistence.Part) error {
	letter := letterOf(p)
	if h, ok := p.(*persistence.ShardHead); ok {
		return o.beginShard(h)
	}
	if o.shards == 0 || partRank(letter) < partRank(o.letter) {
		return fmt.Errorf("%w: part %q after %q of shard %d", ErrDamaged, letter, o.letter, o.shards-1)
	}
	if e, ok := p.(*persistence.Event); ok {
		return o.checkEvent(e)
	}
	if err := o.requireAllEvents(); err != nil {
		return err
	}
	if err := o.requireSameShard(p); err != nil {
		return err
	}
	o.next = appendKey(o.next[:0], p)
	if letter == o.letter && bytes.Compare(o.next, o.key) <= 0 {
		return fmt.Errorf("%w: part %q of shard %d is not after the one before", ErrDamaged, letter, o.head.Shard)
	}
	o.letter = letter
	o.key, o.next = o.next, o.key
	return nil
}

// beginShard checks the head of the next shard. ErrDamaged reports a shard out of order, or missing
// events of the shard before.
func (o *order) beginShard(h *persistence.ShardHead) error {
	if err := o.requireAllEvents(); err != nil {
		return err
	}
	if int(h.Shard) != o.shards || o.shards == ident.Shards {
		return fmt.Errorf("%w: shard %d where %d is due", ErrDamaged, h.Shard, o.shards)
	}
	o.shards, o.head, o.position, o.letter = o.shards+1, *h, 0, letterHead
	return nil
}

// checkEvent fails with ErrDamaged for an event that does not follow the one before or lies above
// the shard's head.
func (o *order) checkEvent(e *persistence.Event) error {
	if e.Position != o.position+1 || e.Position > o.head.Position {
		return fmt.Errorf("%w: event %d of shard %d where %d of %d is due", ErrDamaged, e.Position, o.head.Shard, o.position+1,
			o.head.Position)
	}
	o.position, o.letter = e.Position, letterEvent
	return nil
}

// requireSameShard fails with ErrDamaged for a part whose slot belongs to another shard.
func (o *order) requireSameShard(p persistence.Part) error {
	slot := ident.Slot(o.head.Shard) << 4
	switch p := p.(type) {
	case *persistence.Record:
		slot = p.Slot
	case *persistence.Timer:
		slot = p.Slot
	}
	if slot >= ident.Slots || slot.Shard() != o.head.Shard {
		return fmt.Errorf("%w: slot %d in shard %d", ErrDamaged, slot, o.head.Shard)
	}
	return nil
}

// requireAllEvents fails with ErrDamaged when events are missing up to the shard's head.
func (o *order) requireAllEvents() error {
	if o.position != o.head.Position {
		return fmt.Errorf("%w: the events of shard %d end at %d, its head is %d", ErrDamaged, o.head.Shard, o.position,
			o.head.Position)
	}
	return nil
}

// requireAllShards fails with ErrDamaged when shards, or events of the last one, are missing. It is
// called at the end of an archive.
func (o *order) requireAllShards() error {
	if err := o.requireAllEvents(); err != nil {
		return err
	}
	if o.shards != ident.Shards {
		return fmt.Errorf("%w: %d of %d shards", ErrDamaged, o.shards, ident.Shards)
	}
	return nil
}

// appendKey appends the key by which the parts of one letter are ordered.
func appendKey(dst []byte, p persistence.Part) []byte {
	switch p := p.(type) {
	case *persistence.Record:
		return append(appendString(dst, p.Kind), p.ID...)
	case *persistence.Once:
		return append(appendString(dst, p.Scope), p.Hash[:]...)
	case *persistence.Timer:
		return append(appendString(appendString(dst, p.Kind), p.Stream), p.Key...)
	case *persistence.Cursor:
		return append(dst, p.Name...)
	}
	panic(fmt.Sprintf("BUG: %T has no key", p))
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
