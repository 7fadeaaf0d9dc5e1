package ramp

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/ramp/proof"
)

// AskEvery is how long the partner has to answer about the account or a wallet before it is asked again.
const AskEvery = 30 * time.Second

// Due answers the timer of something that the partner is to be asked about, once more if it was asked before. Kind is that of its
// record.
type Due struct{ Kind, ID string }

// GiveUp notes that the partner will not have the account or wallet of the id: it stays as it is, and the partner is not asked
// again. It answers nothing.
type GiveUp struct{ ID string }

// solana is the one chain that is not of the EVM.
const solana = "solana"

var chains = []string{"ethereum", "polygon", "arbitrum", "base", "optimism", solana}

// State is what stands between a workspace and the partner. The zero State is a workspace that has not asked for an account.
type State struct {
	Workspace string   `json:"workspace"`
	Account   Account  `json:"account"`
	Wallets   []Wallet `json:"wallets"` // in the order of their registration
}

// Decide says what follows from a command. Errors are faults. decision.Read answers the State, which is the caller's.
func (s *State) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case Link:
		return s.link(m, c), nil
	case ConfirmLink:
		return s.confirmLink(m), nil
	case AddWallet:
		return s.addWallet(m, c)
	case ProveWallet:
		return s.proveWallet(m, c)
	case ApproveWallet:
		return s.approveWallet(m, c), nil
	case GiveUp:
		return decision.Decision{Timers: []decision.Timer{{Key: c.ID}}}, nil
	case decision.Fire:
		return s.fire(m, c.Key), nil
	case decision.Read:
		copied := *s
		copied.Account, copied.Wallets = s.account(), slices.Clone(s.Wallets)
		return decision.Decision{Reply: copied}, nil
	}
	panic(fmt.Sprintf("BUG: ramp command %T", command))
}

// account is the account as it is shown.
func (s *State) account() Account {
	if s.Account.Status == "" {
		return Account{Status: None}
	}
	return s.Account
}

// decided is the decision of an event about the account.
func (s *State) decided(e decision.Event) decision.Decision {
	after := s.after(e)
	return decision.Decision{Events: []decision.Event{e}, Reply: after.Account,
		Records: []decision.Record{{Kind: RecordAccount, ID: after.Account.ID, Document: after.Account}}}
}

// after is the state after an event; the state itself does not change.
func (s *State) after(e decision.Event) State {
	after := *s
	after.Wallets = slices.Clone(s.Wallets)
	after.Apply(e)
	return after
}

func (s *State) link(m decision.Meta, c Link) decision.Decision {
	if s.Account.ID != "" {
		return decision.Decision{Reply: s.Account}
	}
	if c.ID == "" || c.Workspace == "" {
		panic("BUG: an account without an id or a workspace")
	}
	d := s.decided(AccountAsked{Workspace: c.Workspace, Account: c.ID, At: decision.StampOf(m.At)})
	d.Timers = []decision.Timer{{Key: c.ID, Due: m.At}}
	return d
}

func (s *State) confirmLink(m decision.Meta) decision.Decision {
	if s.Account.Status != Pending {
		return decision.Decision{}
	}
	d := s.decided(AccountLinked{Workspace: s.Workspace, Account: s.Account.ID, At: decision.StampOf(m.At)})
	d.Reply, d.Timers = nil, []decision.Timer{{Key: s.Account.ID}}
	return d
}

func (s *State) wallet(id string) int {
	return slices.IndexFunc(s.Wallets, func(w Wallet) bool { return w.ID == id })
}

func (s *State) addWallet(m decision.Meta, c AddWallet) (decision.Decision, error) {
	if s.Account.Status != Linked {
		return decision.Decision{}, fault.New(fault.CapabilityUnavailable, "the ramp account is not linked")
	}
	if c.ID == "" || c.Nonce == "" || c.Workspace != s.Workspace {
		panic("BUG: a wallet without an id or a nonce, or of another workspace")
	}
	spelled, err := c.check()
	if err != nil {
		return decision.Decision{}, err
	}
	known := slices.IndexFunc(s.Wallets, func(w Wallet) bool { return w.Chain == c.Chain && w.Address == spelled })
	if known >= 0 {
		return decision.Decision{Reply: s.Wallets[known]}, nil
	}
	if len(s.Wallets) >= MaxWallets {
		return decision.Decision{}, fault.New(fault.LimitExceeded, fmt.Sprintf("a workspace has at most %d wallets", MaxWallets))
	}
	at := decision.StampOf(m.At)
	w := Wallet{ID: c.ID, Chain: c.Chain, Address: spelled, Label: c.Label, Status: Unproven, CreatedAt: at, UpdatedAt: at}
	w.Challenge = challenge(c.Workspace, c.Nonce, w)
	return s.decidedWallet(WalletAdded{Workspace: s.Workspace, Wallet: w}, w.ID), nil
}

// check refuses what cannot be a wallet, and spells its address as its chain does.
func (c *AddWallet) check() (spelled string, err error) {
	if !slices.Contains(chains, c.Chain) {
		return "", fault.New(fault.InvalidBody, "chain: ethereum, polygon, arbitrum, base, optimism or solana")
	}
	if n := utf8.RuneCountInString(c.Label); n > MaxLabel {
		return "", fault.New(fault.InvalidBody, fmt.Sprintf("label: at most %d characters", MaxLabel))
	}
	spelled = c.Address
	if c.Chain == solana {
		_, err = proof.SolanaAddress(c.Address)
	} else {
		spelled, err = proof.EVMAddress(c.Address)
	}
	if err != nil {
		return "", fault.New(fault.InvalidBody, "address: "+err.Error())
	}
	return spelled, nil
}

// challenge names all that the signature is to be good for, so that it is good for nothing else.
func challenge(workspace, nonce string, w Wallet) string {
	const text = "Purser: I own this wallet and allow workspace %s to withdraw USDC to it.\n" +
		"Wallet: %s\nChain: %s\nAddress: %s\nNonce: %s"
	return fmt.Sprintf(text, workspace, w.ID, w.Chain, w.Address, nonce)
}

func (s *State) proveWallet(m decision.Meta, c ProveWallet) (decision.Decision, error) {
	i := s.wallet(c.ID)
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
	d := s.decidedWallet(WalletProven{Workspace: s.Workspace, Wallet: w.ID, Signature: c.Signature,
		At: decision.StampOf(m.At)}, w.ID)
	d.Timers = []decision.Timer{{Key: w.ID, Due: m.At}}
	return d, nil
}

func (s *State) approveWallet(m decision.Meta, c ApproveWallet) decision.Decision {
	i := s.wallet(c.ID)
	if i < 0 || s.Wallets[i].Status != PendingApproval {
		return decision.Decision{}
	}
	d := s.decidedWallet(WalletApproved{Workspace: s.Workspace, Wallet: c.ID, At: decision.StampOf(m.At)}, c.ID)
	d.Reply, d.Timers = nil, []decision.Timer{{Key: c.ID}}
	return d
}

// fire answers the timer of the account or of a wallet, whose id is its key, for as long as the partner has not answered.
func (s *State) fire(m decision.Meta, key string) (d decision.Decision) {
	due := Due{ID: key}
	switch i := s.wallet(key); {
	case key == s.Account.ID && s.Account.Status == Pending:
		due.Kind = RecordAccount
	case i >= 0 && s.Wallets[i].Status == PendingApproval:
		due.Kind = RecordWallet
	default:
		return d
	}
	return decision.Decision{Timers: []decision.Timer{{Key: key, Due: m.At.Add(AskEvery)}}, Reply: due}
}

func (s *State) decidedWallet(e decision.Event, id string) decision.Decision {
	after := s.after(e)
	w := after.Wallets[after.wallet(id)]
	return decision.Decision{Events: []decision.Event{e}, Reply: w,
		Records: []decision.Record{{Kind: RecordWallet, ID: w.ID, Document: w}}}
}
