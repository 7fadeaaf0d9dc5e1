// Package decision is what a domain package's Decide returns: facts to be appended, and nothing done yet. The actor shell
// commits all of it as one batch or none of it, and only then lets the reply go.
package decision

import "time"

// Event is a fact of one stream. Its type carries a version ("card.frozen.v1"): a stored event is never rewritten, and the
// package that declares it decodes every version it ever wrote. Events hold ids, never personal data or secrets: they go to
// Kafka.
type Event interface{ EventType() string }

// Record is one document to store beside the events: what a GET or a list shows. Document is encoded as JSON.
// ID is unique within the kind over all tenants. Parent groups records of a kind for listing ("" for the whole workspace).
type Record struct {
	Kind, Parent, ID string
	Document         any
	Delete           bool
	New              bool // there is none of this id: a store need not look for one
	// Personal says that the document tells of a person: it is sealed before it is stored, and opened when it is read.
	Personal bool
}

// Ref names a record that a decision needs beside the state: an order that the state has sums and
// counts of only.
type Ref struct{ Kind, ID string }

// Tally counts what a tenant has of a kind of record: the batch makes one more. With Max of them the batch is refused, whole,
// with limit_exceeded. The count is exact, whatever crashes, for it is stored in the same commit; with it, which ID was the
// first.
type Tally struct {
	Name string // what is counted: a kind of record, or a part of one that has been counted from its first
	ID   string
	Max  int64 // 0: no limit
	Less bool  // the batch makes one less instead; the first stays the first though it be gone
}

// Timer wakes the deciding stream at Due with a Fire command that carries Key. One (stream, key) has one timer: a new Due
// replaces it, a zero Due removes it.
type Timer struct {
	Key string
	Due time.Time
}

// Once is a claim that can be made one time: a second batch with the same scope and key is refused with the first one's answer.
// A zero Expires keeps it for ever.
type Once struct {
	Scope, Key string
	// Fingerprint tells a repeat from another request under the same key.
	Fingerprint [32]byte
	Expires     time.Time
	Answer      []byte
	// Code is the fault code a conflict is answered with; "" replays the first answer (idempotency keys, partners' event ids).
	Code, Message string
}

// Debit asks for dollars before the append: the shell reserves them with the authorizer, synced, and an event of the batch
// settles the reservation. A refused reservation is insufficient_funds.
type Debit struct {
	Reservation string
	Cents       int64
}

// Decision is the outcome of a command. No events, records, timers and onces: nothing to commit, the reply is parked
// behind what is staged. Tallies go with events only.
type Decision struct {
	Events  []Event
	Reply   any
	Records []Record
	Tallies []Tally
	Timers  []Timer
	Onces   []Once
	Debit   *Debit
}

// Meta goes with every command: when it is decided. Time, ids and randomness are never read by a domain package itself.
type Meta struct {
	At time.Time
}

// Fire is the command a timer sends.
type Fire struct {
	Key string
	Due time.Time
}

// Read is the command that answers the state and changes nothing.
type Read struct{}
