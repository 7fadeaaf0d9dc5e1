package actors_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/seal"
	"purser/persistence/ident"
)

// letters is an actor with many personal records.
type letters struct {
	Written int `json:"written"`
}

type writeLetter struct{ ID, Text string }

type letterWritten struct{}

func (letterWritten) EventType() string { return "letter.written.v1" }

func (s *letters) Decide(_ decision.Meta, command any) (decision.Decision, error) {
	c := command.(writeLetter)
	return decision.Decision{Events: []decision.Event{letterWritten{}},
		Records: []decision.Record{{Kind: "letter", ID: c.ID, Document: c, Personal: true}}}, nil
}

func (s *letters) Apply(decision.Event) { s.Written++ }

// sealerOf returns a Sealer whose keys are one repeated byte each.
func sealerOf(t *testing.T, keys ...byte) *seal.Sealer {
	t.Helper()
	var all [][]byte
	for _, key := range keys {
		all = append(all, bytes.Repeat([]byte{key}, seal.KeyBytes))
	}
	s, err := seal.New(all[0], rand.Reader, all[1:]...)
	require.NoError(t, err)
	return s
}

// newLetterSystem starts a system of letters whose data keys a test changes between restarts.
func newLetterSystem(t *testing.T, keys *[]byte) *counterSystem {
	return newCounterSystem(t, func(c *actors.Config) {
		c.Kinds = []actors.Kind{{Name: "letters", New: func() actors.State { return new(letters) },
			Personal: []string{"letter"}}}
		c.Sealer = sealerOf(t, *keys...)
	})
}

// letterID returns the id of letter i of a workspace.
func letterID(t *testing.T, workspace string, i int) string {
	slot, err := ident.SlotOf(workspace)
	require.NoError(t, err)
	return ident.Derive(slot, time.UnixMilli(int64(i)), fmt.Sprintf("%s letter %d", workspace, i)).Format(ident.Event)
}

func (r *counterSystem) writeLetters(workspaces, each int, text string) {
	for w := range workspaces {
		id := counterID(w)
		for i := range each {
			_, err := r.system.Ask(r.t.Context(), actors.Envelope{Kind: "letters", Stream: id, Workspace: id,
				Command: writeLetter{ID: letterID(r.t, id, i), Text: text}})
			require.NoError(r.t, err)
		}
	}
}

// countStaleLetters requires that every letter has the text, and returns the number of letters that
// are not sealed under the first key.
func (r *counterSystem) countStaleLetters(s *seal.Sealer, workspaces, each int, text string) (stale int) {
	for w := range workspaces {
		id := counterID(w)
		slot, err := ident.SlotOf(id)
		require.NoError(r.t, err)
		for i := range each {
			name := letterID(r.t, id, i)
			read, err := r.system.Record(r.t.Context(), "letter", id, name)
			require.NoError(r.t, err)
			var letter writeLetter
			require.NoError(r.t, json.Unmarshal(read.Document, &letter))
			require.Equal(r.t, text, letter.Text)
			stored, err := r.journal.Record(r.t.Context(), slot, "letter", name)
			require.NoError(r.t, err)
			require.Equal(r.t, read.Position, stored.Position)
			var document struct{ Sealed []byte }
			require.NoError(r.t, json.Unmarshal(stored.Document, &document))
			if s.Stale(document.Sealed) {
				stale++
			}
		}
	}
	return stale
}

func (r *counterSystem) keySampleCount() int {
	records, err := r.journal.Records(r.t.Context(), ident.SystemSlot.Shard(), "data_key_sample", "", 100)
	require.NoError(r.t, err)
	return len(records)
}

func (r *counterSystem) awaitRotated() {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.system.Resealing().ShardsLeft == 0 && r.keySampleCount() == 1 },
		eventuallyWithin, 5*time.Millisecond)
}

// requireKeysRefused requires that a start with these keys fails. The system stays stopped.
func (r *counterSystem) requireKeysRefused(keys ...byte) {
	r.t.Helper()
	_, err := actors.Start(r.t.Context(), actors.Config{Journal: r.journal, Authorizer: r.authorizer,
		Kinds: counterKinds(), Sealer: sealerOf(r.t, keys...), Clock: r.clock.now, Entropy: rand.Reader})
	require.ErrorIs(r.t, err, actors.ErrStores)
	require.ErrorContains(r.t, err, "data key")
}

// TestADataKeyRotates: documents are sealed under the new key while their actors write; afterwards
// the system starts without the old key.
func TestADataKeyRotates(t *testing.T) {
	const workspaces, each = 3, 300 // more than one page of records
	keys := []byte{1}
	r := newLetterSystem(t, &keys)
	r.writeLetters(workspaces, each, "before")

	keys = []byte{2, 1}
	r.stop()
	r.start()
	var writing sync.WaitGroup
	writing.Go(func() { r.writeLetters(workspaces, each, "after") })
	writing.Wait()
	r.awaitRotated()
	require.Zero(t, r.countStaleLetters(sealerOf(t, 2), workspaces, each, "after"))

	keys = []byte{2}
	r.restart()
	require.Zero(t, r.countStaleLetters(sealerOf(t, 2), workspaces, each, "after"))
	r.system.Stop()
	r.requireKeysRefused(1)
	require.NoError(t, r.journal.Close())
	r.start()
}

// TestUnwrittenDocumentsAreResealed: the resealing loop seals documents that no command writes, and
// a second pass finds none.
func TestUnwrittenDocumentsAreResealed(t *testing.T) {
	const workspaces, each = 2, 200
	keys := []byte{1}
	r := newLetterSystem(t, &keys)
	r.writeLetters(workspaces, each, "text")
	require.Equal(t, workspaces*each, r.countStaleLetters(sealerOf(t, 2), workspaces, each, "text"))
	keys = []byte{2, 1}
	r.restart()
	r.awaitRotated()
	require.EqualValues(t, workspaces*each, r.system.Resealing().Records)
	require.Zero(t, r.countStaleLetters(sealerOf(t, 2), workspaces, each, "text"))
	r.restart()
	r.awaitRotated()
	require.Zero(t, r.system.Resealing().Records)
}

// TestAnUnfinishedRotationNeedsBothKeys: a start without one of the keys in use is refused, and the
// keys may be given in the other order.
func TestAnUnfinishedRotationNeedsBothKeys(t *testing.T) {
	keys := []byte{1}
	r := newLetterSystem(t, &keys)
	r.writeLetters(1, 1, "text")
	keys = []byte{2, 1}
	r.stop()
	r.startForMaintenance()
	r.writeLetters(1, 1, "new text") // under the new key
	require.Zero(t, r.countStaleLetters(sealerOf(t, 2), 1, 1, "new text"))
	r.system.Stop()
	r.requireKeysRefused(1)
	r.requireKeysRefused(2)
	r.requireKeysRefused(3, 1)
	require.NoError(t, r.journal.Close())
	keys = []byte{1, 2}
	r.start()
	r.awaitRotated()
	require.Zero(t, r.countStaleLetters(sealerOf(t, 1), 1, 1, "new text"))
	keys = []byte{1}
	r.restart()
	require.Zero(t, r.countStaleLetters(sealerOf(t, 1), 1, 1, "new text"))
}

// startForMaintenance starts the system without its loops, so that no document is resealed.
func (r *counterSystem) startForMaintenance() {
	config := r.config
	defer func() { r.config = config }()
	r.config = func(c *actors.Config) {
		config(c)
		c.Still = true
	}
	r.start()
}
