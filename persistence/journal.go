// Package persistence defines the contract of the journal, which stores events, records, once-keys
// and timers in atomic batches. The package is independent of cards and balances. Two packages
// implement the contract: pebblejournal in the data directory and pgjournal in Postgres. Both pass
// the test suite of persistence/journaltest.
//
// A journal has 256 shards. Each shard has a head, the position of its newest event; positions are
// gapless from 1. Each shard has an epoch. A writer appends under the current epoch, and raising
// the epoch fences every earlier writer.
package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"purser/persistence/ident"
)

// Limits of the contract. An Append over one of the first three is a bug of the caller and fails
// with ErrTooLarge. A read returns at most MaxPage items.
const (
	MaxGroup       = 512     // batches in one Append
	MaxBatchEvents = 1024    // events in one batch
	MaxPayload     = 8 << 20 // bytes of one event or document
	MaxPage        = 1000    // items of one read
)

// Errors of a journal. A caller treats every other error as ErrUnavailable.
var (
	// ErrUnavailable: the call changed nothing; a retry is safe.
	ErrUnavailable = errors.New("journal unavailable")
	// ErrAmbiguous: the batch may or may not be committed. Raise the epoch, then read.
	ErrAmbiguous = errors.New("journal outcome unknown")
	// ErrFenced: the epoch is not the current one; another writer has taken the shard.
	ErrFenced = errors.New("journal epoch fenced")
	// ErrVersion: a stream is not at the version that the batch expects. The batch was not written.
	ErrVersion = errors.New("stream version conflict")
	// ErrNotFound: no such record.
	ErrNotFound = errors.New("record not found")
	// ErrRefused: the batch is invalid, and a retry fails again. A name contains U+0000 or is not
	// UTF-8, or the store validates documents and one is not JSON. The batch was not written.
	ErrRefused = errors.New("journal refuses the batch")
	// ErrTooLarge: the batch or group exceeds a limit of the contract.
	ErrTooLarge = errors.New("journal limit exceeded")
)

// OnceError refuses a batch whose once-key is taken. The batch was not written. Existing is the
// once-key that holds.
type OnceError struct{ Existing Once }

func (e *OnceError) Error() string {
	return fmt.Sprintf("once-key taken in scope %q", e.Existing.Scope)
}

// Identity identifies a journal. Both stores of a deployment have the same Deployment. Each
// incarnation of a store has its own Store.
type Identity struct {
	Deployment ident.UUID
	Store      ident.UUID
}

// Event is one event of a stream. The journal assigns Position; the caller sets the other fields.
type Event struct {
	ID        string // evt_…
	Workspace string
	Kind      string // the actor's kind: card, balance …
	Stream    string // the actor's id
	Version   uint64 // gapless within the stream, from 1
	Type      string // card.frozen.v1
	At        time.Time
	Payload   json.RawMessage
	Position  uint64
}

// Record is a stored document. Kind and ID identify it. Workspace isolates tenants: a read that
// names a workspace never returns another workspace's record. Parent groups records for lists. The
// journal assigns Position and Ordinal at the first write; they order lists and never change.
type Record struct {
	Kind, Workspace, Parent, ID string
	Slot                        ident.Slot
	Document                    json.RawMessage
	Version                     uint64 // the caller's: an actor's state record has its stream's version
	Deleted                     bool   // in a batch: remove it
	// New, in a batch, asserts that no record of this kind and id exists, so a store need not read
	// for it. A false New may list the record twice.
	New      bool
	Position uint64
	Ordinal  uint32
}

// Once is a once-key: the claim of (Scope, Hash) that holds until Expires, or forever when Expires
// is zero. Answer is stored with it for repeats of the request.
type Once struct {
	Scope       string
	Hash        [32]byte
	Fingerprint [32]byte
	Expires     time.Time
	Answer      []byte
}

// Timer wakes a stream at Due. (Stream, Key) is unique: a new Due replaces the old one, and
// a zero Due removes the timer.
type Timer struct {
	Kind, Stream, Key string
	Workspace         string
	Slot              ident.Slot
	Due               time.Time
}

// Batch is one atomic append for one workspace, within the shard of Slot.
type Batch struct {
	Workspace string
	Slot      ident.Slot
	Events    []Event
	Records   []Record
	Onces     []Once
	Timers    []Timer
}

// Outcome is the result of one batch of a group. When the batch is committed, Err is nil, and First
// and Last are the positions of its first and last event, 0 when it has no event. Otherwise Err is
// the reason, and the batch was not written.
type Outcome struct {
	Err         error
	First, Last uint64
}

// Head is the newest position and the epoch of a shard.
type Head struct {
	Position uint64
	Epoch    uint64
}

// Page selects a page of a list, newest first. AfterPosition and AfterOrdinal are those of the last
// item of the previous page; zero starts at the newest item.
type Page struct {
	AfterPosition uint64
	AfterOrdinal  uint32
	Limit         int
}

// Journal stores batches. All methods are safe for concurrent use. Slices and documents of the
// arguments belong to the journal until the call returns; results belong to the caller.
type Journal interface {
	// Identity returns the identity that Open read or created.
	Identity() Identity

	// Raise takes ownership of the shards. It raises their epochs, waits until no transaction of an
	// earlier epoch can still commit, and returns the heads with the new epochs in argument order.
	Raise(ctx context.Context, shards ...ident.Shard) ([]Head, error)

	// Append commits the batches of one shard in order, durably, and returns the outcome of each. A
	// batch that conflicts (ErrVersion, OnceError) or is invalid (ErrRefused, ErrTooLarge) does not
	// stop the others. A once-key that has expired at now does not hold. The error is for the whole
	// group: ErrFenced, ErrUnavailable or ErrAmbiguous.
	Append(ctx context.Context, shard ident.Shard, epoch uint64, now time.Time, group []*Batch) ([]Outcome, error)

	// Head returns the head of a shard. It never blocks.
	Head(shard ident.Shard) Head

	// WaitAdvance returns the number of advances of all heads' positions in this process, once it
	// differs from seen. Head shows each counted advance. A reader that passes the last result, at
	// first 0, and compares the heads after each return misses no advance. WaitAdvance fails with
	// the context's error, or ErrUnavailable when the journal closes or fails first, and then
	// returns seen.
	WaitAdvance(ctx context.Context, seen uint64) (advances uint64, err error)

	// Events returns events of a shard after a position, in order: at most limit, and about 1 MiB
	// of payload but at least one event. Except under AsStored, a journal may answer from memory
	// with events that it has committed.
	Events(ctx context.Context, shard ident.Shard, after uint64, limit int) ([]Event, error)

	// Record returns a record by kind and id, in the shard of slot. It returns ErrNotFound when
	// there is no such record. Except under AsStored, a journal may answer from memory with a
	// record that it has committed or read in a shard that it owns.
	Record(ctx context.Context, slot ident.Slot, kind, id string) (Record, error)

	// List returns the records of a kind, workspace and parent, newest first.
	List(ctx context.Context, slot ident.Slot, kind, workspace, parent string, page Page) ([]Record, error)

	// Records returns records of a kind in a shard after an id, in the order of their ids, for
	// audits and repairs.
	Records(ctx context.Context, shard ident.Shard, kind, after string, limit int) ([]Record, error)

	// Once returns a once-key that holds at now; false when there is none.
	Once(ctx context.Context, shard ident.Shard, scope string, hash [32]byte, now time.Time) (Once, bool, error)

	// Timers returns the timers of a shard due at or before now, earliest first. after is the last
	// timer of the previous page; the zero Timer begins with the earliest. A timer stays until a
	// batch removes or replaces it.
	Timers(ctx context.Context, shard ident.Shard, now time.Time, after Timer, limit int) ([]Timer, error)

	// TimersDue reports whether Timers may return any at now. It answers from memory.
	TimersDue(shard ident.Shard, now time.Time) bool

	// Cursor and SaveCursor read and store the position of a named subscriber in a shard. A crash
	// may lose a save: once-keys protect the effects of an event that is handled again. Except
	// under AsStored, a journal may answer from memory with a saved cursor.
	Cursor(ctx context.Context, name string, shard ident.Shard) (uint64, error)
	SaveCursor(ctx context.Context, name string, shard ident.Shard, position uint64) error

	// Sweep removes once-keys that have expired at now, at most limit per shard, and returns how
	// many.
	Sweep(ctx context.Context, now time.Time, limit int) (int, error)

	Close() error
}
