package checkout

import (
	"maps"
	"slices"
	"time"

	"purser/actors/decision"
	"purser/persistence/money"
)

// View is a session as the merchant sees it, without the merchant's text.
type View struct {
	ID                 string            `json:"id"`
	Status             string            `json:"status"`
	AmountUsdCents     money.Cents       `json:"amountUsdCents"`
	ReceivedUsdCents   money.Cents       `json:"receivedUsdCents"`
	LateUsdCents       money.Cents       `json:"lateUsdCents"` // received, and does not count
	DueUsdCents        money.Cents       `json:"dueUsdCents"`
	ToleranceUsdCents  money.Cents       `json:"toleranceUsdCents"`
	ShortfallUsdCents  money.Cents       `json:"shortfallUsdCents"` // accepted; the credit is the amount less this
	AcceptedAssets     []string          `json:"acceptedAssets"`
	AcceptedChains     []string          `json:"acceptedChains"`
	ReceivingAddresses []Pair            `json:"receivingAddresses"`
	Asset              *string           `json:"asset"` // the pair of State.Pair
	Chain              *string           `json:"chain"`
	Address            *string           `json:"address"`
	Prices             map[string]string `json:"prices"`
	SettlementOption   string            `json:"settlementOption"`
	Confirmations      Confirmed         `json:"confirmations"`
	Payments           []PaymentView     `json:"payments"`
	TxHash             *string           `json:"txHash"`
	PayerAddress       *string           `json:"payerAddress"`
	Cancelled          bool              `json:"cancelled"`
	Simulated          bool              `json:"simulated"`
	Sandbox            bool              `json:"sandbox"`
	CreatedAt          decision.Stamp    `json:"createdAt"`
	ExpiresAt          decision.Stamp    `json:"expiresAt"`
	CompletedAt        *decision.Stamp   `json:"completedAt"`
}

// Confirmed is a number of confirmations out of ShownConfirmations.
type Confirmed struct {
	Seen int `json:"seen"`
	Of   int `json:"of"`
}

// Shown statuses of a payment.
const (
	PaymentConfirming = "confirming"
	PaymentDone       = "confirmed"
	PaymentGone       = "withdrawn"
)

// PaymentView is a payment as the merchant sees it. Reason is set when it does not count.
type PaymentView struct {
	Asset         string         `json:"asset"`
	Chain         string         `json:"chain"`
	TxHash        string         `json:"txHash"`
	Index         int            `json:"index"`
	Units         string         `json:"units"`
	From          *string        `json:"from"`
	Status        string         `json:"status"`
	Confirmations Confirmed      `json:"confirmations"`
	Reason        *string        `json:"reason"`
	SentAt        decision.Stamp `json:"sentAt"`
	SeenAt        decision.Stamp `json:"seenAt"`
}

// View returns the session at a time. A cancelled link ended when it was cancelled. decision.Read
// replies it, for the merchant's routes of a session.
func (s *State) View(now time.Time) View {
	sums := s.Money()
	v := View{ID: s.ID, Status: s.StatusAt(now), AmountUsdCents: s.AmountUsdCents,
		ReceivedUsdCents: sums.ReceivedCents, LateUsdCents: sums.LateCents,
		DueUsdCents: sums.DueCents, ToleranceUsdCents: s.ToleranceCents, ShortfallUsdCents: s.ShortfallCents,
		AcceptedAssets: slices.Clone(s.Assets), AcceptedChains: slices.Clone(s.Chains),
		ReceivingAddresses: append([]Pair{}, s.Pairs...), Prices: maps.Clone(s.Prices),
		SettlementOption: s.SettlementOption,
		Confirmations:    Confirmed{s.Confirmations(), ShownConfirmations}, Payments: []PaymentView{},
		TxHash:       nullable(s.TxHash),
		PayerAddress: nullable(s.PayerAddress), Cancelled: s.CancelledAt != nil, Simulated: s.Simulated,
		Sandbox:   s.Sandbox,
		CreatedAt: s.CreatedAt, ExpiresAt: decision.StampOf(s.End()), CompletedAt: s.CompletedAt}
	if v.Prices == nil {
		v.Prices = map[string]string{}
	}
	if pair := s.Pair(); pair != nil {
		v.Asset, v.Chain, v.Address = &pair.Asset, &pair.Chain, &pair.Address
	}
	for i := range s.Payments {
		v.Payments = append(v.Payments, s.Payments[i].paymentView())
	}
	return v
}

// paymentView returns the payment as the merchant sees it: confirming, confirmed or withdrawn.
func (p *Payment) paymentView() PaymentView {
	v := PaymentView{Asset: p.Asset, Chain: p.Chain, TxHash: p.TxHash, Index: p.Index, Units: p.Units,
		From:   nullable(p.From),
		Status: PaymentConfirming, Confirmations: Confirmed{p.Shown(), ShownConfirmations}, Reason: nullable(p.Reason),
		SentAt: p.SentAt, SeenAt: p.SeenAt}
	switch {
	case !p.Live():
		v.Status = PaymentGone
	case p.Confirmed():
		v.Status = PaymentDone
	}
	return v
}

func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// CustomerView is the part of a session that every holder of the link may see.
type CustomerView struct {
	Status             string          `json:"status"`
	AcceptedAssets     []string        `json:"acceptedAssets"`
	AcceptedChains     []string        `json:"acceptedChains"`
	ReceivingAddresses []Pair          `json:"receivingAddresses"` // pairs that can still be paid
	Asset              *string         `json:"asset"`              // the pair that was paid
	Chain              *string         `json:"chain"`
	Address            *string         `json:"address"`
	AmountUsdCents     money.Cents     `json:"amountUsdCents"`
	ReceivedUsdCents   money.Cents     `json:"receivedUsdCents"`
	LateUsdCents       money.Cents     `json:"lateUsdCents"`
	DueUsdCents        money.Cents     `json:"dueUsdCents"`
	Confirmations      Confirmed       `json:"confirmations"`
	Sandbox            bool            `json:"sandbox"`
	Cancelled          bool            `json:"cancelled"`
	ExpiresAt          decision.Stamp  `json:"expiresAt"`
	CompletedAt        *decision.Stamp `json:"completedAt"`
}

// CustomerView returns the part of View that the session's payer sees.
func (s *State) CustomerView(now time.Time) CustomerView {
	all := s.View(now)
	v := CustomerView{Status: all.Status, AcceptedAssets: all.AcceptedAssets,
		AcceptedChains: all.AcceptedChains, ReceivingAddresses: []Pair{},
		AmountUsdCents: all.AmountUsdCents, ReceivedUsdCents: all.ReceivedUsdCents,
		LateUsdCents: all.LateUsdCents, DueUsdCents: all.DueUsdCents,
		Confirmations: all.Confirmations, Sandbox: all.Sandbox,
		Cancelled: all.Cancelled && all.Status == Expired, ExpiresAt: all.ExpiresAt,
		CompletedAt: all.CompletedAt}
	if !s.Ended(now) && s.Status != Completed {
		v.ReceivingAddresses = all.ReceivingAddresses
	}
	if s.paidPair() != nil {
		v.Asset, v.Chain, v.Address = all.Asset, all.Chain, all.Address
	}
	return v
}
