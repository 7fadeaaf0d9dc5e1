package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is the result of a run. Its JSON is compared between runs, so names keep their meaning.
type Report struct {
	Title     string    `json:"title"`
	Machine   Machine   `json:"machine"`
	Yardstick Yardstick `json:"yardstick"`
	Stages    []Stage   `json:"stages"`
	Ratios    []Ratio   `json:"ratios,omitempty"` // of a comparison
}

// Stage is one stream of a load.
type Stage struct {
	Name    string  `json:"name"`
	Stream  Stream  `json:"stream"`
	Spread  string  `json:"spread,omitempty"`
	Seconds float64 `json:"seconds"`
	// Unsent requests were due before the end and not sent by then.
	Unsent   int64            `json:"unsent"`
	Measures []Measure        `json:"measures"`
	Outcomes map[string]int64 `json:"outcomes"`
	// Figures are of the whole load, in its first stage.
	Figures []Figure `json:"figures,omitempty"`
	Wrong   string   `json:"wrong,omitempty"` // the first wrong answer or sum
	Moments []Moment `json:"moments"`
}

// Measure is one kind of request. Latencies count from the moment a request was due, in an open
// loop, or sent.
type Measure struct {
	Name       string  `json:"name"`
	Count      int64   `json:"count"`
	Undecided  int64   `json:"undecided,omitempty"` // without a decision: part of Count, not of PerSecond
	PerSecond  float64 `json:"perSecond"`
	P50Micros  float64 `json:"p50Micros"`
	P99Micros  float64 `json:"p99Micros"`
	P999Micros float64 `json:"p999Micros"`
	MaxMicros  float64 `json:"maxMicros"`
	Curve      []Point `json:"curve"` // latency by percentile
	// Ratios to the machine: the rate to the empty handler's over as many connections, in a closed
	// loop, and latencies to one sync and one exchange with the empty handler.
	OfEmpty    float64 `json:"ofEmpty,omitempty"`
	P50OfFloor float64 `json:"p50OfFloor,omitempty"`
	P99OfFloor float64 `json:"p99OfFloor,omitempty"`
}

// Point is a point of a latency curve.
type Point struct {
	Percentile float64 `json:"percentile"`
	Micros     float64 `json:"micros"`
}

// curvePercentiles are those of a latency curve: each nine has as many as the one before.
var curvePercentiles = []float64{0, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.75, 99.9, 99.95, 99.99, 99.995, 99.999}

// Moment is a sample of a stream. The first stream of a load has the server's gauges too.
type Moment struct {
	AtSeconds float64            `json:"at"`
	PerSecond float64            `json:"perSecond"`
	P50Micros float64            `json:"p50Micros"`
	P99Micros float64            `json:"p99Micros"`
	Gauges    map[string]float64 `json:"gauges,omitempty"`
}

// Figure is a number of a load beside its latencies.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	// OfFloor is the ratio of a time to the floor of a durable answer.
	OfFloor float64 `json:"ofFloor,omitempty"`
}

func (s *Stage) addFigure(name string, value float64, unit string) {
	s.Figures = append(s.Figures, Figure{Name: name, Value: roundDigits(value), Unit: unit})
}

func (s Stage) hasFailed() bool { return s.Wrong != "" || s.Outcomes[noAnswer] > 0 }

// Failed reports whether an answer or a sum was wrong, or an answer missing.
func (r *Report) Failed() bool { return r.Failure() != "" }

// Failure returns the first wrong answer or sum in words, else the number of missing answers, else
// "".
func (r *Report) Failure() string {
	unanswered := int64(0)
	for i := range r.Stages {
		if r.Stages[i].Wrong != "" {
			return r.Stages[i].Wrong
		}
		unanswered += r.Stages[i].Outcomes[noAnswer]
	}
	if unanswered > 0 {
		return fmt.Sprintf("%d requests had no answer; read the log of the server", unanswered)
	}
	return ""
}

func toMicros(nanos int64) float64 { return float64(nanos) / float64(time.Microsecond) }

// percentileOf returns a percentile of a histogram of nanoseconds in microseconds.
func percentileOf(h *hdrhistogram.Histogram, p float64) float64 {
	return roundDigits(toMicros(h.ValueAtPercentile(p)))
}

// roundDigits rounds to four significant digits.
func roundDigits(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// newMeasure summarises a histogram of nanoseconds as a rate and percentiles.
func newMeasure(name string, h *hdrhistogram.Histogram, undecided int64, seconds float64) Measure {
	m := Measure{Name: name, Count: h.TotalCount(), Undecided: undecided, P50Micros: percentileOf(h, 50),
		P99Micros: percentileOf(h, 99), P999Micros: percentileOf(h, 99.9), MaxMicros: roundDigits(toMicros(h.Max()))}
	m.PerSecond = ratioOf(float64(m.Count-undecided), seconds)
	for _, p := range curvePercentiles {
		m.Curve = append(m.Curve, Point{p, percentileOf(h, p)})
	}
	return m
}

// ratioOf returns a to b, and 0 when either is unknown.
func ratioOf(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return roundDigits(a / b)
}

// addStages adds the stages of a load and sets their ratios to the machine.
func (r *Report) addStages(stages []Stage) {
	r.Stages = append(r.Stages, stages...)
	r.setRatios()
}

// setRatios sets the ratios of all figures to the machine.
func (r *Report) setRatios() {
	floor := r.Yardstick.floorMicros()
	for i := range r.Stages {
		s := &r.Stages[i]
		for j := range s.Measures {
			m := &s.Measures[j]
			m.P50OfFloor, m.P99OfFloor = ratioOf(m.P50Micros, floor), ratioOf(m.P99Micros, floor)
			if e := r.Yardstick.emptyOf(s.Stream.Connections); e != nil && s.Stream.Rate == 0 {
				m.OfEmpty = ratioOf(m.PerSecond, e.PerSecond)
			}
		}
		for j := range s.Figures {
			switch f := &s.Figures[j]; f.Unit {
			case "s":
				f.OfFloor = ratioOf(f.Value*1e6, floor)
			case "µs":
				f.OfFloor = ratioOf(f.Value, floor)
			}
		}
	}
}

// formatMicros writes a time with three significant digits.
func formatMicros(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.2f s", us/1e6)
	case us >= 1e3:
		return fmt.Sprintf("%.3g ms", us/1e3)
	}
	return fmt.Sprintf("%.3g µs", us)
}

// formatNumber writes a number without an exponent.
func formatNumber(v float64) string {
	if math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// formatRatio writes a ratio, "–" for one that is not known.
func formatRatio(v float64) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g", v)
}

// resultTables are the figures of the report as cells, a table for the measures and one for the
// ratios.
func (r *Report) resultTables() [][][]string {
	measures := [][]string{{"stage", "request", "/s", "of empty", "p50", "p99", "p99.9", "max", "p50 of floor",
		"p99 of floor"}}
	for _, s := range r.Stages {
		for _, m := range s.Measures {
			measures = append(measures, []string{s.Name, m.Name, formatNumber(m.PerSecond), formatRatio(m.OfEmpty),
				formatMicros(m.P50Micros), formatMicros(m.P99Micros), formatMicros(m.P999Micros), formatMicros(m.MaxMicros),
				formatRatio(m.P50OfFloor), formatRatio(m.P99OfFloor)})
		}
	}
	if len(r.Ratios) == 0 {
		return [][][]string{measures}
	}
	ratios := [][]string{{"this / other", "median", "least", "most", "this", "other"}}
	for _, x := range r.Ratios {
		ratios = append(ratios, []string{x.Figure, formatRatio(x.Median), formatRatio(x.Least), formatRatio(x.Most),
			formatNumber(medianOf(x.This)), formatNumber(medianOf(x.Other))})
	}
	return [][][]string{measures, ratios}
}

// listRemarks are the figures and outcomes of a stage, a line each.
func (s *Stage) listRemarks() []string {
	var lines []string
	for _, f := range s.Figures {
		line := strings.TrimSpace(fmt.Sprintf("%s: %s %s", f.Name, formatNumber(f.Value), f.Unit))
		if f.OfFloor > 0 {
			line += fmt.Sprintf(", %s of floor", formatNumber(f.OfFloor))
		}
		lines = append(lines, line)
	}
	if s.Unsent > 0 {
		lines = append(lines, fmt.Sprintf("due and not sent: %d", s.Unsent))
	}
	var outcomes []string
	for _, name := range slices.Sorted(maps.Keys(s.Outcomes)) {
		outcomes = append(outcomes, fmt.Sprintf("%s %d", name, s.Outcomes[name]))
	}
	return append(lines, "outcomes: "+strings.Join(outcomes, ", "))
}

// listYardsticks describes the machine and its speed, a line each.
func (r *Report) listYardsticks() []string {
	m, y := r.Machine, &r.Yardstick
	lines := []string{fmt.Sprintf("%s, %d cores, %d MiB, %s, %s", m.CPU, m.Cores, m.MemoryBytes>>20, m.Kernel, m.Go)}
	if y.SyncP50Micros > 0 {
		lines = append(lines, fmt.Sprintf("synced write p50 %s; floor of a durable answer %s", formatMicros(y.SyncP50Micros),
			formatMicros(y.floorMicros())))
	}
	for _, e := range y.Empty {
		lines = append(lines, fmt.Sprintf("empty handler, %d connections: %s/s, p50 %s", e.Connections,
			formatNumber(e.PerSecond), formatMicros(e.P50Micros)))
	}
	return lines
}

// WriteText writes the report as plain text. It fails with out's error.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range r.listYardsticks() {
		fmt.Fprintln(w, line)
	}
	for _, table := range r.resultTables() {
		fmt.Fprintln(w)
		for _, row := range table {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
	}
	fmt.Fprintln(w)
	for i := range r.Stages {
		fmt.Fprintln(w, r.Stages[i].Name)
		for _, line := range r.Stages[i].listRemarks() {
			fmt.Fprintln(w, "  "+line)
		}
	}
	return w.Flush() // the first error of out
}
