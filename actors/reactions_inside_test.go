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

// pages is a journal of one shard that records reads and saved cursors.
type pages struct {
	persistence.Journal
	events []persistence.Event
	read   []uint64 // the positions after which Events was called
	saved  []uint64
	fails  error // returned by the next SaveCursor
}

func (p *pages) Events(_ context.Context, _ ident.Shard, past uint64, limit int) ([]persistence.Event, error) {
	p.read = append(p.read, past)
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

// follow notes the added events, as the follower does.
func (p *pages) follow(c *causes) { c.note(p.events[c.through:]) }

// reactingOn returns a reaction over the events of j. The test runs its workers.
func reactingOn(j *pages, cursor uint64, handle func(context.Context, persistence.Event) error) (*System, *reacting) {
	r := Reaction{Name: "x", Events: []decision.Event{balance.DepositCreated{}}, Handle: handle}
	sh := &shard{causes: causes{types: causing([]Reaction{r, {Name: "y",
		Events: []decision.Event{agent.Registered{}}}})}}
	s := &System{journal: j, listener: silent{}, clock: time.Now, log: slog.New(slog.DiscardHandler)}
	return s, newReacting(sh, r, cursor)
}

// runWorker has one worker handle the ready causes.
func (p *reacting) runWorker(s *System) {
	if p.takeWorkers() > 0 {
		p.workers = 1
		s.reactWorker(context.Background(), p)
	}
}

// reactRound is reactOnce without the wait at its end.
func reactRound(t require.TestingT, s *System, p *reacting) {
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

// TestDecisionsAreNotReadByReactions: a reaction wakes for a possible cause and reads from it on,
// without the decisions and other events before it. Its cursor is saved after a cause, and when it
// learns that there was none.
func TestDecisionsAreNotReadByReactions(t *testing.T) {
	var handled []uint64
	refused := errors.New("refused")
	var answer error
	j := &pages{}
	s, p := reactingOn(j, 0, func(_ context.Context, e persistence.Event) error {
		handled = append(handled, e.Position)
		return answer
	})
	decisions, other := balance.Relayed{}.EventType(), balance.DepositCreated{}.EventType()

	j.add(2, decisions)
	j.add(1, card.LimitsChanged{}.EventType())
	j.follow(&p.sh.causes)
	require.True(t, p.sh.causes.untold())
	j.add(1, other)
	j.follow(&p.sh.causes)
	require.False(t, p.sh.causes.untold())
	reactRound(t, s, p)
	require.Equal(t, []uint64{4}, j.saved)
	require.Equal(t, []uint64{3}, j.read, "it reads from the cause on")
	reactRound(t, s, p)
	require.Equal(t, []uint64{4}, j.saved, "it is saved")

	j.add(2, decisions)
	j.add(1, other)
	j.follow(&p.sh.causes)
	answer = refused
	reactRound(t, s, p)
	require.EqualValues(t, 6, p.handledThrough(), "the refused cause is pending")
	require.Equal(t, []uint64{4, 6}, j.saved)

	answer = nil
	p.retryLines()
	reactRound(t, s, p)
	require.Equal(t, []uint64{4, 7, 7}, handled)
	j.add(2, decisions)
	j.follow(&p.sh.causes)
	p.sh.causes.tell()
	reactRound(t, s, p)
	require.Equal(t, []uint64{4, 6, 7, 9}, j.saved)
	require.Equal(t, []uint64{4, 7, 7}, handled)
}

// TestSwipesAndLimitsCauseNothing: these events are too many to wake a reaction for each.
func TestSwipesAndLimitsCauseNothing(t *testing.T) {
	types := causing((&System{}).reactions())
	require.NotContains(t, types, balance.Relayed{}.EventType())
	require.NotContains(t, types, card.LimitsChanged{}.EventType())
}

// TestACursorThatWasNotSavedIsSavedAgain: otherwise a start after a crash would read the cause
// again with all decisions since.
func TestACursorThatWasNotSavedIsSavedAgain(t *testing.T) {
	handled := 0
	j := &pages{}
	s, p := reactingOn(j, 0, func(context.Context, persistence.Event) error {
		handled++
		return nil
	})
	j.add(1, balance.DepositCreated{}.EventType())
	j.follow(&p.sh.causes)
	j.fails = persistence.ErrUnavailable
	reactRound(t, s, p)
	require.Empty(t, j.saved)
	reactRound(t, s, p)
	require.Equal(t, []uint64{1}, j.saved)
	require.Equal(t, 1, handled, "the cause is not handled again for it")
}

// TestAReactionThatIsFarBehindReadsEverything: before the first noted event, and before the causes
// that are kept, any event may be a cause.
func TestAReactionThatIsFarBehindReadsEverything(t *testing.T) {
	handled := 0
	j := &pages{}
	s, p := reactingOn(j, 0, func(context.Context, persistence.Event) error {
		handled++
		return nil
	})
	decisions, cause := balance.Relayed{}.EventType(), balance.DepositCreated{}.EventType()
	causes := 0
	add := func(n int) {
		for range n {
			j.add(1, cause)
			j.add(2, decisions)
			causes++
		}
	}
	j.add(2*tellAfter, decisions)
	p.sh.causes.begin(uint64(len(j.events)))
	for p.read < 2*tellAfter {
		_, more, err := s.readCauses(t.Context(), p)
		require.NoError(t, err)
		require.True(t, more)
	}
	require.Equal(t, []uint64{tellAfter, 2 * tellAfter}, j.saved, "a crash does not find all of it again")
	add(100)
	p.sh.causes.begin(uint64(len(j.events)))
	add(maxCauses + 100)
	j.follow(&p.sh.causes)
	for p.read < uint64(len(j.events)) {
		reactRound(t, s, p)
	}
	require.Equal(t, causes, handled)
	require.EqualValues(t, len(j.events), p.saved)
}

// TestARefusedCauseDelaysItsOwnWorkspaceAlone: causes of other workspaces are handled, and the
// cursor stays before the refused one.
func TestARefusedCauseDelaysItsOwnWorkspaceAlone(t *testing.T) {
	var handled []uint64
	refuses, j := true, &pages{}
	s, p := reactingOn(j, 0, func(_ context.Context, e persistence.Event) error {
		if e.Workspace == "hostile" && refuses {
			return errors.New("refused")
		}
		handled = append(handled, e.Position)
		return nil
	})
	for _, workspace := range []string{"first", "hostile", "hostile", "other", "first"} {
		j.add(1, balance.DepositCreated{}.EventType())
		j.events[len(j.events)-1].Workspace = workspace
	}
	j.follow(&p.sh.causes)
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
	j := &pages{}
	s, p := reactingOn(j, 0, func(context.Context, persistence.Event) error { return errors.New("refused") })
	j.add(1, balance.DepositCreated{}.EventType())
	j.follow(&p.sh.causes)
	reactRound(t, s, p)
	line := p.lines[""]
	p.resumeLine(line)
	p.resumeLine(line)
	require.Len(t, p.ready, 1)
}

// TestPendingCausesAreBounded: a reaction whose causes are refused reads no more than
// maxPendingCauses.
func TestPendingCausesAreBounded(t *testing.T) {
	handled, refuses, j := 0, true, &pages{}
	s, p := reactingOn(j, 0, func(context.Context, persistence.Event) error {
		if refuses {
			return errors.New("refused")
		}
		handled++
		return nil
	})
	j.add(maxPendingCauses+10, balance.DepositCreated{}.EventType())
	j.follow(&p.sh.causes)
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

// TestDecisionsWakeReactionsNowAndThen: the cursor moves after tellAfter decisions, which bounds
// what a reaction reads again after a crash.
func TestDecisionsWakeReactionsNowAndThen(t *testing.T) {
	j, c := &pages{}, &causes{types: map[string]bool{balance.DepositCreated{}.EventType(): true}}
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
	for position := through + 2; position < through+2*maxCauses; position++ {
		_, _, told = c.after(position - 1)
		c.note([]persistence.Event{{Type: balance.DepositCreated{}.EventType(), Position: position}})
		require.True(t, woken(told), "however many there are")
	}
}

// Wait returns when the context ends.
func (p *pages) Wait(ctx context.Context, _ ident.Shard, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestReactionsAreToldAtRest: decisions move the cursors also when no cause follows them.
func TestReactionsAreToldAtRest(t *testing.T) {
	j := &pages{}
	s, p := reactingOn(j, 0, nil)
	sh := p.sh
	_, _, told := sh.causes.after(0)
	j.add(1, balance.Relayed{}.EventType())
	j.follow(&sh.causes)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { ended <- s.awaitEvent(ctx, sh) }()
	<-told
	cancel()
	require.False(t, <-ended)
}

// TestEveryCauseIsHandledOnce: each cause is handled once, those of a workspace in order, and the
// cursor never passes an unhandled cause. The pages of the follower, the position of the reaction
// and the refusals are random.
func TestEveryCauseIsHandledOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		handled, causes, j := map[string][]uint64{}, map[string][]uint64{}, &pages{}
		s, p := reactingOn(j, 0, nil)
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
				j.add(1, kind)
				j.events[len(j.events)-1].Workspace = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "workspace")
			}
		}
		add(rapid.IntRange(0, 40).Draw(rt, "before"))
		p.sh.causes.begin(uint64(rapid.IntRange(0, len(j.events)).Draw(rt, "begin")))
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
				if c := &p.sh.causes; c.through < uint64(len(j.events)) {
					c.note(j.events[c.through:min(c.through+uint64(rapid.IntRange(1, 50).Draw(rt, "page")),
						uint64(len(j.events)))])
				}
			case 2:
				p.retryLines()
			default:
				reactRound(rt, s, p)
			}
			check()
		}
		if p.sh.causes.through < uint64(len(j.events)) {
			j.follow(&p.sh.causes)
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
