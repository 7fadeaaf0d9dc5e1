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

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/actors/partner"
	"purser/persistence/ident"
)

// Limits of a partner that takes orders.
const (
	MaxOpen      = 100_000 // orders without their report; one more is partner.ErrFull
	lateFactor   = 10
	firstBackoff = 250 * time.Millisecond // after a report that was not taken; doubles
	maxBackoff   = time.Minute
	maxInFlight  = 8
	maxStep      = 64 // orders of one Step
	reportLimit  = 10 * time.Second
	maxIdle      = time.Second // the longest Run sleeps, so that a turned clock is noticed
	// remembers is how long a finished order is kept, to answer a repeat of it with nothing.
	remembers = 90 * 24 * time.Hour
)

// Reporter delivers one report and returns the HTTP status it was answered with.
type Reporter func(ctx context.Context, body []byte) (status int, err error)

// Signer returns the partner-signature header of a report, made now.
type Signer func(method, path string, body []byte) string

// Config says where a partner keeps its orders and whom it reports to. All fields are required but FS and Log.
type Config struct {
	Dir    string
	FS     vfs.FS // nil: the disk
	Delay  time.Duration
	Report Reporter
	Clock  func() time.Time
	// Log hears of reports that were not taken; nil drops them.
	Log func(orderID string, attempt int, err error)
}

// office keeps the orders of a partner and reports what becomes of each until the report is taken. Close it after Run has
// returned.
type office struct {
	cfg   Config
	store *store
	wake  chan struct{}
	to    func(*order) Reporter // who hears of an order

	mu   sync.Mutex // held over a change of an order
	open int
}

// order is something that the partner is to do, and what is left to do about it. It is a deposit when it is nothing else.
type order struct {
	Deposit partner.Deposit `json:"deposit"`
	Payment *payment        `json:"payment,omitempty"`
	Ramp    *rampOrder      `json:"ramp,omitempty"`
	Due     time.Time       `json:"due"`
	Reports int             `json:"reports"` // to be sent yet; 0: finished, forgotten at Due
	Attempt int             `json:"attempt"` // reports not taken in a row
}

func (o *order) id() string {
	switch {
	case o.Payment != nil:
		return o.Payment.Reference
	case o.Ramp != nil:
		return o.Ramp.ID
	}
	return o.Deposit.ID
}

// outcomes are what an order's reports say, one after the other; nil for a deposit.
func (o *order) outcomes() []partner.Standing {
	switch {
	case o.Payment != nil:
		return o.Payment.Outcomes
	case o.Ramp != nil:
		return o.Ramp.Outcomes
	}
	return nil
}

// news is what a report says. Prefix is that of the ids of such orders; the report's own id follows from cause, so that a repeat
// is known as one.
type news struct {
	prefix, cause, eventType string
	data                     any
}

// news is what the next report of an order says.
func (o *order) news() news {
	switch {
	case o.Payment != nil:
		return o.Payment.news(o.Reports)
	case o.Ramp != nil:
		return o.Ramp.news(o.Reports)
	}
	return news{ident.Deposit, "sandbox bank settled " + o.id(), "deposit.settled", map[string]string{"depositId": o.id()}}
}

// openOffice opens the store, finding there what an earlier run left.
func openOffice(cfg Config, to func(*order) Reporter) (*office, error) {
	if cfg.Dir == "" || cfg.Report == nil || cfg.Clock == nil || cfg.Delay < 0 {
		return nil, errors.New("sandbox: Dir, Report and Clock are required, Delay is not negative")
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
	return &office{cfg: cfg, store: s, to: to, open: open, wake: make(chan struct{}, 1)}, nil
}

// Close closes the store. Call it after Run has returned.
func (b *office) Close() error { return b.store.close() }

// Order is how often a partner was told to make a payment, or given an order of the ramp. A payment that it was told more than
// once is somebody's money paid twice.
type Order struct {
	Reference string `json:"reference"`
	Orders    int    `json:"orders"`
}

// Orders lists what the partner was told to do, deposits aside: at most limit of them, by reference after one of them.
func (b *office) Orders(after string, limit int) ([]Order, error) {
	orders, err := b.store.told(after, limit)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return orders, nil
}

// keep stores a new order, under b.mu.
func (b *office) keep(o order) error {
	if err := b.store.save(nil, &o); err != nil {
		return fmt.Errorf("sandbox: %w", err)
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

// Run does what is due until the context ends.
func (b *office) Run(ctx context.Context) error {
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
func (b *office) Step(ctx context.Context) (time.Duration, error) {
	now := b.cfg.Clock()
	orders, next, err := b.store.due(now, maxStep)
	if err != nil {
		return 0, fmt.Errorf("sandbox: %w", err)
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
func (b *office) attend(ctx context.Context, old order) error {
	if old.Reports == 0 {
		return b.replace(old, nil)
	}
	o, now := old, b.cfg.Clock() // what follows is counted from the report, not from when its answer came
	err := b.report(ctx, &o)
	if ctx.Err() != nil {
		return nil // the answer came to nobody: the report is sent again by the next run
	}
	if err != nil {
		o.Attempt++
		o.Due = b.cfg.Clock().Add(backoff(o.Attempt))
		b.cfg.Log(o.id(), o.Attempt, err)
		return b.replace(old, &o)
	}
	o.Attempt, o.Reports, o.Due = 0, o.Reports-1, now
	outcomes := o.outcomes()
	switch {
	case o.Reports == 0:
		o.Due = now.Add(remembers)
	case outcomes != nil && outcome(outcomes, o.Reports) != outcome(outcomes, o.Reports+1):
		o.Due = now.Add(b.cfg.Delay) // another thing happens to it
	}
	return b.replace(old, &o)
}

// outcome is what the report says that is due when so many are left.
func outcome(of []partner.Standing, left int) partner.Standing { return of[len(of)-left] }

// replace keeps what follows from a report, or forgets the order. It may have been given again since old was read, which its
// payment, or its order of the ramp, counts.
func (b *office) replace(old order, o *order) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, known, err := b.store.load(old.id())
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if known && o != nil {
		o.Payment, o.Ramp = now.Payment, now.Ramp
	}
	if err := b.store.save(&old, o); err != nil {
		return fmt.Errorf("sandbox: %w", err)
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

// report sends the next report of an order.
func (b *office) report(ctx context.Context, o *order) error {
	body, err := announcement(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	status, err := b.to(o)(ctx, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("answered %d", status)
	}
	return err
}

// announcement is the next report of an order.
func announcement(o *order) ([]byte, error) {
	n := o.news()
	id, err := ident.Parse(n.prefix, o.id())
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data any    `json:"data"`
	}{ident.Derive(id.Slot(), id.Time(), n.cause).Format(ident.Event), n.eventType, n.data})
}

// Post returns a Reporter that posts signed reports over HTTP, to a path of the Purser at a base
// URL.
func Post(client *http.Client, base, path string, sign Signer) Reporter {
	return func(ctx context.Context, body []byte) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Partner-Signature", sign(req.Method, path, body))
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		return resp.StatusCode, err
	}
}
