package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The form of a histogram: from a microsecond to a minute, in nanoseconds.
const (
	lowestNanos   = 1000
	highestNanos  = int64(time.Minute)
	wholeDigits   = 3
	momentDigits  = 2
	recorderLanes = 8 // so that connections rarely wait for each other
)

func newHistogram(digits int) *hdrhistogram.Histogram {
	return hdrhistogram.New(lowestNanos, highestNanos, digits)
}

// recorder records the latencies of one flow.
type recorder struct{ lanes [recorderLanes]lane }

// lane is a set of histograms that some of the connections share.
type lane struct {
	mu     sync.Mutex
	whole  []*hdrhistogram.Histogram // by measure
	moment *hdrhistogram.Histogram   // of all measures, since the last look
	late   *hdrhistogram.Histogram   // delay between due time and sending
	// Requests without a decision: of whole, and of moment.
	without       []int64
	momentWithout int64
}

// newRecorder returns an empty recorder of so many measures. Each drive of a flow has one.
func newRecorder(measures int) *recorder {
	r := &recorder{}
	for i := range r.lanes {
		l := &r.lanes[i]
		l.moment, l.late = newHistogram(momentDigits), newHistogram(wholeDigits)
		for range measures {
			l.whole, l.without = append(l.whole, newHistogram(wholeDigits)), append(l.without, 0)
		}
	}
	return r
}

// laneOf returns the lane of a connection.
func (r *recorder) laneOf(connection int) *lane { return &r.lanes[connection%recorderLanes] }

func (l *lane) recordAnswered(measure int, took time.Duration) {
	nanos := boundNanos(took)
	l.mu.Lock()
	defer l.mu.Unlock()
	recordNanos(l.whole[measure], nanos)
	recordNanos(l.moment, nanos)
}

// recordUndecided removes a recorded request from the rates, but not from the latencies.
func (l *lane) recordUndecided(measure int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.without[measure]++
	l.momentWithout++
}

func (l *lane) recordSent(late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	recordNanos(l.late, boundNanos(late))
}

func boundNanos(d time.Duration) int64 { return min(max(int64(d), 0), highestNanos) }

func recordNanos(h *hdrhistogram.Histogram, nanos int64) {
	if err := h.RecordValue(nanos); err != nil {
		panic("BUG: a bounded value does not fit: " + err.Error())
	}
}

// momentLatencies returns the latencies since the last call, and the number of requests without a
// decision. sampleFlows calls it for each sample.
func (r *recorder) momentLatencies() (sum *hdrhistogram.Histogram, undecided int64) {
	sum = newHistogram(momentDigits)
	for i := range r.lanes {
		l := &r.lanes[i]
		l.mu.Lock()
		sum.Merge(l.moment)
		l.moment.Reset()
		undecided += l.momentWithout
		l.momentWithout = 0
		l.mu.Unlock()
	}
	return sum, undecided
}

// countUndecided returns the requests of one measure without a decision.
func (r *recorder) countUndecided(measure int) (n int64) {
	for i := range r.lanes {
		l := &r.lanes[i]
		l.mu.Lock()
		n += l.without[measure]
		l.mu.Unlock()
	}
	return n
}

// allLatencies returns all latencies of one measure.
func (r *recorder) allLatencies(measure int) *hdrhistogram.Histogram {
	return r.sumHistograms(func(l *lane) *hdrhistogram.Histogram { return l.whole[measure] })
}

func (r *recorder) allLateness() *hdrhistogram.Histogram {
	return r.sumHistograms(func(l *lane) *hdrhistogram.Histogram { return l.late })
}

// sumHistograms returns the sum of one histogram of every lane. It may run while requests are
// recorded.
func (r *recorder) sumHistograms(of func(*lane) *hdrhistogram.Histogram) *hdrhistogram.Histogram {
	sum := newHistogram(wholeDigits)
	for i := range r.lanes {
		l := &r.lanes[i]
		l.mu.Lock()
		sum.Merge(of(l))
		l.mu.Unlock()
	}
	return sum
}
