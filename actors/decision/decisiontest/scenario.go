package decisiontest

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"purser/actors/decision"
	"purser/actors/fault"
)

// State is a domain package's state.
type State interface {
	Decide(m decision.Meta, command any) (decision.Decision, error)
	Apply(e decision.Event)
}

// Step does one step of a scenario and says what came of it.
type Step func(t *testing.T, d *datadriven.TestData) string

// Scenarios runs every scenario, a file testdata/*.txt of the package in the working directory, each from a beginning of its own.
// It fails where a step says something else than the file; with -rewrite the file says it afterwards.
func Scenarios(t *testing.T, begin func() Step) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { datadriven.RunTest(t, file, begin()) })
	}
}

// Decide has a command decided, which must change nothing.
func Decide(t require.TestingT, s State, at time.Time, command any) (decision.Decision, error) {
	before := JSON(t, s)
	d, err := s.Decide(decision.Meta{At: at}, command)
	require.Equal(t, before, JSON(t, s), "deciding changes nothing")
	return d, err
}

// Refused is the line that says why a command was refused. An error that is no fault fails the test.
func Refused(t require.TestingT, err error) string {
	var f *fault.Error
	require.True(t, errors.As(err, &f), "%v", err)
	return "refused: " + f.Error() + "\n"
}

// Apply folds events as they are read back, which must be as they were written, and tells their types, each on a line.
func Apply(t require.TestingT, s State, decode Decode, events ...decision.Event) string {
	var types strings.Builder
	for _, e := range events {
		read, err := decode(e.EventType(), []byte(JSON(t, e)))
		require.NoError(t, err)
		require.Equal(t, e, read)
		s.Apply(read)
		fmt.Fprintln(&types, e.EventType())
	}
	return types.String()
}

// Counted tells what a decision counts, each on a line.
func Counted(tallies []decision.Tally) string {
	var lines strings.Builder
	for _, tally := range tallies {
		if tally.Less {
			fmt.Fprintf(&lines, "  counted: one %s less\n", tally.Name)
			continue
		}
		fmt.Fprintf(&lines, "  counted: %s, most %d\n", tally.Name, tally.Max)
	}
	return lines.String()
}

// JSON is a value as it would be stored.
func JSON(t require.TestingT, v any) string {
	b, err := decision.Encode(v)
	require.NoError(t, err)
	return string(b)
}

// Duration reads a duration of a scenario: 90s, 24h.
func Duration(t require.TestingT, text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}
