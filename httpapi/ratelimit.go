package httpapi

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits of the rate limiter.
const (
	rateWindow     = time.Minute
	maxWindows     = 1_000_000 // keys, workspaces and addresses that are counted at once
	limiterShards  = 64
	sweepPerInsert = 4           // windows examined for removal whenever one is added
	fullSweepPause = time.Second // between sweeps of a full shard
)

// RateLimits are requests per minute. Off admits every request, for load tests.
type RateLimits struct {
	PerKey, PerWorkspace, PerAddress int
	Off                              bool
}

// DefaultRateLimits returns the documented limits per API key, per workspace over all its keys, and
// per peer address over the whole API.
func DefaultRateLimits() RateLimits {
	return RateLimits{PerKey: 100, PerWorkspace: 600, PerAddress: 1200}
}

// ParseRateLimits reads "100,600,1200" (requests per minute of a key, workspace, address) or "off".
// It fails for any other form and for a number outside 1 to maxPerWindow.
func ParseRateLimits(s string) (RateLimits, error) {
	if s == "off" {
		return RateLimits{Off: true}, nil
	}
	parts := strings.Split(s, ",")
	if len(parts) != 3 {
		return RateLimits{}, fmt.Errorf("rate limits %q: want three numbers (key, workspace, address) or off", s)
	}
	var n [3]int
	for i, part := range parts {
		v, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || v < 1 || v > maxPerWindow {
			return RateLimits{}, fmt.Errorf("rate limits %q: want numbers from 1 to %d", s, maxPerWindow)
		}
		n[i] = v
	}
	return RateLimits{PerKey: n[0], PerWorkspace: n[1], PerAddress: n[2]}, nil
}

// maxPerWindow bounds a limit, because a window stores the time of each of its requests.
const maxPerWindow = 1_000_000

// errLimiterFull means that the table has no room for another caller.
var errLimiterFull = errors.New("rate limiter full")

// limiter counts requests in sliding windows: no minute ever has more than the limit. It stores the
// time of each admitted request, so its memory grows with the requests of the last minute. It reads
// a monotonic clock, so steps of the wall clock do not move the windows. It is safe for concurrent
// use.
type limiter struct {
	elapsed func() time.Duration
	seed    maphash.Seed
	shards  [limiterShards]limiterShard
}

type limiterShard struct {
	mu      sync.Mutex
	windows map[string]*window
	max     int
	swept   time.Duration // when the full shard was last swept
}

// window is a ring of the times of admitted requests.
type window struct {
	times []time.Duration
	head  int // oldest
	count int
}

func newLimiter(maxWindows int, elapsed func() time.Duration) *limiter {
	l := &limiter{elapsed: elapsed, seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i] = limiterShard{windows: map[string]*window{}, max: max(1, maxWindows/limiterShards),
			swept: -fullSweepPause}
	}
	return l
}

// admitOne admits one request of a caller, limited per rateWindow, and returns 0, or returns the
// wait until the next can be admitted. It fails with errLimiterFull when the table has no room for
// the caller.
func (l *limiter) admitOne(caller string, limit int) (time.Duration, error) {
	s := &l.shards[maphash.String(l.seed, caller)%limiterShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	at := l.elapsed()
	w := s.windowOf(caller, at)
	if w == nil {
		return 0, errLimiterFull
	}
	if w.count >= limit {
		return w.times[w.head] + rateWindow - at, nil
	}
	w.addTime(at, limit)
	return 0, nil
}

// countAdmitted counts n requests of a caller that were admitted before. It counts at most up to
// the limit, so a caller waits a minute at most. When the table has no room for the caller it
// counts nothing.
func (l *limiter) countAdmitted(caller string, limit, n int) {
	s := &l.shards[maphash.String(l.seed, caller)%limiterShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	at := l.elapsed()
	w := s.windowOf(caller, at)
	if w == nil {
		return
	}
	for range min(n, limit-w.count) {
		w.addTime(at, limit)
	}
}

// windowOf returns the window of a caller, without expired requests. It returns nil when the table
// has no room for another caller. The caller holds mu.
func (s *limiterShard) windowOf(caller string, at time.Duration) *window {
	w := s.windows[caller]
	if w == nil {
		if !s.makeRoom(at) {
			return nil
		}
		w = &window{}
		s.windows[caller] = w
	}
	w.dropExpired(at)
	return w
}

// untilFree returns the wait until a request of a caller would be admitted, 0 for now. It counts
// nothing.
func (l *limiter) untilFree(caller string, limit int) time.Duration {
	s := &l.shards[maphash.String(l.seed, caller)%limiterShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	at := l.elapsed()
	w := s.windows[caller]
	if w == nil {
		return 0
	}
	if w.dropExpired(at); w.count < limit {
		return 0
	}
	return w.times[w.head] + rateWindow - at
}

// windowCount returns the number of windows, for the metrics.
func (l *limiter) windowCount() int {
	n := 0
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		n += len(s.windows)
		s.mu.Unlock()
	}
	return n
}

// makeRoom reports whether one more window fits. It examines a few windows each time, so that idle
// ones leave as others arrive. A full table is swept whole at most every fullSweepPause. The caller
// holds mu.
func (s *limiterShard) makeRoom(at time.Duration) bool {
	s.sweepIdle(at, sweepPerInsert)
	if len(s.windows) < s.max {
		return true
	}
	if at-s.swept >= fullSweepPause {
		s.swept = at
		s.sweepIdle(at, len(s.windows))
	}
	return len(s.windows) < s.max
}

// sweepIdle examines n windows, in the map's random order, and removes the idle ones. The caller
// holds mu.
func (s *limiterShard) sweepIdle(at time.Duration, n int) {
	for caller, w := range s.windows {
		if n == 0 {
			return
		}
		n--
		if w.dropExpired(at); w.count == 0 {
			delete(s.windows, caller)
		}
	}
}

// dropExpired drops the requests that are older than rateWindow.
func (w *window) dropExpired(at time.Duration) {
	for w.count > 0 && w.times[w.head] <= at-rateWindow {
		w.head = (w.head + 1) % len(w.times)
		w.count--
	}
}

// addTime records a request at a time. The ring grows as needed, up to limit entries.
func (w *window) addTime(at time.Duration, limit int) {
	if w.count == len(w.times) {
		w.growRing(limit)
	}
	w.times[(w.head+w.count)%len(w.times)] = at
	w.count++
}

func (w *window) growRing(limit int) {
	times := make([]time.Duration, min(max(4, 2*len(w.times)), max(limit, w.count+1)))
	for i := range w.count {
		times[i] = w.times[(w.head+i)%len(w.times)]
	}
	w.times, w.head = times, 0
}
