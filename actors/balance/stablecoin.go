package balance

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Stablecoins are counted in cents, one for one. They are not dollars: they pay for no card, payout
// or fee, and the authorizer does not know them. AccountChain is their counterpart, negative by all
// that came in.
const (
	AccountStablecoin = "stablecoin"
	AccountChain      = "chain"
)

// ScopeStablecoin is the scope of the stablecoin partner's event ids. Each is claimed once within
// BankRetention.
const ScopeStablecoin = "stablecoin"

// scopeTransfer is the scope in which a deposit claims its transfer on the chain, for ever.
const scopeTransfer = "stablecoin_transfer"

// scopeCheckout is the scope in which a credit claims its checkout session, for ever.
const scopeCheckout = "checkout_credit"

const (
	sourceStablecoin = "stablecoin_deposit"
	sourceCheckout   = "checkout"
)

// maxTxHash is the greatest length of a transaction hash, in characters.
const maxTxHash = 128

// creditCheckout credits a paid checkout session in stablecoins, once for ever. It fails with
// limit_exceeded when the balance has no room. An amount out of range panics.
func (s *State) creditCheckout(m decision.Meta, c CreditCheckout) (decision.Decision, error) {
	if c.Cents <= 0 || c.Cents > money.MaxAmount {
		panic(fmt.Sprintf("BUG: a checkout of %d cents", c.Cents))
	}
	if _, err := money.Add(s.StablecoinCents, c.Cents); err != nil {
		return decision.Decision{}, balanceFull()
	}
	credit := chainCredit(c.Workspace, c.Cents, sourceCheckout, c.Session, "checkout/"+c.Session, m.At)
	return decision.Decision{
		Events: []decision.Event{CheckoutCredited{Workspace: c.Workspace, Session: c.Session, AmountUsdCents: c.Cents,
			Postings: credit.balancedPostings(), At: decision.StampOf(m.At)}},
		Records: []decision.Record{credit.ledgerRecord()},
		Onces:   []decision.Once{{Scope: scopeCheckout, Key: c.Session}},
	}, nil
}

// receiveStablecoin credits a deposit that the stablecoin partner reports. It fails with
// invalid_body for a wrong EventID or field, and with limit_exceeded when the balance has no room.
// The claims of its decision refuse a repeat.
func (s *State) receiveStablecoin(m decision.Meta, c ReceiveStablecoin) (decision.Decision, error) {
	if err := checkEventID(c.EventID); err != nil {
		return decision.Decision{}, err
	}
	if err := checkStablecoin(c); err != nil {
		return decision.Decision{}, err
	}
	if _, err := money.Add(s.StablecoinCents, c.AmountUsdCents); err != nil {
		return decision.Decision{}, balanceFull()
	}
	id := ident.Derive(slotOf(c.Workspace), m.At, "stablecoin/"+c.EventID).Format(ident.Deposit)
	credit := chainCredit(c.Workspace, c.AmountUsdCents, sourceStablecoin, c.TxHash, "stablecoin/"+id, m.At)
	return decision.Decision{
		Events: []decision.Event{StablecoinReceived{Workspace: c.Workspace, ID: id, EventID: c.EventID, Asset: c.Asset,
			Chain: c.Chain, TxHash: c.TxHash, AmountUsdCents: c.AmountUsdCents, Postings: credit.balancedPostings(),
			At: decision.StampOf(m.At)}},
		Records: []decision.Record{credit.ledgerRecord()},
		Onces: []decision.Once{{Scope: ScopeStablecoin, Key: c.EventID, Expires: m.At.Add(BankRetention)},
			{Scope: scopeTransfer, Key: c.transferKey(), Code: string(fault.DuplicateMismatch),
				Message: "the transfer is credited already"}},
	}, nil
}

// transferKey identifies the transfer that a report is about, as finely as the report does: one
// transaction may pay a workspace several amounts. Hashes of EVM chains are hexadecimal digits in
// either case, with 0x or without; those of Solana distinguish the cases. Spaces around a hash do
// not count.
func (c *ReceiveStablecoin) transferKey() string {
	hash := strings.TrimSpace(c.TxHash)
	if c.Chain != "solana" {
		hash = "0x" + strings.TrimPrefix(strings.ToLower(hash), "0x")
	}
	return fmt.Sprintf("%s/%s/%s/%d/%s", c.Workspace, c.Chain, c.Asset, c.AmountUsdCents, hash)
}

func chainCredit(workspace string, cents money.Cents, source, reference, cause string, at time.Time) transfer {
	return transfer{workspace: workspace, account: AccountStablecoin, counterpart: AccountChain, cents: cents,
		source:    source,
		reference: reference, cause: cause, at: at}
}

// checkStablecoin fails with invalid_body and the field's name for a report of another asset or
// chain, or with an amount or hash out of range.
func checkStablecoin(c ReceiveStablecoin) error {
	switch {
	case !slices.Contains([]string{"USDC", "USDT"}, c.Asset):
		return fault.New(fault.InvalidBody, "asset: USDC or USDT")
	case !slices.Contains([]string{"ethereum", "polygon", "arbitrum", "solana"}, c.Chain):
		return fault.New(fault.InvalidBody, "chain: ethereum, polygon, arbitrum or solana")
	case c.AmountUsdCents <= 0 || c.AmountUsdCents > money.MaxAmount:
		return fault.New(fault.InvalidBody, fmt.Sprintf("amountUsdCents: 1 to %d", money.MaxAmount))
	case c.TxHash == "" || utf8.RuneCountInString(c.TxHash) > maxTxHash:
		return fault.New(fault.InvalidBody, fmt.Sprintf("txHash: 1 to %d characters", maxTxHash))
	}
	return nil
}

// applyStablecoin folds a stablecoin credit; its decision checked that the sum fits.
func (s *State) applyStablecoin(workspace string, cents money.Cents) {
	s.Workspace = workspace
	s.StablecoinCents = money.MustAdd(s.StablecoinCents, cents)
}
