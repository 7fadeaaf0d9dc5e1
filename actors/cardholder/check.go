package cardholder

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"purser/actors/fault"
)

// earliestBirthDate is the earliest birth date accepted.
const earliestBirthDate = "1900-01-01"

// Check fails with invalid_body and the field's name for a cardholder whose fields are out of
// bounds. A birth date must be before now.
func Check(kind string, p Person, now time.Time) error {
	if kind != ControlPerson && kind != Agent && kind != Employee {
		return invalidBody("kind: control_person, agent or employee")
	}
	if p.DisplayName == "" {
		return invalidBody("displayName: is required")
	}
	for _, text := range []struct {
		field, value string
		most         int
	}{{"displayName", p.DisplayName, MaxDisplayName}, {"firstName", p.FirstName, MaxName},
		{"lastName", p.LastName, MaxName}} {
		if utf8.RuneCountInString(text.value) > text.most {
			return invalidBody("%s: at most %d characters", text.field, text.most)
		}
	}
	if p.Email != "" && !isEmail(p.Email) {
		return invalidBody("email: must be an email address of at most %d characters", MaxEmail)
	}
	if p.PhoneNumber != "" && !isPhone(p.PhoneNumber) {
		return invalidBody("phoneNumber: must have the form +14155550100")
	}
	if err := p.ShippingAddress.validate(); err != nil {
		return err
	}
	if p.DateOfBirth != "" && !isBirthDate(p.DateOfBirth, now) {
		return invalidBody("dateOfBirth: must be a past date since %s", earliestBirthDate)
	}
	if p.SsnLast4 != "" && (len(p.SsnLast4) != 4 || !isDigits(p.SsnLast4)) {
		return invalidBody("ssnLast4: four digits")
	}
	return nil
}

// validate fails with invalid_body and the field's name for a line out of bounds or a country that
// is not two capital letters. A nil address passes.
func (a *Address) validate() error {
	if a == nil {
		return nil
	}
	for _, line := range []struct {
		field, value string
		most         int
	}{
		{"line1", a.Line1, MaxAddressLine}, {"city", a.City, MaxCity}, {"region", a.Region, MaxRegion},
		{"postalCode", a.PostalCode, MaxPostalCode},
	} {
		if n := utf8.RuneCountInString(line.value); n < 1 || n > line.most {
			return invalidBody("shippingAddress.%s: 1 to %d characters", line.field, line.most)
		}
	}
	if len(a.Country) != 2 || strings.Trim(a.Country, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return invalidBody("shippingAddress.country: two capital letters")
	}
	return nil
}

// isBirthDate compares dates as text. A past date is before today in UTC.
func isBirthDate(text string, now time.Time) bool {
	day, err := time.Parse(time.DateOnly, text)
	return err == nil && text >= earliestBirthDate && day.Format(time.DateOnly) == text &&
		text < now.UTC().Format(time.DateOnly)
}

func isEmail(text string) bool {
	local, domain, found := strings.Cut(text, "@")
	return found && local != "" && domain != "" && !strings.ContainsAny(text, " \t\r\n") &&
		!strings.Contains(domain, "@") &&
		utf8.RuneCountInString(text) <= MaxEmail
}

// isPhone checks the form of E.164: a plus sign, then 7 to 15 digits without a leading zero.
func isPhone(text string) bool {
	digits, plus := strings.CutPrefix(text, "+")
	return plus && len(digits) >= 7 && len(digits) <= 15 && digits[0] != '0' && isDigits(digits)
}

func isDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }

func invalidBody(format string, args ...any) error {
	return fault.New(fault.InvalidBody, fmt.Sprintf(format, args...))
}
