package user

import (
	"fmt"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
)

// Address is the claim of one email by at most one user. Its actor is in the slot of the email, so
// that users who want the same email meet there. Each release begins a new generation, and a
// generation is claimed at most once: the once-key of a claim never expires. A sign-up claims the
// present generation by the same once-key, and the Address does not know of it. The zero Address is
// of generation 0.
type Address struct {
	Hash       string `json:"hash"`             // EmailHash
	Generation int    `json:"generation"`       // releases so far
	Holder     string `json:"holder,omitempty"` // the user whose change of email claims it, or ""
	Change     int    `json:"change,omitempty"` // EmailChange.Number of the holder's change
}

// AddressID returns the id of the actor of an email in a slot. The route that changes an email
// calls it, and the decision that releases the email of a sign-up.
func AddressID(slot ident.Slot, emailHash string) string {
	return ident.Derive(slot, time.UnixMilli(0), "email/"+emailHash).Format(ident.Address)
}

// ClaimEmail claims an email for a change of email, before Until. The reply is Claimed. A repeat
// replies the same. It fails with email_taken, and with unavailable from Until on.
type ClaimEmail struct {
	EmailHash, UserID string
	Change            int
	Until             time.Time
}

// Claimed is the reply to ClaimEmail.
type Claimed struct{ Generation int }

// ReleaseEmail ends the claim of a generation, by its holder. A generation that has ended changes
// nothing.
type ReleaseEmail struct {
	EmailHash  string
	Generation int
}

// AbandonEmail ends the claim of a change of email that did not happen. Without such a claim it
// changes nothing.
type AbandonEmail struct {
	EmailHash, UserID string
	Change            int
}

// EmailClaimed records the claim of an email by a change of email.
type EmailClaimed struct {
	EmailHash  string         `json:"emailHash"`
	User       string         `json:"user"`
	Change     int            `json:"change"`
	Generation int            `json:"generation"`
	At         decision.Stamp `json:"at"`
}

// EmailReleased records the end of a claim. Generation is the one that begins.
type EmailReleased struct {
	EmailHash  string         `json:"emailHash"`
	Generation int            `json:"generation"`
	At         decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (EmailClaimed) EventType() string { return "address.claimed.v1" }

// EventType is the name the event is stored under.
func (EmailReleased) EventType() string { return "address.released.v1" }

// Decide returns the decision for a command. The address's actor calls it and commits the result.
// Its errors are the faults of the command's decision. An unknown command panics.
func (a *Address) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case ClaimEmail:
		return a.claimEmail(m, c)
	case ReleaseEmail:
		if c.Generation != a.Generation {
			return decision.Decision{}, nil
		}
		return a.releaseEmail(m, c.EmailHash), nil
	case AbandonEmail:
		if a.Holder != c.UserID || a.Change != c.Change {
			return decision.Decision{}, nil
		}
		return a.releaseEmail(m, c.EmailHash), nil
	case decision.Read:
		return decision.Decision{Reply: *a}, nil
	}
	panic(fmt.Sprintf("BUG: address command %T", command))
}

// claimEmail claims the present generation. The commit refuses one that a sign-up has claimed with
// email_taken.
func (a *Address) claimEmail(m decision.Meta, c ClaimEmail) (decision.Decision, error) {
	if c.EmailHash == "" || c.UserID == "" || c.Change <= 0 {
		panic("BUG: claim of an email without its hash, user or change")
	}
	claimed := Claimed{Generation: a.Generation}
	if a.Holder == c.UserID && a.Change == c.Change {
		return decision.Decision{Reply: claimed}, nil
	}
	if a.Holder != "" {
		return decision.Decision{}, fault.New(fault.EmailTaken, emailTaken)
	}
	if !m.At.Before(decision.StampOf(c.Until).Time) {
		return decision.Decision{}, changeLapsed()
	}
	return decision.Decision{
		Events: []decision.Event{EmailClaimed{EmailHash: c.EmailHash, User: c.UserID, Change: c.Change,
			Generation: a.Generation, At: decision.StampOf(m.At)}},
		Reply: claimed,
		Records: []decision.Record{{Kind: RecordEmail, ID: c.EmailHash,
			Document: EmailDocument{UserID: c.UserID, Generation: a.Generation}}},
		Onces: []decision.Once{claimOf(c.EmailHash, a.Generation)},
	}, nil
}

// releaseEmail ends the present generation. The record then names no user, and tells a sign-up the
// next generation.
func (a *Address) releaseEmail(m decision.Meta, emailHash string) decision.Decision {
	next := a.Generation + 1
	return decision.Decision{
		Events: []decision.Event{EmailReleased{EmailHash: emailHash, Generation: next, At: decision.StampOf(m.At)}},
		Records: []decision.Record{{Kind: RecordEmail, ID: emailHash,
			Document: EmailDocument{Generation: next}}},
	}
}

// Apply folds an event into the state. The address's actor calls it for each event that it decides;
// it loads the state from its record, not from events. An unknown event panics.
func (a *Address) Apply(e decision.Event) {
	switch e := e.(type) {
	case EmailClaimed:
		a.Hash, a.Holder, a.Change = e.EmailHash, e.User, e.Change
	case EmailReleased:
		*a = Address{Hash: e.EmailHash, Generation: e.Generation}
	default:
		panic(fmt.Sprintf("BUG: address event %T", e))
	}
}

const emailTaken = "an account with this email exists"

// claimOf returns the once-key of an email's generation. Generation 0 has the key of versions
// without generations.
func claimOf(emailHash string, generation int) decision.Once {
	key := emailHash
	if generation > 0 {
		key = fmt.Sprintf("%s/%d", emailHash, generation)
	}
	return decision.Once{Scope: ScopeEmail, Key: key, Code: string(fault.EmailTaken), Message: emailTaken}
}
