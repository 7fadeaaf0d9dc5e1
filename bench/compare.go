package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// MaxRounds bounds the rounds of a comparison.
const MaxRounds = 100

// Ratio is one figure of two servers, with a value for each round, and the spread of the ratio of
// this server's value to the other's in the same round; 0 when one is not known.
type Ratio struct {
	Figure string    `json:"figure"`
	This   []float64 `json:"this"`
	Other  []float64 `json:"other"`
	Median float64   `json:"median"`
	Least  float64   `json:"least"`
	Most   float64   `json:"most"`
}

// Compare runs the only load of c against c.Target and other in turns: this, other, other, this,
// and so on for so many rounds, so that a drift of the machine counts for both. An other without
// REST gets the swipes of this server's cards, and its dollars are not compared. It fails like Run.
func Compare(ctx context.Context, c Config, other Target, rounds int) (Report, error) {
	if rounds < 1 || rounds > MaxRounds || len(c.Loads) != 1 || c.Loads[0].Kill {
		return Report{}, fmt.Errorf("bench: a comparison has from 1 to %d rounds of one load that kills no server", MaxRounds)
	}
	both := [2]*run{}
	this, report, err := beginRun(ctx, c)
	if err != nil {
		return report, err
	}
	c.Target = other
	both[0], both[1] = this, newRun(c)
	if other.REST == "" {
		both[1].cards = this.cards.shareCards()
	} else {
		both[1].cards, err = both[1].makePortfolio(ctx)
	}
	if err = errors.Join(err, both[1].probePorts()); err != nil {
		return report, fmt.Errorf("the other server: %w", err)
	}
	stages := [2][][]Stage{}
	for i := range 2 * rounds {
		at := (i + i/2) % 2
		l := c.Loads[0]
		l.Name = fmt.Sprintf("round %d, %s", i/2+1, [...]string{"this", "other"}[at])
		of, err := both[at].runLoad(ctx, &l)
		report.addStages(of)
		if err != nil || report.Failed() {
			return report, err
		}
		stages[at] = append(stages[at], of)
	}
	report.Ratios = compareStages(stages[0], stages[1])
	err = this.measureMachine(ctx, &report)
	report.setRatios()
	return report, err
}

// compareStages compares the figures of the stages of two servers, round by round.
func compareStages(this, other [][]Stage) []Ratio {
	var ratios []Ratio
	add := func(name string, value func(stages []Stage) float64) {
		x := Ratio{Figure: name}
		for i := range this {
			x.This, x.Other = append(x.This, value(this[i])), append(x.Other, value(other[i]))
		}
		x.setSpread()
		ratios = append(ratios, x)
	}
	for i, s := range this[0] {
		for j, m := range s.Measures {
			of := func(stages []Stage) *Measure { return &stages[i].Measures[j] }
			name := s.Stream.Kind + " " + m.Name
			add(name+" /s", func(stages []Stage) float64 { return of(stages).PerSecond })
			add(name+" p50 µs", func(stages []Stage) float64 { return of(stages).P50Micros })
			add(name+" p99 µs", func(stages []Stage) float64 { return of(stages).P99Micros })
			add(name+" p99.9 µs", func(stages []Stage) float64 { return of(stages).P999Micros })
		}
	}
	for _, figure := range []string{processorFigure, writtenFigure} {
		add(figure, func(stages []Stage) float64 {
			if i := slices.IndexFunc(stages[0].Figures, func(f Figure) bool { return f.Name == figure }); i >= 0 {
				return stages[0].Figures[i].Value
			}
			return 0
		})
	}
	return ratios
}

// setSpread sets the median, least and most of the ratio, unless a value is not known.
func (x *Ratio) setSpread() {
	var all []float64
	for i := range x.This {
		ratio := ratioOf(x.This[i], x.Other[i])
		if ratio == 0 {
			return
		}
		all = append(all, ratio)
	}
	x.Median, x.Least, x.Most = medianOf(all), slices.Min(all), slices.Max(all)
}

// medianOf returns the middle value, or the mean of both middle values; 0 of none.
func medianOf(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
