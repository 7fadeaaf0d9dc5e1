package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purser/persistence"
	"purser/persistence/consumer"
	"purser/persistence/ident"
	"purser/persistence/kafka"
)

// logThrottleEvery is the shortest time between two log lines of one kind of trouble of a publisher
// or consumer. The counters count every case.
const logThrottleEvery = 10 * time.Second

// logThrottle limits the rate of log lines of one kind.
type logThrottle struct {
	mu   sync.Mutex
	last time.Time
}

// due reports whether logThrottleEvery has passed since it was last true. The caller then logs, and
// else stays silent.
func (s *logThrottle) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.last) < logThrottleEvery {
		return false
	}
	s.last = now
	return true
}

// outbox is the listener of the publisher, and measures its lag behind the journal.
type outbox struct {
	log       *slog.Logger
	clock     func() time.Time
	throttle  logThrottle
	gone      logThrottle // the last TopicReplaced that was logged
	published prometheus.Counter
	failures  prometheus.Counter
	replaced  prometheus.Counter

	mu      sync.Mutex
	running bool
	failing [kafka.Partitions]bool
	behind  [ident.Shards]backlog
}

// backlog are the events of a shard that are not in Kafka yet.
type backlog struct {
	events uint64
	since  time.Time // when the oldest was made, or was first seen waiting
}

func newOutbox(clock func() time.Time, log *slog.Logger) *outbox {
	return &outbox{log: log, clock: clock, published: counter("purser_published_total",
		"Events that Kafka has taken, repeats included."), failures: counter("purser_publish_failures_total",
		"Tries to publish that failed; nothing is lost by them."),
		replaced: counter("purser_outbox_topic_replaced_total",
			"Partitions that lost messages acknowledged by Kafka: the topic was made anew, or Kafka lost them.")}
}

func (o *outbox) register(r *prometheus.Registry) error {
	return registerAll(r, o.published, o.failures, o.replaced,
		gaugeOf("purser_publisher_up", "1 when events reach Kafka.", o.up),
		gaugeOf("purser_outbox_lag_events", "Events of the journal that Kafka does not have yet, as of the last try.",
			o.lagEvents),
		gaugeOf("purser_outbox_lag_seconds", "Age of the oldest event that Kafka does not have yet.", o.lagSeconds))
}

// run sets whether the publisher runs.
func (o *outbox) run(running bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running, o.failing = running, [kafka.Partitions]bool{}
}

func (o *outbox) up() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.running || o.failing != [kafka.Partitions]bool{} {
		return 0
	}
	return 1
}

// lagEvents returns the number of events that the publisher has not sent to Kafka yet, over all
// partitions.
func (o *outbox) lagEvents() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	total := uint64(0)
	for i := range o.behind {
		total += o.behind[i].events
	}
	return float64(total)
}

// lagSeconds returns for how many seconds the partition furthest behind has had unsent events; 0
// when all are sent.
func (o *outbox) lagSeconds() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	oldest, now := time.Duration(0), o.clock()
	for i := range o.behind {
		if b := &o.behind[i]; b.events > 0 {
			oldest = max(oldest, now.Sub(b.since))
		}
	}
	return oldest.Seconds()
}

// Published implements kafka.PublisherListener, like the next three.
func (o *outbox) Published(_ ident.Shard, _ uint64, events int) { o.published.Add(float64(events)) }

func (o *outbox) Behind(shard ident.Shard, events uint64, oldest time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := &o.behind[shard]
	switch {
	case !oldest.IsZero():
		b.since = oldest
	case b.events == 0:
		b.since = o.clock()
	}
	b.events = events
}

func (o *outbox) PublishFailed(partition int, err error, pause time.Duration) {
	o.failures.Inc()
	o.mark(partition, true)
	if o.throttle.due(o.clock()) {
		o.log.Warn("events do not reach Kafka; they wait in the journal", "partition", partition, "err", err, "again_after",
			pause)
	}
}

func (o *outbox) PublishResumed(partition int) { o.mark(partition, false) }

// TopicReplaced implements kafka.PublisherListener. Publishing continues with the next event.
func (o *outbox) TopicReplaced(partition int, had, has int64) {
	o.replaced.Inc()
	if o.gone.due(o.clock()) {
		o.log.Error("the topic was made anew, or Kafka has lost messages; consumers elsewhere may lack events",
			"partition", partition, "ended_at", had, "ends_at", has)
	}
}

func (o *outbox) mark(partition int, failing bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failing[partition] = failing
}

// followed wraps the handler of a consumer for its metrics, and is the listener of its
// subscription.
type followed struct {
	consumer.Handler
	name     string
	journal  persistence.Journal
	inbox    *inbox
	throttle logThrottle
	doubted  logThrottle // the last forged or unproven message that was logged
	gone     logThrottle // the last TopicReplaced that was logged
	at       [ident.Shards]atomic.Uint64
	failing  [ident.Shards]atomic.Bool
}

// Position implements consumer.Handler.
func (f *followed) Position(ctx context.Context, shard ident.Shard) (uint64, error) {
	at, err := f.Handler.Position(ctx, shard)
	if err == nil {
		f.at[shard].Store(at)
		f.failing[shard].Store(false)
	}
	return at, err
}

// Handled implements consumer.Listener, like the next three.
func (f *followed) Handled(shard ident.Shard, through uint64, events int) {
	f.at[shard].Store(through)
	f.failing[shard].Store(false)
	f.inbox.events.WithLabelValues(f.name, "handled").Add(float64(events))
}

func (f *followed) Repeated(_ ident.Shard, events int) {
	f.inbox.events.WithLabelValues(f.name, "repeated").Add(float64(events))
}

func (f *followed) Gap(_ ident.Shard, after, through uint64) {
	f.inbox.events.WithLabelValues(f.name, "missed").Add(float64(through - after))
}

func (f *followed) Failed(shard ident.Shard, err error, pause time.Duration) {
	f.failing[shard].Store(true)
	f.inbox.failures.WithLabelValues(f.name).Inc()
	if f.throttle.due(f.inbox.clock()) {
		f.inbox.log.Warn("consumer "+f.name+" does not get on", "shard", shard, "err", err, "again_after", pause)
	}
}

// Skipped implements kafka.TopicListener. It counts every message, and logs a forged or unproven
// one at most once within logThrottleEvery.
func (f *followed) Skipped(partition int, offset int64, err error) {
	outcome := "foreign"
	switch {
	case errors.Is(err, kafka.ErrForged):
		outcome = "forged"
	case errors.Is(err, kafka.ErrUnproven):
		outcome = "unproven"
	}
	f.inbox.events.WithLabelValues(f.name, outcome).Inc()
	if outcome != "foreign" && f.doubted.due(f.inbox.clock()) {
		f.inbox.log.Error("a message of the topic does not check, and the consumer "+f.name+" has not acted on it; "+
			"check which programs may produce to the topic", "partition", partition, "offset", offset, "err", err)
	}
}

// TopicReplaced implements kafka.TopicListener. It counts every case, and logs at most one within
// logThrottleEvery.
func (f *followed) TopicReplaced(partition int, had, has int64) {
	f.inbox.replaced.WithLabelValues(f.name).Inc()
	if f.gone.due(f.inbox.clock()) {
		f.inbox.log.Error("the topic was made anew, or Kafka has lost messages; the consumer "+f.name+
			" reads the journal for them", "partition", partition, "ended_at", had, "ends_at", has)
	}
}

// lag counts the events of the journal that the consumer has not handled, and the shards in which
// it fails.
func (f *followed) lag() (events uint64, failing int) {
	for i := range f.at {
		head, at := f.journal.Head(ident.Shard(i)).Position, f.at[i].Load()
		events += head - min(head, at)
		if f.failing[i].Load() {
			failing++
		}
	}
	return events, failing
}

// inbox keeps the metrics of all consumers.
type inbox struct {
	log      *slog.Logger
	clock    func() time.Time
	events   *prometheus.CounterVec
	failures *prometheus.CounterVec
	replaced *prometheus.CounterVec
	behind   *prometheus.Desc
	stopped  *prometheus.Desc

	mu  sync.Mutex
	all map[string]*followed
}

// newInbox returns the metrics of the Kafka consumers, without consumers yet.
func newInbox(clock func() time.Time, log *slog.Logger) *inbox {
	return &inbox{log: log, clock: clock, all: map[string]*followed{},
		events: counters("purser_consumer_events_total",
			"Events of a consumer: handled; repeated and dropped; missed by Kafka and read from the journal; "+
				"foreign, forged or unproven messages, which have no effect.",
			"consumer", "outcome"),
		replaced: counters("purser_consumer_topic_replaced_total",
			"Partitions that lost messages which a consumer had read: the topic was made anew, or Kafka lost them.",
			"consumer"),
		failures: counters("purser_consumer_failures_total", "Tries of a consumer that failed and are repeated.", "consumer"),
		behind: prometheus.NewDesc("purser_consumer_lag_events", "Events of the journal that a consumer has not handled yet.",
			[]string{"consumer"}, nil),
		stopped: prometheus.NewDesc("purser_consumer_failing_shards", "Shards in which a consumer does not get on.",
			[]string{"consumer"}, nil)}
}

func (in *inbox) register(r *prometheus.Registry) error {
	return registerAll(r, in.events, in.failures, in.replaced, in)
}

// follow adds a consumer to the metrics.
func (in *inbox) follow(name string, h consumer.Handler, journal persistence.Journal) *followed {
	f := &followed{Handler: h, name: name, journal: journal, inbox: in}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.all[name] = f
	return f
}

// Describe implements prometheus.Collector.
func (in *inbox) Describe(to chan<- *prometheus.Desc) {
	to <- in.behind
	to <- in.stopped
}

// Collect implements prometheus.Collector.
func (in *inbox) Collect(to chan<- prometheus.Metric) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for name, f := range in.all {
		events, failing := f.lag()
		to <- prometheus.MustNewConstMetric(in.behind, prometheus.GaugeValue, float64(events), name)
		to <- prometheus.MustNewConstMetric(in.stopped, prometheus.GaugeValue, float64(failing), name)
	}
}

func gaugeOf(name, help string, read func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

func registerAll(r *prometheus.Registry, collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
