package checkout

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"time"

	"purser/actors/decision"
	"purser/persistence/money"
)

// Reasons for which a payment does not count. A payment that counts has none.
const (
	WrongToken  = "wrong_token"  // a token that the link has no name for, such as a bridged look-alike
	NotAccepted = "not_accepted" // a coin and network that the link does not accept
	TooSmall    = "too_small"    // less than a cent
	TooLate     = "too_late"     // sent after the end, or found more than Grace after it
)

// Payment is a transfer to one of the session's addresses. Chain, TxHash, Index and a block
// identify it: on EVM chains an index counts within its block, and can be another transfer's in
// another block.
type Payment struct {
	Chain     string         `json:"chain"`
	Asset     string         `json:"asset"`
	Address   string         `json:"address"`
	TxHash    string         `json:"txHash"`
	Index     int            `json:"index"` // index within its transaction
	Units     string         `json:"units"` // decimal number of smallest units
	From      string         `json:"from,omitempty"`
	SentAt    decision.Stamp `json:"sentAt"`
	SeenAt    decision.Stamp `json:"seenAt"`
	Reason    string         `json:"reason,omitempty"` // reason for which it does not count
	Sightings []Sighting     `json:"sightings"`
}

// Sighting is a block that holds a payment. A reorganisation leaves several, of which the chain
// keeps at most one.
type Sighting struct {
	BlockHash string `json:"blockHash"`
	Block     uint64 `json:"block"`
	Shown     int    `json:"shown"` // confirmations, scaled to ShownConfirmations
	Withdrawn bool   `json:"withdrawn,omitempty"`
}

// paymentList is the payments of a session, in the order of their first observation.
type paymentList []Payment

// Live reports whether a block of the chain holds the payment.
func (p *Payment) Live() bool {
	return slices.ContainsFunc(p.Sightings, func(s Sighting) bool { return !s.Withdrawn })
}

// Shown returns the payment's confirmations, scaled to ShownConfirmations; 0 when no block holds
// it.
func (p *Payment) Shown() int {
	most := 0
	for _, s := range p.Sightings {
		if !s.Withdrawn {
			most = max(most, s.Shown)
		}
	}
	return most
}

// Confirmed reports whether the payment is final on its chain.
func (p *Payment) Confirmed() bool { return p.Shown() >= ShownConfirmations }

// Received reports whether the payment is money that the merchant has, whether or not it counts.
func (p *Payment) Received() bool { return p.Live() && !p.isStray() }

// isCounted reports whether the payment can complete the link.
func (p *Payment) isCounted() bool { return p.Reason == "" && p.Live() }

// IsLate reports whether the payment is money that came too late to count.
func (p *Payment) IsLate() bool { return p.Reason == TooLate && p.Live() }

// isStray reports whether the payment is worthless to the link.
func (p *Payment) isStray() bool { return p.Reason != "" && p.Reason != TooLate }

func (p *Payment) sightingIndex(blockHash string) int {
	return slices.IndexFunc(p.Sightings, func(s Sighting) bool { return s.BlockHash == blockHash })
}

// inBlock returns the index of the payment that was observed in a block, or -1.
func (l paymentList) inBlock(chain, txHash string, index int, blockHash string) int {
	return slices.IndexFunc(l, func(p Payment) bool {
		return p.Chain == chain && p.TxHash == txHash && p.Index == index && p.sightingIndex(blockHash) >= 0
	})
}

// matching returns the index of the payment that was observed in this block or, with equal
// contents, in another block, or -1.
func (l paymentList) matching(q *Payment, blockHash string) int {
	if i := l.inBlock(q.Chain, q.TxHash, q.Index, blockHash); i >= 0 {
		return i
	}
	return slices.IndexFunc(l, func(p Payment) bool {
		return p.Chain == q.Chain && p.TxHash == q.TxHash && p.Index == q.Index && p.Asset == q.Asset &&
			p.Address == q.Address &&
			p.Units == q.Units
	})
}

// Money is the amount received, the late part of it, and the amount due. The status is independent
// of all three.
type Money struct {
	// ReceivedCents is the worth of all payments in accepted coins that the chains hold, including
	// late and unconfirmed ones.
	ReceivedCents money.Cents
	// LateCents is the part of ReceivedCents that came too late to count.
	LateCents money.Cents
	// DueCents is the amount asked less the part that counts, negative after an overpayment. An
	// accepted shortfall is not due, and nothing is due of a simulated payment.
	DueCents money.Cents
}

// Money returns the sums over the payments. It panics only for a stored amount that is not a
// number.
func (s *State) Money() Money {
	counted, late := s.worthCents((*Payment).isCounted), s.worthCents((*Payment).IsLate)
	due := s.AmountUsdCents - counted
	switch {
	case due > 0 && s.Simulated:
		due = 0
	case due > 0:
		due = max(0, due-s.ShortfallCents)
	}
	return Money{ReceivedCents: min(money.MaxAmount, counted+late), LateCents: late, DueCents: due}
}

// worthCents returns the worth of the selected payments in cents. It adds the units of each asset
// first and rounds down once. The result is at most money.MaxAmount. It panics for an asset without
// a price.
func (s *State) worthCents(which func(*Payment) bool) money.Cents {
	units := map[string]*big.Int{}
	for i := range s.Payments {
		p := &s.Payments[i]
		if !which(p) {
			continue
		}
		sum := units[p.Asset]
		if sum == nil {
			sum = new(big.Int)
			units[p.Asset] = sum
		}
		sum.Add(sum, parseUnits(p.Units))
	}
	total := money.Cents(0)
	for asset, sum := range units {
		total = min(money.MaxAmount, total+s.centsOf(asset, sum))
	}
	return total
}

// parseUnits parses the units of a stored payment. It panics for a text that is no number.
func parseUnits(text string) *big.Int {
	units, ok := new(big.Int).SetString(text, 10)
	if !ok {
		panic("BUG: units that are not a number")
	}
	return units
}

// centsOf returns the worth of units of an asset in cents, rounded down, at most money.MaxAmount.
// It panics for an asset without a price.
func (s *State) centsOf(asset string, units *big.Int) money.Cents {
	worth := new(big.Rat).Mul(new(big.Rat).SetInt(units), centsPerUnit(s.Prices, asset))
	cents := new(big.Int).Quo(worth.Num(), worth.Denom())
	if most := big.NewInt(int64(money.MaxAmount)); cents.Cmp(most) > 0 {
		return money.MaxAmount
	}
	return money.Cents(cents.Int64())
}

// sendableDecimals is the number of decimals of a coin that a person can send: wallets and
// exchanges round ether to 8 of its 18.
const sendableDecimals = 8

// UnitsOf returns the smallest units of an asset that pay an amount, rounded up to sendableDecimals
// of the coin. It panics for an asset without a price in the link.
func (s *State) UnitsOf(asset string, cents money.Cents) *big.Int {
	step := powerOfTen(max(0, unitDecimals(asset)-sendableDecimals))
	steps := new(big.Rat).Quo(new(big.Rat).SetInt64(int64(cents)), centsPerUnit(s.Prices, asset))
	steps.Quo(steps, new(big.Rat).SetInt(step))
	up := new(big.Int).Sub(steps.Denom(), big.NewInt(1))
	return up.Mul(up.Quo(up.Add(up, steps.Num()), steps.Denom()), step)
}

// CoinsOf formats smallest units of an asset in whole coins: "25.5". It never fails. selectPair,
// the hosted page and the receipt call it.
func CoinsOf(asset string, units *big.Int) string {
	text := new(big.Rat).SetFrac(units, powerOfTen(unitDecimals(asset))).FloatString(int(unitDecimals(asset)))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// centsPerUnit returns the exact worth of a smallest unit in cents, by the prices of priced assets.
// It panics for a priced asset without a price above zero.
func centsPerUnit(prices map[string]string, asset string) *big.Rat {
	price := "1"
	if Priced(asset) {
		price = prices[asset]
	}
	dollars, ok := new(big.Rat).SetString(price)
	if !ok || dollars.Sign() <= 0 {
		panic("BUG: no price of " + asset)
	}
	return dollars.Mul(dollars, new(big.Rat).SetFrac(big.NewInt(100), powerOfTen(unitDecimals(asset))))
}

func powerOfTen(of int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(of), nil) }

// paymentTotals sums the counted payments.
type paymentTotals struct {
	live, unconfirmed int
	confirmedCents    money.Cents
}

// totalPayments counts the payments that count for the link and sums those that are confirmed. It
// panics for an asset without a price.
func (s *State) totalPayments() paymentTotals {
	st := paymentTotals{confirmedCents: s.worthCents(func(p *Payment) bool { return p.isCounted() && p.Confirmed() })}
	for i := range s.Payments {
		if p := &s.Payments[i]; p.isCounted() {
			st.live++
			if !p.Confirmed() {
				st.unconfirmed++
			}
		}
	}
	return st
}

// paidPair returns the pair of the payment that completed the link; else of the first payment that
// counts; else of the first late one; else of the first that its chain withdrew. It is nil without
// a payment.
func (s *State) paidPair() *Pair {
	completed := func(p *Payment) bool { return p.Reason == "" && p.TxHash == s.TxHash }
	known := func(p *Payment) bool { return !p.isStray() }
	for _, isPaid := range []func(*Payment) bool{completed, (*Payment).isCounted, (*Payment).IsLate,
		known} {
		for i := range s.Payments {
			if p := &s.Payments[i]; isPaid(p) {
				return &Pair{Asset: p.Asset, Chain: p.Chain, Address: p.Address}
			}
		}
	}
	return nil
}

// Pair returns the pair that was paid. Before a payment it is the pair that the customer selected
// last, nil before a selection.
func (s *State) Pair() *Pair { return cmp.Or(s.paidPair(), s.Chosen) }

// hasWithdrawn reports whether a payment that counted is in no block of its chain now.
func (l paymentList) hasWithdrawn() bool {
	return slices.ContainsFunc(l, func(p Payment) bool { return p.Reason == "" && !p.Live() })
}

// Confirmations returns the least confirmations among the counted payments, scaled to
// ShownConfirmations; 0 without a payment.
func (s *State) Confirmations() int {
	if s.Status == Completed {
		return ShownConfirmations
	}
	least, counted := ShownConfirmations, false
	for i := range s.Payments {
		if p := &s.Payments[i]; p.isCounted() {
			least, counted = min(least, p.Shown()), true
		}
	}
	if !counted {
		return 0
	}
	return least
}

// rejectionReason returns the reason for which a payment first observed at a time does not count,
// or "". It panics for an accepted asset without a price.
func (s *State) rejectionReason(o Observed, units *big.Int, at time.Time) string {
	_, accepted := s.pairOf(o.Asset, o.Chain)
	switch {
	case !slices.Contains(Assets(), o.Asset):
		return WrongToken
	case !accepted:
		return NotAccepted
	case s.centsOf(o.Asset, units) == 0:
		return TooSmall
	case at.Before(s.End()): // the chain's own clock does not matter
		return ""
	case o.At.After(s.End()), at.After(s.End().Add(Grace)):
		return TooLate
	}
	return ""
}
