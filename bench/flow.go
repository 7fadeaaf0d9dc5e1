package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of a flow.
const (
	maxWarmUp      = 500 * time.Millisecond // before anything is recorded
	maxDifferences = 20                     // that are kept in words
	maxQuoted      = 300                    // bytes of an answer in words
	maxRequest     = 600                    // bytes of a request's body in words
	momentsPerLoad = 120                    // points of a plot over time
	shortestMoment = 100 * time.Millisecond
	longestMoment  = time.Minute
	dueAhead       = 1 << 16 // due times that wait for a free connection
	pauseOnFailure = 5 * time.Millisecond
)

// The outcomes of a request without an answer, and of one that is sent again after a 503.
const (
	noAnswer  = "no answer"
	sentAgain = "sent again"
)

// traffic generates the requests of a flow.
type traffic interface {
	// measures are the names of the kinds of requests, whose latencies are separate.
	measures() []string
	// unit sends the next unit of work, which was due at a time, and checks its answers.
	unit(w *worker, due time.Time)
}

// flow is one kind of traffic over a number of connections, at a rate a second. Rate 0 is a closed
// loop.
type flow struct {
	name              string // the stage's, behind the load's
	traffic           traffic
	connections, rate int
}

// worker is one connection to each server. One goroutine uses it.
type worker struct {
	index         int
	run           *run
	network, rest *wire
	random        *rand.Rand
	cards         *rand.Zipf
	merchants     *rand.Zipf
	lane          *lane
	recordFrom    time.Time
	outcomes      map[string]*int64
	faults        *differences
	prefix        string // begins the ids of this flow and connection
	ids           uint64
	id, body      []byte
	previous      swipe // the last approved swipe; its id is empty before the first
	stopped       bool
}

// newWorker seeds a random sequence: the same seed and index give the same cards and amounts. A
// worker is one connection of a load.
func newWorker(r *run, index int, stage string) *worker {
	random, to := rand.New(rand.NewPCG(r.Seed, uint64(index))), &r.Target
	w := &worker{index: index, run: r, random: random, outcomes: map[string]*int64{},
		prefix: fmt.Sprintf("%s-%s-%d-", r.Run, stage, index), network: newWire(to.Network, to.Secret, to.Authorities),
		rest: newWire(to.REST, "", to.Authorities), merchants: rand.NewZipf(random, r.Skew, 1, uint64(r.Merchants-1))}
	if r.cards != nil {
		w.cards = rand.NewZipf(random, r.Skew, 1, uint64(r.cards.count()-1))
	}
	return w
}

func (w *worker) closeWires() {
	w.network.closeConnection()
	w.rest.closeConnection()
}

// sendMeasured sends a request and records its latency since it was due. ok is false when there was
// no answer and the outcome is unknown. The latency of such a request is recorded too. A traffic's
// unit calls it for each measured request.
func (w *worker) sendMeasured(
	c *wire,
	measure int,
	due time.Time,
	method, path string,
) (status int, answer []byte, ok bool) {
	body := w.body
	if method == "GET" {
		body = nil
	}
	status, answer, err := c.sendRequest(method, path, body)
	if err != nil {
		w.countOutcome(noAnswer)
		w.recordLatency(measure, due)
		w.markUndecided(measure, due)
		time.Sleep(pauseOnFailure)
		return 0, nil, false
	}
	w.recordLatency(measure, due)
	return status, answer, true
}

func (w *worker) recordLatency(measure int, due time.Time) {
	if !due.Before(w.recordFrom) {
		w.lane.recordAnswered(measure, time.Since(due))
	}
}

// markUndecided marks the last recorded request as one without a decision. Its latency stays in the
// histogram, but the request does not count in the rate.
func (w *worker) markUndecided(measure int, due time.Time) {
	if !due.Before(w.recordFrom) {
		w.lane.recordUndecided(measure)
	}
}

// countOutcome counts an outcome.
func (w *worker) countOutcome(outcome string) { w.countBytes([]byte(outcome)) }

func (w *worker) countBytes(outcome []byte) {
	n := w.outcomes[string(outcome)]
	if n == nil {
		n = new(int64)
		w.outcomes[string(outcome)] = n
	}
	*n++
}

// noteDifference records an answer that differs from the expected one, with the request and with
// advice for the user.
func (w *worker) noteDifference(what string, status int, answer []byte, want string) {
	w.faults.addDifference(fmt.Sprintf("%s: answered %d %s, want %s; the request was %s; %s", what, status,
		answer[:min(len(answer), maxQuoted)], want, w.lastRequest(), adviceOn(status)))
}

// lastRequest returns the last request of the connection, to either port.
func (w *worker) lastRequest() string {
	if w.rest.used.After(w.network.used) {
		return w.rest.lastRequest()
	}
	return w.network.lastRequest()
}

// auditAdvice is what a user does about a server whose answers or sums are wrong.
const auditAdvice = "run `purser audit` on the server's data directory, and repeat the run with the same --seed"

// adviceOn returns what a user does about a wrong answer with a status.
func adviceOn(status int) string {
	switch {
	case status == 401 || status == 403:
		return "the server no longer takes the secret: give the secret that it was started with"
	case status == 404 || status == 405:
		return "name the address of the right port of the server"
	case status == 429:
		return "start the server with PURSER_RATE_LIMITS=off"
	case status >= 500:
		return "read the log of the server"
	}
	return auditAdvice
}

// nextID returns a network id that is unique over all runs. The next call overwrites it.
func (w *worker) nextID() []byte {
	w.ids++
	w.id = strconv.AppendUint(append(w.id[:0], w.prefix...), w.ids, 10)
	return w.id
}

// differences counts the wrong answers of a stage. It keeps the first maxDifferences in words.
type differences struct {
	mu sync.Mutex
	// stop ends the flow at its first wrong answer, the only one that is kept. nil: a comparison of
	// sums or repeats, which counts all.
	stop  func()
	count int64
	first []string
}

func (d *differences) addDifference(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop != nil {
		if d.count > 0 {
			return // an answer that was under way at the first wrong one
		}
		d.stop()
	}
	d.count++
	if len(d.first) < maxDifferences {
		d.first = append(d.first, text)
	}
}

// addSum records a sum or a stored value that differs from the expected one.
func (d *differences) addSum(format string, args ...any) {
	d.addDifference(fmt.Sprintf(format, args...) + "; " + auditAdvice)
}

// drive is the state of a running flow.
type drive struct {
	flow
	recorder *recorder
	workers  []*worker
	faults   differences
	pace     pace
	moments  []Moment
}

// newDrive prepares a flow: its recorder and a worker for each connection. runFlows calls it.
func (r *run) newDrive(f flow, number int) *drive {
	d := &drive{flow: f, recorder: newRecorder(len(f.traffic.measures()))}
	if f.rate > 0 {
		d.pace.period = time.Second / time.Duration(f.rate)
		d.pace.dues = make(chan time.Time, dueAhead)
	}
	r.flows++
	for i := range f.connections {
		w := newWorker(r, i, fmt.Sprintf("%d%c", r.flows, 'a'+number))
		w.lane, w.faults = d.recorder.laneOf(i), &d.faults
		d.workers = append(d.workers, w)
	}
	return d
}

// setStart sets the start of the flow, from which the recording and the end follow.
func (d *drive) setStart(l *Load, began time.Time) {
	d.pace.began, d.pace.from = began, began.Add(min(maxWarmUp, l.Duration/10))
	d.pace.until = d.pace.from.Add(l.Duration)
	for _, w := range d.workers {
		w.recordFrom = d.pace.from
	}
}

// runConnection runs one connection until the end of the flow, until ctx ends, or until its traffic
// stops it after a wrong answer.
func (d *drive) runConnection(ctx context.Context, w *worker) {
	defer w.closeWires()
	for !w.stopped && ctx.Err() == nil {
		due, ok := d.pace.nextDue()
		if !ok {
			return
		}
		if d.pace.period > 0 && !due.Before(w.recordFrom) {
			w.lane.recordSent(time.Since(due))
		}
		d.traffic.unit(w, due)
	}
}

// pace generates the due times of requests.
type pace struct {
	began, from, until time.Time
	period             time.Duration // 0: a closed loop
	dues               chan time.Time
	unsent             atomic.Int64 // requests that were due before the end and not sent
}

// nextDue returns the time at which the next request is due, which may be past. ok is false after
// the end. A closed loop is due at once.
func (p *pace) nextDue() (due time.Time, ok bool) {
	if p.period == 0 {
		now := time.Now()
		return now, now.Before(p.until)
	}
	for due := range p.dues {
		if time.Now().Before(p.until) {
			return due, true
		}
		p.unsent.Add(1)
	}
	return time.Time{}, false
}

// sendDueTimes sends the due times of an open loop to the connections, each at its time. When
// dueAhead of them wait for a connection, sendDueTimes blocks; later due times do not move.
func (p *pace) sendDueTimes(ctx context.Context) {
	defer close(p.dues)
	for i := 0; ; i++ {
		due := p.began.Add(time.Duration(i) * p.period)
		if !due.Before(p.until) || ctx.Err() != nil {
			return
		}
		for wait := time.Until(due); wait > 0 && ctx.Err() == nil; wait = time.Until(due) {
			nap(min(wait, shortestMoment))
		}
		if !time.Now().Before(p.until) {
			p.unsent.Add(int64((p.until.Sub(due) + p.period - 1) / p.period)) // a request at the very end is not due
			return
		}
		select {
		case p.dues <- due:
		case <-ctx.Done():
			return
		}
	}
}

// watch is called with every sample of a load, and adds figures of the server.
type watch interface{ sampleMetrics(m *Moment) }

// runFlows runs flows concurrently for the load's duration and returns a stage for each. The first
// wrong answer of a flow ends all of them. It fails only when ctx ends, and then returns the stages
// as far as they ran. Every workload calls it.
func (r *run) runFlows(whole context.Context, l *Load, w watch, flows ...flow) ([]Stage, error) {
	ctx, cancel := context.WithCancel(whole)
	defer cancel()
	drives := make([]*drive, len(flows))
	for i, f := range flows {
		drives[i] = r.newDrive(f, i)
	}
	var running sync.WaitGroup
	began := time.Now() // after the workers are made, which takes a part of a short load
	for _, d := range drives {
		d.setStart(l, began)
		d.faults.stop = cancel
		if d.pace.period > 0 {
			running.Go(func() { d.pace.sendDueTimes(ctx) })
		}
		for _, w := range d.workers {
			running.Go(func() { d.runConnection(ctx, w) })
		}
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	r.sampleFlows(l, w, drives, ended)
	return r.collectStages(l, drives), whole.Err()
}

// sampleFlows samples the flows at equal intervals until they have ended. It reports progress with
// each sample.
func (r *run) sampleFlows(l *Load, w watch, drives []*drive, ended <-chan struct{}) {
	interval := min(max(l.Duration/momentsPerLoad, shortestMoment), longestMoment)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := drives[0].pace.from
	for {
		select {
		case <-ended:
			return
		case now := <-ticker.C:
			if !now.After(last) {
				continue // during the warm-up
			}
			for _, d := range drives {
				d.moments = append(d.moments, d.sampleMoment(now, now.Sub(last)))
			}
			first := &drives[0].moments[len(drives[0].moments)-1]
			if w != nil {
				w.sampleMetrics(first)
			}
			last = now
			r.Progress(Progress{Stage: l.Name, PerSecond: first.PerSecond, P99: time.Duration(first.P99Micros * 1000),
				Done: min(1, float64(now.Sub(drives[0].pace.from))/float64(l.Duration))})
		}
	}
}

func (d *drive) sampleMoment(now time.Time, interval time.Duration) Moment {
	h, undecided := d.recorder.momentLatencies()
	decided := max(0, h.TotalCount()-undecided) // an undecided one may be counted in the moment after its answer
	return Moment{AtSeconds: now.Sub(d.pace.from).Seconds(), PerSecond: float64(decided) / interval.Seconds(),
		P50Micros: toMicros(h.ValueAtPercentile(50)), P99Micros: toMicros(h.ValueAtPercentile(99))}
}

// collectStages turns the recorded latencies, outcomes and differences of ended flows into stages.
func (r *run) collectStages(l *Load, drives []*drive) []Stage {
	var all []Stage
	for _, d := range drives {
		s := Stage{
			Name:        l.Name + d.name,
			Workload:    l.Workload,
			Connections: d.connections,
			Rate:        d.rate,
			Spread:      l.Spread,
			Unsent:      d.pace.unsent.Load(),
			Moments:     d.moments,
			Outcomes:    map[string]int64{},
			Wrong:       d.faults.count,
			Differences: d.faults.first,
		}
		s.Seconds = max(0, min(time.Since(d.pace.from), d.pace.until.Sub(d.pace.from))).Seconds() // 0 in the warm-up
		for i, name := range d.traffic.measures() {
			m := newMeasure(name, d.recorder.allLatencies(i), s.Seconds)
			m.excludeUndecided(d.recorder.countUndecided(i), s.Seconds)
			s.Measures = append(s.Measures, m)
		}
		if d.rate > 0 {
			s.LateP99Micros = toMicros(d.recorder.allLateness().ValueAtPercentile(99))
		}
		for _, w := range d.workers {
			s.countWorker(w)
		}
		all = append(all, s)
	}
	return all
}

// countWorker adds the outcomes of a connection to the stage.
func (s *Stage) countWorker(w *worker) {
	for outcome, n := range w.outcomes {
		s.Outcomes[outcome] += *n
	}
}

// excludeUndecided subtracts the requests without a decision from the rate.
func (m *Measure) excludeUndecided(undecided int64, seconds float64) {
	m.Undecided = undecided
	if seconds > 0 {
		m.PerSecond = float64(m.Count-undecided) / seconds
	}
}
