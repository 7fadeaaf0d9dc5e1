// Package sandbox has stand-ins for the partners, honest in the ways that hurt: the bank answers later, through a signed report
// that is sent until it is taken, sometimes twice, late or never, and it goes on after a restart; it loses answers and changes
// its mind about payments; the issuer refuses, or is silent; the desk has fixed rates.
//
// Bank keeps what it was told in a store of its own. Step does all that is due; Run calls Step as time passes. The clock is
// passed in, so that a test can turn it. It moves no money and knows nothing of balances.
package sandbox

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/actors/ident"
	"purser/actors/partner"
)

// Magic endings of an amount (cents modulo 100) steer the bank. See payments.go for those of payments only.
const (
	EndingTwice = 91 // the outcome is reported twice, with one event id
	EndingLate  = 92 // it is reported after lateFactor delays
	EndingNever = 93 // it is never reported
)

// Limits of the bank.
const (
	MaxOpen      = 100_000 // orders without their report; one more is partner.ErrFull
	lateFactor   = 10
	firstBackoff = 250 * time.Millisecond // after a report that was not taken; doubles
	maxBackoff   = time.Minute
	maxInFlight  = 8
	maxStep      = 64 // orders of one Step
	reportLimit  = 10 * time.Second
	maxIdle      = time.Second // the longest Run sleeps, so that a turned clock is noticed
	// remembers is how long a finished order is kept, to answer a repeated Expect with nothing.
	remembers = 90 * 24 * time.Hour
)

// Reporter delivers one report and returns the HTTP status it was answered with.
type Reporter func(ctx context.Context, signature string, body []byte) (status int, err error)

// Config says where the bank keeps its orders and whom it reports to. All fields are required but FS and Log.
type Config struct {
	Dir    string
	FS     vfs.FS // nil: the disk
	Delay  time.Duration
	Secret string // signs the reports
	Report Reporter
	Clock  func() time.Time
	// Log hears of reports that were not taken; nil drops them.
	Log func(orderID string, attempt int, err error)
}

// Bank is a partner.Bank. Close it after Run has returned.
type Bank struct {
	cfg   Config
	store *store
	wake  chan struct{}

	mu   sync.Mutex // held over a change of an order
	open int
}

// order is a deposit or a payment, and what is left to do about it.
type order struct {
	Deposit partner.Deposit `json:"deposit"`
	Payment *payment        `json:"payment,omitempty"` // nil: it is a deposit
	Due     time.Time       `json:"due"`
	Reports int             `json:"reports"` // to be sent yet; 0: finished, forgotten at Due
	Attempt int             `json:"attempt"` // reports not taken in a row
}

func (o *order) id() string {
	if o.Payment != nil {
		return o.Payment.Reference
	}
	return o.Deposit.ID
}

// NewBank opens the bank's store, finding there what an earlier run left.
func NewBank(cfg Config) (*Bank, error) {
	if cfg.Dir == "" || cfg.Secret == "" || cfg.Report == nil || cfg.Clock == nil || cfg.Delay < 0 {
		return nil, errors.New("sandbox bank: Dir, Secret, Report and Clock are required, Delay is not negative")
	}
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	if cfg.Log == nil {
		cfg.Log = func(string, int, error) {}
	}
	s, err := openStore(cfg.Dir, cfg.FS)
	if err != nil {
		return nil, err
	}
	open, err := s.count()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return &Bank{cfg: cfg, store: s, open: open, wake: make(chan struct{}, 1)}, nil
}

// Close closes the store. Call it after Run has returned.
func (b *Bank) Close() error { return b.store.close() }

// Expect keeps the order, synced. It returns partner.ErrFull at MaxOpen open orders.
func (b *Bank) Expect(_ context.Context, d partner.Deposit) error {
	if _, err := ident.Parse(ident.Deposit, d.ID); err != nil {
		return fmt.Errorf("sandbox bank: deposit id: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known, err := b.store.load(d.ID); known || err != nil {
		return err
	}
	if b.open >= MaxOpen {
		return partner.ErrFull
	}
	return b.keep(plan(d, b.cfg.Clock(), b.cfg.Delay))
}

// keep stores a new order, under b.mu.
func (b *Bank) keep(o order) error {
	if err := b.store.save(nil, &o); err != nil {
		return fmt.Errorf("sandbox bank: %w", err)
	}
	if o.Reports > 0 {
		b.open++
	}
	select {
	case b.wake <- struct{}{}:
	default: // Run has been told already
	}
	return nil
}

// plan decides what the bank will do about a deposit.
func plan(d partner.Deposit, now time.Time, delay time.Duration) order {
	o := order{Deposit: d, Due: now.Add(delay), Reports: 1}
	switch d.AmountUsdCents % 100 {
	case EndingTwice:
		o.Reports = 2
	case EndingLate:
		o.Due = now.Add(lateFactor * delay)
	case EndingNever:
		o.Due, o.Reports = now.Add(remembers), 0
	}
	return o
}

// Run does what is due until the context ends.
func (b *Bank) Run(ctx context.Context) error {
	for {
		wait, err := b.Step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-b.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Step sends the reports that are due now, at most maxStep, and returns how long there is nothing to do. The error is of
// the store; a report that is not taken is tried again later.
func (b *Bank) Step(ctx context.Context) (time.Duration, error) {
	now := b.cfg.Clock()
	orders, next, err := b.store.due(now, maxStep)
	if err != nil {
		return 0, fmt.Errorf("sandbox bank: %w", err)
	}
	var group sync.WaitGroup
	slots, faults := make(chan struct{}, maxInFlight), make([]error, len(orders))
	for i := range orders {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			faults[i] = b.attend(ctx, orders[i])
		})
	}
	group.Wait()
	if err := errors.Join(faults...); err != nil {
		return 0, err
	}
	switch {
	case len(orders) > 0:
		return 0, nil
	case next.IsZero():
		return maxIdle, nil
	}
	return min(max(next.Sub(now), 0), maxIdle), nil
}

// attend sends one report of an order and keeps what follows from the answer.
func (b *Bank) attend(ctx context.Context, old order) error {
	if old.Reports == 0 {
		return b.replace(old, nil)
	}
	o := old
	err := b.report(ctx, &o)
	if ctx.Err() != nil {
		return nil // the answer came to nobody: the report is sent again by the next run
	}
	now := b.cfg.Clock()
	if err != nil {
		o.Attempt++
		o.Due = now.Add(backoff(o.Attempt))
		b.cfg.Log(o.id(), o.Attempt, err)
		return b.replace(old, &o)
	}
	o.Attempt, o.Reports, o.Due = 0, o.Reports-1, now
	switch {
	case o.Reports == 0:
		o.Due = now.Add(remembers)
	case o.Payment != nil && o.Payment.outcome(o.Reports) != o.Payment.outcome(o.Reports+1):
		o.Due = now.Add(b.cfg.Delay) // another thing happens to it
	}
	return b.replace(old, &o)
}

func (b *Bank) replace(old order, o *order) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.store.save(&old, o); err != nil {
		return fmt.Errorf("sandbox bank: %w", err)
	}
	if old.Reports > 0 && (o == nil || o.Reports == 0) {
		b.open--
	}
	return nil
}

func backoff(attempt int) time.Duration {
	d := firstBackoff
	for range attempt - 1 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}

// dealEvents are what a deal's outcomes are reported as.
var dealEvents = map[partner.Standing]string{partner.Settled: "conversion.completed", partner.Failed: "conversion.failed"}

// announcement is what the next report of an order says. The event id follows from the order, so that a repeat is known as one.
func announcement(o *order) ([]byte, error) {
	prefix, eventType, field := ident.Deposit, "deposit.settled", "depositId"
	cause := "settled " + o.id()
	if p := o.Payment; p != nil {
		prefix, field = prefixOf(&p.Payment), "payoutId"
		eventType = "payout." + string(p.outcome(o.Reports))
		if p.Rail == partner.RailFX {
			field, eventType = "conversionId", dealEvents[p.outcome(o.Reports)]
		}
		cause = eventType + " " + o.id()
	}
	id, err := ident.Parse(prefix, o.id())
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		ID   string            `json:"id"`
		Type string            `json:"type"`
		Data map[string]string `json:"data"`
	}{
		ident.Derive(id.Slot(), id.Time(), "sandbox bank "+cause).Format(ident.Event), eventType,
		map[string]string{field: o.id()},
	})
}

// report sends the next report of an order.
func (b *Bank) report(ctx context.Context, o *order) error {
	body, err := announcement(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	status, err := b.cfg.Report(ctx, Sign(b.cfg.Secret, b.cfg.Clock(), body), body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("answered %d", status)
	}
	return err
}

// Sign makes the partner-signature header of a body: t=<unix seconds>,v1=<hex HMAC-SHA256 of "t.body">.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// Post returns a Reporter that posts to a URL over HTTP.
func Post(client *http.Client, url string) Reporter {
	return func(ctx context.Context, signature string, body []byte) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Partner-Signature", signature)
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		return resp.StatusCode, err
	}
}
