package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of reading the server's metrics.
const (
	scrapeEvery     = 500 * time.Millisecond
	maxMetricsBytes = 16 << 20
	drainWithin     = 2 * time.Minute
	backlogGauge    = "purser_backlog_entries"
)

// Bounds within which a rate counts as held. A backlog is measured in seconds: its entries divided
// by the rate of swipes.
const (
	freeSeconds = 1.0 // a backlog below it is ignored
	// mostGrowth bounds the growth of a backlog in the second half of a load, and of the unsent
	// requests, in seconds a second.
	mostGrowth   = 0.02
	mostCouldNot = 0.001
	mostLate     = time.Second // p99, from the moment a swipe is due until it is sent: the queue in front of the server
)

// gauges reads some of the server's metrics.
type gauges struct {
	url    string
	http   *http.Client
	wanted func(name string) bool
}

func newGauges(admin string, wanted func(name string) bool) gauges {
	return gauges{url: strings.TrimRight(admin, "/") + "/metrics", http: &http.Client{Timeout: answerWithin}, wanted: wanted}
}

// backlog reads the queues of the server: decisions, journal positions, the outbox, consumers.
type backlog struct {
	gauges
	last time.Time
}

// watchBacklog returns nil when the run has no admin address.
func (r *run) watchBacklog() watch {
	if r.Target.Admin == "" {
		return nil
	}
	return newBacklog(r.Target.Admin)
}

func newBacklog(admin string) *backlog { return &backlog{gauges: newGauges(admin, tellsBehind)} }

// sampleMetrics adds the metrics to a sample, unless they were read just before. An error leaves a
// gap. sampleFlows calls it.
func (b *backlog) sampleMetrics(m *Moment) {
	if now := time.Now(); now.Sub(b.last) >= scrapeEvery {
		b.last = now
		m.Gauges, _ = b.readGauges(context.Background()) // an error is a gap in the plot
	}
}

// readGauges requests the server's metrics and returns the wanted ones. It fails when the admin
// port does not answer 200.
func (g *gauges) readGauges(ctx context.Context) (found map[string]float64, err error) {
	err = g.requestMetrics(ctx, func(text io.Reader) (err error) {
		found, err = figuresOf(text, g.wanted)
		return err
	})
	return found, err
}

// requestMetrics requests the metrics in Prometheus's text format from the admin port. It fails for
// an answer other than 200, and with read's error.
func (g *gauges) requestMetrics(ctx context.Context, read func(text io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url, nil)
	if err != nil {
		return err
	}
	resp, err := g.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("bench: GET %s answered %d", "/metrics", resp.StatusCode)
	}
	return read(io.LimitReader(resp.Body, maxMetricsBytes))
}

// figuresOf parses Prometheus's text format. It adds the series of a metric, and takes the maximum
// of a metric in seconds. A value that is no number is left out. It fails only with text's error.
func figuresOf(text io.Reader, wanted func(name string) bool) (map[string]float64, error) {
	found := map[string]float64{}
	err := eachMetric(text, func(name, _, value string) {
		switch value, err := strconv.ParseFloat(value, 64); {
		case err != nil || !wanted(name):
		case strings.HasSuffix(name, "_seconds"):
			found[name] = max(found[name], value)
		default:
			found[name] += value
		}
	})
	return found, err
}

// eachMetric parses Prometheus's text format and calls see with each metric. labels is the text
// from the opening brace on. It fails when text cannot be read.
func eachMetric(text io.Reader, see func(name, labels, value string)) error {
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		line := lines.Text()
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		see(name, line[len(name):], line[strings.LastIndexByte(line, ' ')+1:])
	}
	return lines.Err()
}

// tellsBehind reports whether a metric measures how far the server is behind: its backlog, lag or
// queues.
func tellsBehind(name string) bool {
	for _, not := range []string{"_total", "_bucket", "_sum", "_count", "_limit_", "_cents", "#"} {
		if strings.Contains(name, not) {
			return false
		}
	}
	about := func(word string) bool { return strings.Contains(name, word) }
	return strings.HasPrefix(name, "purser_") && (about("backlog") || about("_lag_") || about("_late_") || about("outbox"))
}

// runSustained runs the workload sustain: swipes at a rate, or a search for the highest rate at
// which the backlog stays bounded. It fails without the admin URL, and with errors of the server. A
// rate that is not held is no error.
func (r *run) runSustained(ctx context.Context, l *Load) ([]Stage, error) {
	if r.Target.Admin == "" {
		return nil, fmt.Errorf("bench: %s reads the server's figures and needs its admin URL", Sustain)
	}
	if !l.Search {
		s, err := r.holdRate(ctx, l)
		return []Stage{s}, err
	}
	return r.searchRate(ctx, l)
}

// holdRate runs one rate, judges it, and waits until the server's queues are empty. It fails when
// the server's metrics cannot be read, or the queues are not empty within drainWithin.
func (r *run) holdRate(ctx context.Context, l *Load) (Stage, error) {
	b := newBacklog(r.Target.Admin)
	stages, err := r.runFlows(ctx, l, b, flow{traffic: r.newSwipes(l), connections: l.Connections, rate: l.Rate})
	s := stages[0]
	if err != nil {
		return s, err
	}
	s.judgeBacklog()
	took, err := b.awaitRelay(ctx)
	if err != nil {
		return s, err
	}
	s.Figures = append(s.Figures, newFigure("drained after", took.Seconds(), "s"))
	return s, r.settleWorkspaces(ctx, &s)
}

// awaitRelay waits until the journal has every decision, and returns the time that it took. It
// fails after drainWithin, and when the metrics cannot be read.
func (b *backlog) awaitRelay(ctx context.Context) (time.Duration, error) {
	for began := time.Now(); ; {
		gauges, err := b.readGauges(ctx)
		if err != nil {
			return 0, err
		}
		if left, told := gauges[backlogGauge]; told && left == 0 {
			return time.Since(began), nil
		}
		if time.Since(began) > drainWithin {
			return 0, fmt.Errorf("bench: %v decisions are not in the journal %s after the last swipe", gauges[backlogGauge],
				drainWithin)
		}
		if err := pause(ctx, settlePause); err != nil {
			return 0, err
		}
	}
}

// judgeBacklog sets whether the stage held its rate, and otherwise the reasons. A rate is held when
// 99 % of the requests were sent within mostLate of their due time, the requests left unsent are
// fewer than are due in mostLate or in a queue that grows by mostGrowth, every sent request was
// decided, and no queue of the server kept growing.
func (s *Stage) judgeBacklog() {
	s.Held, s.Judged = true, true
	fails := func(format string, args ...any) {
		s.Held = false
		s.NotHeld = append(s.NotHeld, fmt.Sprintf(format, args...))
	}
	if most := min(mostLate.Seconds(), mostGrowth*s.Seconds) * float64(s.Rate); float64(s.Unsent) > most {
		fails("%d swipes were due and not sent, at most %.0f may be", s.Unsent, most)
	}
	if most := toMicros(int64(mostLate)); s.LateP99Micros > most {
		fails("swipes were sent %s late (p99), at most %s may be", showMicros(s.LateP99Micros), showMicros(most))
	}
	could, total := s.undecidedSwipes()+s.Outcomes[noAnswer], int64(0)
	for _, n := range s.Outcomes {
		total += n
	}
	if float64(could) > mostCouldNot*float64(total) {
		fails("%d of %d swipes could not be decided", could, total)
	}
	if names := s.gaugeNames(); slices.Contains(names, backlogGauge) {
		for _, name := range names {
			s.judgeGauge(name, fails)
		}
	} else {
		fails("the server does not tell its backlog")
	}
}

// gaugeNames returns the names of all gauges that were read in a stage, sorted.
func (s *Stage) gaugeNames() []string {
	var names []string
	for _, m := range s.Moments {
		for name := range m.Gauges {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// judgeGauge adds the gauge's maximum to the figures, and fails the stage when the gauge is large
// and grew in the second half of the load.
func (s *Stage) judgeGauge(name string, fails func(string, ...any)) {
	var at, value []float64
	for _, m := range s.Moments {
		if v, told := m.Gauges[name]; told {
			at, value = append(at, m.AtSeconds), append(value, v)
		}
	}
	most, perSecond := slices.Max(value), 1.0
	unit := "s"
	if !strings.HasSuffix(name, "_seconds") {
		perSecond, unit = float64(s.Rate), ""
	}
	half := len(value) / 2
	growth := slopeOf(at[half:], value[half:])
	s.Figures = append(s.Figures, newFigure("most "+name, most, unit))
	if most > freeSeconds*perSecond && growth > mostGrowth*perSecond {
		fails("%s grows by %.1f a second", name, growth)
	}
}

// slopeOf returns the slope of the least-squares line through the points, 0 without points.
func slopeOf(x, y []float64) float64 {
	n := float64(len(x))
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	if spread := n*sxx - sx*sx; spread > 0 {
		return (n*sxy - sx*sy) / spread
	}
	return 0
}
