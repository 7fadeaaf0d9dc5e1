package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"purser/actors/ident"
	"purser/authorizer/hold"
)

// metrics hears the authorizer and the actors and keeps what an operator watches.
type metrics struct {
	registry  *prometheus.Registry
	clock     func() time.Time
	decisions *prometheus.CounterVec
	latency   prometheus.Histogram
	repeats   prometheus.Counter
	synced    prometheus.Counter
	followed  prometheus.Counter
	expired   prometheus.Counter
	commits   *prometheus.CounterVec
	batch     prometheus.Histogram
	relayed   prometheus.Counter
	relayLag  prometheus.Gauge
	reactions *prometheus.CounterVec
}

func newMetrics(r *prometheus.Registry, clock func() time.Time) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{registry: r, clock: clock,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "purser_decisions_total",
			Help: "Network messages answered."}, []string{"kind", "decision", "reason"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "purser_decision_seconds",
			Help:    "From a network message being read to its durable answer.",
			Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .15, .2, .5}}),
		repeats:  counter("purser_repeats_total", "Network messages answered with their first answer."),
		synced:   counter("purser_decisions_synced_total", "Decisions that became durable."),
		followed: counter("purser_followed_total", "Stretches of the journal that the authorizer has applied."),
		expired:  counter("purser_holds_expired_total", "Holds that ran out."),
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "purser_commits_total",
			Help: "Journal commits of a lane."}, []string{"outcome"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "purser_commit_batches",
			Help: "Commands that shared a commit.", Buckets: prometheus.ExponentialBuckets(1, 2, 10)}),
		relayed: counter("purser_relayed_total", "Decisions taken over by the journal."),
		relayLag: prometheus.NewGauge(prometheus.GaugeOpts{Name: "purser_relay_lag_seconds",
			Help: "Age of the oldest decision of the last relay."}),
		reactions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "purser_reactions_total",
			Help: "Events that a reaction has seen."}, []string{"reaction", "outcome"}),
	}
	for _, c := range []prometheus.Collector{m.decisions, m.latency, m.repeats, m.synced, m.followed, m.expired, m.commits, m.batch,
		m.relayed, m.relayLag, m.reactions, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// gauge registers a number that is read when it is asked for.
func (m *metrics) gauge(name, help string, read func() float64) error {
	return m.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// The authorizer's listener.

func (m *metrics) Decided(kind hold.Kind, decision hold.Decision, reason hold.Reason, took time.Duration) {
	m.decisions.WithLabelValues(kind.String(), decision.String(), reason.String()).Inc()
	m.latency.Observe(took.Seconds())
}
func (m *metrics) Repeated(hold.Kind)           { m.repeats.Inc() }
func (m *metrics) Synced(ident.Shard)           { m.synced.Inc() }
func (m *metrics) Followed(ident.Shard, uint64) { m.followed.Inc() }
func (m *metrics) Expired(holds int)            { m.expired.Add(float64(holds)) }

// The actors' listener.

func (m *metrics) Committed(ops int, err error) {
	m.commits.WithLabelValues(outcome(err)).Inc()
	m.batch.Observe(float64(ops))
}

func (m *metrics) Relayed(entries int, oldest time.Time) {
	m.relayed.Add(float64(entries))
	m.relayLag.Set(m.clock().Sub(oldest).Seconds())
}

func (m *metrics) Reacted(name string, err error) {
	m.reactions.WithLabelValues(name, outcome(err)).Inc()
}

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "done"
}
