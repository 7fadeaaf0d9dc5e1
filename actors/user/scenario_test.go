package user_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/user"
)

// scenario is one user, and the address of an email that it may change to. The hash of a session's
// secret is its name. Times are durations since the start.
type scenario struct {
	state   user.State
	address user.Address
	now     time.Time
}

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step { return (&scenario{now: start}).step })
}

func (s *scenario) step(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "wait" {
		s.now = s.now.Add(decisiontest.Duration(t, d.CmdArgs[0].Key))
		return ""
	}
	if command := s.addressCommand(t, d); command != nil {
		return s.sendAddress(t, command)
	}
	return s.send(t, s.command(t, d))
}

// addressCommand reads a command to the address, or returns nil. Numbers are counts of x.
func (s *scenario) addressCommand(t *testing.T, d *datadriven.TestData) any {
	text := func(key string) (value string) {
		d.MaybeScanArgs(t, key, &value)
		return value
	}
	change := strings.Count(text("change"), "x")
	switch d.Cmd {
	case "claim":
		return user.ClaimEmail{EmailHash: "new", UserID: text("user"), Change: change,
			Until: s.now.Add(decisiontest.Duration(t, text("for")))}
	case "release":
		return user.ReleaseEmail{EmailHash: "new", Generation: strings.Count(text("generation"), "x")}
	case "abandon":
		return user.AbandonEmail{EmailHash: "new", UserID: text("user"), Change: change}
	}
	return nil
}

func (s *scenario) sendAddress(t *testing.T, command any) string {
	d, err := decisiontest.Decide(t, &s.address, s.now, command)
	if err != nil {
		return decisiontest.RefusalLine(t, err)
	}
	var out strings.Builder
	out.WriteString(decisiontest.Apply(t, &s.address, user.DecodeEvent, d.Events...))
	for _, r := range d.Records {
		document := r.Document.(user.EmailDocument)
		fmt.Fprintf(&out, "  record %s: user %q, generation %d\n", r.Kind, document.UserID, document.Generation)
	}
	for _, once := range d.Onces {
		fmt.Fprintf(&out, "  %s %s claimed for ever: %v, else %s\n", once.Scope, once.Key, once.Expires.IsZero(), once.Code)
	}
	return out.String() + fmt.Sprintf("address of %q, generation %d\n", s.address.Holder, s.address.Generation)
}

func (s *scenario) command(t *testing.T, d *datadriven.TestData) any {
	text := func(key string) (value string) {
		d.MaybeScanArgs(t, key, &value)
		return value
	}
	switch d.Cmd {
	case "register":
		return user.Register{ID: userID, Email: strings.TrimSuffix(d.Input, "\n"), PasswordHash: "$argon2id$…"}
	case "login":
		return s.session(t, text)
	case "password":
		return user.ChangePassword{Email: "Ann@Example.COM", PasswordHash: "$argon2id$another…",
			Start: s.session(t, text)}
	case "reset":
		return user.IssueReset{TokenHash: text("token"), Expires: s.now.Add(decisiontest.Duration(t, text("for"))),
			Operator: text("by") == "operator"}
	case "use":
		return user.ResetPassword{TokenHash: text("token"), Email: "Ann@Example.COM", PasswordHash: "$argon2id$third…",
			Changes: strings.Count(text("changes"), "x")}
	case "reset-timer":
		return decision.Fire{Key: "reset/" + text("token"), Due: s.now}
	case "begin-factor":
		return user.BeginFactor{Secret: "JBSWY3DPEHPK3PXP", Session: text("session")}
	case "enable-factor":
		recovery := make([]string, user.RecoveryCodes)
		for i := range recovery {
			recovery[i] = fmt.Sprint("r", i)
		}
		return user.EnableFactor{Secret: "JBSWY3DPEHPK3PXP", Step: s.stepOf(t, text), Recovery: recovery}
	case "disable-factor":
		return user.DisableFactor{}
	case "link":
		return user.IssueEmailLink{TokenHash: text("token"), Email: "new@example.com",
			Expires: s.now.Add(decisiontest.Duration(t, text("for")))}
	case "begin-email":
		return user.BeginEmailChange{Address: user.AddressID(3, text("email")), EmailHash: emailHash(text("email")),
			Until: s.now.Add(decisiontest.Duration(t, text("for")))}
	case "commit-email":
		return user.CommitEmailChange{Number: strings.Count(text("change"), "x"), Link: text("token"),
			Generation: strings.Count(text("generation"), "x"),
			Email:      "new@example.com", PasswordHash: "$argon2id$…", Start: s.session(t, text)}
	case "abandon-email":
		return user.AbandonEmailChange{Number: strings.Count(text("change"), "x")}
	case "email-timer":
		return decision.Fire{Key: "email/" + fmt.Sprint(strings.Count(text("change"), "x")), Due: s.now}
	case "link-timer":
		return decision.Fire{Key: "email-link/" + text("token"), Due: s.now}
	case "use-session":
		return user.NoteSession{SecretHash: text("session")}
	case "list":
		return user.ListSessions{}
	case "end":
		return user.EndSessions{ID: text("session"), Keep: text("keep")}
	case "logout":
		return user.EndSession{SecretHash: text("session")}
	case "timer":
		return decision.Fire{Key: "session/" + text("session"), Due: s.now}
	case "join":
		return user.Join{Workspace: text("workspace"), Name: text("name"), Role: text("role")}
	case "leave":
		return user.Leave{Workspace: text("workspace")}
	case "read":
		return decision.Read{}
	}
	d.Fatalf(t, "no such step")
	return nil
}

// emailHash is the hash of an email.
func emailHash(email string) string {
	folded, _ := user.FoldEmail(email)
	return user.EmailHash(folded)
}

func (s *scenario) session(t *testing.T, text func(string) string) user.StartSession {
	start := user.StartSession{SecretHash: text("session"), Life: decisiontest.Duration(t, text("for"))}
	start.Changes = strings.Count(text("changes"), "x")
	if text("step") != "" || text("recovery") != "" {
		start.Proof = &user.FactorProof{Serial: strings.Count(text("serial"), "x"), Step: s.stepOf(t, text),
			Recovery: text("recovery")}
	}
	if place := text("place"); place != "" {
		start.Places = user.Places{}.With(place, s.now)
	}
	return start
}

// stepOf reads a time step.
func (s *scenario) stepOf(t *testing.T, text func(string) string) (step int64) {
	if text("step") != "" {
		_, err := fmt.Sscan(text("step"), &step)
		require.NoError(t, err)
	}
	return step
}

func (s *scenario) send(t *testing.T, command any) string {
	d, err := decisiontest.Decide(t, &s.state, s.now, command)
	if err != nil {
		return decisiontest.RefusalLine(t, err)
	}
	var out strings.Builder
	for _, e := range d.Events {
		out.WriteString(decisiontest.Apply(t, &s.state, user.DecodeEvent, e))
		if ended, ok := e.(user.SessionEnded); ok {
			fmt.Fprintf(&out, "  session %s ended: %s\n", ended.Session, ended.Cause)
		}
		switch e := e.(type) {
		case user.EmailLinkEnded:
			fmt.Fprintf(&out, "  link %s ended: %s\n", e.Link, e.Cause)
		case user.EmailChangeEnded:
			fmt.Fprintf(&out, "  change %d ended: %s\n", e.Change.Number, e.Cause)
		case user.EmailChanged:
			fmt.Fprintf(&out, "  old generation %d to release, new one %d\n", e.Old.Generation, e.New.Generation)
		}
		if ended, ok := e.(user.ResetEnded); ok {
			fmt.Fprintf(&out, "  reset %s ended: %s\n", ended.Reset, ended.Cause)
		}
	}
	for _, r := range d.Records {
		fmt.Fprintf(&out, "  record %s %s\n", r.Kind, map[bool]string{false: "kept", true: "deleted"}[r.Delete])
	}
	for _, timer := range d.Timers {
		due := "removed"
		if !timer.Due.IsZero() {
			due = "at " + timer.Due.Sub(start.Truncate(time.Millisecond)).String()
		}
		fmt.Fprintf(&out, "  timer %s %s\n", timer.Key, due)
	}
	for _, once := range d.Onces {
		fmt.Fprintf(&out, "  %s claimed for ever: %v, else %s\n", once.Scope, once.Expires.IsZero(), once.Code)
	}
	view := s.state.View()
	switch reply := d.Reply.(type) {
	case user.View:
		view = reply
	case []user.Session:
		for _, session := range reply {
			fmt.Fprintf(&out, "  reply %s, used at %s\n", session.ID(), session.UsedAt.Sub(start.Truncate(time.Millisecond)))
		}
	}
	return out.String() + describe(view, s.state)
}

func describe(v user.View, s user.State) string {
	var names []string
	for _, w := range v.Workspaces {
		names = append(names, w.Role+" of "+w.Name)
	}
	open := make([]string, 0, len(s.Sessions))
	for _, session := range s.Sessions {
		open = append(open, session.Hash)
	}
	if s.Factor != nil {
		names = append(names, fmt.Sprintf("factor %d at step %d, %d recovery codes", s.Factor.Serial, s.Factor.LastStep,
			len(s.Factor.Recovery)))
	}
	return fmt.Sprintf("user %s, workspaces %q, open sessions %v\n", v.Email, names, open)
}
