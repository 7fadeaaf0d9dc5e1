package dashboard

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"purser/httpapi/web"
	"purser/persistence/money"
)

// nameFields puts the reasons of a refusal, which the interface separates by semicolons, beside the
// fields that they name, such as shipping.city. It writes the reasons in the words of the page:
// labels in place of names, and dollars in place of cents. A field with several reasons has the
// first.
func nameFields(v *visit, a *action) {
	v.wrong = map[string]string{}
	reasons := strings.Split(v.problem, "; ")
	for i, text := range reasons {
		name, rest, _ := strings.Cut(text, " ")
		bare, isPair := strings.CutSuffix(name, ":") // as in "amountCents: 1 to 500"
		f := a.fieldOf(bare)
		if f == nil {
			reasons[i] = a.labelNames(centsInDollars(text))
			continue
		}
		if strings.HasSuffix(bare, "Cents") {
			rest = boundsInDollars(rest)
		}
		if bounds := bothBounds.FindStringSubmatch(rest); isPair && bounds != nil {
			rest, isPair = "must be from "+bounds[1]+" to "+bounds[2], false
		}
		reasons[i] = f.Label
		if isPair {
			reasons[i] += ":"
		}
		reasons[i] += " " + a.labelNames(centsInDollars(rest))
		if v.wrong[f.Name] == "" {
			v.wrong[f.Name] = reasons[i]
		}
	}
	v.problem = strings.Join(reasons, "; ")
}

// fieldOf finds the field of a member that a reason names, such as shipping.city, allowedMccs[3],
// or amountUsdCents for a field amount. It returns nil for a member that the form has no field for.
func (a *action) fieldOf(member string) *Field {
	member = member[strings.LastIndexByte(member, '.')+1:]
	member, _, _ = strings.Cut(member, "[")
	amount := strings.TrimSuffix(strings.TrimSuffix(member, "Cents"), "Usd")
	for i := range a.fields {
		f := &a.fields[i]
		if strings.EqualFold(f.Name, member) || strings.EqualFold(f.Name, amount) {
			return f
		}
	}
	return nil
}

// labelNames replaces the names of fields in a reason by their labels. A name without a capital
// letter may be a word of the reason, so it stays.
func (a *action) labelNames(text string) string {
	for _, f := range a.fields {
		if strings.ContainsFunc(f.Name, unicode.IsUpper) {
			text = strings.ReplaceAll(text, f.Name, f.Label)
		}
	}
	return text
}

// Numbers in the reasons of the interface.
var (
	number         = regexp.MustCompile(`\b[0-9]+\b`)
	numberOfCents  = regexp.MustCompile(`\b([0-9]+) cents?\b`)
	bothBounds     = regexp.MustCompile(`^(\S+) to (\S+)$`)
	rangeOfCents   = regexp.MustCompile(`a whole number of cents from ([0-9]+) to ([0-9]+)`)
	namesOfFilters = strings.NewReplacer("amountFromCents", "Amount from", "AmountFromCents", "Amount from",
		"amountToCents", "Amount to", "AmountToCents", "Amount to")
)

// boundsInDollars writes every number of a reason about an amount in cents as dollars.
func boundsInDollars(text string) string {
	return number.ReplaceAllStringFunc(numberOfCents.ReplaceAllString(text, "$1"), dollarsOf)
}

// centsInDollars writes the numbers of cents of a reason, such as "500 cents", as dollars.
func centsInDollars(text string) string {
	return numberOfCents.ReplaceAllStringFunc(text, func(part string) string {
		digits, _, _ := strings.Cut(part, " ")
		return dollarsOf(digits)
	})
}

// dollarsOf writes digits of cents as dollars. A number that is no amount stays as it is.
func dollarsOf(digits string) string {
	cents, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return digits
	}
	return web.Dollars(money.Cents(cents))
}

// filterReason writes the refusal of a filter in the words of the page.
func filterReason(text string) string {
	text = rangeOfCents.ReplaceAllStringFunc(text, func(part string) string {
		bounds := rangeOfCents.FindStringSubmatch(part)
		return "an amount in dollars from " + dollarsOf(bounds[1]) + " to " + dollarsOf(bounds[2])
	})
	return namesOfFilters.Replace(text)
}
