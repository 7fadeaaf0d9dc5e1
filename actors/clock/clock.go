// Package clock decides which time a deployment trusts. A Guard compares the machine's wall clock
// with the time since boot, which no one can set, and with the Mark of the process before. The
// package reads no clock itself.
//
// Trusted time never runs backward. It follows the wall clock while the wall clock agrees with the
// time since boot. After a step beyond Bound the clock is suspect: trusted time then advances with
// the time since boot alone, and the caller must forget, release or end nothing on account of time
// until the step is taken back or an operator accepts the wall clock.
package clock

import (
	"fmt"
	"time"
)

// Bounds of a Guard.
const (
	// Bound is the largest step of the wall clock that the guard follows silently. Leap
	// seconds and the steps of a time daemon that has just started are smaller.
	Bound = 2 * time.Minute
	// StartBound is the longest time between two processes that a start believes without a
	// synchronised clock: a long weekend. No clock of the machine distinguishes a long time without
	// power from a wall clock that is ahead.
	StartBound = 96 * time.Hour
	// ForgivenPerDay is how much of the steps below Bound is forgiven in a day, so that small
	// corrections never add up to it. It is seven times what the worst crystals of computers drift.
	ForgivenPerDay = time.Minute
	// Jitter is a difference that is no step: the two clocks are read one after the other.
	Jitter = 10 * time.Millisecond
)

// Reading holds both clocks of a machine at one moment.
type Reading struct {
	Wall time.Time
	// Boot is the time since the machine has booted, its sleep included.
	Boot time.Duration
}

// Mark is the state that one process stores for the next.
type Mark struct {
	Trusted time.Time `json:"trusted"`
	Wall    time.Time `json:"wall"`
	Suspect bool      `json:"suspect"`
}

// Guard turns readings into trusted time. It is not safe for concurrent use.
type Guard struct {
	// wall and boot belong to the last reading: the wall clock and the time since boot. trusted
	// is the trusted time of that reading. Committed may have raised it since.
	trusted, wall time.Time
	boot          time.Duration
	// steps is how far the wall clock has moved against the time since boot. While the clock is
	// not suspect, steps shrinks by ForgivenPerDay.
	steps   time.Duration
	suspect bool
}

// Start makes the Guard of a process. mark is nil on the first start of a deployment. synchronised
// reports that the kernel calls its clock synchronised with a time server. At a start nothing
// contradicts such a clock, unless it was suspect before or is behind the mark. `purser serve`
// calls it once.
func Start(mark *Mark, synchronised bool, r Reading) *Guard {
	g := &Guard{trusted: r.Wall.Round(0), wall: r.Wall.Round(0), boot: r.Boot}
	if mark == nil {
		return g
	}
	before, bound := mark.Wall, StartBound
	if mark.Suspect {
		before, bound = mark.Trusted, Bound
	} else if synchronised {
		bound = 1<<63 - 1
	}
	step := g.wall.Sub(before)
	if g.suspect = step > bound || step < -Bound; g.suspect {
		g.steps, g.trusted = step, mark.Trusted
		return g
	}
	g.trusted = laterOf(g.trusted, mark.Trusted)
	return g
}

// Observe moves trusted time on to the moment of a reading. It judges anew whether the clock is
// suspect, by the sum of its steps.
func (g *Guard) Observe(r Reading) {
	wall := r.Wall.Round(0)
	elapsed := max(0, r.Boot-g.boot)
	g.steps += wall.Sub(g.wall) - elapsed
	if !g.suspect {
		g.forgiveSteps(elapsed)
	}
	g.suspect = g.steps > Bound || g.steps < -Bound
	switch onward := g.trusted.Add(elapsed); {
	case g.suspect:
		g.trusted = onward
	case wall.After(onward.Add(Jitter)):
		g.trusted = wall
	case g.Ahead():
		g.trusted = laterOf(g.trusted.Add(elapsed/2), wall)
	default:
		g.trusted = onward
	}
	g.wall, g.boot = wall, max(g.boot, r.Boot)
}

func (g *Guard) forgiveSteps(elapsed time.Duration) {
	allowed := time.Duration(float64(elapsed) * (float64(ForgivenPerDay) / float64(24*time.Hour)))
	if g.steps > 0 {
		g.steps -= min(allowed, g.steps)
	} else {
		g.steps += min(allowed, -g.steps)
	}
}

// Accept believes the wall clock of a reading. Trusted time still never runs backward: where it is
// ahead of the wall clock it runs at half speed until the wall clock has caught up.
func (g *Guard) Accept(r Reading) {
	g.Observe(r)
	g.steps, g.suspect = 0, false
	g.trusted = laterOf(g.trusted, g.wall)
}

// Committed raises trusted time to the time of a stored decision. A stored time more than Bound
// ahead of trusted time makes the clock suspect. An earlier time changes nothing.
func (g *Guard) Committed(at time.Time) {
	ahead := at.Sub(g.trusted)
	if ahead <= 0 {
		return
	}
	g.trusted = at.Round(0)
	if ahead > Bound {
		g.steps, g.suspect = g.wall.Sub(at), true
	}
}

// Trusted is the trusted time after the last call of Start, Observe, Accept or Committed.
// `purser serve` derives the time of every decision from it, and `purser clock` shows it.
func (g *Guard) Trusted() time.Time { return g.trusted }

// Suspect reports that the wall clock has stepped beyond Bound and that no one has accepted it.
// `purser serve` asks it after each reading, and `purser clock` shows it.
func (g *Guard) Suspect() bool { return g.suspect }

// Ahead reports that the clock is not suspect and trusted time is ahead of it by more than Jitter.
// Trusted time then runs at half speed until the wall clock has caught up. `purser serve` derives
// the pace of its time from it.
func (g *Guard) Ahead() bool { return !g.suspect && g.trusted.Sub(g.wall) > Jitter }

// Mark returns the state for the next process. `purser serve` stores it in the data directory.
func (g *Guard) Mark() Mark { return Mark{Trusted: g.trusted, Wall: g.wall, Suspect: g.suspect} }

// Offset is how far the wall clock is ahead of trusted time, negative when it is behind. A metric
// of `purser serve` and Fault show it.
func (g *Guard) Offset() time.Duration { return g.wall.Sub(g.trusted) }

// Fault is nil while the clock is trusted; otherwise its error says why the clock is suspect.
// `purser serve` logs it and is not ready while it is set.
func (g *Guard) Fault() error {
	if !g.suspect {
		return nil
	}
	side, offset := "ahead of", g.Offset()
	if offset < 0 {
		side, offset = "behind", -offset
	}
	return fmt.Errorf("the wall clock says %s, %s %s the trusted time; nothing expires until it is set right or "+
		"`purser clock accept` confirms it", g.wall.UTC().Format(time.RFC3339), offset.Round(time.Second), side)
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
