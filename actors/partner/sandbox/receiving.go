package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"purser/actors/partner"
)

// sandboxBIC is the code of a fictional bank in a country.
func sandboxBIC(country string) string { return "PURS" + country + "2X" }

// ReceivingDetails implements partner.Desk. The details are derived from the workspace and the
// currency. Their check digits are valid, their banks are fictional. Any other currency is
// partner.ErrRefused.
func (Desk) ReceivingDetails(_ context.Context, workspace, currency string) ([]partner.ReceivingDetails, error) {
	sum := sha256.Sum256([]byte("sandbox receiving account|" + workspace + "|" + currency))
	digits := fmt.Sprintf("%020d", binary.BigEndian.Uint64(sum[:8]))
	f := func(rail string, pairs ...string) partner.ReceivingDetails {
		r := partner.ReceivingDetails{Rail: rail, Fields: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			r.Fields[pairs[i]] = pairs[i+1]
		}
		return r
	}
	switch account := digits[10:]; currency {
	case "USD":
		routing := withABACheckDigit("0210000" + digits[10:11])
		return []partner.ReceivingDetails{f("ach", "routingNumber", routing, "accountNumber", account, "accountType",
			"checking"),
			f("wire", "routingNumber", routing, "accountNumber", account, "bic", sandboxBIC("US"))}, nil
	case "EUR":
		return []partner.ReceivingDetails{f("sepa", "iban", withIBANCheckDigits("DE", "50010000"+account), "bic",
			sandboxBIC("DE"))}, nil
	case "GBP":
		sort, number := "040075", account[2:]
		return []partner.ReceivingDetails{f("faster_payments", "sortCode", sort, "accountNumber", number),
			f("chaps", "iban", withIBANCheckDigits("GB", "PURS"+sort+number), "bic", sandboxBIC("GB"))}, nil
	case "JPY":
		return []partner.ReceivingDetails{f("zengin", "bankCode", "0310", "branchCode", digits[10:13], "accountType",
			"ordinary",
			"accountNumber", digits[13:])}, nil
	case "KWD":
		return []partner.ReceivingDetails{f("swift", "iban", withIBANCheckDigits("KW", "PURS"+digits+"00"), "bic",
			sandboxBIC("KW"))}, nil
	case "AUD":
		return []partner.ReceivingDetails{f("direct_entry", "bsb", "802985", "accountNumber", account[1:])}, nil
	case "CAD":
		return []partner.ReceivingDetails{f("eft", "institutionNumber", "621", "transitNumber", "16001",
				"accountNumber", account[:9])},
			nil
	case "CHF":
		return []partner.ReceivingDetails{f("sic", "iban", withIBANCheckDigits("CH", "08799"+"00"+account), "bic",
			sandboxBIC("CH"))}, nil
	case "SGD":
		return []partner.ReceivingDetails{f("fast", "bankCode", "7171", "accountNumber", account)}, nil
	case "MXN":
		return []partner.ReceivingDetails{f("spei", "clabe", withCLABECheckDigit("646180"+"0"+account))}, nil
	}
	return nil, partner.ErrRefused
}

// withIBANCheckDigits is an IBAN: the country, the check digits of ISO 13616, and the account
// number.
func withIBANCheckDigits(country, number string) string {
	rest := 0
	for _, c := range []byte(number + country + "00") {
		if c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return fmt.Sprintf("%s%02d%s", country, 98-rest, number)
}

// withABACheckDigit is a routing number from its first eight digits.
func withABACheckDigit(eight string) string { return eight + checkDigit(eight, 3, 7, 1) }

// withCLABECheckDigit is a CLABE from its first seventeen digits: each weighted digit counts modulo
// 10.
func withCLABECheckDigit(seventeen string) string { return seventeen + checkDigit(seventeen, 3, 7, 1) }

// checkDigit brings the weighted sum of the digits to a multiple of ten.
func checkDigit(digits string, weights ...int) string {
	sum := 0
	for i, c := range []byte(digits) {
		sum += weights[i%len(weights)] * int(c-'0') % 10
	}
	return fmt.Sprint((10 - sum%10) % 10)
}
