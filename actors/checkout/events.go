package checkout

import (
	"fmt"
	"slices"

	"purser/actors/decision"
	"purser/persistence/money"
)

// Created records a new link. The merchant's text is in RecordText only.
type Created struct {
	ID               string            `json:"id"`
	Workspace        string            `json:"workspace"`
	AmountUsdCents   money.Cents       `json:"amountUsdCents"`
	Assets           []string          `json:"assets"`
	Chains           []string          `json:"chains"`
	Pairs            []Pair            `json:"pairs"`
	Indexes          map[string]uint32 `json:"indexes"`
	Prices           map[string]string `json:"prices"`
	SettlementOption string            `json:"settlementOption"`
	Sandbox          bool              `json:"sandbox"`
	ToleranceCents   money.Cents       `json:"toleranceCents,omitempty"`
	ExpiresAt        decision.Stamp    `json:"expiresAt"`
	At               decision.Stamp    `json:"at"`
}

// Selected records the pair that the customer selected. From the first selection on, all of Pairs
// are watched.
type Selected struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Chosen    Pair           `json:"chosen"`
	Pairs     []Pair         `json:"pairs"`
	At        decision.Stamp `json:"at"`
}

// Cancelled records that the merchant ended the link.
type Cancelled struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// Moved records a change of the status.
type Moved struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	From      string         `json:"from"`
	To        string         `json:"to"`
	At        decision.Stamp `json:"at"`
}

// PaymentSeen records a payment found in a block: a new payment, or a known payment in another
// block. Payment has that one sighting.
type PaymentSeen struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Payment   Payment        `json:"payment"`
	At        decision.Stamp `json:"at"`
}

// PaymentConfirmed records a payment's confirmations in a block, scaled to ShownConfirmations. A
// withdrawn block becomes valid again.
type PaymentConfirmed struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Chain     string         `json:"chain"`
	TxHash    string         `json:"txHash"`
	Index     int            `json:"index"`
	BlockHash string         `json:"blockHash"`
	Shown     int            `json:"shown"`
	At        decision.Stamp `json:"at"`
}

// PaymentWithdrawn records that the chain dropped a block that held a payment.
type PaymentWithdrawn struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	Chain     string         `json:"chain"`
	TxHash    string         `json:"txHash"`
	Index     int            `json:"index"`
	BlockHash string         `json:"blockHash"`
	At        decision.Stamp `json:"at"`
}

// SessionCompleted records that the link is paid. AmountUsdCents is the amount of the link; the
// credit is AmountUsdCents less ShortfallCents, which the tolerance covers.
type SessionCompleted struct {
	ID             string         `json:"id"`
	Workspace      string         `json:"workspace"`
	From           string         `json:"from"`
	AmountUsdCents money.Cents    `json:"amountUsdCents"`
	ShortfallCents money.Cents    `json:"shortfallCents,omitempty"`
	TxHash         string         `json:"txHash"`
	PayerAddress   string         `json:"payerAddress"`
	Simulated      bool           `json:"simulated,omitempty"`
	At             decision.Stamp `json:"at"`
}

// SessionCredited records that the workspace's balance has the money. Webhooks announce this event,
// so that a receiver finds the credit when it looks. AmountUsdCents and ShortfallCents equal those
// of SessionCompleted.
type SessionCredited struct {
	ID             string         `json:"id"`
	Workspace      string         `json:"workspace"`
	AmountUsdCents money.Cents    `json:"amountUsdCents"`
	ShortfallCents money.Cents    `json:"shortfallCents,omitempty"`
	TxHash         string         `json:"txHash"`
	PayerAddress   string         `json:"payerAddress"`
	At             decision.Stamp `json:"at"`
}

// WatchEnded records that the session's addresses are no longer watched.
type WatchEnded struct {
	ID        string         `json:"id"`
	Workspace string         `json:"workspace"`
	At        decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (Created) EventType() string { return "checkout.created.v1" }

// EventType is the name the event is stored under.
func (Selected) EventType() string { return "checkout.selected.v1" }

// EventType is the name the event is stored under.
func (Cancelled) EventType() string { return "checkout.cancelled.v1" }

// EventType is the name the event is stored under.
func (Moved) EventType() string { return "checkout.moved.v1" }

// EventType is the name the event is stored under.
func (PaymentSeen) EventType() string { return "checkout.payment_seen.v1" }

// EventType is the name the event is stored under.
func (PaymentConfirmed) EventType() string { return "checkout.payment_confirmed.v1" }

// EventType is the name the event is stored under.
func (PaymentWithdrawn) EventType() string { return "checkout.payment_withdrawn.v1" }

// EventType is the name the event is stored under.
func (SessionCompleted) EventType() string { return "checkout.completed.v1" }

// EventType is the name the event is stored under.
func (SessionCredited) EventType() string { return "checkout.credited.v1" }

// EventType is the name the event is stored under.
func (WatchEnded) EventType() string { return "checkout.watch_ended.v1" }

// catalog has every version of every event.
var catalog = decision.NewCatalog("checkout", Created{}, Selected{}, Cancelled{}, Moved{}, PaymentSeen{},
	PaymentConfirmed{},
	PaymentWithdrawn{}, SessionCompleted{}, SessionCredited{}, WatchEnded{})

// DecodeEvent decodes an event of any version that this package ever stored. It fails for an
// unknown type and for a payload that does not decode.
func DecodeEvent(eventType string, payload []byte) (decision.Event, error) {
	return catalog.Decode(eventType, payload)
}

// Apply folds an event into the state. The actor of the checkout session calls it for each event
// that it decides; it loads the state from its record, not from events. It panics for an unknown
// event, and for a payment that the state lacks.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case Created:
		*s = State{ID: e.ID, Workspace: e.Workspace, Status: Pending, AmountUsdCents: e.AmountUsdCents,
			Assets: e.Assets,
			Chains: e.Chains, Pairs: e.Pairs, Prices: e.Prices, SettlementOption: e.SettlementOption,
			Sandbox:        e.Sandbox,
			ToleranceCents: e.ToleranceCents, CreatedAt: e.At, ExpiresAt: e.ExpiresAt}
	case Selected:
		chosen := e.Chosen
		s.Chosen, s.Watching, s.Status = &chosen, true, Awaiting
		s.Selections++
	case Cancelled:
		at := e.At
		s.CancelledAt = &at
	case Moved:
		s.Status = e.To
	case PaymentSeen:
		s.applySeen(e)
	case PaymentConfirmed:
		p := &s.Payments[s.Payments.inBlock(e.Chain, e.TxHash, e.Index, e.BlockHash)]
		sighting := &p.Sightings[p.sightingIndex(e.BlockHash)]
		sighting.Shown, sighting.Withdrawn = e.Shown, false
	case PaymentWithdrawn:
		p := &s.Payments[s.Payments.inBlock(e.Chain, e.TxHash, e.Index, e.BlockHash)]
		p.Sightings[p.sightingIndex(e.BlockHash)].Withdrawn = true
	case SessionCompleted:
		at := e.At
		s.Status, s.CompletedAt, s.TxHash, s.PayerAddress, s.Simulated = Completed, &at, e.TxHash, e.PayerAddress,
			e.Simulated
		s.ShortfallCents = e.ShortfallCents
	case SessionCredited:
		at := e.At
		s.CreditedAt = &at
	case WatchEnded:
		s.Watching = false
	default:
		panic(fmt.Sprintf("BUG: checkout event %T", e))
	}
}

// applySeen adds a payment, or another block of a known payment. Beyond MaxSightings it drops the
// oldest withdrawn block.
func (s *State) applySeen(e PaymentSeen) {
	i := s.Payments.matching(&e.Payment, e.Payment.Sightings[0].BlockHash)
	if i < 0 {
		s.Payments = append(s.Payments, e.Payment)
		return
	}
	p := &s.Payments[i]
	p.Sightings = append(p.Sightings, e.Payment.Sightings...)
	if len(p.Sightings) > MaxSightings {
		gone := slices.IndexFunc(p.Sightings, func(g Sighting) bool { return g.Withdrawn })
		p.Sightings = slices.Delete(p.Sightings, max(gone, 0), max(gone, 0)+1)
	}
}
