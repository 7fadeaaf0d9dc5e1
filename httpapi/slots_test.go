package httpapi

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"purser/persistence/ident"
)

// guessShard is the shard of a name's hash without the deployment's key.
func guessShard(name string) ident.Shard {
	sum := sha256.Sum256([]byte(name))
	return ident.Slot(binary.BigEndian.Uint16(sum[:]) >> 4).Shard()
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
		if guessShard(id+"|POST /api/workspaces|"+key) != victim {
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
		if guessShard(email) != victim {
			continue
		}
		found++
		if hit(w.ok(w.signup(email)).text("user", "id")) {
			hits++
		}
	}
	require.Less(t, hits, tries, "of %d", 2*tries)
}
