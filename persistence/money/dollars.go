package money

import (
	"errors"
	"fmt"
	"strings"
)

// ErrDollars: the text is not a valid amount of dollars.
var ErrDollars = errors.New("money: an amount is a plain decimal over 0 with at most two places, 0.01 to 10000000000.00")

// maxDollarChars bounds a parsed text: MaxAmount with its point and places.
const maxDollarChars = len("10000000000.00")

// ParseDollars returns an amount of dollars, or of a dollar coin, in cents. The text has only ASCII
// digits, without a leading zero except in "0.50". A point is followed by one or two digits. The
// amount is over 0 and at most MaxAmount. Two texts of one amount differ only in zeros at the end.
// Any other text is ErrDollars.
func ParseDollars(text string) (Cents, error) {
	whole, places, pointed := strings.Cut(text, ".")
	switch {
	case len(text) > maxDollarChars, whole == "", whole[0] == '0' && len(whole) > 1, pointed && places == "",
		len(places) > dollarPlaces:
		return 0, ErrDollars
	}
	amount := Cents(0)
	for _, d := range []byte(whole + places + strings.Repeat("0", dollarPlaces-len(places))) {
		if d < '0' || d > '9' {
			return 0, ErrDollars
		}
		amount = amount*10 + Cents(d-'0')
	}
	if amount == 0 || amount > MaxAmount {
		return 0, ErrDollars
	}
	return amount, nil
}

const dollarPlaces = 2

// FormatDollars writes cents as dollars, always with two places: "-12.05".
func FormatDollars(c Cents) string {
	sign, magnitude := "", uint64(c)
	if c < 0 {
		sign, magnitude = "-", -magnitude
	}
	return fmt.Sprintf("%s%d.%02d", sign, magnitude/100, magnitude%100)
}
