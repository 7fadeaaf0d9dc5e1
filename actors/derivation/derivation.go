// Package derivation hands out the indexes from which receiving addresses are derived, each once for ever. It is pure; one actor, of the
// system workspace, is the only one that folds its events, whatever the workspace that asks: the accounts are the deployment's.
//
// An index is taken before the session that it is for is written. After a crash in between it is lost: there may be gaps, and a repeat
// never. The package derives nothing and knows no key: with another key the count goes on.
package derivation

import (
	"fmt"
	"maps"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Limits of a Take and of an account.
const (
	MaxFamilies = 8
	maxIndex    = 1<<31 - 1 // what follows is for private keys alone
)

// State is which index of each family's account is next.
type State struct {
	Next map[string]uint32 `json:"next"`
}

// Take takes the next index of each family for a session. It answers Taken; limit_exceeded when an account has none left.
type Take struct {
	Session  string
	Families []string // each once
}

// Taken answers Take: the index of each family that was asked for.
type Taken map[string]uint32

// IndexesTaken says which indexes a session has.
type IndexesTaken struct {
	Session string            `json:"session"`
	Indexes map[string]uint32 `json:"indexes"`
	At      decision.Stamp    `json:"at"`
}

// EventType is the name the event is stored under.
func (IndexesTaken) EventType() string { return "derivation.indexes_taken.v1" }

// DecodeEvent reads an event of any version this package ever wrote.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	if eventType == (IndexesTaken{}).EventType() {
		return decision.Decode[IndexesTaken](payload)
	}
	return nil, fmt.Errorf("derivation: %w %q", decision.ErrUnknownEvent, eventType)
}

// Decide says what follows from a command. Errors are faults.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case Take:
		return s.take(m, c)
	case decision.Read:
		return decision.Decision{Reply: State{Next: maps.Clone(s.Next)}}, nil
	}
	panic(fmt.Sprintf("BUG: derivation command %T", command))
}

func (s *State) take(m decision.Meta, c Take) (decision.Decision, error) {
	taken := Taken{}
	for _, family := range c.Families {
		if s.Next[family] > maxIndex {
			return decision.Decision{}, fault.New(fault.LimitExceeded, "an account has no addresses left")
		}
		taken[family] = s.Next[family]
	}
	if len(taken) != len(c.Families) || len(taken) < 1 || len(taken) > MaxFamilies || c.Session == "" {
		panic("BUG: indexes for no session, of no family, or of one family twice")
	}
	return decision.Decision{
		Events: []decision.Event{IndexesTaken{Session: c.Session, Indexes: taken, At: decision.StampOf(m.At)}},
		Reply:  taken,
	}, nil
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
	for family, index := range taken.Indexes {
		if index < s.Next[family] {
			panic("BUG: an index is taken twice")
		}
		s.Next[family] = index + 1
	}
}
