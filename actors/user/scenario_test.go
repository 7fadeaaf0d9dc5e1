package user_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/user"
)

// scenario is one user. The hash of a session's secret is its name. Times are durations since the
// start.
type scenario struct {
	state user.State
	now   time.Time
}

func TestScenarios(t *testing.T) {
	decisiontest.Scenarios(t, func() decisiontest.Step { return (&scenario{now: start}).step })
}

func (s *scenario) step(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "wait" {
		s.now = s.now.Add(decisiontest.Duration(t, d.CmdArgs[0].Key))
		return ""
	}
	return s.send(t, s.command(t, d))
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

func (s *scenario) session(t *testing.T, text func(string) string) user.StartSession {
	start := user.StartSession{SecretHash: text("session"), Expires: s.now.Add(decisiontest.Duration(t, text("for")))}
	start.Changes = strings.Count(text("changes"), "x")
	if place := text("place"); place != "" {
		start.Places = user.Places{}.With(place, s.now)
	}
	return start
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
	return out.String() + describe(d.Reply.(user.View), s.state)
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
	return fmt.Sprintf("user %s, workspaces %q, open sessions %v\n", v.Email, names, open)
}
