// Package derivation allocates the indexes from which receiving addresses are derived, each index
// once. It is pure. One actor, of the system workspace, folds its events for all workspaces,
// because the accounts belong to the deployment.
//
// An index is taken before its session is written. A crash in between loses the index, so there may
// be gaps but never a repeat. The package derives no address and has no key; with another key the
// indexes continue.
//
// A restored journal lacks the indexes that were taken after its backup. The restored journal has a
// new incarnation, and the first index of an incarnation is the number of seconds since Epoch. That
// is above every lost index, as long as fewer than one index a second was taken on average.
package derivation

import (
	"fmt"
	"maps"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Limits of a Take and of an account.
const (
	MaxFamilies = 8
	maxIndex    = 1<<31 - 1 // higher indexes are for private keys only
)

// Epoch returns the time from which the first index of a new incarnation counts seconds.
func Epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// State is the next index of each family's account: Next, or Floor where that is higher.
type State struct {
	Next  map[string]uint32 `json:"next"`
	Store string            `json:"store,omitempty"` // incarnation of the journal at the last Take
	Floor uint32            `json:"floor,omitempty"`
}

// Take takes the next index of each family for a session. The reply is Taken. The refusal is
// limit_exceeded when an account has no index left.
type Take struct {
	Session  string
	Families []string // no duplicates
	Store    string   // incarnation of the journal in which the reply is committed
	Restored bool     // the incarnation began with a restore, so indexes missing in the state may have been taken
}

// Taken is the reply to Take: the index of each family.
type Taken map[string]uint32

// IndexesTaken records the indexes of a session.
type IndexesTaken struct {
	Session string            `json:"session"`
	Indexes map[string]uint32 `json:"indexes"`
	Store   string            `json:"store,omitempty"`
	Floor   uint32            `json:"floor,omitempty"` // no index below it is taken any more
	At      decision.Stamp    `json:"at"`
}

// EventType is the name the event is stored under.
func (IndexesTaken) EventType() string { return "derivation.indexes_taken.v1" }

// Decide returns the decision for Take or decision.Read. The actor of the deployment's address
// indexes calls it and commits the result. It fails with limit_exceeded when an account has no
// index left. An unknown command panics.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case Take:
		return s.takeIndexes(m, c)
	case decision.Read:
		return decision.Decision{Reply: State{Next: maps.Clone(s.Next), Store: s.Store, Floor: s.Floor}}, nil
	}
	panic(fmt.Sprintf("BUG: derivation command %T", command))
}

// takeIndexes takes the next index of each family. It fails with limit_exceeded when an account has
// no index left. It panics without a session, without a family, or for a family twice.
func (s *State) takeIndexes(m decision.Meta, c Take) (decision.Decision, error) {
	taken, floor := Taken{}, s.lowestIndex(m, c)
	for _, family := range c.Families {
		if taken[family] = max(s.Next[family], floor); taken[family] > maxIndex {
			return decision.Decision{}, fault.New(fault.LimitExceeded, "an account has no addresses left")
		}
	}
	if len(taken) != len(c.Families) || len(taken) < 1 || len(taken) > MaxFamilies || c.Session == "" {
		panic("BUG: indexes without a session, without a family, or with a family twice")
	}
	return decision.Decision{
		Events: []decision.Event{IndexesTaken{Session: c.Session, Indexes: taken, Store: c.Store, Floor: floor,
			At: decision.StampOf(m.At)}},
		Reply: taken,
	}, nil
}

// lowestIndex returns the lowest index that c may take. It is 0 in the first incarnation of the
// journal. The first Take after a restore raises it to the seconds from Epoch to that Take, because
// the backup may lack taken indexes. Later Takes of the same incarnation keep it.
func (s *State) lowestIndex(m decision.Meta, c Take) uint32 {
	if s.Next == nil && !c.Restored || s.Next != nil && s.Store == c.Store {
		return s.Floor
	}
	seconds := min(max(int64(m.At.Sub(Epoch())/time.Second), 0), maxIndex)
	return max(s.Floor, uint32(seconds))
}

// Apply folds an event into the state. The actor calls it for each event that it decides; it loads
// the state from its record, not from events. It panics for an unknown event and for an index that
// is taken twice.
func (s *State) Apply(e decision.Event) {
	taken, ok := e.(IndexesTaken)
	if !ok {
		panic(fmt.Sprintf("BUG: derivation event %T", e))
	}
	if s.Next == nil {
		s.Next = map[string]uint32{}
	}
	s.Store, s.Floor = taken.Store, taken.Floor
	for family, index := range taken.Indexes {
		if index < s.Next[family] {
			panic("BUG: an index is taken twice")
		}
		s.Next[family] = index + 1
	}
}
