package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"purser/actors/partner"
)

// sandboxBIC is the code of a bank that is not there, in a country.
func sandboxBIC(country string) string { return "PURS" + country + "2X" }

// Receiving makes details that follow from the workspace and the currency. Their checksums are right; no bank knows them.
func (Desk) Receiving(_ context.Context, workspace, currency string) ([]partner.Receiving, error) {
	sum := sha256.Sum256([]byte("sandbox receiving account|" + workspace + "|" + currency))
	digits := fmt.Sprintf("%020d", binary.BigEndian.Uint64(sum[:8]))
	f := func(rail string, pairs ...string) partner.Receiving {
		r := partner.Receiving{Rail: rail, Fields: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			r.Fields[pairs[i]] = pairs[i+1]
		}
		return r
	}
	switch account := digits[10:]; currency {
	case "USD":
		routing := aba("0210000" + digits[10:11])
		return []partner.Receiving{f("ach", "routingNumber", routing, "accountNumber", account, "accountType", "checking"),
			f("wire", "routingNumber", routing, "accountNumber", account, "bic", sandboxBIC("US"))}, nil
	case "EUR":
		return []partner.Receiving{f("sepa", "iban", iban("DE", "50010000"+account), "bic", sandboxBIC("DE"))}, nil
	case "GBP":
		sort, number := "040075", account[2:]
		return []partner.Receiving{f("faster_payments", "sortCode", sort, "accountNumber", number),
			f("chaps", "iban", iban("GB", "PURS"+sort+number), "bic", sandboxBIC("GB"))}, nil
	case "JPY":
		return []partner.Receiving{f("zengin", "bankCode", "0310", "branchCode", digits[10:13], "accountType", "ordinary",
			"accountNumber", digits[13:])}, nil
	case "KWD":
		return []partner.Receiving{f("swift", "iban", iban("KW", "PURS"+digits+"00"), "bic", sandboxBIC("KW"))}, nil
	case "AUD":
		return []partner.Receiving{f("direct_entry", "bsb", "802985", "accountNumber", account[1:])}, nil
	case "CAD":
		return []partner.Receiving{f("eft", "institutionNumber", "621", "transitNumber", "16001", "accountNumber", account[:9])},
			nil
	case "CHF":
		return []partner.Receiving{f("sic", "iban", iban("CH", "08799"+"00"+account), "bic", sandboxBIC("CH"))}, nil
	case "SGD":
		return []partner.Receiving{f("fast", "bankCode", "7171", "accountNumber", account)}, nil
	case "MXN":
		return []partner.Receiving{f("spei", "clabe", clabe("646180"+"0"+account))}, nil
	}
	return nil, partner.ErrRefused
}

// iban puts the check digits of ISO 13616 between a country and an account number.
func iban(country, number string) string {
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

// aba adds the ninth digit to eight of a routing number.
func aba(eight string) string { return eight + weighted(eight, 3, 7, 1) }

// clabe adds the eighteenth digit to seventeen of a CLABE: each weighted digit counts modulo 10.
func clabe(seventeen string) string { return seventeen + weighted(seventeen, 3, 7, 1) }

// weighted is the digit that brings the weighted sum of the digits to a multiple of ten.
func weighted(digits string, weights ...int) string {
	sum := 0
	for i, c := range []byte(digits) {
		sum += weights[i%len(weights)] * int(c-'0') % 10
	}
	return fmt.Sprint((10 - sum%10) % 10)
}
