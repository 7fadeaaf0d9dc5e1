package httpapi

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"purser/persistence/ident"
)

func TestAUserOfAnUnkeyedSlotSignsInAndKeepsTheEmail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.actors.unkeyed = true
	id := w.ok(w.signup("ada@example.com")).text("user", "id")
	w.actors.unkeyed = false
	in := w.ok(w.post(nil, "/api/dashboard/login", `{"email":"ada@example.com","password":"a long password"}`))
	require.Equal(t, id, in.text("user", "id"))
	w.fails(w.signup("ada@example.com"), 409, "email_taken")
}

// A caller finds idempotency keys and emails whose unkeyed hash lies in a victim's shard. Their
// workspaces and users lie in other shards.
func TestACallerCannotChooseASlot(t *testing.T) {
	t.Parallel()
	const victim ident.Shard = 77
	w := newWorld(t)
	r := w.ok(w.signup("mallory@example.com"))
	who, id := session(r.cookie), r.text("user", "id")
	hit := func(made string) bool {
		slot, err := ident.SlotOf(made)
		require.NoError(t, err)
		return slot.Shard() == victim
	}
	hits := 0
	const tries = 8
	for found := 0; found < tries; {
		key := uuid.NewString()
		if ident.UnkeyedSlot(id+"|POST /api/workspaces|"+key).Shard() != victim {
			continue
		}
		found++
		made := w.ok(w.post(who.with("Idempotency-Key", key), "/api/workspaces", `{"name":"Acme"}`))
		if hit(made.text("workspace", "id")) {
			hits++
		}
	}
	for n, found := 0, 0; found < tries; n++ {
		email := fmt.Sprintf("m%d@example.com", n)
		if ident.UnkeyedSlot(email).Shard() != victim {
			continue
		}
		found++
		if hit(w.ok(w.signup(email)).text("user", "id")) {
			hits++
		}
	}
	require.Less(t, hits, tries, "of %d", 2*tries)
}

func TestARepeatOfAnUnkeyedClaimFindsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := session(w.ok(w.signup("ada@example.com")).cookie).with("Idempotency-Key", uuid.NewString())
	w.actors.unkeyed = true
	first := w.ok(w.post(who, "/api/workspaces", `{"name":"Acme"}`))
	w.actors.unkeyed = false
	again := w.ok(w.post(who, "/api/workspaces", `{"name":"Acme"}`))
	require.Equal(t, first.text("workspace", "id"), again.text("workspace", "id"))
	require.Equal(t, "true", again.header("Idempotent-Replayed"))
}
