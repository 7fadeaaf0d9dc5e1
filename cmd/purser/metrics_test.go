package main

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
)

// A message that nothing was decided about has a label that says so.
func TestTheLabelOfNoDecision(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	require.NoError(t, err)
	m.Decided(hold.Clearing, 0, hold.ReasonDuplicateMismatch, 0)
	m.Decided(hold.Authorization, hold.Declined, hold.ReasonTimeout, 0)
	families, err := registry.Gather()
	require.NoError(t, err)
	var decisions []string
	for _, f := range families {
		if f.GetName() != "purser_decisions_total" {
			continue
		}
		for _, series := range f.GetMetric() {
			for _, label := range series.GetLabel() {
				if label.GetName() == "decision" {
					decisions = append(decisions, label.GetValue())
				}
			}
		}
	}
	require.ElementsMatch(t, []string{"none", "declined"}, decisions)
}
