package user

import (
	"fmt"
	"slices"
	"strings"

	"purser/actors/decision"
	"purser/actors/fault"
)

// Causes of a session's end.
const (
	causeLogout   = "logout"
	causeExpired  = "expired"
	causeReplaced = "replaced"
	causePassword = "password"
	causeEnded    = "ended" // by the user, from another session
)

// Decide returns the decision for a command. A reply is a View unless the command names another.
// The user's actor calls it and commits the result. Its errors are the faults of the command's
// decision; not_found for a user that does not exist. An unknown command panics.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	if c, ok := command.(Register); ok {
		return s.registerUser(m, c)
	}
	if s.ID == "" {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	if d, handled, err := s.decideEmail(m, command); handled {
		return d, err
	}
	switch c := command.(type) {
	case StartSession:
		return s.startSession(m, c)
	case ChangePassword:
		return s.changePassword(m, c)
	case IssueReset:
		return s.issueReset(m, c)
	case ResetPassword:
		return s.resetPassword(m, c)
	case BeginFactor:
		return s.beginFactor(m, c)
	case EnableFactor:
		return s.enableFactor(m, c)
	case DisableFactor:
		return s.disableFactor(m), nil
	case NoteSession:
		return s.noteSession(m, c), nil
	case ListSessions:
		return s.listSessions(m), nil
	case EndSessions:
		return s.endSessions(m, c)
	case EndSession:
		return s.endSession(m, c), nil
	case Join:
		return s.joinWorkspace(m, c), nil
	case Leave:
		return s.leaveWorkspace(m, c), nil
	case decision.Fire:
		if hash, isReset := strings.CutPrefix(c.Key, resetTimerPrefix); isReset {
			return s.fireResetTimer(m, c.Key, hash), nil
		}
		return s.fireSessionTimer(m, c), nil
	case decision.Read:
		return decision.Decision{Reply: s.View()}, nil
	}
	panic(fmt.Sprintf("BUG: user command %T", command))
}

// registerUser creates the user and claims the email. It fails with invalid_body for a text that is
// no email address; the commit refuses a taken email with email_taken. A second Register panics.
func (s *State) registerUser(m decision.Meta, c Register) (decision.Decision, error) {
	if s.ID != "" {
		panic("BUG: user registered twice")
	}
	folded, ok := FoldEmail(c.Email)
	if !ok {
		return decision.Decision{}, fault.New(fault.InvalidBody, "email: not an email address")
	}
	if c.ID == "" || c.PasswordHash == "" {
		panic("BUG: user without an id or password hash")
	}
	hash := EmailHash(folded)
	e := Registered{ID: c.ID, EmailHash: hash, Generation: c.Generation, At: decision.StampOf(m.At)}
	email := strings.TrimSpace(c.Email)
	reply := View{ID: c.ID, Email: email, CreatedAt: e.At, Workspaces: []Membership{}}
	return decision.Decision{
		Events: []decision.Event{e},
		Reply:  reply,
		Records: []decision.Record{
			{Kind: RecordEmail, ID: hash, Document: EmailDocument{UserID: c.ID, Generation: c.Generation}},
			{Kind: RecordCredential, ID: c.ID, Personal: true,
				Document: Credential{Email: email, PasswordHash: c.PasswordHash}},
		},
		Onces: []decision.Once{claimOf(hash, c.Generation)},
	}, nil
}

// startSession opens a session, and closes the expired ones and the oldest beyond MaxSessions. It
// fails with invalid_credentials when the password has changed since the caller checked it, and
// like useFactor.
func (s *State) startSession(m decision.Meta, c StartSession) (decision.Decision, error) {
	if c.Changes != s.PasswordChanges {
		return decision.Decision{}, fault.New(fault.InvalidCredentials, "the email or the password is wrong")
	}
	at := decision.StampOf(m.At)
	d := decision.Decision{Reply: s.View()}
	if err := s.useFactor(&d, c.Proof, at); err != nil {
		return decision.Decision{}, err
	}
	var open []Session
	for _, old := range s.Sessions {
		if old.ExpiresAt.After(at.Time) {
			open = append(open, old)
			continue
		}
		s.closeSession(&d, old, causeExpired, at)
	}
	for _, oldest := range open[:max(0, len(open)+1-MaxSessions)] {
		s.closeSession(&d, oldest, causeReplaced, at)
	}
	s.openSession(&d, c, at)
	return d, nil
}

// changePassword stores the new credential, closes all sessions and resets, and opens a session. It
// fails with invalid_credentials when the password has changed since the caller checked it.
func (s *State) changePassword(m decision.Meta, c ChangePassword) (decision.Decision, error) {
	if c.Start.Changes != s.PasswordChanges {
		return decision.Decision{}, fault.New(fault.InvalidCredentials, "the email or the password is wrong")
	}
	at := decision.StampOf(m.At)
	d := decision.Decision{Reply: s.View()}
	s.replaceCredential(&d, c.Email, c.PasswordHash, at)
	for _, open := range s.Resets {
		s.closeReset(&d, open, causePassword, at)
	}
	s.openSession(&d, c.Start, at)
	return d, nil
}

// replaceCredential adds a new password hash to a decision, and the end of every session and of a
// link that confirms a new email. It panics for a credential without an email or a password hash.
func (s *State) replaceCredential(d *decision.Decision, email, passwordHash string, at decision.Stamp) {
	if email == "" || passwordHash == "" {
		panic("BUG: credential without an email or a password hash")
	}
	d.Events = append(d.Events, PasswordChanged{User: s.ID, At: at})
	d.Records = append(d.Records, decision.Record{Kind: RecordCredential, ID: s.ID, Personal: true,
		Document: Credential{Email: email, PasswordHash: passwordHash, Changes: s.PasswordChanges + 1,
			EmailChangedAt: s.EmailChangedAt}})
	s.closeLink(d, causePassword, at)
	for _, old := range s.Sessions {
		s.closeSession(d, old, causePassword, at)
	}
}

// openSession adds a session to a decision: its event, its record and the timer of its expiry. It
// panics for a session without a secret or a life, or started twice. startSession,
// changePassword and commitEmailChange call it.
func (s *State) openSession(d *decision.Decision, c StartSession, at decision.Stamp) {
	expires := decision.StampOf(at.Add(c.Life))
	if c.SecretHash == "" || c.Life <= 0 {
		panic("BUG: session without a secret or a life")
	}
	if s.sessionIndex(c.SecretHash) >= 0 {
		panic("BUG: session started twice")
	}
	if len(c.Places) > MaxPlaces {
		panic("BUG: more than MaxPlaces sign-in places")
	}
	d.Events = append(d.Events, SessionStarted{User: s.ID, Session: c.SecretHash, ExpiresAt: expires, At: at})
	d.Records = append(d.Records, decision.Record{
		Kind: RecordSession, ID: c.SecretHash, Document: SessionDocument{UserID: s.ID, ExpiresAt: expires, UsedAt: at},
	})
	if len(c.Places) > 0 {
		d.Records = append(d.Records, decision.Record{Kind: RecordPlaces, ID: s.ID, Personal: true, Document: c.Places})
	}
	d.Timers = append(d.Timers, decision.Timer{Key: timerKey(c.SecretHash), Due: expires.Time})
}

// endSession closes the session with the hash; a closed one changes nothing.
func (s *State) endSession(m decision.Meta, c EndSession) decision.Decision {
	d := decision.Decision{Reply: s.View()}
	if i := s.sessionIndex(c.SecretHash); i >= 0 {
		s.closeSession(&d, s.Sessions[i], causeLogout, decision.StampOf(m.At))
	}
	return d
}

// fireSessionTimer ends a session that has expired. It removes the timer of a closed session, and
// resets the timer of a session with a later end.
func (s *State) fireSessionTimer(m decision.Meta, c decision.Fire) decision.Decision {
	d := decision.Decision{Reply: s.View()}
	at := decision.StampOf(m.At)
	i := s.sessionIndex(strings.TrimPrefix(c.Key, timerPrefix))
	switch {
	case i < 0:
		d.Timers = []decision.Timer{{Key: c.Key}}
	case s.Sessions[i].ExpiresAt.After(at.Time):
		d.Timers = []decision.Timer{{Key: c.Key, Due: s.Sessions[i].ExpiresAt.Time}}
	default:
		s.closeSession(&d, s.Sessions[i], causeExpired, at)
	}
	return d
}

func (s *State) closeSession(d *decision.Decision, old Session, cause string, at decision.Stamp) {
	d.Events = append(d.Events, SessionEnded{User: s.ID, Session: old.Hash, Cause: cause, At: at})
	d.Records = append(d.Records, decision.Record{Kind: RecordSession, ID: old.Hash, Delete: true})
	d.Timers = append(d.Timers, decision.Timer{Key: timerKey(old.Hash)})
}

// joinWorkspace adds a workspace to the user's list, or updates its name and role there. It never
// refuses, because the workspace has already decided. A full list gets no further workspace.
func (s *State) joinWorkspace(m decision.Meta, c Join) decision.Decision {
	joined := Membership{ID: c.Workspace, Name: c.Name, Role: c.Role, Foreign: c.Foreign}
	i := s.membershipIndex(c.Workspace)
	if i >= 0 {
		joined.Foreign = s.Workspaces[i].Foreign
	}
	full := i < 0 && !HasRoom(s.Workspaces, c.Foreign)
	if full || i >= 0 && s.Workspaces[i] == joined {
		return decision.Decision{Reply: s.View()}
	}
	return s.membershipDecision(Joined{
		User: s.ID, Workspace: c.Workspace, Name: c.Name, Role: c.Role, Foreign: joined.Foreign,
		At: decision.StampOf(m.At),
	})
}

// HasRoom reports whether one more workspace fits into a user's list. Own and foreign workspaces
// have a limit each. The routes that create a workspace and accept an invitation call it first, and
// joinWorkspace calls it again.
func HasRoom(listed []Membership, foreign bool) bool {
	return countListed(listed, foreign) < map[bool]int{false: MaxOwn, true: MaxForeign}[foreign]
}

// HasRoomForGiven reports whether a key that does not descend from the user may make the user an
// owner of one more workspace.
func HasRoomForGiven(listed []Membership) bool { return countListed(listed, true) < MaxGiven }

func countListed(listed []Membership, foreign bool) (n int) {
	for i := range listed {
		if listed[i].Foreign == foreign {
			n++
		}
	}
	return n
}

// DefaultWorkspace returns the workspace of a session whose request names none: the user's only own
// workspace or, without any own, the only foreign one. ok is false when there is no such workspace.
// Foreign memberships therefore never make an owner's session ambiguous.
func (v View) DefaultWorkspace() (id string, ok bool) {
	for _, foreign := range []bool{false, true} {
		n := 0
		for _, w := range v.Workspaces {
			if w.Foreign == foreign {
				id, n = w.ID, n+1
			}
		}
		if n > 0 {
			return id, n == 1
		}
	}
	return "", false
}

func (s *State) leaveWorkspace(m decision.Meta, c Leave) decision.Decision {
	if s.membershipIndex(c.Workspace) < 0 {
		return decision.Decision{Reply: s.View()}
	}
	return s.membershipDecision(Left{User: s.ID, Workspace: c.Workspace, At: decision.StampOf(m.At)})
}

// membershipDecision replies with the user as it is after an event that changes the memberships.
func (s *State) membershipDecision(e decision.Event) decision.Decision {
	after := *s
	after.Workspaces = slices.Clone(s.Workspaces)
	after.Apply(e)
	return decision.Decision{Events: []decision.Event{e}, Reply: after.View()}
}

// Apply folds an event into the state. The user's actor calls it for each event that it decides; it
// loads the state from its record, not from events. An unknown event panics.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case Registered:
		*s = State{ID: e.ID, EmailHash: e.EmailHash, EmailGeneration: e.Generation, CreatedAt: e.At,
			Sessions: []Session{}, Workspaces: []Membership{}}
	case SessionStarted:
		s.Sessions = append(s.Sessions, Session{Hash: e.Session, ExpiresAt: e.ExpiresAt, UsedAt: e.At})
	case SessionUsed:
		if i := s.sessionIndex(e.Session); i >= 0 {
			s.Sessions[i].UsedAt = e.At
		}
	case SessionEnded:
		s.Sessions = slices.DeleteFunc(s.Sessions, func(open Session) bool { return open.Hash == e.Session })
	case PasswordChanged:
		s.PasswordChanges++
	case ResetIssued:
		s.Resets = append(s.Resets, Reset{Hash: e.Reset, ExpiresAt: e.ExpiresAt})
	case ResetEnded:
		s.Resets = slices.DeleteFunc(s.Resets, func(open Reset) bool { return open.Hash == e.Reset })
	case Joined:
		joined := Membership{ID: e.Workspace, Name: e.Name, Role: e.Role, Foreign: e.Foreign}
		if i := s.membershipIndex(e.Workspace); i >= 0 {
			s.Workspaces[i] = joined
			return
		}
		s.Workspaces = append(s.Workspaces, joined)
	case Left:
		s.Workspaces = slices.DeleteFunc(s.Workspaces, func(w Membership) bool { return w.ID == e.Workspace })
	default:
		if !s.applyFactor(e) && !s.applyEmail(e) {
			panic(fmt.Sprintf("BUG: user event %T", e))
		}
	}
}

// View returns a copy of the user as the interface shows it, without the email. The decisions reply
// it.
func (s *State) View() View {
	return View{ID: s.ID, CreatedAt: s.CreatedAt, Workspaces: append([]Membership{}, s.Workspaces...), Factor: s.Factor}
}

func (s *State) sessionIndex(hash string) int {
	return slices.IndexFunc(s.Sessions, func(open Session) bool { return open.Hash == hash })
}

func (s *State) membershipIndex(workspace string) int {
	return slices.IndexFunc(s.Workspaces, func(w Membership) bool { return w.ID == workspace })
}

const timerPrefix = "session/"

func timerKey(hash string) string { return timerPrefix + hash }
