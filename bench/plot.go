package bench

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// The size of a plot and its margins, in pixels.
const (
	plotWidth, plotHeight    = 640, 260
	plotLeft, plotBottom     = 70, 30
	plotTop, plotRight       = 14, 10
	maxPlotLines             = 6
	percentileNines          = 5 // the last mark of the percentile axis: 99.999
	linearMarks, pixelsOfDot = 4, 1.5
)

// curve is one line of a plot.
type curve struct {
	name string
	x, y []float64
}

// axis maps values to pixels.
type axis struct {
	from, to   float64 // values
	start, end float64 // pixels
	log        bool
}

// positionOf returns the pixel of a value on the axis. An axis of one value has all values at its
// start.
func (a axis) positionOf(v float64) float64 {
	from, to := a.from, a.to
	if a.log {
		v, from, to = math.Log10(max(v, a.from)), math.Log10(from), math.Log10(to)
	}
	if to == from {
		return a.start
	}
	return a.start + (a.end-a.start)*(v-from)/(to-from)
}

// labelValues returns the values of an axis's labels.
func (a axis) labelValues() []float64 {
	var all []float64
	if a.log {
		for v := a.from; v <= a.to*1.001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	for i := range linearMarks + 1 {
		all = append(all, a.from+(a.to-a.from)*float64(i)/linearMarks)
	}
	return all
}

// plot draws lines. show writes a value of the y axis, xShow one of the x axis.
type plot struct {
	x, y        axis
	xMarks      []float64
	show, xShow func(float64) string
	curves      []curve
}

// renderSVG draws the plot with its axes and curves. It never fails.
func (p *plot) renderSVG() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img">`, plotWidth, plotHeight, plotWidth, plotHeight)
	p.x.start, p.x.end = plotLeft, plotWidth-plotRight
	p.y.start, p.y.end = plotHeight-plotBottom, plotTop
	for _, v := range p.y.labelValues() {
		at := p.y.positionOf(v)
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" class="left">%s</text>`,
			plotLeft, plotWidth-plotRight, at, at, plotLeft-6, at+4, p.show(v))
	}
	for _, v := range p.xMarks {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" class="below">%s</text>`, p.x.positionOf(v), plotHeight-10, p.xShow(v))
	}
	for i, c := range p.curves {
		p.drawCurve(&b, i, c)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// drawCurve writes the SVG of the i-th curve: a line, or a dot for a single point. renderSVG calls
// it.
func (p *plot) drawCurve(b *strings.Builder, i int, c curve) {
	if len(c.x) == 1 {
		fmt.Fprintf(b, `<circle class="c%d" cx="%.1f" cy="%.1f" r="%.1f"/>`, i, p.x.positionOf(c.x[0]), p.y.positionOf(c.y[0]), pixelsOfDot)
	}
	fmt.Fprintf(b, `<polyline class="c%d" points="`, i)
	for j := range c.x {
		fmt.Fprintf(b, "%.1f,%.1f ", p.x.positionOf(c.x[j]), p.y.positionOf(c.y[j]))
	}
	b.WriteString(`"/>`)
}

// percentilePlot is latency by percentile, both on logarithms: every nine takes as much room as the
// one before.
func (s *Stage) percentilePlot() *plot {
	p := &plot{show: showMicros, xShow: func(nines float64) string { return formatNumber(100 - math.Pow(10, 2-nines)) }}
	for _, m := range s.usedMeasures()[:min(len(s.usedMeasures()), maxPlotLines)] {
		c := curve{name: m.Name}
		for _, point := range m.Curve {
			above := 100 - point.Percentile
			if above <= 0 {
				above = math.Pow(10, 2-percentileNines)
			}
			c.x, c.y = append(c.x, 2-math.Log10(above)), append(c.y, point.Micros)
		}
		p.curves = append(p.curves, c)
	}
	p.x = axis{from: 0, to: percentileNines}
	for nines := range percentileNines + 1 {
		p.xMarks = append(p.xMarks, float64(nines))
	}
	p.y = p.decadeAxis()
	return p
}

// timePlot draws the samples over time.
func (s *Stage) timePlot(show func(float64) string, log bool, curves map[string]func(Moment) (float64, bool),
	names ...string) *plot {
	p := &plot{show: show, xShow: func(v float64) string { return formatNumber(math.Round(v*10)/10) + " s" }}
	p.x = axis{from: 0, to: 1}
	for _, name := range names {
		c := curve{name: name}
		for _, m := range s.Moments {
			if v, told := curves[name](m); told {
				c.x, c.y = append(c.x, m.AtSeconds), append(c.y, v)
			}
			p.x.to = max(p.x.to, m.AtSeconds)
		}
		p.curves = append(p.curves, c)
	}
	p.xMarks = p.x.labelValues()
	if p.y = p.decadeAxis(); !log {
		p.y = axis{from: 0, to: p.roundMaximum()}
	}
	return p
}

// decadeAxis is an axis from the power of ten below all values to the one above.
func (p *plot) decadeAxis() axis {
	low, high := math.Inf(1), 1.0
	for _, c := range p.curves {
		for _, v := range c.y {
			if high = max(high, v); v > 0 {
				low = min(low, v)
			}
		}
	}
	low = max(1, min(low, high))
	return axis{from: math.Pow(10, math.Floor(math.Log10(low))), to: math.Pow(10, math.Ceil(math.Log10(high*1.0001))), log: true}
}

// roundMaximum returns a round number above all values.
func (p *plot) roundMaximum() float64 {
	most := 1.0
	for _, c := range p.curves {
		for _, v := range c.y {
			most = max(most, v)
		}
	}
	step := math.Pow(10, math.Floor(math.Log10(most))) / 2
	return math.Ceil(most/step) * step
}
