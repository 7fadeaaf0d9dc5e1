package httpapi

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors/ident"
	"purser/actors/workspace"
	"purser/persistence"
)

const members = "/api/dashboard/members"

func (w *world) addMember(cookie, email, role string) testReply {
	w.t.Helper()
	return w.post(session(cookie), members, fmt.Sprintf(`{"email":%q,"role":%q}`, email, role))
}

// listedAs waits until a user's own list shows a workspace in a role; "" waits until it does not show it.
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
	w := newWorld(t)
	tn := w.newTenant("olga")
	bob := w.ok(w.signup("Bob@example.com"))
	bobID := bob.text("user", "id")
	w.fails(w.addMember(tn.cookie, "nobody@example.com", "member"), 404, "not_found")
	w.fails(w.addMember(tn.cookie, "bob@example.com", "king"), 400, "invalid_body")
	added := w.ok(w.addMember(tn.cookie, "bob@example.com", "member"))
	require.Equal(t, bobID, added.text("member", "userId"))
	require.Equal(t, "Bob@example.com", added.text("member", "email"))
	w.listedAs(bob.cookie, tn.workspace, "member")
	newKey := func() testReply {
		return w.post(session(bob.cookie), "/api/auth/keys", `{"label":"k","scopes":["read:cards"]}`)
	}
	w.fails(newKey(), 403, "role_required")
	w.fails(w.get(session(bob.cookie), members), 403, "role_required")

	require.Equal(t, "admin", w.ok(w.addMember(tn.cookie, "bob@example.com", "admin")).text("member", "role"))
	w.listedAs(bob.cookie, tn.workspace, "admin")
	w.ok(newKey())
	w.fails(w.addMember(bob.cookie, "bob@example.com", "owner"), 403, "role_required")
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
	w.fails(w.post(session(bob.cookie).with("X-Workspace-Id", tn.workspace), "/api/auth/keys",
		`{"label":"k","scopes":["read:cards"]}`), 404, "not_found")
	w.listedAs(bob.cookie, tn.workspace, "")
}

func TestTheLastOwnerStays(t *testing.T) {
	w := newWorld(t)
	tn := w.newTenant("olga")
	olga := w.ok(w.get(session(tn.cookie), members)).text("data", 0, "userId")
	w.fails(w.do(session(tn.cookie), "DELETE", members+"/"+olga, ""), 409, "last_owner")
	w.fails(w.addMember(tn.cookie, "olga@example.com", "admin"), 409, "last_owner")
	bob := w.ok(w.signup("bob@example.com"))
	once := session(tn.cookie).with("Idempotency-Key", someUUID)
	first := w.ok(w.post(once, members, `{"email":"bob@example.com","role":"owner"}`))
	require.Equal(t, first.raw, w.ok(w.post(once, members, `{"email":"bob@example.com","role":"owner"}`)).raw)
	w.listedAs(bob.cookie, tn.workspace, "owner")

	// A workspace that a key makes belongs to all owners of the key's workspace.
	second := w.ok(w.post(tn.all, "/api/workspaces", `{"name":"Second"}`)).text("workspace", "id")
	w.listedAs(bob.cookie, second, "owner")
	w.listedAs(tn.cookie, second, "owner")

	w.ok(w.do(session(bob.cookie).with("X-Workspace-Id", tn.workspace), "DELETE", members+"/"+olga, ""))
	w.fails(w.get(session(tn.cookie).with("X-Workspace-Id", tn.workspace), members), 404, "not_found")
	w.listedAs(tn.cookie, tn.workspace, "")
}

func TestAKeysLastUseIsKnownToTheMinute(t *testing.T) {
	w := newWorld(t)
	tn := w.newTenant("olga")
	used := func() string {
		w.server.notes.wait()
		list := w.ok(w.get(session(tn.cookie).with("Authorization", "Bearer "+tn.secret), "/api/auth/keys"))
		w.server.notes.wait()
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

// olderKey puts a key into a workspace's record that could not be made today, as older versions did.
func (w *world) olderKey(tn tenant, id string, scopes ...string) string {
	w.t.Helper()
	slot, err := ident.SlotOf(tn.workspace)
	require.NoError(w.t, err)
	w.settled() // nothing else writes between the reading and the writing
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
	w.write(tn, slot, record, persistence.Record{Kind: workspace.RecordSecret, Workspace: tn.workspace, ID: hash, Slot: slot,
		Document: owner})
	return secret
}

// write puts records into the journal beside the system, and returns when the system has forgotten what it held in memory and has
// taken the shard back.
func (w *world) write(tn tenant, slot ident.Slot, records ...persistence.Record) {
	w.t.Helper()
	heads, err := w.journal.Raise(w.t.Context(), slot.Shard())
	require.NoError(w.t, err)
	outcomes, err := w.journal.Append(w.t.Context(), slot.Shard(), heads[0].Epoch, w.clock.now(),
		[]*persistence.Batch{{Workspace: tn.workspace, Slot: slot, Records: records}})
	require.NoError(w.t, err)
	require.NoError(w.t, outcomes[0].Err)
	w.clock.turn(time.Hour)
	w.system.Passivate()
	require.Eventually(w.t, func() bool {
		return w.post(session(tn.cookie), "/api/auth/keys", `{"label":"after","scopes":["read:cards"]}`).status == 200
	}, waitFor, pause)
}

func TestOlderKeysAndEmptyOnes(t *testing.T) {
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
		if op.scope == workspace.WriteRamps { // never by a star
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
