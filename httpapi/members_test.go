package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/fault"
	"purser/actors/user"
	"purser/actors/workspace"
	"purser/persistence"
	"purser/persistence/ident"
)

const members = "/api/dashboard/members"

const invitations = "/api/dashboard/invitations"

func (w *world) inviteMember(cookie, email, role string) testReply {
	w.t.Helper()
	return w.post(session(cookie), members, fmt.Sprintf(`{"email":%q,"role":%q}`, email, role))
}

func (w *world) changeMember(cookie, userID, body string) testReply {
	w.t.Helper()
	return w.do(session(cookie), "PATCH", members+"/"+userID, body)
}

func (w *world) answerInvitation(cookie, how, token string) testReply {
	w.t.Helper()
	return w.post(session(cookie), invitations+"/"+how, fmt.Sprintf(`{"token":%q}`, token))
}

// listedAs waits until a user's own list shows a workspace in a role, or with "" until the list
// does not have it.
func (w *world) listedAs(cookie, id, role string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		me := w.ok(w.get(session(cookie), "/api/dashboard/me"))
		shown := ""
		for i := 0; me.at("workspaces", i) != nil; i++ {
			if me.text("workspaces", i, "id") == id {
				shown = me.text("workspaces", i, "role")
			}
		}
		return shown == role
	}, waitFor, pause)
}

func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	bob := w.ok(w.signup("Bob@example.com"))
	bobID := bob.text("user", "id")
	w.fails(w.inviteMember(tn.cookie, "bob@example.com", "king"), 400, "invalid_body")
	invited := w.ok(w.inviteMember(tn.cookie, "bob@example.com", "member"))
	require.Equal(t, "bob@example.com", invited.text("invitation", "email"))

	// An invitation is not a membership: the workspace is not in the list, and the session has no
	// access to it.
	at := session(bob.cookie).with("X-Workspace-Id", tn.workspace)
	w.settled()
	require.Empty(t, w.ok(w.get(session(bob.cookie), "/api/dashboard/me")).at("workspaces"))
	w.fails(w.get(at, members), 404, "not_found")
	shown := w.ok(w.answerInvitation(bob.cookie, "show", invited.text("token")))
	require.Equal(t, "Workspace olga", shown.text("invitation", "workspaceName"))
	require.Equal(t, "pending", shown.text("invitation", "status"))

	accepted := w.ok(w.answerInvitation(bob.cookie, "accept", invited.text("token")))
	require.Equal(t, tn.workspace, accepted.text("invitation", "workspaceId"))
	again := w.ok(w.answerInvitation(bob.cookie, "accept", invited.text("token")))
	require.Equal(t, accepted.raw, again.raw)
	w.listedAs(bob.cookie, tn.workspace, "member")
	newKey := func() testReply {
		return w.post(session(bob.cookie), "/api/auth/keys", `{"label":"k","scopes":["read:cards"]}`)
	}
	w.fails(newKey(), 403, "role_required")
	w.fails(w.get(session(bob.cookie), members), 403, "role_required")

	w.fails(w.inviteMember(tn.cookie, "bob@example.com", "admin"), 409, "already_member")
	require.Equal(t, "admin", w.ok(w.changeMember(tn.cookie, bobID, `{"role":"admin"}`)).text("member", "role"))
	w.fails(w.changeMember(tn.cookie, bobID, `{"role":"king"}`), 400, "invalid_body")
	w.fails(w.changeMember(tn.cookie, bobID, `{"role":"admin","keepEndpoints":["whe_x"]}`), 404, "not_found")
	w.fails(w.changeMember(tn.cookie, "usr_x", `{"role":"admin"}`), 404, "not_found")
	w.listedAs(bob.cookie, tn.workspace, "admin")
	w.ok(newKey())
	w.fails(w.inviteMember(bob.cookie, "bob@example.com", "owner"), 403, "role_required")
	w.fails(w.get(tn.all, members), 403, "session_required")

	list := w.ok(w.get(session(tn.cookie), members+"?limit=1"))
	require.Equal(t, bobID, list.text("data", 0, "userId"))
	rest := w.ok(w.get(session(tn.cookie), members+"?limit=1&cursor="+list.text("nextCursor")))
	require.Equal(t, "olga@example.com", rest.text("data", 0, "email"))
	require.Equal(t, "owner", rest.text("data", 0, "role"))
	require.Nil(t, rest.at("nextCursor"))

	gone := w.ok(w.do(session(tn.cookie), "DELETE", members+"/"+bobID, ""))
	require.Equal(t, "admin", gone.text("member", "role"))
	w.fails(w.do(session(tn.cookie), "DELETE", members+"/"+bobID, ""), 404, "not_found")
	w.fails(w.post(at, "/api/auth/keys", `{"label":"k","scopes":["read:cards"]}`), 404, "not_found")
	w.fails(w.answerInvitation(bob.cookie, "accept", invited.text("token")), 404, "not_found")
	w.listedAs(bob.cookie, tn.workspace, "")
}

// The answer and the list do not disclose whether an email has an account.
func TestAnInvitationDoesNotTellOfAnAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	w.ok(w.signup("bob@example.com"))
	known := w.ok(w.inviteMember(tn.cookie, "bob@example.com", "member"))
	unknown := w.ok(w.inviteMember(tn.cookie, "cyd@example.com", "member"))
	blank := strings.NewReplacer("bob@", "x@", "cyd@", "x@", known.text("token"), "", unknown.text("token"), "",
		known.text("invitation", "id"), "", unknown.text("invitation", "id"), "")
	require.Equal(t, blank.Replace(known.raw), blank.Replace(unknown.raw))

	list := w.ok(w.get(session(tn.cookie), invitations+"?limit=1"))
	require.Equal(t, unknown.text("invitation", "id"), list.text("data", 0, "id"))
	rest := w.ok(w.get(session(tn.cookie), invitations+"?limit=1&cursor="+list.text("nextCursor")))
	require.Equal(t, "bob@example.com", rest.text("data", 0, "email"))
	require.NotContains(t, rest.raw+list.raw, "invite_")
}

// An invitation may precede the account of its email. The account does not get the token, and a
// leaked token is useless for another email.
func TestAnInvitationNeedsItsTokenAndItsEmail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	token := w.ok(w.inviteMember(tn.cookie, "Cyd@example.com", "admin")).text("token")
	thief := w.ok(w.signup("thief@example.com"))
	for _, how := range []string{"show", "accept", "decline"} {
		w.fails(w.answerInvitation(thief.cookie, how, token), 404, "not_found")
		w.fails(w.answerInvitation(thief.cookie, how, "invite_x"), 404, "not_found")
		w.fails(w.answerInvitation(thief.cookie, how, strings.Replace(tn.cookie, "ses_", "invite_", 1)), 404,
			"not_found")
	}
	cyd := w.ok(w.signup("cyd@example.com"))
	require.Empty(t, w.ok(w.get(session(cyd.cookie), "/api/dashboard/me")).at("workspaces"))
	w.ok(w.answerInvitation(cyd.cookie, "accept", token))
	w.listedAs(cyd.cookie, tn.workspace, "admin")
}

func TestInvitationsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	bob := w.ok(w.signup("bob@example.com"))
	first := w.ok(w.inviteMember(tn.cookie, "bob@example.com", "member"))
	second := w.ok(w.inviteMember(tn.cookie, "bob@example.com", "member"))
	w.fails(w.answerInvitation(bob.cookie, "accept", first.text("token")), 404, "not_found")
	id := second.text("invitation", "id")
	require.Equal(t, id, w.ok(w.do(session(tn.cookie), "DELETE", invitations+"/"+id, "")).text("invitation", "id"))
	w.fails(w.do(session(tn.cookie), "DELETE", invitations+"/"+id, ""), 404, "not_found")
	w.fails(w.answerInvitation(bob.cookie, "accept", second.text("token")), 404, "not_found")

	third := w.ok(w.inviteMember(tn.cookie, "bob@example.com", "member"))
	w.ok(w.answerInvitation(bob.cookie, "decline", third.text("token")))
	require.Equal(t, "declined", w.ok(w.answerInvitation(bob.cookie, "decline",
		third.text("token"))).text("invitation", "status"))
	w.fails(w.answerInvitation(bob.cookie, "accept", third.text("token")), 404, "not_found")

	fourth := w.ok(w.inviteMember(tn.cookie, "bob@example.com", "member"))
	w.clock.turn(workspace.InvitationLife)
	w.fails(w.answerInvitation(bob.cookie, "accept", fourth.text("token")), 404, "not_found")
	require.Empty(t, w.ok(w.get(session(tn.cookie), invitations)).at("data"))
	w.settled()
	_, err := w.system.Record(t.Context(), workspace.RecordInvitation, tn.workspace, fourth.text("invitation", "id"))
	require.True(t, fault.Is(err, fault.NotFound), "the email of a run out invitation is gone: %v", err)
}

// Invitations and memberships of foreign workspaces neither limit a user's own workspaces nor make
// a session ambiguous.
func TestForeignWorkspacesDoNotCountAgainstOnesOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.newTenant("ada")
	key := func() testReply {
		return w.post(session(ada.cookie), "/api/auth/keys", `{"label":"k","scopes":["read:cards"]}`)
	}
	for _, name := range []string{"olga", "oleg"} {
		tn := w.newTenant(name)
		token := w.ok(w.inviteMember(tn.cookie, "ada@example.com", "admin")).text("token")
		require.Equal(t, ada.workspace, w.keptIn(key()), "an invitation")
		w.ok(w.answerInvitation(ada.cookie, "accept", token))
		w.listedAs(ada.cookie, tn.workspace, "admin")
		require.Equal(t, ada.workspace, w.keptIn(key()), "a membership")
	}
	adaID := w.ok(w.get(session(ada.cookie), "/api/dashboard/me")).text("user", "id")
	w.fillMemberships(adaID)
	last := w.newTenant("last")
	w.fails(w.answerInvitation(ada.cookie, "accept",
		w.ok(w.inviteMember(last.cookie, "ada@example.com", "admin")).text("token")),
		422, "limit_exceeded")
	second := w.ok(w.post(session(ada.cookie), "/api/workspaces", `{"name":"Second"}`)).text("workspace", "id")
	w.listedAs(ada.cookie, second, "owner")
	w.fails(key(), 400, "workspace_required")
}

// Other people's keys make an owner workspaces until half of the owner's list is full, also for a
// promoted member. The owner then still accepts an invitation, and a session still creates a
// workspace.
func TestKeysOfOthersLeaveAnOwnerPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	_, bob := w.person(tn, workspace.Admin)
	made := w.ok(w.post(session(bob).with("X-Workspace-Id", tn.workspace), "/api/auth/keys",
		`{"label":"k","scopes":["write:api_keys"]}`))
	w.ok(w.post(key(made.text("secret")), "/api/workspaces", `{"name":"First"}`))
	olga := w.ok(w.get(session(tn.cookie), "/api/dashboard/me")).text("user", "id")
	w.fillList(olga, user.MaxGiven, user.Membership{Name: "given", Role: "owner", Foreign: true})
	w.fails(w.post(key(made.text("secret")), "/api/workspaces", `{"name":"Second"}`), 422, "limit_exceeded")
	last := w.newTenant("last")
	w.ok(w.post(last.all, "/api/workspaces", `{"name":"Alone"}`))
	w.joinWorkspace(last, olga, workspace.Owner)
	w.fails(w.post(last.all, "/api/workspaces", `{"name":"Together"}`), 422, "limit_exceeded")
	w.ok(w.post(session(last.cookie), "/api/workspaces", `{"name":"Own"}`))
	third := w.newTenant("third")
	invited := w.ok(w.inviteMember(third.cookie, "olga@example.com", "admin"))
	w.ok(w.answerInvitation(tn.cookie, "accept", invited.text("token")))
}

// keptIn returns the workspace of a new key.
func (w *world) keptIn(made testReply) string {
	w.t.Helper()
	return w.ok(w.get(key(w.ok(made).text("secret")), "/api/workspaces")).text("workspace", "id")
}

func TestAnyoneLeavesAndTakesKeysAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	_, bob := w.person(tn, workspace.Admin)
	at := session(bob).with("X-Workspace-Id", tn.workspace)
	made := w.ok(w.post(at, "/api/auth/keys", `{"label":"k","scopes":["read:api_keys","write:api_keys"]}`))
	child := w.ok(w.post(key(made.text("secret")), "/api/auth/keys", `{"label":"child","scopes":["read:api_keys"]}`))
	w.fails(w.post(session(tn.cookie), members+"/leave", ""), 409, "last_owner")
	left := w.ok(w.post(at, members+"/leave", ""))
	require.Equal(t, []any{made.text("apiKey", "id"), child.text("apiKey", "id")}, left.at("revokedKeys"))
	for _, secret := range []string{made.text("secret"), child.text("secret")} {
		w.fails(w.get(key(secret), "/api/auth/keys"), 401, "unauthorized")
	}
	w.fails(w.post(at, members+"/leave", ""), 404, "not_found")
	w.listedAs(bob, tn.workspace, "")
}

func TestAnOwnerKeepsKeysOfARemovedMemberByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	olga := w.ok(w.get(session(tn.cookie), "/api/dashboard/me")).text("user", "id")
	bobID, bob := w.person(tn, workspace.Owner)
	at := session(bob).with("X-Workspace-Id", tn.workspace)
	made := w.ok(w.post(at, "/api/auth/keys", `{"label":"k","scopes":["read:api_keys","write:api_keys"]}`))
	kept := w.ok(w.post(key(made.text("secret")), "/api/auth/keys", `{"label":"kept","scopes":["read:api_keys"]}`))
	keep := members + "/" + bobID + "?keepKeys=" + kept.text("apiKey", "id")
	w.fails(w.do(session(tn.cookie), "DELETE", keep+",key_x", ""), 404, "not_found")
	w.fails(w.do(at, "DELETE", keep, ""), 400, "invalid_query")
	w.fails(w.do(session(tn.cookie), "DELETE", keep+strings.Repeat(",x", workspace.MaxKeptKeys), ""), 400,
		"invalid_query")
	w.ok(w.get(key(made.text("secret")), "/api/auth/keys"))

	gone := w.ok(w.do(session(tn.cookie), "DELETE", keep, ""))
	require.Equal(t, []any{made.text("apiKey", "id")}, gone.at("revokedKeys"))
	w.fails(w.get(key(made.text("secret")), "/api/auth/keys"), 401, "unauthorized")
	list := w.ok(w.get(key(kept.text("secret")), "/api/auth/keys"))
	for i := 0; list.at("data", i) != nil; i++ {
		if list.text("data", i, "id") == kept.text("apiKey", "id") {
			require.Equal(t, olga, list.text("data", i, "createdBy"))
		}
	}
}

func TestSessionsListAndRevokeKeys(t *testing.T) {
	t.Parallel()
	const keys = "/api/dashboard/keys"
	w := newWorld(t)
	tn := w.newTenant("olga")
	_, admin := w.person(tn, workspace.Admin)
	at := session(admin).with("X-Workspace-Id", tn.workspace)
	require.Equal(t, w.ok(w.get(session(tn.cookie), keys)).raw, w.ok(w.get(at, keys)).raw)
	require.Len(t, w.ok(w.get(at, keys)).at("data"), 2)
	id := tn.keyID(w)
	require.Equal(t, []any{id}, w.ok(w.do(at, "DELETE", keys+"?id="+id, "")).at("revoked"))
	w.fails(w.get(tn.all, "/api/workspaces"), 401, "unauthorized")
	require.Empty(t, w.ok(w.do(at, "DELETE", keys+"?id="+id, "")).at("revoked"))
	w.fails(w.do(at, "DELETE", keys, ""), 400, "invalid_query")
}

func TestTheLastOwnerStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	olga := w.ok(w.get(session(tn.cookie), members)).text("data", 0, "userId")
	w.fails(w.do(session(tn.cookie), "DELETE", members+"/"+olga, ""), 409, "last_owner")
	w.fails(w.changeMember(tn.cookie, olga, `{"role":"admin"}`), 409, "last_owner")
	bob := w.ok(w.signup("bob@example.com"))
	once := session(tn.cookie).with("Idempotency-Key", someUUID)
	first := w.ok(w.post(once, members, `{"email":"bob@example.com","role":"owner"}`))
	require.Equal(t, first.raw, w.ok(w.post(once, members, `{"email":"bob@example.com","role":"owner"}`)).raw)
	w.ok(w.answerInvitation(bob.cookie, "accept", first.text("token")))
	w.listedAs(bob.cookie, tn.workspace, "owner")

	// A workspace that a key creates belongs to all owners of the key's workspace. It counts as own
	// for the owner from whom the key descends.
	second := w.ok(w.post(tn.all, "/api/workspaces", `{"name":"Second"}`)).text("workspace", "id")
	w.listedAs(bob.cookie, second, "owner")
	w.listedAs(tn.cookie, second, "owner")
	w.fails(w.get(session(tn.cookie), members), 400, "workspace_required")

	w.ok(w.do(session(bob.cookie).with("X-Workspace-Id", tn.workspace), "DELETE", members+"/"+olga, ""))
	w.fails(w.get(session(tn.cookie).with("X-Workspace-Id", tn.workspace), members), 404, "not_found")
	w.listedAs(tn.cookie, tn.workspace, "")
}

func TestAKeysLastUseIsKnownToTheMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	used := func() string {
		w.server.keyUsage.waitIdle()
		list := w.ok(w.get(session(tn.cookie).with("Authorization", "Bearer "+tn.secret), "/api/auth/keys"))
		w.server.keyUsage.waitIdle()
		return list.text("data", 0, "lastUsedAt")
	}
	used()
	first := used()
	at, err := time.Parse(time.RFC3339, first)
	require.NoError(t, err)
	require.True(t, at.Equal(w.clock.now()))
	w.clock.turn(workspace.UseResolution - time.Second)
	used()
	require.Equal(t, first, used(), "not noted again within a minute")
	w.clock.turn(time.Second)
	used()
	again, err := time.Parse(time.RFC3339, used())
	require.NoError(t, err)
	require.Equal(t, workspace.UseResolution, again.Sub(at))
}

// A use of a key is not noted while the disk is nearly full, nor more often than maxNoteRate in a
// workspace: a note writes the state of all its keys.
func TestNotesOfUseAreBounded(t *testing.T) {
	t.Parallel()
	full := atomic.Bool{}
	w := newWorld(t, func(c *Config) {
		c.Full = func(FullDisk) error {
			if full.Load() {
				return fault.New(fault.Unavailable, "full")
			}
			return nil
		}
	})
	tn := w.newTenant("olga")
	noted := func(secrets ...string) (count int) {
		for _, secret := range secrets {
			w.ok(w.get(key(secret), "/api/auth/keys"))
		}
		w.server.keyUsage.waitIdle()
		list := w.ok(w.get(session(tn.cookie), "/api/dashboard/keys?limit=100"))
		for i := range list.at("data").([]any) {
			if at, used := list.at("data", i, "lastUsedAt").(string); used && at == w.clock.now().UTC().Format("2006-01-02T15:04:05.000Z") {
				count++
			}
		}
		return count
	}
	var secrets []string
	for i := range maxNoteRate + 5 {
		made := w.ok(w.post(session(tn.cookie), "/api/auth/keys", fmt.Sprintf(`{"label":"k%d","scopes":["read:api_keys"]}`, i)))
		secrets = append(secrets, made.text("secret"))
	}
	w.clock.turn(time.Hour)
	full.Store(true)
	require.Zero(t, noted(secrets[:3]...))
	full.Store(false)
	w.clock.turn(time.Hour)
	require.Equal(t, 3, noted(secrets[:3]...))
	w.clock.turn(time.Hour)
	require.Equal(t, maxNoteRate, noted(secrets...))
}

// olderKey writes a key into a workspace's record that only older versions could create.
func (w *world) olderKey(tn tenant, id string, scopes ...string) string {
	w.t.Helper()
	slot, err := ident.SlotOf(tn.workspace)
	require.NoError(w.t, err)
	w.settled() // no other writer is active
	secret, err := ident.NewSecret(ident.APISecret, slot, w.system.Entropy())
	require.NoError(w.t, err)
	_, hash, err := ident.ParseSecret(ident.APISecret, secret)
	require.NoError(w.t, err)
	record, err := w.journal.Record(w.t.Context(), slot, "workspace", tn.workspace)
	require.NoError(w.t, err)
	var state workspace.State
	require.NoError(w.t, json.Unmarshal(record.Document, &state))
	state.Keys = append(state.Keys, workspace.Key{ID: id, Label: "older", Scopes: scopes, Prefix: secret[:prefixChars],
		SecretHash: hash, CreatedBy: "key_of_old", CreatedAt: state.CreatedAt})
	record.Document, err = json.Marshal(state)
	require.NoError(w.t, err)
	owner, err := json.Marshal(workspace.SecretDocument{WorkspaceID: tn.workspace, KeyID: id})
	require.NoError(w.t, err)
	w.write(tn, slot, record, persistence.Record{Kind: workspace.RecordSecret, Workspace: tn.workspace, ID: hash,
		Slot:     slot,
		Document: owner})
	return secret
}

// write appends records to the journal beside the system, and returns when the system has reloaded
// the shard.
func (w *world) write(tn tenant, slot ident.Slot, records ...persistence.Record) {
	w.t.Helper()
	w.appendRecords(tn.workspace, slot, records...)
	require.Eventually(w.t, func() bool {
		return w.post(session(tn.cookie), "/api/auth/keys", `{"label":"after","scopes":["read:cards"]}`).status == 200
	}, waitFor, pause)
}

// appendRecords appends records to the journal beside the system, and ends the idle actors. The
// system reloads the shard at a later commit.
func (w *world) appendRecords(workspace string, slot ident.Slot, records ...persistence.Record) {
	w.t.Helper()
	heads, err := w.journal.Raise(w.t.Context(), slot.Shard())
	require.NoError(w.t, err)
	outcomes, err := w.journal.Append(w.t.Context(), slot.Shard(), heads[0].Epoch, w.clock.now(),
		[]*persistence.Batch{{Workspace: workspace, Slot: slot, Records: records}})
	require.NoError(w.t, err)
	require.NoError(w.t, outcomes[0].Err)
	w.clock.turn(time.Hour)
	w.system.Passivate()
}

func TestKeysOfOlderVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	star := key(w.olderKey(tn, "key_0000000000e000g0000000000a", "*"))
	none := key(w.olderKey(tn, "key_0000000000e000g0000000000b"))
	checked := 0
	for _, op := range w.checked.operations(t) {
		if !op.key {
			continue
		}
		r := w.newEstate(tn).ready(op, nil)
		r.who = none
		got := w.send(r)
		require.Equal(t, 403, got.status, "%s: %s", op.name, got.raw)
		require.Contains(t, got.code(), "missing_scope:")
		r.who = star
		got = w.send(r)
		if op.scope == workspace.WriteRamps { // a star does not include it
			w.fails(got, 403, "missing_scope:write:ramps")
		} else {
			require.NotContains(t, got.code(), "missing_scope", "%s: %s", op.name, got.raw)
		}
		checked++
	}
	require.NotZero(t, checked)
	w.fails(w.post(star, "/api/auth/keys", `{"label":"x","scopes":["*"]}`), 400, "invalid_body")
	w.fails(w.post(star, "/api/auth/keys", `{"label":"x","scopes":["write:ramps"]}`), 403, "missing_scope:write:ramps")
	w.ok(w.post(star, "/api/auth/keys", `{"label":"x","scopes":["write:payouts","read:agents"]}`))
	w.fails(w.get(none, "/api/workspaces"), 403, "missing_scope:any")
}

func TestADemotedAdminsKeysDoNoMoreThanTheRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("olga")
	bob := w.ok(w.signup("bob@example.com"))
	bobID := bob.text("user", "id")
	w.joinWorkspace(tn, bobID, workspace.Admin)
	at := session(bob.cookie).with("X-Workspace-Id", tn.workspace)
	writes := w.ok(w.post(at, "/api/auth/keys", `{"label":"k","scopes":["write:cards","write:api_keys","read:treasury"]}`))
	child := w.ok(w.post(key(writes.text("secret")), "/api/auth/keys", `{"label":"c","scopes":["read:treasury"]}`))
	reads := w.ok(w.post(at, "/api/auth/keys", `{"label":"r","scopes":["read:treasury"]}`))
	kept := w.ok(w.post(at, "/api/auth/keys", `{"label":"kept","scopes":["read:cards"]}`))
	hook := w.ok(w.post(at, endpointsPath, endpointBody(hookURL, `["*"]`)))

	owner := w.ok(w.changeMember(tn.cookie, bobID, `{"role":"owner"}`))
	require.Empty(t, owner.at("revokedKeys"))
	require.Empty(t, owner.at("removedEndpoints"))
	demote := func(kept, more string) testReply {
		return w.changeMember(tn.cookie, bobID, fmt.Sprintf(`{"role":"member","keepKeys":[%q]%s}`, kept, more))
	}
	w.fails(demote("key_x", ""), 404, "not_found")
	w.fails(demote(kept.text("apiKey", "id"), `,"keepEndpoints":["whe_x"]`), 404, "not_found")
	demoted := w.ok(demote(kept.text("apiKey", "id"), ""))
	require.Equal(t, []any{writes.text("apiKey", "id"), child.text("apiKey", "id")}, demoted.at("revokedKeys"))
	require.Equal(t, []any{hook.text("endpoint", "id")}, demoted.at("removedEndpoints"))
	for _, ended := range []testReply{writes, child} {
		w.fails(w.get(key(ended.text("secret")), "/api/treasury"), 401, "unauthorized")
	}
	w.ok(w.get(key(reads.text("secret")), "/api/treasury"))
	w.ok(w.get(key(kept.text("secret")), "/api/cards"))
	again := w.ok(w.changeMember(tn.cookie, bobID, `{"role":"member"}`))
	require.Empty(t, again.at("revokedKeys"))
}

// The scopes of a role are those of the routes that its sessions can call.
func TestRoleScopesAreThoseOfTheRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, role := range anyMember {
		called := map[string]bool{}
		for _, r := range w.server.table {
			if r.auth == authKeyOrSession && slices.Contains(r.roles, role) {
				called[r.scope] = true
			}
		}
		require.Subset(t, workspace.RoleScopes(role), slices.Collect(maps.Keys(called)), role)
		if !workspace.Manages(role) {
			require.Len(t, workspace.RoleScopes(role), len(called))
		}
	}
}
