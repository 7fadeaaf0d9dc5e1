package address_test

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"strings"
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

// Samples of EIP-55, BIP-173, BIP-350 and the genesis block.
func TestEqualAddressesHaveOneSpelling(t *testing.T) {
	for family, spellings := range map[address.Family][]string{
		address.EVM: {
			"0x52908400098527886E0F7030069857D2E4169EE7", "0xde709f2102306220921060314715629080e2fb77",
			"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
			"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
		},
		address.Bitcoin: {"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
			"bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3",
			"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
			"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "3P14159f73E4gFr7JterCCQh9QjiTjiZrG"},
		address.Solana: {"11111111111111111111111111111111", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"},
	} {
		for _, spelled := range spellings {
			texts := []string{spelled}
			if family == address.EVM {
				texts = append(texts, strings.ToLower(spelled), "0x"+strings.ToUpper(spelled[2:]))
			}
			if strings.HasPrefix(spelled, "bc1") {
				texts = append(texts, strings.ToUpper(spelled))
			}
			for _, text := range texts {
				got, err := address.Canonical(family, text)
				require.NoError(t, err, text)
				require.Equal(t, spelled, got)
			}
		}
	}
}

func TestTextsThatAreNoAddressOfTheFamily(t *testing.T) {
	const key = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
	const evm = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"
	const bitcoin = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	for _, c := range []struct {
		family address.Family
		err    error
		texts  []string
	}{
		{address.EVM, address.ErrEVM, []string{"", "0x", evm[2:], "0X" + evm[2:], evm[:41], evm + "00",
			evm[:40] + "gg", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", bitcoin}},
		{address.Bitcoin, address.ErrBitcoin, []string{"", evm, bitcoin[:41] + "5", "BC" + bitcoin[2:], key,
			"tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", "1a1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
			"mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", strings.Repeat("1", 91)}},
		{address.Solana, address.ErrSolana, []string{"", evm, bitcoin, strings.Repeat("1", 31),
			strings.Repeat("1", 33), "0OIl"}},
	} {
		for _, text := range c.texts {
			_, err := address.Canonical(c.family, text)
			require.ErrorIs(t, err, c.err, text)
		}
	}
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
			spelled, err := address.Canonical(family, got)
			require.NoError(t, err)
			require.Equal(t, got, spelled)
			if other, known := seen[got]; known {
				require.Equal(t, other, index, "two indexes have two addresses")
			}
			seen[got] = index
		}
	})
}
