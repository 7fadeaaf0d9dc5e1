package money_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence/money"
)

func rate(t require.TestingT, text string) money.Rate {
	r, err := money.ParseRate(text)
	require.NoError(t, err)
	return r
}

func TestRatesAreExactDecimals(t *testing.T) {
	for _, text := range []string{"0.9153", "1", "149.52", "0.0000000001", "12.50"} {
		require.Equal(t, text, rate(t, text).String())
	}
	for _, bad := range []string{"", ".", "1.", ".5", "0", "0.00", "-1", "1e3", "1,5", "0.12345678901", "1234567890123456789",
		"１"} {
		_, err := money.ParseRate(bad)
		require.ErrorIs(t, err, money.ErrRate, bad)
	}
}

func TestASpreadIsRoundedHalfEven(t *testing.T) {
	require.Equal(t, "0.910724", rate(t, "0.9153").LessBasisPoints(50, 6).String(),
		"0.9107235 is in the middle: to the even digit")
	require.Equal(t, "0.4", rate(t, "0.9").LessBasisPoints(5000, 1).String(), "0.45 is in the middle: down to the even digit")
	require.Equal(t, "1.0", rate(t, "1").LessBasisPoints(0, 1).String())
}

func TestACostIsRoundedUpOnce(t *testing.T) {
	for _, c := range []struct {
		rate   string
		buy    money.Currency
		amount money.Minor
		cents  money.Minor
	}{
		{"1", "EUR", 100, 100},
		{"0.9153", "EUR", 91_530, 100_000},
		{"149.5", "JPY", 299, 200},    // yen have no decimals
		{"0.307", "KWD", 3_070, 1000}, // dinars have three
		{"8", "EUR", 20, 3},           // 2.5 cents
		{"8", "EUR", 28, 4},           // 3.5 cents
		{"8", "EUR", 21, 3},           // 2.625
	} {
		got, err := rate(t, c.rate).Cost(money.USD, c.buy, c.amount)
		require.NoError(t, err)
		require.Equal(t, c.cents, got, "%+v", c)
	}
	_, err := rate(t, "0.0000000001").Cost(money.USD, "JPY", math.MaxInt64)
	require.ErrorIs(t, err, money.ErrOverflow)
	_, err = rate(t, "1").Cost(money.USD, "ZZZ", 1)
	require.ErrorIs(t, err, money.ErrRate)
	_, err = money.Rate{}.Cost(money.USD, "EUR", 1)
	require.ErrorIs(t, err, money.ErrRate)
}

func TestWhatIsSoldBuysTheAmountAndLessThanACentMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.Int64Range(1, 999_999).Draw(t, "rate in millionths")
		r := rate(t, fmt.Sprintf("0.%06d", digits))
		amount := money.Minor(rapid.Int64Range(1, 1_000_000_000).Draw(t, "amount"))
		cents, err := r.Cost(money.USD, "EUR", amount)
		require.NoError(t, err)
		exact := float64(amount) * 1e6 / float64(digits)
		require.InDelta(t, exact+0.5, float64(cents), 0.5+exact*1e-12)
	})
}
