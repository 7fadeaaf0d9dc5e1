// Package address derives receiving addresses, one per checkout session and family of chains, from
// the public part of an account. It never has a key that can spend. An index always gives the same
// address; package derivation allocates the indexes. Canonical gives every address one spelling.
//
// An account is an extended public key of BIP-32, at depth three: m/44'/60'/0' for EVM chains,
// which share one address, and m/84'/0'/0' for Bitcoin, both followed by /0/index. Solana has no
// derivation from a public key, so only a sandbox has Solana addresses. The package watches nothing
// and sends nothing.
package address

import (
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/address/v2/base58"
	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"golang.org/x/crypto/sha3"
)

// Family is a group of chains that share addresses.
type Family string

// Families.
const (
	EVM     Family = "evm" // ethereum and compatible chains
	Bitcoin Family = "bitcoin"
	Solana  Family = "solana"
)

// FamilyOf returns the family of accounts that a network's addresses derive from.
func FamilyOf(chain string) Family {
	switch chain {
	case "bitcoin":
		return Bitcoin
	case "solana":
		return Solana
	}
	return EVM
}

// MaxIndex is the last index of an account.
const MaxIndex = hdkeychain.HardenedKeyStart - 1

// SeedBytes is the length of a sandbox's seed.
const SeedBytes = 32

const (
	accountDepth = 3 // purpose, coin, account
	external     = 0 // the branch of receiving addresses
)

// Errors of a configured key.
var (
	ErrKey     = errors.New("address: not an extended public key")
	ErrPrivate = errors.New("address: an extended private key; configure the public key, and move the funds, " +
		"because the private key is exposed")
	ErrDepth = errors.New("address: not the key of an account (depth 3)")
	// ErrFamily reports a family without an account.
	ErrFamily = errors.New("address: no account for the chain")
)

// Errors of Canonical, by family.
var (
	ErrEVM     = errors.New("0x and 40 hexadecimal digits, in one case or as EIP-55 spells them")
	ErrBitcoin = errors.New("an address of Bitcoin's main network")
	ErrSolana  = errors.New("base58 of 32 bytes")
)

const (
	maxChars     = 90 // the longest address of BIP-173; decoding base58 takes quadratic time
	accountBytes = 20 // of an EVM address
	solanaBytes  = 32
)

// Accounts derives addresses. It is read-only and safe for concurrent use.
type Accounts struct {
	branches map[Family]*hdkeychain.ExtendedKey // the external branch of each account
	solana   []byte                             // a sandbox's seed
	sandbox  bool
}

// New returns the accounts of extended public keys in the form that wallets export (xpub, or zpub
// for Bitcoin). "" gives no account of that family. A text that is not such a key is an error.
func New(evm, bitcoin string) (*Accounts, error) {
	a := &Accounts{branches: map[Family]*hdkeychain.ExtendedKey{}}
	for family, text := range map[Family]string{EVM: evm, Bitcoin: bitcoin} {
		if text == "" {
			continue
		}
		key, err := parseAccountKey(text)
		if err != nil {
			return nil, err
		}
		if a.branches[family], err = key.Derive(external); err != nil {
			return nil, fmt.Errorf("address: branch: %w", err)
		}
	}
	return a, nil
}

// parseAccountKey parses an account's key. Its errors never quote the text, which may be a private
// key.
func parseAccountKey(text string) (*hdkeychain.ExtendedKey, error) {
	key, err := hdkeychain.NewKeyFromString(text)
	switch {
	case err != nil:
		return nil, ErrKey
	case key.IsPrivate():
		return nil, ErrPrivate
	case key.Depth() != accountDepth:
		return nil, ErrDepth
	}
	return key, nil
}

// Sandbox returns accounts of all families, made from SeedBytes of randomness. Their addresses must
// not receive real funds. It fails for a seed of another length, and for one seed in 2^127 that
// gives no key.
func Sandbox(seed []byte) (*Accounts, error) {
	if len(seed) != SeedBytes {
		return nil, fmt.Errorf("address: a seed has %d bytes", SeedBytes)
	}
	master, err := hdkeychain.NewMaster(seed, &chaincfg.MainNetParams)
	if err != nil {
		return nil, fmt.Errorf("address: seed: %w", err)
	}
	a := &Accounts{branches: map[Family]*hdkeychain.ExtendedKey{}, solana: append([]byte{}, seed...), sandbox: true}
	for family, path := range map[Family][2]uint32{EVM: {44, 60}, Bitcoin: {84, 0}} {
		key := master
		for _, step := range []uint32{hdkeychain.HardenedKeyStart + path[0], hdkeychain.HardenedKeyStart + path[1],
			hdkeychain.HardenedKeyStart, external} {
			if key, err = key.Derive(step); err != nil {
				return nil, fmt.Errorf("address: seed: %w", err)
			}
		}
		if a.branches[family], err = key.Neuter(); err != nil {
			return nil, fmt.Errorf("address: seed: %w", err)
		}
	}
	return a, nil
}

// IsSandbox reports whether the accounts were made by Sandbox.
func (a *Accounts) IsSandbox() bool { return a.sandbox }

// Has reports whether a family has addresses.
func (a *Accounts) Has(f Family) bool {
	return a.branches[f] != nil || f == Solana && a.solana != nil
}

// At returns the address of an index in its chain's spelling: EIP-55, bech32 of BIP-173, base58. It
// fails with ErrFamily for a family without an account, for an index over MaxIndex, and for one
// index in 2^127 that has no key.
func (a *Accounts) At(f Family, index uint32) (string, error) {
	if index > MaxIndex {
		return "", fmt.Errorf("address: index %d is past the account's last", index)
	}
	if f == Solana && a.solana != nil {
		return a.solanaAt(index), nil
	}
	branch := a.branches[f]
	if branch == nil {
		return "", fmt.Errorf("%w: %s", ErrFamily, f)
	}
	child, err := branch.Derive(index) // fails for one index in 2^127
	if err != nil {
		return "", fmt.Errorf("address: index %d: %w", index, err)
	}
	key, err := child.ECPubKey()
	if err != nil {
		return "", fmt.Errorf("address: index %d: %w", index, err)
	}
	if f == EVM {
		return Checksummed(keccak256(key.SerializeUncompressed()[1:])[12:]), nil
	}
	witness, err := address.NewAddressWitnessPubKeyHash(address.Hash160(key.SerializeCompressed()),
		&chaincfg.MainNetParams)
	if err != nil {
		return "", fmt.Errorf("address: index %d: %w", index, err)
	}
	return witness.EncodeAddress(), nil
}

// solanaAt returns the address of the key pair derived from the seed and the index.
func (a *Accounts) solanaAt(index uint32) string {
	sum := sha512.Sum512_256(binary.BigEndian.AppendUint32(append([]byte("purser sandbox solana "), a.solana...),
		index))
	key := ed25519.NewKeyFromSeed(sum[:])
	return base58.Encode(key[ed25519.SeedSize:])
}

// Canonical returns an address in the spelling of At, in which equal addresses are equal texts. EVM
// digits in both cases must have the right checksum. The errors are ErrEVM, ErrBitcoin and
// ErrSolana.
func Canonical(f Family, text string) (string, error) {
	switch f {
	case Bitcoin:
		return canonicalBitcoin(text)
	case Solana:
		if len(text) > maxChars || len(base58.Decode(text)) != solanaBytes {
			return "", ErrSolana
		}
		return text, nil
	}
	digits, prefixed := strings.CutPrefix(text, "0x")
	account, err := hex.DecodeString(digits)
	if !prefixed || err != nil || len(account) != accountBytes {
		return "", ErrEVM
	}
	spelled := Checksummed(account)
	if text != spelled && digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) {
		return "", ErrEVM
	}
	return spelled, nil
}

// canonicalBitcoin returns an address with bech32 in small letters. A public key is no address.
func canonicalBitcoin(text string) (string, error) {
	if len(text) > maxChars {
		return "", ErrBitcoin
	}
	a, err := address.DecodeAddress(text, &chaincfg.MainNetParams)
	if err != nil || !a.IsForNet(&chaincfg.MainNetParams) {
		return "", ErrBitcoin
	}
	if _, isKey := a.(*address.AddressPubKey); isKey {
		return "", ErrBitcoin
	}
	return a.EncodeAddress(), nil
}

// Checksummed returns an EVM address in EIP-55 spelling: a letter is a capital when the hex digit
// of the text's hash at its position is 8 or more.
func Checksummed(account []byte) string {
	text := []byte(hex.EncodeToString(account))
	digits := hex.EncodeToString(keccak256(text))
	for i, c := range text {
		if c >= 'a' && digits[i] >= '8' {
			text[i] = c - 'a' + 'A'
		}
	}
	return "0x" + string(text)
}

func keccak256(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}
