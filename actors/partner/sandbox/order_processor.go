package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"purser/actors/partner"
	"purser/persistence/ident"
)

// Limits of a partner that takes orders.
const (
	MaxOpen       = 100_000 // orders with a pending report; one more is partner.ErrFull
	lateDelays    = 10
	firstBackoff  = 250 * time.Millisecond // after the first failed report; doubles
	maxBackoff    = time.Minute
	maxInFlight   = 8
	maxStep       = 64 // orders of one Step
	reportTimeout = 10 * time.Second
	maxIdle       = time.Second // longest sleep of Run, so that it notices an advanced clock
	// orderRetention is how long a finished order is kept, so that a repeat of it has no effect.
	orderRetention = 90 * 24 * time.Hour
)

// Reporter delivers one report and returns the HTTP status of its answer.
type Reporter func(ctx context.Context, body []byte) (status int, err error)

// Signer returns the partner-signature header of a report, made at the time of the call.
type Signer func(method, path string, body []byte) string

// Config has a partner's store and reporter. All fields except Log are required.
type Config struct {
	Store  *Store
	Delay  time.Duration
	Report Reporter
	Clock  func() time.Time
	// Log is called for each report that was not taken; nil drops them.
	Log func(orderID string, attempt int, err error)
}

// orderProcessor keeps the orders of a partner and reports their outcomes until each report is
// taken.
type orderProcessor struct {
	cfg        Config
	store      *orderStore
	wake       chan struct{}
	reporterOf func(*order) Reporter // the reporter of an order

	mu         sync.Mutex // held while an order changes
	openOrders int
}

// order is an order to the partner with its remaining reports. Without Payment and Ramp it is a
// deposit.
type order struct {
	Deposit partner.Deposit `json:"deposit"`
	Payment *payment        `json:"payment,omitempty"`
	Ramp    *rampOrder      `json:"ramp,omitempty"`
	Due     time.Time       `json:"due"`
	Reports int             `json:"reports"` // remaining reports; 0: finished, deleted at Due
	Attempt int             `json:"attempt"` // consecutive failed reports
}

// orderID returns the id of the payment, the ramp order or the deposit.
func (o *order) orderID() string {
	switch {
	case o.Payment != nil:
		return o.Payment.Reference
	case o.Ramp != nil:
		return o.Ramp.ID
	}
	return o.Deposit.ID
}

// reportOutcomes are the outcomes of an order's reports in order; nil for a deposit.
func (o *order) reportOutcomes() []partner.Standing {
	switch {
	case o.Payment != nil:
		return o.Payment.Outcomes
	case o.Ramp != nil:
		return o.Ramp.Outcomes
	}
	return nil
}

// reportContent is the content of a report. prefix is the id prefix of such orders. The report's
// own id is derived from cause, so that a repeat has the same id.
type reportContent struct {
	prefix, cause, eventType string
	data                     any
}

// nextReport is the content of the order's next report.
func (o *order) nextReport() reportContent {
	switch {
	case o.Payment != nil:
		return o.Payment.reportWith(o.Reports)
	case o.Ramp != nil:
		return o.Ramp.reportWith(o.Reports)
	}
	return reportContent{ident.Deposit, "sandbox bank settled " + o.orderID(), "deposit.settled",
		map[string]string{"depositId": o.orderID()}}
}

// newOrderProcessor continues with the orders of an earlier run, whose keys have the prefix. It
// fails for an incomplete Config and when the store cannot be read.
func newOrderProcessor(cfg Config, prefix string, to func(*order) Reporter) (*orderProcessor, error) {
	if cfg.Store == nil || cfg.Report == nil || cfg.Clock == nil || cfg.Delay < 0 {
		return nil, errors.New("sandbox: Store, Report and Clock are required, Delay is not negative")
	}
	if cfg.Log == nil {
		cfg.Log = func(string, int, error) {}
	}
	b := &orderProcessor{cfg: cfg, store: &orderStore{cfg.Store.log, prefix}, reporterOf: to, wake: make(chan struct{}, 1)}
	err := b.store.eachOrder(func(o *order) error {
		if o.Reports > 0 {
			b.openOrders++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return b, nil
}

// Orders returns, by reference, how often each payment or ramp order was received. A payment
// ordered more than once is paid more than once. It fails with the store's error.
func (b *orderProcessor) Orders() (map[string]int, error) {
	orders := map[string]int{}
	err := b.store.eachOrder(func(o *order) error {
		switch {
		case o.Payment != nil:
			orders[o.orderID()] = o.Payment.Orders
		case o.Ramp != nil:
			orders[o.orderID()] = o.Ramp.Orders
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return orders, nil
}

// addOrder stores a new order, synced, and wakes Run. It fails with the store's error. The caller
// holds b.mu.
func (b *orderProcessor) addOrder(o order) error {
	if err := b.store.saveOrder(nil, &o); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if o.Reports > 0 {
		b.openOrders++
	}
	select {
	case b.wake <- struct{}{}:
	default: // Run has a pending wake-up
	}
	return nil
}

// Run calls Step until the context ends, and then returns nil. It fails with the first error of
// Step.
func (b *orderProcessor) Run(ctx context.Context) error {
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

// Step sends the due reports, at most maxStep, and returns the time until the next one. Its error
// is one of the store; a report that is not taken is retried later.
func (b *orderProcessor) Step(ctx context.Context) (time.Duration, error) {
	now := b.cfg.Clock()
	orders, next, err := b.store.dueOrders(now, maxStep)
	if err != nil {
		return 0, fmt.Errorf("sandbox: %w", err)
	}
	var group sync.WaitGroup
	slots, faults := make(chan struct{}, maxInFlight), make([]error, len(orders))
	for i := range orders {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			faults[i] = b.processOrder(ctx, orders[i])
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

// processOrder sends one report of an order and stores the result. An order without reports is
// deleted. It fails with the store's error only; a report that is not taken is due again after
// retryDelay.
func (b *orderProcessor) processOrder(ctx context.Context, old order) error {
	if old.Reports == 0 {
		return b.saveProcessed(old, nil)
	}
	o, now := old, b.cfg.Clock() // later reports are counted from this report, not from its answer
	err := b.deliverReport(ctx, &o)
	if ctx.Err() != nil {
		return nil // the result is unknown: the next run sends the report again
	}
	if err != nil {
		o.Attempt++
		o.Due = b.cfg.Clock().Add(retryDelay(o.Attempt))
		b.cfg.Log(o.orderID(), o.Attempt, err)
		return b.saveProcessed(old, &o)
	}
	o.Attempt, o.Reports, o.Due = 0, o.Reports-1, now
	outcomes := o.reportOutcomes()
	switch {
	case o.Reports == 0:
		o.Due = now.Add(orderRetention)
	case outcomes != nil && dueOutcome(outcomes, o.Reports) != dueOutcome(outcomes, o.Reports+1):
		o.Due = now.Add(b.cfg.Delay) // the next report has another outcome
	}
	return b.saveProcessed(old, &o)
}

// dueOutcome is the outcome of the report that is due when left reports remain.
func dueOutcome(of []partner.Standing, left int) partner.Standing { return of[len(of)-left] }

// saveProcessed stores an order after its report, or deletes it. It keeps the order counts stored
// meanwhile, because the order may have been repeated since old was read. It fails with the store's
// error.
func (b *orderProcessor) saveProcessed(old order, o *order) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, known, err := b.store.loadOrder(old.orderID())
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if known && o != nil {
		o.Payment, o.Ramp = now.Payment, now.Ramp
	}
	if err := b.store.saveOrder(&old, o); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if old.Reports > 0 && (o == nil || o.Reports == 0) {
		b.openOrders--
	}
	return nil
}

// retryDelay returns the delay after the attempt-th failed report in a row: firstBackoff, doubled
// each time, at most maxBackoff.
func retryDelay(attempt int) time.Duration {
	d := firstBackoff
	for range attempt - 1 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}

// deliverReport sends the next report of an order, within reportTimeout. It fails when the Reporter
// does, for a status other than 200, and for an order whose id is malformed.
func (b *orderProcessor) deliverReport(ctx context.Context, o *order) error {
	body, err := encodeReport(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	status, err := b.reporterOf(o)(ctx, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("answered %d", status)
	}
	return err
}

// encodeReport encodes the next report of an order as JSON. It fails only for an order whose id is
// malformed.
func encodeReport(o *order) ([]byte, error) {
	n := o.nextReport()
	id, err := ident.Parse(n.prefix, o.orderID())
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data any    `json:"data"`
	}{ident.Derive(id.Slot(), id.Time(), n.cause).Format(ident.Event), n.eventType, n.data})
}

// NewHTTPReporter returns a Reporter that posts signed reports to a path of the Purser at a base
// URL. It uses a copy of the client that follows no redirect. The Reporter fails when the Purser
// does not answer. An answer of any status, a redirect included, is no error of it.
func NewHTTPReporter(client *http.Client, base, path string, sign Signer) Reporter {
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(ctx context.Context, body []byte) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Partner-Signature", sign(req.Method, path, body))
		resp, err := own.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		return resp.StatusCode, err
	}
}
