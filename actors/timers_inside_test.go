package actors

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
)

// dueJournal is a journal whose timers stay due: no fire removes them.
type dueJournal struct {
	persistence.Journal
	timers []persistence.Timer
}

func (j *dueJournal) Timers(
	_ context.Context, _ ident.Shard, _ time.Time, after persistence.Timer, limit int,
) ([]persistence.Timer, error) {
	begin := 0
	for i := range j.timers {
		if j.timers[i] == after {
			begin = i + 1
		}
	}
	return j.timers[begin:min(begin+limit, len(j.timers))], nil
}

func (j *dueJournal) add(workspace string, n int) {
	for range n {
		at := time.Unix(int64(len(j.timers)+1), 0)
		j.timers = append(j.timers, persistence.Timer{Workspace: workspace, Key: fmt.Sprint(len(j.timers)), Due: at})
	}
}

func dueIn(t *testing.T, j *dueJournal) (*timerLoop, *shard) {
	t.Helper()
	return &timerLoop{loops: newLoops(&Config{Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Slack: 1}), journal: j,
		clockSuspect: func() bool { return false }, reads: make(chan struct{}, timerReads)}, &shard{}
}

func ofWorkspace(due []persistence.Timer, workspace string) (n int) {
	for i := range due {
		if due[i].Workspace == workspace {
			n++
		}
	}
	return n
}

// TestTimersOfWorkspacesAreFiredInTurn: 500 due timers of one workspace do not delay another's.
func TestTimersOfWorkspacesAreFiredInTurn(t *testing.T) {
	j := &dueJournal{}
	j.add("crowd", 500)
	j.add("other", 3)
	s, sh := dueIn(t, j)
	due, err := s.dueTimers(t.Context(), sh)
	require.NoError(t, err)
	require.Len(t, due, timersAtOnce)
	require.Equal(t, 3, ofWorkspace(due, "other"))
	require.Equal(t, j.timers[0], due[0], "the earliest of a workspace first")
}

// TestTimersThatStayDueHideNoOther: later reads continue behind timers that fail for ever.
func TestTimersThatStayDueHideNoOther(t *testing.T) {
	j := &dueJournal{}
	j.add("failing", 5*timersRead/2)
	j.add("other", 1)
	s, sh := dueIn(t, j)
	for round := range 3 {
		due, err := s.dueTimers(t.Context(), sh)
		require.NoError(t, err)
		require.Equal(t, round == 2, ofWorkspace(due, "other") == 1, "round %d", round)
	}
	due, err := s.dueTimers(t.Context(), sh)
	require.NoError(t, err)
	require.Equal(t, j.timers[0], due[0], "the fourth begins anew")
}
