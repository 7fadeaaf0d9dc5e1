package main

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/watch"
)

// The metrics of a chain follow from the last progress that its watcher reported and from the
// clock.
func TestChainMetricsFollowTheWatcherAndTheClock(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	registry := prometheus.NewRegistry()
	w := newWatched(func() time.Time { return now })
	require.NoError(t, registry.Register(w))
	shown := func() map[string]float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		values := map[string]float64{}
		for _, f := range families {
			require.Len(t, f.GetMetric(), 1)
			m := f.GetMetric()[0]
			require.Equal(t, "base", m.GetLabel()[0].GetValue())
			values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return values
	}
	require.Empty(t, shown())
	w.noteProgress("base", watch.Progress{NodeFaults: 1}, true)
	now = now.Add(time.Minute)
	require.Equal(t, map[string]float64{"purser_chain_lag_seconds": 60, "purser_chain_reorganisations_total": 0,
		"purser_chain_node_errors_total": 1}, shown(), "metrics of a node that has never answered")
	head := partner.Head{Number: 100, Hash: "0xb", At: now.Add(-2 * time.Second)}
	w.noteProgress("base", watch.Progress{Head: head, NodeFaults: 1}, false)
	now = now.Add(5 * time.Second)
	w.noteProgress("base", watch.Progress{Head: head, Behind: 7, Reorganisations: 2, NodeFaults: 3}, false)
	require.Equal(t,
		map[string]float64{"purser_chain_head_block": 100, "purser_chain_lag_blocks": 7, "purser_chain_lag_seconds": 5,
			"purser_chain_head_age_seconds": 7, "purser_chain_reorganisations_total": 2,
			"purser_chain_node_errors_total": 3}, shown())
	w.noteProgress("base", watch.Progress{Head: head, NodeFaults: 4}, true)
	require.Equal(t, 5.0, shown()["purser_chain_lag_seconds"], "the lag after a failed poll")
	w.noteProgress("base", watch.Progress{Head: head, NodeFaults: 4}, false)
	require.Zero(t, shown()["purser_chain_lag_seconds"])
	w.noteProgress("base", watch.Progress{Head: partner.Head{Number: 101, Hash: "empty slot 101"}}, false)
	require.NotContains(t, shown(), "purser_chain_head_age_seconds", "a head without a time has no age")
}
