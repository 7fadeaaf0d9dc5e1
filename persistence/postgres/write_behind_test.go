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

// table is the stored side of a WriteBehind, with the time of each write.
type table struct {
	begun    time.Time
	rows     map[string]int
	writes   []time.Duration
	refuse   error
	during   func()
	failures []error
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

// runBehind runs a test of a WriteBehind on a clock of its own.
func runBehind(t *testing.T, test func(t *testing.T, w *table, b *postgres.WriteBehind[string, int])) {
	synctest.Test(t, func(t *testing.T) {
		w := &table{begun: time.Now(), rows: map[string]int{}}
		b := postgres.NewWriteBehind(postgres.WriteBehindInterval, w.write)
		alive, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.Run(alive, func(err error) { w.failures = append(w.failures, err) })
		}()
		test(t, w, b)
		end()
		<-ended
	})
}

// advance moves the clock.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func requireStored(t *testing.T, b *postgres.WriteBehind[string, int], key string, want int) {
	t.Helper()
	value, kept := b.Get(key)
	require.Equal(t, want != 0, kept)
	require.Equal(t, want, value)
}

func TestValuesAreWrittenTogetherOncePerInterval(t *testing.T) {
	runBehind(t, func(t *testing.T, w *table, b *postgres.WriteBehind[string, int]) {
		for i := range 20 {
			require.NoError(t, b.Put("a", i+1))
			require.NoError(t, b.Put("b", i+1))
			advance(postgres.WriteBehindInterval / 10)
		}
		require.Equal(t, []time.Duration{postgres.WriteBehindInterval, 2 * postgres.WriteBehindInterval}, w.writes)
		require.Equal(t, map[string]int{"a": 20, "b": 20}, w.rows)
		requireStored(t, b, "a", 0)
		advance(time.Hour)
		require.Len(t, w.writes, 2)
		require.NoError(t, b.Put("a", 21))
		require.NoError(t, b.Flush(t.Context()))
		require.Equal(t, 21, w.rows["a"])
	})
}

var errDown = errors.New("down")

// While a write fails, Put stores nothing, the failed values are retried, and values stored during
// the write supersede them.
func TestFailedWriteIsRetried(t *testing.T) {
	runBehind(t, func(t *testing.T, w *table, b *postgres.WriteBehind[string, int]) {
		w.refuse = errDown
		w.during = func() {
			requireStored(t, b, "a", 1)
			require.NoError(t, b.Put("a", 2))
			requireStored(t, b, "a", 2)
			w.during = nil
		}
		require.NoError(t, b.Put("a", 1))
		require.NoError(t, b.Put("b", 1))
		advance(postgres.WriteBehindInterval)
		for range 3 {
			require.ErrorIs(t, b.Put("a", 3), errDown)
			requireStored(t, b, "a", 2)
			requireStored(t, b, "b", 1)
			advance(postgres.WriteBehindInterval)
		}
		require.Len(t, w.writes, 4)
		require.Equal(t, []error{errDown}, w.failures)
		w.refuse = nil
		requireStored(t, b, "a", 2)
		advance(postgres.WriteBehindInterval)
		require.Equal(t, map[string]int{"a": 2, "b": 1}, w.rows)
		require.NoError(t, b.Put("a", 4))
		advance(postgres.WriteBehindInterval)
		require.Equal(t, 4, w.rows["a"])
	})
}

// After Refuse, Put fails and Flush still writes the stored values.
func TestRefusalKeepsStoredValues(t *testing.T) {
	runBehind(t, func(t *testing.T, w *table, b *postgres.WriteBehind[string, int]) {
		require.NoError(t, b.Refusal())
		require.NoError(t, b.Put("a", 1))
		b.Refuse(errDown)
		require.ErrorIs(t, b.Refusal(), errDown)
		require.ErrorIs(t, b.Put("a", 2), errDown)
		require.NoError(t, b.Flush(t.Context()))
		require.Equal(t, map[string]int{"a": 1}, w.rows)
		require.Empty(t, w.failures)
	})
}

// A value passed to Retry is written by the next write, also after Refuse, unless a later value was
// stored. It does not count as a failure.
func TestRetriedValueIsWrittenNextTime(t *testing.T) {
	runBehind(t, func(t *testing.T, w *table, b *postgres.WriteBehind[string, int]) {
		w.during = func() {
			w.during = nil
			require.NoError(t, b.Put("b", 2))
			b.Retry("a", 1)
			b.Retry("b", 1)
		}
		require.NoError(t, b.Put("a", 1))
		require.NoError(t, b.Put("b", 1))
		advance(postgres.WriteBehindInterval)
		w.rows = map[string]int{}
		requireStored(t, b, "a", 1)
		requireStored(t, b, "b", 2)
		require.NoError(t, b.LastError())
		advance(postgres.WriteBehindInterval)
		require.Equal(t, map[string]int{"a": 1, "b": 2}, w.rows)
		w.refuse = errDown
		require.NoError(t, b.Put("a", 3))
		require.ErrorIs(t, b.Flush(t.Context()), errDown)
		require.ErrorIs(t, b.LastError(), errDown)
	})
}

// Writes do not overlap: the values of an earlier write could arrive after those of a later one.
func TestWritesDoNotOverlap(t *testing.T) {
	var writing, most atomic.Int64
	b := postgres.NewWriteBehind(postgres.WriteBehindInterval, func(context.Context, map[string]int) error {
		most.Store(max(most.Load(), writing.Add(1)))
		runtime.Gosched()
		writing.Add(-1)
		return nil
	})
	var work sync.WaitGroup
	for n := range 8 {
		work.Go(func() {
			for i := range 500 {
				_ = b.Put(fmt.Sprint(n), i)
				_ = b.Flush(context.Background())
			}
		})
	}
	work.Wait()
	require.EqualValues(t, 1, most.Load())
}
