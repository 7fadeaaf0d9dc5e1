// Package decisiontest is what the tests of every domain package share: stored events must be read for ever, and nothing that is
// stored may bring a decoder down. It is for tests only and decides nothing.
package decisiontest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/decision"
)

// Decode is a domain package's DecodeEvent.
type Decode func(eventType string, payload []byte) (decision.Event, error)

// goldenDir holds one file per event type that was ever written: its payload, as it was stored. A file is added, never changed.
const goldenDir = "testdata/events"

var declared = regexp.MustCompile(`EventType\(\) string \{ return "([^"]+)" \}`)

// Goldens fails when an event type that the package in the working directory declares has no sample or no golden file, when
// a golden file no longer decodes to its sample, or when the sample would be written otherwise today.
func Goldens(t *testing.T, decode Decode, samples ...decision.Event) {
	byType := map[string]decision.Event{}
	for _, e := range samples {
		byType[e.EventType()] = e
	}
	for _, eventType := range declaredTypes(t) {
		sample, ok := byType[eventType]
		require.True(t, ok, "%s has no sample in this test", eventType)
		written := stored(t, sample)
		golden, err := os.ReadFile(filepath.Join(goldenDir, eventType+".json"))
		require.NoError(t, err, "add the golden file of %s: %s", eventType, written)

		got, err := decode(eventType, golden)
		require.NoError(t, err, eventType)
		require.Equal(t, sample, got, eventType)
		require.JSONEq(t, string(golden), string(written), "%s is written otherwise than before: it needs a new version",
			eventType)
		delete(byType, eventType)
	}
	require.Empty(t, byType, "samples of event types that the package does not declare")

	_, err := decode("no.such.v1", []byte("{}"))
	require.ErrorIs(t, err, decision.ErrUnknownEvent)
}

// Fuzz holds a decoder to two things: it never panics, and what it accepts is written and read again as the same event.
func Fuzz(f *testing.F, decode Decode) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		payload, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(strings.TrimSuffix(filepath.Base(file), ".json"), payload)
	}
	f.Fuzz(func(t *testing.T, eventType string, payload []byte) {
		e, err := decode(eventType, payload)
		if err != nil {
			return
		}
		first := stored(t, e)
		again, err := decode(e.EventType(), first)
		require.NoError(t, err, string(first))
		second := stored(t, again)
		require.True(t, bytes.Equal(first, second), "%s\n%s", first, second)
	})
}

// stored is an event as the journal keeps it: one that writes itself must write what package json does.
func stored(t *testing.T, e decision.Event) []byte {
	written, err := decision.Encode(e)
	require.NoError(t, err)
	plain, err := json.Marshal(e)
	require.NoError(t, err)
	require.Equal(t, string(plain), string(written), e.EventType())
	return written
}

func declaredTypes(t *testing.T) []string {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var types []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range declared.FindAllStringSubmatch(string(source), -1) {
			types = append(types, match[1])
		}
	}
	require.NotEmpty(t, types)
	return types
}
