package money_test

import (
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence/money"
)

func TestDollarsAreReadExactly(t *testing.T) {
	for text, cents := range map[string]money.Cents{"0.01": 1, "0.1": 10, "0.10": 10, "0.50": 50, "1": 100, "1.0": 100, "1.00": 100,
		"12.3": 1_230, "12.34": 1_234, "2999.99": 299_999, "3000": 300_000, "1000000": 100_000_000,
		"9999999999.99": money.MaxAmount - 1, "10000000000": money.MaxAmount, "10000000000.00": money.MaxAmount} {
		got, err := money.ParseDollars(text)
		require.NoError(t, err, text)
		require.Equal(t, cents, got, text)
	}
}

// badDollars is what people, programs and attackers write for an amount.
var badDollars = []string{"", " ", "0", "0.0", "0.00", ".", "..", "1.", ".5", ".50", "1.234", "1.000", "0.001", "1.2.3", "00",
	"01", "00.50", "007.50", "-1", "-0.01", "+1", "+1.00", "--1", "1-", "(1.00)", " 1", "1 ", "1 .5", "1. 5", "1\n", "\t1",
	"1e3", "1E3", "1e-2", "0x10", "0b1", "0o7", "1_000", "1,000", "1,50", "1'000", "1.5,0", "$1", "1$", "1USD", "1 USDC",
	"NaN", "Infinity", "inf", "null", "true", "\x00", "1\x00", "\x001", "1.\x005", "１", "１.００", "1.５", "٣", "१", "²", "½",
	"Ⅷ", "1．5", "1٫5", "−1", "\u200b1", "1\u00a0", "\ufeff1", "10000000000.01", "10000000000.1", "10000000001",
	"1000000000000000000", "9223372036854775807", "9223372036854775808", "18446744073709551616", "92233720368547758.08",
	"1" + strings.Repeat("0", 1000), "0." + strings.Repeat("0", 1000) + "1", strings.Repeat("0", 1000) + "1", "\xff", "1\xff"}

func TestWhatIsNoAmountOfDollars(t *testing.T) {
	for _, text := range badDollars {
		got, err := money.ParseDollars(text)
		require.ErrorIs(t, err, money.ErrDollars, "%q", text)
		require.Zero(t, got, "%q", text)
	}
}

func TestDollarsAreWrittenWithTwoPlaces(t *testing.T) {
	for cents, text := range map[money.Cents]string{0: "0.00", 1: "0.01", 10: "0.10", 100: "1.00", 123_456: "1234.56", -1: "-0.01",
		-1_205: "-12.05", math.MaxInt64: "92233720368547758.07", math.MinInt64: "-92233720368547758.08"} {
		require.Equal(t, text, money.FormatDollars(cents))
	}
}

// plainDollars is the grammar, said another way.
var plainDollars = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]{1,2})?$`)

// FuzzDollars reads a text by the grammar and by fractions of any size, and compares.
func FuzzDollars(f *testing.F) {
	for _, text := range append(badDollars, "1", "0.01", "12.34", "10000000000.00") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, plain := new(big.Rat), plainDollars.MatchString(text)
		if plain {
			_, plain = want.SetString(text)
			want.Mul(want, big.NewRat(100, 1))
		}
		good := plain && want.Sign() > 0 && want.Cmp(new(big.Rat).SetInt64(int64(money.MaxAmount))) <= 0
		got, err := money.ParseDollars(text)
		require.Equal(t, good, err == nil, "%q", text)
		if !good {
			return
		}
		require.Equal(t, money.Cents(want.Num().Int64()), got, "%q", text)
		again, err := money.ParseDollars(money.FormatDollars(got))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}
