package httpapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// No minute admits more requests than the limit, no request within the limit is refused, and the
// returned wait is exact. The model stores every request.
func TestTheWindowSlides(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Duration(0)
		l := newLimiter(maxWindows, func() time.Duration { return at })
		limit := rapid.IntRange(1, 9).Draw(t, "limit")
		var passed []time.Duration
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			at += time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond
			var inWindow []time.Duration
			for _, p := range passed {
				if at-p < rateWindow {
					inWindow = append(inWindow, p)
				}
			}
			wait, err := l.admitOne("a", limit)
			if err != nil {
				t.Fatalf("take: %v", err)
			}
			if len(inWindow) < limit {
				if wait != 0 {
					t.Fatalf("refused with %d of %d in the window", len(inWindow), limit)
				}
				passed = append(passed, at)
				continue
			}
			if want := inWindow[0] + rateWindow - at; wait != want {
				t.Fatalf("waits %v, want %v", wait, want)
			}
		}
	})
}

func TestTheTableOfWindowsIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Duration(0)
	l := newLimiter(limiterShards*10, func() time.Duration { return now })
	full := 0
	for i := range 10_000 {
		if _, err := l.admitOne(fmt.Sprint(i), 1); err != nil {
			require.ErrorIs(t, err, errLimiterFull)
			full++
		}
	}
	require.Equal(t, limiterShards*10, l.windowCount())
	require.Equal(t, 10_000-limiterShards*10, full)
	// A caller with a window is still counted.
	wait, err := l.admitOne("0", 2)
	require.NoError(t, err)
	require.Zero(t, wait)
	// A minute later no caller has a window.
	now = rateWindow
	_, err = l.admitOne("new", 1)
	require.NoError(t, err)
}

func TestParseRateLimits(t *testing.T) {
	t.Parallel()
	got, err := ParseRateLimits("100, 600,1200")
	require.NoError(t, err)
	require.Equal(t, DefaultRateLimits(), got)
	got, err = ParseRateLimits("off")
	require.NoError(t, err)
	require.True(t, got.Off)
	for _, bad := range []string{"", "1,2", "1,2,x", "0,1,1", "1,2,3,4", "1,2,9999999"} {
		_, err := ParseRateLimits(bad)
		require.Error(t, err, bad)
	}
}

func BenchmarkTake(b *testing.B) {
	now := time.Duration(0)
	l := newLimiter(maxWindows, func() time.Duration { return now })
	for range b.N {
		now += time.Microsecond
		_, _ = l.admitOne("key/key_01kaex5z3ve00s2j7m0q9d4b1c", 100)
	}
}
