package actors_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/seal"
	"purser/persistence"
	"purser/persistence/ident"
)

// diary is an actor with one personal record and one plain one.
type diary struct {
	Written bool `json:"written"`
}

type writePage struct{ Text string }

func (s *diary) Decide(_ decision.Meta, command any) (decision.Decision, error) {
	c := command.(writePage)
	return decision.Decision{Events: []decision.Event{thingMade{}}, Records: []decision.Record{
		{Kind: "page", ID: counterID(9), Document: c, Personal: true},
		{Kind: "cover", ID: counterID(9), Document: "plain"}}}, nil
}

func (s *diary) Apply(decision.Event) { s.Written = true }

func TestAPersonalRecordIsSealedWhereItIsStored(t *testing.T) {
	r := newCounterSystem(t, func(c *actors.Config) {
		c.Kinds = []actors.Kind{{Name: "diary", New: func() actors.State { return new(diary) },
			Personal: []string{"page"}}}
	})
	id := counterID(9)
	_, err := r.system.Ask(t.Context(), actors.Envelope{Kind: "diary", Stream: id, Workspace: id,
		Command: writePage{"about Ada"}})
	require.NoError(t, err)
	slot, err := ident.SlotOf(id)
	require.NoError(t, err)
	stored, err := r.journal.Record(t.Context(), slot, "page", id)
	require.NoError(t, err)
	require.NotContains(t, string(stored.Document), "about Ada")

	read, err := r.system.Record(t.Context(), "page", id, id)
	require.NoError(t, err)
	require.JSONEq(t, `{"Text":"about Ada"}`, string(read.Document))
	list, err := r.system.List(t.Context(), "page", id, "", persistence.Page{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, read.Document, list[0].Document)
	plain, err := r.system.Record(t.Context(), "cover", id, id)
	require.NoError(t, err)
	require.JSONEq(t, `"plain"`, string(plain.Document))

	// A sealed document does not open under the name of another record.
	moved := stored
	moved.Kind = "cover"
	heads, err := r.journal.Raise(t.Context(), slot.Shard())
	require.NoError(t, err)
	outcomes, err := r.journal.Append(context.WithoutCancel(t.Context()), slot.Shard(), heads[0].Epoch, r.clock.now(),
		[]*persistence.Batch{{Workspace: id, Slot: slot, Records: []persistence.Record{moved}}})
	require.NoError(t, err)
	require.NoError(t, outcomes[0].Err)
	_, err = r.system.Record(t.Context(), "cover", id, id)
	require.ErrorContains(t, err, "PURSER_DATA_KEY")
}

func TestAnotherDataKeyIsRefusedAtTheStart(t *testing.T) {
	r := newCounterSystem(t, nil)
	r.restart()
	r.system.Stop()
	other, err := seal.New(bytes.Repeat([]byte{1}, seal.KeyBytes), rand.Reader)
	require.NoError(t, err)
	_, err = actors.Start(t.Context(), actors.Config{Journal: r.journal, Authorizer: r.authorizer, Sealer: other,
		Kinds: counterKinds(), Clock: r.clock.now, Entropy: rand.Reader})
	require.ErrorContains(t, err, "data key")
	require.NoError(t, r.journal.Close())
	r.start()
}
