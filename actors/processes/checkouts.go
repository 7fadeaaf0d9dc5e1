package processes

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/checkout"
	"purser/actors/checkout/address"
	"purser/actors/derivation"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/query"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Accounts derive the addresses at which customers pay; address.Accounts implements it.
type Accounts interface {
	Has(f address.Family) bool
	At(f address.Family, index uint32) (string, error)
	// IsSandbox reports that the addresses must receive nothing of value.
	IsSandbox() bool
}

// Checkouts prepares payment links and credits the paid ones.
type Checkouts struct {
	runtime  Runtime
	accounts Accounts        // nil: no checkout
	prices   partner.Prices  // nil: only stablecoins are accepted
	chains   []partner.Chain // searched for payments; with none, other callers report payments to sessions
	identity func() persistence.Identity
	log      *slog.Logger
}

// PrepareCheckout completes the command that creates a link: the pairs of asset and chain that the
// link accepts of those listed (nil: all), an address of its own for each, and prices. live reports
// that the link's workspace is not in sandbox mode. It takes an index of each account that no other
// link gets; each call takes another. It fails with capability_unavailable where no account or
// price exists, limit_exceeded with all open links taken, unavailable without prices or a journal,
// and the refusals of Create.Check and checkout.Accept.
func (p *Checkouts) PrepareCheckout(ctx context.Context, c checkout.Create, assets, chains []string, live bool,
) (checkout.Create, error) {
	if p.accounts == nil || live && p.accounts.IsSandbox() {
		return c, fault.New(fault.CapabilityUnavailable, "no account receives payments in this mode")
	}
	if err := c.Check(); err != nil {
		return c, err
	}
	var err error
	c.Accepted, err = checkout.Accept(assets, chains, func(chain string) bool {
		return p.accounts.Has(address.FamilyOf(chain)) && p.watches(chain)
	})
	if err != nil {
		return c, err
	}
	c.Sandbox = !live || p.accounts.IsSandbox()
	if err = p.requireOpenPlace(ctx, c.Workspace); err != nil {
		return c, err
	}
	if c.Prices, err = p.coinPrices(ctx, c.Accepted.Assets); err != nil {
		return c, err
	}
	if c.Indexes, err = p.takeIndexes(ctx, c.ID, c.Accepted.Families()); err != nil {
		return c, err
	}
	for i := range c.Accepted.Pairs {
		pair := &c.Accepted.Pairs[i]
		family := address.FamilyOf(pair.Chain)
		if pair.Address, err = p.accounts.At(family, c.Indexes[string(family)]); err != nil {
			return c, fmt.Errorf("address of a checkout session: %w", err)
		}
	}
	return c, nil
}

// requireOpenPlace fails with limit_exceeded for a workspace that has all its open links, before
// the link takes addresses: a wallet finds no payments beyond a gap of unused ones. It also fails
// when the count cannot be read. The commit of the link counts exactly.
func (p *Checkouts) requireOpenPlace(ctx context.Context, workspace string) error {
	counted, err := query.CheckoutTallies.Read(ctx, p.runtime, workspace, workspace)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	}
	return counted.RequirePlace(checkout.MaxOpen)
}

// watches reports whether payments on a chain are found: no customer is asked to pay on a chain
// that no watcher reads.
func (p *Checkouts) watches(name string) bool {
	return len(p.chains) == 0 || slices.ContainsFunc(p.chains, func(c partner.Chain) bool { return c.Name() == name })
}

// takeIndexes takes the next index of each family for a session, from the one actor of the
// deployment that counts them. It fails as Ask does.
func (p *Checkouts) takeIndexes(ctx context.Context, session string, families []address.Family,
) (map[string]uint32, error) {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = string(f)
	}
	system, journal := ident.System.Format(ident.Workspace), p.identity()
	return actors.ReplyAs[derivation.Taken](p.runtime.Ask(ctx, actors.Envelope{
		Kind: actors.KindDerivation, Stream: system, Workspace: system,
		Command: derivation.Take{Session: session, Families: names, Store: hex.EncodeToString(journal.Store[:]),
			// A new deployment's journal has the deployment's time, a restored journal a later one.
			Restored: !journal.Store.Time().Equal(journal.Deployment.Time())}}))
}

// coinPrices returns the dollars for a coin of each asset that is priced, by asset. It fails with
// the first error of coinPrice.
func (p *Checkouts) coinPrices(ctx context.Context, assets []string) (map[string]string, error) {
	prices := map[string]string{}
	for _, asset := range assets {
		if !checkout.Priced(asset) {
			continue
		}
		price, err := p.coinPrice(ctx, asset)
		if err != nil {
			return nil, err
		}
		prices[asset] = price
	}
	return prices, nil
}

// coinPrice returns the dollars for a coin of an asset, as decimal text. It fails with
// capability_unavailable without a price source or for an asset that it does not know, with
// unavailable when the source does not answer, and with a plain error for a price that is no
// number.
func (p *Checkouts) coinPrice(ctx context.Context, asset string) (string, error) {
	if p.prices == nil {
		return "", fault.New(fault.CapabilityUnavailable, asset+" has no price here")
	}
	price, err := p.prices.Price(ctx, asset)
	switch {
	case errors.Is(err, partner.ErrRefused):
		return "", fault.New(fault.CapabilityUnavailable, asset+" has no price here")
	case err != nil:
		p.log.Warn("a coin has no price", "asset", asset, "err", err)
		return "", fault.New(fault.Unavailable, "The prices of coins are not known now; nothing changed.")
	}
	if _, err := money.ParseRate(price); err != nil {
		return "", fmt.Errorf("price of %s: %w", asset, err)
	}
	return price, nil
}

// creditCompleted credits the amount of a completed link, less an accepted shortfall, to the
// balance, and then has the link note the credit, which the webhooks announce. It is the reaction
// "checkout" to the completion. It fails, and is repeated, when one of the two actors does not take
// its command. The balance keeps a claim on the link for ever, and the link notes its credit once,
// so that a repeat changes nothing.
func (p *Checkouts) creditCompleted(ctx context.Context, e persistence.Event) error {
	event, err := checkout.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	completed := event.(checkout.SessionCompleted)
	_, err = p.runtime.Ask(ctx, toBalance(e.Workspace, balance.CreditCheckout{Workspace: e.Workspace,
		Session: completed.ID,
		Cents:   completed.AmountUsdCents - completed.ShortfallCents}))
	if err != nil {
		return err
	}
	_, err = p.runtime.Ask(ctx, actors.Envelope{Kind: actors.KindCheckout, Stream: completed.ID, Workspace: e.Workspace,
		Command: checkout.Credit{}})
	return err
}
