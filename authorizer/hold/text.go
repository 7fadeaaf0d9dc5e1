package hold

import (
	"fmt"
	"slices"
	"strconv"
)

// Names of the enumerations in the interface, the journal and the logs. The index is the value; ""
// is no value. The names of Reason are in reason.go.
var (
	kindNames = []string{
		Authorization: "authorization", Incremental: "incremental", Reversal: "reversal", Clearing: "clearing",
		Refund: "refund", Expiry: "expiry", TimeoutReturn: "timeout_return",
	}
	decisionNames = []string{
		Approved: "approved", Declined: "declined", Posted: "posted", Unmatched: "unmatched", Applied: "applied",
	}
	statusNames = []string{
		StatusNone: "none", StatusHeld: "held", StatusPartiallyCleared: "partially_cleared", StatusCleared: "cleared",
		StatusReversed: "reversed", StatusExpired: "expired", StatusDeclined: "declined",
	}
	cardStateNames = []string{CardActive: "active", CardFrozen: "frozen", CardTerminated: "terminated"}
)

func (k Kind) String() string      { return nameOf(kindNames, "kind", k) }
func (d Decision) String() string  { return nameOf(decisionNames, "decision", d) }
func (s Status) String() string    { return nameOf(statusNames, "status", s) }
func (s CardState) String() string { return nameOf(cardStateNames, "card state", s) }

// MarshalText returns the name; a value without one is an error.
func (k Kind) MarshalText() ([]byte, error) { return marshalName(kindNames, "kind", k) }

// MarshalText returns the name; a value without one is an error.
func (d Decision) MarshalText() ([]byte, error) { return marshalName(decisionNames, "decision", d) }

// MarshalText returns the name; a value without one is an error.
func (s Status) MarshalText() ([]byte, error) { return marshalName(statusNames, "status", s) }

// MarshalText returns the name; a value without one is an error.
func (s CardState) MarshalText() ([]byte, error) { return marshalName(cardStateNames, "card state", s) }

// UnmarshalText parses a name.
func (k *Kind) UnmarshalText(b []byte) error { return unmarshalName(kindNames, "kind", b, k) }

// UnmarshalText parses a name.
func (d *Decision) UnmarshalText(b []byte) error {
	return unmarshalName(decisionNames, "decision", b, d)
}

// UnmarshalText parses a name.
func (s *Status) UnmarshalText(b []byte) error { return unmarshalName(statusNames, "status", b, s) }

// UnmarshalText parses a name.
func (s *CardState) UnmarshalText(b []byte) error {
	return unmarshalName(cardStateNames, "card state", b, s)
}

type enum interface{ ~uint8 }

func isNamed[E enum](names []string, v E) bool { return int(v) < len(names) && names[v] != "" }

func nameOf[E enum](names []string, what string, v E) string {
	if !isNamed(names, v) {
		return what + " " + strconv.Itoa(int(v))
	}
	return names[v]
}

func marshalName[E enum](names []string, what string, v E) ([]byte, error) {
	if !isNamed(names, v) {
		return nil, fmt.Errorf("no such %s: %d", what, v)
	}
	return []byte(names[v]), nil
}

func unmarshalName[E enum](names []string, what string, b []byte, v *E) error {
	i := slices.Index(names, string(b))
	if i < 0 || len(b) == 0 {
		return fmt.Errorf("no such %s: %q", what, b)
	}
	*v = E(i)
	return nil
}
