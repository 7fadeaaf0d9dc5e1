package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"purser/actors/checkout/address"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/partner/chain"
	"purser/actors/partner/sandbox"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
)

// openChains makes the watched chains: those of the configured nodes, and the sandbox's for the
// others. With real accounts there are no sandbox chains, because a payment on one must never be
// credited to them. It fails for an unusable URL of a node and for a sandbox store that cannot be
// read. It is a step of the start.
func (m *daemon) openChains(context.Context) error {
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
	chains, err := sandbox.NewChains(sandbox.ChainsConfig{Store: m.partners.store, Chain: stand,
		Final: m.config.SandboxDelay, Clock: m.Clock})
	if err != nil {
		return datadir.WithRepair(err, datadir.SandboxDir(m.config.DataDir), datadir.RepairSandbox)
	}
	m.sandboxChains = chains
	for name := range stand {
		m.chains = append(m.chains, partner.Chain(chains.Chain(name)))
	}
	return nil
}

// sandboxPayment is the body of the command sandbox-pay: one transaction on a chain. Its fields are
// named as those of a checkout session, and its transfers as the answer to a pick: amountUnits are
// whole smallest units of the asset. The same reference on a chain is the same transaction.
type sandboxPayment struct {
	Chain     string            `json:"chain"`
	Reference string            `json:"reference"`
	From      string            `json:"from,omitempty"` // the wallet that pays
	Transfers []sandboxTransfer `json:"transfers"`
}

type sandboxTransfer struct {
	Asset       string `json:"asset"`
	Address     string `json:"address"`
	AmountUnits string `json:"amountUnits"`
}

// sandboxReorganisation is the body of the command sandbox-reorganise. Drop names transactions that
// are not made again.
type sandboxReorganisation struct {
	Chain string   `json:"chain"`
	Depth int      `json:"depth"` // blocks
	Drop  []string `json:"drop,omitempty"`
}

var errNoSandboxChain = fault.New(fault.InvalidBody, "chain is not a chain of the sandbox")

// Limits of a sandbox payment.
const (
	maxSandboxText      = 200 // bytes of a reference, a wallet or an asset
	maxSandboxTransfers = 16
)

// sandboxUnits is an amount that a real chain could carry: at most 2^256 - 1 has 78 digits.
var sandboxUnits = regexp.MustCompile(`^[0-9]{1,78}$`)

// check names the first field that is wrong.
func (p *sandboxPayment) check() error {
	if len(p.Transfers) < 1 || len(p.Transfers) > maxSandboxTransfers {
		return fault.New(fault.InvalidBody, fmt.Sprintf("transfers must be 1 to %d", maxSandboxTransfers))
	}
	if p.Reference == "" || len(p.Reference) > maxSandboxText {
		return fault.New(fault.InvalidBody, fmt.Sprintf("reference must have 1 to %d bytes", maxSandboxText))
	}
	if len(p.From) > maxSandboxText {
		return fault.New(fault.InvalidBody, fmt.Sprintf("from must have at most %d bytes", maxSandboxText))
	}
	for i, t := range p.Transfers {
		at := fmt.Sprintf("transfers/%d/", i)
		switch {
		case t.Asset == "" || len(t.Asset) > maxSandboxText:
			return fault.New(fault.InvalidBody, at+"asset must be a coin, such as USDC")
		case !sandboxUnits.MatchString(t.AmountUnits):
			return fault.New(fault.InvalidBody, at+
				"amountUnits must be whole smallest units of the asset, as a string of digits")
		}
	}
	return nil
}

// payOnSandbox makes a transaction on a sandbox chain, as a customer's wallet would. It is the
// command sandbox-pay of the admin port. It fails for a malformed body, for an unknown chain, and
// with the chain's error.
func payOnSandbox(ctx context.Context, chains *sandbox.Chains, body []byte) (any, error) {
	var p sandboxPayment
	if err := adminport.DecodeBody(body, &p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	on := sandboxChain(chains, p.Chain)
	if on == nil {
		return nil, errNoSandboxChain
	}
	transfers := make([]sandbox.ChainPayment, len(p.Transfers))
	for i, t := range p.Transfers {
		to, err := address.Canonical(address.FamilyOf(p.Chain), t.Address)
		if err != nil {
			return nil, fault.New(fault.InvalidBody, fmt.Sprintf("transfers/%d/address must be %s", i, err))
		}
		transfers[i] = sandbox.ChainPayment{Asset: t.Asset, Address: to, Amount: t.AmountUnits}
	}
	tx, err := on.Pay(ctx, p.Reference, p.From, transfers...)
	return map[string]string{"txHash": tx}, sandboxFault(err)
}

// reorganiseSandbox replaces the newest blocks of a sandbox chain. It is the command
// sandbox-reorganise of the admin port. It fails for a malformed body, for an unknown chain, and
// with the chain's error.
func reorganiseSandbox(ctx context.Context, chains *sandbox.Chains, body []byte) (any, error) {
	var r sandboxReorganisation
	if err := adminport.DecodeBody(body, &r); err != nil {
		return nil, err
	}
	on := sandboxChain(chains, r.Chain)
	if on == nil {
		return nil, errNoSandboxChain
	}
	return struct{}{}, sandboxFault(on.Reorganise(ctx, r.Depth, r.Drop...))
}

// sandboxFault returns invalid_body or limit_exceeded for an error of a sandbox chain that the
// request has caused, and any other error or nil as it is.
func sandboxFault(err error) error {
	switch {
	case errors.Is(err, sandbox.ErrDepth):
		return fault.New(fault.InvalidBody, err.Error())
	case errors.Is(err, sandbox.ErrNoTransfer):
		return fault.New(fault.InvalidBody, "drop: "+err.Error())
	case errors.Is(err, partner.ErrFull):
		return fault.New(fault.LimitExceeded, fmt.Sprintf("a sandbox chain has at most %d transfers and %d "+
			"reorganisations", sandbox.MaxTransfers, sandbox.MaxForks))
	}
	return err
}

// sandboxChain returns a chain of the sandbox, nil when there is none of that name.
func sandboxChain(chains *sandbox.Chains, name string) *sandbox.Chain {
	if chains == nil {
		return nil
	}
	return chains.Chain(name)
}
