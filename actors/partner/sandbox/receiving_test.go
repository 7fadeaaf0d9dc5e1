package sandbox_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/actors/partner"
	"purser/actors/partner/sandbox"
)

// Details have the format and check digits of their rails, differ by workspace, and stay the same.
func TestReceivingDetailsAreValid(t *testing.T) {
	lengths := map[string]int{"routingNumber": 9, "sortCode": 6, "bsb": 6, "clabe": 18, "bic": 8,
		"institutionNumber": 3,
		"transitNumber":     5, "bankCode": 4, "branchCode": 3}
	for _, currency := range []string{"USD", "EUR", "GBP", "JPY", "KWD", "AUD", "CAD", "CHF", "SGD", "MXN"} {
		seen := map[string]bool{}
		for n := range 100 {
			workspace := fmt.Sprint("ws_", n)
			details, err := sandbox.Desk{}.ReceivingDetails(t.Context(), workspace, currency)
			require.NoError(t, err)
			again, err := sandbox.Desk{}.ReceivingDetails(t.Context(), workspace, currency)
			require.NoError(t, err)
			require.Equal(t, details, again)
			require.NotEmpty(t, details)
			require.False(t, seen[fmt.Sprint(details)], "another workspace's")
			seen[fmt.Sprint(details)] = true
			for _, d := range details {
				for field, value := range d.Fields {
					if want, fixed := lengths[field]; fixed {
						require.Len(t, value, want, "%s of %s", field, currency)
					}
					switch field {
					case "iban":
						require.True(t, modulo97(value), "%s: %s", currency, value)
						require.Len(t, value, map[string]int{"DE": 22, "GB": 22, "KW": 30, "CH": 21}[value[:2]])
					case "routingNumber", "clabe":
						require.Zero(t, weightedSum(value), "%s: %s", field, value)
					}
				}
			}
		}
	}
	_, err := sandbox.Desk{}.ReceivingDetails(t.Context(), "ws_1", "INR")
	require.ErrorIs(t, err, partner.ErrRefused)
}

// modulo97 checks an IBAN by ISO 13616 over the whole number.
func modulo97(iban string) bool {
	var digits strings.Builder
	for _, c := range iban[4:] + iban[:4] {
		if c >= 'A' {
			fmt.Fprint(&digits, c-'A'+10)
		} else {
			digits.WriteRune(c)
		}
	}
	n, ok := new(big.Int).SetString(digits.String(), 10)
	return ok && new(big.Int).Mod(n, big.NewInt(97)).Int64() == 1
}

// weightedSum is the weighted sum of routing numbers and CLABEs modulo 10, the check digit
// included.
func weightedSum(digits string) (sum int) {
	weights := []int{3, 7, 1}
	for i, c := range digits[:len(digits)-1] {
		sum += weights[i%3] * int(c-'0') % 10
	}
	return (sum + int(digits[len(digits)-1]-'0')) % 10
}
