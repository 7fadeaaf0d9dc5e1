package bench

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is the result of a run. Comparisons between runs read its JSON, so names keep their
// meaning.
type Report struct {
	Machine   Machine           `json:"machine"`
	Facts     map[string]string `json:"facts,omitempty"`
	Seconds   float64           `json:"seconds"`   // of the whole run
	Yardstick Yardstick         `json:"yardstick"` // the base of ratios: the faster of both
	// Yardsticks are those before and after the loads.
	Yardsticks []Yardstick `json:"yardsticks"`
	Stages     []Stage     `json:"stages"`
	// Comparison has a row for each figure of two servers; only Compare sets it.
	Comparison []Comparison `json:"comparison,omitempty"`
	Goals      []Verdict    `json:"goals,omitempty"`
	Wrong      int64        `json:"wrong"`      // unexpected answers, and sums that do not add up
	Unanswered int64        `json:"unanswered"` // requests without an answer while the server was not killed
	Failed     bool         `json:"failed"`
}

// Stage is one flow of a load.
type Stage struct {
	Name        string  `json:"name"`
	Workload    string  `json:"workload"`
	Connections int     `json:"connections"`
	Rate        int     `json:"rate"` // requests due a second; 0 in a closed loop
	Spread      string  `json:"spread"`
	Seconds     float64 `json:"seconds"`
	// Unsent requests were due before the end and not sent by then. LateP99Micros is the 99th
	// percentile of the delay between the due time and the sending, by a slow server or a slow
	// client.
	Unsent        int64            `json:"unsent"`
	LateP99Micros float64          `json:"lateP99Micros"`
	Measures      []Measure        `json:"measures"`
	Outcomes      map[string]int64 `json:"outcomes"`
	Figures       []Figure         `json:"figures,omitempty"`
	Judged        bool             `json:"judged"` // Held is valid
	Held          bool             `json:"held"`
	Searched      bool             `json:"searched,omitempty"` // Rate is the result of a search
	NotHeld       []string         `json:"notHeld,omitempty"`  // why
	Compared      int              `json:"compared"`           // sums and repeats, after the load
	Wrong         int64            `json:"wrong"`
	Differences   []string         `json:"differences,omitempty"` // the first ones
	Notes         []string         `json:"notes,omitempty"`
	Moments       Moments          `json:"moments"`
}

// Measure is one kind of request. Latencies count from the moment a request was due, in an open loop, or sent.
type Measure struct {
	Name       string  `json:"name"`
	Count      int64   `json:"count"`
	Undecided  int64   `json:"undecided,omitempty"` // part of Count, not of PerSecond
	PerSecond  float64 `json:"perSecond"`
	P50Micros  float64 `json:"p50Micros"`
	P90Micros  float64 `json:"p90Micros"`
	P99Micros  float64 `json:"p99Micros"`
	P999Micros float64 `json:"p999Micros"`
	MaxMicros  float64 `json:"maxMicros"`
	Curve      []Point `json:"curve,omitempty"` // latency by percentile
}

// Point is a point of a latency curve.
type Point struct {
	Percentile float64 `json:"percentile"`
	Micros     float64 `json:"micros"`
}

// Moment is a sample of a flow at a time.
type Moment struct {
	AtSeconds, PerSecond, P50Micros, P99Micros float64
	Gauges                                     map[string]float64 // the server's
}

// Figure is a number of a workload beside its latencies. Ratio is its ratio to the figure of the
// machine that Of names, 0 without one.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Ratio float64 `json:"ratio,omitempty"`
	Of    string  `json:"of,omitempty"`
}

func newFigure(name string, value float64, unit string) Figure {
	return Figure{Name: name, Value: value, Unit: unit}
}

// setRatios sets the ratios of times to the floor of the legend, and of memory to that of the
// machine.
func (r *Report) setRatios() {
	floor, memory := r.Yardstick.floorMicros(), float64(r.Machine.MemoryBytes)/mebibyte
	for i := range r.Stages {
		for j := range r.Stages[i].Figures {
			f := &r.Stages[i].Figures[j]
			to, of := 0.0, "floor"
			switch f.Unit {
			case "s":
				to = floor / float64(time.Second/time.Microsecond)
			case "µs":
				to = floor
			case "MiB":
				to, of = memory, "the machine's memory"
			}
			if to > 0 {
				f.Ratio, f.Of = roundDigits(f.Value/to), of
			}
		}
	}
}

func toMicros(nanos int64) float64 { return float64(nanos) / float64(time.Microsecond) }

// newMeasure summarises a histogram of nanoseconds as a rate and percentiles in microseconds.
func newMeasure(name string, h *hdrhistogram.Histogram, seconds float64) Measure {
	m := Measure{Name: name, Count: h.TotalCount(), P50Micros: toMicros(h.ValueAtPercentile(50)),
		P90Micros: toMicros(h.ValueAtPercentile(90)), P99Micros: toMicros(h.ValueAtPercentile(99)),
		P999Micros: toMicros(h.ValueAtPercentile(99.9)), MaxMicros: toMicros(h.Max())}
	if seconds > 0 {
		m.PerSecond = float64(m.Count) / seconds
	}
	if m.Count == 0 {
		return m
	}
	for _, p := range curvePercentiles {
		m.Curve = append(m.Curve, Point{Percentile: p, Micros: roundDigits(toMicros(h.ValueAtPercentile(p)))})
	}
	return m
}

// judgeAnswers adds up the wrong and missing answers. A rate that was not held is a missed goal and
// no failure.
func (r *Report) judgeAnswers() {
	r.Wrong, r.Unanswered = 0, 0
	for i := range r.Stages {
		r.Wrong += r.Stages[i].Wrong
		r.Unanswered += r.Stages[i].Outcomes[noAnswer]
	}
	r.Failed = r.Wrong > 0 || r.Unanswered > 0
}

// hasFailed reports whether a run with the stage fails.
func (s *Stage) hasFailed() bool { return s.Wrong > 0 || s.Outcomes[noAnswer] > 0 }

// foundWrong reports whether a stage has a wrong answer or sum, after which no load begins.
func foundWrong(stages []Stage) bool {
	return slices.ContainsFunc(stages, func(s Stage) bool { return s.Wrong > 0 })
}

// FirstDifference returns the first wrong answer or sum of the run in words, with advice. It
// returns "" when all were right.
func (r *Report) FirstDifference() string {
	for i := range r.Stages {
		if len(r.Stages[i].Differences) > 0 {
			return r.Stages[i].Differences[0]
		}
	}
	return ""
}

// addDifference adds a difference that was found after the load.
func (s *Stage) addDifference(d *differences) {
	s.Wrong += d.count
	s.Differences = append(s.Differences, d.first...)
}

// undecidedSwipes returns the number of swipes without a decision.
func (s *Stage) undecidedSwipes() (n int64) {
	for outcome, count := range s.Outcomes {
		if isUndecided([]byte(outcome)) {
			n += count
		}
	}
	return n
}

// withoutDecision returns the number of measured requests without a decision or without an answer.
func (s *Stage) withoutDecision() (n, of int64) {
	for i := range s.Measures {
		n += s.Measures[i].Undecided
		of += s.Measures[i].Count
	}
	return n, of
}

// usedMeasures returns the measures with at least one request.
func (s *Stage) usedMeasures() []Measure {
	return slices.DeleteFunc(slices.Clone(s.Measures), func(m Measure) bool { return m.Count == 0 })
}
