package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purser/cmd/purser/settings"
)

// certificateEvery is the pause between two looks at the files of the certificate. SIGHUP has them
// looked at at once.
const certificateEvery = 10 * time.Second

// followCertificate reads the certificate's files again every certificateEvery and at SIGHUP, until
// the close. It fails when a metric cannot be registered.
func (m *daemon) followCertificate(context.Context) error {
	c := m.config.Certificate
	if c == nil {
		return nil
	}
	if err := registerCertificate(m.registry, c); err != nil {
		return err
	}
	if end := c.NotAfter(); m.Clock().After(end) {
		m.log.Warn("the certificate has ended", "file", c.CertFile, "notAfter", end)
	}
	m.cleanup.goUntilClosed(func(ctx context.Context) {
		look := time.NewTicker(certificateEvery)
		defer look.Stop()
		for {
			select {
			case <-look.C:
			case <-m.hangups:
			case <-ctx.Done():
				return
			}
			reloadCertificate(c, m.log)
		}
	})
	return nil
}

// reloadCertificate reads the files of the certificate, and counts and logs a change. An unusable
// pair leaves the earlier one in use.
func reloadCertificate(c *settings.Certificate, log *slog.Logger) {
	switch changed, err := c.Reload(); {
	case err != nil:
		c.Failed.Add(1)
		log.Error("the new certificate cannot be used, and the one before stays", "cert", c.CertFile, "key",
			c.KeyFile, "err", err)
	case changed:
		c.Loaded.Add(1)
		log.Info("the certificate was read anew", "cert", c.CertFile, "notAfter", c.NotAfter())
	}
}

// registerCertificate registers the metrics of the certificate. It fails when a name is registered
// twice.
func registerCertificate(registry *prometheus.Registry, c *settings.Certificate) error {
	reloads := func(outcome string, count *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "purser_tls_reloads_total",
			ConstLabels: prometheus.Labels{"outcome": outcome},
			Help:        "Changes of the certificate's files, by whether the new pair is in use."},
			func() float64 { return float64(count.Load()) })
	}
	return registerAll(registry, reloads("done", &c.Loaded), reloads("failed", &c.Failed),
		gaugeOf("purser_tls_files_unusable",
			"1: the certificate's files cannot be used, and an earlier pair is in use.", func() float64 {
				if c.Unusable.Load() {
					return 1
				}
				return 0
			}),
		gaugeOf("purser_tls_certificate_not_after_seconds", "When the certificate in use ends, in Unix time.",
			func() float64 { return float64(c.NotAfter().Unix()) }))
}
