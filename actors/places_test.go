package actors

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func acquireLater(p *places, workspace string) <-chan func() {
	got := make(chan func(), 1)
	go func() {
		if free, err := p.acquirePlace(context.Background(), workspace); err == nil {
			got <- free
		}
	}()
	return got
}

// awaitQueue waits until so many wait for a place.
func (p *places) awaitQueue(workspace string, n int) {
	for {
		p.mu.Lock()
		waiting := len(p.waiting[workspace])
		p.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

func TestAWorkspaceUsesUpItsOwnPlacesAlone(t *testing.T) {
	p := newPlaces(4, 2)
	hostile := []<-chan func(){acquireLater(p, "hostile"), acquireLater(p, "hostile")}
	for _, got := range hostile {
		defer (<-got)()
	}
	third := acquireLater(p, "hostile")
	p.awaitQueue("hostile", 1)
	free, err := p.acquirePlace(t.Context(), "other")
	require.NoError(t, err)
	free()
	require.Empty(t, third)
}

func TestWorkspacesAreServedInTurn(t *testing.T) {
	p := newPlaces(1, 1)
	free, err := p.acquirePlace(t.Context(), "first")
	require.NoError(t, err)
	many := []<-chan func(){acquireLater(p, "many")}
	p.awaitQueue("many", 1)
	many = append(many, acquireLater(p, "many"))
	p.awaitQueue("many", 2)
	one := acquireLater(p, "one")
	p.awaitQueue("one", 1)
	free()
	(<-many[0])()
	(<-one)()
	(<-many[1])()
	require.Equal(t, 1, p.free)
	require.Empty(t, p.turns)
}

func TestAPlaceThatIsGivenUpIsFree(t *testing.T) {
	p := newPlaces(1, 1)
	free, err := p.acquirePlace(t.Context(), "a")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.acquirePlace(ctx, "b")
	require.ErrorIs(t, err, context.Canceled)
	free()
	require.Equal(t, 1, p.free)
	require.Empty(t, p.waiting)
	require.Empty(t, p.turns)
}

// TestPlacesKeepTheirSharesAndTheirSum draws random arrivals and departures. No place stays free
// while a workspace waits that has not used up its share.
func TestPlacesKeepTheirSharesAndTheirSum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const all, share = 5, 2
		p := newPlaces(all, share)
		var held []func()
		var waiting []<-chan func()
		for range rapid.IntRange(1, 60).Draw(rt, "moves") {
			switch rapid.IntRange(0, 2).Draw(rt, "move") {
			case 0, 1:
				workspace := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "workspace")
				before := p.countCallers()
				got := acquireLater(p, workspace)
				for p.countCallers() == before {
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
			p.mu.Lock()
			used := 0
			for workspace, n := range p.used {
				require.LessOrEqual(rt, n, share, workspace)
				used += n
			}
			require.Equal(rt, all, used+p.free)
			for workspace := range p.waiting {
				require.True(rt, p.free == 0 || p.used[workspace] == share, workspace)
			}
			p.mu.Unlock()
		}
	})
}

// countCallers returns how many calls have a place or wait for one.
func (p *places) countCallers() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, used := range p.used {
		n += used
	}
	for _, waiting := range p.waiting {
		n += len(waiting)
	}
	return n
}
