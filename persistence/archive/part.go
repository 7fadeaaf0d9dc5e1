package archive

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// The letters of the parts.
const (
	letterHead   = 'h'
	letterEvent  = 'e'
	letterRecord = 'r'
	letterOnce   = 'o'
	letterTimer  = 't'
	letterCursor = 'c'
)

// letterOf returns the byte that marks a part's type in an archive. It panics for an unknown type.
func letterOf(p persistence.Part) byte {
	switch p.(type) {
	case *persistence.ShardHead:
		return letterHead
	case *persistence.Event:
		return letterEvent
	case *persistence.Record:
		return letterRecord
	case *persistence.Once:
		return letterOnce
	case *persistence.Timer:
		return letterTimer
	case *persistence.Cursor:
		return letterCursor
	}
	panic(fmt.Sprintf("BUG: a journal has no %T", p))
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func appendStrings(dst []byte, all ...string) []byte {
	for _, s := range all {
		dst = appendString(dst, s)
	}
	return dst
}

func appendNumbers(dst []byte, all ...uint64) []byte {
	for _, n := range all {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func appendTime(dst []byte, t time.Time) []byte { return binary.AppendVarint(dst, t.UnixMicro()) }

// appendPart appends the encoding of a part that is in order; an event's position is not encoded.
// It panics for an unknown type.
func appendPart(dst []byte, p persistence.Part) []byte {
	dst = append(dst, letterOf(p))
	switch p := p.(type) {
	case *persistence.ShardHead:
		return appendNumbers(append(dst, byte(p.Shard)), p.Position, p.Epoch, uint64(p.Ordinal))
	case *persistence.Event:
		dst = appendNumbers(appendTime(dst, p.At), p.Version)
		return appendBytes(appendStrings(dst, p.ID, p.Workspace, p.Kind, p.Stream, p.Type), p.Payload)
	case *persistence.Record:
		dst = appendNumbers(dst, uint64(p.Slot), p.Version, p.Position, uint64(p.Ordinal))
		return appendBytes(appendStrings(dst, p.Kind, p.ID, p.Workspace, p.Parent), p.Document)
	case *persistence.Once:
		dst = append(append(appendTime(dst, p.Expires), p.Hash[:]...), p.Fingerprint[:]...)
		return appendBytes(appendString(dst, p.Scope), p.Answer)
	case *persistence.Timer:
		dst = appendNumbers(appendTime(dst, p.Due), uint64(p.Slot))
		return appendStrings(dst, p.Kind, p.Stream, p.Key, p.Workspace)
	case *persistence.Cursor:
		return appendString(appendNumbers(dst, p.Position), p.Name)
	}
	panic(fmt.Sprintf("BUG: a journal has no %T", p))
}

// cutter takes a block apart. After the first mistake everything reads as zero and bad is set.
type cutter struct {
	rest []byte
	bad  bool
}

// takeBytes returns the next n bytes, which alias the block. With fewer left it sets bad and
// returns nil.
func (c *cutter) takeBytes(n uint64) []byte {
	if c.bad || n > uint64(len(c.rest)) {
		c.bad = true
		return nil
	}
	part := c.rest[:n:n]
	c.rest = c.rest[n:]
	return part
}

func (c *cutter) readByte() byte {
	if b := c.takeBytes(1); !c.bad {
		return b[0]
	}
	return 0
}

// readNumber reads a uvarint of at most most. A larger or malformed number sets bad and returns 0.
func (c *cutter) readNumber(most uint64) uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 || v > most {
		c.bad = true
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// readTime reads a time in microseconds of Unix time. A malformed number sets bad and returns the
// zero time.
func (c *cutter) readTime() time.Time {
	v, n := binary.Varint(c.rest)
	if n <= 0 {
		c.bad = true
		return time.Time{}
	}
	c.rest = c.rest[n:]
	return time.UnixMicro(v).UTC()
}

func (c *cutter) readString() string { return string(c.takeBytes(c.readNumber(persistence.MaxName))) }

// readBytes reads bytes with their length. They alias the block; no bytes are nil, as the journals
// have it.
func (c *cutter) readBytes() []byte {
	if b := c.takeBytes(c.readNumber(persistence.MaxPayload)); len(b) > 0 {
		return b
	}
	return nil
}

func (c *cutter) readHash() (h [32]byte) {
	copy(h[:], c.takeBytes(32))
	return h
}

func (c *cutter) readSlot() ident.Slot { return ident.Slot(c.readNumber(ident.Slots - 1)) }

// readPart reads the next part; the caller sets the position of an event. It returns nil and sets
// bad when the bytes are no part.
func (c *cutter) readPart() persistence.Part {
	const any64, any32 = uint64(math.MaxInt64), uint64(math.MaxUint32) // Postgres has no unsigned numbers
	switch c.readByte() {
	case letterHead:
		return &persistence.ShardHead{Shard: ident.Shard(c.readByte()),
			Head: persistence.Head{Position: c.readNumber(any64), Epoch: c.readNumber(any64)}, Ordinal: uint32(c.readNumber(any32))}
	case letterEvent:
		return &persistence.Event{At: c.readTime(), Version: c.readNumber(any64), ID: c.readString(), Workspace: c.readString(), Kind: c.readString(),
			Stream: c.readString(), Type: c.readString(), Payload: c.readBytes()}
	case letterRecord:
		return &persistence.Record{Slot: c.readSlot(), Version: c.readNumber(any64), Position: c.readNumber(any64),
			Ordinal: uint32(c.readNumber(any32)), Kind: c.readString(), ID: c.readString(), Workspace: c.readString(), Parent: c.readString(),
			Document: c.readBytes()}
	case letterOnce:
		return &persistence.Once{Expires: c.readTime(), Hash: c.readHash(), Fingerprint: c.readHash(), Scope: c.readString(), Answer: c.readBytes()}
	case letterTimer:
		return &persistence.Timer{Due: c.readTime(), Slot: c.readSlot(), Kind: c.readString(), Stream: c.readString(), Key: c.readString(),
			Workspace: c.readString()}
	case letterCursor:
		return &persistence.Cursor{Position: c.readNumber(any64), Name: c.readString()}
	}
	c.bad = true
	return nil
}
