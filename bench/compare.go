package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// MaxRounds bounds the rounds of a comparison.
const MaxRounds = 100

// Names of the two servers of a comparison, in the names of stages.
const (
	thisServer  = "this"
	otherServer = "other"
)

// processorFigure is the processor time that a server takes for a message, user and system. It
// includes the work after the load until the dollars add up.
const processorFigure = "processor time per message"

// Units of a comparison.
const (
	unitRate   = "/s"
	unitMicros = "µs"
)

// Comparison is one figure of two servers, with a value for each round. A value list is empty when
// the figure is not known.
type Comparison struct {
	Figure string    `json:"figure"`
	Unit   string    `json:"unit"` // "/s" or "µs"
	This   []float64 `json:"this,omitempty"`
	Other  []float64 `json:"other,omitempty"`
	// Ratio is of this server's value to the other's in the same round; nil when one is not known.
	Ratio *Spread `json:"ratio,omitempty"`
}

// Spread is the distribution of a ratio over the rounds.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// contender is one of the two servers of a comparison.
type contender struct {
	name      string
	run       *run
	clock     processorClock
	rounds    []Stage
	processor []float64 // time per message in each round, µs; shorter than rounds when it is not known
}

// Compare measures the machine, creates cards on both servers, and runs the only load of c against
// c.Target and other in turns: this, other, other, this, and so on for so many rounds. other may
// have no REST URL. It then gets the swipes of this server's cards, and its dollars are not
// compared. The report has a stage for each round of a server and a Comparison for each figure. It
// fails like Run, and when a server leaves a request without an answer. The command `purser bench
// compare` calls it.
func Compare(ctx context.Context, c Config, other Target, rounds int) (Report, error) {
	if err := validateComparison(c, other, rounds); err != nil {
		return Report{}, err
	}
	began, r := time.Now(), &run{Config: c.withDefaults()}
	var both [2]*contender
	report, err := r.prepareReport(ctx)
	if err == nil {
		both, err = r.prepareContenders(ctx, other, &report)
	}
	if err == nil {
		err = report.runRounds(ctx, both, rounds)
	}
	if err == nil && !foundWrong(report.Stages) {
		err = r.measureAgain(ctx, &report)
	}
	report.concludeRun(began, r.Goals)
	return report, err
}

// validateComparison returns an error that names every fault, or nil.
func validateComparison(c Config, other Target, rounds int) error {
	var f faults
	f.addIf(rounds < 1 || rounds > MaxRounds, "rounds must be from 1 to %d", MaxRounds)
	f.addIf(len(c.Loads) != 1, "a comparison has one load")
	for _, l := range c.Loads {
		f.addIf(l.Workload != Authorize && l.Workload != Lifecycle, "%s: a comparison runs %s or %s", l.Workload,
			Authorize, Lifecycle)
	}
	f.addIf(other.REST == "" && other.Network == c.Target.Network,
		"the other is this server: give the REST address of the other too, so that it has cards of its own")
	its := c
	its.Target = other
	its.Target.REST = cmp.Or(other.REST, other.Network)
	if err := its.Validate(); err != nil {
		f = append(f, fmt.Errorf("the other server: %w", err))
	}
	return errors.Join(append(f, c.Validate())...)
}

// prepareContenders creates the cards of the other server and returns both servers. It fails when
// the other server refuses.
func (r *run) prepareContenders(ctx context.Context, other Target, report *Report) (both [2]*contender, err error) {
	o := &run{Config: r.Config}
	o.Target, o.Server, o.Run = other, nil, newRunID()
	for name, fact := range o.collectFacts(ctx) {
		if name == "server" || other.Admin != "" && (name == "store" || name == "authorizer") {
			report.Facts[otherServer+" "+name] = fact
		}
	}
	if other.REST == "" {
		o.cards = r.cards.sharedCards()
	} else if err = o.prepareCards(ctx); err != nil {
		return both, fmt.Errorf("the other server: %w", err)
	}
	return [2]*contender{{name: thisServer, run: r, clock: serverClock(r.Target.Network)},
		{name: otherServer, run: o, clock: serverClock(other.Network)}}, nil
}

// runRounds runs the rounds of two servers and compares their figures. The server that comes first
// changes with each round, so that a drift of the machine counts for both. A wrong answer ends the
// rounds and leaves out the comparison. It fails when ctx ends, and when a request has no answer.
func (report *Report) runRounds(ctx context.Context, both [2]*contender, rounds int) error {
	for i := range rounds {
		turn := both[:]
		if i%2 == 1 {
			turn = []*contender{both[1], both[0]}
		}
		for _, c := range turn {
			s, err := c.runRound(ctx, i)
			report.Stages = append(report.Stages, s)
			if err != nil || s.Wrong > 0 {
				return err
			}
			if n := s.Outcomes[noAnswer]; n > 0 {
				return fmt.Errorf("bench: %s: %d requests had no answer; look at the log of the server at %s", s.Name,
					n,
					c.run.Target.Network)
			}
		}
	}
	report.Comparison = compareFigures(both[0], both[1])
	return nil
}

// runRound runs the load once against a server and returns its stage. It fails like runLoad.
func (c *contender) runRound(ctx context.Context, round int) (Stage, error) {
	load := c.run.Loads[0]
	load.Name = fmt.Sprintf("round %d: %s", round+1, c.name)
	before, known := c.clock()
	stages, err := c.run.runLoad(ctx, &load)
	if len(stages) == 0 {
		return Stage{Name: load.Name}, err
	}
	s := stages[0]
	if err != nil {
		return s, err
	}
	if after, still := c.clock(); known && still && s.answeredMessages() > 0 {
		each := toMicros(int64(after-before)) / float64(s.answeredMessages())
		c.processor = append(c.processor, each)
		s.Figures = append(s.Figures, newFigure(processorFigure, each, "µs of a processor"))
	}
	c.rounds = append(c.rounds, s)
	return s, nil
}

// answeredMessages returns the number of messages with an answer, the warm-up included.
func (s *Stage) answeredMessages() (n int64) {
	for outcome, count := range s.Outcomes {
		if outcome != noAnswer && outcome != sentAgain {
			n += count
		}
	}
	return n
}

// compareFigures compares the rate and latencies of each measure, and the processor time. Both
// servers have the same number of rounds.
func compareFigures(this, other *contender) []Comparison {
	var all []Comparison
	for i, m := range this.rounds[0].Measures {
		for _, figure := range []struct {
			name, unit string
			read       func(m *Measure) float64
		}{
			{"rate", unitRate, func(m *Measure) float64 { return m.PerSecond }},
			{"p50", unitMicros, func(m *Measure) float64 { return m.P50Micros }},
			{"p99", unitMicros, func(m *Measure) float64 { return m.P99Micros }},
			{"p99.9", unitMicros, func(m *Measure) float64 { return m.P999Micros }},
		} {
			values := func(c *contender) (of []float64) {
				for j := range c.rounds {
					of = append(of, figure.read(&c.rounds[j].Measures[i]))
				}
				return of
			}
			all = append(all, newComparison(m.Name+", "+figure.name, figure.unit, values(this), values(other)))
		}
	}
	return append(all, newComparison(processorFigure, unitMicros, this.knownProcessor(), other.knownProcessor()))
}

// knownProcessor returns the processor time per message of each round, nil when a round lacks it.
func (c *contender) knownProcessor() []float64 {
	if len(c.processor) < len(c.rounds) {
		return nil
	}
	return c.processor
}

// newComparison compares the values of two servers round by round. Without a value of both, or with
// a zero, there is no ratio.
func newComparison(figure, unit string, this, other []float64) Comparison {
	c := Comparison{Figure: figure, Unit: unit, This: this, Other: other}
	var ratios []float64
	for i := range min(len(this), len(other)) {
		ratio, told := ratioOf(this[i], other[i])
		if !told {
			return c
		}
		ratios = append(ratios, ratio)
	}
	if len(ratios) > 0 {
		c.Ratio = &Spread{Median: median(ratios), Least: slices.Min(ratios), Most: slices.Max(ratios)}
	}
	return c
}

var comparisonHeader = []string{"comparison", thisServer, otherServer, "this / other", "least", "most"}

// ComparisonLegend explains the columns of a comparison.
const ComparisonLegend = "comparison: medians over the rounds, and the ratio of this server to the other in each " +
	"round: median, least and most. The processor time is of the server, user and system, until its dollars add up."

// comparisonRows returns a row of cells for each compared figure.
func (r *Report) comparisonRows() [][]string {
	var rows [][]string
	for _, c := range r.Comparison {
		row := []string{c.Figure, c.showMedian(c.This), c.showMedian(c.Other), "–", "–", "–"}
		if c.Ratio != nil {
			row = append(row[:3], formatTimes(c.Ratio.Median), formatTimes(c.Ratio.Least), formatTimes(c.Ratio.Most))
		}
		rows = append(rows, row)
	}
	return rows
}

// showMedian writes the median of a figure with at least three significant digits from 10 µs on.
func (c *Comparison) showMedian(values []float64) string {
	if len(values) == 0 {
		return notKnown
	}
	switch middle := median(values); {
	case c.Unit == unitRate:
		return perSecond(middle) + unitRate
	case middle < 100:
		return fmt.Sprintf("%.1f µs", middle)
	default:
		return showMicros(middle)
	}
}
