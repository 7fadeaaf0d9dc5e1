package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"purser/actors/partner"
	"purser/actors/partner/chain"
	"purser/actors/partner/sandbox"
)

// chainURLs checks where the nodes are; a network without one is a sandbox's, or not offered beside real accounts, of which each
// needs a node. A URL may have a key in it and is never shown.
func (f *faults) chainURLs(s Settings) map[string]string {
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
			f.add(variable, "is not an http or https URL")
		}
		urls[name] = node
	}
	if s.CheckoutXpubEVM != "" && s.ChainEthereumURL+s.ChainPolygonURL+s.ChainArbitrumURL+s.ChainBaseURL+s.ChainOptimismURL == "" {
		f.add("PURSER_CHECKOUT_XPUB_EVM", "nobody would see what is paid: set PURSER_CHAIN_ETHEREUM_URL or that of another EVM chain")
	}
	if s.CheckoutXpubBTC != "" && s.ChainBitcoinURL == "" {
		f.add("PURSER_CHECKOUT_XPUB_BTC", "nobody would see what is paid: set PURSER_CHAIN_BITCOIN_URL")
	}
	return urls
}

// openChains makes the chains that are watched: those of the configured nodes, and of the sandbox for the others, unless real
// accounts receive the payments: what is paid on a sandbox chain must never be credited for them.
func (m *Main) openChains(context.Context) error {
	networks, stand := chain.Networks(), make(map[string]int)
	m.chains = nil
	for _, name := range slices.Sorted(maps.Keys(networks)) {
		node, configured := m.config.ChainURLs[name]
		if !configured && !m.config.CheckoutAccounts.IsSandbox() {
			continue
		}
		if !configured {
			stand[name] = networks[name].Threshold
			continue
		}
		opened, err := chain.Open(networks[name], node, nil)
		if err != nil {
			return err
		}
		m.chains = append(m.chains, opened)
	}
	if len(stand) == 0 {
		return nil
	}
	chains, err := sandbox.NewChains(sandbox.ChainsConfig{Dir: chainsDir(m.config.DataDir), Chain: stand,
		Final: m.config.SandboxDelay, Clock: m.Clock})
	if err != nil {
		return err
	}
	m.onClose(chains.Close)
	m.sandboxChains = chains
	for name := range stand {
		m.chains = append(m.chains, partner.Chain(chains.Chain(name)))
	}
	return nil
}

// sandboxPayment is what the command sandbox-pay takes, sandboxReorganisation what sandbox-reorganise does.
type (
	sandboxPayment struct {
		Chain, Reference, From string
		Transfers              []sandbox.ChainPayment
	}
	sandboxReorganisation struct {
		Chain string
		Depth int
		Drop  []string // transactions that are not made again
	}
)

var errNoSandboxChain = errors.New("that is no chain of the sandbox")

// payOnSandbox makes a transaction on a sandbox chain, as a customer's wallet would.
func (m *Main) payOnSandbox(ctx context.Context, body []byte) (any, error) {
	var p sandboxPayment
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, err
	}
	on := m.sandboxChain(p.Chain)
	if on == nil {
		return nil, errNoSandboxChain
	}
	tx, err := on.Pay(ctx, p.Reference, p.From, p.Transfers...)
	return map[string]string{"txHash": tx}, err
}

// reorganiseSandbox replaces the newest blocks of a sandbox chain.
func (m *Main) reorganiseSandbox(ctx context.Context, body []byte) (any, error) {
	var r sandboxReorganisation
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	on := m.sandboxChain(r.Chain)
	if on == nil {
		return nil, errNoSandboxChain
	}
	return struct{}{}, on.Reorganise(ctx, r.Depth, r.Drop...)
}

func (m *Main) sandboxChain(name string) *sandbox.Chain {
	if m.sandboxChains == nil {
		return nil
	}
	return m.sandboxChains.Chain(name)
}
