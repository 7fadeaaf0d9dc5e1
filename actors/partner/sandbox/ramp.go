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

// Terms of the ramp: the part of what is given that it keeps, rounded half-even to the cent. An order that ends in EndingCheaper
// costs RampLowFee; any other what was said to be the most.
const (
	RampFee       = "0.005"
	RampLowFee    = "0.0025"
	EndingCheaper = 88
)

// WalletRefused is the ending of an address, in capitals or not, that the ramp does not pay to.
const WalletRefused = "dead"

// Directions of orders, as partner.RampOrder names them.
const (
	rampOn       = "onramp"
	rampOff      = "offramp"
	rampWithdraw = "withdraw"
)

// Ramp is a partner.Ramp. The endings of a payment steer it too: EndingReturned is none of its, for what is done is done, and an
// order that ends in EndingNever or EndingAfterLapse is never answered, however often it is given.
type Ramp struct{ *office }

// rampOrder is an order, how often it was given, and what becomes of it: an outcome for each report that is sent.
type rampOrder struct {
	partner.RampOrder
	Orders   int                `json:"orders"`
	FeeCents int64              `json:"feeCents"`
	Outcomes []partner.Standing `json:"outcomes"`
}

// NewRamp opens the ramp's store. What becomes of an on-ramp goes to cfg.Report, of the others to off.
func NewRamp(cfg Config, off Reporter) (*Ramp, error) {
	if off == nil {
		return nil, errors.New("sandbox ramp: a Reporter of off-ramps is required")
	}
	o, err := openOffice(cfg, func(o *order) Reporter {
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

// Fee is the most that an order costs.
func (r *Ramp) Fee(_ context.Context, direction string, cents int64) (int64, error) {
	switch direction {
	case rampOn, rampOff, rampWithdraw:
		return rampFee(cents, RampFee)
	}
	return 0, partner.ErrRefused
}

// rampFee is that part of an amount; ErrRefused for an amount that has none.
func rampFee(cents int64, part string) (int64, error) {
	if cents <= 0 {
		return 0, partner.ErrRefused
	}
	rate, err := money.ParseRate(part)
	if err != nil {
		return 0, err
	}
	return rate.Proceeds(money.USD, money.USD, cents)
}

// Link keeps which account is a workspace's, synced. A workspace has one.
func (r *Ramp) Link(_ context.Context, account, workspaceID string) error {
	if account == "" || workspaceID == "" {
		return partner.ErrRefused
	}
	return r.settle("l"+workspaceID, account)
}

// Approve keeps the wallet, synced.
func (r *Ramp) Approve(_ context.Context, w partner.RampWallet) error {
	if w.ID == "" || w.Address == "" || strings.HasSuffix(strings.ToLower(w.Address), WalletRefused) {
		return partner.ErrRefused
	}
	return r.settle("w"+w.ID, w.Chain+" "+w.Address)
}

// settle keeps a text under a key; ErrRefused when another is kept there.
func (r *Ramp) settle(key, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, err := r.store.saveFact(key, text)
	if err != nil {
		return fmt.Errorf("sandbox ramp: %w", err)
	}
	if kept != text {
		return partner.ErrRefused
	}
	return nil
}

// Order takes the order, synced. It refuses a workspace that is not linked, a wallet that is not approved, and a most that is
// under its fee.
func (r *Ramp) Order(ctx context.Context, o partner.RampOrder) error {
	again, err := r.take(o)
	if err != nil {
		return err
	}
	switch o.AmountCents % 100 {
	case EndingNever, EndingAfterLapse:
		<-ctx.Done()
		return ctx.Err()
	case EndingAnswersLost:
		if !again {
			return errLost
		}
	}
	return nil
}

func (r *Ramp) take(o partner.RampOrder) (again bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, again, err := r.store.load(o.ID)
	if err != nil {
		return again, fmt.Errorf("sandbox ramp: %w", err)
	}
	if again {
		more := old
		more.Ramp.Orders++
		return true, r.store.save(&old, &more)
	}
	if err := r.accepts(o); err != nil {
		return false, err
	}
	if r.open >= MaxOpen {
		return false, partner.ErrFull
	}
	planned, err := planRamp(o, r.cfg.Clock(), r.cfg.Delay)
	if err != nil {
		return false, err
	}
	return false, r.keep(planned)
}

// accepts refuses what the ramp does not do.
func (r *Ramp) accepts(o partner.RampOrder) error {
	if _, err := ident.Parse(rampPrefix(o.Direction), o.ID); err != nil || o.AmountCents%100 == EndingRefused {
		return partner.ErrRefused
	}
	fee, err := r.Fee(context.Background(), o.Direction, o.AmountCents)
	if err != nil || fee > o.MaxFeeCents || (o.Wallet != nil) != (o.Direction == rampWithdraw) {
		return partner.ErrRefused
	}
	account, err := r.store.fact("l" + o.WorkspaceID)
	if err != nil {
		return fmt.Errorf("sandbox ramp: %w", err)
	}
	if account == "" {
		return partner.ErrRefused
	}
	if o.Wallet == nil {
		return nil
	}
	wallet, err := r.store.fact("w" + o.Wallet.ID)
	if err != nil {
		return fmt.Errorf("sandbox ramp: %w", err)
	}
	if wallet != o.Wallet.Chain+" "+o.Wallet.Address {
		return partner.ErrRefused
	}
	return nil
}

// planRamp decides what the ramp will do about an order.
func planRamp(of partner.RampOrder, now time.Time, delay time.Duration) (order, error) {
	part := RampFee
	if of.AmountCents%100 == EndingCheaper {
		part = RampLowFee
	}
	fee, err := rampFee(of.AmountCents, part)
	o := order{Ramp: &rampOrder{RampOrder: of, Orders: 1, FeeCents: fee}}
	o.Ramp.Outcomes, o.Due = planned(of.AmountCents, false, now, delay)
	o.Reports = len(o.Ramp.Outcomes)
	return o, err
}

// rampPrefix is that of the ids of orders of a direction.
func rampPrefix(direction string) string {
	if direction == rampWithdraw {
		return ident.Withdrawal
	}
	return ident.RampOrder
}

// rampEvents are what reports call orders of a direction.
var rampEvents = map[string]string{rampOn: "onramp", rampOff: "offramp", rampWithdraw: "withdrawal"}

// rampReport is what a report says of an order. A fee and a transaction are those of one that is done.
type rampReport struct {
	OrderID  string `json:"orderId"`
	FeeCents *int64 `json:"feeCents,omitempty"`
	TxHash   string `json:"txHash,omitempty"`
}

// news is what the report says that is due when so many are left.
func (r *rampOrder) news(left int) news {
	eventType, data := rampEvents[r.Direction]+".failed", rampReport{OrderID: r.ID}
	if outcome(r.Outcomes, left) == partner.Settled {
		eventType, data.FeeCents = rampEvents[r.Direction]+".completed", &r.FeeCents
		if r.Wallet != nil {
			data.TxHash = transactionOf(r.ID, r.Wallet.Chain)
		}
	}
	return news{rampPrefix(r.Direction), "sandbox ramp " + eventType + " " + r.ID, eventType, data}
}

// transactionOf names the transaction of a withdrawal as its chain would.
func transactionOf(order, chain string) string {
	seed := []byte("sandbox ramp transaction|" + order)
	if chain == "solana" {
		signature := sha512.Sum512(seed)
		return base58.Encode(signature[:])
	}
	sum := sha256.Sum256(seed)
	return "0x" + hex.EncodeToString(sum[:])
}
