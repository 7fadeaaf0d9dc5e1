package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"purser/httpapi/web"
	"purser/persistence/money"
)

// plainCell is a cell of text.
func plainCell(text string) Cell { return Cell{Text: text} }

// linkCell is a cell whose text leads to a page.
func linkCell(text, href string) Cell { return Cell{Text: text, Href: href} }

// codeCell is a cell of a text for programs.
func codeCell(text string) Cell { return Cell{Text: text, Code: true} }

// dollarCell is a cell of an amount in cents.
func dollarCell(cents money.Cents) Cell { return Cell{Text: web.Dollars(cents)} }

// timeCell is a cell of a time, in UTC. A zero time is an empty cell.
func timeCell(at time.Time) Cell {
	if at.IsZero() {
		return Cell{}
	}
	return Cell{Text: at.UTC().Format("2 Jan 2006 15:04:05"), Stamp: at.UTC().Format(time.RFC3339)}
}

// dateCell is a cell of a time in a list, of which the day is shown, with its year when it is not
// this one.
func (v *visit) dateCell(at time.Time) Cell {
	if at.IsZero() {
		return Cell{}
	}
	form := "2 Jan"
	if at.UTC().Year() != v.Now.UTC().Year() {
		form = "2 Jan 2006"
	}
	return Cell{Text: at.UTC().Format(form), Stamp: at.UTC().Format(time.RFC3339)}
}

// usedCell is a cell of the time of a last use, or "Never".
func usedCell(at time.Time) Cell {
	if at.IsZero() {
		return plainCell("Never")
	}
	return timeCell(at)
}

// dayCell is a cell of a day such as 2026-11-27, shown as 27 Nov 2026. Another text stays as it is.
func dayCell(day string) Cell {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return plainCell(day)
	}
	return plainCell(at.Format("2 Jan 2006"))
}

// symbols are the signs of currencies that stand before an amount. Another currency has its code
// behind it.
var symbols = map[string]string{"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "MXN": "MX$", "AUD": "A$",
	"CAD": "CA$", "SGD": "S$", "HKD": "HK$", "BRL": "R$"}

// grouped writes an amount of the interface such as "-12345.50 EUR" for people: −€12,345.50.
func grouped(amount string) string {
	number, isNegative := strings.CutPrefix(amount, "-")
	end := len(number) - len(strings.TrimLeft(number, "0123456789"))
	for i := end - 3; i > 0; i -= 3 {
		number = number[:i] + "," + number[i:]
	}
	if value, code, _ := strings.Cut(number, " "); symbols[code] != "" {
		number = symbols[code] + value
	}
	if isNegative {
		return "\u2212" + number
	}
	return number
}

// asEntered writes cents as a person enters them, such as 1234.50.
func asEntered(cents money.Cents) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// limitCell is a cell of an amount and its limit, both in cents.
func limitCell(spent, limit money.Cents) Cell {
	share := shareOf(spent, limit)
	return Cell{Text: web.Dollars(spent) + " of " + web.Dollars(limit), Share: &share}
}

// idCell is a cell of an id, cut in its middle, with a button that copies the whole.
func idCell(id string) Cell { return Cell{Text: cutID(id), Code: true, Copy: id} }

// copiedCell is a cell of a whole text, with a button that copies it.
func copiedCell(text string) Cell { return Cell{Text: text, Code: true, Copy: text} }

// Lengths of the parts of a cut id.
const (
	idBegin = 4
	idEnd   = 5
)

// cutID returns an id such as card_01m7…x2y3t: its prefix, four characters and the last five.
func cutID(id string) string {
	begin := strings.IndexByte(id, '_') + 1 + idBegin
	if strings.ContainsFunc(id, func(c rune) bool { return c > '~' }) || len(id) <= begin+idEnd+1 {
		return id
	}
	return id[:begin] + "…" + id[len(id)-idEnd:]
}

// nameOf returns the name of a value of the interface in a table of names, or the value in words.
func nameOf(names map[string]string, value string) string {
	if name := names[value]; name != "" {
		return name
	}
	return inWords(value)
}

// look is how a state is drawn: its tone, and its icon.
type look struct{ tone, icon string }

// looks are the looks of states. A state that is not listed is soft.
var looks = looksByState(map[look]string{
	{"good", "check"}: "active approved completed settled sent delivered proven credit accepted locked linked confirmed enabled",
	{"soft", "check"}: "cleared paid",
	{"soft", "minus"}: "cancelled closed expired revoked removed",
	{"soft", "back"}:  "reversed refunded",
	{"soft", "snow"}:  "frozen",
	{"info", "ring"}:  "held authorized",
	{"info", "half"}:  "submitted submitting processing confirming partially_cleared partially_refunded provider_submitted reserved",
	{"warn", "clock"}: "pending pending_review awaiting_payment opening created pending_approval waits_for_release",
	{"warn", "alert"}: "underpaid suspended outcome_unknown unproven disabled",
	{"bad", "cross"}:  "declined failed rejected abandoned withdrawn refused",
	{"bad", "back"}:   "returned",
})

func looksByState(states map[look]string) map[string]look {
	byState := map[string]look{}
	for l, names := range states {
		for name := range strings.FieldsSeq(names) {
			byState[name] = l
		}
	}
	return byState
}

// stateCell is a cell of a state.
func stateCell(state string) Cell { return namedState(state, inWords(state)) }

// namedState is a cell of a state with a name of its own.
func namedState(state, name string) Cell {
	l, known := looks[state]
	if !known {
		l = look{"soft", "ring"}
	}
	return Cell{Text: name, Tone: l.tone, Icon: l.icon}
}

// inWords turns a name of the interface, such as per_transaction_limit_exceeded, into words.
func inWords(name string) string {
	if name == "" {
		return ""
	}
	text := strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// centsText writes cents as a parameter of the interface.
func centsText(cents money.Cents) string { return strconv.FormatInt(int64(cents), 10) }

// parseCents reads a parameter of the interface as cents.
func parseCents(text string) (money.Cents, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return money.Cents(n), err == nil
}

// indentJSON writes JSON on several lines. Text that is not JSON stays as it is.
func indentJSON(text []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return string(text)
	}
	return out.String()
}

// withoutGroups drops the commas between groups of three whole digits, as in 1,234,567.89. Any
// other comma gives false, and so does one behind a leading zero, as in 0,250: where it divides
// whole units from their parts, the amount would be another.
func withoutGroups(text string) (string, bool) {
	whole, _, _ := strings.Cut(text, ".")
	groups := strings.Split(whole, ",")
	for _, group := range groups[1:] {
		if len(group) != 3 || len(groups[0]) > 3 || groups[0] == "" || groups[0][0] == '0' {
			return "", false
		}
	}
	return strings.Join(groups, "") + text[len(whole):], true
}

// parseDollars reads an amount such as 12, 12.5 or 1,234.56 as cents. It fails for a sign, for a
// comma that withoutGroups does not take, for more than two decimals and for more than
// maxDollarDigits whole digits.
func parseDollars(text string) (money.Cents, error) {
	text, ok := withoutGroups(strings.TrimPrefix(strings.TrimSpace(text), "$"))
	if !ok {
		return 0, errDollars
	}
	whole, part, _ := strings.Cut(text, ".")
	if whole == "" || len(whole) > maxDollarDigits || len(part) > 2 || !isDigits(whole) || !isDigits(part) {
		return 0, errDollars
	}
	var cents money.Cents
	for _, digit := range whole + (part + "00")[:2] {
		cents = cents*10 + money.Cents(digit-'0')
	}
	return cents, nil
}

var errDollars = errors.New("must be an amount in dollars and cents, such as 12.50")

// maxDollarDigits bounds the whole dollars of an amount that a person enters.
const maxDollarDigits = 12

func isDigits(text string) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
