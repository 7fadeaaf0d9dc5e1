package bench

import (
	"encoding/json"
	"errors"
	"strconv"
)

// A report is committed to the repository, so its size does not depend on the length of a load.
const (
	keptMoments = 40 // per stage
	keptDigits  = 4  // per figure of a series
)

// curvePercentiles are the points of a latency curve.
var curvePercentiles = [...]float64{1, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.9, 99.95, 99.99, 99.999, 100}

// roundDigits rounds to keptDigits significant digits, which a plot can show.
func roundDigits(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', keptDigits, 64), 64)
	if err != nil {
		panic("BUG: a number that was written cannot be read: " + err.Error())
	}
	return short
}

// Moments are a series over time. In JSON each figure is a list of its own, with null where a gauge was not read.
type Moments []Moment

type columns struct {
	AtSeconds []float64             `json:"atSeconds"`
	PerSecond []float64             `json:"perSecond"`
	P50Micros []float64             `json:"p50Micros"`
	P99Micros []float64             `json:"p99Micros"`
	Gauges    map[string][]*float64 `json:"gauges,omitempty"`
}

// MarshalJSON writes the samples as columns, which are shorter than rows. It fails only for a value
// that JSON cannot represent.
func (all Moments) MarshalJSON() ([]byte, error) {
	c := columns{Gauges: map[string][]*float64{}}
	for i, m := range all {
		c.AtSeconds, c.PerSecond = append(c.AtSeconds, m.AtSeconds), append(c.PerSecond, m.PerSecond)
		c.P50Micros, c.P99Micros = append(c.P50Micros, m.P50Micros), append(c.P99Micros, m.P99Micros)
		for name, v := range m.Gauges {
			if c.Gauges[name] == nil {
				c.Gauges[name] = make([]*float64, len(all))
			}
			c.Gauges[name][i] = &v
		}
	}
	return json.Marshal(c)
}

// UnmarshalJSON reads the columns of MarshalJSON. It fails for columns that differ in length.
func (all *Moments) UnmarshalJSON(text []byte) error {
	var c columns
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	n := len(c.AtSeconds)
	if len(c.PerSecond) != n || len(c.P50Micros) != n || len(c.P99Micros) != n {
		return errors.New("bench: the columns of a series differ in length")
	}
	*all = make(Moments, n)
	for i := range *all {
		(*all)[i] = Moment{AtSeconds: c.AtSeconds[i], PerSecond: c.PerSecond[i], P50Micros: c.P50Micros[i], P99Micros: c.P99Micros[i]}
		for name, column := range c.Gauges {
			if len(column) != n {
				return errors.New("bench: the columns of a series differ in length")
			}
			if column[i] != nil {
				(*all)[i].setGauge(name, *column[i])
			}
		}
	}
	return nil
}

func (m *Moment) setGauge(name string, v float64) {
	if m.Gauges == nil {
		m.Gauges = map[string]float64{}
	}
	m.Gauges[name] = max(m.Gauges[name], v)
}

// decimateMoments merges neighbouring samples until at most keptMoments are left. A merged sample
// has the mean rate and median, and the largest p99 and gauges, so that every stall stays visible.
func decimateMoments(all Moments) Moments {
	of := (len(all) + keptMoments - 1) / keptMoments
	var kept Moments
	for ; len(all) > 0; all = all[min(of, len(all)):] {
		group := all[:min(of, len(all))]
		m := Moment{AtSeconds: roundDigits(group[len(group)-1].AtSeconds)}
		for _, g := range group {
			m.PerSecond += g.PerSecond / float64(len(group))
			m.P50Micros += g.P50Micros / float64(len(group))
			m.P99Micros = max(m.P99Micros, g.P99Micros)
			for name, v := range g.Gauges {
				m.setGauge(name, roundDigits(v))
			}
		}
		m.PerSecond, m.P50Micros, m.P99Micros = roundDigits(m.PerSecond), roundDigits(m.P50Micros), roundDigits(m.P99Micros)
		kept = append(kept, m)
	}
	return kept
}

// decimateSeries bounds every series of the report.
func (r *Report) decimateSeries() {
	for i := range r.Stages {
		r.Stages[i].Moments = decimateMoments(r.Stages[i].Moments)
	}
}
