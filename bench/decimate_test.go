package bench

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A series has a bounded length, keeps its worst samples, and survives JSON unchanged.
func TestASeriesIsThinnedAndKeepsItsWorst(t *testing.T) {
	var long Moments
	for i := range 1000 {
		m := Moment{AtSeconds: float64(i + 1), PerSecond: 100, P50Micros: 10, P99Micros: 20}
		if i == 777 {
			m.P99Micros, m.Gauges = 9_000, map[string]float64{backlogGauge: 4321}
		}
		long = append(long, m)
	}
	kept := decimateMoments(long)
	require.LessOrEqual(t, len(kept), keptMoments)
	require.EqualValues(t, 1000, kept[len(kept)-1].AtSeconds)
	stalls := 0
	for _, m := range kept {
		require.InDelta(t, 100, m.PerSecond, 0.01)
		if m.P99Micros == 9_000 && m.Gauges[backlogGauge] == 4321 {
			stalls++
		}
	}
	require.Equal(t, 1, stalls)
	text, err := json.Marshal(kept)
	require.NoError(t, err)
	var again Moments
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, kept, again)
	require.Empty(t, decimateMoments(nil))
	require.Error(t, json.Unmarshal([]byte(`{"atSeconds":[1],"perSecond":[]}`), &again))
}

// The reports of the short set with series of maximum length are small enough to be committed.
func TestAReportIsSmall(t *testing.T) {
	const stages, measures, gauges, mostBytes = 17, 2, 8, 60 << 10
	h := newHistogram(wholeDigits)
	var plain, watched Moments // only mixed and sustain watch the server
	for i := range 120 {
		recordNanos(h, int64(i)*int64(123_457*time.Nanosecond))
		m := Moment{AtSeconds: float64(i) / 7, PerSecond: 12_345.678 * float64(i), P50Micros: 123.4567 * float64(i),
			P99Micros: 1234.567 * float64(i)}
		plain = append(plain, m)
		for g := range gauges {
			m.setGauge("purser_some_lag_of_a_usual_name_"+string(rune('a'+g)), float64(i)*1.2345678)
		}
		watched = append(watched, m)
	}
	var r Report
	for i := range stages {
		s := Stage{Name: "authorize, 64 connections", Workload: Authorize, Outcomes: map[string]int64{}, Moments: plain}
		if i < 3 {
			s.Moments = watched
		}
		for _, reason := range []string{"approved", "card_frozen", "duplicate_mismatch", "monthly_limit_exceeded", "timeout"} {
			s.Outcomes[reason] = 1_234_567
		}
		for range measures {
			s.Measures = append(s.Measures, newMeasure("network message", h, 10))
		}
		r.Stages = append(r.Stages, s)
	}
	r.decimateSeries()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.Less(t, len(text), mostBytes)
}
