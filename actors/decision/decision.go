// Package decision defines the outcome of a domain package's Decide: the events to append, the
// documents to store and the reply, with nothing done yet. The actor shell commits all of a
// Decision in one batch or none of it, and releases the reply only after the commit.
package decision

import (
	"time"

	"purser/persistence/money"
)

// Event is a fact of one stream. Its type carries a version ("card.frozen.v1"). A stored event is
// never rewritten; the package that declares it decodes every version it ever wrote. Events hold
// ids, never personal data or secrets, because they go to Kafka.
type Event interface{ EventType() string }

// Record is one document to store with the events, as a GET or a list shows it. Document is encoded
// as JSON. ID is unique within the kind over all tenants. Parent groups the records of a kind for
// listing; "" lists by workspace.
type Record struct {
	Kind, Parent, ID string
	Document         any
	Delete           bool
	New              bool // no record has this id yet, so a store need not look for one
	// Personal marks a document with personal data: it is sealed before it is stored and opened
	// when it is read.
	Personal bool
}

// Ref names a record that a decision needs besides the state, such as an order of which the state
// keeps sums and counts only.
type Ref struct{ Kind, ID string }

// Tally adds one to a tenant's count of a kind of record, or subtracts one. When the count has
// reached Max, the whole batch is refused with limit_exceeded. The count is stored in the same
// commit, so it is exact across crashes. The store also keeps the ID that was counted first.
type Tally struct {
	// Name is a kind of record, or names a subset of one, such as the active cardholders. A
	// subset must be counted from its first record on.
	Name string
	ID   string
	Max  int64 // 0 means no limit
	Less bool  // subtracts one instead; the store keeps the first ID even when its record is gone
}

// Timer sends the stream a Fire command with Key at Due. Each (stream, key) has one timer: a new
// Due replaces it, and a zero Due removes it.
type Timer struct {
	Key string
	Due time.Time
}

// Once claims a key: a second batch with the same scope and key is refused with the first one's
// answer. A zero Expires keeps the claim for ever.
type Once struct {
	Scope, Key string
	// Fingerprint distinguishes a repeat from another request under the same key.
	Fingerprint [32]byte
	Expires     time.Time
	Answer      []byte
	// Code is the fault code that answers a conflict. "" replays the first answer, as for
	// idempotency keys and partners' event ids.
	Code, Message string
}

// Debit asks for dollars before the append: the actor reserves them durably with the authorizer,
// and an event of the batch settles the reservation. A refused reservation is insufficient_funds.
type Debit struct {
	Reservation string
	Cents       money.Cents
}

// Decision is the outcome of a command. Without events, records, timers and onces there is nothing
// to commit, and the reply waits for the batches staged before it. Tallies need events.
type Decision struct {
	Events  []Event
	Reply   any
	Records []Record
	Tallies []Tally
	Timers  []Timer
	Onces   []Once
	Debit   *Debit
}

// Meta accompanies every command: the time of the decision. A domain package itself never reads
// time, ids or randomness.
type Meta struct {
	At time.Time
}

// Fire is the command that a timer sends.
type Fire struct {
	Key string
	Due time.Time
}

// Read is the command whose reply is the state. It changes nothing.
type Read struct{}
