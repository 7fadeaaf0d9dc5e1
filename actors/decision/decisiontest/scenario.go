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

// Step runs one step of a scenario and returns its outcome as text.
type Step func(t *testing.T, d *datadriven.TestData) string

// Scenarios runs every scenario, a file testdata/*.txt of the package in the working directory,
// each from a fresh Step. It fails where the outcome differs from the file; -rewrite writes the
// outcome to the file instead.
func Scenarios(t *testing.T, begin func() Step) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"),
			func(t *testing.T) { datadriven.RunTest(t, file, begin()) })
	}
}

// Decide decides a command and fails the test if that changes the state.
func Decide(t require.TestingT, s State, at time.Time, command any) (decision.Decision, error) {
	before := JSON(t, s)
	d, err := s.Decide(decision.Meta{At: at}, command)
	require.Equal(t, before, JSON(t, s), "Decide must not change the state")
	return d, err
}

// RefusalLine returns the scenario line of a refusal. An error that is not a fault fails the test.
func RefusalLine(t require.TestingT, err error) string {
	var f *fault.Error
	require.True(t, errors.As(err, &f), "%v", err)
	return "refused: " + f.Error() + "\n"
}

// Apply encodes, decodes and folds events, fails unless they decode to themselves, and returns
// their types, one per line.
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

// TallyLines returns a decision's tallies, one per line.
func TallyLines(tallies []decision.Tally) string {
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

// JSON returns the stored encoding of a value.
func JSON(t require.TestingT, v any) string {
	b, err := decision.Encode(v)
	require.NoError(t, err)
	return string(b)
}

// Duration parses a duration of a scenario, such as 90s or 24h.
func Duration(t require.TestingT, text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}
