// Package ramp is a workspace's relation to the partner that exchanges dollars and USDC: the
// account that links the two, and the wallets to which USDC may be withdrawn. It is pure; the actor
// of the workspace's id alone folds its events. Package balance (ramp.go) holds the money.
package ramp

import "purser/actors/decision"

// Statuses of the account.
const (
	None    = "none"
	Pending = "pending" // requested; the partner has not answered
	Linked  = "linked"
)

// Statuses of a wallet.
const (
	Unproven        = "unproven"         // no signature of the challenge yet
	PendingApproval = "pending_approval" // proven; the partner has not approved it, or refuses it
	Approved        = "approved"
)

// Limits of a workspace's ramp.
const (
	MaxWallets = 100
	MaxLabel   = 120 // characters
)

// Record kinds that this package writes.
const (
	RecordAccount = "ramp_account" // ramp_ id → Account; one per workspace
	RecordWallet  = "ramp_wallet"  // wal_ id → Wallet; listed
)

// Account links a workspace to the partner.
type Account struct {
	ID        string         `json:"id"` // "" while the status is none
	Status    string         `json:"status"`
	CreatedAt decision.Stamp `json:"createdAt"`
}

// Wallet is an address that the workspace claims as its own. The wallet's key proves it by signing
// Challenge.
type Wallet struct {
	ID        string         `json:"id"`
	Chain     string         `json:"chain"` // ethereum, polygon, arbitrum, base, optimism (EIP-191) or solana (Ed25519)
	Address   string         `json:"address"`
	Label     string         `json:"label"`
	Status    string         `json:"status"`
	Challenge string         `json:"challenge"`
	CreatedAt decision.Stamp `json:"createdAt"`
	UpdatedAt decision.Stamp `json:"updatedAt"`
}

// Link requests the account. The reply is an Account; a repeat changes nothing.
type Link struct{ Workspace, ID string }

// ConfirmLink records that the partner has linked the account. There is no reply, and a repeat
// changes nothing.
type ConfirmLink struct{}

// AddWallet registers a wallet. Nonce is random, for its challenge. The reply is a Wallet: the
// existing one, unchanged, when the workspace already has the address on the chain. Refusals are
// capability_unavailable (the account is not linked), invalid_body (chain, address, label) and
// limit_exceeded.
type AddWallet struct {
	Workspace, ID, Nonce  string
	Chain, Address, Label string
}

// ProveWallet verifies the signature of a wallet's challenge: for EVM chains 65 bytes in hex by
// EIP-191, for Solana 64 bytes in base58 by Ed25519. The reply is a Wallet; proving a proven wallet
// changes nothing. Refusals are not_found and signature_invalid.
type ProveWallet struct{ ID, Signature string }

// ApproveWallet records that the partner pays to the wallet. There is no reply, and a repeat
// changes nothing.
type ApproveWallet struct{ ID string }
