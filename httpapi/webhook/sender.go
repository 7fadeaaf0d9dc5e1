package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Headers of a delivery.
const (
	SignatureHeader = "service-signature" // t=<unix>,v1=<hex HMAC-SHA256 of t.body> with the endpoint's secret
	IDHeader        = "webhook-id"        // the delivery's id, the same on each attempt
	EventHeader     = "webhook-event"     // the type of the event, such as checkout.session.completed
	userAgent       = "Purser-Webhooks/1"
)

// Limits of an attempt.
const (
	defaultConnectTimeout = 5 * time.Second
	defaultTimeout        = 10 * time.Second // for the whole attempt
	maxAnswer             = 16 << 10         // bytes read of the receiver's answer
	maxAnswerHeader       = 16 << 10         // bytes
)

// Failures without a status of the receiver.
const (
	failureAddress    = "address_refused"
	failureDNS        = "dns"
	failureConnect    = "connect"
	failureTLS        = "tls"
	failureTimeout    = "timeout"
	failureConnection = "connection" // the connection broke, or the answer was not HTTP
)

// SenderOptions configures a Sender. Guard is required.
type SenderOptions struct {
	Guard                   *Guard
	ConnectTimeout, Timeout time.Duration  // zero: 5 s and 10 s
	RootCAs                 *x509.CertPool // nil: the system's
}

// EnsureDefaults sets the zero fields to their defaults.
func (o *SenderOptions) EnsureDefaults() {
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = defaultConnectTimeout
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
}

// Validate returns the first fault of the options. EnsureDefaults must have run before. It refuses
// a nil Guard and negative timeouts.
func (o *SenderOptions) Validate() error {
	if o.Guard == nil {
		return errors.New("webhook: no guard")
	}
	if o.ConnectTimeout < 0 || o.Timeout < 0 {
		return fmt.Errorf("webhook: timeouts of %v and %v", o.ConnectTimeout, o.Timeout)
	}
	return nil
}

// Sender posts deliveries. Each delivery has its own connection, so that its final address is
// checked. Redirects and proxies are not followed. It is safe for concurrent use.
type Sender struct {
	guard   *Guard
	timeout time.Duration
	client  *http.Client
}

// NewSender makes a Sender. It fails with the fault of the options.
func NewSender(o SenderOptions) (*Sender, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return o.Guard.dialAllowed(ctx, network, address, o.ConnectTimeout)
		},
		TLSClientConfig:   &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHeader,
	}
	return &Sender{guard: o.Guard, timeout: o.Timeout, client: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// Post sends the body of an event, signed with the endpoint's secret at a time. It returns the
// receiver's status, or the failure that prevented one. The receiver's body is discarded. It never
// returns a Go error.
func (s *Sender) Post(ctx context.Context, url, secret, id, event string, at time.Time, body []byte) (status int,
	failure string) {
	if _, err := s.guard.parseURL(url); err != nil {
		// The URL was allowed when it was registered.
		return 0, failureAddress
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, failureAddress
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set(IDHeader, id)
	request.Header.Set(EventHeader, event)
	request.Header.Set(SignatureHeader, Sign(secret, at, body))
	response, err := s.client.Do(request)
	if err != nil {
		return 0, failureOf(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer) // so that the close does not cut off a short answer
	return response.StatusCode, ""
}

// failureOf names the cause of a failed attempt for the delivery's record.
func failureOf(err error) string {
	var dns *net.DNSError
	var late interface{ Timeout() bool }
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var operation *net.OpError
	switch {
	case errors.Is(err, ErrAddress):
		return failureAddress
	case errors.As(err, &dns):
		return failureDNS
	case errors.As(err, &late) && late.Timeout():
		return failureTimeout
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert),
		errors.Is(err, http.ErrSchemeMismatch):
		return failureTLS
	case errors.As(err, &operation) && operation.Op == "dial":
		return failureConnect
	}
	return failureConnection
}
