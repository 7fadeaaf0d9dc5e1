package fairshare

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func acquireLater(l *Limit, workspace string) <-chan func() {
	got := make(chan func(), 1)
	go func() {
		if free, err := l.Acquire(context.Background(), workspace); err == nil {
			got <- free
		}
	}()
	return got
}

// awaitQueue waits until so many wait for a place.
func (l *Limit) awaitQueue(workspace string, n int) {
	for {
		l.mu.Lock()
		waiting := len(l.waiting[workspace])
		l.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

func TestAWorkspaceUsesUpItsOwnPlacesAlone(t *testing.T) {
	l := New(4, 2)
	hostile := []<-chan func(){acquireLater(l, "hostile"), acquireLater(l, "hostile")}
	for _, got := range hostile {
		defer (<-got)()
	}
	third := acquireLater(l, "hostile")
	l.awaitQueue("hostile", 1)
	free, err := l.Acquire(t.Context(), "other")
	require.NoError(t, err)
	free()
	require.Empty(t, third)
}

func TestWorkspacesAreServedInTurn(t *testing.T) {
	l := New(1, 1)
	free, err := l.Acquire(t.Context(), "first")
	require.NoError(t, err)
	many := []<-chan func(){acquireLater(l, "many")}
	l.awaitQueue("many", 1)
	many = append(many, acquireLater(l, "many"))
	l.awaitQueue("many", 2)
	one := acquireLater(l, "one")
	l.awaitQueue("one", 1)
	free()
	(<-many[0])()
	(<-one)()
	(<-many[1])()
	require.Equal(t, 1, l.free)
	require.Empty(t, l.turns)
}

func TestAnAbandonedWaitTakesNoPlace(t *testing.T) {
	l := New(1, 1)
	free, err := l.Acquire(t.Context(), "a")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Acquire(ctx, "b")
	require.ErrorIs(t, err, context.Canceled)
	free()
	require.Equal(t, 1, l.free)
	require.Empty(t, l.waiting)
	require.Empty(t, l.turns)
}

// TestPlacesKeepTheirSharesAndTheirSum draws random arrivals and departures. No place stays free
// while a workspace waits that has not used up its share.
func TestPlacesKeepTheirSharesAndTheirSum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const all, share = 5, 2
		l := New(all, share)
		var held []func()
		var waiting []<-chan func()
		for range rapid.IntRange(1, 60).Draw(rt, "moves") {
			switch rapid.IntRange(0, 2).Draw(rt, "move") {
			case 0, 1:
				workspace := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "workspace")
				before := l.countCallers()
				got := acquireLater(l, workspace)
				for l.countCallers() == before {
					runtime.Gosched()
				}
				waiting = append(waiting, got)
			default:
				if len(held) > 0 {
					held[0]()
					held = held[1:]
				}
			}
			for i := 0; i < len(waiting); {
				select {
				case free := <-waiting[i]:
					held, waiting = append(held, free), append(waiting[:i], waiting[i+1:]...)
				default:
					i++
				}
			}
			l.mu.Lock()
			used := 0
			for workspace, n := range l.used {
				require.LessOrEqual(rt, n, share, workspace)
				used += n
			}
			require.Equal(rt, all, used+l.free)
			for workspace := range l.waiting {
				require.True(rt, l.free == 0 || l.used[workspace] == share, workspace)
			}
			l.mu.Unlock()
		}
	})
}

// countCallers returns how many calls have a place or wait for one.
func (l *Limit) countCallers() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, used := range l.used {
		n += used
	}
	for _, waiting := range l.waiting {
		n += len(waiting)
	}
	return n
}
