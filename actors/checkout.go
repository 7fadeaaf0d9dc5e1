package actors

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"purser/actors/balance"
	"purser/actors/checkout"
	"purser/actors/checkout/address"
	"purser/actors/derivation"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/webhook"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Accounts derive the addresses at which customers pay; address.Accounts are some.
type Accounts interface {
	Has(f address.Family) bool
	At(f address.Family, index uint32) (string, error)
	// IsSandbox says that nobody should send anything of worth to the addresses.
	IsSandbox() bool
}

// PrepareCheckout gives a link what it needs of the deployment: the pairs that it accepts of those listed (nil: none are), an
// address of its own for each, prices. Live says that its workspace is no sandbox. It takes an index of each account, which
// nobody gets again. It is for an Envelope's Prepare, whose Ask keeps the system from stopping under it.
func (s *System) PrepareCheckout(ctx context.Context, c checkout.Create, assets, chains []string, live bool,
) (checkout.Create, error) {
	if s.accounts == nil || live && s.accounts.IsSandbox() {
		return c, fault.New(fault.CapabilityUnavailable, "no account receives payments in this mode")
	}
	if err := c.Check(); err != nil {
		return c, err
	}
	var err error
	c.Accepted, err = checkout.Accept(assets, chains, func(chain string) bool {
		return s.accounts.Has(checkout.FamilyOf(chain)) && s.looksAt(chain)
	})
	if err != nil {
		return c, err
	}
	c.Sandbox = !live || s.accounts.IsSandbox()
	if c.Prices, err = s.coinPrices(ctx, c.Accepted.Assets); err != nil {
		return c, err
	}
	if c.Indexes, err = s.takeIndexes(ctx, c.ID, c.Accepted.Families()); err != nil {
		return c, err
	}
	for i := range c.Accepted.Pairs {
		p := &c.Accepted.Pairs[i]
		family := checkout.FamilyOf(p.Chain)
		if p.Address, err = s.accounts.At(family, c.Indexes[string(family)]); err != nil {
			return c, fmt.Errorf("address of a checkout session: %w", err)
		}
	}
	return c, nil
}

// takeIndexes asks the deployment's one actor that counts them.
func (s *System) takeIndexes(ctx context.Context, session string, families []address.Family) (map[string]uint32, error) {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = string(f)
	}
	system, journal := ident.System.Format(ident.Workspace), s.journal.Identity()
	reply, err := s.tell(ctx, Envelope{Kind: "derivation", Stream: system, Workspace: system,
		Command: derivation.Take{Session: session, Families: names, Store: hex.EncodeToString(journal.Store[:]),
			// A journal that begins a deployment is named in the same moment as the deployment, a restored one after it.
			Restored: !journal.Store.Time().Equal(journal.Deployment.Time())}})
	if err != nil {
		return nil, err
	}
	taken, ok := reply.(derivation.Taken)
	if !ok {
		return nil, fmt.Errorf("derivation answered %T", reply)
	}
	return taken, nil
}

// coinPrices are the dollars for a coin of each asset that is priced.
func (s *System) coinPrices(ctx context.Context, assets []string) (map[string]string, error) {
	prices := map[string]string{}
	for _, asset := range assets {
		if !checkout.Priced(asset) {
			continue
		}
		price, err := s.coinPrice(ctx, asset)
		if err != nil {
			return nil, err
		}
		prices[asset] = price
	}
	return prices, nil
}

func (s *System) coinPrice(ctx context.Context, asset string) (string, error) {
	if s.prices == nil {
		return "", fault.New(fault.CapabilityUnavailable, asset+" has no price here")
	}
	price, err := s.prices.Price(ctx, asset)
	switch {
	case errors.Is(err, partner.ErrRefused):
		return "", fault.New(fault.CapabilityUnavailable, asset+" has no price here")
	case err != nil:
		s.log.Warn("a coin has no price", "asset", asset, "err", err)
		return "", fault.New(fault.Unavailable, "The prices of coins are not known now; nothing changed.")
	}
	if _, err := money.ParseRate(price); err != nil {
		return "", fmt.Errorf("price of %s: %w", asset, err)
	}
	return price, nil
}

// creditCheckouts credits the amount of a completed link, less an accepted shortfall, and then
// informs the link, which announces it to the webhooks. The balance holds a claim on the link for
// ever, and the link notes its credit once: whatever crashes in between, there is one of each.
func (s *System) creditCheckouts(ctx context.Context, e persistence.Event) error {
	event, err := checkout.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return err
	}
	completed := event.(checkout.SessionCompleted)
	_, err = s.Ask(ctx, Envelope{Kind: "balance", Stream: e.Workspace, Workspace: e.Workspace,
		Command: balance.CreditCheckout{Workspace: e.Workspace, Session: completed.ID,
			Cents: completed.AmountUsdCents - completed.ShortfallCents}})
	if err != nil {
		return err
	}
	_, err = s.Ask(ctx, Envelope{Kind: "checkout", Stream: completed.ID, Workspace: e.Workspace, Command: checkout.Credit{}})
	return err
}

// announceCheckout is what endpoints are sent of a link that is paid and credited.
func announceCheckout(e persistence.Event) (Announcement, error) {
	event, err := checkout.DecodeEvent(e.Type, e.Payload)
	if err != nil {
		return Announcement{}, err
	}
	credited, ok := event.(checkout.SessionCredited)
	if !ok {
		return Announcement{}, fmt.Errorf("a credit is %T", event)
	}
	body, err := json.Marshal(struct {
		ID             string `json:"id"`
		AmountUsdCents int64  `json:"amountUsdCents"`
		TxHash         string `json:"txHash"`
		PayerAddress   string `json:"payerAddress"`
	}{credited.ID, credited.AmountUsdCents, credited.TxHash, credited.PayerAddress})
	return Announcement{Event: webhook.CheckoutCompleted, Body: string(body)}, err
}
