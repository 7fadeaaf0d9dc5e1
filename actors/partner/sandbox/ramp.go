package sandbox

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/btcsuite/btcd/address/v2/base58"

	"purser/actors/partner"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Fees of the ramp: the cents of which one is kept. A fee is rounded up to the cent, so that orders
// for parts of an amount cost no less. An order of EndingCheaper costs RampLowFee, any other
// RampFee.
const (
	RampFee       = "200"
	RampLowFee    = "400"
	EndingCheaper = 88
)

// WalletRefused is the ending of refused wallet addresses, in any case.
const WalletRefused = "dead"

// Directions of orders, as partner.RampOrder names them.
const (
	rampOn       = "onramp"
	rampOff      = "offramp"
	rampWithdraw = "withdraw"
)

// Ramp is a partner.Ramp. The magic endings of payments apply, except EndingReturned. An order of
// EndingNever or EndingAfterLapse is never answered, even when it is repeated.
type Ramp struct{ *orderProcessor }

// rampOrder is an order, the number of times it was received, and one outcome for each report.
type rampOrder struct {
	partner.RampOrder
	Orders   int                `json:"orders"`
	FeeCents money.Cents        `json:"feeCents"`
	Outcomes []partner.Standing `json:"outcomes"`
}

// NewRamp returns the ramp of a store. cfg.Report gets the reports of on-ramps, off those of all
// other orders. It fails for an incomplete Config and when the store cannot be read.
func NewRamp(cfg Config, off Reporter) (*Ramp, error) {
	if off == nil {
		return nil, errors.New("sandbox ramp: a Reporter of off-ramps is required")
	}
	o, err := newOrderProcessor(cfg, rampPrefix, func(o *order) Reporter {
		if o.Ramp.Direction == rampOn {
			return cfg.Report
		}
		return off
	})
	if err != nil {
		return nil, err
	}
	return &Ramp{o}, nil
}

// Fee implements partner.Ramp: it returns the highest fee of an order, in cents. An unknown
// direction or an amount that is not positive is partner.ErrRefused.
func (r *Ramp) Fee(_ context.Context, direction string, cents money.Cents) (money.Cents, error) {
	switch direction {
	case rampOn, rampOff, rampWithdraw:
		return rampFee(cents, RampFee)
	}
	return 0, partner.ErrRefused
}

// rampFee returns the fee of an amount: a cent for each perCent cents begun. An amount that is not
// positive is partner.ErrRefused.
func rampFee(cents money.Cents, perCent string) (money.Cents, error) {
	if cents <= 0 {
		return 0, partner.ErrRefused
	}
	rate, err := money.ParseRate(perCent)
	if err != nil {
		return 0, err
	}
	fee, err := rate.Cost(money.USD, money.USD, cents.Minor())
	return fee.Cents(), err
}

// Link implements partner.Ramp: it stores the account of a workspace, synced. It fails with
// partner.ErrRefused for an empty id and when the workspace has another account, and with the
// store's error.
func (r *Ramp) Link(_ context.Context, account, workspaceID string) error {
	if account == "" || workspaceID == "" {
		return partner.ErrRefused
	}
	return r.saveOnce("l", workspaceID, account)
}

// Approve implements partner.Ramp: it stores the wallet, synced. It fails with partner.ErrRefused
// without an id or address, for an address that ends with WalletRefused, and when the id has
// another address. Else it fails with the store's error.
func (r *Ramp) Approve(_ context.Context, w partner.RampWallet) error {
	if w.ID == "" || w.Address == "" || strings.HasSuffix(strings.ToLower(w.Address), WalletRefused) {
		return partner.ErrRefused
	}
	return r.saveOnce("w", w.ID, w.Chain+" "+w.Address)
}

// saveOnce stores a text under a letter and an id, synced; the same text again is no error. It
// fails with partner.ErrRefused when they have another text, and with the store's error.
func (r *Ramp) saveOnce(letter, id, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, err := r.store.saveTextOnce(letter, id, text)
	if err != nil {
		return fmt.Errorf("sandbox ramp: %w", err)
	}
	if kept != text {
		return partner.ErrRefused
	}
	return nil
}

// Order implements partner.Ramp: it stores the order, synced. It fails with the errors of
// recordOrder, and by the ending of the amount without an answer.
func (r *Ramp) Order(_ context.Context, o partner.RampOrder) error {
	again, err := r.recordOrder(o)
	if err != nil {
		return err
	}
	switch o.AmountCents % 100 {
	case EndingNever, EndingAfterLapse:
		return errNoAnswer // at once: a caller that waited would hold a place that others wait for
	case EndingAnswersLost:
		if !again {
			return errNoAnswer
		}
	}
	return nil
}

// recordOrder stores a new order with its reports, or counts a repeat of a stored one (again),
// synced. It fails with the errors of checkOrder, with ErrFull at MaxOpen open orders, and with the
// store's error.
func (r *Ramp) recordOrder(o partner.RampOrder) (again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, again, err := r.store.loadOrder(o.ID)
	if err != nil {
		return again, fmt.Errorf("sandbox ramp: %w", err)
	}
	if again {
		more := old
		more.Ramp.Orders++
		return true, r.store.saveOrder(&old, &more)
	}
	if err := r.checkOrder(o); err != nil {
		return false, err
	}
	if r.openOrders >= MaxOpen {
		return false, partner.ErrFull
	}
	planned, err := planRamp(o, r.cfg.Clock(), r.cfg.Delay)
	if err != nil {
		return false, err
	}
	return false, r.addOrder(planned)
}

// checkOrder fails with partner.ErrRefused for an order that the ramp does not take: a malformed
// id, EndingRefused, an unlinked workspace, an unapproved wallet, or a MaxFeeCents below its fee.
// Else it fails with the store's error.
func (r *Ramp) checkOrder(o partner.RampOrder) error {
	if _, err := ident.Parse(rampIDPrefix(o.Direction), o.ID); err != nil || o.AmountCents%100 == EndingRefused {
		return partner.ErrRefused
	}
	fee, err := r.Fee(context.Background(), o.Direction, o.AmountCents)
	if err != nil || fee > o.MaxFeeCents || (o.Wallet != nil) != (o.Direction == rampWithdraw) {
		return partner.ErrRefused
	}
	account, err := r.store.loadText("l", o.WorkspaceID)
	if err != nil {
		return fmt.Errorf("sandbox ramp: %w", err)
	}
	if account == "" {
		return partner.ErrRefused
	}
	if o.Wallet == nil {
		return nil
	}
	wallet, err := r.store.loadText("w", o.Wallet.ID)
	if err != nil {
		return fmt.Errorf("sandbox ramp: %w", err)
	}
	if wallet != o.Wallet.Chain+" "+o.Wallet.Address {
		return partner.ErrRefused
	}
	return nil
}

// planRamp returns a new order with the fee and the reports by the ending of its amount. It fails
// for an amount that is not positive.
func planRamp(of partner.RampOrder, now time.Time, delay time.Duration) (order, error) {
	perCent := RampFee
	if of.AmountCents%100 == EndingCheaper {
		perCent = RampLowFee
	}
	fee, err := rampFee(of.AmountCents, perCent)
	o := order{Ramp: &rampOrder{RampOrder: of, Orders: 1, FeeCents: fee}}
	o.Ramp.Outcomes, o.Due = planOutcomes(of.AmountCents.Minor(), false, now, delay)
	o.Reports = len(o.Ramp.Outcomes)
	return o, err
}

// rampIDPrefix is the id prefix of orders of a direction.
func rampIDPrefix(direction string) string {
	if direction == rampWithdraw {
		return ident.Withdrawal
	}
	return ident.RampOrder
}

// rampReportTypes are the prefixes of report types by direction.
var rampReportTypes = map[string]string{rampOn: "onramp", rampOff: "offramp", rampWithdraw: "withdrawal"}

// rampReport is the data of a report. FeeCents and TxHash belong to completed orders.
type rampReport struct {
	OrderID  string       `json:"orderId"`
	FeeCents *money.Cents `json:"feeCents,omitempty"`
	TxHash   string       `json:"txHash,omitempty"`
}

// reportWith is the report that is due when left reports remain.
func (r *rampOrder) reportWith(left int) reportContent {
	eventType, data := rampReportTypes[r.Direction]+".failed", rampReport{OrderID: r.ID}
	if dueOutcome(r.Outcomes, left) == partner.Settled {
		eventType, data.FeeCents = rampReportTypes[r.Direction]+".completed", &r.FeeCents
		if r.Wallet != nil {
			data.TxHash = withdrawalTxHash(r.ID, r.Wallet.Chain)
		}
	}
	return reportContent{rampIDPrefix(r.Direction), "sandbox ramp " + eventType + " " + r.ID, eventType, data}
}

// withdrawalTxHash is the transaction hash of a withdrawal in the format of its chain.
func withdrawalTxHash(order, chain string) string {
	seed := []byte("sandbox ramp transaction|" + order)
	if chain == "solana" {
		signature := sha512.Sum512(seed)
		return base58.Encode(signature[:])
	}
	sum := sha256.Sum256(seed)
	return "0x" + hex.EncodeToString(sum[:])
}
