package main

import (
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purser/actors"
	"purser/actors/processes"
	"purser/authorizer"
	"purser/cmd/purser/settings"
)

// sight are the values of one scrape.
type sight struct {
	actors     actors.Health
	overdue    int64
	resealing  actors.Resealing
	cache      authorizer.CacheStats
	backlog    int64
	backlogMax int64
	unsynced   int
}

// gauge is one metric of a sight.
type gauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(s *sight) float64
}

// gauges is a collector that reads values at each scrape while its gate is open. Otherwise it shows
// nothing.
type gauges struct {
	gate *gate
	look func(s *sight) error
	log  *slog.Logger
	all  []gauge
}

const now, since = prometheus.GaugeValue, prometheus.CounterValue

func (g *gauges) add(kind prometheus.ValueType, name, help string, read func(s *sight) float64) {
	g.all = append(g.all, gauge{prometheus.NewDesc(name, help, nil, nil), kind, read})
}

// swipeGauges returns the gauges of the authorizer. A scrape reads them through look, and they are
// absent while the gate is closed.
func swipeGauges(of *gate, look func(*sight) error, log *slog.Logger) *gauges {
	g := &gauges{gate: of, look: look, log: log}
	g.add(now, "purser_backlog_entries", "Decisions that the journal does not have yet.",
		func(s *sight) float64 { return float64(s.backlog) })
	g.add(now, "purser_backlog_limit_entries", "Where no decision is taken any more; approvals stop at 80 % of it.",
		func(s *sight) float64 { return float64(s.backlogMax) })
	g.add(now, "purser_unsynced_commits", "Commits of the authorizer that wait for the disk.",
		func(s *sight) float64 { return float64(s.unsynced) })
	g.add(now, "purser_cache_bytes", "Memory that hot cards use.", func(s *sight) float64 { return float64(s.cache.Bytes) })
	g.add(now, "purser_cache_limit_bytes", "Memory that hot cards may use.",
		func(s *sight) float64 { return float64(s.cache.LimitBytes) })
	g.add(since, "purser_cache_hits_total", "Rules, spends and funds found in memory.",
		func(s *sight) float64 { return float64(s.cache.Hits) })
	g.add(since, "purser_cache_misses_total", "Rules, spends and funds read from the store.",
		func(s *sight) float64 { return float64(s.cache.Misses) })
	g.add(since, "purser_cache_evictions_total", "Rules, spends and funds that made room for others.",
		func(s *sight) float64 { return float64(s.cache.Evictions) })
	return g
}

// actorGauges returns the gauges of the actors. A scrape reads them through look, and they are
// absent while the gate is closed.
func actorGauges(of *gate, look func(*sight) error, log *slog.Logger) *gauges {
	g := &gauges{gate: of, look: look, log: log}
	seconds := func(d time.Duration) float64 { return max(0, d.Seconds()) }
	g.add(now, "purser_relay_lag_seconds", "Age of the oldest decision that the journal does not have yet.",
		func(s *sight) float64 { return seconds(s.actors.RelayAge) })
	g.add(now, "purser_relay_lag_cents",
		"What the decisions that the journal does not have yet have moved, held or given back, each counted as a positive amount.",
		func(s *sight) float64 { return float64(s.actors.RelayCents) })
	g.add(now, "purser_relay_set_aside_workspaces",
		"Workspaces that the relay passes by because their decisions are refused.",
		func(s *sight) float64 { return float64(s.actors.SetAside) })
	g.add(now, "purser_relay_set_aside_entries", "Decisions of these workspaces that wait in the authorizer's log.",
		func(s *sight) float64 { return float64(s.actors.SetAsideEntries) })
	g.add(now, "purser_orders_overdue", "Payouts, conversions and ramp orders that a partner has and does not report; a person has to decide.",
		func(s *sight) float64 { return float64(s.overdue) })
	g.add(now, "purser_reservations", "Debits reserved in the authorizer and not yet followed.",
		func(s *sight) float64 { return float64(s.actors.Reservations) })
	g.add(now, "purser_reservation_age_seconds", "Age of the oldest reservation.",
		func(s *sight) float64 { return seconds(s.actors.ReservationAge) })
	g.add(now, "purser_follower_lag_positions", "Journal positions that the authorizer has not applied yet, over all shards.",
		func(s *sight) float64 { return float64(s.actors.FollowerLag) })
	g.add(now, "purser_follower_late_seconds", "The longest time that a shard has not reached a position it was seen behind.",
		func(s *sight) float64 { return seconds(s.actors.FollowerLate) })
	g.add(now, "purser_unresolved_shards", "Shards whose last commit is being resolved.",
		func(s *sight) float64 { return float64(s.actors.LostShards) })
	g.add(now, "purser_actors", "Actors in memory.", func(s *sight) float64 { return float64(s.actors.Actors) })
	g.add(now, "purser_pending_requests", "Requests that actors have not answered.",
		func(s *sight) float64 { return float64(s.actors.Pending) })
	g.add(now, "purser_reseal_shards_left", "Shards whose personal documents this process has not looked through yet.",
		func(s *sight) float64 { return float64(s.resealing.ShardsLeft) })
	g.add(since, "purser_resealed_records_total",
		"Personal documents that this process has sealed under the first data key.",
		func(s *sight) float64 { return float64(s.resealing.Records) })
	g.add(now, "purser_lane_queue", "Commands that wait for a journal commit, over all shards.",
		func(s *sight) float64 { return float64(s.actors.LaneQueued) })
	g.add(now, "purser_reactions_pending", "Events that a reaction has not handled.",
		func(s *sight) float64 { return float64(s.actors.Reactions) })
	g.add(now, "purser_lane_queue_longest", "Commands that wait for a journal commit in the shard that has most.",
		func(s *sight) float64 { return float64(s.actors.LaneQueuedMax) })
	return g
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, n := range g.all {
		to <- n.desc
	}
}

// Collect implements prometheus.Collector. While the gate is closed it sends nothing. An error of
// the read is logged, and the gauges are sent as far as they were read.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	_, leave, err := g.gate.enter()
	if err != nil {
		return
	}
	defer leave()
	var s sight
	if err := g.look(&s); err != nil {
		g.log.Error("some of the metrics could not be read", "err", err)
	}
	for _, n := range g.all {
		to <- prometheus.MustNewConstMetric(n.desc, n.kind, n.read(&s))
	}
}

// registerGauges registers the metrics that are read at a scrape. It fails when a name is
// registered twice.
func (m *daemon) registerGauges() error {
	m.outbox, m.inbox = newOutbox(m.Clock, m.log), newInbox(m.Clock, m.log)
	err := registerAll(m.registry,
		swipeGauges(m.swipes, func(s *sight) error { s.readAuthorizer(m.authorizer); return nil }, m.log),
		actorGauges(m.stores, func(s *sight) error { return s.readActors(m.system) }, m.log),
		gaugeOf("purser_ready", "1 when /readyz says so.", func() float64 { return oneIf(m.ready() == nil) }),
		storesInfo(&m.config),
		m.disk,
		gaugeOf("purser_clock_suspect", "1 while nothing expires because the wall clock has stepped.",
			func() float64 { return oneIf(m.trusted.isSuspect()) }),
		gaugeOf("purser_clock_offset_seconds", "How far the wall clock is ahead of the trusted time.",
			func() float64 { return m.trusted.wallOffset().Seconds() }),
		gaugeOf("purser_journal_up", "1 when the journal answers.", func() float64 {
			_, leave, err := m.stores.enter()
			if err != nil {
				return 0
			}
			defer leave()
			return oneIf(m.system.JournalUp())
		}))
	if err == nil {
		err = m.inbox.register(m.registry)
	}
	if err == nil && len(m.config.Kafka.Brokers) > 0 {
		err = m.outbox.register(m.registry)
	}
	return err
}

// storesInfo is a constant metric whose labels name the stores of the server.
func storesInfo(c *settings.Config) prometheus.Collector {
	labels := prometheus.Labels{"journal": "pebble", "events": "journal",
		"authorizer_sync": strconv.FormatBool(c.AuthorizerSync)}
	if c.DatabaseURL != "" {
		labels["journal"] = "postgres"
	}
	if len(c.Kafka.Brokers) > 0 {
		labels["events"] = "kafka"
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "purser_stores_info", ConstLabels: labels,
		Help: "Where the journal is, whence consumers have the events, and whether the authorizer syncs; always 1."},
		func() float64 { return 1 })
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (s *sight) readAuthorizer(engine *authorizer.Engine) {
	s.cache, s.backlog, s.backlogMax, s.unsynced =
		engine.CacheStats(), engine.Backlog(), engine.BacklogMax(), engine.Unsynced()
}

func (s *sight) readActors(system *processes.Product) (err error) {
	s.actors, err = system.Health()
	s.overdue = system.OverdueCount()
	s.resealing = system.Resealing()
	return err
}

var errNotServing = errors.New("the server is starting or stopping")
