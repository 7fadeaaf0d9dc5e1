package money_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence/money"
)

func TestAmountsAreWholeNumbersInPlainDigits(t *testing.T) {
	for text, want := range map[string]money.Minor{"1": 1, "999": 999, "1000000000000000000": money.MaxMinor,
		"999999999999999999": 999_999_999_999_999_999} {
		got, err := money.ParseMinor(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"", "0", "00", "01", "-1", "+1", "1.0", "1.", ".5", "1,000", "1e3", "0x1", "１", "٣", " 1", "1 ",
		"1_000", "1000000000000000001", "9223372036854775807", "9999999999999999999", "10000000000000000000",
		"18446744073709551617"} {
		_, err := money.ParseMinor(bad)
		require.ErrorIs(t, err, money.ErrMinor, bad)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9]{1,20}`).Draw(t, "text")
		got, err := money.ParseMinor(text)
		want, parsed := strconv.ParseInt(text, 10, 64)
		fits := parsed == nil && want >= 1 && money.Minor(want) <= money.MaxMinor && text[0] != '0'
		if fits != (err == nil) || fits && got != money.Minor(want) {
			t.Fatalf("%s is %d, %v", text, got, err)
		}
	})
}

func TestAmountsAreShownWithTheDecimalsOfTheirCurrency(t *testing.T) {
	for want, a := range map[string]struct {
		currency money.Currency
		minor    money.Minor
	}{"0.05 EUR": {"EUR", 5}, "1234.50 EUR": {"EUR", 123_450}, "-0.05 EUR": {"EUR", -5}, "5 JPY": {"JPY", 5},
		"0.005 KWD":                 {"KWD", 5},
		"-9223372036854775.808 KWD": {"KWD", -1 << 63}} {
		require.Equal(t, want, a.currency.Display(a.minor))
	}
}

func TestDecimalsOfACurrency(t *testing.T) {
	f := func(c money.Currency, text string, want money.Minor, fault error) {
		t.Helper()
		got, err := c.ParseDecimal(text)
		require.ErrorIs(t, err, fault)
		if fault == nil {
			require.Equal(t, want, got)
		}
	}
	f("EUR", "12.5", 1_250, nil)
	f("EUR", "0012.50", 1_250, nil)
	f("JPY", "12.0", 12, nil)
	f("KWD", "0.001", 1, nil)
	f("EUR", "0.001", 0, money.ErrMinor)
	f("JPY", "0.5", 0, money.ErrMinor)
	f("EUR", "0", 0, money.ErrMinor)
	f("EUR", "10000000000000000.01", 0, money.ErrMinor)
	for _, bad := range []string{"", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "１", "1.2.3", " 1"} {
		f("EUR", bad, 0, money.ErrDecimal)
	}
}

func TestWhatACrossRateBuys(t *testing.T) {
	rate, err := rate(t, "149.52").Per(rate(t, "0.9153"), 50, 10)
	require.NoError(t, err)
	require.Equal(t, "162.5394952475", rate.String(), "149.52 × 0.995 ÷ 0.9153, rounded once")
	buy, err := rate.Proceeds("EUR", "JPY", 10_000)
	require.NoError(t, err)
	require.EqualValues(t, 16_253, buy)
	half, err := money.ParseRate("0.5")
	require.NoError(t, err)
	for sell, want := range map[int64]money.Minor{1: 0, 2: 1, 3: 1, 5: 2, 7: 3} { // less than a cent is not paid out
		got, err := half.Proceeds("EUR", "USD", money.Minor(sell))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err = rate.Proceeds("JPY", "KWD", money.MaxMinor)
	require.ErrorIs(t, err, money.ErrOverflow)
}
