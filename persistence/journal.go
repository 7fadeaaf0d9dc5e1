// Package persistence is the contract of the journal: the one place where events, records, once-keys and timers are kept, each
// batch of them whole or not at all. It knows nothing of cards or balances. Two packages keep the contract, pebblejournal in the
// data directory and pgjournal in Postgres; persistence/journaltest is the suite that both pass.
//
// A journal has 256 shards. Each has a head (the position of its newest event, gapless from 1), and an epoch: whoever
// writes holds the epoch, and raising it fences every writer that came before.
package persistence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"purser/persistence/ident"
)

// Limits of the contract. An Append over one of the first three is a bug of the caller and is refused with ErrTooLarge; a read
// returns at most MaxPage.
const (
	MaxGroup       = 512     // batches in one Append
	MaxBatchEvents = 1024    // events in one batch
	MaxPayload     = 8 << 20 // bytes of one event or document
	MaxPage        = 1000    // items of one read
)

// Errors of a journal. What is none of them is ErrUnavailable to the caller.
var (
	// ErrUnavailable: nothing was changed; a retry is safe.
	ErrUnavailable = errors.New("journal unavailable")
	// ErrAmbiguous: the batch may or may not be committed. Raise the epoch, then read.
	ErrAmbiguous = errors.New("journal outcome unknown")
	// ErrFenced: the epoch is not the current one; another writer has taken the shard.
	ErrFenced = errors.New("journal epoch fenced")
	// ErrVersion: a stream is not at the version the batch expected. Nothing of the batch was written.
	ErrVersion = errors.New("stream version conflict")
	// ErrNotFound: no such record.
	ErrNotFound = errors.New("record not found")
	// ErrRefused: the batch will never be taken. A name in it has U+0000 or is not UTF-8, or a document is not JSON and the store
	// looks at that. Nothing of the batch was written, and a retry is refused again.
	ErrRefused = errors.New("journal refuses the batch")
	// ErrTooLarge: a limit of the contract is passed.
	ErrTooLarge = errors.New("journal limit exceeded")
)

// OnceError refuses a batch whose once-key is taken. Nothing of the batch was written. Existing is what stands.
type OnceError struct{ Existing Once }

func (e *OnceError) Error() string {
	return fmt.Sprintf("once-key taken in scope %q", e.Existing.Scope)
}

// Identity says which deployment a journal belongs to. Both stores of a deployment carry the same Deployment; Store differs
// with every incarnation of the store.
type Identity struct {
	Deployment ident.UUID
	Store      ident.UUID
}

// Event is one fact of a stream. The caller gives all but Position.
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

// Record is a stored document. Kind and ID find it; Workspace is the wall: a read that names a workspace never sees
// another's. Parent groups records for lists. Position and Ordinal, given when the record is first written, order lists
// and never change after. New said of a record that is there may leave two of it in lists.
type Record struct {
	Kind, Workspace, Parent, ID string
	Slot                        ident.Slot
	Document                    json.RawMessage
	Version                     uint64 // the caller's own: an actor's state record carries its stream's version
	Deleted                     bool   // in a batch: remove it
	New                         bool   // in a batch: there is none of this id, and a store need not look for it
	Position                    uint64
	Ordinal                     uint32
}

// Once is a claim that holds until Expires (zero: for ever).
type Once struct {
	Scope       string
	Hash        [32]byte
	Fingerprint [32]byte
	Expires     time.Time
	Answer      []byte
}

// Timer wakes a stream. (Stream, Key) is unique: a new Due replaces the old one, a zero Due removes it.
type Timer struct {
	Kind, Stream, Key string
	Workspace         string
	Slot              ident.Slot
	Due               time.Time
}

// Batch is one atomic append for one workspace, all of it within the shard of Slot.
type Batch struct {
	Workspace string
	Slot      ident.Slot
	Events    []Event
	Records   []Record
	Onces     []Once
	Timers    []Timer
}

// Outcome tells what became of one batch of a group: Err nil and the positions of its first and last event (both 0 when it
// has none), or why nothing of it was written.
type Outcome struct {
	Err         error
	First, Last uint64
}

// Head is the state of a shard.
type Head struct {
	Position uint64
	Epoch    uint64
}

// Page asks for a part of a list, newest first. After is the (position, ordinal) of the last item seen; zero starts at the
// newest.
type Page struct {
	AfterPosition uint64
	AfterOrdinal  uint32
	Limit         int
}

// Journal keeps batches. All methods are safe for concurrent use. Every slice and document that is passed in belongs to the
// journal until the call returns; what is returned belongs to the caller.
type Journal interface {
	// Identity returns what Open found or made.
	Identity() Identity

	// Raise takes the shards: it makes every earlier epoch void, waits until no transaction of theirs can still commit, and
	// returns the heads with the new epochs, in the order asked.
	Raise(ctx context.Context, shards ...ident.Shard) ([]Head, error)

	// Append commits the batches of one shard in order, synced, and tells the outcome of each. A batch that loses (ErrVersion,
	// OnceError) or is refused (ErrRefused, ErrTooLarge) does not stop the others. now decides which once-keys are still held.
	// The error is for the whole group: ErrFenced, ErrUnavailable or ErrAmbiguous.
	Append(ctx context.Context, shard ident.Shard, epoch uint64, now time.Time, group []*Batch) ([]Outcome, error)

	// Head returns the head of a shard. It never waits.
	Head(shard ident.Shard) Head

	// Wait returns when the shard's head is past the position, or the context ends.
	Wait(ctx context.Context, shard ident.Shard, past uint64) error

	// Events returns events of a shard after a position, in order, at most limit and about 1 MiB of payload (but at least one). A
	// journal may answer from memory what it has committed, except under AsStored.
	Events(ctx context.Context, shard ident.Shard, after uint64, limit int) ([]Event, error)

	// Record returns a record by kind and id; slot routes. ErrNotFound when there is none. A journal may answer from memory what
	// it has committed or read in a shard that it holds, except under AsStored.
	Record(ctx context.Context, slot ident.Slot, kind, id string) (Record, error)

	// List returns the records of a kind, workspace and parent, newest first.
	List(ctx context.Context, slot ident.Slot, kind, workspace, parent string, page Page) ([]Record, error)

	// Records walks all records of a kind in a shard in the order of their ids, after an id, for audits and repairs.
	Records(ctx context.Context, shard ident.Shard, kind, after string, limit int) ([]Record, error)

	// Once returns a claim that is still held at now; ok is false when there is none.
	Once(ctx context.Context, shard ident.Shard, scope string, hash [32]byte, now time.Time) (Once, bool, error)

	// Timers returns the timers of a shard due at or before now, earliest first, those after a
	// timer of an earlier page; the zero Timer begins with the earliest. A timer stays until a
	// batch removes or replaces it.
	Timers(ctx context.Context, shard ident.Shard, now time.Time, after Timer, limit int) ([]Timer, error)

	// Cursor and SaveCursor keep the place of a named subscriber in a shard. A save may be lost in a crash: what follows from an
	// event is protected by its once-key. A journal may answer from memory what it was given, except under AsStored.
	Cursor(ctx context.Context, name string, shard ident.Shard) (uint64, error)
	SaveCursor(ctx context.Context, name string, shard ident.Shard, position uint64) error

	// Sweep removes claims that have expired at now, at most limit per shard, and tells how many.
	Sweep(ctx context.Context, now time.Time, limit int) (int, error)

	Close() error
}
