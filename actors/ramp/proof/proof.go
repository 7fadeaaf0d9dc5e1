// Package proof verifies that the key of a wallet address has signed a text. EVM chains sign as
// personal_sign does (EIP-191, version 0x45, secp256k1); Solana signs the text by Ed25519. The
// package is pure, and knows neither wallets nor their owners.
package proof

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/address/v2/base58"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

	"purser/actors/agent/intent"
	"purser/actors/checkout/address"
)

// Errors of an address and of a signature.
var (
	// ErrSolana reports an address without a key that can sign.
	ErrSolana = errors.New("base58 of an Ed25519 public key")
	// ErrSignature reports a text that the address's key has not signed.
	ErrSignature = errors.New("proof: not a signature of the text by the address's key")
)

// Lengths in bytes, and the most base58 characters that encode them.
const (
	accountBytes     = 20
	recoverableBytes = 65 // r, s, v
	solanaChars      = 44
	solanaSigChars   = 88
)

// SolanaAddress parses an address that is an Ed25519 public key. It refuses program addresses,
// which have no key, and points of small order, for which any signature can be forged.
func SolanaAddress(text string) (ed25519.PublicKey, error) {
	key, ok := decodeBase58(text, solanaChars, ed25519.PublicKeySize)
	if !ok || intent.CheckPoint(key) != nil {
		return nil, ErrSolana
	}
	return key, nil
}

// EVM verifies that an address, in EIP-55 spelling, has signed a text; the error is ErrSignature.
// The signature is r, s and v in hex, with or without 0x; v is 0, 1, 27 or 28. s must be in the
// lower half of the group order, as EIP-2 demands of transactions. Only one of the two valid
// signatures is therefore accepted.
func EVM(account, text, signature string) error {
	raw, err := hex.DecodeString(strings.TrimPrefix(signature, "0x"))
	if err != nil || len(raw) != recoverableBytes {
		return ErrSignature
	}
	v := raw[recoverableBytes-1]
	if v < 27 {
		v += 27
	}
	var s secp256k1.ModNScalar
	if over := s.SetByteSlice(raw[32:64]); over || s.IsOverHalfOrder() || v != 27 && v != 28 {
		return ErrSignature
	}
	key, _, err := ecdsa.RecoverCompact(append([]byte{v}, raw[:64]...), EVMDigest(text))
	if err != nil {
		return ErrSignature
	}
	signer := keccak256(key.SerializeUncompressed()[1:])[keccakBytes-accountBytes:]
	if address.Checksummed(signer) != account {
		return ErrSignature
	}
	return nil
}

// EVMDigest returns the hash that a wallet signs for a text (EIP-191, personal_sign). EVM
// recovers the signer from it. Tests sign it in place of a wallet.
func EVMDigest(text string) []byte {
	return keccak256(fmt.Appendf(nil, "\x19Ethereum Signed Message:\n%d%s", len(text), text))
}

// Solana verifies that an address has signed a text; the error is ErrSignature. The signature is
// base58.
func Solana(account, text, signature string) error {
	key, err := SolanaAddress(account)
	if err != nil {
		return ErrSignature
	}
	raw, ok := decodeBase58(signature, solanaSigChars, ed25519.SignatureSize)
	if !ok || !ed25519.Verify(key, []byte(text), raw) {
		return ErrSignature
	}
	return nil
}

// decodeBase58 decodes n bytes. It checks the text's length first, because decoding base58 takes
// quadratic time.
func decodeBase58(text string, most, n int) ([]byte, bool) {
	if len(text) > most {
		return nil, false
	}
	raw := base58.Decode(text)
	return raw, len(raw) == n
}

const keccakBytes = 32

func keccak256(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}
