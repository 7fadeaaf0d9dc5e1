package user

import (
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
)

// MaxResets bounds the open password resets of a user. An operator's beyond it ends the oldest, and
// a mailed one is refused, so strangers cannot fill a mailbox.
const MaxResets = 5

// RecordReset is the kind of record of open password resets.
const RecordReset = "password_reset" // sha256 hex of the token → ResetDocument

// Causes of a reset's end. A reset also ends as expired, replaced, and with a change of password.
const causeUsed = "used"

// Reset is an open password reset.
type Reset struct {
	Hash      string         `json:"hash"` // sha256 hex of the token
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

// ResetDocument maps a password reset to its user.
type ResetDocument struct {
	UserID    string         `json:"userId"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

// IssueReset opens a password reset that ends at Expires. Operator marks one that an operator hands
// over; any other is mailed.
type IssueReset struct {
	TokenHash string
	Expires   time.Time
	Operator  bool
}

// ResetPassword replaces the password hash by the right of an open reset. It ends every reset and
// every session, and opens none. Changes is the Credential.Changes of the replaced credential.
type ResetPassword struct {
	TokenHash, Email, PasswordHash string
	Changes                        int
}

// ResetIssued records a new password reset. Reset is the SHA-256 of its token.
type ResetIssued struct {
	User      string         `json:"user"`
	Reset     string         `json:"reset"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
	At        decision.Stamp `json:"at"`
}

// ResetEnded records the end of a password reset; Cause is used, expired, replaced, password or
// email.
type ResetEnded struct {
	User  string         `json:"user"`
	Reset string         `json:"reset"`
	Cause string         `json:"cause"`
	At    decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (ResetIssued) EventType() string { return "user.reset_issued.v1" }

// EventType is the name the event is stored under.
func (ResetEnded) EventType() string { return "user.reset_ended.v1" }

// issueReset opens a reset, and closes the expired ones. Beyond MaxResets it closes the oldest for
// an operator, and otherwise fails with limit_exceeded.
func (s *State) issueReset(m decision.Meta, c IssueReset) (decision.Decision, error) {
	at, expires := decision.StampOf(m.At), decision.StampOf(c.Expires)
	if c.TokenHash == "" || !expires.After(at.Time) || s.openReset(c.TokenHash, at) {
		panic("BUG: reset without a token, with a past expiry or issued twice")
	}
	d := decision.Decision{Reply: s.View()}
	var open []Reset
	for _, old := range s.Resets {
		if old.ExpiresAt.After(at.Time) {
			open = append(open, old)
			continue
		}
		s.closeReset(&d, old, causeExpired, at)
	}
	if len(open) >= MaxResets && !c.Operator {
		return decision.Decision{}, fault.New(fault.LimitExceeded, "the user has as many open resets as allowed")
	}
	for _, oldest := range open[:max(0, len(open)+1-MaxResets)] {
		s.closeReset(&d, oldest, causeReplaced, at)
	}
	d.Events = append(d.Events, ResetIssued{User: s.ID, Reset: c.TokenHash, ExpiresAt: expires, At: at})
	d.Records = append(d.Records, decision.Record{
		Kind: RecordReset, ID: c.TokenHash, Document: ResetDocument{UserID: s.ID, ExpiresAt: expires},
	})
	d.Timers = append(d.Timers, decision.Timer{Key: resetTimerPrefix + c.TokenHash, Due: expires.Time})
	return d, nil
}

// resetPassword stores the new credential and closes all resets and sessions. It fails with
// invalid_credentials for a reset that is not open, and when the credential has changed since the
// caller read it.
func (s *State) resetPassword(m decision.Meta, c ResetPassword) (decision.Decision, error) {
	at := decision.StampOf(m.At)
	if !s.openReset(c.TokenHash, at) || c.Changes != s.PasswordChanges {
		return decision.Decision{}, fault.New(fault.InvalidCredentials, "token is unknown, used or expired")
	}
	d := decision.Decision{Reply: s.View()}
	s.replaceCredential(&d, c.Email, c.PasswordHash, at)
	for _, open := range s.Resets {
		cause := causePassword
		if open.Hash == c.TokenHash {
			cause = causeUsed
		}
		s.closeReset(&d, open, cause, at)
	}
	return d, nil
}

// fireResetTimer ends a reset that has expired, and removes the timer of a closed one.
func (s *State) fireResetTimer(m decision.Meta, key, hash string) decision.Decision {
	d := decision.Decision{Reply: s.View()}
	at := decision.StampOf(m.At)
	for _, open := range s.Resets {
		if open.Hash != hash {
			continue
		}
		if open.ExpiresAt.After(at.Time) {
			d.Timers = []decision.Timer{{Key: key, Due: open.ExpiresAt.Time}}
			return d
		}
		s.closeReset(&d, open, causeExpired, at)
		return d
	}
	d.Timers = []decision.Timer{{Key: key}}
	return d
}

func (s *State) closeReset(d *decision.Decision, old Reset, cause string, at decision.Stamp) {
	d.Events = append(d.Events, ResetEnded{User: s.ID, Reset: old.Hash, Cause: cause, At: at})
	d.Records = append(d.Records, decision.Record{Kind: RecordReset, ID: old.Hash, Delete: true})
	d.Timers = append(d.Timers, decision.Timer{Key: resetTimerPrefix + old.Hash})
}

// openReset reports whether a token's reset is open at a time.
func (s *State) openReset(hash string, at decision.Stamp) bool {
	for _, open := range s.Resets {
		if open.Hash == hash {
			return open.ExpiresAt.After(at.Time)
		}
	}
	return false
}

const resetTimerPrefix = "reset/"
