package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// saved writes changed examples as results, and returns their directory.
func saved(t *testing.T, changes map[string]func(r *Report)) string {
	t.Helper()
	dir := t.TempDir()
	for name, change := range changes {
		r := example()
		change(r)
		text, err := json.Marshal(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".json"), text, 0o600))
	}
	return dir
}

// meets adds a goal to a report.
func meets(r *Report) {
	r.judgeGoals([]Goal{{Stage: "authorize", Quantity: P99Micros, Limit: 100_000}})
}

// changed returns an example with another p99 and rate of the first load, another figure and its
// base.
func changed(p99, drained float64, server string, held bool) func(r *Report) {
	return func(r *Report) {
		r.Stages[0].Measures[0].P99Micros, r.Stages[0].Measures[0].PerSecond = p99, p99/100
		r.Stages[1].Figures[1].Value, r.Stages[1].Held = drained, held
		r.Stages[1].Wrong = 0
		r.judgeAnswers()
		r.Yardstick.SyncZeroedP50Micros = p99 / 1000
		r.Facts["server"] = server
		meets(r)
	}
}

func rowOf(t *testing.T, s sheet, first, second string) []string {
	t.Helper()
	for _, r := range s.rows {
		if r[0] == first && r[1] == second {
			return r
		}
	}
	require.FailNow(t, "no such row", "%s, %s: %v", first, second, s.rows)
	return nil
}

func TestMediansOfReports(t *testing.T) {
	dir := saved(t, map[string]func(*Report){"short-1": changed(300_000, 3, "purser a", true),
		"short-2": changed(90_000, 1, "purser a", false), "short-3": changed(120_000, 2, "purser a", true),
		"short-4": changed(50_000, 4, "purser b", false)})
	d, err := ReadMedians(dir, []string{"short-1", "short-2", "short-3"})
	require.NoError(t, err)
	require.Equal(t, "short", d.Name())
	// ratios are the medians of ratios: of 45 µs and each run's sync
	require.Equal(t, []string{"authorize", "authorize", "1200", "50.0 ms", "120.0 ms", "99.9 ms", "1 %", "303.05×"},
		rowOf(t, d.loadSheet(), "authorize", "authorize"))
	require.Equal(t, []string{"sustain", "drained after", "s", "3", "1", "2", "2"},
		rowOf(t, d.figureSheet(), "sustain", "drained after"))
	require.Equal(t, []string{"MISSED", "authorize", P99Micros, "300000", "90000", "120000", "120000", "at most 100000"},
		rowOf(t, d.goalSheet(), "MISSED", "authorize"))
	require.Equal(t, "2 of 3", rowOf(t, d.goalSheet(), "met", "sustain")[6])
	require.Equal(t, []string{"short-2", "purser a", "<embedded>", "90 µs", "195 µs", "20000/s, p50 45 µs, p99 90 µs",
		"100000/s, p50 600 µs, p99 2.00 ms"}, rowOf(t, d.runSheet(), "short-2", "purser a"))
	require.Contains(t, d.differingFacts(), "one server, purser a")

	d, err = ReadMedians(dir, []string{"short-1", "short-2", "short-3", "short-4"})
	require.NoError(t, err)
	require.Equal(t, "105000", rowOf(t, d.goalSheet(), "MISSED", "authorize")[7], "the mean of the middle two")
	require.Equal(t, "2 of 4", rowOf(t, d.goalSheet(), "MISSED", "sustain")[7], "half is not more than half")
	require.Contains(t, d.differingFacts(), "NOT ALIKE: some runs are of another server")
	d.reports[1].Failed = true
	require.Contains(t, d.differingFacts(), "FAILED")
	for _, write := range []func(*bytes.Buffer) error{func(out *bytes.Buffer) error { return d.WriteTable(out) },
		func(out *bytes.Buffer) error { return d.WriteMarkdown(out, "medians") }} {
		var out bytes.Buffer
		require.NoError(t, write(&out))
		for _, text := range []string{"NOT ALIKE", "drained after", "MISSED", "purser b", "short-4"} {
			require.Contains(t, out.String(), text)
		}
	}
}

// Reports that cannot be compared are an error that names them.
func TestMediansOfReportsThatAreNotAlike(t *testing.T) {
	dir := saved(t, map[string]func(*Report){"a-1": meets, "a-2": func(r *Report) { r.Stages[1].Name = "other" },
		"a-3": func(*Report) {}, "a-4": func(r *Report) { r.Stages[0].Name = "x" }})
	_, err := ReadMedians(dir, []string{"a-1", "a-0"})
	require.ErrorContains(t, err, "report a-0:")
	_, err = ReadMedians(dir, []string{"a-1", "a-2"})
	require.ErrorContains(t, err, `report a-2: it has load "other" of sustain, 64 connections, spread "", open 100/s where `+
		`the first one has load "sustain"`)
	_, err = ReadMedians(dir, []string{"a-1", "a-3"})
	require.ErrorContains(t, err, "report a-3: it has nothing where", "no goal")
	_, err = ReadMedians(dir, []string{"a-3", "a-1"})
	require.ErrorContains(t, err, `report a-1: it has goal "authorize"`)
	_, err = ReadMedians(dir, []string{"a-1", "a-4"})
	require.ErrorContains(t, err, `report a-4: it has load "x"`)
	_, err = ReadMedians(dir, nil)
	require.Error(t, err)
}

// Loads are equal when their names and parameters are. A rate that a search has found is no
// parameter.
func TestMediansOfOtherLoadsOfTheSameName(t *testing.T) {
	found := func(rate int) func(*Report) {
		return func(r *Report) { r.Stages[1].Rate, r.Stages[1].Searched = rate, true }
	}
	empty := func(r *Report) {
		r.Stages = slices.Insert(r.Stages, 1, Stage{Name: "nothing came of it", Workload: REST})
	}
	dir := saved(t, map[string]func(*Report){"first": func(*Report) {}, "found-1": found(7), "found-2": found(9), "empty": empty,
		"workload":    func(r *Report) { r.Stages[0].Workload = Lifecycle },
		"connections": func(r *Report) { r.Stages[0].Connections = 8 },
		"spread":      func(r *Report) { r.Stages[0].Spread = SpreadCard }, "rate": func(r *Report) { r.Stages[1].Rate = 99 }})
	for name, differs := range map[string]string{"workload": "of lifecycle,", "connections": ", 8 connections",
		"spread": `spread "card"`, "rate": "open 99/s", "found-1": "the rate that a search found", "empty": "nothing came of it"} {
		for _, names := range [][]string{{"first", name}, {name, "first"}} {
			_, err := ReadMedians(dir, names)
			require.ErrorContains(t, err, differs)
		}
	}
	d, err := ReadMedians(dir, []string{"found-1", "found-2"})
	require.NoError(t, err)
	require.NoError(t, d.WriteTable(io.Discard))
}

// Two builds with the same version may differ when their tree was modified or its commit is
// unknown.
func TestMediansOfAServerThatIsNotIdentified(t *testing.T) {
	dir := saved(t, map[string]func(*Report){"a": changed(1, 1, "purser 1.2.3 0123456789ab+", true),
		"b": changed(1, 1, serverFact(map[string]string{"version": "1.2.3"}), true), "c": changed(1, 1, serverFact(nil), true)})
	for _, name := range []string{"a", "b", "c"} {
		d, err := ReadMedians(dir, []string{name, name})
		require.NoError(t, err)
		require.Contains(t, d.differingFacts(), "NOT ALIKE: some runs are of a server not identified")
	}
}

func TestTheNameOfMedians(t *testing.T) {
	for want, names := range map[string][]string{"short": {"short-10", "short-11"},
		"rest-postgres": {"rest-postgres-1", "rest-postgres-2"}, "v2": {"v2-1", "v2-2"}, "once": {"once"}, "": {"a", "b"}} {
		require.Equal(t, want, (&Medians{names: names}).Name())
	}
}
