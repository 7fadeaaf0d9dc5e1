package pgjournal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
)

// A process reads its own newest events from memory, equal to those that another process reads from
// the table.
func TestNewestEventsAreReadFromMemory(t *testing.T) {
	const slot, workspace = ident.Slot(0x30), "ws_1"
	url := databases.Database(t)
	ours, head, _ := openAndRaise(t, fastOptions(url), slot)
	at := time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.FixedZone("east", 7200))
	for version := uint64(1); version <= 40; version++ {
		payload := fmt.Sprintf(`{"n": %d,  "spaces": "kept"}`, version)
		e := persistence.Event{ID: fmt.Sprint("evt_", version), Kind: "card", Stream: "card_1", Version: version,
			Type: "card.happened.v1", At: at, Payload: []byte(payload)}
		b := &persistence.Batch{Workspace: workspace, Slot: slot, Events: []persistence.Event{e}}
		outcomes, err := ours.Append(t.Context(), slot.Shard(), head.Epoch, at, []*persistence.Batch{b})
		require.NoError(t, err)
		require.NoError(t, outcomes[0].Err)
	}
	theirs := open(t, fastOptions(url)) // has committed nothing
	t.Cleanup(func() { require.NoError(t, theirs.Close()) })
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	for _, page := range []struct {
		past  uint64
		limit int
	}{{0, 0}, {0, 1}, {7, 12}, {39, 5}} {
		want, err := theirs.Events(t.Context(), slot.Shard(), page.past, page.limit)
		require.NoError(t, err)
		got, err := ours.Events(t.Context(), slot.Shard(), page.past, page.limit)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = conn.Exec(t.Context(), "ALTER TABLE journal_event RENAME TO taken_away")
	require.NoError(t, err)
	_, err = theirs.Events(t.Context(), slot.Shard(), 0, 0)
	require.ErrorIs(t, err, persistence.ErrUnavailable)
	_, err = ours.Events(persistence.AsStored(t.Context()), slot.Shard(), 0, 0)
	require.ErrorIs(t, err, persistence.ErrUnavailable, "an audit's read was answered from memory")
	got, err := ours.Events(t.Context(), slot.Shard(), 0, 0)
	require.NoError(t, err)
	require.Len(t, got, 40)
	copy(got[0].Payload, "overwritten") // the reader owns the payload
	again, err := ours.Events(t.Context(), slot.Shard(), 0, 1)
	require.NoError(t, err)
	require.JSONEq(t, `{"n": 1, "spaces": "kept"}`, string(again[0].Payload))
}
