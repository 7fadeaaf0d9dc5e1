// Package decisiontest is the shared test kit of the domain packages: stored events stay readable,
// and no stored bytes crash a decoder. It is for tests only.
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

// goldenDir holds one file per event type ever written: its payload as stored. Files are added and
// never changed.
const goldenDir = "testdata/events"

var eventTypePattern = regexp.MustCompile(`EventType\(\) string \{ return "([^"]+)" \}`)

// RequireGoldens compares the event types that the package in the working directory declares with
// their golden files. A type without a sample or a golden file fails the test. So does a golden
// file that no longer decodes to its sample, or a sample that is encoded differently today.
func RequireGoldens(t *testing.T, decode Decode, samples ...decision.Event) {
	byType := map[string]decision.Event{}
	for _, e := range samples {
		byType[e.EventType()] = e
	}
	for _, eventType := range declaredTypes(t) {
		sample, ok := byType[eventType]
		require.True(t, ok, "%s has no sample in this test", eventType)
		written := encodeAsStored(t, sample)
		golden, err := os.ReadFile(filepath.Join(goldenDir, eventType+".json"))
		require.NoError(t, err, "add the golden file of %s: %s", eventType, written)

		got, err := decode(eventType, golden)
		require.NoError(t, err, eventType)
		require.Equal(t, sample, got, eventType)
		require.JSONEq(t, string(golden), string(written),
			"%s is encoded differently than before: it needs a new version",
			eventType)
		delete(byType, eventType)
	}
	require.Empty(t, byType, "samples of event types that the package does not declare")

	_, err := decode("no.such.v1", []byte("{}"))
	require.ErrorIs(t, err, decision.ErrUnknownEvent)
}

// FuzzDecoder checks that a decoder never panics, and that every event it accepts encodes and
// decodes to the same event.
func FuzzDecoder(f *testing.F, decode Decode) {
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
		first := encodeAsStored(t, e)
		again, err := decode(e.EventType(), first)
		require.NoError(t, err, string(first))
		second := encodeAsStored(t, again)
		require.True(t, bytes.Equal(first, second), "%s\n%s", first, second)
	})
}

// encodeAsStored returns the journal's encoding of an event, which must equal that of package json.
func encodeAsStored(t *testing.T, e decision.Event) []byte {
	written, err := decision.Encode(e)
	require.NoError(t, err)
	plain, err := json.Marshal(e)
	require.NoError(t, err)
	require.Equal(t, string(plain), string(written), e.EventType())
	return written
}

// declaredTypes returns the event types that the sources of the package under test declare. It
// fails the test when there are none.
func declaredTypes(t *testing.T) []string {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var types []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range eventTypePattern.FindAllStringSubmatch(string(source), -1) {
			types = append(types, match[1])
		}
	}
	require.NotEmpty(t, types)
	return types
}
