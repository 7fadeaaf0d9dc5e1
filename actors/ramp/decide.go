package ramp

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"purser/actors/checkout/address"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/ramp/proof"
)

// PartnerRetryInterval is the interval at which the partner is asked again about an account or a
// wallet that it has not answered for.
const PartnerRetryInterval = 30 * time.Second

// Due is the reply to a timer: the account or wallet about which to ask the partner. Kind is the
// kind of its record.
type Due struct{ Kind, ID string }

// Refuse records that the partner refuses the account or wallet of the id. Its status stays, and
// the partner is not asked again. There is no reply.
type Refuse struct{ ID string }

// solana is the only supported chain outside the EVM.
const solana = "solana"

var walletChains = []string{"ethereum", "polygon", "arbitrum", "base", "optimism", solana}

// State is a workspace's account with the partner and its wallets. The zero State is a workspace
// without an account.
type State struct {
	Workspace string   `json:"workspace"`
	Account   Account  `json:"account"`
	Wallets   []Wallet `json:"wallets"` // in the order of their registration
}

// Decide returns the decision for a command. The actor of a workspace's ramp calls it and commits
// the result. Its errors are the faults of addWallet and proveWallet; other commands never fail.
// The reply to decision.Read is a State that the caller may change. An unknown command panics.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case Link:
		return s.linkAccount(m, c), nil
	case ConfirmLink:
		return s.confirmLink(m), nil
	case AddWallet:
		return s.addWallet(m, c)
	case ProveWallet:
		return s.proveWallet(m, c)
	case ApproveWallet:
		return s.approveWallet(m, c), nil
	case Refuse:
		return decision.Decision{Timers: []decision.Timer{{Key: c.ID}}}, nil
	case decision.Fire:
		return s.fireTimer(m, c.Key), nil
	case decision.Read:
		copied := *s
		copied.Account, copied.Wallets = s.shownAccount(), slices.Clone(s.Wallets)
		return decision.Decision{Reply: copied}, nil
	}
	panic(fmt.Sprintf("BUG: ramp command %T", command))
}

// shownAccount returns the account, with status none when it was never requested.
func (s *State) shownAccount() Account {
	if s.Account.Status == "" {
		return Account{Status: None}
	}
	return s.Account
}

// accountDecision stores the account as it is after an event.
func (s *State) accountDecision(e decision.Event) decision.Decision {
	after := s.stateAfter(e)
	return decision.Decision{Events: []decision.Event{e}, Reply: after.Account,
		Records: []decision.Record{{Kind: RecordAccount, ID: after.Account.ID, Document: after.Account}}}
}

// stateAfter returns the state after an event. s does not change.
func (s *State) stateAfter(e decision.Event) State {
	after := *s
	after.Wallets = slices.Clone(s.Wallets)
	after.Apply(e)
	return after
}

// linkAccount requests the workspace's account at the ramp; a repeat replies the account. It never
// fails; without an id it panics.
func (s *State) linkAccount(m decision.Meta, c Link) decision.Decision {
	if s.Account.ID != "" {
		return decision.Decision{Reply: s.Account}
	}
	if c.ID == "" || c.Workspace == "" {
		panic("BUG: an account without an id or a workspace")
	}
	d := s.accountDecision(AccountAsked{Workspace: c.Workspace, Account: c.ID, At: decision.StampOf(m.At)})
	d.Timers = []decision.Timer{{Key: c.ID, Due: m.At}}
	return d
}

// confirmLink records that the partner has linked the account; a repeat changes nothing.
func (s *State) confirmLink(m decision.Meta) decision.Decision {
	if s.Account.Status != Pending {
		return decision.Decision{}
	}
	d := s.accountDecision(AccountLinked{Workspace: s.Workspace, Account: s.Account.ID, At: decision.StampOf(m.At)})
	d.Reply, d.Timers = nil, []decision.Timer{{Key: s.Account.ID}}
	return d
}

func (s *State) walletIndex(id string) int {
	return slices.IndexFunc(s.Wallets, func(w Wallet) bool { return w.ID == id })
}

// addWallet registers a wallet and replies the challenge to sign; a known address is replied again.
// It fails with capability_unavailable without a linked account, with checkedAddress's
// invalid_body, and with limit_exceeded.
func (s *State) addWallet(m decision.Meta, c AddWallet) (decision.Decision, error) {
	if s.Account.Status != Linked {
		return decision.Decision{}, fault.New(fault.CapabilityUnavailable, "the ramp account is not linked")
	}
	if c.ID == "" || c.Nonce == "" || c.Workspace != s.Workspace {
		panic("BUG: a wallet without an id or a nonce, or of another workspace")
	}
	spelled, err := c.checkedAddress()
	if err != nil {
		return decision.Decision{}, err
	}
	known := slices.IndexFunc(s.Wallets, func(w Wallet) bool { return w.Chain == c.Chain && w.Address == spelled })
	if known >= 0 {
		return decision.Decision{Reply: s.Wallets[known]}, nil
	}
	if len(s.Wallets) >= MaxWallets {
		return decision.Decision{}, fault.New(fault.LimitExceeded,
			fmt.Sprintf("a workspace has at most %d wallets", MaxWallets))
	}
	at := decision.StampOf(m.At)
	w := Wallet{ID: c.ID, Chain: c.Chain, Address: spelled, Label: c.Label, Status: Unproven,
		CreatedAt: at, UpdatedAt: at}
	w.Challenge = challengeText(c.Workspace, c.Nonce, w)
	return s.walletDecision(WalletAdded{Workspace: s.Workspace, Wallet: w}, w.ID), nil
}

// checkedAddress returns the address in its chain's spelling. It fails with invalid_body for an
// unknown chain, a long label or an invalid address.
func (c *AddWallet) checkedAddress() (spelled string, err error) {
	if !slices.Contains(walletChains, c.Chain) {
		return "", fault.New(fault.InvalidBody, "chain: ethereum, polygon, arbitrum, base, optimism or solana")
	}
	if n := utf8.RuneCountInString(c.Label); n > MaxLabel {
		return "", fault.New(fault.InvalidBody, fmt.Sprintf("label: at most %d characters", MaxLabel))
	}
	spelled, err = address.Canonical(address.FamilyOf(c.Chain), c.Address)
	if err == nil && c.Chain == solana {
		_, err = proof.SolanaAddress(spelled)
	}
	if err != nil {
		return "", fault.New(fault.InvalidBody, "address: "+err.Error())
	}
	return spelled, nil
}

// challengeText returns the text that a wallet's key signs. It names workspace, wallet, chain,
// address and a nonce, so that the signature is valid for nothing else.
func challengeText(workspace, nonce string, w Wallet) string {
	const text = "Purser: I own this wallet and allow workspace %s to withdraw USDC to it.\n" +
		"Wallet: %s\nChain: %s\nAddress: %s\nNonce: %s"
	return fmt.Sprintf(text, workspace, w.ID, w.Chain, w.Address, nonce)
}

// proveWallet records that the wallet's key has signed its challenge, and has the partner asked for
// approval; a proven wallet is replied again. It fails with not_found and with signature_invalid.
func (s *State) proveWallet(m decision.Meta, c ProveWallet) (decision.Decision, error) {
	i := s.walletIndex(c.ID)
	if i < 0 {
		return decision.Decision{}, fault.New(fault.NotFound, "")
	}
	w := s.Wallets[i]
	if w.Status != Unproven {
		return decision.Decision{Reply: w}, nil
	}
	verify := proof.EVM
	if w.Chain == solana {
		verify = proof.Solana
	}
	if err := verify(w.Address, w.Challenge, c.Signature); err != nil {
		return decision.Decision{}, fault.New(fault.SignatureInvalid, "the wallet's key has not signed its challenge")
	}
	d := s.walletDecision(WalletProven{Workspace: s.Workspace, Wallet: w.ID, Signature: c.Signature,
		At: decision.StampOf(m.At)}, w.ID)
	d.Timers = []decision.Timer{{Key: w.ID, Due: m.At}}
	return d, nil
}

// approveWallet records the partner's approval of a wallet. An unknown wallet, or one that does not
// wait for approval, stays.
func (s *State) approveWallet(m decision.Meta, c ApproveWallet) decision.Decision {
	i := s.walletIndex(c.ID)
	if i < 0 || s.Wallets[i].Status != PendingApproval {
		return decision.Decision{}
	}
	d := s.walletDecision(WalletApproved{Workspace: s.Workspace, Wallet: c.ID, At: decision.StampOf(m.At)}, c.ID)
	d.Reply, d.Timers = nil, []decision.Timer{{Key: c.ID}}
	return d
}

// fireTimer replies Due for the account or the wallet whose id is the key, and sets the timer
// again, until the partner answers. Decide calls it; the process that calls the ramp handles the
// reply.
func (s *State) fireTimer(m decision.Meta, key string) (d decision.Decision) {
	due := Due{ID: key}
	switch i := s.walletIndex(key); {
	case key == s.Account.ID && s.Account.Status == Pending:
		due.Kind = RecordAccount
	case i >= 0 && s.Wallets[i].Status == PendingApproval:
		due.Kind = RecordWallet
	default:
		return d
	}
	return decision.Decision{Timers: []decision.Timer{{Key: key, Due: m.At.Add(PartnerRetryInterval)}}, Reply: due}
}

func (s *State) walletDecision(e decision.Event, id string) decision.Decision {
	after := s.stateAfter(e)
	w := after.Wallets[after.walletIndex(id)]
	return decision.Decision{Events: []decision.Event{e}, Reply: w,
		Records: []decision.Record{{Kind: RecordWallet, ID: w.ID, Document: w}}}
}
