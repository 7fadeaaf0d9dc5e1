package checkout_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/checkout"
	"purser/actors/decision"
	"purser/persistence/money"
)

// selectedLink returns a session of 25 dollars that accepts USDC and ETH on Ethereum and Arbitrum,
// with USDC on Ethereum selected.
func selectedLink(t require.TestingT) *checkout.State {
	accepted, err := checkout.Accept([]string{"USDC", "ETH"}, []string{"ethereum", "arbitrum"}, servedEverywhere)
	require.NoError(t, err)
	for i := range accepted.Pairs {
		accepted.Pairs[i].Address = addressOf(accepted.Pairs[i].Chain)
	}
	s := &checkout.State{}
	decideAndApply(t, s, checkout.Create{ID: "cs_1", Workspace: "ws_1", AmountUsdCents: 2_500, Accepted: accepted,
		Expires: checkout.DefaultExpires, Prices: map[string]string{"ETH": "3150.42"},
		SettlementOption: checkout.HoldStablecoin,
		Text:             checkout.Text{SuccessURL: "https://shop.example"}})
	decideAndApply(t, s, checkout.Select{Asset: "USDC", Chain: "ethereum"})
	return s
}

func decideAndApply(t require.TestingT, s *checkout.State, command any) decision.Decision {
	d, err := s.Decide(decision.Meta{At: began}, command)
	require.NoError(t, err)
	for _, e := range d.Events {
		s.Apply(e)
	}
	return d
}

// Dust, many payments and repeated selections do not grow a session beyond its limits, and stored
// payments stay.
func TestSessionSizeIsBounded(t *testing.T) {
	s := selectedLink(t)
	seen := func(asset, units string, n int) any {
		return decideAndApply(t, s, checkout.Observed{Chain: "ethereum", Asset: asset, Address: addressOf("ethereum"),
			TxHash: fmt.Sprint(asset, n), Amount: units, BlockHash: "0xb", Confirmations: 1, Threshold: 12,
			At: began}).Reply
	}
	for n := range checkout.MaxStrays {
		require.Equal(t, checkout.NotedNew, seen("FAKE", "25000000", n))
	}
	require.Equal(t, checkout.NotedFull, seen("FAKE", "25000000", checkout.MaxStrays))
	require.Equal(t, checkout.NotedFull, seen("USDC", "9999", 0), "less than a cent")
	for n := range checkout.MaxSmallPayments {
		require.Equal(t, checkout.NotedNew, seen("USDC", "10000", n+1), "strays do not count towards MaxPayments")
	}
	require.Equal(t, checkout.NotedFull, seen("USDC", "249999", checkout.MaxPayments), "under a hundredth of the amount")
	for n := checkout.MaxSmallPayments; n < checkout.MaxPayments; n++ {
		require.Equal(t, checkout.NotedNew, seen("USDC", "250000", n+1), "dust leaves places free")
	}
	require.Equal(t, checkout.NotedFull, seen("USDC", "25000000", checkout.MaxPayments+1))
	const received money.Cents = checkout.MaxSmallPayments + 25*(checkout.MaxPayments-checkout.MaxSmallPayments)
	require.Equal(t, received, s.Money().ReceivedCents)
	require.GreaterOrEqual(t, s.Money().ReceivedCents, s.AmountUsdCents, "full of payments, and paid")

	for block := range 3 * checkout.MaxSightings {
		o := checkout.Observed{Chain: "ethereum", Asset: "USDC", Address: addressOf("ethereum"), TxHash: "USDC1",
			Amount:    "10000",
			BlockHash: fmt.Sprint("0x", block), Threshold: 12, At: began}
		decideAndApply(t, s, o)
		if o.Removed = true; block > 0 {
			decideAndApply(t, s, o)
		}
	}
	p := s.Payments[checkout.MaxStrays]
	require.Len(t, p.Sightings, checkout.MaxSightings)
	require.Equal(t, "0x0", p.Sightings[1].BlockHash, "the oldest withdrawn block is dropped first")
	require.Equal(t, fmt.Sprint("0x", 3*checkout.MaxSightings-1), p.Sightings[checkout.MaxSightings-1].BlockHash)

	s = selectedLink(t)
	events := 0
	for n := range 3 * checkout.MaxSelections {
		d := decideAndApply(t, s, checkout.Select{Asset: "ETH", Chain: []string{"ethereum", "arbitrum"}[n%2]})
		require.Equal(t, "ETH", d.Reply.(checkout.Selection).Pair.Asset)
		events += len(d.Events)
	}
	require.Equal(t, checkout.MaxSelections-1, events)
}

// The requested coins pay the amount with at most 8 decimals, and one step of the last decimal less
// does not.
func TestUnitsAreTheLeastThatPayTheAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := selectedLink(t)
		s.AmountUsdCents = money.Cents(rapid.Int64Range(1, checkout.MaxAmountCents).Draw(t, "cents"))
		asset := rapid.SampledFrom([]string{"USDC", "ETH"}).Draw(t, "asset")
		s.Prices["ETH"] = rapid.SampledFrom([]string{"3150.42", "0.07", "99999.9999999999", "3"}).Draw(t, "price")
		units := s.UnitsOf(asset, s.AmountUsdCents)
		step := map[string]int64{"USDC": 1, "ETH": 10_000_000_000}[asset]
		require.Zero(t, new(big.Int).Rem(units, big.NewInt(step)).Sign(), "more decimals than a wallet sends")
		less := new(big.Int).Sub(units, big.NewInt(step))
		for _, c := range []struct {
			units *big.Int
			pays  bool
		}{{units, true}, {less, false}} {
			paid := *s
			decideAndApply(t, &paid, checkout.Observed{Chain: "ethereum", Asset: asset,
				Address: addressOf("ethereum"), TxHash: "0x1",
				Amount: c.units.String(), BlockHash: "0xb", Confirmations: 12, Threshold: 12, At: began})
			require.Equal(t, c.pays, paid.Status == checkout.Completed, "%s units of %s for %d", c.units, asset,
				s.AmountUsdCents)
		}
		coins, ok := new(big.Rat).SetString(checkout.CoinsOf(asset, units))
		require.True(t, ok)
		scale := map[string]string{"USDC": "1000000", "ETH": "1000000000000000000"}[asset]
		whole, _ := new(big.Rat).SetString(scale)
		require.Zero(t, coins.Mul(coins, whole).Cmp(new(big.Rat).SetInt(units)), "the same in coins")
	})
}

// The tolerance is at most half a percent or one cent, whichever is more, and always less than the
// amount.
func TestToleranceIsWithinItsBounds(t *testing.T) {
	for text, want := range map[string]checkout.Tolerance{"0,0": {}, "50,1": {BasisPoints: 50, Cents: 1},
		" 7 , 1 ": {BasisPoints: 7, Cents: 1}} {
		got, err := checkout.ParseTolerance(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "0", "51,0", "0,2", "-1,0", "0,-1", "0.5,0", "1,1,1", "off",
		"99999999999999999999,0"} {
		_, err := checkout.ParseTolerance(text)
		require.ErrorContains(t, err, "0 to 50, 0 to 1", text)
	}
	rapid.Check(t, func(t *rapid.T) {
		amount := money.Cents(rapid.Int64Range(1, checkout.MaxAmountCents).Draw(t, "cents"))
		tolerance := checkout.Tolerance{BasisPoints: rapid.Int64Range(0, 50).Draw(t, "points"),
			Cents: money.Cents(rapid.Int64Range(0, 1).Draw(t, "cent"))}
		most := tolerance.ShortfallFor(amount)
		require.Less(t, most, amount)
		require.LessOrEqual(t, most, max(amount/200, 1))
	})
}

// An impossible observation is refused, and an amount beyond money.MaxAmount counts as the maximum.
func TestImpossibleObservationsAreRefused(t *testing.T) {
	good := checkout.Observed{Chain: "ethereum", Asset: "USDC", Address: addressOf("ethereum"), TxHash: "0x1",
		Amount:    "1",
		BlockHash: "0xb", Threshold: 12, At: began}
	for name, spoil := range map[string]func(*checkout.Observed){
		"no amount":         func(o *checkout.Observed) { o.Amount = "" },
		"a fraction":        func(o *checkout.Observed) { o.Amount = "1.5" },
		"less than nothing": func(o *checkout.Observed) { o.Amount = "-1" },
		"no hash":           func(o *checkout.Observed) { o.TxHash = "" },
		"no block":          func(o *checkout.Observed) { o.BlockHash = "" },
		"no threshold":      func(o *checkout.Observed) { o.Threshold = 0 },
		"before a block":    func(o *checkout.Observed) { o.Confirmations = -1 },
		"no asset":          func(o *checkout.Observed) { o.Asset = "" },
		"no chain":          func(o *checkout.Observed) { o.Chain = "" },
	} {
		o := good
		spoil(&o)
		_, err := selectedLink(t).Decide(decision.Meta{At: began}, o)
		require.Error(t, err, name)
	}
	s := selectedLink(t)
	huge := good
	huge.Amount, huge.Confirmations = "99999999999999999999999999999999999999999999", 12
	decideAndApply(t, s, huge)
	require.Equal(t, checkout.Completed, s.Status)
	require.Equal(t, money.Cents(2_500-1_000_000_000_000), s.Money().DueCents)
}
