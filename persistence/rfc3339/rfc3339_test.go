package rfc3339_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence/rfc3339"
)

func TestParseReadsTimestamps(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-11-20T21:40:05Z":                 time.Date(2026, 11, 20, 21, 40, 5, 0, time.UTC),
		"2026-11-20T21:40:05.1Z":               time.Date(2026, 11, 20, 21, 40, 5, 100_000_000, time.UTC),
		"2026-11-20T21:40:05.123456789999999Z": time.Date(2026, 11, 20, 21, 40, 5, 123_456_789, time.UTC),
		"2026-11-20T23:40:05+02:00":            time.Date(2026, 11, 20, 21, 40, 5, 0, time.UTC),
		"2026-11-20T00:00:00-23:59":            time.Date(2026, 11, 20, 23, 59, 0, 0, time.UTC),
		"2026-11-20T00:00:00-00:00":            time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		"2024-02-29T00:00:00+23:59":            time.Date(2024, 2, 28, 0, 1, 0, 0, time.UTC),
		"0000-01-01T00:00:00Z":                 time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		"9999-12-31T23:59:59.999-00:01":        time.Date(10000, 1, 1, 0, 0, 59, 999_000_000, time.UTC),
	} {
		got, err := rfc3339.Parse([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseRefusesOtherTexts(t *testing.T) {
	for _, text := range []string{
		"", "yesterday", "2026-11-20", "2026-11-20T21:40:05", "2026-11-20T21:40Z", "2026-11-20T21:40:05ZZ",
		"2026-11-20T21:40:05+24:00", "2026-11-20T21:40:05-24:00", "2026-11-20T21:40:05+23:60",
		"2026-11-20T21:40:05+2:00", "2026-11-20T21:40:05+02", "2026-11-20T21:40:05+0200", "2026-11-20T21:40:05+02:00Z",
		"2026-11-20T1:40:05Z", "2026-11-20T21:40:05,5Z", "2026-11-20T21:40:05.Z", "2026-11-20T21:40:05.+02:00",
		"2026-11-20T24:00:00Z", "2026-11-20T21:60:00Z", "2026-11-20T21:40:60Z",
		"2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-11-31T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-00T00:00:00Z",
		"2026-11-20t21:40:05Z", "2026-11-20T21:40:05z", "2026-11-20 21:40:05Z", " 2026-11-20T21:40:05Z", "2026-11-20T21:40:05Z ",
		"12026-11-20T21:40:05Z", "+2026-11-20T21:40:05Z", "-026-11-20T21:40:05Z", "2026-11-20T21:40:05\u221202:00",
	} {
		_, err := rfc3339.Parse([]byte(text))
		require.Error(t, err, text)
	}
}

func TestParseReadsEveryFormattedTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := time.FixedZone("", 60*rapid.IntRange(-23*60-59, 23*60+59).Draw(t, "offset"))
		at := time.Unix(rapid.Int64Range(-62_000_000_000, 253_000_000_000).Draw(t, "s"),
			rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).In(zone)
		got, err := rfc3339.Parse([]byte(at.Format(time.RFC3339Nano)))
		require.NoError(t, err)
		require.Equal(t, at.UTC(), got)
	})
}

func TestParseDoesNotAllocate(t *testing.T) {
	text := []byte("2026-11-20T21:40:05.125+05:45")
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := rfc3339.Parse(text); err != nil {
			t.Fatal(err)
		}
	}))
}

var strict = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// FuzzParse compares with package time, which takes more texts than those of the grammar.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"2026-11-20T21:40:05Z", "2026-11-20T21:40:05.125+05:45", "2026-11-20T21:40:05+24:00",
		"2026-02-29T1:40:05,5Z"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := rfc3339.Parse(text)
		want, lenient := time.Parse(time.RFC3339, string(text))
		require.Equal(t, lenient == nil && strict.Match(text), err == nil, "%q", text)
		if err == nil {
			require.True(t, want.Equal(got), "%q: %s, not %s", text, got, want)
		}
	})
}
