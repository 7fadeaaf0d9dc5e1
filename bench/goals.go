package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Quantities of goals, besides the names of a stage's figures. They are of the stage's first measure; ratios of
// rates count the declines that are not stored too, for they occupied the same connections.
const (
	P50OfFloor   = "p50, of floor"       // see Legend
	RateOfEmpty  = "rate, of empty"      // see Legend
	RateOfSpread = "rate, of spread out" // beside the first closed loop of swipes over all cards
	RatePerSec   = "/s"
	P99Micros    = "p99, µs"
	P999Micros   = "p99.9, µs"
	// Figures of Recovery and Cards.
	KillMedian     = "median of 3 kills" // seconds until the first correct swipe
	ResidentMemory = "resident memory"   // MiB
	CacheOfLimit   = "cache, of its limit"
)

// Goal is a bound for a quantity of a stage. A missed goal is reported and fails no run, because
// figures depend on the machine too.
type Goal struct {
	Stage    string  `json:"stage"`
	Quantity string  `json:"quantity"`
	AtLeast  bool    `json:"atLeast"` // else at most
	Limit    float64 `json:"limit"`
}

// Verdict is a goal with the value that was reached.
type Verdict struct {
	Goal
	Value float64 `json:"value"`
	Met   bool    `json:"met"`
}

// judgeGoals compares the goals with the stages. It leaves out a goal whose stage did not run.
func (r *Report) judgeGoals(goals []Goal) {
	for _, t := range goals {
		for i := range r.Stages {
			s := &r.Stages[i]
			value, told := r.quantityOf(s, t.Quantity)
			if s.Name != t.Stage || !told {
				continue
			}
			r.Goals = append(r.Goals, Verdict{Goal: t, Value: value, Met: t.isReached(value)})
		}
	}
}

func (t *Goal) isReached(value float64) bool {
	if t.AtLeast {
		return value >= t.Limit
	}
	return value <= t.Limit
}

func (s *Stage) figureOf(name string) (value float64, told bool) {
	for _, f := range s.Figures {
		if f.Name == name {
			return f.Value, true
		}
	}
	return 0, false
}

// quantityOf returns a figure of a stage by its name, or a quantity of its first measure. known is
// false when the stage does not have it.
func (r *Report) quantityOf(s *Stage, name string) (value float64, known bool) {
	if value, known = s.figureOf(name); known {
		return value, known
	}
	measured := s.usedMeasures()
	if len(measured) == 0 {
		return 0, false
	}
	m := &measured[0]
	switch name {
	case P50OfFloor:
		return ratioOf(m.P50Micros, r.Yardstick.floorMicros())
	case RateOfEmpty:
		return r.ofEmpty(s, &Measure{PerSecond: s.answeredRate()})
	case RateOfSpread:
		return ratioOf(s.answeredRate(), r.rateOverAllCards(s.Connections))
	case RatePerSec:
		return m.PerSecond, true
	case P99Micros:
		return m.P99Micros, true
	case P999Micros:
		return m.P999Micros, true
	}
	return 0, false
}

func ratioOf(of, to float64) (float64, bool) {
	if to <= 0 {
		return 0, false
	}
	return of / to, true
}

// answeredRate returns the rate of the first measure and of the declines that are not stored.
func (s *Stage) answeredRate() (perSecond float64) {
	for i, m := range s.usedMeasures() {
		if i == 0 || m.Name == swipeNames[unstoredAnswer] {
			perSecond += m.PerSecond
		}
	}
	return perSecond
}

// rateOverAllCards returns the answered swipes a second of the first closed loop over all cards
// with as many connections.
func (r *Report) rateOverAllCards(connections int) float64 {
	for i := range r.Stages {
		s := &r.Stages[i]
		if s.Workload == Authorize && s.Rate == 0 && s.Connections == connections && s.Spread == SpreadZipf && len(s.usedMeasures()) > 0 {
			return s.answeredRate()
		}
	}
	return 0
}

func outcomeText(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

func (t *Goal) limitText() string {
	if t.AtLeast {
		return "at least " + formatNumber(t.Limit)
	}
	return "at most " + formatNumber(t.Limit)
}

func (v Verdict) String() string {
	return fmt.Sprintf("%s: %s, %s: %s, meant to be %s", outcomeText(v.Met), v.Stage, v.Quantity, formatNumber(roundDigits(v.Value)), v.limitText())
}

// goalLines returns a line for each goal, missed goals first. It includes rates that were not held
// and loads with too many undecided requests.
func (r *Report) goalLines() []string {
	var lines []string
	for _, v := range r.Goals {
		lines = append(lines, v.String())
	}
	for i := range r.Stages {
		if s := &r.Stages[i]; s.Judged && !s.Held {
			lines = append(lines, fmt.Sprintf("MISSED: %s: %d/s %s", s.Name, s.Rate, s.heldText()))
		}
	}
	for i := range r.Stages {
		s := &r.Stages[i]
		if _, killed := s.figureOf(killTook); s.Judged || killed {
			continue // a reason of a rate that was not held, or a server that was starting
		}
		if n, of := s.withoutDecision(); float64(n) > mostCouldNot*float64(of) {
			lines = append(lines, fmt.Sprintf("MISSED: %s: no decision for %d of %d requests, meant to be at most %s", s.Name, n, of,
				formatNumber(mostCouldNot)))
		}
	}
	missed := func(line string) int { return strings.Index(line, "MISSED") }
	slices.SortStableFunc(lines, func(a, b string) int { return missed(b) - missed(a) })
	return lines
}

func (r *Report) countMissed() (n int) {
	for _, line := range r.goalLines() {
		if strings.HasPrefix(line, "MISSED") {
			n++
		}
	}
	return n
}
