package money

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Minor is an amount of a currency in its smallest units, 10^-Exponent of the currency.
type Minor int64

// Cents returns m as US cents. The caller knows that the currency of m is USD, or a coin worth
// one dollar in units of a cent.
func (m Minor) Cents() Cents { return Cents(m) }

// Currency is an ISO 4217 code.
type Currency string

// USD is the currency of accounts.
const USD Currency = "USD"

// Exponent is the number of decimals of a currency, per ISO 4217; known is false for one that
// Purser does not serve.
func (c Currency) Exponent() (exponent int, known bool) {
	switch c {
	case "JPY":
		return 0, true
	case "KWD":
		return 3, true
	case USD, "EUR", "GBP", "AUD", "CAD", "CHF", "SGD", "HKD", "MXN", "BRL", "INR":
		return 2, true
	}
	return 0, false
}

// Codes are the currencies that Purser serves.
func Codes() []Currency {
	return []Currency{USD, "EUR", "GBP", "JPY", "KWD", "AUD", "CAD", "CHF", "SGD", "HKD", "MXN", "BRL", "INR"}
}

// MaxMinor is the largest amount of a currency, in its smallest units, that one request may carry.
const MaxMinor Minor = 1_000_000_000_000_000_000

// ErrMinor: the text is not a valid amount.
var ErrMinor = errors.New("money: an amount is a whole number of smallest units, 1 to 1000000000000000000, as plain digits")

// ParseMinor reads an amount in smallest units as the interface writes it: ASCII digits without a
// leading zero, 1 to MaxMinor. Any other text is ErrMinor.
func ParseMinor(text string) (Minor, error) {
	if len(text) == 0 || len(text) > maxMinorDigits || text[0] == '0' {
		return 0, ErrMinor
	}
	amount := Minor(0)
	for _, c := range []byte(text) {
		if c < '0' || c > '9' || amount > MaxMinor/10 {
			return 0, ErrMinor
		}
		amount = amount*10 + Minor(c-'0')
	}
	if amount > MaxMinor {
		return 0, ErrMinor
	}
	return amount, nil
}

const maxMinorDigits = 19

// FormatMinor writes an amount as the interface does, in plain digits.
func FormatMinor(m Minor) string { return strconv.FormatInt(int64(m), 10) }

// Display writes an amount for people: "1234.50 EUR".
func (c Currency) Display(amount Minor) string {
	exponent, _ := c.Exponent()
	sign := ""
	if amount < 0 {
		sign = "-"
	}
	digits := fmt.Sprintf("%0*d", exponent+1, new(big.Int).Abs(big.NewInt(int64(amount))))
	if exponent > 0 {
		digits = digits[:len(digits)-exponent] + "." + digits[len(digits)-exponent:]
	}
	return sign + digits + " " + string(c)
}

// ParseDecimal parses a plain decimal such as "12.5" into smallest units. It returns ErrDecimal
// when the text is not a plain decimal. It returns ErrMinor when the decimal has more decimals than
// the currency, is zero, or is over MaxMinor, and when the currency is unknown.
func (c Currency) ParseDecimal(text string) (Minor, error) {
	whole, decimals, pointed := strings.Cut(text, ".")
	if whole == "" || pointed && decimals == "" || len(text) > maxDecimalChars {
		return 0, ErrDecimal
	}
	for _, d := range []byte(whole + decimals) {
		if d < '0' || d > '9' {
			return 0, ErrDecimal
		}
	}
	exponent, known := c.Exponent()
	decimals = strings.TrimRight(decimals, "0")
	if !known || len(decimals) > exponent {
		return 0, ErrMinor
	}
	return ParseMinor(strings.TrimLeft(whole+decimals+strings.Repeat("0", exponent-len(decimals)), "0"))
}

const maxDecimalChars = 64

// ErrDecimal: the text is not a plain decimal.
var ErrDecimal = errors.New("money: not a plain decimal")

// Limits of a rate, in digits.
const (
	MaxRateDecimals = 10
	maxRateDigits   = 18
)

// ErrRate: the text is not a rate.
var ErrRate = errors.New("money: a rate is a positive decimal")

// Rate is the number of units of one currency that one unit of another buys: an exact decimal,
// never a float. The zero Rate is not a valid rate.
type Rate struct {
	digits int64 // the rate is digits / 10^scale
	scale  int
}

// ParseRate reads a positive decimal of at most MaxRateDecimals decimals and 18 digits: "0.9153".
// Any other text is ErrRate. The rates of the currency desk and the price feed are read with it.
func ParseRate(text string) (Rate, error) {
	whole, decimals, _ := strings.Cut(text, ".")
	digits := whole + decimals
	if whole == "" || strings.HasSuffix(text, ".") || len(decimals) > MaxRateDecimals || len(digits) > maxRateDigits {
		return Rate{}, fmt.Errorf("%w: %q", ErrRate, text)
	}
	r := Rate{scale: len(decimals)}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return Rate{}, fmt.Errorf("%w: %q", ErrRate, text)
		}
		r.digits = r.digits*10 + int64(c-'0')
	}
	if r.digits == 0 {
		return Rate{}, fmt.Errorf("%w: %q", ErrRate, text)
	}
	return r, nil
}

// String formats the rate with the number of decimals that it was created with.
func (r Rate) String() string {
	text := fmt.Sprintf("%0*d", r.scale+1, r.digits)
	if r.scale == 0 {
		return text
	}
	return text[:len(text)-r.scale] + "." + text[len(text)-r.scale:]
}

// LessBasisPoints returns the rate lowered by a spread in hundredths of a percent (0 to 9,999),
// rounded half to even to the given decimals. It panics for arguments out of bounds.
func (r Rate) LessBasisPoints(points int64, decimals int) Rate {
	if points < 0 || points > 9_999 || decimals > MaxRateDecimals {
		panic("BUG: spread or decimals out of bounds")
	}
	n := new(big.Int).Mul(big.NewInt(r.digits), big.NewInt(10_000-points))
	q := halfEven(n.Mul(n, power(decimals)), new(big.Int).Mul(big.NewInt(10_000), power(r.scale)))
	if !q.IsInt64() {
		panic("BUG: a rate that does not fit")
	}
	return Rate{digits: q.Int64(), scale: decimals}
}

// Per returns how many units of r's currency one unit of base's currency is worth. Both rates are
// against the same third currency. The result is lowered by a spread in basis points and rounded
// once, half to even, to the given decimals. ErrRate reports a result that is zero or too large.
func (r Rate) Per(base Rate, points int64, decimals int) (Rate, error) {
	if points < 0 || points > 9_999 || decimals > MaxRateDecimals || r.digits <= 0 || base.digits <= 0 {
		panic("BUG: rates, spread or decimals out of bounds")
	}
	n := new(big.Int).Mul(big.NewInt(r.digits), big.NewInt(10_000-points))
	n.Mul(n, power(decimals+base.scale))
	d := new(big.Int).Mul(big.NewInt(base.digits), big.NewInt(10_000))
	q := halfEven(n, d.Mul(d, power(r.scale)))
	if !q.IsInt64() || q.Sign() == 0 || len(q.String()) > maxRateDigits {
		return Rate{}, fmt.Errorf("%w: %s per %s", ErrRate, r, base)
	}
	return Rate{digits: q.Int64(), scale: decimals}, nil
}

// Proceeds returns the amount of buy for an amount of sell, at a rate in units of buy per unit of
// sell. It rounds once, down to the smallest unit of buy, so that no sequence of small conversions
// is worth more than the rate. It fails with ErrRate for an unknown currency or the zero Rate, and
// with ErrOverflow for a result over an int64.
func (r Rate) Proceeds(sell, buy Currency, amount Minor) (Minor, error) {
	sellExponent, known := sell.Exponent()
	buyExponent, alsoKnown := buy.Exponent()
	if !known || !alsoKnown || r.digits <= 0 {
		return 0, fmt.Errorf("%w for %s and %s", ErrRate, sell, buy)
	}
	n := new(big.Int).Mul(big.NewInt(int64(amount)), big.NewInt(r.digits))
	q := n.Quo(n.Mul(n, power(buyExponent)), power(sellExponent+r.scale))
	if !q.IsInt64() {
		return 0, ErrOverflow
	}
	return Minor(q.Int64()), nil
}

// Cost returns the amount of sell that buys an amount of buy, at a rate in units of buy per unit of
// sell. It rounds once, up to the smallest unit of sell, as Proceeds rounds down. It fails with
// ErrRate for an unknown currency or the zero Rate, and with ErrOverflow for a result over an
// int64.
func (r Rate) Cost(sell, buy Currency, amount Minor) (Minor, error) {
	sellExponent, known := sell.Exponent()
	buyExponent, alsoKnown := buy.Exponent()
	if !known || !alsoKnown || r.digits <= 0 {
		return 0, fmt.Errorf("%w for %s and %s", ErrRate, sell, buy)
	}
	n := new(big.Int).Mul(big.NewInt(int64(amount)), power(sellExponent+r.scale))
	q, rest := n.QuoRem(n, new(big.Int).Mul(big.NewInt(r.digits), power(buyExponent)), new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return 0, ErrOverflow
	}
	return Minor(q.Int64()), nil
}

// halfEven divides two positive numbers and rounds half to even.
func halfEven(n, d *big.Int) *big.Int {
	q, rest := new(big.Int).QuoRem(n, d, new(big.Int))
	switch twice := rest.Lsh(rest, 1).Cmp(d); {
	case twice > 0, twice == 0 && q.Bit(0) == 1:
		q.Add(q, big.NewInt(1))
	}
	return q
}

func power(of int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(of)), nil) }
