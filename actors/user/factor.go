package user

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"purser/actors/decision"
	"purser/actors/fault"
)

// RecoveryCodes is how many recovery codes a second factor begins with.
const RecoveryCodes = 10

// Kinds of records of the second factor. Both are personal, so that they are sealed.
const (
	RecordFactor        = "second_factor"         // usr_ id → FactorDocument
	RecordPendingFactor = "pending_second_factor" // usr_ id → PendingFactor
)

// Factor is an enabled second factor: codes that an authenticator derives from a shared secret and
// the time, and recovery codes.
type Factor struct {
	Serial    int            `json:"serial"` // FactorDocument.Serial of its secret
	EnabledAt decision.Stamp `json:"enabledAt"`
	LastStep  int64          `json:"lastStep"` // the time step of the newest accepted code
	Recovery  []string       `json:"recovery"` // RecoveryHash of the unused recovery codes
}

// FactorDocument is the shared secret of the enabled second factor.
type FactorDocument struct {
	Secret string `json:"secret"` // base32
	Serial int    `json:"serial"`
}

// PendingFactor is a secret that no code has confirmed yet. Session is the hash of the session that
// asked for it and alone may see it.
type PendingFactor struct {
	Secret  string `json:"secret"`
	Session string `json:"session"`
}

// BeginFactor stores a secret for a second factor, in place of an earlier one that was not
// confirmed. It fails with second_factor_enabled.
type BeginFactor struct{ Secret, Session string }

// EnableFactor makes a secret the second factor. Step is the time step of the code that confirmed
// it, and Recovery holds the hashes of its recovery codes. It fails with second_factor_enabled.
type EnableFactor struct {
	Secret   string
	Step     int64
	Recovery []string
}

// DisableFactor removes the second factor. Without one it changes nothing.
type DisableFactor struct{}

// FactorProof is a checked code of the second factor with a Serial: the time step of a code, or the
// hash of a recovery code.
type FactorProof struct {
	Serial   int
	Step     int64
	Recovery string
}

// FactorBegun records that a user has asked for a second factor.
type FactorBegun struct {
	User string         `json:"user"`
	At   decision.Stamp `json:"at"`
}

// FactorEnabled records a new second factor. Recovery holds the hashes of its recovery codes.
type FactorEnabled struct {
	User     string         `json:"user"`
	Serial   int            `json:"serial"`
	Step     int64          `json:"step"`
	Recovery []string       `json:"recovery"`
	At       decision.Stamp `json:"at"`
}

// FactorUsed records a sign-in with a code: its time step, or the hash of a recovery code.
type FactorUsed struct {
	User     string         `json:"user"`
	Step     int64          `json:"step,omitempty"`
	Recovery string         `json:"recovery,omitempty"`
	At       decision.Stamp `json:"at"`
}

// FactorDisabled records the end of the second factor.
type FactorDisabled struct {
	User string         `json:"user"`
	At   decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (FactorBegun) EventType() string { return "user.factor_begun.v1" }

// EventType is the name the event is stored under.
func (FactorEnabled) EventType() string { return "user.factor_enabled.v1" }

// EventType is the name the event is stored under.
func (FactorUsed) EventType() string { return "user.factor_used.v1" }

// EventType is the name the event is stored under.
func (FactorDisabled) EventType() string { return "user.factor_disabled.v1" }

// RecoveryHash returns the hash of a user's recovery code. A code has 80 random bits, so the hash
// needs no salt beside the user.
func RecoveryHash(userID, code string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(userID+"|"+code)))
}

func factorEnabled() error {
	return fault.New(fault.SecondFactorEnabled, "the account has a second factor; disable it first")
}

// beginFactor stores a pending secret.
func (s *State) beginFactor(m decision.Meta, c BeginFactor) (decision.Decision, error) {
	if s.Factor != nil {
		return decision.Decision{}, factorEnabled()
	}
	return decision.Decision{
		Events: []decision.Event{FactorBegun{User: s.ID, At: decision.StampOf(m.At)}},
		Reply:  s.View(),
		Records: []decision.Record{{Kind: RecordPendingFactor, ID: s.ID, Personal: true,
			Document: PendingFactor(c)}},
	}, nil
}

// enableFactor stores the secret as the second factor and removes the pending one.
func (s *State) enableFactor(m decision.Meta, c EnableFactor) (decision.Decision, error) {
	if s.Factor != nil {
		return decision.Decision{}, factorEnabled()
	}
	if c.Secret == "" || c.Step <= 0 || len(c.Recovery) != RecoveryCodes {
		panic("BUG: second factor without a secret, a step or its recovery codes")
	}
	serial := s.Factors + 1
	return decision.Decision{
		Events: []decision.Event{FactorEnabled{User: s.ID, Serial: serial, Step: c.Step, Recovery: c.Recovery,
			At: decision.StampOf(m.At)}},
		Reply: s.View(),
		Records: []decision.Record{
			{Kind: RecordFactor, ID: s.ID, Personal: true, Document: FactorDocument{Secret: c.Secret, Serial: serial}},
			{Kind: RecordPendingFactor, ID: s.ID, Delete: true},
		},
	}, nil
}

// disableFactor removes the second factor and its recovery codes.
func (s *State) disableFactor(m decision.Meta) decision.Decision {
	d := decision.Decision{Reply: s.View()}
	if s.Factor != nil {
		d.Events = []decision.Event{FactorDisabled{User: s.ID, At: decision.StampOf(m.At)}}
		d.Records = []decision.Record{{Kind: RecordFactor, ID: s.ID, Delete: true}}
	}
	return d
}

// useFactor adds the use of a code to the decision of a sign-in. A step is accepted once, and none
// before it afterwards; a recovery code is accepted once. Without a second factor it adds nothing.
// It fails with invalid_credentials.
func (s *State) useFactor(d *decision.Decision, proof *FactorProof, at decision.Stamp) error {
	if s.Factor == nil {
		return nil
	}
	wrong := fault.New(fault.InvalidCredentials, "code is wrong, or was used before")
	switch {
	case proof == nil || proof.Serial != s.Factor.Serial:
		return wrong
	case proof.Recovery != "" && !slices.Contains(s.Factor.Recovery, proof.Recovery):
		return wrong
	case proof.Recovery == "" && proof.Step <= s.Factor.LastStep:
		return wrong
	}
	used := FactorUsed{User: s.ID, Step: proof.Step, At: at}
	if proof.Recovery != "" {
		used.Step, used.Recovery = 0, proof.Recovery
	}
	d.Events = append(d.Events, used)
	return nil
}

// applyFactor folds an event of the second factor. It reports whether the event is one.
func (s *State) applyFactor(e decision.Event) bool {
	switch e := e.(type) {
	case FactorBegun:
	case FactorEnabled:
		s.Factors = e.Serial
		s.Factor = &Factor{Serial: e.Serial, EnabledAt: e.At, LastStep: e.Step, Recovery: e.Recovery}
	case FactorUsed:
		after := *s.Factor
		after.LastStep = max(after.LastStep, e.Step)
		after.Recovery = slices.DeleteFunc(slices.Clone(after.Recovery), func(hash string) bool { return hash == e.Recovery })
		s.Factor = &after
	case FactorDisabled:
		s.Factor = nil
	default:
		return false
	}
	return true
}
