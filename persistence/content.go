package persistence

import (
	"context"
	"fmt"
	"iter"

	"purser/persistence/ident"
)

// Archiver reads a whole journal as of one instant. Both journals implement it; each has a function
// Load, which makes a journal from such content. Package archive defines the file format.
type Archiver interface {
	// Snapshot fixes the instant. The snapshot includes every commit that returned before the call
	// and none that begins after it returns. It blocks commits only briefly. The caller closes it.
	Snapshot(ctx context.Context) (Snapshot, error)
	// StoredBytes returns the size of the content in the store, in bytes. An archive of the content
	// may be smaller or larger.
	StoredBytes(ctx context.Context) (int64, error)
}

// Snapshot is the content of a journal at one instant. It is for one goroutine. Close it soon,
// because the store keeps old versions for it.
type Snapshot interface {
	// Events and Records are those of Journal, as stored at the instant.
	Events(ctx context.Context, shard ident.Shard, after uint64, limit int) ([]Event, error)
	Records(ctx context.Context, shard ident.Shard, kind, after string, limit int) ([]Record, error)
	// Content iterates over every part, in memory that does not grow with the journal. An error
	// ends the iteration. A part and its slices are valid only until the next part.
	Content(ctx context.Context) Content
	Close() error
}

// Content is a sequence of parts in an order that both journals share. Each of the 256 shards, from
// 0, gives its *ShardHead, its *Events by position, then its *Records, *Onces, *Timers and
// *Cursors, each sort in the order of Key. Stream versions are left out, because the events contain
// them. Times are cut to the microsecond, the finest precision that every journal stores.
type Content = iter.Seq2[Part, error]

// Part is a *ShardHead, *Event, *Record, *Once, *Timer or *Cursor.
type Part any

// ShardHead begins a shard. Ordinal is the last ordinal assigned at the head's position.
type ShardHead struct {
	Shard ident.Shard
	Head
	Ordinal uint32
}

// Cursor is the position of a named subscriber in the shard.
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
