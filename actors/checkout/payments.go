package checkout

import (
	"math/big"
	"slices"
	"strings"
	"time"

	"purser/actors/decision"
	"purser/persistence/money"
)

// Why a payment does not count. One that does has none.
const (
	WrongToken  = "wrong_token"  // a token that the link knows no name of, a bridged look-alike for one
	NotAccepted = "not_accepted" // a coin on a network that the link does not accept
	TooSmall    = "too_small"    // less than a cent
	TooLate     = "too_late"     // sent after the end, or found more than Grace after it
)

// Payment is a transfer to one of the session's addresses. Chain, TxHash and Index name it, together with a block that holds it:
// on EVM chains an index counts within its block, and may be another transfer's in another block.
type Payment struct {
	Chain     string         `json:"chain"`
	Asset     string         `json:"asset"`
	Address   string         `json:"address"`
	TxHash    string         `json:"txHash"`
	Index     int            `json:"index"` // within its transaction
	Units     string         `json:"units"` // whole smallest units
	From      string         `json:"from,omitempty"`
	SentAt    decision.Stamp `json:"sentAt"`
	SeenAt    decision.Stamp `json:"seenAt"`
	Reason    string         `json:"reason,omitempty"` // why it does not count
	Sightings []Sighting     `json:"sightings"`
}

// Sighting is a block that holds a payment. After a reorganisation there may be several, of which the chain has kept one at most.
type Sighting struct {
	BlockHash string `json:"blockHash"`
	Block     uint64 `json:"block"`
	Shown     int    `json:"shown"` // confirmations out of ShownConfirmations
	Withdrawn bool   `json:"withdrawn,omitempty"`
}

// Live says whether a block of the chain holds the payment.
func (p *Payment) Live() bool {
	return slices.ContainsFunc(p.Sightings, func(s Sighting) bool { return !s.Withdrawn })
}

// Shown is how far the payment is confirmed, out of ShownConfirmations.
func (p *Payment) Shown() int {
	most := 0
	for _, s := range p.Sightings {
		if !s.Withdrawn {
			most = max(most, s.Shown)
		}
	}
	return most
}

// Confirmed says that the chain will keep the payment.
func (p *Payment) Confirmed() bool { return p.Shown() >= ShownConfirmations }

// Received reports whether the payment is money that the merchant has, whether or not it counts.
func (p *Payment) Received() bool { return p.Live() && !p.stray() }

// counts says whether the payment can complete the link.
func (p *Payment) counts() bool { return p.Reason == "" && p.Live() }

// stray says whether the payment is worth nothing to the link.
func (p *Payment) stray() bool { return p.Reason != "" && p.Reason != TooLate }

func (p *Payment) sighting(blockHash string) int {
	return slices.IndexFunc(p.Sightings, func(s Sighting) bool { return s.BlockHash == blockHash })
}

// paymentIn is where the payment is that a block was seen to hold; -1 when there is none.
func (s *State) paymentIn(chain, txHash string, index int, blockHash string) int {
	return slices.IndexFunc(s.Payments, func(p Payment) bool {
		return p.Chain == chain && p.TxHash == txHash && p.Index == index && p.sighting(blockHash) >= 0
	})
}

// paymentOf is where a payment is that was seen in this block or another; -1 when it was in none.
func (s *State) paymentOf(q *Payment, blockHash string) int {
	if i := s.paymentIn(q.Chain, q.TxHash, q.Index, blockHash); i >= 0 {
		return i
	}
	return slices.IndexFunc(s.Payments, func(p Payment) bool {
		return p.Chain == q.Chain && p.TxHash == q.TxHash && p.Index == q.Index && p.Asset == q.Asset && p.Address == q.Address &&
			p.Units == q.Units
	})
}

// Money is what was received and what is due. It says nothing of the status.
type Money struct {
	// ReceivedCents is what the chains hold of what was paid in accepted coins, late payments and unconfirmed ones included.
	ReceivedCents int64
	// DueCents is the amount asked less ReceivedCents; negative when more was paid. An accepted
	// shortfall is not due.
	DueCents int64
}

// Money adds the payments up.
func (s *State) Money() Money {
	received := s.worth((*Payment).Received)
	due := s.AmountUsdCents - received
	if due > 0 {
		due = max(0, due-s.ShortfallCents)
	}
	return Money{ReceivedCents: received, DueCents: due}
}

// worth is what payments are worth in cents: the units of each asset are added first and rounded down once. It stays below
// money.MaxAmount.
func (s *State) worth(which func(*Payment) bool) int64 {
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
		sum.Add(sum, wholeUnits(p.Units))
	}
	total := int64(0)
	for asset, sum := range units {
		total = min(money.MaxAmount, total+s.centsOf(asset, sum))
	}
	return total
}

// wholeUnits reads what an observation's check has let through.
func wholeUnits(text string) *big.Int {
	units, ok := new(big.Int).SetString(text, 10)
	if !ok {
		panic("BUG: units that are no number")
	}
	return units
}

// centsOf is what units of an asset are worth, rounded down; money.MaxAmount when it is more.
func (s *State) centsOf(asset string, units *big.Int) int64 {
	worth := new(big.Rat).Mul(new(big.Rat).SetInt(units), s.centsPerUnit(asset))
	cents := new(big.Int).Quo(worth.Num(), worth.Denom())
	if most := big.NewInt(money.MaxAmount); cents.Cmp(most) > 0 {
		return money.MaxAmount
	}
	return cents.Int64()
}

// sendableDecimals is how many decimals of a coin a person can send: wallets and exchanges round
// ether to 8 of its 18.
const sendableDecimals = 8

// UnitsOf is how many smallest units of an asset pay an amount, rounded up to sendableDecimals of
// the coin.
func (s *State) UnitsOf(asset string, cents int64) *big.Int {
	step := power(max(0, decimals(asset)-sendableDecimals))
	steps := new(big.Rat).Quo(new(big.Rat).SetInt64(cents), s.centsPerUnit(asset))
	steps.Quo(steps, new(big.Rat).SetInt(step))
	up := new(big.Int).Sub(steps.Denom(), big.NewInt(1))
	return up.Mul(up.Quo(up.Add(up, steps.Num()), steps.Denom()), step)
}

// CoinsOf writes smallest units of an asset in whole coins: "25.5".
func CoinsOf(asset string, units *big.Int) string {
	text := new(big.Rat).SetFrac(units, power(decimals(asset))).FloatString(int(decimals(asset)))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// centsPerUnit is exact.
func (s *State) centsPerUnit(asset string) *big.Rat {
	price := "1"
	if Priced(asset) {
		price = s.Prices[asset]
	}
	dollars, ok := new(big.Rat).SetString(price)
	if !ok || dollars.Sign() <= 0 {
		panic("BUG: no price of " + asset)
	}
	return dollars.Mul(dollars, new(big.Rat).SetFrac(big.NewInt(100), power(decimals(asset))))
}

func power(of int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(of), nil) }

// standing is what the payments that count add up to.
type standing struct {
	live, unconfirmed int
	confirmedCents    int64
}

func (s *State) standing() standing {
	st := standing{confirmedCents: s.worth(func(p *Payment) bool { return p.counts() && p.Confirmed() })}
	for i := range s.Payments {
		if p := &s.Payments[i]; p.counts() {
			st.live++
			if !p.Confirmed() {
				st.unconfirmed++
			}
		}
	}
	return st
}

// misses says whether a payment that counted is in no block of its chain now.
func (s *State) misses() bool {
	return slices.ContainsFunc(s.Payments, func(p Payment) bool { return p.Reason == "" && !p.Live() })
}

// Confirmations is how far the least confirmed of the payments that count is, out of ShownConfirmations.
func (s *State) Confirmations() int {
	if s.Status == Completed {
		return ShownConfirmations
	}
	least, counted := ShownConfirmations, false
	for i := range s.Payments {
		if p := &s.Payments[i]; p.counts() {
			least, counted = min(least, p.Shown()), true
		}
	}
	if !counted {
		return 0
	}
	return least
}

// reasonOf says why a payment of an observation that is new at a time does not count; "" when it does.
func (s *State) reasonOf(o Observed, units *big.Int, at time.Time) string {
	_, accepted := s.pair(o.Asset, o.Chain)
	switch {
	case !slices.Contains(Assets(), o.Asset):
		return WrongToken
	case !accepted:
		return NotAccepted
	case s.centsOf(o.Asset, units) == 0:
		return TooSmall
	case at.Before(s.End()): // whatever the clock of the chain says
		return ""
	case o.At.After(s.End()), at.After(s.End().Add(Grace)):
		return TooLate
	}
	return ""
}
