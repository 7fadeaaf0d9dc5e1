package persistence

import (
	"context"
	"fmt"
	"iter"

	"purser/persistence/ident"
)

// Archiver is a journal that can be read whole, as it was at one instant. Both journals are; each has a function Load, which
// makes a journal of such content. Package archive is the form in which content leaves a journal for a file.
type Archiver interface {
	// Snapshot takes the instant: every commit that was answered before the call is in it, none that begins after its return. It
	// holds up commits for a moment at most. The snapshot must be closed.
	Snapshot(ctx context.Context) (Snapshot, error)
	// StoredBytes returns the bytes that the content takes in the store. An archive of the content
	// may be smaller or larger.
	StoredBytes(ctx context.Context) (int64, error)
}

// Snapshot is the content of a journal at one instant. It is for one goroutine.
type Snapshot interface {
	// Content walks everything, a part at a time: memory does not grow with the journal. An error ends it. A part and what it
	// refers to belong to the caller only until the next one.
	Content(ctx context.Context) Content
	Close() error
}

// Content is a sequence of parts in the one order that both journals give: shard by shard from 0, each of the 256 with its
// *ShardHead, its *Events by position, *Records, *Onces, *Timers and *Cursors, these in the order of Key. Versions of streams are
// not among them: they are those of the events. Times count to the microsecond, the finest that every journal keeps.
type Content = iter.Seq2[Part, error]

// Part is a *ShardHead, *Event, *Record, *Once, *Timer or *Cursor.
type Part any

// ShardHead begins a shard. Ordinal is the last one that was given at the head's position.
type ShardHead struct {
	Shard ident.Shard
	Head
	Ordinal uint32
}

// Cursor is the place of a named subscriber in the shard.
type Cursor struct {
	Name     string
	Position uint64
}

// Counts are the numbers of parts of each sort.
type Counts struct {
	Events  uint64 `json:"events"`
	Records uint64 `json:"records"`
	Onces   uint64 `json:"onceKeys"`
	Timers  uint64 `json:"timers"`
	Cursors uint64 `json:"cursors"`
}

// Add counts a part.
func (c *Counts) Add(p Part) {
	switch p.(type) {
	case *ShardHead:
	case *Event:
		c.Events++
	case *Record:
		c.Records++
	case *Once:
		c.Onces++
	case *Timer:
		c.Timers++
	case *Cursor:
		c.Cursors++
	default:
		panic(fmt.Sprintf("BUG: a journal has no %T", p))
	}
}

func (c Counts) String() string {
	return fmt.Sprintf("%d events, %d records, %d once-keys, %d timers, %d cursors", c.Events, c.Records, c.Onces, c.Timers,
		c.Cursors)
}
