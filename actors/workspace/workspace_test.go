package workspace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/decision"
	"purser/actors/decision/decisiontest"
	"purser/actors/fault"
	"purser/actors/workspace"
)

func newWorkspace(t require.TestingT) *workspace.State {
	s := &workspace.State{}
	d, err := s.Decide(decision.Meta{At: start}, workspace.Create{
		ID: workspaceID, Name: "Acme", OwnerIDs: []string{"ann"}, FirstKey: newKey("first", "first", nil),
	})
	require.NoError(t, err)
	s.Apply(d.Events[0])
	return s
}

func send(s *workspace.State, command any) (decision.Decision, error) {
	d, err := s.Decide(decision.Meta{At: start}, command)
	if err == nil {
		for _, e := range d.Events {
			s.Apply(e)
		}
	}
	return d, err
}

func TestKeysAndMembersAreLimited(t *testing.T) {
	s := newWorkspace(t)
	byAnn := workspace.Principal{UserID: "ann"}
	for i := range workspace.MaxLiveKeys - 1 {
		_, err := send(s, workspace.CreateKey{By: byAnn,
			NewKey: newKey(fmt.Sprint("k", i), "x", []string{"read:cards"})})
		require.NoError(t, err)
	}
	_, err := send(s, workspace.CreateKey{By: byAnn, NewKey: newKey("more", "x", []string{"read:cards"})})
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)

	for i := range workspace.MaxMembers - 1 {
		require.NoError(t, joinWorkspace(s, fmt.Sprint("u", i)))
	}
	err = joinWorkspace(s, "more")
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
	_, err = send(s, workspace.ChangeRole{UserID: "u1", Role: workspace.Admin, By: byAnn})
	require.NoError(t, err, "a role can change when the workspace is full")

	_, err = new(workspace.State).Decide(decision.Meta{At: start}, workspace.Create{
		ID: workspaceID, Name: "Acme", OwnerIDs: make([]string, workspace.MaxMembers+1),
		FirstKey: newKey("first", "first", nil),
	})
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
}

// invitationOf returns ann's invitation of a user, whose email, token and invitation are derived
// from the user's name.
func invitationOf(userID, role string) workspace.Invite {
	return workspace.Invite{ID: "invitation of " + userID, Email: userID, EmailHash: userID, TokenHash: userID,
		Role:   role,
		UserID: userID, By: workspace.Principal{UserID: "ann"}}
}

func joinWorkspace(s *workspace.State, userID string) error {
	if _, err := send(s, invitationOf(userID, workspace.Member)); err != nil {
		return err
	}
	_, err := send(s, workspace.AcceptInvitation{Invitee: workspace.Invitee{TokenHash: userID, UserID: userID,
		EmailHash: userID}})
	return err
}

func TestInvitationsAreBounded(t *testing.T) {
	s := newWorkspace(t)
	for i := range workspace.MaxInvitations {
		_, err := send(s, invitationOf(fmt.Sprint("u", i), workspace.Member))
		require.NoError(t, err)
	}
	_, err := send(s, invitationOf("more", workspace.Member))
	require.True(t, fault.Is(err, fault.LimitExceeded), "%v", err)
	again := invitationOf("u0", workspace.Admin)
	again.ID, again.TokenHash = "second", "second"
	_, err = send(s, again)
	require.NoError(t, err, "it replaces a pending invitation")
	require.Len(t, s.Invitations, workspace.MaxInvitations)

	for i := range 3 * workspace.MaxAnswered {
		by := workspace.Invitee{TokenHash: fmt.Sprint("d", i), UserID: fmt.Sprint("d", i),
			EmailHash: fmt.Sprint("d", i)}
		_, err := send(s, workspace.WithdrawInvitation{ID: s.Invitations[0].ID, By: workspace.Principal{UserID: "ann"}})
		if s.Invitations[0].Status == workspace.InvitationPending {
			require.NoError(t, err)
		}
		_, err = send(s, invitationOf(by.UserID, workspace.Member))
		require.NoError(t, err)
		_, err = send(s, workspace.DeclineInvitation{Invitee: by})
		require.NoError(t, err)
		require.LessOrEqual(t, len(s.Invitations), workspace.MaxInvitations+workspace.MaxAnswered)
	}
	_, err = s.Decide(decision.Meta{At: start.Add(workspace.InvitationLife)}, invitationOf("late", workspace.Member))
	require.NoError(t, err, "run out invitations do not count")
}

func TestFieldLengthsAreInCharacters(t *testing.T) {
	create := func(name, label string) error {
		_, err := new(workspace.State).Decide(decision.Meta{At: start}, workspace.Create{
			ID: workspaceID, Name: name, OwnerIDs: []string{"ann"}, FirstKey: newKey("first", label, nil),
		})
		return err
	}
	require.NoError(t, create(strings.Repeat("é", 80), strings.Repeat("é", 40)))
	require.ErrorContains(t, create(strings.Repeat("é", 81), "x"), "name")
	require.ErrorContains(t, create("é", "x"), "name")
	require.ErrorContains(t, create("Acme", strings.Repeat("é", 41)), "label")
}

func TestRememberedRevokedKeysAreBounded(t *testing.T) {
	s := newWorkspace(t)
	all := []string{"read:cards", "write:api_keys"}
	_, err := send(s, workspace.CreateKey{By: workspace.Principal{UserID: "ann"}, NewKey: newKey("root", "x", all)})
	require.NoError(t, err)
	byRoot := workspace.Principal{KeyID: "root"}
	for i := range workspace.MaxRevoked + 1 {
		id := fmt.Sprint("k", i)
		_, err := send(s, workspace.CreateKey{By: byRoot, NewKey: newKey(id, "x", []string{"read:cards"})})
		require.NoError(t, err)
		_, err = send(s, workspace.RevokeKey{ID: id, By: byRoot})
		require.NoError(t, err)
	}
	require.Len(t, s.RevokedKeys, workspace.MaxRevoked)
	_, err = send(s, workspace.RevokeKey{ID: "k0", By: byRoot})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = send(s, workspace.RevokeKey{ID: "k1", By: byRoot})
	require.NoError(t, err)
}

// Every live key descends through live keys from a member, after any additions and removals.
func TestNoKeyOutlivesItsMaker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newWorkspace(t)
		people, ids := []string{"ann", "u0", "u1", "u2"}, []string{"first"}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			person := rapid.SampledFrom(people).Draw(t, "person")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				_ = joinWorkspace(s, person)
				_, _ = send(s, invitationOf(person, workspace.Owner))
			case 1:
				keep := rapid.SliceOfN(rapid.SampledFrom(ids), 0, 3).Draw(t, "keep")
				by := rapid.SampledFrom(people).Draw(t, "by")
				_, _ = send(s, workspace.RemoveMember{UserID: person, KeepKeys: keep,
					By: workspace.Principal{UserID: by}})
			default:
				by := workspace.Principal{UserID: person}
				if rapid.Bool().Draw(t, "key") {
					by = workspace.Principal{KeyID: rapid.SampledFrom(ids).Draw(t, "by")}
				}
				id := fmt.Sprint("k", i)
				if _, err := send(s, workspace.CreateKey{By: by,
					NewKey: newKey(id, "x", []string{workspace.WriteKeys})}); err == nil {
					ids = append(ids, id)
				}
			}
			makers := map[string]bool{}
			for _, member := range s.Members {
				makers[member.UserID] = true
			}
			for _, key := range s.Keys {
				require.True(t, makers[key.CreatedBy], "key %s is live after its maker %s ended", key.ID, key.CreatedBy)
				makers[key.ID] = true
			}
		}
	})
}

// In any tree of keys no key holds a scope that its maker lacks, and a revocation ends every
// descendant.
func TestNoKeyHoldsAScopeThatItsMakerLacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newWorkspace(t)
		ids := []string{"first"}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			by := workspace.Principal{UserID: "ann"}
			if rapid.Bool().Draw(t, "key") {
				by = workspace.Principal{KeyID: rapid.SampledFrom(ids).Draw(t, "by")}
			}
			if by.KeyID != "" && rapid.IntRange(0, 3).Draw(t, "revoke") == 0 {
				_, _ = send(s, workspace.RevokeKey{ID: rapid.SampledFrom(ids).Draw(t, "target"), By: by})
			} else {
				id := fmt.Sprint("k", i)
				scopes := rapid.SliceOfN(rapid.SampledFrom(workspace.Scopes()), 1, 4).Draw(t, "scopes")
				if _, err := send(s, workspace.CreateKey{By: by, NewKey: newKey(id, "x", scopes)}); err == nil {
					ids = append(ids, id)
				}
			}
			requireScopesWithinMakers(t, s)
		}
	})
}

func requireScopesWithinMakers(t *rapid.T, s *workspace.State) {
	live := map[string]workspace.Key{}
	for _, key := range s.Keys {
		live[key.ID] = key
	}
	for _, key := range s.Keys {
		if key.CreatedBy == "ann" {
			continue
		}
		maker, ok := live[key.CreatedBy]
		require.True(t, ok, "key %s is live after its maker %s ended", key.ID, key.CreatedBy)
		for _, scope := range key.Scopes {
			require.Contains(t, maker.Scopes, scope)
		}
		require.Contains(t, maker.Scopes, "write:api_keys")
	}
}

func TestRepliesAreCopies(t *testing.T) {
	s := newWorkspace(t)
	before := decisiontest.JSON(t, s)
	for _, command := range []any{workspace.Authenticate{SecretHash: "secret of first"},
		workspace.ListMembers{By: workspace.Principal{UserID: "ann"}}} {
		d, err := s.Decide(decision.Meta{At: start}, command)
		require.NoError(t, err)
		switch reply := d.Reply.(type) {
		case workspace.Access:
			reply.Scopes[0] = "spoilt"
		case []workspace.Person:
			reply[0].Role = "spoilt"
		}
	}
	require.Equal(t, before, decisiontest.JSON(t, s))
}

func TestUseOfAKeyIsRecordedOnceAMinute(t *testing.T) {
	s := newWorkspace(t)
	_, err := send(s, workspace.NoteUse{KeyID: "first"})
	require.NoError(t, err)
	for age, due := range map[time.Duration]bool{workspace.UseResolution - time.Millisecond: false,
		workspace.UseResolution: true} {
		d, err := s.Decide(decision.Meta{At: start.Add(age)}, workspace.Authenticate{SecretHash: "secret of first"})
		require.NoError(t, err)
		require.Equal(t, due, d.Reply.(workspace.Access).UseDue)
	}
}

func TestHolds(t *testing.T) {
	require.True(t, workspace.Holds([]string{"read:cards"}, "read:cards"))
	require.False(t, workspace.Holds([]string{"write:cards"}, "read:cards"), "a write scope does not grant reading")
	require.False(t, workspace.Holds(nil, "read:cards"))
	for _, scope := range workspace.Scopes() {
		require.Equal(t, scope != "write:ramps", workspace.Holds([]string{"*"}, scope), scope)
	}
	require.Len(t, workspace.Scopes(), 15)
}

func TestProgrammingErrorsPanic(t *testing.T) {
	s := newWorkspace(t)
	_, err := s.Decide(decision.Meta{At: start}, workspace.RevokeKey{ID: "first"})
	require.True(t, fault.Is(err, fault.SessionRequired), "no principal: %v", err)
	for _, command := range []any{
		7, workspace.Create{}, workspace.Invite{Role: workspace.Member, By: workspace.Principal{UserID: "ann"}},
		workspace.CreateKey{By: workspace.Principal{UserID: "ann"},
			NewKey: newKey("first", "again", []string{"read:cards"})},
	} {
		require.Panics(t, func() { _, _ = s.Decide(decision.Meta{At: start}, command) })
	}
	require.Panics(t, func() { s.Apply(nil) })
}

func BenchmarkAuthenticateTheNewestOfAThousandKeys(b *testing.B) {
	s := newWorkspace(b)
	hash := func(i int) string { return fmt.Sprintf("%064x", i) }
	for i := range workspace.MaxLiveKeys - 1 {
		key := newKey(fmt.Sprint("k", i), "x", []string{"read:cards"})
		key.SecretHash = hash(i)
		_, err := send(s, workspace.CreateKey{By: workspace.Principal{UserID: "ann"}, NewKey: key})
		require.NoError(b, err)
	}
	var command any = workspace.Authenticate{SecretHash: hash(workspace.MaxLiveKeys - 2)}
	for b.Loop() {
		if _, err := s.Decide(decision.Meta{At: start}, command); err != nil {
			b.Fatal(err)
		}
	}
}
