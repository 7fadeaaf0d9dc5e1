package bench

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// A missed goal is reported and fails no run.
func TestGoals(t *testing.T) {
	r := example()
	r.Stages = r.Stages[:1]
	r.judgeAnswers()
	r.judgeGoals([]Goal{
		{Stage: "authorize", Quantity: RatePerSec, Limit: 100, AtLeast: true},
		{Stage: "authorize", Quantity: RateOfEmpty, Limit: 0.55, AtLeast: true},
		{Stage: "authorize", Quantity: P99Micros, Limit: 1000},
		{Stage: "authorize", Quantity: P50OfFloor, Limit: 400},
		{Stage: "never run", Quantity: P99Micros, Limit: 1},
	})
	var met []bool
	for _, v := range r.Goals {
		met = append(met, v.Met)
	}
	require.Equal(t, []bool{true, false, false, true}, met)
	require.InDelta(t, 0.001, r.Goals[1].Value, 1e-9)
	require.False(t, r.Failed)
	require.Equal(t, 2, r.countMissed())
	var out bytes.Buffer
	require.NoError(t, r.WriteMarkdown(&out, "goals"))
	require.Contains(t, out.String(), "- MISSED: authorize, p99, µs: ")
	require.Contains(t, out.String(), "2 of 4 goals missed")
}

func TestARateIsComparedWithTheSpreadOutOne(t *testing.T) {
	stage := func(name, spread string, perSecond float64) Stage {
		return Stage{Name: name, Workload: Authorize, Connections: 64, Spread: spread,
			Measures: []Measure{{Count: 1, PerSecond: perSecond}}}
	}
	r := Report{Stages: []Stage{stage("all", SpreadZipf, 1000), stage("one", SpreadCard, 590)}}
	r.judgeGoals([]Goal{{Stage: "one", Quantity: RateOfSpread, Limit: 0.6, AtLeast: true}})
	require.Len(t, r.Goals, 1)
	require.InDelta(t, 0.59, r.Goals[0].Value, 1e-9)
	require.False(t, r.Goals[0].Met)
}

// The rate of a goal includes declines that are not stored.
func TestRatiosOfRatesCountAllSwipes(t *testing.T) {
	stage := func(name, spread string, stored, unstored float64) Stage {
		return Stage{Name: name, Workload: Authorize, Connections: 64, Spread: spread, Measures: []Measure{{Name: "authorize", Count: 1,
			PerSecond: stored, P99Micros: 7}, {Name: "unstored declines", Count: 1, PerSecond: unstored}, {Name: "other", Count: 1,
			PerSecond: 1}}}
	}
	r := Report{Yardstick: Yardstick{Empty: []Empty{{Connections: 64, PerSecond: 2000}}},
		Stages: []Stage{stage("all", SpreadZipf, 900, 100), stage("one", SpreadCard, 550, 50)}}
	r.judgeGoals([]Goal{{Stage: "one", Quantity: RateOfSpread}, {Stage: "one", Quantity: RateOfEmpty},
		{Stage: "one", Quantity: RatePerSec}, {Stage: "one", Quantity: P99Micros}})
	var values []float64
	for _, v := range r.Goals {
		values = append(values, v.Value)
	}
	require.InDeltaSlice(t, []float64{0.6, 0.3, 550, 7}, values, 1e-9)
}
