package actors

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/balance"
	"purser/actors/ident"
	"purser/persistence"
)

// pages is a journal of one shard that notes the cursors it is given.
type pages struct {
	persistence.Journal
	events []persistence.Event
	saved  []uint64
	fails  error // of the next cursor
}

func (p *pages) Events(_ context.Context, _ ident.Shard, past uint64, limit int) ([]persistence.Event, error) {
	return p.events[past:min(past+uint64(limit), uint64(len(p.events)))], nil
}

func (p *pages) SaveCursor(_ context.Context, _ string, _ ident.Shard, position uint64) error {
	if err := p.fails; err != nil {
		p.fails = nil
		return err
	}
	p.saved = append(p.saved, position)
	return nil
}

func (p *pages) add(n int, eventType string) {
	for range n {
		p.events = append(p.events, persistence.Event{Type: eventType, Position: uint64(len(p.events)) + 1})
	}
}

// TestDecisionsAloneMoveNoReactionsCursor: an event that may be a cause has its cursor written with its page, decisions only
// after reactLag of them.
func TestDecisionsAloneMoveNoReactionsCursor(t *testing.T) {
	var handled []uint64
	refused := errors.New("refused")
	var answer error
	j := &pages{}
	s := &System{journal: j, listener: silent{}}
	handle := func(_ context.Context, e persistence.Event) error {
		handled = append(handled, e.Position)
		return answer
	}
	p := &reacting{sh: &shard{}, reaction: reaction{name: "x", handle: handle}}
	decisions, other := balance.Relayed{}.EventType(), balance.DepositCreated{}.EventType()

	j.add(3, decisions)
	require.NoError(t, s.reactOnce(t.Context(), p))
	require.EqualValues(t, 3, p.at)
	require.Empty(t, j.saved)

	j.add(1, other)
	require.NoError(t, s.reactOnce(t.Context(), p))
	require.Equal(t, []uint64{4}, j.saved)

	j.add(2, decisions)
	j.add(1, other)
	answer = refused
	require.ErrorIs(t, s.reactOnce(t.Context(), p), refused)
	require.EqualValues(t, 6, p.at, "what was refused comes again")
	require.Equal(t, []uint64{4, 6}, j.saved)

	answer = nil
	require.NoError(t, s.reactOnce(t.Context(), p))
	require.Equal(t, []uint64{4, 7, 7}, handled)
	j.add(reactLag, decisions)
	require.NoError(t, s.reactOnce(t.Context(), p))
	require.Equal(t, []uint64{4, 6, 7, 7 + reactLag}, j.saved)
}

// TestAnOwedCursorIsWrittenWithTheNextPage: a cursor that could not be written after a cause is written with the next page,
// though that one has decisions alone; else a crash would find the cause again behind ever more of them. What is written is not
// owed any more.
func TestAnOwedCursorIsWrittenWithTheNextPage(t *testing.T) {
	handled := 0
	j := &pages{}
	s := &System{journal: j, listener: silent{}}
	p := &reacting{sh: &shard{}, reaction: reaction{name: "x", handle: func(context.Context, persistence.Event) error {
		handled++
		return nil
	}}}
	decisions, cause := balance.Relayed{}.EventType(), balance.DepositCreated{}.EventType()

	j.add(1, cause)
	j.fails = persistence.ErrUnavailable
	require.ErrorIs(t, s.reactOnce(t.Context(), p), persistence.ErrUnavailable)
	require.EqualValues(t, 1, p.at)
	require.Empty(t, j.saved)

	j.add(2, decisions)
	require.NoError(t, s.reactOnce(t.Context(), p))
	require.Equal(t, []uint64{3}, j.saved, "the cursor is owed")
	require.Equal(t, 1, handled, "the cause is not handled again for it")

	j.add(2, decisions)
	require.NoError(t, s.reactOnce(t.Context(), p))
	require.EqualValues(t, 5, p.at)
	require.Equal(t, []uint64{3}, j.saved, "nothing is owed any more")
}
