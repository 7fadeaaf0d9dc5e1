package settings

import (
	"purser/actors/partner/chain"
)

// chainURLs returns the URLs of the nodes by network. A network without a URL is simulated, or
// not offered when a real account is set. A real account without a node of its chains is a
// fault, because no one would see its payments. No fault shows a URL, because it may have a key
// in it.
func (f *Faults) chainURLs(s Settings) map[string]string {
	urls := make(map[string]string)
	for name, setting := range map[string][2]string{
		"ethereum": {"PURSER_CHAIN_ETHEREUM_URL", s.ChainEthereumURL},
		"polygon":  {"PURSER_CHAIN_POLYGON_URL", s.ChainPolygonURL},
		"arbitrum": {"PURSER_CHAIN_ARBITRUM_URL", s.ChainArbitrumURL},
		"base":     {"PURSER_CHAIN_BASE_URL", s.ChainBaseURL},
		"optimism": {"PURSER_CHAIN_OPTIMISM_URL", s.ChainOptimismURL},
		"solana":   {"PURSER_CHAIN_SOLANA_URL", s.ChainSolanaURL},
		"bitcoin":  {"PURSER_CHAIN_BITCOIN_URL", s.ChainBitcoinURL},
	} {
		variable, node := setting[0], setting[1]
		if node == "" {
			continue
		}
		if _, err := chain.Open(chain.Networks()[name], node, nil); err != nil {
			f.Add(variable, "is not an http or https URL")
		}
		urls[name] = node
	}
	if s.CheckoutXpubEVM != "" && s.ChainEthereumURL+s.ChainPolygonURL+s.ChainArbitrumURL+s.ChainBaseURL+s.ChainOptimismURL == "" {
		f.Add("PURSER_CHECKOUT_XPUB_EVM", "nobody would see what is paid: set PURSER_CHAIN_ETHEREUM_URL or that of another EVM chain")
	}
	if s.CheckoutXpubBTC != "" && s.ChainBitcoinURL == "" {
		f.Add("PURSER_CHECKOUT_XPUB_BTC", "nobody would see what is paid: set PURSER_CHAIN_BITCOIN_URL")
	}
	return urls
}
