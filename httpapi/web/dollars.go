package web

import (
	"fmt"

	"purser/persistence/money"
)

// Dollars formats cents as $1,234.56, and a negative amount as −$1,234.56.
func Dollars(cents money.Cents) string {
	if cents < 0 {
		return "\u2212" + Dollars(-cents)
	}
	whole := fmt.Sprint(cents / 100)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return fmt.Sprintf("$%s.%02d", whole, cents%100)
}
