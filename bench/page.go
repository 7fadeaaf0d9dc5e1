package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// The size of a plot and its margins, in pixels.
const (
	plotWidth, plotHeight = 640.0, 240.0
	plotLeft, plotBottom  = 70.0, 26.0
	nines                 = 5.0 // the percentile axis has them, up to 99.999
)

// plot is a drawing with its labels.
type plot struct {
	Title          string
	Lines          []line
	XMarks, YMarks []mark
}

// line is one curve: its name and the points of an SVG polyline.
type line struct{ Name, Points string }

// mark is the label of an axis at a pixel.
type mark struct {
	At   float64
	Text string
}

// curve has the values of a line.
type curve struct {
	name string
	x, y []float64
}

// newPlot draws curves over an x axis from 0 to width. A logarithmic y axis has powers of ten.
func newPlot(title string, curves []curve, width float64, logarithmic bool, show func(float64) string) plot {
	low, high := math.Inf(1), 1.0
	for _, c := range curves {
		for _, v := range c.y {
			if high = max(high, v); v > 0 {
				low = min(low, v)
			}
		}
	}
	scale := func(v float64) float64 { return v }
	if low = min(low, high); logarithmic {
		scale = func(v float64) float64 { return math.Log10(max(v, low)) }
		high = math.Pow(10, math.Ceil(math.Log10(high)))
		low = math.Pow(10, math.Floor(math.Log10(low)))
	} else {
		low = 0
	}
	y := func(v float64) float64 {
		share := 0.0
		if span := scale(high) - scale(low); span > 0 {
			share = (scale(v) - scale(low)) / span
		}
		return (plotHeight - plotBottom) * (1 - share)
	}
	p := plot{Title: title}
	for _, c := range curves {
		var points strings.Builder
		for i := range c.x {
			fmt.Fprintf(&points, "%.1f,%.1f ", plotLeft+c.x[i]/width*(plotWidth-plotLeft), y(c.y[i]))
		}
		p.Lines = append(p.Lines, line{c.name, points.String()})
	}
	if logarithmic {
		for v := low; v <= high*1.001; v *= 10 {
			p.YMarks = append(p.YMarks, mark{y(v), show(v)})
		}
	} else {
		for _, share := range []float64{0, 0.5, 1} {
			p.YMarks = append(p.YMarks, mark{y(high * share), show(high * share)})
		}
	}
	return p
}

// percentilePlot is latency by percentile, both on logarithms: every nine takes as much room as the
// one before.
func (s *Stage) percentilePlot() plot {
	ninesOf := func(p float64) float64 { return -math.Log10(1 - p/100) }
	var curves []curve
	for _, m := range s.Measures {
		c := curve{name: m.Name}
		for _, point := range m.Curve {
			c.x, c.y = append(c.x, ninesOf(point.Percentile)), append(c.y, point.Micros)
		}
		curves = append(curves, c)
	}
	p := newPlot("latency by percentile", curves, nines, true, formatMicros)
	for _, v := range []float64{0, 90, 99, 99.9, 99.99, 99.999} {
		p.XMarks = append(p.XMarks, mark{plotLeft + ninesOf(v)/nines*(plotWidth-plotLeft), fmt.Sprintf("%g", v)})
	}
	return p
}

// timePlot draws a value of the samples over time. Samples without the value are left out.
func (s *Stage) timePlot(title string, value func(m *Moment) (float64, bool)) plot {
	c, width := curve{name: title}, 1.0
	for i := range s.Moments {
		m := &s.Moments[i]
		if v, told := value(m); told {
			c.x, c.y = append(c.x, m.AtSeconds), append(c.y, v)
		}
		width = max(width, m.AtSeconds)
	}
	p := newPlot(title, []curve{c}, width, false, formatNumber)
	for _, share := range []float64{0, 0.5, 1} {
		p.XMarks = append(p.XMarks, mark{plotLeft + share*(plotWidth-plotLeft), formatNumber(width*share) + " s"})
	}
	return p
}

// section is a stage on the page.
type section struct {
	Name    string
	Remarks []string
	Plots   []plot
}

// WriteHTML writes the report as one page with plots, without scripts. It fails with out's error.
func (r *Report) WriteHTML(out io.Writer) error {
	var sections []section
	for i := range r.Stages {
		s := &r.Stages[i]
		of := section{Name: s.Name, Remarks: s.listRemarks(), Plots: []plot{s.percentilePlot(),
			s.timePlot("answers a second", func(m *Moment) (float64, bool) { return m.PerSecond, true })}}
		backlog := s.timePlot("decisions in the backlog", func(m *Moment) (v float64, told bool) {
			v, told = m.Gauges[backlogGauge]
			return v, told
		})
		if backlog.Lines[0].Points != "" {
			of.Plots = append(of.Plots, backlog)
		}
		sections = append(sections, of)
	}
	return pageTemplate.Execute(out, map[string]any{"Title": r.Title, "Machine": r.listYardsticks(), "Tables": r.resultTables(),
		"Failure": r.Failure(), "Sections": sections})
}
