// Package ramp is what stands between a workspace and the partner that changes dollars and USDC: the account that links the two,
// and the wallets that USDC may be withdrawn to. It is pure; an actor of the workspace's id is the only one that folds its
// events. The money is the balance's (package balance, ramp.go).
package ramp

import "purser/actors/decision"

// Statuses of the account.
const (
	None    = "none"
	Pending = "pending" // asked for; the partner has not answered
	Linked  = "linked"
)

// Statuses of a wallet.
const (
	Unproven        = "unproven"         // nobody has shown that it is the workspace's
	PendingApproval = "pending_approval" // proven; the partner looks at it, or will not have it
	Approved        = "approved"
)

// Limits of a workspace's ramp.
const (
	MaxWallets = 100
	MaxLabel   = 120 // characters
)

// Record kinds that this package writes.
const (
	RecordAccount = "ramp_account" // ramp_ id → Account; one of a workspace
	RecordWallet  = "ramp_wallet"  // wal_ id → Wallet; listed
)

// Account links a workspace with the partner.
type Account struct {
	ID        string         `json:"id"` // "" while the status is none
	Status    string         `json:"status"`
	CreatedAt decision.Stamp `json:"createdAt"`
}

// Wallet is an address that is said to be the workspace's. Challenge is what its key must sign.
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

// Link asks for the account. It answers Account; a repeat changes nothing and answers the account as it is.
type Link struct{ Workspace, ID string }

// ConfirmLink notes that the partner has linked the account. It answers nothing; a repeat changes nothing.
type ConfirmLink struct{}

// AddWallet registers a wallet. Nonce is random, for its challenge. It answers Wallet; an address that the workspace has on the
// chain already answers that wallet, without effect. It is refused with capability_unavailable (the account is not linked),
// invalid_body (chain, address, label) and limit_exceeded.
type AddWallet struct {
	Workspace, ID, Nonce  string
	Chain, Address, Label string
}

// ProveWallet is the answer to the challenge, its signature checked here: for EVM chains 65 bytes in hex by EIP-191, for Solana
// 64 bytes in base58 by Ed25519. It answers Wallet, of a proven one without effect. It is refused with not_found and
// signature_invalid.
type ProveWallet struct{ ID, Signature string }

// ApproveWallet notes that the partner will pay to the wallet. It answers nothing; a repeat changes nothing.
type ApproveWallet struct{ ID string }
