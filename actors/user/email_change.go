package user

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
)

// A change of email has three steps, because the new email's slot differs from the user's. The user
// begins the change, the Address claims the new email, and the user commits the change. The
// reaction "emails" then releases the old email. A change that a crash interrupts ends at its
// Until, and the same reaction ends its claim. So an account has one email at any time, and no
// claim outlives its use.

// RecordEmailLink is the kind of record of an open link that confirms a new email. It is personal.
const RecordEmailLink = "email_link" // sha256 hex of the token → EmailLinkDocument

// Causes of the end of a change of email, of its link, and of what the change ends.
const (
	causeTaken = "taken" // another account has the email
	causeEmail = "email" // the account has another email
)

// EmailChange is a change of email that has begun.
type EmailChange struct {
	Number    int            `json:"number"`
	Address   string         `json:"address"` // AddressID of the new email
	EmailHash string         `json:"emailHash"`
	Until     decision.Stamp `json:"until"` // the change ends here unless it is committed
}

// HeldEmail names the claim of an email.
type HeldEmail struct {
	Address    string `json:"address"` // AddressID
	EmailHash  string `json:"emailHash"`
	Generation int    `json:"generation"`
}

// EmailLink is an open link that confirms a new email.
type EmailLink struct {
	Hash      string         `json:"hash"` // sha256 hex of the token
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

// EmailLinkDocument is the user and the new email of an open link. It is personal data.
type EmailLinkDocument struct {
	UserID    string         `json:"userId"`
	Email     string         `json:"email"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
}

// IssueEmailLink opens a link that confirms a new email until Expires, in place of an earlier one.
type IssueEmailLink struct {
	TokenHash, Email string
	Expires          time.Time
}

// BeginEmailChange begins a change of email, which ends at Until. The reply is BegunChange. It
// fails with invalid_body for the present email, and with unavailable while another change is under
// way.
type BeginEmailChange struct {
	Address, EmailHash string
	Until              time.Time
}

// BegunChange is the reply to BeginEmailChange.
type BegunChange struct{ Number int }

// CommitEmailChange makes the claimed email the user's. It ends every session, reset and link, and
// opens the session Start. Start.Changes is the Credential.Changes of the replaced credential. Link
// is the hash of the link that confirms it, or "" for none.
type CommitEmailChange struct {
	Number, Generation        int
	Email, PasswordHash, Link string
	Start                     StartSession
}

// AbandonEmailChange ends a change whose email another account has. Without such a change it
// changes nothing.
type AbandonEmailChange struct{ Number int }

// EmailLinkIssued records a link that confirms a new email. Link is the SHA-256 of its token.
type EmailLinkIssued struct {
	User      string         `json:"user"`
	Link      string         `json:"link"`
	ExpiresAt decision.Stamp `json:"expiresAt"`
	At        decision.Stamp `json:"at"`
}

// EmailLinkEnded records the end of such a link; Cause is used, expired, replaced or password.
type EmailLinkEnded struct {
	User  string         `json:"user"`
	Link  string         `json:"link"`
	Cause string         `json:"cause"`
	At    decision.Stamp `json:"at"`
}

// EmailChangeBegun records the begin of a change of email.
type EmailChangeBegun struct {
	User   string         `json:"user"`
	Change EmailChange    `json:"change"`
	At     decision.Stamp `json:"at"`
}

// EmailChanged records a new email, and the claim of the old one, which is to be released.
type EmailChanged struct {
	User   string         `json:"user"`
	Number int            `json:"number"`
	New    HeldEmail      `json:"new"`
	Old    HeldEmail      `json:"old"`
	At     decision.Stamp `json:"at"`
}

// EmailChangeEnded records the end of a change of email that did not happen; Cause is taken or
// expired. The claim of its email is to be ended.
type EmailChangeEnded struct {
	User   string         `json:"user"`
	Change EmailChange    `json:"change"`
	Cause  string         `json:"cause"`
	At     decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (EmailLinkIssued) EventType() string { return "user.email_link_issued.v1" }

// EventType is the name the event is stored under.
func (EmailLinkEnded) EventType() string { return "user.email_link_ended.v1" }

// EventType is the name the event is stored under.
func (EmailChangeBegun) EventType() string { return "user.email_change_begun.v1" }

// EventType is the name the event is stored under.
func (EmailChanged) EventType() string { return "user.email_changed.v1" }

// EventType is the name the event is stored under.
func (EmailChangeEnded) EventType() string { return "user.email_change_ended.v1" }

func changeLapsed() error {
	return fault.New(fault.Unavailable, "the change of the email took too long; nothing changed")
}

// decideEmail decides the commands about a change of email. Decide calls it. handled is false for
// any other command.
func (s *State) decideEmail(m decision.Meta, command any) (d decision.Decision, handled bool, err error) {
	switch c := command.(type) {
	case IssueEmailLink:
		return s.issueEmailLink(m, c), true, nil
	case BeginEmailChange:
		d, err = s.beginEmailChange(m, c)
	case CommitEmailChange:
		d, err = s.commitEmailChange(m, c)
	case AbandonEmailChange:
		d = decision.Decision{Reply: s.View()}
		if s.EmailChange != nil && s.EmailChange.Number == c.Number {
			s.endEmailChange(&d, causeTaken, decision.StampOf(m.At))
		}
	case decision.Fire:
		switch {
		case strings.HasPrefix(c.Key, emailTimerPrefix):
			d = s.fireEmailTimer(m, c)
		case strings.HasPrefix(c.Key, linkTimerPrefix):
			d = s.fireLinkTimer(m, c)
		default:
			return d, false, nil
		}
	default:
		return d, false, nil
	}
	return d, true, err
}

// issueEmailLink opens a link and closes an earlier one.
func (s *State) issueEmailLink(m decision.Meta, c IssueEmailLink) decision.Decision {
	at, expires := decision.StampOf(m.At), decision.StampOf(c.Expires)
	if c.TokenHash == "" || c.Email == "" || !expires.After(at.Time) {
		panic("BUG: link of an email without a token or email, or with a past expiry")
	}
	d := decision.Decision{Reply: s.View()}
	s.closeLink(&d, causeReplaced, at)
	d.Events = append(d.Events, EmailLinkIssued{User: s.ID, Link: c.TokenHash, ExpiresAt: expires, At: at})
	d.Records = append(d.Records, decision.Record{Kind: RecordEmailLink, ID: c.TokenHash, Personal: true,
		Document: EmailLinkDocument{UserID: s.ID, Email: c.Email, ExpiresAt: expires}})
	d.Timers = append(d.Timers, decision.Timer{Key: linkTimerPrefix + c.TokenHash, Due: expires.Time})
	return d
}

// beginEmailChange begins a change.
func (s *State) beginEmailChange(m decision.Meta, c BeginEmailChange) (decision.Decision, error) {
	at, until := decision.StampOf(m.At), decision.StampOf(c.Until)
	if c.Address == "" || c.EmailHash == "" || !until.After(at.Time) {
		panic("BUG: change of email without an address, or with a past end")
	}
	if c.EmailHash == s.EmailHash {
		return decision.Decision{}, fault.New(fault.InvalidBody, "newEmail is the email of the account already")
	}
	number := s.EmailChanges + 1
	d := decision.Decision{Reply: BegunChange{Number: number}}
	if open := s.EmailChange; open != nil {
		if open.Until.After(at.Time) {
			return decision.Decision{}, fault.New(fault.Unavailable,
				"another change of the email is under way; nothing changed")
		}
		s.endEmailChange(&d, causeExpired, at)
	}
	d.Events = append(d.Events, EmailChangeBegun{User: s.ID, At: at,
		Change: EmailChange{Number: number, Address: c.Address, EmailHash: c.EmailHash, Until: until}})
	d.Timers = append(d.Timers, decision.Timer{Key: emailTimer(number), Due: until.Time})
	return d, nil
}

// commitEmailChange stores the credential with the new email, closes all sessions, resets and
// links, and opens a session. It fails with unavailable for a change that has ended, and with
// invalid_credentials when the credential has changed since the caller read it and for a link that
// is not open.
func (s *State) commitEmailChange(m decision.Meta, c CommitEmailChange) (decision.Decision, error) {
	at := decision.StampOf(m.At)
	switch {
	case s.EmailChange == nil || s.EmailChange.Number != c.Number:
		return decision.Decision{}, changeLapsed()
	case c.Start.Changes != s.PasswordChanges:
		return decision.Decision{}, fault.New(fault.InvalidCredentials, "the email or the password is wrong")
	case c.Link != "" && !s.linkIsOpen(c.Link, at):
		return decision.Decision{}, fault.New(fault.InvalidCredentials, "token is unknown, used or expired")
	case c.Email == "" || c.PasswordHash == "":
		panic("BUG: credential without an email or a password hash")
	}
	d := decision.Decision{Reply: s.View()}
	change := *s.EmailChange
	d.Events = append(d.Events, EmailChanged{User: s.ID, Number: change.Number, Old: s.heldEmail(), At: at,
		New: HeldEmail{Address: change.Address, EmailHash: change.EmailHash, Generation: c.Generation}})
	d.Records = append(d.Records, decision.Record{Kind: RecordCredential, ID: s.ID, Personal: true,
		Document: Credential{Email: c.Email, PasswordHash: c.PasswordHash, Changes: s.PasswordChanges + 1,
			EmailChangedAt: at}})
	d.Timers = append(d.Timers, decision.Timer{Key: emailTimer(change.Number)})
	cause := causeEmail
	if c.Link != "" {
		cause = causeUsed
	}
	s.closeLink(&d, cause, at)
	for _, open := range s.Resets {
		s.closeReset(&d, open, causeEmail, at)
	}
	for _, old := range s.Sessions {
		s.closeSession(&d, old, causeEmail, at)
	}
	s.openSession(&d, c.Start, at)
	return d, nil
}

// heldEmail names the claim of the user's email. The email of a sign-up is in the user's own slot.
func (s *State) heldEmail() HeldEmail {
	held := HeldEmail{Address: s.Address, EmailHash: s.EmailHash, Generation: s.EmailGeneration}
	if held.Address == "" {
		slot, err := ident.SlotOf(s.ID)
		if err != nil {
			panic(fmt.Sprintf("BUG: user without a slot: %v", err))
		}
		held.Address = AddressID(slot, s.EmailHash)
	}
	return held
}

// endEmailChange adds the end of the change that has begun to a decision.
func (s *State) endEmailChange(d *decision.Decision, cause string, at decision.Stamp) {
	d.Events = append(d.Events, EmailChangeEnded{User: s.ID, Change: *s.EmailChange, Cause: cause, At: at})
	d.Timers = append(d.Timers, decision.Timer{Key: emailTimer(s.EmailChange.Number)})
}

// closeLink adds the end of the open link, if any, to a decision.
func (s *State) closeLink(d *decision.Decision, cause string, at decision.Stamp) {
	if s.EmailLink == nil {
		return
	}
	d.Events = append(d.Events, EmailLinkEnded{User: s.ID, Link: s.EmailLink.Hash, Cause: cause, At: at})
	d.Records = append(d.Records, decision.Record{Kind: RecordEmailLink, ID: s.EmailLink.Hash, Delete: true})
	d.Timers = append(d.Timers, decision.Timer{Key: linkTimerPrefix + s.EmailLink.Hash})
}

// linkIsOpen reports whether a token's link is open at a time.
func (s *State) linkIsOpen(hash string, at decision.Stamp) bool {
	return s.EmailLink != nil && s.EmailLink.Hash == hash && s.EmailLink.ExpiresAt.After(at.Time)
}

// fireEmailTimer ends a change that was not committed in time. It removes the timer of an ended
// change and resets an early timer.
func (s *State) fireEmailTimer(m decision.Meta, c decision.Fire) decision.Decision {
	d := decision.Decision{Reply: s.View()}
	switch open := s.EmailChange; {
	case open == nil || emailTimer(open.Number) != c.Key:
		d.Timers = []decision.Timer{{Key: c.Key}}
	case open.Until.After(m.At):
		d.Timers = []decision.Timer{{Key: c.Key, Due: open.Until.Time}}
	default:
		s.endEmailChange(&d, causeExpired, decision.StampOf(m.At))
	}
	return d
}

// fireLinkTimer ends a link that has expired. It removes the timer of a closed link and resets an
// early timer.
func (s *State) fireLinkTimer(m decision.Meta, c decision.Fire) decision.Decision {
	d := decision.Decision{Reply: s.View()}
	switch open := s.EmailLink; {
	case open == nil || linkTimerPrefix+open.Hash != c.Key:
		d.Timers = []decision.Timer{{Key: c.Key}}
	case open.ExpiresAt.After(m.At):
		d.Timers = []decision.Timer{{Key: c.Key, Due: open.ExpiresAt.Time}}
	default:
		s.closeLink(&d, causeExpired, decision.StampOf(m.At))
	}
	return d
}

// applyEmail folds an event of a change of email. It reports whether the event is one.
func (s *State) applyEmail(e decision.Event) bool {
	switch e := e.(type) {
	case EmailLinkIssued:
		s.EmailLink = &EmailLink{Hash: e.Link, ExpiresAt: e.ExpiresAt}
	case EmailLinkEnded:
		s.EmailLink = nil
	case EmailChangeBegun:
		s.EmailChange, s.EmailChanges = &e.Change, e.Change.Number
	case EmailChanged:
		s.EmailChange = nil
		s.Address, s.EmailHash, s.EmailGeneration = e.New.Address, e.New.EmailHash, e.New.Generation
		s.EmailChangedAt = e.At
		s.PasswordChanges++
	case EmailChangeEnded:
		s.EmailChange = nil
	default:
		return false
	}
	return true
}

const (
	emailTimerPrefix = "email/"
	linkTimerPrefix  = "email-link/"
)

func emailTimer(number int) string { return emailTimerPrefix + strconv.Itoa(number) }
