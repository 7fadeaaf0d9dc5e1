package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence/postgres"
)

// table is what is written behind, at what time.
type table struct {
	begun  time.Time
	rows   map[string]int
	writes []time.Duration
	refuse error
	during func()
	told   []error
}

func (w *table) write(_ context.Context, kept map[string]int) error {
	w.writes = append(w.writes, time.Since(w.begun))
	if w.during != nil {
		w.during()
	}
	if w.refuse == nil {
		maps.Copy(w.rows, kept)
	}
	return w.refuse
}

// behind runs a test on a clock that it turns.
func behind(t *testing.T, test func(t *testing.T, w *table, b *postgres.Behind[string, int])) {
	synctest.Test(t, func(t *testing.T) {
		w := &table{begun: time.Now(), rows: map[string]int{}}
		b := postgres.NewBehind(w.write)
		alive, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.Run(alive, func(err error) { w.told = append(w.told, err) })
		}()
		test(t, w, b)
		end()
		<-ended
	})
}

// turn lets time pass.
func turn(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func requireKept(t *testing.T, b *postgres.Behind[string, int], key string, want int) {
	t.Helper()
	value, kept := b.Get(key)
	require.Equal(t, want != 0, kept)
	require.Equal(t, want, value)
}

func TestWhatIsKeptIsWrittenTogetherAndSeldom(t *testing.T) {
	behind(t, func(t *testing.T, w *table, b *postgres.Behind[string, int]) {
		for i := range 20 {
			require.NoError(t, b.Keep("a", i+1))
			require.NoError(t, b.Keep("b", i+1))
			turn(postgres.BehindEvery / 10)
		}
		require.Equal(t, []time.Duration{postgres.BehindEvery, 2 * postgres.BehindEvery}, w.writes)
		require.Equal(t, map[string]int{"a": 20, "b": 20}, w.rows)
		requireKept(t, b, "a", 0)
		turn(time.Hour)
		require.Len(t, w.writes, 2)
		require.NoError(t, b.Keep("a", 21))
		require.NoError(t, b.Flush(t.Context()))
		require.Equal(t, 21, w.rows["a"])
	})
}

var errDown = errors.New("down")

// While a write fails nothing is kept, what was is tried again, and what came during the write is the newer.
func TestWhatCannotBeWrittenIsTriedAgain(t *testing.T) {
	behind(t, func(t *testing.T, w *table, b *postgres.Behind[string, int]) {
		w.refuse = errDown
		w.during = func() {
			requireKept(t, b, "a", 1)
			require.NoError(t, b.Keep("a", 2))
			requireKept(t, b, "a", 2)
			w.during = nil
		}
		require.NoError(t, b.Keep("a", 1))
		require.NoError(t, b.Keep("b", 1))
		turn(postgres.BehindEvery)
		for range 3 {
			require.ErrorIs(t, b.Keep("a", 3), errDown)
			requireKept(t, b, "a", 2)
			requireKept(t, b, "b", 1)
			turn(postgres.BehindEvery)
		}
		require.Len(t, w.writes, 4)
		require.Equal(t, []error{errDown}, w.told)
		w.refuse = nil
		requireKept(t, b, "a", 2)
		turn(postgres.BehindEvery)
		require.Equal(t, map[string]int{"a": 2, "b": 1}, w.rows)
		require.NoError(t, b.Keep("a", 4))
		turn(postgres.BehindEvery)
		require.Equal(t, 4, w.rows["a"])
	})
}

// Who refuses more still writes what it has, when it is told to.
func TestRefuse(t *testing.T) {
	behind(t, func(t *testing.T, w *table, b *postgres.Behind[string, int]) {
		require.NoError(t, b.Refusal())
		require.NoError(t, b.Keep("a", 1))
		b.Refuse(errDown)
		require.ErrorIs(t, b.Refusal(), errDown)
		require.ErrorIs(t, b.Keep("a", 2), errDown)
		require.NoError(t, b.Flush(t.Context()))
		require.Equal(t, map[string]int{"a": 1}, w.rows)
		require.Empty(t, w.told)
	})
}

// What a write leaves is tried the next time, by itself and after Refuse too, unless something newer was kept; it is no failure.
func TestWhatAWriteLeavesIsTriedAgain(t *testing.T) {
	behind(t, func(t *testing.T, w *table, b *postgres.Behind[string, int]) {
		w.during = func() {
			w.during = nil
			require.NoError(t, b.Keep("b", 2))
			b.Again("a", 1)
			b.Again("b", 1)
		}
		require.NoError(t, b.Keep("a", 1))
		require.NoError(t, b.Keep("b", 1))
		turn(postgres.BehindEvery)
		w.rows = map[string]int{}
		requireKept(t, b, "a", 1)
		requireKept(t, b, "b", 2)
		require.NoError(t, b.Failed())
		turn(postgres.BehindEvery)
		require.Equal(t, map[string]int{"a": 1, "b": 2}, w.rows)
		w.refuse = errDown
		require.NoError(t, b.Keep("a", 3))
		require.ErrorIs(t, b.Flush(t.Context()), errDown)
		require.ErrorIs(t, b.Failed(), errDown)
	})
}

// Two do not write at the same time: what the earlier one has could come after what the later one has.
func TestWritesTakeTurns(t *testing.T) {
	var writing, most atomic.Int64
	b := postgres.NewBehind(func(context.Context, map[string]int) error {
		most.Store(max(most.Load(), writing.Add(1)))
		runtime.Gosched()
		writing.Add(-1)
		return nil
	})
	var work sync.WaitGroup
	for n := range 8 {
		work.Go(func() {
			for i := range 500 {
				_ = b.Keep(fmt.Sprint(n), i)
				_ = b.Flush(context.Background())
			}
		})
	}
	work.Wait()
	require.EqualValues(t, 1, most.Load())
}
