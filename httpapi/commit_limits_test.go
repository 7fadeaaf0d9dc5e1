package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"purser/actors/user"
	"purser/actors/workspace"
	"purser/persistence"
	"purser/persistence/ident"

	"github.com/stretchr/testify/require"
)

// fullKeys is the number of keys that fillKeys adds. It leaves room for the keys of a test.
const fullKeys = workspace.MaxLiveKeys - 50

const oneKey = `{"label":"k","scopes":["read:api_keys"]}`

// stateOf reads the record of an actor's state into state.
func (w *world) stateOf(kind, stream string, state any) persistence.Record {
	w.t.Helper()
	slot, err := ident.SlotOf(stream)
	require.NoError(w.t, err)
	record, err := w.journal.Record(w.t.Context(), slot, kind, stream)
	require.NoError(w.t, err)
	require.NoError(w.t, json.Unmarshal(record.Document, state))
	return record
}

// fillKeys gives a workspace fullKeys more keys with the longest labels, in its record.
func (w *world) fillKeys(tn tenant) {
	w.t.Helper()
	w.settled() // no other writer is active
	var state workspace.State
	record := w.stateOf("workspace", tn.workspace, &state)
	for i := range fullKeys {
		id := fmt.Sprintf("key_0000000000e000g000000%05d", i)
		state.Keys = append(state.Keys, workspace.Key{ID: id, Label: strings.Repeat("\U0001F600", workspace.MaxLabel),
			Scopes: workspace.Scopes(), Prefix: "apk_00000000", SecretHash: strings.Repeat("0", 64),
			CreatedBy: id, CreatedAt: state.CreatedAt})
	}
	var err error
	record.Document, err = json.Marshal(state)
	require.NoError(w.t, err)
	slot, err := ident.SlotOf(tn.workspace)
	require.NoError(w.t, err)
	w.write(tn, slot, record)
	w.clock.turn(rateWindow)
}

// countedUnits returns what the callers of the limiter whose names begin with a prefix have used in
// the last minute.
func (w *world) countedUnits(prefix string) (units int) {
	for i := range w.server.limits.counts.shards {
		for caller, counted := range w.server.limits.counts.shards[i].windows {
			if strings.HasPrefix(caller, prefix) {
				units += counted.count
			}
		}
	}
	return units
}

// createUntilRefused creates keys until a creation is refused for its bytes, and returns their
// number.
func (w *world) createUntilRefused(who as) (created int) {
	w.t.Helper()
	for ; created < keyChangesPerMinute; created++ {
		if made := w.post(who, "/api/auth/keys", oneKey); made.status != 200 {
			w.fails(made, 429, "rate_limited")
			require.NotEmpty(w.t, made.header("Retry-After"))
			return created
		}
	}
	w.t.Fatal("no creation was refused for its bytes")
	return created
}

// The changes of keys of a full workspace count by the state that each commits. A refused one
// changes nothing. An ordinary workspace reaches no limit of bytes.
func TestKeyChangesCountTheStateThatTheyCommit(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t)
	ada, bob := w.newTenant("ada"), w.newTenant("bob")
	w.fillKeys(ada)
	var before, after workspace.State
	size := len(w.stateOf("workspace", ada.workspace, &before).Document)
	require.Greater(t, size, 400<<10)
	made := w.createUntilRefused(ada.all)
	require.LessOrEqual(t, made, 1+unitsPerKey*byteUnit/(size-freeCommit))
	w.stateOf("workspace", ada.workspace, &after)
	require.Len(t, after.Keys, len(before.Keys)+made)
	w.ok(w.do(ada.all, "DELETE", "/api/auth/keys?id="+after.Keys[len(after.Keys)-1].ID, ""))
	for range keyChangesPerMinute / 2 {
		id := w.ok(w.post(bob.all, "/api/auth/keys", oneKey)).text("apiKey", "id")
		w.ok(w.do(bob.all, "DELETE", "/api/auth/keys?id="+id, ""))
	}
	w.clock.turn(rateWindow)
	w.ok(w.post(ada.all, "/api/auth/keys", oneKey))
}

// The bytes of commits count against the key, the workspace and the address.
func TestCommitsCountAgainstKeyWorkspaceAndAddress(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t)
	ada, bob, carl := w.newTenant("ada"), w.newTenant("bob"), w.newTenant("carl")
	writers := map[string][]as{}
	for _, tn := range []tenant{ada, bob} {
		for range 1 + unitsPerWorkspace/unitsPerKey {
			writers[tn.workspace] = append(writers[tn.workspace], w.keyOf(tn, "read:api_keys", "write:api_keys"))
		}
		w.fillKeys(tn)
	}
	w.createUntilRefused(writers[ada.workspace][0])
	w.ok(w.get(writers[ada.workspace][1], "/api/auth/keys?limit=1"))
	for _, who := range writers[ada.workspace][1:] {
		w.createUntilRefused(who)
	}
	w.fails(w.get(ada.all, "/api/auth/keys?limit=1"), 429, "rate_limited")
	w.ok(w.get(carl.all, "/api/auth/keys?limit=1"))
	for _, who := range writers[bob.workspace] {
		w.createUntilRefused(who)
	}
	w.fails(w.get(carl.all, "/api/auth/keys?limit=1"), 429, "rate_limited")
}

// Sessions and forms of the dashboard count their commits like keys. A refused change of the name
// changes nothing.
func TestCommitsOfTheDashboardCount(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t)
	ada := w.newTenant("ada")
	w.fillKeys(ada)
	sent := w.visit(session(ada.cookie), "/dashboard/"+ada.workspace+"/settings/rename", url.Values{"name": {"Form"}})
	require.Equal(t, 303, sent.status, sent.text)
	var state workspace.State
	units := (len(w.stateOf("workspace", ada.workspace, &state).Document) - freeCommit) / byteUnit
	require.GreaterOrEqual(t, w.countedUnits("bytes-user/"+state.Members[0].UserID), units)
	name := "Form"
	for i := 0; ; i++ {
		next := fmt.Sprint("Name ", i)
		if r := w.do(session(ada.cookie), "PATCH", workspaceOfSession, `{"name":"`+next+`"}`); r.status != 200 {
			w.fails(r, 429, "rate_limited")
			break
		}
		name = next
	}
	require.NotEqual(t, "Form", name)
	sent = w.visit(session(ada.cookie), "/dashboard/"+ada.workspace+"/settings/rename", url.Values{"name": {"Late"}})
	require.Equal(t, 429, sent.status, sent.text)
	w.stateOf("workspace", ada.workspace, &state)
	require.Equal(t, name, state.Name)
}

// The commits of a session without a workspace count against its user and the address. A user
// without units left can still sign out.
func TestCommitsOfAUserCount(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t)
	ada := w.newTenant("ada")
	w.settled()
	id := w.ownerOf(ada)
	var state user.State
	record := w.stateOf("user", id, &state)
	for i := range user.MaxForeign {
		state.Workspaces = append(state.Workspaces, user.Membership{ID: fmt.Sprintf("wsp_%026d", i),
			Name: strings.Repeat("n", workspace.MaxName), Role: workspace.Member})
	}
	var err error
	record.Document, err = json.Marshal(state)
	require.NoError(t, err)
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	w.appendRecords(id, slot, record)
	begin := func() testReply {
		return w.post(session(ada.cookie), "/api/dashboard/second-factor", `{"password":"a long password"}`)
	}
	require.Eventually(t, func() bool { return begin().status == 200 }, waitFor, pause)
	units := (len(w.stateOf("user", id, &state).Document) - freeCommit) / byteUnit
	require.Positive(t, units)
	require.GreaterOrEqual(t, w.countedUnits("bytes-user/"+id), units)
	require.GreaterOrEqual(t, w.countedUnits("bytes-address/"), units)
	w.server.limits.counts.countAdmitted("bytes-user/"+id, unitsPerKey, unitsPerKey)
	w.fails(begin(), 429, "rate_limited")
	w.ok(w.post(session(ada.cookie), "/api/dashboard/logout", ""))
}

// The keys of a workspace create and revoke at most keyChangesPerMinute keys a minute. A session
// has a count of its own, so that an owner can always revoke a stolen key.
func TestKeyChangesAreBounded(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t)
	ada, bob := w.newTenant("ada"), w.newTenant("bob")
	writers, id := [2]as{ada.all, w.keyOf(ada, "read:api_keys", "write:api_keys")}, ""
	for i := range keyChangesPerMinute / 2 {
		id = w.ok(w.post(writers[i%2], "/api/auth/keys", oneKey)).text("apiKey", "id")
		if i > 0 {
			w.ok(w.do(writers[i%2], "DELETE", "/api/auth/keys?id="+id, ""))
		}
	}
	id = w.ok(w.post(ada.all, "/api/auth/keys", oneKey)).text("apiKey", "id")
	for _, who := range writers {
		w.fails(w.post(who, "/api/auth/keys", oneKey), 429, "rate_limited")
		refused := w.do(who, "DELETE", "/api/auth/keys?id="+id, "")
		w.fails(refused, 429, "rate_limited")
		require.NotEmpty(t, refused.header("Retry-After"))
	}
	w.ok(w.post(bob.all, "/api/auth/keys", oneKey))
	revoked := w.ok(w.do(session(ada.cookie), "DELETE", "/api/dashboard/keys?id="+id, ""))
	require.Equal(t, []any{id}, revoked.at("revoked"))
	for w.countedUnits("key-changes-user/"+w.ownerOf(ada)) < keyChangesPerMinute {
		w.fails(w.do(session(ada.cookie), "DELETE", "/api/dashboard/keys?id=key_x", ""), 404, "not_found")
	}
	w.fails(w.do(session(ada.cookie), "DELETE", "/api/dashboard/keys?id=key_x", ""), 429, "rate_limited")
	w.clock.turn(rateWindow)
	w.ok(w.post(ada.all, "/api/auth/keys", oneKey))
}

// ownerOf returns the id of the user who owns a tenant's workspace.
func (w *world) ownerOf(tn tenant) string {
	w.t.Helper()
	var state workspace.State
	w.stateOf("workspace", tn.workspace, &state)
	return state.Members[0].UserID
}
