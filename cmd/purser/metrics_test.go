package main

import (
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/watch"
	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// A message that was not decided has the label decision="none".
func TestMessagesWithoutADecisionHaveTheLabelNone(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry, time.Now)
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

// Each gauge reads a field of its own of a scrape: none is constant, and no two read the same
// field.
func TestEveryGaugeMoves(t *testing.T) {
	var empty, full sight
	filled := 0
	setDistinct(t, reflect.ValueOf(&full).Elem(), &filled)
	shown := map[float64]string{}
	for _, g := range []*gauges{swipeGauges(nil, nil, nil), actorGauges(nil, nil, nil)} {
		for _, n := range g.all {
			require.Zero(t, n.read(&empty), n.desc)
			value := n.read(&full)
			require.Positive(t, value, n.desc)
			require.Empty(t, shown[value], n.desc)
			shown[value] = n.desc.String()
		}
	}
}

// setDistinct gives every number in a struct a value of its own.
func setDistinct(t *testing.T, v reflect.Value, filled *int) {
	t.Helper()
	*filled++
	pointer := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem() // fields may be unexported
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		pointer.SetInt(int64(*filled) * int64(time.Second))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			setDistinct(t, v.Field(i), filled)
		}
	case v.CanInt():
		pointer.SetInt(int64(*filled))
	case v.CanUint():
		pointer.SetUint(uint64(*filled))
	case v.Kind() == reflect.Bool:
		pointer.SetBool(true)
	default:
		require.FailNow(t, "a sight has a field that is not a number", v.Type().String())
	}
}

// Every registered counter and histogram changes when its event is reported.
func TestEveryCounterMoves(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry, time.Now)
	require.NoError(t, err)
	require.NotEmpty(t, unmovedMetrics(t, registry))
	m.Decided(hold.Authorization, hold.Declined, hold.ReasonCardFrozen, time.Millisecond)
	m.Staged(hold.Authorization, time.Millisecond)
	m.Repeated(hold.Authorization)
	m.Synced(ident.Shard(1))
	m.Followed(ident.Shard(1), 1)
	m.Expired(1)
	m.networkAnswered(hold.Authorization, 200, time.Millisecond)
	m.Committed(3, time.Millisecond, nil)
	m.Relayed(1, time.Now())
	m.Reacted("bank", nil)
	m.Fired("balance", nil)
	m.Posted("delivered", time.Millisecond)
	m.Deliveries(1)
	m.Watched("base",
		watch.Progress{Head: partner.Head{Number: 9, Hash: "0xb", At: time.Now().Add(-time.Minute)}, Behind: 1,
			Reorganisations: 1, NodeFaults: 1}, nil)
	require.Empty(t, unmovedMetrics(t, registry))
}

var metricName = regexp.MustCompile(`fqName: "(purser_[a-z_]+)"`)

// unmovedMetrics lists the metrics of a registry whose value is zero.
func unmovedMetrics(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	moved := map[string]bool{}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, series := range f.GetMetric() {
			counted := series.GetCounter().GetValue() + series.GetGauge().GetValue() +
				float64(series.GetHistogram().GetSampleCount())
			moved[f.GetName()] = moved[f.GetName()] || counted > 0
		}
	}
	described := make(chan *prometheus.Desc)
	go func() {
		defer close(described)
		registry.Describe(described)
	}()
	var all []string
	for desc := range described {
		if name := metricName.FindStringSubmatch(desc.String()); name != nil && !moved[name[1]] {
			all = append(all, name[1])
		}
	}
	return all
}
