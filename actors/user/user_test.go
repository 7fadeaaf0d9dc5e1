package user_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/user"
)

func newUser(t *testing.T) *user.State {
	s := &user.State{}
	send(t, s, start, user.Register{ID: userID, Email: "ann@example.com", PasswordHash: "$argon2id$…"})
	return s
}

func send(t *testing.T, s *user.State, at time.Time, command any) decision.Decision {
	d, err := s.Decide(decision.Meta{At: at}, command)
	require.NoError(t, err)
	for _, e := range d.Events {
		s.Apply(e)
	}
	return d
}

func TestOneSessionTooManyEndsTheOldest(t *testing.T) {
	s := newUser(t)
	for i := range user.MaxSessions + 5 {
		send(t, s, start, user.StartSession{SecretHash: fmt.Sprint("s", i), Life: time.Hour})
		require.LessOrEqual(t, len(s.Sessions), user.MaxSessions)
	}
	require.Len(t, s.Sessions, user.MaxSessions)
	require.Equal(t, "s5", s.Sessions[0].Hash)
}

func TestExpiredSessionEndsBeforeAnOpenOne(t *testing.T) {
	s := newUser(t)
	send(t, s, start, user.StartSession{SecretHash: "old", Life: time.Hour})
	for i := range user.MaxSessions - 1 {
		life := time.Hour
		if i == 50 {
			life = time.Minute
		}
		send(t, s, start, user.StartSession{SecretHash: fmt.Sprint("s", i), Life: life})
	}
	send(t, s, start.Add(2*time.Minute), user.StartSession{SecretHash: "new", Life: time.Hour})
	require.Len(t, s.Sessions, user.MaxSessions)
	require.Equal(t, "s0", s.Sessions[1].Hash)
	require.Equal(t, "old", s.Sessions[0].Hash, "it is open and there is room")
}

func TestOwnAndForeignWorkspacesHaveSeparateLimits(t *testing.T) {
	s := newUser(t)
	for i := range user.MaxForeign {
		send(t, s, start, user.Join{Workspace: fmt.Sprint("ws", i), Name: "x", Role: "member", Foreign: true})
	}
	d := send(t, s, start, user.Join{Workspace: "more", Name: "x", Role: "member", Foreign: true})
	require.Empty(t, d.Events, "a fact is not refused, and not listed")
	send(t, s, start, user.Join{Workspace: "ws1", Name: "x", Role: "owner"})
	require.Len(t, s.Workspaces, user.MaxForeign)
	require.Equal(t, user.Membership{ID: "ws1", Name: "x", Role: "owner", Foreign: true}, s.Workspaces[1])
	for i := range user.MaxOwn {
		send(t, s, start, user.Join{Workspace: fmt.Sprint("own", i), Name: "x", Role: "owner"})
	}
	require.Len(t, s.Workspaces, user.MaxForeign+user.MaxOwn)
	require.Empty(t, send(t, s, start, user.Join{Workspace: "another", Name: "x", Role: "owner"}).Events)
}

func TestForeignWorkspacesMakeNoSessionAmbiguous(t *testing.T) {
	list := func(foreign ...bool) (v user.View) {
		for i, f := range foreign {
			v.Workspaces = append(v.Workspaces, user.Membership{ID: fmt.Sprint(i), Foreign: f})
		}
		return v
	}
	for _, c := range []struct {
		view user.View
		id   string
	}{
		{list(), ""}, {list(false), "0"}, {list(true), "0"}, {list(true, false, true), "1"}, {list(false, true), "0"},
		{list(true, true), ""}, {list(false, false), ""}, {list(false, true, false), ""},
	} {
		id, ok := c.view.DefaultWorkspace()
		require.Equal(t, c.id != "", ok, "%v", c.view)
		if ok {
			require.Equal(t, c.id, id, "%v", c.view)
		}
	}
}

// Stored memberships without a foreign member count as own.
func TestMembershipStoredByAnOlderVersionCountsAsOwn(t *testing.T) {
	var s user.State
	require.NoError(t, json.Unmarshal([]byte(`{"id":"u","emailHash":"h","createdAt":"2026-11-20T12:00:00.000Z",`+
		`"sessions":[],"workspaces":[{"id":"ws_1","name":"Acme","role":"owner"}]}`), &s))
	send(t, &s, start, user.Join{Workspace: "ws_2", Name: "Beta", Role: "admin", Foreign: true})
	id, ok := s.View().DefaultWorkspace()
	require.True(t, ok)
	require.Equal(t, "ws_1", id)
}

func TestPersonalDataStaysInTheCredential(t *testing.T) {
	s := &user.State{}
	d := send(t, s, start, user.Register{ID: userID, Email: "Ann@Example.com", PasswordHash: "$argon2id$secret"})
	for what, document := range map[string]string{"events": decisiontest.JSON(t, d.Events),
		"state": decisiontest.JSON(t, s),
		"onces": decisiontest.JSON(t, d.Onces)} {
		require.NotContains(t, strings.ToLower(document), "ann@", what)
		require.NotContains(t, document, "argon2id", what)
	}
	require.Equal(t, user.Credential{Email: "Ann@Example.com", PasswordHash: "$argon2id$secret"}, d.Records[1].Document)
	require.Equal(t, user.EmailHash("ann@example.com"), d.Records[0].ID)
	require.Equal(t, d.Records[0].ID, d.Onces[0].Key)
}

func TestFoldEmail(t *testing.T) {
	for email, want := range map[string]string{
		" Ann@Example.com ": "ann@example.com", "ann+x@b.c": "ann+x@b.c",
		"": "", "ann": "", "@b.c": "", "ann@": "", "a nn@b.c": "", "a@b\u0000c": "", "a@b@c": "",
		strings.Repeat("a", 250) + "@b.c.d": "",
	} {
		folded, ok := user.FoldEmail(email)
		require.Equal(t, want, folded, email)
		require.Equal(t, want != "", ok, email)
	}
}

func TestProgrammingErrorsPanic(t *testing.T) {
	s := newUser(t)
	send(t, s, start, user.StartSession{SecretHash: "s", Life: time.Hour})
	for _, command := range []any{
		7, user.Register{ID: userID, Email: "ann@example.com", PasswordHash: "x"},
		user.StartSession{SecretHash: "late"},
		user.StartSession{SecretHash: "s", Life: time.Hour},
	} {
		require.Panics(t, func() { _, _ = s.Decide(decision.Meta{At: start}, command) })
	}
	require.Panics(t, func() { s.Apply(nil) })
}
