package checkout

import (
	"fmt"
	"slices"
	"strings"

	"purser/actors/checkout/address"
	"purser/actors/fault"
)

// Assets and networks that a request may name, in the order in which they are shown.
func Assets() []string { return []string{"USDC", "USDT", "ETH", "BTC", "SOL"} }

// Chains are the networks, in the order in which they are shown.
func Chains() []string {
	return []string{"ethereum", "polygon", "arbitrum", "base", "optimism", "solana", "bitcoin"}
}

// payable are the networks on which an asset can be paid. SOL cannot be paid anywhere for now.
func payable(asset string) []string {
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

// usual are the networks of a link that lists none.
func usual() []string { return []string{"ethereum", "polygon", "arbitrum", "base", "solana"} }

// FamilyOf says with which accounts a network's addresses are derived.
func FamilyOf(chain string) address.Family {
	switch chain {
	case "bitcoin":
		return address.Bitcoin
	case "solana":
		return address.Solana
	}
	return address.EVM
}

// Priced says whether a coin's worth in dollars must be asked for; the others are dollars.
func Priced(asset string) bool { return asset == "ETH" || asset == "BTC" }

// decimals are how many an asset's smallest unit is away from the coin.
func decimals(asset string) int64 {
	switch asset {
	case "ETH":
		return 18
	case "BTC":
		return 8
	}
	return 6
}

// Accepted is what a link accepts: the assets, the networks that were kept, and the pairs of them that can be paid, without
// addresses.
type Accepted struct {
	Assets, Chains []string
	Pairs          []Pair
}

// Accept works out what a link accepts of what a request lists; nil is what it lists nothing of. served says on which networks
// there are addresses. An asset that can be paid on none of the networks is invalid_body, and the message names those on which it
// can.
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
	a := Accepted{Assets: once(assets)}
	listed := once(chains)
	if chains == nil {
		listed = unlisted(a.Assets)
	}
	for _, asset := range a.Assets {
		if err := a.add(asset, listed, served); err != nil {
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

// add adds the pairs of an asset.
func (a *Accepted) add(asset string, listed []string, served func(string) bool) error {
	var can []string
	for _, chain := range payable(asset) {
		if served(chain) {
			can = append(can, chain)
		}
	}
	if len(can) == 0 {
		return fault.New(fault.InvalidBody, fmt.Sprintf("acceptedAssets: %s cannot be paid on any network for now", asset))
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

// unlisted are the networks of a link that lists none: the usual ones, and those of an asset that none of these takes.
func unlisted(assets []string) []string {
	chains := usual()
	for _, asset := range assets {
		if !slices.ContainsFunc(payable(asset), func(chain string) bool { return slices.Contains(chains, chain) }) {
			chains = append(chains, payable(asset)...)
		}
	}
	return once(chains)
}

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

// once is a list without what it has already.
func once(items []string) []string {
	var out []string
	for _, item := range items {
		if !slices.Contains(out, item) {
			out = append(out, item)
		}
	}
	return out
}

// Families are the accounts that the pairs need an address of, in order.
func (a *Accepted) Families() []address.Family {
	var families []address.Family
	for _, p := range a.Pairs {
		if f := FamilyOf(p.Chain); !slices.Contains(families, f) {
			families = append(families, f)
		}
	}
	slices.Sort(families)
	return families
}
