package actors

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/agent"
	"purser/actors/balance"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// eventJournal is a journal of one shard that records reads and saved cursors.
type eventJournal struct {
	persistence.Journal
	events    []persistence.Event
	read      []uint64 // the positions after which Events was called
	saved     []uint64
	saveError error // returned by the next SaveCursor
}

func (p *eventJournal) Events(_ context.Context, _ ident.Shard, past uint64, limit int) ([]persistence.Event, error) {
	p.read = append(p.read, past)
	return p.events[past:min(past+uint64(limit), uint64(len(p.events)))], nil
}

func (p *eventJournal) SaveCursor(_ context.Context, _ string, _ ident.Shard, position uint64) error {
	if err := p.saveError; err != nil {
		p.saveError = nil
		return err
	}
	p.saved = append(p.saved, position)
	return nil
}

func (p *eventJournal) addEvents(n int, eventType string) {
	for range n {
		p.events = append(p.events, persistence.Event{Type: eventType, Position: uint64(len(p.events)) + 1})
	}
}

// noteAdded adds the new events to the index, as the follower does.
func (p *eventJournal) noteAdded(c *reactionIndex) { c.addPage(p.events[c.through:]) }

// newReactingOver returns a reaction over the events of j. The test runs its workers.
func newReactingOver(j *eventJournal, cursor uint64, handle func(context.Context,
	persistence.Event) error) (*reactor, *reacting) {
	r := Reaction{Name: "x", Events: []decision.Event{balance.DepositCreated{}}, Handle: handle}
	sh := &shard{causeIndex: reactionIndex{causeTypes: typesOfCauses([]Reaction{r, {Name: "y",
		Events: []decision.Event{agent.Registered{}}}})}}
	s := &reactor{newLoops(&Config{Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Slack: 1}), j, silent{}}
	return s, newReacting(sh, r, cursor)
}

// runWorker runs one worker until no line is ready.
func (p *reacting) runWorker(s *reactor) {
	if p.takeWorkers() > 0 {
		p.workers = 1
		s.reactWorker(context.Background(), p)
	}
}

// reactRound is reactOnce without the wait at its end.
func reactRound(t require.TestingT, s *reactor, p *reacting) {
	_, _, err := s.readCauses(context.Background(), p)
	require.NoError(t, err)
	p.runWorker(s)
	if p.handledThrough() > p.saved {
		_ = s.saveReaction(context.Background(), p)
	}
}

// retryLines resumes the lines whose last event was refused, before their pauses end.
func (p *reacting) retryLines() {
	for _, line := range p.lines {
		p.resumeLine(line)
	}
}

// TestReactionsReadFromTheNextCause: a reaction wakes for a possible cause and reads from it on,
// without the decisions and other events before it. Its cursor is saved after a cause, and when it
// learns that there was none.
func TestReactionsReadFromTheNextCause(t *testing.T) {
	var handled []uint64
	refused := errors.New("refused")
	var answer error
	j := &eventJournal{}
	s, p := newReactingOver(j, 0, func(_ context.Context, e persistence.Event) error {
		handled = append(handled, e.Position)
		return answer
	})
	decisions, other := balance.Relayed{}.EventType(), balance.DepositCreated{}.EventType()

	j.addEvents(2, decisions)
	j.addEvents(1, card.LimitsChanged{}.EventType())
	j.noteAdded(&p.sh.causeIndex)
	require.True(t, p.sh.causeIndex.needsWake())
	j.addEvents(1, other)
	j.noteAdded(&p.sh.causeIndex)
	require.False(t, p.sh.causeIndex.needsWake())
	reactRound(t, s, p)
	require.Equal(t, []uint64{4}, j.saved)
	require.Equal(t, []uint64{3}, j.read, "it reads from the cause on")
	reactRound(t, s, p)
	require.Equal(t, []uint64{4}, j.saved, "it is saved")

	j.addEvents(2, decisions)
	j.addEvents(1, other)
	j.noteAdded(&p.sh.causeIndex)
	answer = refused
	reactRound(t, s, p)
	require.EqualValues(t, 6, p.handledThrough(), "the refused cause is pending")
	require.Equal(t, []uint64{4, 6}, j.saved)

	answer = nil
	p.retryLines()
	reactRound(t, s, p)
	require.Equal(t, []uint64{4, 7, 7}, handled)
	j.addEvents(2, decisions)
	j.noteAdded(&p.sh.causeIndex)
	p.sh.causeIndex.wakeReactions()
	reactRound(t, s, p)
	require.Equal(t, []uint64{4, 6, 7, 9}, j.saved)
	require.Equal(t, []uint64{4, 7, 7}, handled)
}

// TestACursorThatWasNotSavedIsSavedAgain: otherwise a start after a crash would read the cause
// again with all decisions since.
func TestACursorThatWasNotSavedIsSavedAgain(t *testing.T) {
	handled := 0
	j := &eventJournal{}
	s, p := newReactingOver(j, 0, func(context.Context, persistence.Event) error {
		handled++
		return nil
	})
	j.addEvents(1, balance.DepositCreated{}.EventType())
	j.noteAdded(&p.sh.causeIndex)
	j.saveError = persistence.ErrUnavailable
	reactRound(t, s, p)
	require.Empty(t, j.saved)
	reactRound(t, s, p)
	require.Equal(t, []uint64{1}, j.saved)
	require.Equal(t, 1, handled, "the cause is not handled again for it")
}

// TestALaggingReactionReadsEveryEvent: before the first indexed event, and before the positions
// that are kept, any event may be a cause.
func TestALaggingReactionReadsEveryEvent(t *testing.T) {
	handled := 0
	j := &eventJournal{}
	s, p := newReactingOver(j, 0, func(context.Context, persistence.Event) error {
		handled++
		return nil
	})
	decisions, cause := balance.Relayed{}.EventType(), balance.DepositCreated{}.EventType()
	causes := 0
	add := func(n int) {
		for range n {
			j.addEvents(1, cause)
			j.addEvents(2, decisions)
			causes++
		}
	}
	j.addEvents(2*wakeEvery, decisions)
	p.sh.causeIndex.startAfter(uint64(len(j.events)))
	for p.read < 2*wakeEvery {
		_, more, err := s.readCauses(t.Context(), p)
		require.NoError(t, err)
		require.True(t, more)
	}
	require.Equal(t, []uint64{wakeEvery, 2 * wakeEvery}, j.saved, "a crash does not find all of it again")
	add(100)
	p.sh.causeIndex.startAfter(uint64(len(j.events)))
	add(maxCauses + 100)
	j.noteAdded(&p.sh.causeIndex)
	for p.read < uint64(len(j.events)) {
		reactRound(t, s, p)
	}
	require.Equal(t, causes, handled)
	require.EqualValues(t, len(j.events), p.saved)
}

// TestARefusedCauseDelaysOnlyItsWorkspace: causes of other workspaces are handled, and the cursor
// stays before the refused one.
func TestARefusedCauseDelaysOnlyItsWorkspace(t *testing.T) {
	var handled []uint64
	refuses, j := true, &eventJournal{}
	s, p := newReactingOver(j, 0, func(_ context.Context, e persistence.Event) error {
		if e.Workspace == "hostile" && refuses {
			return errors.New("refused")
		}
		handled = append(handled, e.Position)
		return nil
	})
	for _, workspace := range []string{"first", "hostile", "hostile", "other", "first"} {
		j.addEvents(1, balance.DepositCreated{}.EventType())
		j.events[len(j.events)-1].Workspace = workspace
	}
	j.noteAdded(&p.sh.causeIndex)
	reactRound(t, s, p)
	require.ElementsMatch(t, []uint64{1, 4, 5}, handled)
	require.Equal(t, []uint64{1}, j.saved)
	refuses, handled = false, nil
	p.retryLines()
	reactRound(t, s, p)
	require.Equal(t, []uint64{2, 3}, handled)
	require.Equal(t, []uint64{1, 5}, j.saved)
}

// TestALineIsResumedOnce: the end of a pause that was cut short does not make the line ready again.
func TestALineIsResumedOnce(t *testing.T) {
	j := &eventJournal{}
	s, p := newReactingOver(j, 0, func(context.Context, persistence.Event) error { return errors.New("refused") })
	j.addEvents(1, balance.DepositCreated{}.EventType())
	j.noteAdded(&p.sh.causeIndex)
	reactRound(t, s, p)
	line := p.lines[""]
	p.resumeLine(line)
	p.resumeLine(line)
	require.Len(t, p.ready, 1)
}

// TestPendingCausesAreBounded: a reaction whose causes are refused reads no more than
// maxPendingCauses.
func TestPendingCausesAreBounded(t *testing.T) {
	handled, refuses, j := 0, true, &eventJournal{}
	s, p := newReactingOver(j, 0, func(context.Context, persistence.Event) error {
		if refuses {
			return errors.New("refused")
		}
		handled++
		return nil
	})
	j.addEvents(maxPendingCauses+10, balance.DepositCreated{}.EventType())
	j.noteAdded(&p.sh.causeIndex)
	for more := true; more; {
		var err error
		_, more, err = s.readCauses(t.Context(), p)
		require.NoError(t, err)
	}
	require.Len(t, p.pending, maxPendingCauses)
	p.runWorker(s)
	refuses = false
	p.retryLines()
	p.runWorker(s)
	for p.read < uint64(len(j.events)) {
		reactRound(t, s, p)
	}
	require.Equal(t, len(j.events), handled)
	require.EqualValues(t, len(j.events), p.saved)
}

// TestManyDecisionsWakeReactions: reactions wake after wakeEvery decisions and save their cursors,
// which bounds the events that are read again after a crash.
func TestManyDecisionsWakeReactions(t *testing.T) {
	j, c := &eventJournal{}, &reactionIndex{causeTypes: map[string]bool{balance.DepositCreated{}.EventType(): true}}
	woken := func(wake <-chan struct{}) bool {
		select {
		case <-wake:
			return true
		default:
			return false
		}
	}
	_, _, wake := c.nextAfter(0)
	j.addEvents(wakeEvery-1, balance.Relayed{}.EventType())
	j.noteAdded(c)
	require.False(t, woken(wake))
	j.addEvents(1, balance.Relayed{}.EventType())
	j.noteAdded(c)
	require.True(t, woken(wake))
	require.False(t, c.needsWake())
	_, through, wake := c.nextAfter(0)
	require.EqualValues(t, wakeEvery, through)
	c.addPage([]persistence.Event{{Type: balance.DepositCreated{}.EventType(), Position: through + 1}})
	require.True(t, woken(wake))
	next, _, _ := c.nextAfter(through)
	require.Equal(t, through+1, next)
	for position := through + 2; position < through+2*maxCauses; position++ {
		_, _, wake = c.nextAfter(position - 1)
		c.addPage([]persistence.Event{{Type: balance.DepositCreated{}.EventType(), Position: position}})
		require.True(t, woken(wake), "however many there are")
	}
}

// Wait returns when the context ends.
func (p *eventJournal) Wait(ctx context.Context, _ ident.Shard, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestAnIdleShardWakesItsReactions: decisions move the cursors also when no cause follows them.
func TestAnIdleShardWakesItsReactions(t *testing.T) {
	j := &eventJournal{}
	s, p := newReactingOver(j, 0, nil)
	follower := &follower{loops: s.loops, journal: j}
	sh := p.sh
	_, _, wake := sh.causeIndex.nextAfter(0)
	j.addEvents(1, balance.Relayed{}.EventType())
	j.noteAdded(&sh.causeIndex)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { ended <- follower.awaitEvent(ctx, sh) }()
	<-wake
	cancel()
	require.False(t, <-ended)
}

// TestEveryCauseIsHandledOnce: each cause is handled once, those of a workspace in order, and the
// cursor never passes an unhandled cause. The pages of the follower, the position of the reaction
// and the refusals are random.
func TestEveryCauseIsHandledOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		handled, causes, j := map[string][]uint64{}, map[string][]uint64{}, &eventJournal{}
		s, p := newReactingOver(j, 0, nil)
		patient := false
		p.reaction.Handle = func(_ context.Context, e persistence.Event) error {
			if !patient && rapid.IntRange(0, 5).Draw(rt, "refuses") == 0 {
				return fault.New(fault.Unavailable, "")
			}
			handled[e.Workspace] = append(handled[e.Workspace], e.Position)
			return nil
		}
		add := func(n int) {
			for range n {
				kind := rapid.SampledFrom([]string{balance.Relayed{}.EventType(), card.LimitsChanged{}.EventType(),
					balance.DepositCreated{}.EventType()}).Draw(rt, "kind")
				j.addEvents(1, kind)
				j.events[len(j.events)-1].Workspace = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "workspace")
			}
		}
		add(rapid.IntRange(0, 40).Draw(rt, "before"))
		p.sh.causeIndex.startAfter(uint64(rapid.IntRange(0, len(j.events)).Draw(rt, "begin")))
		p.read = uint64(rapid.IntRange(0, len(j.events)).Draw(rt, "cursor"))
		p.saved = p.read
		start := p.read
		check := func() {
			clear(causes)
			for _, e := range j.events {
				if e.Position > start && p.reaction.causedBy(&e) {
					causes[e.Workspace] = append(causes[e.Workspace], e.Position)
				}
			}
			for workspace, want := range causes {
				got := handled[workspace]
				require.True(rt, slices.Equal(want[:len(got)], got), "of %s: %v of %v", workspace, got, want)
				if len(got) < len(want) {
					require.Less(rt, p.saved, want[len(got)])
				}
			}
			require.LessOrEqual(rt, p.saved, p.handledThrough())
		}
		for range rapid.IntRange(0, 30).Draw(rt, "moves") {
			switch rapid.IntRange(0, 3).Draw(rt, "move") {
			case 0:
				add(rapid.IntRange(0, 60).Draw(rt, "events"))
			case 1:
				if c := &p.sh.causeIndex; c.through < uint64(len(j.events)) {
					c.addPage(j.events[c.through:min(c.through+uint64(rapid.IntRange(1, 50).Draw(rt, "page")),
						uint64(len(j.events)))])
				}
			case 2:
				p.retryLines()
			default:
				reactRound(rt, s, p)
			}
			check()
		}
		if p.sh.causeIndex.through < uint64(len(j.events)) {
			j.noteAdded(&p.sh.causeIndex)
		}
		for patient = true; p.saved < uint64(len(j.events)); p.retryLines() {
			reactRound(rt, s, p)
		}
		check()
		for workspace, want := range causes {
			require.Equal(rt, want, handled[workspace])
		}
	})
}
