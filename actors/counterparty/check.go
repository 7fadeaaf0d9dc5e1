package counterparty

import (
	"strings"
	"unicode/utf8"

	"purser/actors/fault"
)

// Normal returns the account in its stored form: IBAN and BIC in capitals, the IBAN without spaces,
// and an empty Kind as US.
func (a Account) Normal() Account {
	a.IBAN = strings.ToUpper(strings.ReplaceAll(a.IBAN, " ", ""))
	a.BIC = strings.ToUpper(a.BIC)
	if a.Kind == "" {
		a.Kind = US
	}
	return a
}

// Check fails with invalid_body and the names of all fields that keep an account from being paid
// to. The account must be in Normal form.
func (a *Account) Check() error {
	var reasons fault.Reasons
	n := utf8.RuneCountInString(a.Name)
	reasons.RequireThat(n >= 1 && n <= MaxName, "name: 1 to %d characters", MaxName)
	switch a.Kind {
	case US:
		a.checkUS(&reasons)
	case International:
		a.checkInternational(&reasons)
	default:
		reasons.RequireThat(false, "kind: us or international")
	}
	return reasons.AsRefusal()
}

// checkUS adds the reasons of a wrong routing number, account number or type, and of fields of an
// account abroad.
func (a *Account) checkUS(reasons *fault.Reasons) {
	reasons.RequireThat(a.BIC == "" && a.IBAN == "" && a.Currency == "" && a.Address == nil,
		"bic, iban, currency, address: only with kind international")
	reasons.RequireThat(isRoutingNumber(a.RoutingNumber),
		"routingNumber: nine digits with a valid ABA checksum")
	reasons.RequireThat(len(a.AccountNumber) >= MinAccount && len(a.AccountNumber) <= MaxUSAccount &&
		isDigits(a.AccountNumber), "accountNumber: %d to %d digits", MinAccount, MaxUSAccount)
	reasons.RequireThat(a.AccountType == "checking" || a.AccountType == "savings",
		"accountType: checking or savings")
}

// checkInternational adds the reasons of a wrong currency, address, BIC, IBAN or account number, of
// both or neither of the last two, and of fields of a US account.
func (a *Account) checkInternational(reasons *fault.Reasons) {
	reasons.RequireThat(a.RoutingNumber == "" && a.AccountType == "",
		"routingNumber, accountType: only of an account in the US")
	_, served := a.Currency.Exponent()
	reasons.RequireThat(served, "currency: is not served")
	a.Address.checkAddress(reasons)
	knownBIC := isBIC(a.BIC)
	reasons.RequireThat(knownBIC, "bic: 8 or 11 characters of a bank's BIC")
	switch {
	case (a.IBAN == "") == (a.AccountNumber == ""):
		reasons.RequireThat(false, "iban: either an IBAN or an accountNumber")
	case a.IBAN != "" && !isIBAN(a.IBAN):
		reasons.RequireThat(false, "iban: must have its country's structure and a valid checksum")
	case a.IBAN != "" && knownBIC:
		reasons.RequireThat(sharesIBAN(a.IBAN[:2], bicCountry(a.BIC)), "bic: of the IBAN's country")
	case a.IBAN == "" && !isLocalAccount(a.AccountNumber):
		reasons.RequireThat(false, "accountNumber: %d to %d letters and digits", MinAccount,
			MaxLocalAccount)
	case a.IBAN == "" && knownBIC && a.Address != nil:
		reasons.RequireThat(a.Address.Country == bicCountry(a.BIC), "bic: of the address's country")
	}
}

// checkAddress adds the reasons of a missing address, of lines out of bounds, and of a country that
// is not two capital letters.
func (a *Address) checkAddress(reasons *fault.Reasons) {
	if a == nil {
		reasons.RequireThat(false, "address: is required")
		return
	}
	for _, line := range []struct {
		field, value string
		least, most  int
	}{
		{"line1", a.Line1, 1, MaxAddressLine}, {"city", a.City, 1, MaxCity}, {"region", a.Region, 0, MaxRegion},
		{"postalCode", a.PostalCode, 1, MaxPostalCode},
	} {
		n := utf8.RuneCountInString(line.value)
		reasons.RequireThat(n >= line.least && n <= line.most, "address.%s: %d to %d characters",
			line.field, line.least, line.most)
	}
	reasons.RequireThat(len(a.Country) == 2 && isUpper(a.Country), "address.country: two capital letters")
}

// isRoutingNumber checks the form of an ABA routing number: nine digits with weights 3, 7, 1, and
// an assigned prefix.
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
