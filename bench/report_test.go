package bench

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// example returns a report with every kind of part.
func example() *Report {
	h := newHistogram(wholeDigits)
	for i := range int64(1000) {
		recordNanos(h, (i+1)*int64(100*time.Microsecond))
	}
	m := newMeasure("authorize", h, 10)
	r := &Report{Machine: Machine{CPU: "A processor", Cores: 2, MemoryBytes: 8 << 30, Kernel: "linux 6.1", Go: "go1.26"},
		Facts:   map[string]string{"store": "<embedded>"},
		Seconds: 25.4,
		Yardsticks: []Yardstick{
			{SyncZeroedP50Micros: 95, SyncGrowingP50Micros: 195,
				Empty: []Empty{{Connections: 1, PerSecond: 20_000, P50Micros: 45, P99Micros: 90},
					{Connections: 64, PerSecond: 90_000, P50Micros: 600, P99Micros: 2100}}},
			{SyncZeroedP50Micros: 120, SyncGrowingP50Micros: 205,
				Empty: []Empty{{Connections: 1, PerSecond: 19_000, P50Micros: 51, P99Micros: 140},
					{Connections: 64, PerSecond: 100_000, P50Micros: 640, P99Micros: 2000}}}},
		Stages: []Stage{
			{Name: "authorize", Workload: Authorize, Connections: 64, Seconds: 10,
				Measures: []Measure{m, newMeasure("unused", newHistogram(3), 10)},
				Outcomes: map[string]int64{"approved": 990, "card_frozen": 10}, Compared: 3,
				Moments: []Moment{{AtSeconds: 1, PerSecond: 90, P50Micros: 40, P99Micros: 1200},
					{AtSeconds: 2, PerSecond: 110, P50Micros: 60, P99Micros: 900}}},
			{Name: "sustain", Workload: Sustain, Connections: 64, Rate: 100, Seconds: 10, Unsent: 3, LateP99Micros: 120,
				Judged: true, Wrong: 1, Measures: []Measure{m}, Outcomes: map[string]int64{"approved": 1000},
				Figures:     []Figure{newFigure("most purser_backlog_entries", 12, ""), newFigure("drained after", 0.14, "s")},
				Differences: []string{"authorization: answered 200 <declined>, want approved"},
				NotHeld:     []string{"it grows", "it is late"}, Moments: []Moment{{AtSeconds: 1, PerSecond: 100, P50Micros: 40,
					P99Micros: 1200, Gauges: map[string]float64{backlogGauge: 12}}}},
		}}
	r.Yardstick = fasterOf(r.Yardsticks[0], r.Yardsticks[1])
	r.judgeAnswers()
	r.setRatios()
	return r
}

func TestReports(t *testing.T) {
	datadriven.RunTest(t, "testdata/report.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out bytes.Buffer
		r := example()
		switch d.Cmd {
		case "table":
			require.NoError(t, r.WriteTable(&out))
		case "markdown":
			require.NoError(t, r.WriteMarkdown(&out, "an example"))
		case "html":
			require.NoError(t, r.WriteHTML(&out, "an example"))
		default:
			t.Fatalf("no report %q", d.Cmd)
		}
		return out.String()
	})
}

func TestAReportIsReadBack(t *testing.T) {
	text, err := json.Marshal(example())
	require.NoError(t, err)
	var again Report
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, example().measureRows(), again.measureRows())
	require.True(t, again.Failed)
	require.EqualValues(t, 1, again.Wrong)
}

// Wrong answers fail a run. A rate that was not held is a missed goal.
func TestARateThatWasNotHeldIsMissed(t *testing.T) {
	r := Report{Stages: []Stage{{Judged: true, Held: true}, {}}}
	r.judgeAnswers()
	require.Zero(t, r.countMissed())
	r.Stages[0].Held = false
	r.judgeAnswers()
	require.Equal(t, 1, r.countMissed())
	require.False(t, r.Failed)
	r.Stages[1].Wrong = 1
	r.judgeAnswers()
	require.True(t, r.Failed)
}
