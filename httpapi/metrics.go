package httpapi

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purser/httpapi/mail"
	"purser/httpapi/password"
)

// metrics holds the interface's metrics. Labels are routes of the table, never the requested paths:
// a caller must not create series.
type metrics struct {
	requests  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	inFlight  prometheus.Gauge
	limited   *prometheus.CounterVec
	unmatched prometheus.Counter
	late      prometheus.Counter

	droppedMails *prometheus.CounterVec
}

// newMetrics makes and registers the metrics of the REST port. It fails when the registry already
// has one of the names.
func newMetrics(r *prometheus.Registry, l *limiter, h *password.Hasher) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "purser_http_requests_total",
			Help: "Requests answered, by route and status."}, []string{"method", "route", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "purser_http_request_seconds",
			Help:    "Time from the request being read to its answer being ready.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .2, .5, 1, 2.5, 10}},
			[]string{"method", "route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "purser_http_in_flight", Help: "Requests that run."}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "purser_rate_limited_total",
			Help: "Requests refused by a rate limit, by what was counted."}, []string{"limit"}),
		unmatched: prometheus.NewCounter(prometheus.CounterOpts{Name: "purser_partner_unmatched_total",
			Help: "Partner reports that matched nothing and were kept."}),
		late: prometheus.NewCounter(prometheus.CounterOpts{Name: "purser_payouts_settled_after_release_total",
			Help: "Payouts that the bank reported settled after their reservation was released: an alarm."}),
		droppedMails: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "purser_mails_dropped_total",
			Help: "Mails that were not sent, by the reason."}, []string{"reason"}),
	}
	for _, reason := range mail.DropReasons() {
		m.droppedMails.WithLabelValues(reason)
	}
	windows := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "purser_rate_limit_windows",
		Help: "Callers counted by the rate limiter."}, func() float64 { return float64(l.windowCount()) })
	hashes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "purser_password_hashes",
		Help: "Password hashes that are queued or run."}, func() float64 { return float64(h.Waiting()) })
	for _, c := range []prometheus.Collector{m.requests, m.latency, m.inFlight, m.limited, m.unmatched, m.late,
		m.droppedMails, windows, hashes} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("httpapi: metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observeRequest(r *route, status int, took time.Duration) {
	m.requests.WithLabelValues(r.method, r.path, strconv.Itoa(status)).Inc()
	m.latency.WithLabelValues(r.method, r.path).Observe(took.Seconds())
}
