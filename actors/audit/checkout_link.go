package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"purser/persistence"
	"purser/persistence/money"
)

// maxSightings is the number of blocks that a payment's state lists.
const maxSightings = 4

// confirmedShown is the number of shown confirmations of a final payment.
const confirmedShown = 3

// These structs are a checkout session by its events, in cents. Its record has the same
// members.
type (
	checkoutLink struct {
		linkTerms
		Status   string        `json:"status"`
		Payments []linkPayment `json:"payments"`
		linkCompletion
		linkTimes
	}
	// linkTerms are fixed at the creation. Prices are dollars per coin.
	linkTerms struct {
		AmountUsdCents money.Cents       `json:"amountUsdCents"`
		ToleranceCents money.Cents       `json:"toleranceCents"`
		Pairs          []linkPair        `json:"pairs"`
		Prices         map[string]string `json:"prices"`
		CreatedAt      string            `json:"createdAt"`
		ExpiresAt      string            `json:"expiresAt"`
	}
	linkPair struct {
		Asset   string `json:"asset"`
		Chain   string `json:"chain"`
		Address string `json:"address"`
	}
	linkCompletion struct {
		ShortfallCents money.Cents `json:"shortfallCents"`
		TxHash         string      `json:"txHash"`
		PayerAddress   string      `json:"payerAddress"`
		Simulated      bool        `json:"simulated"`
	}
	linkTimes struct {
		CancelledAt string `json:"cancelledAt"`
		CompletedAt string `json:"completedAt"`
		CreditedAt  string `json:"creditedAt"`
	}
	// linkPayment is an observed transfer. Units are smallest units of its asset. A payment with a
	// Reason does not count.
	linkPayment struct {
		Chain     string         `json:"chain"`
		Asset     string         `json:"asset"`
		Address   string         `json:"address"`
		TxHash    string         `json:"txHash"`
		Index     int            `json:"index"`
		Units     string         `json:"units"`
		From      string         `json:"from"`
		SentAt    string         `json:"sentAt"`
		SeenAt    string         `json:"seenAt"`
		Reason    string         `json:"reason"`
		Sightings []linkSighting `json:"sightings"`
	}
	linkSighting struct {
		BlockHash string `json:"blockHash"`
		Block     uint64 `json:"block"`
		Shown     int    `json:"shown"`
		Withdrawn bool   `json:"withdrawn"`
	}
)

func (b *shardTotals) linkOf(session string) *checkoutLink {
	l := b.links[session]
	if l == nil {
		l = &checkoutLink{}
		b.links[session] = l
	}
	return l
}

// paymentSeen folds a payment that was found in a block: a new one, or a known one in another
// block. Beyond maxSightings the oldest withdrawn block is dropped. It fails when the payload does
// not decode.
func (b *shardTotals) paymentSeen(e *persistence.Event) error {
	var p struct{ Payment linkPayment }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	if len(p.Payment.Sightings) != 1 {
		b.expectEqual("checkout", e.Stream, "blocks of an observed payment", 1, len(p.Payment.Sightings))
		return nil
	}
	l := b.linkOf(e.Stream)
	known := l.paymentInBlock(&p.Payment, p.Payment.Sightings[0].BlockHash)
	if known == nil {
		known = l.paymentWithContents(&p.Payment)
	}
	if known == nil {
		l.Payments = append(l.Payments, p.Payment)
		return nil
	}
	known.Sightings = append(known.Sightings, p.Payment.Sightings[0])
	if len(known.Sightings) > maxSightings {
		dropped := max(0, slices.IndexFunc(known.Sightings, func(s linkSighting) bool { return s.Withdrawn }))
		known.Sightings = slices.Delete(known.Sightings, dropped, dropped+1)
	}
	return nil
}

// sightingChanged folds a change of the block that holds a payment. A block without the payment is
// a finding. It fails when the payload does not decode.
func (b *shardTotals) sightingChanged(e *persistence.Event, change func(s *linkSighting, shown int)) error {
	var p struct {
		linkPayment
		BlockHash string
		Shown     int
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	known := b.linkOf(e.Stream).paymentInBlock(&p.linkPayment, p.BlockHash)
	if known == nil {
		b.expectEqual("checkout", e.Stream, "payment in block "+p.BlockHash, p.TxHash, "missing")
		return nil
	}
	change(&known.Sightings[known.sightingIndex(p.BlockHash)], p.Shown)
	return nil
}

func (p *linkPayment) sightingIndex(blockHash string) int {
	return slices.IndexFunc(p.Sightings, func(s linkSighting) bool { return s.BlockHash == blockHash })
}

// paymentInBlock returns the payment with q's chain, transaction and index that a block holds; nil
// without one.
func (l *checkoutLink) paymentInBlock(q *linkPayment, blockHash string) *linkPayment {
	for i := range l.Payments {
		p := &l.Payments[i]
		if p.Chain == q.Chain && p.TxHash == q.TxHash && p.Index == q.Index && p.sightingIndex(blockHash) >= 0 {
			return p
		}
	}
	return nil
}

// paymentWithContents returns the payment with q's chain, transaction, index and amount, in any
// block; nil without one.
func (l *checkoutLink) paymentWithContents(q *linkPayment) *linkPayment {
	for i := range l.Payments {
		p := &l.Payments[i]
		if p.Chain == q.Chain && p.TxHash == q.TxHash && p.Index == q.Index && p.Asset == q.Asset &&
			p.Address == q.Address && p.Units == q.Units {
			return p
		}
	}
	return nil
}

// isConfirmed reports whether a payment counts and a block that the chain keeps has made it final.
func (p *linkPayment) isConfirmed() bool {
	return p.Reason == "" && slices.ContainsFunc(p.Sightings, func(s linkSighting) bool {
		return !s.Withdrawn && s.Shown >= confirmedShown
	})
}

// accepts reports whether the link accepts the asset of a payment on its chain.
func (l *checkoutLink) accepts(p *linkPayment) bool {
	return slices.ContainsFunc(l.Pairs, func(q linkPair) bool { return q.Asset == p.Asset && q.Chain == p.Chain })
}

// confirmedCents is the worth of the confirmed payments at the link's prices, rounded down once for
// each asset, at most money.MaxAmount. It fails for units or a price that are not a number.
func (l *checkoutLink) confirmedCents() (money.Cents, error) {
	units := map[string]*big.Int{}
	for i := range l.Payments {
		p := &l.Payments[i]
		if !p.isConfirmed() || !l.accepts(p) {
			continue
		}
		paid, ok := new(big.Int).SetString(p.Units, 10)
		if !ok {
			return 0, fmt.Errorf("units %q of %s", p.Units, p.TxHash)
		}
		if sum := units[p.Asset]; sum != nil {
			paid.Add(paid, sum)
		}
		units[p.Asset] = paid
	}
	total := new(big.Int)
	for asset, sum := range units {
		cents, err := l.worthOf(asset, sum)
		if err != nil {
			return 0, err
		}
		total.Add(total, cents)
	}
	if most := big.NewInt(int64(money.MaxAmount)); total.Cmp(most) > 0 {
		return money.MaxAmount, nil
	}
	return money.Cents(total.Int64()), nil
}

// worthOf is the worth of units of an asset in cents, rounded down. It fails for an asset whose
// price is not a number.
func (l *checkoutLink) worthOf(asset string, units *big.Int) (*big.Int, error) {
	price, decimals := "1", int64(6)
	switch asset {
	case "ETH":
		price, decimals = l.Prices[asset], 18
	case "BTC":
		price, decimals = l.Prices[asset], 8
	}
	dollars, ok := new(big.Rat).SetString(price)
	if !ok {
		return nil, errors.New("price " + price + " of " + asset)
	}
	perCent := new(big.Int).Exp(big.NewInt(10), big.NewInt(decimals-2), nil)
	worth := dollars.Mul(dollars, new(big.Rat).SetFrac(units, perCent))
	return new(big.Int).Quo(worth.Num(), worth.Denom()), nil
}
