package address_test

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"testing"

	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/actors/checkout/address"
)

// The seed of the mnemonic "abandon … about" has published accounts: BIP-84 lists the Bitcoin
// addresses, and every EVM wallet shows the others.
const (
	publishedSeed = "5eb00bbddcf069084889a8ab9155568165f5c453ccb85e70811aaed6f6da5fc19a5ac40b389cd370d086206dec8aa6c43daea6690f20ad3d8d48b2d2ce9e38e4"
	publishedZpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"
)

// deriveAccount returns the extended public and private key of an account.
func deriveAccount(t *testing.T, purpose, coin uint32) (public, private string) {
	seed, err := hex.DecodeString(publishedSeed)
	require.NoError(t, err)
	key, err := hdkeychain.NewMaster(seed, &chaincfg.MainNetParams)
	require.NoError(t, err)
	for _, step := range []uint32{purpose, coin, 0} {
		key, err = key.Derive(hdkeychain.HardenedKeyStart + step)
		require.NoError(t, err)
	}
	neutered, err := key.Neuter()
	require.NoError(t, err)
	return neutered.String(), key.String()
}

func TestPublishedSeedGivesPublishedAddresses(t *testing.T) {
	evm, _ := deriveAccount(t, 44, 60)
	a, err := address.New(evm, publishedZpub)
	require.NoError(t, err)
	for _, c := range []struct {
		family address.Family
		index  uint32
		want   string
	}{
		{address.EVM, 0, "0x9858EfFD232B4033E47d90003D41EC34EcaEda94"},
		{address.EVM, 1, "0x6Fac4D18c912343BF86fa7049364Dd4E424Ab9C0"},
		{address.Bitcoin, 0, "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu"},
		{address.Bitcoin, 1, "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g"},
	} {
		got, err := a.At(c.family, c.index)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	require.False(t, a.IsSandbox())
	require.False(t, a.Has(address.Solana))
	_, err = a.At(address.Solana, 0)
	require.ErrorIs(t, err, address.ErrFamily)
	_, err = a.At(address.EVM, address.MaxIndex+1)
	require.Error(t, err)
}

func TestOnlyExtendedPublicKeysOfAccountsAreAccepted(t *testing.T) {
	public, private := deriveAccount(t, 44, 60)
	_, err := address.New(private, "")
	require.ErrorIs(t, err, address.ErrPrivate)
	require.NotContains(t, err.Error(), private)
	for _, text := range []string{"xpub", public[:len(public)-1] + "1", "0x9858EfFD232B4033E47d90003D41EC34EcaEda94"} {
		_, err = address.New("", text)
		require.ErrorIs(t, err, address.ErrKey, text)
		require.NotContains(t, err.Error(), text)
	}
	key, err := hdkeychain.NewKeyFromString(public)
	require.NoError(t, err)
	deeper, err := key.Derive(0)
	require.NoError(t, err)
	_, err = address.New(deeper.String(), "")
	require.ErrorIs(t, err, address.ErrDepth)

	none, err := address.New("", "")
	require.NoError(t, err)
	require.False(t, none.Has(address.EVM))
}

func TestSandboxAccounts(t *testing.T) {
	_, err := address.Sandbox([]byte("short"))
	require.Error(t, err)
	a, err := address.Sandbox(bytes.Repeat([]byte{7}, address.SeedBytes))
	require.NoError(t, err)
	again, err := address.Sandbox(bytes.Repeat([]byte{7}, address.SeedBytes))
	require.NoError(t, err)
	require.True(t, a.IsSandbox())
	forms := map[address.Family]*regexp.Regexp{
		address.EVM:     regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`),
		address.Bitcoin: regexp.MustCompile(`^bc1q[02-9ac-hj-np-z]{38}$`),
		address.Solana:  regexp.MustCompile(`^[1-9A-HJ-NP-Za-km-z]{32,44}$`),
	}
	seen := map[string]uint32{}
	rapid.Check(t, func(t *rapid.T) {
		index := rapid.Uint32Range(0, address.MaxIndex).Draw(t, "index")
		for family, form := range forms {
			require.True(t, a.Has(family))
			got, err := a.At(family, index)
			require.NoError(t, err)
			require.Regexp(t, form, got)
			same, err := again.At(family, index)
			require.NoError(t, err)
			require.Equal(t, got, same, "the same index has the same address")
			if other, known := seen[got]; known {
				require.Equal(t, other, index, "two indexes have two addresses")
			}
			seen[got] = index
		}
	})
}
