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
	"purser/actors/partner/sandbox"
)

// Client is a partner.Bank over HTTP. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
	sign func(message []byte) string
}

// NewClient makes a client of the bank at a URL. Its sign makes the signature of a message, now.
func NewClient(base string, sign func(message []byte) string) *Client {
	dialer := net.Dialer{Timeout: callTimeout}
	return &Client{base: strings.TrimRight(base, "/"), sign: sign, http: &http.Client{
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxConnsPerHost: maxConnections,
			MaxIdleConnsPerHost: maxConnections, IdleConnTimeout: idleTimeout, TLSHandshakeTimeout: callTimeout,
			DisableCompression: true},
		// an order goes to one place
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends the connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Expect announces a deposit.
func (c *Client) Expect(ctx context.Context, d partner.Deposit) error {
	return c.call(ctx, callTimeout, http.MethodPut, "/v1/deposits/"+url.PathEscape(d.ID), d, nil)
}

// Tokenize hands an account over.
func (c *Client) Tokenize(ctx context.Context, a partner.Account) (string, error) {
	var answer tokenAnswer
	err := c.call(ctx, callTimeout, http.MethodPut, "/v1/accounts/"+url.PathEscape(a.Reference), a, &answer)
	if err == nil && answer.Token == "" {
		err = errors.New("the bank answered no token")
	}
	return answer.Token, err
}

// Pay orders a payment. A bank that cannot even be connected to has not taken it: that is partner.ErrFull.
func (c *Client) Pay(ctx context.Context, p partner.Payment) error {
	return orFull(c.call(ctx, payTimeout, http.MethodPost, "/v1/payments", p, nil))
}

// orFull says that a bank which cannot be connected to takes nothing now.
func orFull(err error) error {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return fmt.Errorf("%w: %w", partner.ErrFull, err)
	}
	return err
}

// Standing asks what has become of a payment.
func (c *Client) Standing(ctx context.Context, reference string) (partner.Standing, error) {
	var answer standingAnswer
	err := c.call(ctx, callTimeout, http.MethodGet, "/v1/payments/"+url.PathEscape(reference), nil, &answer)
	return answer.Standing, orFull(err)
}

// Orders is a page of how often payments were ordered, by reference, after one of them; it is empty at the end.
func (c *Client) Orders(ctx context.Context, after string) ([]sandbox.Order, error) {
	var answer ordersAnswer
	err := c.call(ctx, callTimeout, http.MethodGet, "/v1/orders?after="+url.QueryEscape(after), nil, &answer)
	return answer.Orders, err
}

// WriteACH writes the NACHA file of a bank day.
func (c *Client) WriteACH(ctx context.Context, day time.Time, w io.Writer) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, payTimeout)
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, "/v1/ach/"+day.Format(time.DateOnly), nil)
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
	payments, err := strconv.Atoi(resp.Header.Get(paymentsHeader))
	if err != nil || payments < 1 {
		return 0, errors.New("the bank does not say how many payments its file has")
	}
	switch n, err := io.Copy(w, io.LimitReader(resp.Body, maxFile+1)); {
	case err != nil:
		return 0, fmt.Errorf("the bank's file: %w", err)
	case n > maxFile:
		return 0, fmt.Errorf("the bank's file is over %d bytes", maxFile)
	}
	return payments, nil
}

// call sends a document and reads another. It is sent once: nothing here tries again.
func (c *Client) call(ctx context.Context, within time.Duration, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return errors.New("the bank's request can not be written") // the cause may name what is in it
		}
	}
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return read(resp, out)
}

func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the bank's request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(signatureHeader, c.sign(signed(req, body)))
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the bank: %w", err)
	}
	return resp, nil
}

// read takes the bank's answer; what it says beside its status is not repeated in an error.
func read(resp *http.Response, out any) error {
	if err := statusError(resp.StatusCode); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return fmt.Errorf("the bank's answer: %w", err)
	case len(body) > maxBody:
		return fmt.Errorf("the bank's answer is over %d bytes", maxBody)
	case out == nil:
		return nil
	}
	if json.Unmarshal(body, out) != nil {
		return errors.New("the bank's answer is not what was asked for")
	}
	return nil
}

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
