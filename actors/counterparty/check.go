package counterparty

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"purser/actors/fault"
)

// Normal returns the account in its stored form: IBAN and BIC in capitals, the IBAN without spaces,
// and an empty Kind as US. It never fails. saveRecipient calls it before Check.
func (a Account) Normal() Account {
	a.IBAN = strings.ToUpper(strings.ReplaceAll(a.IBAN, " ", ""))
	a.BIC = strings.ToUpper(a.BIC)
	if a.Kind == "" {
		a.Kind = US
	}
	return a
}

// Check fails with invalid_body and the field's name for an account that cannot be paid to. The
// account must be in Normal form. saveRecipient calls it.
func (a *Account) Check() error {
	if n := utf8.RuneCountInString(a.Name); n < 1 || n > MaxName {
		return invalidBody("name: 1 to %d characters", MaxName)
	}
	switch a.Kind {
	case US:
		return a.checkUS()
	case International:
		return a.checkInternational()
	}
	return invalidBody("kind: us or international")
}

// checkUS fails with invalid_body for a wrong routing number, account number or type, or with a
// field of an account abroad. Check calls it.
func (a *Account) checkUS() error {
	switch {
	case a.BIC != "" || a.IBAN != "" || a.Currency != "" || a.Address != nil:
		return invalidBody("bic, iban, currency, address: only with kind international")
	case !isRoutingNumber(a.RoutingNumber):
		return invalidBody("routingNumber: nine digits with a valid ABA checksum")
	case len(a.AccountNumber) < MinAccount || len(a.AccountNumber) > MaxUSAccount || !isDigits(a.AccountNumber):
		return invalidBody("accountNumber: %d to %d digits", MinAccount, MaxUSAccount)
	case a.AccountType != "checking" && a.AccountType != "savings":
		return invalidBody("accountType: checking or savings")
	}
	return nil
}

// checkInternational fails with invalid_body for a wrong currency, address, BIC, IBAN or account
// number, for both or neither of the last two, or with a field of a US account. Check calls it.
func (a *Account) checkInternational() error {
	if a.RoutingNumber != "" || a.AccountType != "" {
		return invalidBody("routingNumber, accountType: only of an account in the US")
	}
	if _, served := a.Currency.Exponent(); !served {
		return invalidBody("currency: is not served")
	}
	if err := a.Address.validate(); err != nil {
		return err
	}
	if !isBIC(a.BIC) {
		return invalidBody("bic: 8 or 11 characters of a bank's BIC")
	}
	switch {
	case (a.IBAN == "") == (a.AccountNumber == ""):
		return invalidBody("iban: either an IBAN or an accountNumber")
	case a.IBAN != "" && !isIBAN(a.IBAN):
		return invalidBody("iban: must have its country's length and a valid checksum")
	case a.IBAN != "" && !sharesIBAN(a.IBAN[:2], bicCountry(a.BIC)):
		return invalidBody("bic: of the IBAN's country")
	case a.IBAN == "" && !isLocalAccount(a.AccountNumber):
		return invalidBody("accountNumber: %d to %d letters and digits", MinAccount, MaxLocalAccount)
	case a.IBAN == "" && a.Address.Country != bicCountry(a.BIC):
		return invalidBody("bic: of the address's country")
	}
	return nil
}

// validate fails with invalid_body and the field's name for a missing address, a line out of
// bounds, or a country that is not two capital letters. checkInternational calls it.
func (a *Address) validate() error {
	if a == nil {
		return invalidBody("address: is required")
	}
	for _, line := range []struct {
		field, value string
		least, most  int
	}{
		{"line1", a.Line1, 1, MaxAddressLine}, {"city", a.City, 1, MaxCity}, {"region", a.Region, 0, MaxRegion},
		{"postalCode", a.PostalCode, 1, MaxPostalCode},
	} {
		if n := utf8.RuneCountInString(line.value); n < line.least || n > line.most {
			return invalidBody("address.%s: %d to %d characters", line.field, line.least, line.most)
		}
	}
	if len(a.Country) != 2 || !isUpper(a.Country) {
		return invalidBody("address.country: two capital letters")
	}
	return nil
}

// isRoutingNumber checks the form of an ABA routing number: nine digits with weights 3, 7, 1, and
// an assigned prefix. checkUS calls it.
func isRoutingNumber(text string) bool {
	if len(text) != 9 || !isDigits(text) {
		return false
	}
	sum := 0
	for i, weight := range []int{3, 7, 1, 3, 7, 1, 3, 7, 1} {
		sum += weight * int(text[i]-'0')
	}
	prefix := int(text[0]-'0')*10 + int(text[1]-'0')
	given := prefix <= 12 || prefix >= 21 && prefix <= 32 || prefix >= 61 && prefix <= 72 || prefix == 80
	return sum%10 == 0 && given && text != "000000000"
}

// isBIC checks the form of ISO 9362: institution, country, location and an optional branch.
func isBIC(text string) bool {
	return (len(text) == 8 || len(text) == 11) && isAlphanumeric(text[:4]) && isUpper(text[4:6]) &&
		isAlphanumeric(text[6:])
}

// bicCountry returns the country of a valid BIC.
func bicCountry(bic string) string { return bic[4:6] }

func isLocalAccount(text string) bool {
	return len(text) >= MinAccount && len(text) <= MaxLocalAccount &&
		strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func isDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }

func isUpper(text string) bool { return strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" }

func isAlphanumeric(text string) bool {
	return strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

func invalidBody(format string, args ...any) error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}
