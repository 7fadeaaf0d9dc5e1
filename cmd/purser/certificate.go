package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// certificateEvery is the pause between two looks at the files of the certificate. SIGHUP has them
// looked at at once.
const certificateEvery = 10 * time.Second

// certificate is the certificate of the REST and the card network's port, with its key. Handshakes
// may use it while it is read anew. A nil certificate is none: the ports are plain.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
	seen              [sha256.Size]byte // the hash of the files at the last look
	loaded, failed    atomic.Int64      // changes of the files that were taken, and that were not
	unusable          atomic.Bool       // the files of the last look are not in use
}

// readCertificate reads the settings PURSER_TLS_*.
func (f *faults) readCertificate(s Settings) *certificate {
	switch {
	case s.TLSCert == "" && s.TLSKey == "":
		return nil
	case s.TLSCert == "":
		f.add("PURSER_TLS_CERT", "is missing beside PURSER_TLS_KEY")
		return nil
	case s.TLSKey == "":
		f.add("PURSER_TLS_KEY", "is missing beside PURSER_TLS_CERT")
		return nil
	}
	before := len(*f)
	for _, setting := range [][2]string{{"PURSER_TLS_CERT", s.TLSCert}, {"PURSER_TLS_KEY", s.TLSKey}} {
		if _, err := os.ReadFile(setting[1]); err != nil {
			f.add(setting[0], "%v", err)
		}
	}
	c := &certificate{certFile: s.TLSCert, keyFile: s.TLSKey}
	if len(*f) > before {
		return c
	}
	if _, err := c.readFiles(); err != nil {
		f.add("PURSER_TLS_CERT", "with PURSER_TLS_KEY: %v", err)
	}
	if strings.HasPrefix(s.BaseURL, "http:") {
		f.add("PURSER_BASE_URL", "%q is not https, which PURSER_TLS_CERT makes the REST port", s.BaseURL)
	}
	return c
}

// readAuthorities reads the certificates of the authorities that a client trusts from a PEM file.
func readAuthorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, nil
}

// serverConfig returns the TLS settings of a port; nil without a certificate.
func (c *certificate) serverConfig() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil }}
}

// readFiles takes the files of the certificate when they have changed since the last look. A pair
// that is not usable changes nothing.
func (c *certificate) readFiles() (changed bool, err error) {
	cert, errCert := os.ReadFile(c.certFile)
	key, errKey := os.ReadFile(c.keyFile)
	if err := errors.Join(errCert, errKey); err != nil {
		cert, key = []byte(err.Error()), nil // the same fault is one change
	}
	sum := sha256.Sum256(append(append(cert, 0), key...))
	if sum == c.seen {
		return false, nil
	}
	c.seen = sum
	pair := tls.Certificate{}
	if err = errors.Join(errCert, errKey); err == nil {
		pair, err = tls.X509KeyPair(cert, key)
	}
	c.unusable.Store(err != nil)
	if err != nil {
		return true, err
	}
	c.current.Store(&pair)
	return true, nil
}

// notAfter is when the certificate in use ends.
func (c *certificate) notAfter() time.Time { return c.current.Load().Leaf.NotAfter }

// followCertificate looks at the files of the certificate until the close.
func (m *Main) followCertificate(context.Context) error {
	c := m.config.Certificate
	if c == nil {
		return nil
	}
	if err := m.registerCertificate(); err != nil {
		return err
	}
	if end := c.notAfter(); m.Clock().After(end) {
		m.log.Warn("the certificate has ended", "file", c.certFile, "notAfter", end)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		look := time.NewTicker(certificateEvery)
		defer look.Stop()
		for {
			select {
			case <-look.C:
			case <-m.hangups:
			case <-ctx.Done():
				return
			}
			m.lookAtCertificate()
		}
	})
	m.onClose(func() error {
		cancel()
		running.Wait()
		return nil
	})
	return nil
}

// lookAtCertificate reads the files of the certificate, and counts and logs a change.
func (m *Main) lookAtCertificate() {
	c := m.config.Certificate
	switch changed, err := c.readFiles(); {
	case err != nil:
		c.failed.Add(1)
		m.log.Error("the new certificate cannot be used, and the one before stays", "cert", c.certFile, "key",
			c.keyFile, "err", err)
	case changed:
		c.loaded.Add(1)
		m.log.Info("the certificate was read anew", "cert", c.certFile, "notAfter", c.notAfter())
	}
}

// registerCertificate registers the metrics of the certificate.
func (m *Main) registerCertificate() error {
	c := m.config.Certificate
	reloads := func(outcome string, count *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "purser_tls_reloads_total",
			ConstLabels: prometheus.Labels{"outcome": outcome},
			Help:        "Changes of the certificate's files, by whether the new pair is in use."},
			func() float64 { return float64(count.Load()) })
	}
	return registerAll(m.registry, reloads("done", &c.loaded), reloads("failed", &c.failed),
		gaugeOf("purser_tls_files_unusable",
			"1: the certificate's files cannot be used, and an earlier pair is in use.", func() float64 {
				if c.unusable.Load() {
					return 1
				}
				return 0
			}),
		gaugeOf("purser_tls_certificate_not_after_seconds", "When the certificate in use ends, in Unix time.",
			func() float64 { return float64(c.notAfter().Unix()) }))
}
