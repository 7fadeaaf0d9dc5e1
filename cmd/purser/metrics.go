package main

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"purser/actors/watch"
	"purser/authorizer/hold"
	"purser/cmd/purser/buildinfo"
	"purser/persistence/ident"
)

// metrics counts the events of the authorizer, its server and the actors. Values that a scrape
// reads from their source are in gauges.go.
type metrics struct {
	registry *prometheus.Registry

	decisions *prometheus.CounterVec
	decided   prometheus.Histogram
	answered  prometheus.Histogram
	network   *prometheus.HistogramVec
	repeats   *prometheus.CounterVec
	synced    prometheus.Counter
	followed  prometheus.Counter
	expired   prometheus.Counter
	commits   *prometheus.CounterVec
	batch     prometheus.Histogram
	append    prometheus.Histogram
	relayed   prometheus.Counter
	reactions *prometheus.CounterVec
	timers    *prometheus.CounterVec
	posts     *prometheus.CounterVec
	post      prometheus.Histogram
	webhooks  prometheus.Gauge
	chains    *watched
}

// Buckets in seconds. 0.2 is what a card network waits, 0.15 what the authorizer waits for the
// disk.
func answerBuckets() []float64 {
	return []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .15, .2, .5, 1}
}

// newMetrics makes and registers the counters and histograms that the servers and actors write. It
// fails when a name is registered twice.
func newMetrics(r *prometheus.Registry, clock func() time.Time) (*metrics, error) {
	m := &metrics{registry: r, chains: newWatched(clock),
		decisions: counters("purser_decisions_total", "Network messages answered.", "kind", "decision", "reason"),
		decided: histogram("purser_decision_seconds", "From a network message being taken to its decision, before the sync.",
			answerBuckets()),
		answered: histogram("purser_answer_seconds", "From a network message being taken to its durable answer.", answerBuckets()),
		network: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "purser_network_request_seconds", Buckets: answerBuckets(),
			Help: "From a network request being read to its answer being ready, by kind and status."}, []string{"kind", "status"}),
		repeats:   counters("purser_repeats_total", "Network messages answered with their first answer.", "kind"),
		synced:    counter("purser_decisions_synced_total", "Decisions that became durable."),
		followed:  counter("purser_followed_total", "Stretches of the journal that the authorizer has applied."),
		expired:   counter("purser_holds_expired_total", "Holds that ran out."),
		commits:   counters("purser_commits_total", "Journal commits of a lane.", "outcome"),
		batch:     histogram("purser_commit_batches", "Commands that shared a commit.", prometheus.ExponentialBuckets(1, 2, 10)),
		append:    histogram("purser_commit_seconds", "A journal commit, synced.", answerBuckets()),
		relayed:   counter("purser_relayed_total", "Decisions taken over by the journal."),
		reactions: counters("purser_reactions_total", "Events that a reaction has handled or failed to.", "reaction", "outcome"),
		timers:    counters("purser_timers_total", "Timers that woke an actor.", "kind", "outcome"),
		posts:     counters("purser_webhook_attempts_total", "Attempts to deliver a webhook.", "outcome"),
		post:      histogram("purser_webhook_attempt_seconds", "An attempt to deliver a webhook.", prometheus.ExponentialBuckets(.01, 2, 11)),
		webhooks: prometheus.NewGauge(prometheus.GaugeOpts{Name: "purser_webhook_deliveries_pending",
			Help: "Deliveries of webhooks that are neither taken nor given up, as last counted."}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "purser_build_info", Help: "What is running; always 1.",
		ConstLabels: prometheus.Labels{"version": buildinfo.Version, "revision": buildinfo.Revision(), "go": runtime.Version()}})
	build.Set(1)
	for _, c := range []prometheus.Collector{m.decisions, m.decided, m.answered, m.network, m.repeats, m.synced, m.followed, m.expired,
		m.commits, m.batch, m.append, m.relayed, m.reactions, m.timers, m.posts, m.post, m.webhooks, m.chains, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// The authorizer's listener, and its server's.

func (m *metrics) Decided(kind hold.Kind, decision hold.Decision, reason hold.Reason, took time.Duration) {
	m.decisions.WithLabelValues(kind.String(), decisionLabel(decision), reason.String()).Inc()
	m.answered.Observe(took.Seconds())
}
func (m *metrics) Staged(_ hold.Kind, took time.Duration) { m.decided.Observe(took.Seconds()) }
func (m *metrics) Repeated(kind hold.Kind)                { m.repeats.WithLabelValues(kind.String()).Inc() }
func (m *metrics) Synced(ident.Shard)                     { m.synced.Inc() }
func (m *metrics) Followed(ident.Shard, uint64)           { m.followed.Inc() }
func (m *metrics) Expired(holds int)                      { m.expired.Add(float64(holds)) }

func (m *metrics) networkAnswered(kind hold.Kind, status int, took time.Duration) {
	m.network.WithLabelValues(kind.String(), statusLabel(status)).Observe(took.Seconds())
}

// decisionLabel is "none" for a message that was refused undecided.
func decisionLabel(d hold.Decision) string {
	if d == 0 {
		return "none"
	}
	return d.String()
}

// statusLabel writes the few statuses of the network interface without an allocation.
func statusLabel(status int) string {
	switch status {
	case 200:
		return "200"
	case 409:
		return "409"
	case 503:
		return "503"
	}
	return "other"
}

// The actors' listener.

func (m *metrics) Committed(ops int, took time.Duration, err error) {
	m.commits.WithLabelValues(outcome(err)).Inc()
	m.batch.Observe(float64(ops))
	m.append.Observe(took.Seconds())
}
func (m *metrics) Relayed(entries int, _ time.Time) { m.relayed.Add(float64(entries)) }
func (m *metrics) Reacted(name string, err error) {
	m.reactions.WithLabelValues(name, outcome(err)).Inc()
}
func (m *metrics) Fired(kind string, err error) { m.timers.WithLabelValues(kind, outcome(err)).Inc() }
func (m *metrics) Posted(outcome string, took time.Duration) {
	m.posts.WithLabelValues(outcome).Inc()
	m.post.Observe(took.Seconds())
}
func (m *metrics) Deliveries(pending int) { m.webhooks.Set(float64(pending)) }
func (m *metrics) Watched(chain string, p watch.Progress, err error) {
	m.chains.noteProgress(chain, p, err != nil)
}

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "done"
}
