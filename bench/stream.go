package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Limits of a load.
const (
	maxWarmUp      = 500 * time.Millisecond // before anything is recorded
	momentsPerLoad = 120                    // points of a plot over time
	shortestMoment = 100 * time.Millisecond
	pauseOnFailure = 5 * time.Millisecond
	killedPause    = 20 * time.Millisecond // between attempts while the server is down
	killWithin     = 5 * time.Minute       // from a kill to the first correct swipe
)

// The form of a histogram: from a microsecond to a minute, in nanoseconds.
const (
	lowestNanos  = 1000
	highestNanos = int64(time.Minute)
	wholeDigits  = 3
	momentDigits = 2
)

func newHistogram(digits int) *hdrhistogram.Histogram {
	return hdrhistogram.New(lowestNanos, highestNanos, digits)
}

func recordNanos(h *hdrhistogram.Histogram, took time.Duration) {
	if err := h.RecordValue(min(max(int64(took), 0), highestNanos)); err != nil {
		panic("BUG: a bounded value does not fit: " + err.Error())
	}
}

// The outcomes of a request without an answer, and of one while the killed server was away.
const (
	noAnswer  = "no answer"
	whileDown = "while down"
)

// stream is a running Stream: its pace and what it has recorded.
type stream struct {
	Stream
	pace
	stop    func() // ends the load at the first wrong answer
	moments []Moment

	mu        sync.Mutex
	whole     []*hdrhistogram.Histogram // by step
	undecided []int64                   // by step
	moment    *hdrhistogram.Histogram   // of all steps, since the last look
	decided   int64                     // since the last look
	outcomes  map[string]*int64
	wrong     string // the first wrong answer
}

// recordOutcome adds a request to the outcomes and, unless it was due during the warm-up, its
// latency. A request without a decision does not count in the rate.
func (s *stream) recordOutcome(step int, due time.Time, decided bool, outcome []byte) {
	took := time.Since(due)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.outcomes[string(outcome)]
	if n == nil {
		n = new(int64)
		s.outcomes[string(outcome)] = n
	}
	*n++
	if due.Before(s.from) {
		return
	}
	recordNanos(s.whole[step], took)
	recordNanos(s.moment, took)
	if decided {
		s.decided++
	} else {
		s.undecided[step]++
	}
}

// markWrong keeps the first wrong answer and ends the load.
func (s *stream) markWrong(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong == "" {
		s.wrong = text
		s.stop()
	}
}

// takeSample returns the moment since the last sample and begins the next one.
func (s *stream) takeSample(now time.Time, interval time.Duration) Moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := Moment{AtSeconds: roundDigits(now.Sub(s.from).Seconds()),
		PerSecond: ratioOf(float64(s.decided), interval.Seconds()),
		P50Micros: percentileOf(s.moment, 50), P99Micros: percentileOf(s.moment, 99)}
	s.moment.Reset()
	s.decided = 0
	return m
}

// pace hands out the due times of a stream.
type pace struct {
	began, from, until time.Time     // from: after the warm-up
	period             time.Duration // 0: a closed loop
	turn               sync.Mutex    // a connection holds it until its request is due
	next               int64         // requests handed out
}

// nextDue returns the time at which the next request is due, which may be past. A free connection
// takes the next request of the stream and waits for its time; when all connections are busy, the
// time passes and stays the request's. ok is false after the end.
func (p *pace) nextDue(ctx context.Context) (due time.Time, ok bool) {
	if p.period == 0 {
		now := time.Now()
		return now, now.Before(p.until) && ctx.Err() == nil
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	due = p.began.Add(time.Duration(p.next) * p.period)
	for {
		now := time.Now()
		if !due.Before(p.until) || !now.Before(p.until) || ctx.Err() != nil {
			return due, false
		}
		if !now.Before(due) {
			p.next++
			return due, true
		}
		nap(min(due.Sub(now), shortestMoment))
	}
}

// countUnsent returns how many requests were due before a time and not sent.
func (p *pace) countUnsent(at time.Time) int64 {
	if p.period == 0 || at.Before(p.began) {
		return 0
	}
	return max(0, int64((at.Sub(p.began)+p.period-1)/p.period)-p.next)
}

// worker is one connection to each port of the server. One goroutine uses it.
type worker struct {
	run           *run
	stream        *stream
	index         int
	network, rest *wire
	random        *rand.Rand
	card          func() *card // the next one, by the load's spread
	prefix        string       // begins the ids of its messages
	ids           uint64
	id, body      []byte
	status        []byte        // the last answer's, as text
	patience      time.Duration // pause after an attempt while the server is down
}

// newWorker seeds a random sequence: the same seed and index give the same cards and amounts.
func (r *run) newWorker(s *stream, index int, spread string) *worker {
	r.workers++
	w := &worker{run: r, stream: s, index: index, random: rand.New(rand.NewPCG(r.Seed, uint64(index))),
		network: newWire(r.Target.Network, r.Target.Authorities), rest: newWire(r.Target.REST, r.Target.Authorities),
		prefix: fmt.Sprintf("%s-%d-", r.id, r.workers), patience: killedPause}
	w.network.bearer = r.Target.Secret
	if r.cards != nil {
		w.card = r.cards.newPicker(spread, w.random)
	}
	return w
}

func (w *worker) close() {
	w.network.close()
	w.rest.close()
}

// nextID returns a network id that is unique over all runs. The next call overwrites it.
func (w *worker) nextID() []byte {
	w.ids++
	w.id = strconv.AppendUint(append(w.id[:0], w.prefix...), w.ids, 10)
	return w.id
}

// verdict is the judgement of an answer.
type verdict int

const (
	right verdict = iota
	wrong
	undecided // no decision was possible in time: the card network's declines for it, and 503
	missing
)

// auditAdvice is what a user does about a server whose answers or sums are wrong.
const auditAdvice = "run `purser audit` on the server's data directory, and repeat the run with the same --seed"

// sendAndJudge sends the worker's body as a request that was due at a time, and records and judges
// the answer. want returns what is wanted in words when the answer is another, else "".
func (w *worker) sendAndJudge(c *wire, step int, due time.Time, method, path string,
	want func(status int, answer []byte) string) verdict {
	body := w.body
	if method == "GET" {
		body = nil
	}
	status, answer, err := c.sendRequest(method, path, body)
	killed := w.run.killed.Load()
	outcome := textField(answer, "reason")
	if outcome == nil || c == w.rest {
		w.status = strconv.AppendInt(w.status[:0], int64(status), 10)
		outcome = w.status
	}
	is := right
	switch {
	case killed && (err != nil || status == 503): // a server that is starting has decided nothing
		is, outcome = missing, []byte(whileDown)
		defer time.Sleep(w.patience)
	case err != nil:
		is, outcome = missing, []byte(noAnswer)
		defer time.Sleep(pauseOnFailure)
	case status == 503 || status == 200 && isUndecided(outcome):
		is = undecided
	default:
		if wanted := want(status, answer); wanted != "" {
			is = wrong
			w.stream.markWrong(fmt.Sprintf("%s %s answered %d %s, want %s; the request was %s; %s", method, path, status,
				quoteBody(answer), wanted, c.lastRequest(), auditAdvice))
		}
	}
	w.stream.recordOutcome(step, due, is == right, outcome)
	return is
}

// isUndecided reports whether an outcome is a decline that any swipe may get, because no decision
// was possible in time. It moves no money in the end.
func isUndecided(outcome []byte) bool {
	switch string(outcome) {
	case "timeout", "backlog_full", "system_unavailable":
		return true
	}
	return false
}

// runStreams runs the streams of a load at the same time. The first wrong answer ends all of them.
// A load that kills ends with the first correct swipe, and took is the time from the kill to it. It
// fails when ctx ends, and when the killed server does not come back.
func (r *run) runStreams(whole context.Context, l *Load) (streams []*stream, took time.Duration, err error) {
	ctx, stop := context.WithCancel(whole)
	defer stop()
	var workers []*worker
	for _, s := range l.Streams {
		running := r.newStream(s, stop)
		streams = append(streams, running)
		for i := range s.Connections {
			workers = append(workers, r.newWorker(running, i, l.Spread))
		}
	}
	began := time.Now() // after the workers are made, which takes a part of a short load
	for _, s := range streams {
		s.began, s.from = began, began.Add(min(maxWarmUp, l.Duration/10))
		if s.until = s.from.Add(l.Duration); l.Kill {
			s.until = s.until.Add(killWithin)
		}
	}
	var running sync.WaitGroup
	for _, w := range workers {
		running.Go(func() { w.runUntil(ctx) })
	}
	if l.Kill {
		probe := r.newWorker(streams[0], 0, l.Spread)
		running.Go(func() {
			defer stop()
			took, err = probe.killAndWait(ctx, l.Duration)
		})
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	r.sampleStreams(l, streams, ended)
	if whole.Err() != nil {
		err = whole.Err()
	}
	return streams, took, err
}

func (r *run) newStream(s Stream, stop func()) *stream {
	running := &stream{Stream: s, stop: stop, moment: newHistogram(momentDigits), outcomes: map[string]*int64{}}
	for range kinds[s.Kind].steps {
		running.whole = append(running.whole, newHistogram(wholeDigits))
	}
	running.undecided = make([]int64, len(running.whole))
	if s.Rate > 0 {
		running.period = time.Second / time.Duration(s.Rate)
	}
	return running
}

// runUntil sends the requests of one connection until the end of its stream or until ctx ends.
func (w *worker) runUntil(ctx context.Context) {
	defer w.close()
	for send := kinds[w.stream.Kind].send; ; {
		due, ok := w.stream.nextDue(ctx)
		if !ok {
			return
		}
		send(w, due)
	}
}

// sampleStreams samples the streams at equal intervals until they have ended. It reports progress
// with each sample, and reads the server's metrics with those of the first stream.
func (r *run) sampleStreams(l *Load, streams []*stream, ended <-chan struct{}) {
	ticker := time.NewTicker(max(l.Duration/momentsPerLoad, shortestMoment))
	defer ticker.Stop()
	first := streams[0]
	for last := first.from; ; {
		select {
		case <-ended:
			return
		case now := <-ticker.C:
			if !now.After(last) {
				continue // during the warm-up
			}
			for _, s := range streams {
				s.moments = append(s.moments, s.takeSample(now, now.Sub(last)))
			}
			last = now
			m := &first.moments[len(first.moments)-1]
			if time.Since(r.measured) >= scrapeEvery {
				r.measured = time.Now()
				m.Gauges, _ = r.readGauges() // an error is a gap in the plot
			}
			r.Progress(Progress{Stage: stageName(l, first), PerSecond: m.PerSecond,
				P99:  time.Duration(m.P99Micros * float64(time.Microsecond)),
				Done: min(1, now.Sub(first.from).Seconds()/l.Duration.Seconds())})
		}
	}
}

func stageName(l *Load, s *stream) string {
	if l.Name == "" {
		return s.Stream.String()
	}
	return l.Name + ": " + s.Stream.String()
}

// collectStages turns what the streams have recorded into stages.
func (r *run) collectStages(l *Load, streams []*stream) []Stage {
	var stages []Stage
	for _, s := range streams {
		end := time.Now()
		if end.After(s.until) {
			end = s.until
		}
		stage := Stage{Name: stageName(l, s), Stream: s.Stream, Spread: l.Spread, Seconds: max(0, end.Sub(s.from).Seconds()),
			Unsent: s.countUnsent(end), Wrong: s.wrong, Outcomes: map[string]int64{}, Moments: s.moments}
		for outcome, n := range s.outcomes {
			stage.Outcomes[outcome] = *n
		}
		for i, name := range kinds[s.Kind].steps {
			stage.Measures = append(stage.Measures, newMeasure(name, s.whole[i], s.undecided[i], stage.Seconds))
		}
		stages = append(stages, stage)
	}
	return stages
}
