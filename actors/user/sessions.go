package user

import (
	"time"

	"purser/actors/decision"
	"purser/actors/fault"
)

// UseResolution is the precision of a session's last use.
const UseResolution = time.Hour

// sessionIDChars is the length of a session's id, the beginning of its hash.
const sessionIDChars = 32

// ID names the session to its user. It is no secret.
func (s Session) ID() string { return s.Hash[:min(sessionIDChars, len(s.Hash))] }

// UseDue reports whether the recorded last use is older than UseResolution. The edge then sends a
// NoteSession.
func (d SessionDocument) UseDue(at time.Time) bool { return at.Sub(d.UsedAt.Time) >= UseResolution }

// NoteSession records a use of a session now, unless the last record is within UseResolution.
type NoteSession struct{ SecretHash string }

// ListSessions asks for the open sessions, oldest first. The reply is a []Session.
type ListSessions struct{}

// EndSessions closes the session with the id, or, with an empty ID, all but the session with the
// hash Keep. The reply is the closed []Session. It fails with not_found for an id without an open
// session.
type EndSessions struct{ ID, Keep string }

// SessionUsed records a use of a session, at most once per UseResolution.
type SessionUsed struct {
	User    string         `json:"user"`
	Session string         `json:"session"`
	At      decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (SessionUsed) EventType() string { return "user.session_used.v1" }

// noteSession records a session's use. A session that is not open, or whose use was recorded within
// UseResolution, changes nothing.
func (s *State) noteSession(m decision.Meta, c NoteSession) decision.Decision {
	d := decision.Decision{Reply: s.View()}
	at := decision.StampOf(m.At)
	i := s.sessionIndex(c.SecretHash)
	if i < 0 {
		return d
	}
	document := SessionDocument{UserID: s.ID, ExpiresAt: s.Sessions[i].ExpiresAt, UsedAt: s.Sessions[i].UsedAt}
	if !document.UseDue(at.Time) {
		return d
	}
	document.UsedAt = at
	d.Events = []decision.Event{SessionUsed{User: s.ID, Session: c.SecretHash, At: at}}
	d.Records = []decision.Record{{Kind: RecordSession, ID: c.SecretHash, Document: document}}
	return d
}

// listSessions replies the sessions that have not expired.
func (s *State) listSessions(m decision.Meta) decision.Decision {
	open := []Session{}
	for _, session := range s.Sessions {
		if session.ExpiresAt.After(m.At) {
			open = append(open, session)
		}
	}
	return decision.Decision{Reply: open}
}

// endSessions closes one session, or all but one.
func (s *State) endSessions(m decision.Meta, c EndSessions) (decision.Decision, error) {
	at := decision.StampOf(m.At)
	d, ended := decision.Decision{}, []Session{}
	for _, session := range s.Sessions {
		named := c.ID != "" && session.ID() == c.ID && session.ExpiresAt.After(at.Time)
		if named || c.ID == "" && session.Hash != c.Keep {
			s.closeSession(&d, session, causeEnded, at)
			ended = append(ended, session)
		}
	}
	if c.ID != "" && len(ended) == 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	d.Reply = ended
	return d, nil
}
