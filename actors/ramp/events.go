package ramp

import (
	"fmt"
	"slices"

	"purser/actors/decision"
)

// AccountAsked records the workspace's request for an account with the partner.
type AccountAsked struct {
	Workspace string         `json:"workspace"`
	Account   string         `json:"account"`
	At        decision.Stamp `json:"at"`
}

// AccountLinked records that the partner has linked the account.
type AccountLinked struct {
	Workspace string         `json:"workspace"`
	Account   string         `json:"account"`
	At        decision.Stamp `json:"at"`
}

// WalletAdded records a registered address, not yet proven.
type WalletAdded struct {
	Workspace string `json:"workspace"`
	Wallet    Wallet `json:"wallet"`
}

// WalletProven records the wallet key's signature of the challenge.
type WalletProven struct {
	Workspace string         `json:"workspace"`
	Wallet    string         `json:"wallet"`
	Signature string         `json:"signature"`
	At        decision.Stamp `json:"at"`
}

// WalletApproved records that the partner pays to the wallet.
type WalletApproved struct {
	Workspace string         `json:"workspace"`
	Wallet    string         `json:"wallet"`
	At        decision.Stamp `json:"at"`
}

// EventType is the name the event is stored under.
func (AccountAsked) EventType() string { return "ramp.account_asked.v1" }

// EventType is the name the event is stored under.
func (AccountLinked) EventType() string { return "ramp.account_linked.v1" }

// EventType is the name the event is stored under.
func (WalletAdded) EventType() string { return "ramp.wallet_added.v1" }

// EventType is the name the event is stored under.
func (WalletProven) EventType() string { return "ramp.wallet_proven.v1" }

// EventType is the name the event is stored under.
func (WalletApproved) EventType() string { return "ramp.wallet_approved.v1" }

// Apply folds an event into the state. The actor of a workspace's ramp calls it for each event that
// it decides; it loads the state from its record, not from events. It panics for an unknown event
// and for an unknown wallet.
func (s *State) Apply(e decision.Event) {
	switch e := e.(type) {
	case AccountAsked:
		s.Workspace, s.Account = e.Workspace, Account{ID: e.Account, Status: Pending, CreatedAt: e.At}
	case AccountLinked:
		s.Account.Status = Linked
	case WalletAdded:
		s.Wallets = append(slices.Clip(s.Wallets), e.Wallet)
	case WalletProven:
		s.setWalletStatus(e.Wallet, PendingApproval, e.At)
	case WalletApproved:
		s.setWalletStatus(e.Wallet, Approved, e.At)
	default:
		panic(fmt.Sprintf("BUG: ramp event %T", e))
	}
}

func (s *State) setWalletStatus(id, status string, at decision.Stamp) {
	i := s.walletIndex(id)
	if i < 0 {
		panic("BUG: status of an unknown wallet")
	}
	s.Wallets[i].Status, s.Wallets[i].UpdatedAt = status, at
}
