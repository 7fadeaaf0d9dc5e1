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

// follow has the follower's part: it notes what was added.
func (p *pages) follow(c *causes) { c.note(p.events[c.through:]) }

// rested is awaitCause of a reaction for which there is nothing: it must write what it can and wait.
func rested(t *testing.T, s *System, p *reacting) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.awaitCause(ctx, p), context.Canceled)
}

// TestDecisionsAreNotReadByReactions: a reaction is woken for what may be a cause, and comes to it without reading the decisions
// before it; its cursor is written with the page of a cause, and when it is told that there was none.
func TestDecisionsAreNotReadByReactions(t *testing.T) {
	var handled []uint64
	refused := errors.New("refused")
	var answer error
	j, sh := &pages{}, &shard{}
	s := &System{journal: j, listener: silent{}}
	p := &reacting{sh: sh, reaction: reaction{name: "x", handle: func(_ context.Context, e persistence.Event) error {
		handled = append(handled, e.Position)
		return answer
	}}}
	decisions, other := balance.Relayed{}.EventType(), balance.DepositCreated{}.EventType()

	j.add(3, decisions)
	j.follow(&sh.causes)
	require.True(t, sh.causes.untold())
	j.add(1, other)
	j.follow(&sh.causes)
	require.False(t, sh.causes.untold())
	require.NoError(t, s.awaitCause(t.Context(), p))
	require.EqualValues(t, 3, p.at, "the decisions are passed over")
	require.NoError(t, s.reactOnce(t.Context(), p))
	require.Equal(t, []uint64{4}, j.saved)
	rested(t, s, p)
	require.Equal(t, []uint64{4}, j.saved, "it is written")

	j.add(2, decisions)
	j.add(1, other)
	j.follow(&sh.causes)
	answer = refused
	require.NoError(t, s.awaitCause(t.Context(), p))
	require.ErrorIs(t, s.reactOnce(t.Context(), p), refused)
	require.EqualValues(t, 6, p.at, "what was refused comes again")
	require.Equal(t, []uint64{4, 6}, j.saved)

	answer = nil
	require.NoError(t, s.awaitCause(t.Context(), p))
	require.NoError(t, s.reactOnce(t.Context(), p))
	require.Equal(t, []uint64{4, 7, 7}, handled)
	j.add(2, decisions)
	j.follow(&sh.causes)
	sh.causes.tell()
	rested(t, s, p)
	require.Equal(t, []uint64{4, 6, 7, 9}, j.saved)
	require.Equal(t, []uint64{4, 7, 7}, handled)
}

// TestAnOwedCursorIsWrittenAgain: a cursor that could not be written after a cause is written before the reaction waits; else a
// crash would find the cause again behind ever more decisions.
func TestAnOwedCursorIsWrittenAgain(t *testing.T) {
	handled := 0
	j, sh := &pages{}, &shard{}
	s := &System{journal: j, listener: silent{}}
	p := &reacting{sh: sh, reaction: reaction{name: "x", handle: func(context.Context, persistence.Event) error {
		handled++
		return nil
	}}}
	j.add(1, balance.DepositCreated{}.EventType())
	j.follow(&sh.causes)
	require.NoError(t, s.awaitCause(t.Context(), p))
	j.fails = persistence.ErrUnavailable
	require.ErrorIs(t, s.reactOnce(t.Context(), p), persistence.ErrUnavailable)
	require.EqualValues(t, 1, p.at)
	require.Empty(t, j.saved)

	j.fails = persistence.ErrUnavailable
	require.ErrorIs(t, s.awaitCause(t.Context(), p), persistence.ErrUnavailable)
	rested(t, s, p)
	require.Equal(t, []uint64{1}, j.saved)
	require.Equal(t, 1, handled, "the cause is not handled again for it")
}

// TestAReactionThatIsFarBehindReadsEverything: of what lies before the first event that was noted, and before the newest causes,
// nothing is known, so it is read.
func TestAReactionThatIsFarBehindReadsEverything(t *testing.T) {
	handled := 0
	j, sh := &pages{}, &shard{}
	s := &System{journal: j, listener: silent{}}
	p := &reacting{sh: sh, reaction: reaction{name: "x", handle: func(context.Context, persistence.Event) error {
		handled++
		return nil
	}}}
	decisions, cause := balance.Relayed{}.EventType(), balance.DepositCreated{}.EventType()
	causes := 0
	add := func(n int) {
		for range n {
			j.add(1, cause)
			j.add(2, decisions)
			causes++
		}
	}
	add(100)
	sh.causes.begin(uint64(len(j.events)))
	add(maxCauses + 100)
	j.follow(&sh.causes)
	for p.at < uint64(len(j.events))-2 {
		require.NoError(t, s.awaitCause(t.Context(), p))
		require.NoError(t, s.reactOnce(t.Context(), p))
	}
	rested(t, s, p)
	require.Equal(t, causes, handled)
	require.EqualValues(t, len(j.events), p.saved)
}

// TestDecisionsWakeReactionsNowAndThen: what a crash lets a reaction read again stays bounded.
func TestDecisionsWakeReactionsNowAndThen(t *testing.T) {
	j, c := &pages{}, &causes{}
	woken := func(told <-chan struct{}) bool {
		select {
		case <-told:
			return true
		default:
			return false
		}
	}
	_, _, told := c.after(0)
	j.add(tellAfter-1, balance.Relayed{}.EventType())
	j.follow(c)
	require.False(t, woken(told))
	j.add(1, balance.Relayed{}.EventType())
	j.follow(c)
	require.True(t, woken(told))
	require.False(t, c.untold())
	_, through, told := c.after(0)
	require.EqualValues(t, tellAfter, through)
	c.note([]persistence.Event{{Type: balance.DepositCreated{}.EventType(), Position: through + 1}})
	require.True(t, woken(told))
	next, _, _ := c.after(through)
	require.Equal(t, through+1, next)
}
