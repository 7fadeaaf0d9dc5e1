package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/clock"
)

const day = 24 * time.Hour

var noon = time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)

// machine is a machine whose wall clock can be set.
type machine struct {
	wall time.Time
	boot time.Duration
	g    *clock.Guard
}

func started(mark *clock.Mark, synchronised bool, wall time.Time) *machine {
	m := &machine{wall: wall, boot: time.Hour}
	m.g = clock.Start(mark, synchronised, m.reading())
	return m
}

func (m *machine) reading() clock.Reading { return clock.Reading{Wall: m.wall, Boot: m.boot} }

func (m *machine) run(d time.Duration) {
	m.wall, m.boot = m.wall.Add(d), m.boot+d
	m.g.Observe(m.reading())
}

func (m *machine) set(step time.Duration) {
	m.wall = m.wall.Add(step)
	m.g.Observe(m.reading())
}

func TestTrustedTimeFollowsTheWallClock(t *testing.T) {
	m := started(nil, false, noon)
	m.run(time.Hour)
	require.Equal(t, noon.Add(time.Hour), m.g.Trusted())
	m.run(45 * day) // a machine that sleeps counts the time since boot
	require.Equal(t, noon.Add(45*day+time.Hour), m.g.Trusted())
	require.NoError(t, m.g.Fault())
}

func TestASmallStepForwardIsFollowed(t *testing.T) {
	m := started(nil, false, noon)
	m.set(time.Minute)
	require.Equal(t, noon.Add(time.Minute), m.g.Trusted())
	require.False(t, m.g.Suspect())
}

func TestASmallStepBackRunsAtHalfSpeed(t *testing.T) {
	m := started(nil, false, noon)
	m.set(-time.Minute)
	require.False(t, m.g.Suspect())
	require.Equal(t, noon, m.g.Trusted())
	m.run(time.Minute)
	require.Equal(t, noon.Add(30*time.Second), m.g.Trusted())
	m.run(2 * time.Minute)
	require.Equal(t, m.wall, m.g.Trusted())
	require.False(t, m.g.Ahead())
}

// The attack of the review: 45 days ahead for 75 seconds.
func TestALongStepForwardIsSuspectUntilItIsTakenBack(t *testing.T) {
	m := started(nil, false, noon)
	m.set(45 * day)
	require.ErrorContains(t, m.g.Fault(), "1080h0m0s ahead of the trusted time")
	require.ErrorContains(t, m.g.Fault(), "purser clock accept")
	m.run(75 * time.Second)
	require.Equal(t, noon.Add(75*time.Second), m.g.Trusted())
	m.set(-45 * day)
	require.NoError(t, m.g.Fault())
	require.Equal(t, noon.Add(75*time.Second), m.g.Trusted())
}

func TestALongStepBackIsSuspectAndTimeAdvances(t *testing.T) {
	m := started(nil, false, noon)
	m.set(-time.Hour)
	require.ErrorContains(t, m.g.Fault(), "1h0m0s behind the trusted time")
	m.run(time.Minute)
	require.Equal(t, noon.Add(time.Minute), m.g.Trusted())
	m.g.Accept(m.reading())
	require.NoError(t, m.g.Fault())
	m.run(time.Hour)
	require.Equal(t, noon.Add(time.Minute+30*time.Minute), m.g.Trusted(), "at half speed")
	m.run(time.Hour)
	require.Equal(t, m.wall, m.g.Trusted())
}

func TestAnAcceptedStepIsFollowed(t *testing.T) {
	m := started(nil, false, noon)
	m.set(45 * day)
	m.g.Accept(m.reading())
	require.Equal(t, noon.Add(45*day), m.g.Trusted())
	m.run(time.Hour)
	require.NoError(t, m.g.Fault())
}

// Steps of which each is small are suspect once they add up, and a suspect clock is not forgiven by
// waiting.
func TestManySmallStepsAddUp(t *testing.T) {
	m := started(nil, false, noon)
	m.set(90 * time.Second)
	require.False(t, m.g.Suspect())
	m.set(90 * time.Second)
	require.True(t, m.g.Suspect())
	m.run(30 * day)
	require.True(t, m.g.Suspect())
}

func TestDailyCorrectionsNeverAddUp(t *testing.T) {
	m := started(nil, false, noon)
	for range 1000 {
		m.run(day)
		m.set(50 * time.Second)
		require.False(t, m.g.Suspect())
	}
}

func TestALeapSecondPasses(t *testing.T) {
	m := started(nil, false, noon)
	for range 100 {
		m.set(-time.Second)
		m.run(180 * day)
		require.False(t, m.g.Suspect())
		require.Equal(t, m.wall, m.g.Trusted())
	}
}

func TestStartAfterAMark(t *testing.T) {
	before := clock.Mark{Trusted: noon, Wall: noon}
	suspect := clock.Mark{Trusted: noon, Wall: noon.Add(45 * day), Suspect: true}
	accepted := clock.Mark{Trusted: noon.Add(time.Hour), Wall: noon}
	for _, c := range []struct {
		name         string
		mark         clock.Mark
		synchronised bool
		off          time.Duration
		suspect      bool
		trusted      time.Duration // after noon
	}{
		{"after a weekend", before, false, 64 * time.Hour, false, 64 * time.Hour},
		{"after a month", before, false, 45 * day, true, 0},
		{"after a month, synchronised", before, true, 45 * day, false, 45 * day},
		{"a minute behind", before, false, -time.Minute, false, 0},
		{"an hour behind", before, false, -time.Hour, true, 0},
		{"an hour behind, synchronised", before, true, -time.Hour, true, 0},
		{"suspect before and still ahead", suspect, true, 45 * day, true, 0},
		{"suspect before and set right", suspect, false, time.Minute, false, time.Minute},
		{"an accepted step back is remembered", accepted, false, time.Minute, false, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := started(&c.mark, c.synchronised, noon.Add(c.off))
			require.Equal(t, c.suspect, m.g.Suspect(), m.g.Fault())
			require.Equal(t, noon.Add(c.trusted), m.g.Trusted())
			require.Equal(t, c.suspect, m.g.Mark().Suspect)
			m.run(time.Second)
			require.Equal(t, c.suspect, m.g.Suspect())
			m.g.Accept(m.reading())
			require.False(t, m.g.Suspect())
			m.run(time.Second)
			require.False(t, m.g.Suspect())
		})
	}
}

// A suspect start ends by itself when the wall clock is set right.
func TestASuspectStartEndsWhenTheWallClockIsCorrected(t *testing.T) {
	m := started(&clock.Mark{Trusted: noon, Wall: noon}, false, noon.Add(45*day))
	m.run(time.Minute)
	m.set(-45 * day)
	require.NoError(t, m.g.Fault())
	require.Equal(t, noon.Add(time.Minute), m.g.Trusted())
}

func TestTrustedTimeIsNeverBeforeACommittedTime(t *testing.T) {
	m := started(nil, false, noon)
	m.g.Committed(noon.Add(-time.Hour))
	require.Equal(t, noon, m.g.Trusted())
	m.g.Committed(noon.Add(time.Minute))
	require.Equal(t, noon.Add(time.Minute), m.g.Trusted())
	require.False(t, m.g.Suspect())
	m.g.Committed(noon.Add(day))
	require.True(t, m.g.Suspect())
	m.run(time.Second)
	require.True(t, m.g.Suspect())
	require.Equal(t, noon.Add(day+time.Second), m.g.Trusted())
	m.set(day)
	require.False(t, m.g.Suspect())
}

// Trusted time never runs backward under any steps of the wall clock, restarts and confirmations.
func TestTrustedTimeNeverRunsBackward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := started(nil, false, noon)
		last := m.g.Trusted()
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			switch rapid.IntRange(0, 9).Draw(t, "act") {
			case 0:
				m.g.Accept(m.reading())
			case 1: // the process starts again
				mark := m.g.Mark()
				m.g = clock.Start(&mark, rapid.Bool().Draw(t, "synchronised"), m.reading())
			default:
				m.anything(t)
			}
			require.False(t, m.g.Trusted().Before(last))
			last = m.g.Trusted()
		}
	})
}

// Without an operator and a restart, trusted time stays within Bound and the forgiven steps of the
// elapsed time.
func TestTrustedTimeStaysWithinTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := started(nil, false, noon)
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			m.anything(t)
			elapsed := m.boot - time.Hour
			forgiven := time.Duration(float64(clock.ForgivenPerDay) * elapsed.Hours() / 24)
			require.InDelta(t, 0, m.g.Trusted().Sub(noon.Add(elapsed)),
				float64(clock.Bound+forgiven+clock.Jitter+time.Second))
		}
	})
}

// anything advances time or sets the wall clock, by a little or by a lot.
func (m *machine) anything(t *rapid.T) {
	span := map[bool]time.Duration{true: 90 * day, false: 3 * time.Minute}[rapid.IntRange(0, 9).Draw(t, "far") == 0]
	if rapid.Bool().Draw(t, "set") {
		m.set(time.Duration(rapid.Int64Range(-int64(span), int64(span)).Draw(t, "step")))
		return
	}
	m.run(time.Duration(rapid.Int64Range(0, int64(span)).Draw(t, "elapsed")))
}
