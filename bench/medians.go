package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// Medians are several reports of the same loads, side by side.
type Medians struct {
	names   []string
	reports []Report
}

// ReadMedians reads the reports of some names from a directory of results. A missing report, and
// one with other loads or goals than the first, is an error. The command `purser bench medians`
// calls it.
func ReadMedians(dir string, names []string) (*Medians, error) {
	d := &Medians{names: names, reports: make([]Report, len(names))}
	if len(names) == 0 {
		return nil, errors.New("bench: no reports are named")
	}
	for i, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err == nil {
			err = json.Unmarshal(text, &d.reports[i])
		}
		if err == nil {
			err = d.reports[i].requireComparable(&d.reports[0])
		}
		if err != nil {
			return nil, fmt.Errorf("bench: report %s: %w", name, err)
		}
	}
	return d, nil
}

// requireComparable returns an error that names the first difference of two reports in loads or
// goals.
func (r *Report) requireComparable(other *Report) error {
	if mine, its := r.describeSubjects(), other.describeSubjects(); !slices.Equal(mine, its) {
		for i := range max(len(mine), len(its)) {
			if i >= len(mine) || i >= len(its) || mine[i] != its[i] {
				return fmt.Errorf("it has %s where the first one has %s", elementAt(mine, i), elementAt(its, i))
			}
		}
	}
	return nil
}

func elementAt(all []string, i int) string {
	if i < len(all) {
		return all[i]
	}
	return "nothing"
}

// describeSubjects describes the loads and goals of a report in order, so that reports can be
// compared.
func (r *Report) describeSubjects() (all []string) {
	for i := range r.Stages {
		s := &r.Stages[i]
		loop := s.loopText()
		if s.Searched {
			loop = "open at the rate that a search found"
		}
		all = append(
			all,
			fmt.Sprintf("load %q of %s, %d connections, spread %q, %s", s.Name, s.Workload, s.Connections, s.Spread,
				loop),
		)
		for _, m := range s.usedMeasures() {
			all = append(all, fmt.Sprintf("load %q, measure %q", s.Name, m.Name))
		}
		if s.Judged {
			all = append(all, fmt.Sprintf("load %q, judged", s.Name))
		}
	}
	for _, v := range r.Goals {
		all = append(all, fmt.Sprintf("goal %q, %q, %s", v.Stage, v.Quantity, v.limitText()))
	}
	return all
}

// Name is the common beginning of the names up to a hyphen: short of short-1 and short-2.
func (d *Medians) Name() string {
	common := d.names[0]
	for _, name := range d.names[1:] {
		for !strings.HasPrefix(name, common) {
			common = common[:len(common)-1]
		}
	}
	if last := strings.LastIndexByte(common, '-'); last >= 0 {
		return common[:last]
	}
	return common
}

// median returns the middle value, or the mean of the middle two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// valuesOf returns a value of each report. It reports false unless all reports have the value.
func (d *Medians) valuesOf(read func(r *Report) (float64, bool)) (values []float64, told bool) {
	for i := range d.reports {
		v, has := read(&d.reports[i])
		if !has {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}

// sheet is one table of the medians.
type sheet struct {
	title string
	rows  [][]string // the first is the header
}

func (d *Medians) allSheets() []sheet {
	all := []sheet{d.loadSheet(), d.figureSheet(), d.goalSheet(), d.runSheet()}
	return slices.DeleteFunc(all, func(s sheet) bool { return len(s.rows) == 1 })
}

// loadSheet has a row of medians for each measure of each load.
func (d *Medians) loadSheet() sheet {
	s := sheet{
		"medians of the loads",
		[][]string{{"load", "measure", "/s", "p50", "p99", "p99.9", "of empty", "of floor"}},
	}
	for i := range d.reports[0].Stages {
		for j, m := range d.reports[0].Stages[i].usedMeasures() {
			show := func(form func(float64) string, read func(*Report, *Stage, *Measure) (float64, bool)) string {
				values, told := d.valuesOf(
					func(r *Report) (float64, bool) { return read(r, &r.Stages[i], &r.Stages[i].usedMeasures()[j]) },
				)
				if !told {
					return "–"
				}
				return form(median(values))
			}
			s.rows = append(s.rows, []string{d.reports[0].Stages[i].Name, m.Name,
				show(perSecond, func(_ *Report, _ *Stage, m *Measure) (float64, bool) { return m.PerSecond, true }),
				show(showMicros, func(_ *Report, _ *Stage, m *Measure) (float64, bool) { return m.P50Micros, true }),
				show(showMicros, func(_ *Report, _ *Stage, m *Measure) (float64, bool) { return m.P99Micros, true }),
				show(showMicros, func(_ *Report, _ *Stage, m *Measure) (float64, bool) { return m.P999Micros, true }),
				show(formatPercent, (*Report).ofEmpty),
				show(formatTimes, func(r *Report, _ *Stage, m *Measure) (float64, bool) {
					return ratioOf(m.P50Micros, r.Yardstick.floorMicros())
				})})
		}
	}
	return s
}

// figureSheet adds the figures that every report has.
func (d *Medians) figureSheet() sheet {
	s := sheet{"figures", [][]string{d.sheetHeader("load", "figure", "unit")}}
	for i := range d.reports[0].Stages {
		for _, f := range d.reports[0].Stages[i].Figures {
			values, told := d.valuesOf(func(r *Report) (float64, bool) { return r.Stages[i].figureOf(f.Name) })
			if told {
				s.rows = append(
					s.rows,
					append([]string{d.reports[0].Stages[i].Name, f.Name, f.Unit}, withMedian(values)...),
				)
			}
		}
	}
	return s
}

// goalSheet has a row for each goal, met when the median meets it, and for each rate, met when more
// than half of the runs held it.
func (d *Medians) goalSheet() sheet {
	s := sheet{"goals", [][]string{append(d.sheetHeader("goal", "load", "quantity"), "meant to be")}}
	for i, v := range d.reports[0].Goals {
		values, _ := d.valuesOf(func(r *Report) (float64, bool) { return r.Goals[i].Value, true })
		row := append([]string{outcomeText(v.isReached(median(values))), v.Stage, v.Quantity}, withMedian(values)...)
		s.rows = append(s.rows, append(row, v.limitText()))
	}
	for i := range d.reports[0].Stages {
		if !d.reports[0].Stages[i].Judged {
			continue
		}
		row, held := []string{"", d.reports[0].Stages[i].Name, "rate"}, 0
		for j := range d.reports {
			it, word := &d.reports[j].Stages[i], "not held"
			if it.Held {
				held, word = held+1, "held"
			}
			row = append(row, fmt.Sprintf("%d/s %s", it.Rate, word))
		}
		row[0] = outcomeText(2*held > len(d.reports))
		s.rows = append(s.rows, append(row, fmt.Sprintf("%d of %d", held, len(d.reports)), "held by more than half"))
	}
	return s
}

// runSheet adds the machine's figures and the server of each report.
func (d *Medians) runSheet() sheet {
	s := sheet{"runs", [][]string{{"run", "server", "store", "synced write, p50", "growing, p50"}}}
	for _, e := range d.reports[0].Yardstick.Empty {
		s.rows[0] = append(s.rows[0], fmt.Sprintf("empty handler, %d connections", e.Connections))
	}
	for i := range d.reports {
		r := &d.reports[i]
		row := []string{d.names[i], r.Facts["server"], r.Facts["store"], showMicros(r.Yardstick.SyncZeroedP50Micros),
			showMicros(r.Yardstick.SyncGrowingP50Micros)}
		for _, first := range d.reports[0].Yardstick.Empty {
			cell := "–"
			if e := r.Yardstick.emptyOf(first.Connections); e != nil {
				cell = fmt.Sprintf(
					"%.0f/s, p50 %s, p99 %s",
					e.PerSecond,
					showMicros(e.P50Micros),
					showMicros(e.P99Micros),
				)
			}
			row = append(row, cell)
		}
		s.rows = append(s.rows, row)
	}
	return s
}

// differingFacts lists the facts in which the runs differ, although medians assume that they are
// equal.
func (d *Medians) differingFacts() string {
	var what []string
	for _, fact := range []string{"server", "store", "authorizer"} {
		if slices.ContainsFunc(d.reports, func(r Report) bool { return r.Facts[fact] != d.reports[0].Facts[fact] }) {
			what = append(what, "of another "+fact)
		}
	}
	if slices.ContainsFunc(d.reports, func(r Report) bool { return !isCommitBuild(r.Facts["server"]) }) {
		what = append(what, "of a server not identified")
	}
	if slices.ContainsFunc(d.reports, func(r Report) bool { return r.Machine != d.reports[0].Machine }) {
		what = append(what, "on another machine")
	}
	if slices.ContainsFunc(d.reports, func(r Report) bool { return r.Failed }) {
		what = append(what, "FAILED")
	}
	if len(what) == 0 {
		return "all runs are of one server, " + d.reports[0].Facts["server"] + ", on one machine"
	}
	return "NOT ALIKE: some runs are " + strings.Join(what, ", ")
}

// isCommitBuild reports whether the version of a server names one commit. Builds of a modified tree
// have the same version and may differ.
func isCommitBuild(server string) bool {
	return server != "" && !strings.HasSuffix(server, notKnown) && !strings.HasSuffix(server, "+")
}

// sheetHeader has a column for each report and one for the median.
func (d *Medians) sheetHeader(first ...string) []string {
	return append(append(first, d.names...), "median")
}

func withMedian(values []float64) (cells []string) {
	for _, v := range append(slices.Clone(values), median(values)) {
		cells = append(cells, formatNumber(roundDigits(v)))
	}
	return cells
}

func perSecond(v float64) string     { return fmt.Sprintf("%.0f", v) }
func formatPercent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }
func formatTimes(v float64) string   { return fmt.Sprintf("%.2f×", v) }

// WriteTable writes the medians for a terminal. It fails with out's error.
func (d *Medians) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, d.differingFacts())
	for _, s := range d.allSheets() {
		fmt.Fprintf(w, "\n%s\n", s.title)
		for _, row := range s.rows {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
	}
	return w.Flush()
}

// WriteMarkdown writes the medians as a Markdown page with a table for each sheet. It fails with
// out's error.
func (d *Medians) WriteMarkdown(out io.Writer, title string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n", title, d.differingFacts())
	for _, s := range d.allSheets() {
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		for i, row := range s.rows {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(row)))
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
