package bankhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"purser/actors/partner"
)

// Client is a partner.Bank over HTTP. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
	sign func(message []byte) string
}

// NewClient returns a client of the bank at a base URL. sign returns the signature header of a
// message, made at the time of the call.
func NewClient(base string, sign func(message []byte) string) *Client {
	dialer := net.Dialer{Timeout: callTimeout}
	return &Client{base: strings.TrimRight(base, "/"), sign: sign, http: &http.Client{
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxConnsPerHost: maxConnections,
			MaxIdleConnsPerHost: maxConnections, IdleConnTimeout: idleTimeout, TLSHandshakeTimeout: callTimeout,
			DisableCompression: true},
		// an order is never sent to another host
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Expect announces a deposit.
func (c *Client) Expect(ctx context.Context, d partner.Deposit) error {
	return c.callJSON(ctx, callTimeout, http.MethodPut, "/v1/deposits/"+url.PathEscape(d.ID), d, nil)
}

// Tokenize registers an account and returns its token. It fails with partner.ErrRefused for an
// account that the bank refuses, with partner.ErrFull, and when the bank does not answer.
func (c *Client) Tokenize(ctx context.Context, a partner.Account) (string, error) {
	var answer TokenAnswer
	err := c.callJSON(ctx, callTimeout, http.MethodPut, "/v1/accounts/"+url.PathEscape(a.Reference), a, &answer)
	if err == nil && answer.Token == "" {
		err = errors.New("the bank answered no token")
	}
	return answer.Token, err
}

// Pay orders a payment, once. It fails with partner.ErrRefused or partner.ErrFull when the bank has
// not taken the order; a failure to connect is ErrFull too. After any other error the bank may have
// taken it.
func (c *Client) Pay(ctx context.Context, p partner.Payment) error {
	return connectErrorAsFull(c.callJSON(ctx, payTimeout, http.MethodPost, "/v1/payments", p, nil))
}

// connectErrorAsFull turns a failure to connect into partner.ErrFull.
func connectErrorAsFull(err error) error {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return fmt.Errorf("%w: %w", partner.ErrFull, err)
	}
	return err
}

// Standing asks for the status of a payment. It fails with partner.ErrUnknown for a payment that
// the bank does not have, with partner.ErrFull, also for a failure to connect, and when the bank
// does not answer.
func (c *Client) Standing(ctx context.Context, reference string) (partner.Standing, error) {
	var answer StandingAnswer
	err := c.callJSON(ctx, callTimeout, http.MethodGet, "/v1/payments/"+url.PathEscape(reference), nil, &answer)
	return answer.Standing, connectErrorAsFull(err)
}

// Orders returns the next page of payments after a reference, sorted by reference, and how often
// each was ordered. The page after the last payment is empty. It fails when the bank does not
// answer or refuses. Tests compare these orders with the payouts of a Purser.
func (c *Client) Orders(ctx context.Context, after string) ([]Order, error) {
	var answer OrdersAnswer
	err := c.callJSON(ctx, callTimeout, http.MethodGet, "/v1/orders?after="+url.QueryEscape(after), nil, &answer)
	return answer.Orders, err
}

// WriteACH writes the NACHA file of a bank day, at most maxFile bytes, and returns its number of
// payments. It fails with partner.ErrNothingSent for a day without payments, when the bank does not
// answer, and with the error of w, which then has a part of the file.
func (c *Client) WriteACH(ctx context.Context, day time.Time, w io.Writer) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, payTimeout)
	defer cancel()
	resp, err := c.sendSigned(ctx, http.MethodGet, "/v1/ach/"+day.Format(time.DateOnly), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if err := statusError(resp.StatusCode); err != nil {
		if errors.Is(err, partner.ErrUnknown) {
			err = partner.ErrNothingSent
		}
		return 0, err
	}
	payments, err := strconv.Atoi(resp.Header.Get(PaymentsHeader))
	if err != nil || payments < 1 {
		return 0, errors.New("the bank's answer has no number of payments in its header")
	}
	switch n, err := io.Copy(w, io.LimitReader(resp.Body, maxFile+1)); {
	case err != nil:
		return 0, fmt.Errorf("the bank's file: %w", err)
	case n > maxFile:
		return 0, fmt.Errorf("the bank's file is over %d bytes", maxFile)
	}
	return payments, nil
}

// callJSON sends a document and decodes the answer. It sends once and never retries. It fails when
// the bank does not answer within the given time, with the error of its status, and for an answer
// that is not the expected JSON.
func (c *Client) callJSON(ctx context.Context, within time.Duration, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return errors.New("the bank's request cannot be written") // the cause may have personal data
		}
	}
	resp, err := c.sendSigned(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decodeAnswer(resp, out)
}

// sendSigned sends a signed request to the bank and returns the answer, whose body the caller
// closes. It fails only when the bank cannot be reached; a refusal is an answer. callJSON and
// WriteACH call it.
func (c *Client) sendSigned(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the bank's request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(SignatureHeader, c.sign(SignedMessage(req, body)))
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the bank: %w", err)
	}
	return resp, nil
}

// decodeAnswer decodes the bank's answer. Its errors have the status but no text of the bank.
func decodeAnswer(resp *http.Response, out any) error {
	if err := statusError(resp.StatusCode); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	switch {
	case err != nil:
		return fmt.Errorf("the bank's answer: %w", err)
	case len(body) > MaxBody:
		return fmt.Errorf("the bank's answer is over %d bytes", MaxBody)
	case out == nil:
		return nil
	}
	if json.Unmarshal(body, out) != nil {
		return errors.New("the bank's answer does not have the expected form")
	}
	return nil
}

// statusError returns the error of an answer's HTTP status: nil for 200, ErrRefused for 422,
// ErrFull for 429, ErrUnknown for 404. Any other status is an unnamed error, and the outcome is
// unknown.
func statusError(status int) error {
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusUnprocessableEntity:
		return partner.ErrRefused
	case http.StatusTooManyRequests:
		return partner.ErrFull
	case http.StatusNotFound:
		return partner.ErrUnknown
	}
	return fmt.Errorf("the bank answered %d", status)
}
