// Package derivation hands out the indexes from which receiving addresses are derived, each once for ever. It is pure; one actor,
// of the system workspace, is the only one that folds its events, whatever the workspace that asks: the accounts are the
// deployment's.
//
// An index is taken before the session that it is for is written. After a crash in between it is lost: there may be gaps, and a
// repeat never. The package derives nothing and knows no key: with another key the count goes on.
//
// A journal that was restored has forgotten what was handed out after its backup. It is another incarnation, and in a new one the
// count goes on from the number of seconds since Epoch: beyond all that was forgotten, as long as fewer than one index a second
// was taken on average.
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
	maxIndex    = 1<<31 - 1 // what follows is for private keys alone
)

// Epoch is where the seconds of a new incarnation's count begin.
func Epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// State is which index of each family's account is next: Next, or Floor where that is more.
type State struct {
	Next  map[string]uint32 `json:"next"`
	Store string            `json:"store,omitempty"` // incarnation of the journal in which the last index was taken
	Floor uint32            `json:"floor,omitempty"`
}

// Take takes the next index of each family for a session. It answers Taken; limit_exceeded when an account has none left.
type Take struct {
	Session  string
	Families []string // each once
	Store    string   // incarnation of the journal that the answer will be in
	Restored bool     // it is not the deployment's first: what it knows nothing of may have been taken all the same
}

// Taken answers Take: the index of each family that was asked for.
type Taken map[string]uint32

// IndexesTaken says which indexes a session has.
type IndexesTaken struct {
	Session string            `json:"session"`
	Indexes map[string]uint32 `json:"indexes"`
	Store   string            `json:"store,omitempty"`
	Floor   uint32            `json:"floor,omitempty"` // below it no index is taken any more
	At      decision.Stamp    `json:"at"`
}

// EventType is the name the event is stored under.
func (IndexesTaken) EventType() string { return "derivation.indexes_taken.v1" }

// catalog has every version of every event.
var catalog = decision.NewCatalog("derivation", IndexesTaken{})

// DecodeEvent reads an event of any version this package ever wrote.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	return catalog.Decode(eventType, payload)
}

// Decide says what follows from a command. Errors are faults.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case Take:
		return s.take(m, c)
	case decision.Read:
		return decision.Decision{Reply: State{Next: maps.Clone(s.Next), Store: s.Store, Floor: s.Floor}}, nil
	}
	panic(fmt.Sprintf("BUG: derivation command %T", command))
}

func (s *State) take(m decision.Meta, c Take) (decision.Decision, error) {
	taken, floor := Taken{}, s.floor(m, c)
	for _, family := range c.Families {
		if taken[family] = max(s.Next[family], floor); taken[family] > maxIndex {
			return decision.Decision{}, fault.New(fault.LimitExceeded, "an account has no addresses left")
		}
	}
	if len(taken) != len(c.Families) || len(taken) < 1 || len(taken) > MaxFamilies || c.Session == "" {
		panic("BUG: indexes for no session, of no family, or of one family twice")
	}
	return decision.Decision{
		Events: []decision.Event{IndexesTaken{Session: c.Session, Indexes: taken, Store: c.Store, Floor: floor,
			At: decision.StampOf(m.At)}},
		Reply: taken,
	}, nil
}

// floor is the least index that may be taken in an incarnation. The first one begins at 0; one of which the backup was older than
// the first index does not.
func (s *State) floor(m decision.Meta, c Take) uint32 {
	if s.Next == nil && !c.Restored || s.Next != nil && s.Store == c.Store {
		return s.Floor
	}
	seconds := min(max(int64(m.At.Sub(Epoch())/time.Second), 0), maxIndex)
	return max(s.Floor, uint32(seconds))
}

// Apply folds an event.
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
