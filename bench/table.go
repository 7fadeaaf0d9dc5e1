package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// row is one measure as tables show it.
type row struct{ Stage, Loop, Measure, PerSecond, P50, P99, P999, Max, OfEmpty, OfFloor, P99OfFloor, P999OfFloor string }

var header = row{"load", "loop", "measure", "/s", "p50", "p99", "p99.9", "max", "of empty", "of floor", "p99 of floor",
	"p99.9 of floor"}

func (r row) rowCells() []string {
	return []string{r.Stage, r.Loop, r.Measure, r.PerSecond, r.P50, r.P99, r.P999, r.Max, r.OfEmpty, r.OfFloor,
		r.P99OfFloor, r.P999OfFloor}
}

// measureRows of the tables, one for each measure.
func (r *Report) measureRows() []row {
	var all []row
	for i := range r.Stages {
		s := &r.Stages[i]
		for _, m := range s.usedMeasures() {
			line := row{Stage: s.Name, Loop: s.loopText(), Measure: m.Name, PerSecond: perSecond(m.PerSecond),
				P50: showMicros(m.P50Micros), P99: showMicros(m.P99Micros), P999: showMicros(m.P999Micros),
				Max: showMicros(m.MaxMicros), OfEmpty: "–"}
			if of, told := r.ofEmpty(s, &m); told {
				line.OfEmpty = formatPercent(of)
			}
			line.OfFloor, line.P99OfFloor, line.P999OfFloor = r.showOfFloor(m.P50Micros), r.showOfFloor(m.P99Micros),
				r.showOfFloor(m.P999Micros)
			all = append(all, line)
		}
	}
	return all
}

// ofEmpty is a rate beside the empty handler's.
func (r *Report) ofEmpty(s *Stage, m *Measure) (of float64, told bool) {
	if e := r.Yardstick.emptyOf(s.Connections); e != nil {
		return ratioOf(m.PerSecond, e.PerSecond)
	}
	return 0, false
}

func (r *Report) showOfFloor(us float64) string {
	of, told := ratioOf(us, r.Yardstick.floorMicros())
	if !told {
		return "–"
	}
	return formatTimes(of)
}

func (s *Stage) loopText() string {
	if s.Rate > 0 {
		return fmt.Sprintf("open %d/s", s.Rate)
	}
	return fmt.Sprintf("closed %d", s.Connections)
}

// showMicros writes a time with three significant digits.
func showMicros(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.2f s", us/1e6)
	case us >= 1e4:
		return fmt.Sprintf("%.1f ms", us/1e3)
	case us >= 1e3:
		return fmt.Sprintf("%.2f ms", us/1e3)
	}
	return fmt.Sprintf("%.0f µs", us)
}

// factLines of the machine and the server, a line each.
func (r *Report) factLines() []string {
	m := r.Machine
	lines := []string{
		fmt.Sprintf("machine: %s, %d cores, %.1f GiB, %s, %s", m.CPU, m.Cores, float64(m.MemoryBytes)/(1<<30), m.Kernel, m.Go)}
	for i, when := range []string{"before", "after"}[:len(r.Yardsticks)] {
		for _, line := range r.Yardsticks[i].yardstickLines() {
			lines = append(lines, when+" the loads, "+line)
		}
	}
	lines = append(lines, fmt.Sprintf("elapsed: %.0f s", r.Seconds))
	for _, name := range slices.Sorted(maps.Keys(r.Facts)) {
		lines = append(lines, name+": "+r.Facts[name])
	}
	return lines
}

// yardstickLines returns the machine's own measures as lines of text. factLines calls it.
func (y *Yardstick) yardstickLines() []string {
	lines := []string{fmt.Sprintf("synced write, p50: %s over zeroed blocks, %s growing", showMicros(y.SyncZeroedP50Micros),
		showMicros(y.SyncGrowingP50Micros))}
	for _, e := range y.Empty {
		lines = append(lines, fmt.Sprintf("empty handler, same client, %d connections: %.0f/s, p50 %s, p99 %s", e.Connections,
			e.PerSecond, showMicros(e.P50Micros), showMicros(e.P99Micros)))
	}
	return lines
}

// Legend explains the columns of ratios.
const Legend = "of empty: rate beside the empty handler's over as many connections. " +
	"of floor: p50, or the percentile named, beside one synced write over zeroed blocks and one exchange with the empty " +
	"handler. Both are to the faster of the machine before and after the loads."

// leastRatio is the smallest ratio that the table shows.
const leastRatio = 0.001

// stageRemarks returns the notes of a stage beside its latencies.
func (s *Stage) stageRemarks() []string {
	var lines []string
	for _, f := range s.Figures {
		line := strings.TrimSpace(fmt.Sprintf("%s: %s %s", f.Name, formatNumber(roundDigits(f.Value)), f.Unit))
		if f.Ratio >= leastRatio {
			line += fmt.Sprintf(", %s× of %s", formatNumber(f.Ratio), f.Of)
		}
		lines = append(lines, line)
	}
	if s.Judged {
		lines = append(lines, fmt.Sprintf("%d/s: %s", s.Rate, s.heldText()))
	}
	if s.Rate > 0 {
		lines = append(lines, fmt.Sprintf("%d due and unsent; sent late p99 %s", s.Unsent, showMicros(s.LateP99Micros)))
	}
	var outcomes []string
	for _, name := range slices.Sorted(maps.Keys(s.Outcomes)) {
		outcomes = append(outcomes, fmt.Sprintf("%s %d", name, s.Outcomes[name]))
	}
	lines = append(lines, "outcomes: "+strings.Join(outcomes, ", "))
	if s.Compared > 0 {
		lines = append(lines, fmt.Sprintf("%d sums and repeats compared afterwards", s.Compared))
	}
	lines = append(lines, s.Notes...)
	if n := s.Outcomes[noAnswer]; n > 0 {
		lines = append(lines, fmt.Sprintf("NO ANSWER to %d requests of a server that was not meant to die", n))
	}
	for _, d := range s.Differences {
		lines = append(lines, "WRONG: "+d)
	}
	return lines
}

func formatNumber(v float64) string {
	if v == float64(int64(v)) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// verdictLine returns the last line of the table.
func (r *Report) verdictLine() string {
	switch {
	case r.Unanswered > 0:
		return fmt.Sprintf("%d requests WITHOUT an answer, %d WRONG answers or sums", r.Unanswered, r.Wrong)
	case r.Wrong > 0:
		return fmt.Sprintf("%d WRONG answers or sums", r.Wrong)
	case r.countMissed() > 0:
		return fmt.Sprintf("every answer was the one that must come; %d of %d goals missed", r.countMissed(), len(r.goalLines()))
	}
	return "every answer was the one that must come"
}

// WriteTable writes the report for a terminal. It fails with out's error. The command `purser
// bench` calls it.
func (r *Report) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range r.factLines() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, strings.Join(header.rowCells(), "\t"))
	for _, line := range r.measureRows() {
		fmt.Fprintln(w, strings.Join(line.rowCells(), "\t"))
	}
	fmt.Fprintln(w)
	if rows := r.comparisonRows(); len(rows) > 0 {
		for _, cells := range append([][]string{comparisonHeader}, rows...) {
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
		fmt.Fprintf(w, "\n%s\n\n", ComparisonLegend)
	}
	for i := range r.Stages {
		fmt.Fprintln(w, r.Stages[i].Name)
		for _, line := range r.Stages[i].stageRemarks() {
			fmt.Fprintln(w, "    "+line)
		}
	}
	for _, line := range r.goalLines() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "\n%s\n%s\n", Legend, r.verdictLine())
	return w.Flush()
}

// WriteMarkdown writes the report for a repository. It fails with out's error. The command `purser
// bench` calls it.
func (r *Report) WriteMarkdown(out io.Writer, title string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", title)
	for _, line := range r.factLines() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	b.WriteString("\n")
	cells := header.rowCells()
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(cells, " | "), strings.Repeat("---|", len(cells)))
	for _, line := range r.measureRows() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line.rowCells(), " | "))
	}
	fmt.Fprintf(&b, "\n%s\n", Legend)
	if rows := r.comparisonRows(); len(rows) > 0 {
		fmt.Fprintf(&b, "\n| %s |\n|%s\n", strings.Join(comparisonHeader, " | "),
			strings.Repeat("---|", len(comparisonHeader)))
		for _, cells := range rows {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		fmt.Fprintf(&b, "\n%s\n", ComparisonLegend)
	}
	for i := range r.Stages {
		fmt.Fprintf(&b, "\n## %s\n\n", r.Stages[i].Name)
		for _, line := range r.Stages[i].stageRemarks() {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	if lines := r.goalLines(); len(lines) > 0 {
		b.WriteString("\n## goals\n\n")
		for _, line := range lines {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	fmt.Fprintf(&b, "\n%s.\n", r.verdictLine())
	_, err := io.WriteString(out, b.String())
	return err
}
