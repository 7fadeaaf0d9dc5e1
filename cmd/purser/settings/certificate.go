package settings

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Certificate is the certificate of the REST and the card network's port, with its key. A nil
// certificate is none: the ports are plain.
type Certificate struct {
	CertFile, KeyFile string
	current           atomic.Pointer[tls.Certificate]
	seen              [sha256.Size]byte // the hash of the files at the last look
	Loaded, Failed    atomic.Int64      // changes of the files that were taken, and that were not
	Unusable          atomic.Bool       // the files of the last look are not in use
}

// readCertificate reads the settings PURSER_TLS_*. It returns nil when neither file is set. A fault
// is a file that is missing or unusable, and a base URL that is not https.
func (f *Faults) readCertificate(s Settings) *Certificate {
	switch {
	case s.TLSCert == "" && s.TLSKey == "":
		return nil
	case s.TLSCert == "":
		f.Add("PURSER_TLS_CERT", "is missing beside PURSER_TLS_KEY")
		return nil
	case s.TLSKey == "":
		f.Add("PURSER_TLS_KEY", "is missing beside PURSER_TLS_CERT")
		return nil
	}
	before := len(*f)
	for _, setting := range [][2]string{{"PURSER_TLS_CERT", s.TLSCert}, {"PURSER_TLS_KEY", s.TLSKey}} {
		if _, err := os.ReadFile(setting[1]); err != nil {
			f.Add(setting[0], "%v", err)
		}
	}
	c := &Certificate{CertFile: s.TLSCert, KeyFile: s.TLSKey}
	if len(*f) > before {
		return c
	}
	if _, err := c.Reload(); err != nil {
		f.Add("PURSER_TLS_CERT", "with PURSER_TLS_KEY: %v", err)
	}
	if strings.HasPrefix(s.BaseURL, "http:") {
		f.Add("PURSER_BASE_URL", "%q is not https, which PURSER_TLS_CERT makes the REST port", s.BaseURL)
	}
	return c
}

// ReadAuthorities reads the certificates of the authorities that a client trusts from a PEM file.
// It fails for a file that cannot be read or has no certificate.
func ReadAuthorities(file string) (*x509.CertPool, error) {
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

// ServerConfig returns the TLS settings of a port; nil without a certificate.
func (c *Certificate) ServerConfig() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil }}
}

// Reload takes the files of the certificate when they have changed since the last look. A pair that
// is not usable changes nothing. The error is that of the files, once for each change.
func (c *Certificate) Reload() (changed bool, err error) {
	cert, errCert := os.ReadFile(c.CertFile)
	key, errKey := os.ReadFile(c.KeyFile)
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
	c.Unusable.Store(err != nil)
	if err != nil {
		return true, err
	}
	c.current.Store(&pair)
	return true, nil
}

// NotAfter is when the certificate in use ends.
func (c *Certificate) NotAfter() time.Time { return c.current.Load().Leaf.NotAfter }
