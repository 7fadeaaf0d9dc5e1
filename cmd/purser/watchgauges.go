package main

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purser/actors/watch"
)

// watched has the last reported progress of each chain's watcher.
type watched struct {
	clock                                          func() time.Time
	head, behind, seconds, age, reorganised, fault *prometheus.Desc

	mu  sync.Mutex
	all map[string]watchedChain
}

// watchedChain is one. level is when the watcher had last read all that the node has; before it
// first did, when it first looked.
type watchedChain struct {
	watch.Progress
	level time.Time
}

// newWatched returns the metrics of the watched blockchains, without chains yet.
func newWatched(clock func() time.Time) *watched {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"chain"}, nil)
	}
	return &watched{clock: clock, all: make(map[string]watchedChain),
		head:    desc("purser_chain_head_block", "The newest block of a chain's node."),
		behind:  desc("purser_chain_lag_blocks", "Blocks of a chain's node that were not searched for payments yet."),
		seconds: desc("purser_chain_lag_seconds", "How long ago all blocks of a chain's node were last searched for payments."),
		age: desc("purser_chain_head_age_seconds",
			"Age of the newest block of a chain's node: old when the node does not follow its chain."),
		reorganised: desc("purser_chain_reorganisations_total",
			"Times that blocks of a chain which were searched had been replaced."),
		fault: desc("purser_chain_node_errors_total",
			"Looks at a chain that failed because its node was silent, slow, refused or contradicted itself.")}
}

// noteProgress stores the progress of a chain's watcher after a look, which may have failed.
func (w *watched) noteProgress(chain string, p watch.Progress, failed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, known := w.all[chain]
	if !known || !failed && p.Behind == 0 {
		c.level = w.clock()
	}
	c.Progress = p
	w.all[chain] = c
}

// Describe implements prometheus.Collector.
func (w *watched) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.head, w.behind, w.seconds, w.age, w.reorganised, w.fault} {
		to <- d
	}
}

// Collect implements prometheus.Collector. A node that has never answered has no head.
func (w *watched) Collect(to chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.clock()
	for chain, c := range w.all {
		to <- prometheus.MustNewConstMetric(w.seconds, prometheus.GaugeValue, max(0, at.Sub(c.level).Seconds()), chain)
		to <- prometheus.MustNewConstMetric(w.reorganised, prometheus.CounterValue, float64(c.Reorganisations), chain)
		to <- prometheus.MustNewConstMetric(w.fault, prometheus.CounterValue, float64(c.NodeFaults), chain)
		if c.Head.Hash == "" {
			continue
		}
		to <- prometheus.MustNewConstMetric(w.head, prometheus.GaugeValue, float64(c.Head.Number), chain)
		to <- prometheus.MustNewConstMetric(w.behind, prometheus.GaugeValue, float64(c.Behind), chain)
		if !c.Head.At.IsZero() { // an empty slot of solana has no time
			to <- prometheus.MustNewConstMetric(w.age, prometheus.GaugeValue, max(0, at.Sub(c.Head.At).Seconds()), chain)
		}
	}
}
