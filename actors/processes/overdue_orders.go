package processes

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"purser/actors/balance"
	"purser/actors/bankday"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence"
	"purser/persistence/ident"
)

const (
	overdueRead = 500 // records of one read of OverdueOrders
	// MaxOverdueListed is how many orders OverdueOrders lists.
	MaxOverdueListed = 10_000
)

// railBankDays is how many bank days after the expected day a payout of a rail is overdue.
var railBankDays = map[string]int{balance.RailACH: 2, balance.RailWire: 1, balance.RailRealtime: 1,
	balance.RailIntlWire: 5}

// dealBankDays and rampBankDays are the same for a conversion and for a ramp order, from the day on
// which they were ordered.
const (
	dealBankDays = 2
	rampBankDays = 2
)

// OverdueOrders finds the orders that the bank or the ramp's partner has and does not report, and
// takes a person's decisions about them. An order is overdue from its expected day and the bank
// days of its rail on. A metric and a log line name it until a person decides by `purser payouts
// resolve`.
type OverdueOrders struct {
	runtime  Runtime
	journal  persistence.Journal
	calendar *bankday.Calendar
	log      *slog.Logger

	mu   sync.Mutex
	seen map[string]time.Time // when each overdue order was last found overdue, by id
}

// openOrder has the members that the records of all kinds of order share.
type openOrder struct {
	ID         string    `json:"id"`
	Status     string    `json:"status"`
	Rail       string    `json:"rail"`
	ExpectedOn string    `json:"expectedOn"`
	CreatedAt  time.Time `json:"createdAt"`
}

// openOrders is a kind of order.
func openOrders(kind string) query.Records[openOrder] { return query.RecordsOf[openOrder](kind) }

// isSent reports whether the bank or the ramp's partner may have the order.
func (o *openOrder) isSent() bool {
	switch o.Status {
	case balance.PayoutSubmitting, balance.PayoutSubmitted, balance.PayoutUnknown, balance.ConversionSubmitted,
		balance.RampCreated, balance.RampProcessing:
		return true
	}
	return false
}

// overdueAt returns when an order becomes overdue. It fails for a payout whose expected day does
// not decode.
func (d *OverdueOrders) overdueAt(kind string, o *openOrder) (time.Time, error) {
	switch kind {
	case balance.RecordConversion:
		return d.calendar.BankDayAfter(o.CreatedAt, dealBankDays), nil
	case balance.RecordRampOrder:
		return d.calendar.BankDayAfter(o.CreatedAt, rampBankDays), nil
	}
	day, err := time.Parse(time.DateOnly, o.ExpectedOn)
	const noon = 17 * time.Hour // noon in New York, which is the same day in UTC
	return d.calendar.BankDayAfter(day.Add(noon), railBankDays[o.Rail]), err
}

// note reads an order, and counts and logs it when it is open and overdue; otherwise it is no
// longer counted. It fails as query's Read does.
func (d *OverdueOrders) note(ctx context.Context, ref orderRef) error {
	o, err := openOrders(ref.kind).Read(ctx, d.runtime, ref.workspace, ref.id)
	if err != nil {
		return err
	}
	at, err := d.overdueAt(ref.kind, &o)
	if err != nil {
		return err
	}
	now := d.runtime.Clock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !o.isSent() || now.Before(at) {
		delete(d.seen, ref.id)
		return nil
	}
	if d.seen == nil {
		d.seen = make(map[string]time.Time)
	}
	d.seen[ref.id] = now
	d.log.Error("an order is overdue: the partner does not report it, and a person has to decide; `purser payouts overdue` "+
		"lists such orders", "order", ref.id, "workspace", ref.workspace, "status", o.Status)
	return nil
}

// OverdueCount returns how many orders were found overdue in the last two rounds of inquiries.
func (d *OverdueOrders) OverdueCount() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, at := range d.seen {
		if d.runtime.Clock().Sub(at) > 2*balance.LapseAskEvery {
			delete(d.seen, id)
		}
	}
	return int64(len(d.seen))
}

// OverdueOrder is an order that a person has to decide about.
type OverdueOrder struct {
	Kind      string    `json:"kind"` // payout, conversion or ramp_order
	ID        string    `json:"id"`
	Workspace string    `json:"workspace"`
	Status    string    `json:"status"`
	Since     time.Time `json:"since"`
}

// ListOverdue reads the records of all orders and returns those that are overdue, at most
// MaxOverdueListed. It fails when a record cannot be read or decoded.
func (d *OverdueOrders) ListOverdue(ctx context.Context) ([]OverdueOrder, error) {
	all := []OverdueOrder{}
	for shard := range ident.Shards {
		for _, kind := range []string{balance.RecordPayout, balance.RecordConversion, balance.RecordRampOrder} {
			err := d.eachOrder(ctx, ident.Shard(shard), kind, func(workspace string, o *openOrder) error {
				at, err := d.overdueAt(kind, o)
				if o.isSent() && !d.runtime.Clock().Before(at) && len(all) < MaxOverdueListed {
					all = append(all, OverdueOrder{Kind: kind, ID: o.ID, Workspace: workspace, Status: o.Status, Since: at})
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// eachOrder calls visit with each order of a kind in a shard, by id. It fails when a record cannot
// be read or decoded, and with visit's error.
func (d *OverdueOrders) eachOrder(ctx context.Context, shard ident.Shard, kind string,
	visit func(workspace string, o *openOrder) error) error {
	for after := ""; ; {
		records, err := d.journal.Records(ctx, shard, kind, after, overdueRead)
		if err != nil || len(records) == 0 {
			return err
		}
		for i := range records {
			o, err := openOrders(kind).Decode(records[i].Document)
			if err == nil {
				err = visit(records[i].Workspace, &o)
			}
			if err != nil {
				return err
			}
		}
		after = records[len(records)-1].ID
	}
}

// ResolveOrder commits a person's decision about an order that the partner does not report: whether
// it was settled. It has the effect of the partner's report. It fails with not_found for an unknown
// id, with unavailable for an open order that is not overdue yet, and with the balance's error.
func (d *OverdueOrders) ResolveOrder(ctx context.Context, id string, settled bool) error {
	kind := orderKind(id)
	record, err := openOrders(kind).FindRecord(ctx, d.runtime, id)
	if err != nil {
		return err
	}
	command, err := d.resolution(kind, &record.Document, settled)
	if err != nil {
		return err
	}
	_, err = d.runtime.Ask(ctx, toBalance(record.Workspace, command))
	if err == nil {
		err = d.note(ctx, orderRef{record.Workspace, kind, id})
	}
	return err
}

// orderKind returns the kind of the record of an order, by the prefix of the order's id. Every
// other id is a payout's.
func orderKind(id string) string {
	for prefix, kind := range map[string]string{ident.Conversion: balance.RecordConversion,
		ident.RampOrder: balance.RecordRampOrder, ident.Withdrawal: balance.RecordRampOrder} {
		if _, err := ident.Parse(prefix, id); err == nil {
			return kind
		}
	}
	return balance.RecordPayout
}

// resolution returns the balance's command of ResolveOrder. It fails with unavailable for an order
// that is open and not overdue yet, and like overdueAt.
func (d *OverdueOrders) resolution(kind string, o *openOrder, settled bool) (any, error) {
	at, err := d.overdueAt(kind, o)
	if err != nil {
		return nil, err
	}
	if o.isSent() && d.runtime.Clock().Before(at) {
		return nil, fault.New(fault.Unavailable, "The order is not overdue before "+at.Format(time.DateOnly)+
			"; nothing changed.")
	}
	outcome := func(good, bad string) string {
		if settled {
			return good
		}
		return bad
	}
	event := "resolved/" + o.ID
	switch kind {
	case balance.RecordConversion:
		return balance.ReportConversion{EventID: event, ID: o.ID,
			Outcome: outcome(balance.ConversionCompleted, balance.ConversionFailed)}, nil
	case balance.RecordRampOrder:
		return balance.ReportRamp{EventID: event, ID: o.ID,
			Outcome: outcome(balance.RampCompleted, balance.RampFailed)}, nil
	}
	return balance.ReportPayout{EventID: event, ID: o.ID,
		Outcome: outcome(balance.PayoutSettled, balance.PayoutFailed)}, nil
}
