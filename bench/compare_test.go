package bench

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// turns records which of two offices gets swipes, once for each change.
type turns struct {
	mu  sync.Mutex
	all []string
}

// noteSwipes returns a lie that only notes the swipes of the office, and then lies as given.
func (t *turns) noteSwipes(name string, lie func(o *office, q *request)) func(o *office, q *request) {
	return func(o *office, q *request) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.call == "authorize" && (len(t.all) == 0 || t.all[len(t.all)-1] != name) {
			t.all = append(t.all, name)
		}
		if lie != nil {
			lie(o, q)
		}
	}
}

// unknownClock is the processor clock of a server of another machine.
func unknownClock() (time.Duration, bool) { return 0, false }

// steppedClock returns a processor clock that advances by a step with each reading.
func steppedClock(step time.Duration) processorClock {
	var used time.Duration
	return func() (time.Duration, bool) {
		used += step
		return used, true
	}
}

// officeContender returns an office as a server of a comparison.
func officeContender(t *testing.T, name string, lie func(o *office, q *request), clock processorClock) *contender {
	r := officeRun(t, lie)
	load := Load{Workload: Authorize, Connections: 2, Duration: 100 * time.Millisecond}
	load.setDefaults()
	r.Loads = []Load{load}
	return &contender{name: name, run: r, clock: clock}
}

func stageNames(r *Report) (names []string) {
	for _, s := range r.Stages {
		names = append(names, s.Name)
	}
	return names
}

// The server that comes first changes with each round. The report has a stage for each round of a
// server, and a row with a ratio for each figure that both servers have.
func TestAComparisonAlternates(t *testing.T) {
	var seen turns
	both := [2]*contender{
		officeContender(t, thisServer, seen.noteSwipes(thisServer, nil), steppedClock(time.Second)),
		officeContender(t, otherServer, seen.noteSwipes(otherServer, nil), unknownClock)}
	var report Report
	require.NoError(t, report.runRounds(t.Context(), both, 3))
	require.Equal(t, []string{"round 1: this", "round 1: other", "round 2: other", "round 2: this", "round 3: this",
		"round 3: other"}, stageNames(&report))
	require.Equal(t, []string{thisServer, otherServer, thisServer, otherServer}, seen.all)
	var figures []string
	for _, c := range report.Comparison {
		figures = append(figures, c.Figure)
		require.Len(t, c.This, 3, c.Figure)
		require.Equal(t, c.Figure != processorFigure, c.Ratio != nil, c.Figure)
	}
	require.Equal(t, []string{"authorize, rate", "authorize, p50", "authorize, p99", "authorize, p99.9",
		processorFigure}, figures)
	processor := report.Comparison[len(report.Comparison)-1]
	require.Empty(t, processor.Other)
	for i, s := range both[0].rounds {
		require.InDelta(t, 1e6/float64(s.Outcomes["approved"]), processor.This[i], 1e-6, "a second in each round")
	}
	require.Contains(t, strings.Join(report.Stages[0].stageRemarks(), "\n"), processorFigure)
	require.NotContains(t, strings.Join(report.Stages[1].stageRemarks(), "\n"), processorFigure)
}

// A ratio is of the two values of one round. The report prints its median and bounds in each form.
func TestAComparisonIsPrinted(t *testing.T) {
	r := example()
	r.Comparison = []Comparison{newComparison("authorize, rate", unitRate, []float64{1100, 1300, 1200},
		[]float64{1000, 1000, 1000}),
		newComparison("authorize, p99", unitMicros, []float64{3000, 1000, 2000}, []float64{1000, 2000, 2000}),
		newComparison(processorFigure, unitMicros, []float64{41.26, 42, 40}, nil),
		newComparison("nothing", unitMicros, []float64{1}, []float64{0})}
	require.Equal(t, [][]string{
		{"authorize, rate", "1200/s", "1000/s", "1.20×", "1.10×", "1.30×"},
		{"authorize, p99", "2.00 ms", "2.00 ms", "1.00×", "0.50×", "3.00×"},
		{processorFigure, "41.3 µs", notKnown, "–", "–", "–"},
		{"nothing", "1.0 µs", "0.0 µs", "–", "–", "–"}}, r.comparisonRows())
	var table, markdown, html strings.Builder
	require.NoError(t, r.WriteTable(&table))
	require.NoError(t, r.WriteMarkdown(&markdown, "compare"))
	require.NoError(t, r.WriteHTML(&html, "compare"))
	require.Regexp(t, `comparison +this +other +this / other +least +most\n`+
		`authorize, rate +1200/s +1000/s +1.20× +1.10× +1.30×\n`, table.String())
	require.Contains(t, markdown.String(), "| authorize, rate | 1200/s | 1000/s | 1.20× | 1.10× | 1.30× |\n")
	require.Contains(t, html.String(), "<td>1200/s</td><td>1000/s</td><td>1.20×</td>")
	for _, text := range []string{table.String(), markdown.String(), html.String()} {
		require.Contains(t, text, ComparisonLegend)
	}
}

// A wrong answer of either server ends the comparison, without ratios.
func TestAWrongAnswerEndsAComparison(t *testing.T) {
	lie := func(o *office, q *request) {
		if q.call == "authorize" && o.calls["GET treasury"] > 0 { // after its first round
			q.reason = "card_frozen"
		}
	}
	both := [2]*contender{officeContender(t, thisServer, nil, unknownClock), officeContender(t, otherServer, lie,
		unknownClock)}
	var report Report
	require.NoError(t, report.runRounds(t.Context(), both, 9))
	require.Equal(t, []string{"round 1: this", "round 1: other", "round 2: other"}, stageNames(&report))
	require.EqualValues(t, 1, report.Stages[2].Wrong)
	require.Empty(t, report.Comparison)
	require.Contains(t, report.FirstDifference(), "card_frozen")
}

// A server that answers no more ends the comparison with an error that names the round.
func TestAMissingAnswerEndsAComparison(t *testing.T) {
	silent := func(_ *office, q *request) { q.noAnswer = true }
	both := [2]*contender{officeContender(t, thisServer, nil, unknownClock), officeContender(t, otherServer, silent,
		unknownClock)}
	var report Report
	err := report.runRounds(t.Context(), both, 9)
	require.ErrorContains(t, err, "round 1: other: ")
	require.ErrorContains(t, err, both[1].run.Target.Network)
	require.Len(t, report.Stages, 2)
}

// A server without REST gets the swipes of the other's cards, and its approvals do not count in the
// sums of the other.
func TestAServerWithoutRESTHasSharedCards(t *testing.T) {
	r := officeRun(t, nil)
	shared := r.cards.sharedCards()
	require.Len(t, shared.plain, len(r.cards.plain))
	for i, c := range shared.plain {
		require.Equal(t, r.cards.plain[i].token, c.token)
		c.tenant.moved.Add(-5)
	}
	for _, owner := range r.cards.tenants {
		require.Zero(t, owner.moved.Load())
	}
	o := &run{Config: r.Config, cards: shared}
	o.Target.REST = ""
	load := Load{Workload: Authorize, Connections: 2, Duration: 100 * time.Millisecond}
	load.setDefaults()
	stages, err := o.runLoad(t.Context(), &load)
	require.NoError(t, err)
	require.Zero(t, stages[0].Compared)
	require.Contains(t, strings.Join(stages[0].Notes, "\n"), "no dollars were compared")
}

func TestFaultsOfAComparison(t *testing.T) {
	target := Target{REST: "http://h:1", Network: "http://h:2", Secret: "s"}
	valid := Config{Target: target, Loads: []Load{{Workload: Authorize}}}
	require.NoError(t, validateComparison(valid, target, 1), "the same server with cards of its own")
	require.NoError(t, validateComparison(valid, Target{Network: "http://h:3", Secret: "s"}, MaxRounds))
	for says, c := range map[string]struct {
		load   Load
		other  Target
		rounds int
	}{
		"rounds must be from 1 to 100":         {Load{Workload: Authorize}, target, 0},
		"bench: rounds must":                   {Load{Workload: Authorize}, target, MaxRounds + 1},
		"rest: a comparison runs authorize or": {Load{Workload: REST}, target, 1},
		"the other is this server": {Load{Workload: Authorize}, Target{Network: "http://h:2",
			Secret: "s"}, 1},
		`the other server: bench: Network URL "`: {Load{Workload: Authorize}, Target{REST: "http://h:4", Secret: "s"},
			1},
		"no secret of the card network": {Load{Workload: Authorize}, Target{Network: "http://h:3"}, 1},
	} {
		require.ErrorContains(t, validateComparison(Config{Target: target, Loads: []Load{c.load}}, c.other, c.rounds),
			says)
	}
	require.ErrorContains(t, validateComparison(Config{Target: target}, target, 1), "one load")
	_, err := Compare(t.Context(), Config{Target: target}, target, 1)
	require.ErrorContains(t, err, "one load", "before anything is sent")
}

// The process of a server is that which listens on the port of the URL, on this machine only.
func TestTheProcessOfAServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	base := "http://" + listener.Addr().String()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	pid, found := listeningProcess(base)
	used, known := serverClock(base)()
	if runtime.GOOS == "linux" {
		require.True(t, found)
		require.Equal(t, os.Getpid(), pid)
		require.True(t, known)
		require.Positive(t, used)
	}
	onAll, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer onAll.Close()
	for _, elsewhere := range []string{"http://127.0.0.2:" + port, "http://%", "http://127.0.0.1",
		fmt.Sprint("http://192.0.2.1:", onAll.Addr().(*net.TCPAddr).Port)} {
		_, found = listeningProcess(elsewhere)
		require.False(t, found, elsewhere)
	}
	require.NoError(t, listener.Close())
	_, found = listeningProcess(base)
	require.False(t, found)
	_, known = serverClock(base)()
	require.False(t, known)
}

func TestAListeningSocketIsFound(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:A000 01 00000000:00000000 00:00000000 00000000     0        0 11 1
   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1
   2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 13 1
   3: 0000000000000000FFFF00000100007F:1F92 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 14 1
   4: zz:1F93 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 15 1
`
	for address, want := range map[string]string{"127.0.0.1:8080": "12", "127.0.0.2:8080": "", "127.0.0.2:8081": "13",
		"127.0.0.1:8082": "14", "127.0.0.1:8083": "", "127.0.0.1:9": ""} {
		at, err := net.ResolveTCPAddr("tcp", address)
		require.NoError(t, err)
		inode, found := listeningSocket(table, at)
		require.Equal(t, want, inode, address)
		require.Equal(t, want != "", found, address)
	}
}

// The processor time is user and system time, also of a process with a strange name.
func TestProcessorTimeIsUserAndSystem(t *testing.T) {
	used, ok := parseProcessorTime([]byte("7 (a) (b) S 1 7 7 0 -1 4194304 1 2 3 4 150 25 900 900 20 0 9 0 55"))
	require.True(t, ok)
	require.Equal(t, 1750*time.Millisecond, used)
	for _, text := range []string{"", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 4194304 1 2 3 4 x 25 0 0"} {
		_, ok = parseProcessorTime([]byte(text))
		require.False(t, ok, text)
	}
}
