package checkout

import (
	"fmt"
	"slices"
	"strings"

	"purser/actors/checkout/address"
	"purser/actors/fault"
)

// Assets returns the assets that a request may name, in display order. The caller owns the list.
func Assets() []string { return []string{"USDC", "USDT", "ETH", "BTC", "SOL"} }

// Chains returns the networks that a request may name, in display order. The caller owns the list.
func Chains() []string {
	return []string{"ethereum", "polygon", "arbitrum", "base", "optimism", "solana", "bitcoin"}
}

// chainsOf returns the networks on which an asset can be paid. SOL cannot be paid on any network
// for now.
func chainsOf(asset string) []string {
	switch asset {
	case "USDC":
		return []string{"ethereum", "polygon", "arbitrum", "base", "optimism", "solana"}
	case "USDT":
		return []string{"ethereum", "polygon", "arbitrum", "optimism", "solana"}
	case "ETH":
		return []string{"ethereum", "arbitrum", "base", "optimism"}
	case "BTC":
		return []string{"bitcoin"}
	}
	return nil
}

// defaultChains returns the networks of a link whose request lists none.
func defaultChains() []string { return []string{"ethereum", "polygon", "arbitrum", "base", "solana"} }

// Priced reports whether a coin needs a price in dollars; the other coins are dollars. createLink,
// the sums of payments and PrepareCheckout, which reads the prices, call it.
func Priced(asset string) bool { return asset == "ETH" || asset == "BTC" }

// unitDecimals returns the decimals of an asset's smallest unit.
func unitDecimals(asset string) int64 {
	switch asset {
	case "ETH":
		return 18
	case "BTC":
		return 8
	}
	return 6
}

// Accepted is the accepted assets and networks of a link, and its payable pairs without addresses.
type Accepted struct {
	Assets, Chains []string
	Pairs          []Pair
}

// Accept returns the accepted pairs for the assets and chains of a request, in which nil takes the
// defaults. served reports whether a network has addresses. It fails with invalid_body for an
// unknown name, and for an asset that none of the networks supports; the message names the networks
// that do.
func Accept(assets, chains []string, served func(chain string) bool) (Accepted, error) {
	if assets == nil {
		assets = []string{"USDC"}
	}
	if err := checkListed("acceptedAssets", assets, Assets()); err != nil {
		return Accepted{}, err
	}
	if chains != nil {
		if err := checkListed("acceptedChains", chains, Chains()); err != nil {
			return Accepted{}, err
		}
	}
	a := Accepted{Assets: withoutDuplicates(assets)}
	listed := withoutDuplicates(chains)
	if chains == nil {
		listed = impliedChains(a.Assets)
	}
	for _, asset := range a.Assets {
		if err := a.addPairs(asset, listed, served); err != nil {
			return Accepted{}, err
		}
	}
	for _, chain := range listed {
		if slices.ContainsFunc(a.Pairs, func(p Pair) bool { return p.Chain == chain }) {
			a.Chains = append(a.Chains, chain)
		}
	}
	return a, nil
}

// addPairs adds the pairs of an asset. It fails with invalid_body when the asset cannot be paid on
// a served network, or on none of those listed.
func (a *Accepted) addPairs(asset string, listed []string, served func(string) bool) error {
	var can []string
	for _, chain := range chainsOf(asset) {
		if served(chain) {
			can = append(can, chain)
		}
	}
	if len(can) == 0 {
		return fault.New(fault.InvalidBody, fmt.Sprintf("acceptedAssets: %s cannot be paid on any network for now",
			asset))
	}
	before := len(a.Pairs)
	for _, chain := range listed {
		if slices.Contains(can, chain) {
			a.Pairs = append(a.Pairs, Pair{Asset: asset, Chain: chain})
		}
	}
	if len(a.Pairs) == before {
		return fault.New(fault.InvalidBody,
			fmt.Sprintf("acceptedAssets: %s cannot be paid on any of acceptedChains; it can be paid on %s", asset,
				strings.Join(can, ", ")))
	}
	return nil
}

// impliedChains returns the networks of a link whose request lists none: the default ones, and
// every network of an asset that no default one supports.
func impliedChains(assets []string) []string {
	chains := defaultChains()
	for _, asset := range assets {
		if !slices.ContainsFunc(chainsOf(asset), func(chain string) bool { return slices.Contains(chains, chain) }) {
			chains = append(chains, chainsOf(asset)...)
		}
	}
	return withoutDuplicates(chains)
}

// checkListed fails with invalid_body for a list of a wrong length or with an unknown item; the
// message names the field.
func checkListed(field string, items, known []string) error {
	if len(items) < 1 || len(items) > MaxListed {
		return fault.New(fault.InvalidBody, fmt.Sprintf("%s: 1 to %d items", field, MaxListed))
	}
	for i, item := range items {
		if !slices.Contains(known, item) {
			return fault.New(fault.InvalidBody, fmt.Sprintf("%s[%d]: %s", field, i, strings.Join(known, ", ")))
		}
	}
	return nil
}

// withoutDuplicates returns the items in order, each once.
func withoutDuplicates(items []string) []string {
	var out []string
	for _, item := range items {
		if !slices.Contains(out, item) {
			out = append(out, item)
		}
	}
	return out
}

// Families returns the families that the pairs need an address of, sorted.
func (a *Accepted) Families() []address.Family {
	var families []address.Family
	for _, p := range a.Pairs {
		if f := address.FamilyOf(p.Chain); !slices.Contains(families, f) {
			families = append(families, f)
		}
	}
	slices.Sort(families)
	return families
}
