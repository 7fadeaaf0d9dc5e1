package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purser/actors"
	"purser/authorizer"
)

// sight is what one scrape sees.
type sight struct {
	actors     actors.Health
	cache      authorizer.CacheStats
	backlog    int64
	backlogMax int64
	unsynced   int
	ready      bool
}

// gauge is one number of a sight.
type gauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(s *sight) float64
}

// gauges reads the stores and the runtime whenever it is scraped, while they are open; before and after it shows nothing.
type gauges struct {
	stores *stores
	look   func() (sight, error)
	log    *slog.Logger
	all    []gauge
}

func newGauges(s *stores, look func() (sight, error), log *slog.Logger) *gauges {
	g := &gauges{stores: s, look: look, log: log}
	add := func(kind prometheus.ValueType, name, help string, read func(s *sight) float64) {
		g.all = append(g.all, gauge{prometheus.NewDesc(name, help, nil, nil), kind, read})
	}
	const now, since = prometheus.GaugeValue, prometheus.CounterValue
	seconds := func(d time.Duration) float64 { return max(0, d.Seconds()) }
	add(now, "purser_ready", "1 when /readyz says so.", func(s *sight) float64 {
		if s.ready {
			return 1
		}
		return 0
	})
	add(now, "purser_backlog_entries", "Decisions that the journal does not have yet.",
		func(s *sight) float64 { return float64(s.backlog) })
	add(now, "purser_backlog_limit_entries", "Where no decision is taken any more; approvals stop at 80 % of it.",
		func(s *sight) float64 { return float64(s.backlogMax) })
	add(now, "purser_unsynced_commits", "Commits of the authorizer that wait for the disk.",
		func(s *sight) float64 { return float64(s.unsynced) })
	add(now, "purser_relay_lag_seconds", "Age of the oldest decision that the journal does not have yet.",
		func(s *sight) float64 { return seconds(s.actors.RelayAge) })
	add(now, "purser_relay_lag_cents",
		"What the decisions that the journal does not have yet have moved, held or given back, each counted as a positive amount.",
		func(s *sight) float64 { return float64(s.actors.RelayCents) })
	add(now, "purser_reservations", "Debits reserved in the authorizer and not yet followed.",
		func(s *sight) float64 { return float64(s.actors.Reservations) })
	add(now, "purser_reservation_age_seconds", "Age of the oldest reservation.",
		func(s *sight) float64 { return seconds(s.actors.ReservationAge) })
	add(now, "purser_follower_lag_positions", "Journal positions that the authorizer has not applied yet, over all shards.",
		func(s *sight) float64 { return float64(s.actors.FollowerLag) })
	add(now, "purser_follower_late_seconds", "The longest time that a shard has not reached a position it was seen behind.",
		func(s *sight) float64 { return seconds(s.actors.FollowerLate) })
	add(now, "purser_unresolved_shards", "Shards whose last commit is being resolved.",
		func(s *sight) float64 { return float64(s.actors.LostShards) })
	add(now, "purser_actors", "Actors in memory.", func(s *sight) float64 { return float64(s.actors.Actors) })
	add(now, "purser_pending_requests", "Requests that actors have not answered.",
		func(s *sight) float64 { return float64(s.actors.Pending) })
	add(now, "purser_lane_queue", "Commands that wait for a journal commit, over all shards.",
		func(s *sight) float64 { return float64(s.actors.LaneQueued) })
	add(now, "purser_lane_queue_longest", "Commands that wait for a journal commit in the shard that has most.",
		func(s *sight) float64 { return float64(s.actors.LaneQueuedMax) })
	add(now, "purser_cache_bytes", "Memory that hot cards use.", func(s *sight) float64 { return float64(s.cache.Bytes) })
	add(now, "purser_cache_limit_bytes", "Memory that hot cards may use.", func(s *sight) float64 { return float64(s.cache.LimitBytes) })
	add(since, "purser_cache_hits_total", "Rules, spends and funds found in memory.",
		func(s *sight) float64 { return float64(s.cache.Hits) })
	add(since, "purser_cache_misses_total", "Rules, spends and funds read from the store.",
		func(s *sight) float64 { return float64(s.cache.Misses) })
	add(since, "purser_cache_evictions_total", "Rules, spends and funds that made room for others.",
		func(s *sight) float64 { return float64(s.cache.Evictions) })
	return g
}

// Describe is prometheus.Collector's.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, n := range g.all {
		to <- n.desc
	}
}

// Collect is prometheus.Collector's.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	_, leave, err := g.stores.enter()
	if err != nil {
		return
	}
	defer leave()
	s, err := g.look()
	if err != nil {
		g.log.Error("some of the metrics could not be read", "err", err)
	}
	for _, n := range g.all {
		to <- prometheus.MustNewConstMetric(n.desc, n.kind, n.read(&s))
	}
}

// look asks everything for its numbers.
func (m *Main) look() (sight, error) {
	health, err := m.system.Health()
	return sight{actors: health, cache: m.authorizer.CacheStats(), backlog: m.authorizer.Backlog(), backlogMax: m.authorizer.BacklogMax(),
		unsynced: m.authorizer.Unsynced(), ready: m.serving() == nil}, err
}

var errNotServing = errors.New("the server is starting or stopping")
