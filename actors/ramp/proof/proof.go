// Package proof tells whether the key of a wallet has signed a text: on the chains of the EVM as personal_sign does (EIP-191,
// version 0x45, secp256k1), on Solana by Ed25519 over the text. It is pure, and knows neither wallets nor whose they are.
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

// Errors of an address, and of a signature.
var (
	ErrEVM    = errors.New("0x and 40 hexadecimal digits, in small letters or as EIP-55 spells them")
	ErrSolana = errors.New("base58 of an Ed25519 public key")
	// ErrSignature: the text is not signed by the address's key.
	ErrSignature = errors.New("proof: not a signature of the text by the address's key")
)

// Lengths, in bytes, and what base58 makes of them at most, in characters.
const (
	accountBytes     = 20
	recoverableBytes = 65 // r, s, v
	solanaChars      = 44
	solanaSigChars   = 88
)

// EVMAddress reads an address and spells it as EIP-55 does.
func EVMAddress(text string) (string, error) {
	digits, prefixed := strings.CutPrefix(text, "0x")
	account, err := hex.DecodeString(digits)
	if !prefixed || err != nil || len(account) != accountBytes {
		return "", ErrEVM
	}
	spelled := address.Checksummed(account)
	if text != spelled && digits != strings.ToLower(digits) {
		return "", ErrEVM
	}
	return spelled, nil
}

// SolanaAddress reads an address that has a key: an address of a program has none. Of small order is no key either, for anybody
// can sign for it.
func SolanaAddress(text string) (ed25519.PublicKey, error) {
	key, ok := decode58(text, solanaChars, ed25519.PublicKeySize)
	if !ok || intent.CheckPoint(key) != nil {
		return nil, ErrSolana
	}
	return key, nil
}

// EVM says whether an address, spelled by EIP-55, has signed a text. The signature is r, s and v in hex, with or without 0x; v is
// 0, 1, 27 or 28, and s is in the lower half, as EIP-2 asks of transactions: of two that fit a key only one is taken.
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
	if err != nil || address.Checksummed(keccak(key.SerializeUncompressed()[1:])[keccakBytes-accountBytes:]) != account {
		return ErrSignature
	}
	return nil
}

// EVMDigest is what a wallet signs of a text.
func EVMDigest(text string) []byte {
	return keccak(fmt.Appendf(nil, "\x19Ethereum Signed Message:\n%d%s", len(text), text))
}

// Solana says whether an address has signed a text. The signature is base58.
func Solana(account, text, signature string) error {
	key, err := SolanaAddress(account)
	if err != nil {
		return ErrSignature
	}
	raw, ok := decode58(signature, solanaSigChars, ed25519.SignatureSize)
	if !ok || !ed25519.Verify(key, []byte(text), raw) {
		return ErrSignature
	}
	return nil
}

// decode58 reads n bytes; the length of the text is looked at first, for base58 takes time in its square.
func decode58(text string, most, n int) ([]byte, bool) {
	if len(text) > most {
		return nil, false
	}
	raw := base58.Decode(text)
	return raw, len(raw) == n
}

const keccakBytes = 32

func keccak(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}
