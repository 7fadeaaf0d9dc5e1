package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed report.html
var page string

// figure is a plot with its title.
type figure struct {
	Title string
	SVG   template.HTML
	Lines []string
}

type section struct {
	Name    string
	Figures []figure
	Remarks []string
}

// WriteHTML writes the report as one page with plots, without scripts. It fails with out's error.
// The command `purser bench` calls it.
func (r *Report) WriteHTML(out io.Writer, title string) error {
	t, err := template.New("report").Parse(page)
	if err != nil {
		return fmt.Errorf("bench: the page of reports: %w", err)
	}
	sections := make([]section, len(r.Stages))
	for i := range r.Stages {
		s := &r.Stages[i]
		sections[i] = section{Name: s.Name + ", " + s.loopText(), Figures: s.stageFigures(), Remarks: s.stageRemarks()}
	}
	return t.Execute(out, map[string]any{"Title": title, "Facts": r.factLines(), "Header": header.rowCells(), "Rows": r.tableCells(),
		"Legend": Legend, "Sections": sections, "Verdict": r.verdictLine(), "Failed": r.Failed,
		"Goals": r.goalLines(), "ComparisonHeader": comparisonHeader, "Comparison": r.comparisonRows(),
		"ComparisonLegend": ComparisonLegend})
}

func (r *Report) tableCells() [][]string {
	var all [][]string
	for _, line := range r.measureRows() {
		all = append(all, line.rowCells())
	}
	return all
}

// stageFigures returns the plots of a stage: latency by percentile and, when the stage was
// observed, its course in time. WriteHTML calls it.
func (s *Stage) stageFigures() []figure {
	var all []figure
	add := func(title string, p *plot) {
		f := figure{Title: title, SVG: p.renderSVG()}
		for _, c := range p.curves {
			f.Lines = append(f.Lines, c.name)
		}
		all = append(all, f)
	}
	if len(s.usedMeasures()) > 0 {
		add("latency by percentile", s.percentilePlot())
	}
	if len(s.Moments) == 0 {
		return all
	}
	type reads = map[string]func(Moment) (float64, bool)
	add("answers a second, over time", s.timePlot(formatNumber, false,
		reads{"/s": func(m Moment) (float64, bool) { return m.PerSecond, true }}, "/s"))
	add("latency over time", s.timePlot(showMicros, true, reads{
		"p50": func(m Moment) (float64, bool) { return m.P50Micros, m.P50Micros > 0 },
		"p99": func(m Moment) (float64, bool) { return m.P99Micros, m.P99Micros > 0 }}, "p50", "p99"))
	for _, name := range s.gaugeNames() {
		add(name+", over time", s.timePlot(formatNumber, false,
			reads{name: func(m Moment) (float64, bool) { v, told := m.Gauges[name]; return v, told }}, name))
	}
	return all
}
