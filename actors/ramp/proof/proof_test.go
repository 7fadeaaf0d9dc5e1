package proof_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/address/v2/base58"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/stretchr/testify/require"

	"purser/actors/ramp/proof"
)

// The documented example of web3.eth.accounts.sign in web3.js: key, address, text, digest and
// signature.
const (
	publishedKey       = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	publishedAddress   = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
	publishedText      = "Some data"
	publishedDigest    = "1da44b586eb0729ff70a73c326926f6ed5a25f5b056e7f47fbc6e58d86871655"
	publishedSignature = "0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd" +
		"6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c"
)

func TestPublishedSignaturesOfTheEVM(t *testing.T) {
	require.Equal(t, publishedDigest, hex.EncodeToString(proof.EVMDigest(publishedText)))
	require.NoError(t, proof.EVM(publishedAddress, publishedText, publishedSignature))
	body := publishedSignature[2:130]
	require.NoError(t, proof.EVM(publishedAddress, publishedText, body+"1c"), "without 0x")
	require.NoError(t, proof.EVM(publishedAddress, publishedText, strings.ToUpper(body)+"01"), "as Ledger writes v")
	for name, signature := range map[string]string{
		"the other v": body + "1b", "a v of EIP-155": body + "25", "no v": body, "nothing": "", "0x alone": "0x",
		"no hex": strings.Repeat("zz", 65), "a byte more": body + "1c00",
		"r is 0": strings.Repeat("00", 32) + body[64:] + "1c",
		"s is 0": body[:64] + strings.Repeat("00", 32) + "1c", "s is the order": body[:64] + groupOrder + "1c",
		"r is over the order": strings.Repeat("ff", 32) + body[64:] + "1c", "the other s": malleatedS(t, body) + "1b",
		"v of a compressed key": body + "20",
	} {
		require.ErrorIs(t, proof.EVM(publishedAddress, publishedText, signature), proof.ErrSignature, name)
	}
	require.ErrorIs(t, proof.EVM(publishedAddress, "Some data ", publishedSignature), proof.ErrSignature)
	require.ErrorIs(t, proof.EVM("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", publishedText, publishedSignature),
		proof.ErrSignature)
}

const groupOrder = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"

// malleatedS returns the second signature that is valid for the same key, with the other v. Anyone
// can compute it from the first.
func malleatedS(t *testing.T, body string) string {
	raw, err := hex.DecodeString(body[64:])
	require.NoError(t, err)
	var s secp256k1.ModNScalar
	require.False(t, s.SetByteSlice(raw))
	negated := s.Negate().Bytes()
	return body[:64] + hex.EncodeToString(negated[:])
}

// Signatures made by the library's own signer verify, for any text.
func TestSignatureOfTheWalletKeyVerifies(t *testing.T) {
	raw, err := hex.DecodeString(publishedKey)
	require.NoError(t, err)
	key := secp256k1.PrivKeyFromBytes(raw)
	for _, text := range []string{"", "a", "Zeile\nZeile", strings.Repeat("long ", 100), "Überweisung"} {
		compact := ecdsa.SignCompact(key, proof.EVMDigest(text), false)
		require.NoError(t, proof.EVM(publishedAddress, text, hex.EncodeToString(append(compact[1:], compact[0]))))
	}
}

// RFC 8032, section 7.1, the first two tests: of nothing, and of the text "r".
func TestPublishedSignaturesOfSolana(t *testing.T) {
	for _, v := range []struct{ key, text, signature string }{
		{"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
			"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155" +
				"5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
		{"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "r",
			"92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da" +
				"085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
	} {
		account, signature := base58OfHex(t, v.key), base58OfHex(t, v.signature)
		require.NoError(t, proof.Solana(account, v.text, signature))
		require.ErrorIs(t, proof.Solana(account, v.text+" ", signature), proof.ErrSignature)
		for _, bad := range []string{"", signature + "1", "1" + signature, signature[1:], v.signature,
			"0" + signature[1:],
			strings.Repeat("z", 1<<20)} {
			require.ErrorIs(t, proof.Solana(account, v.text, bad), proof.ErrSignature)
		}
	}
}

func base58OfHex(t *testing.T, text string) string {
	raw, err := hex.DecodeString(text)
	require.NoError(t, err)
	return base58.Encode(raw)
}

func TestAddressesOfSolana(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	got, err := proof.SolanaAddress(base58.Encode(key))
	require.NoError(t, err)
	require.Equal(t, key, got)
	// the system program: a point of small order, for which a signature can be forged
	system := strings.Repeat("1", 32)
	for _, bad := range []string{"", system, system + "1", base58.Encode(key[1:]), base58.Encode(key) + " ", offCurve(),
		strings.Repeat("z", 44), "0OIl"} {
		_, err := proof.SolanaAddress(bad)
		require.ErrorIs(t, err, proof.ErrSolana, bad)
	}
}

// offCurve returns a program address: no point of the curve, so that it has no key.
func offCurve() string {
	for seed := byte(0); ; seed++ {
		sum := sha256.Sum256([]byte{seed})
		if account := base58.Encode(sum[:]); len(account) > 40 {
			if _, err := proof.SolanaAddress(account); err != nil {
				return account
			}
		}
	}
}

func FuzzSignatures(f *testing.F) {
	account := base58.Encode(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey))
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	signature := base58.Encode(ed25519.Sign(key, []byte(publishedText)))
	f.Add(publishedSignature)
	f.Add(signature)
	f.Add(strings.TrimSuffix(publishedSignature, "1c") + "01")
	f.Add("0x")
	f.Fuzz(func(t *testing.T, given string) {
		if proof.EVM(publishedAddress, publishedText, given) == nil {
			digits := strings.TrimPrefix(strings.ToLower(given), "0x")
			require.Equal(t, publishedSignature[2:130], digits[:128])
			require.Contains(t, []string{"1c", "01"}, digits[128:])
		}
		if proof.Solana(account, publishedText, given) == nil {
			require.Equal(t, signature, given)
		}
		if key, err := proof.SolanaAddress(given); err == nil {
			require.Equal(t, given, base58.Encode(key))
		}
	})
}
