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

// shortID returns the end of an id, which differs between ids of one list.
func shortID(id string) string { return "…" + id[max(0, len(id)-6):] }

// dollarCell is a cell of an amount in cents.
func dollarCell(cents money.Cents) Cell { return Cell{Text: web.Dollars(cents)} }

// timeCell is a cell of a time, in UTC. A zero time is an empty cell.
func timeCell(at time.Time) Cell {
	if at.IsZero() {
		return Cell{}
	}
	return Cell{Text: at.UTC().Format("2 Jan 2006 15:04:05"), Stamp: at.UTC().Format(time.RFC3339)}
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

// grouped separates the thousands of an amount such as "-12345.50 EUR" by commas.
func grouped(amount string) string {
	begin := len(amount) - len(strings.TrimPrefix(amount, "-"))
	end := begin + len(amount[begin:]) - len(strings.TrimLeft(amount[begin:], "0123456789"))
	for i := end - 3; i > begin; i -= 3 {
		amount = amount[:i] + "," + amount[i:]
	}
	return amount
}

// asEntered writes cents as a person enters them, such as 1234.50.
func asEntered(cents money.Cents) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// limitCell is a cell of an amount and its limit, both in cents.
func limitCell(spent, limit money.Cents) Cell {
	text := web.Dollars(spent) + " of " + web.Dollars(limit)
	return Cell{Text: text, Limit: max(int64(limit), 1), Used: min(int64(spent), int64(limit)), Limited: text}
}

// nameOf returns the name of a value of the interface in a table of names, or the value in words.
func nameOf(names map[string]string, value string) string {
	if name := names[value]; name != "" {
		return name
	}
	return inWords(value)
}

// tones are the colours of states. A state that is not listed has none.
var tones = map[string]string{
	"active": "good", "approved": "good", "completed": "good", "settled": "good", "sent": "good", "cleared": "good",
	"delivered": "good", "proven": "good", "credit": "good", "accepted": "good", "released": "good",
	"frozen": "warn", "held": "warn", "pending": "warn", "pending_review": "warn", "confirming": "warn",
	"submitting": "warn", "processing": "warn", "underpaid": "warn", "awaiting_payment": "warn",
	"partially_cleared": "warn", "opening": "warn", "suspended": "warn", "locked": "good", "linked": "good",
	"provider_submitted": "warn", "outcome_unknown": "warn", "rejected": "bad", "abandoned": "bad",
	"confirmed": "good", "withdrawn": "bad", "unproven": "warn", "pending_approval": "warn", "created": "warn",
	"declined": "bad", "failed": "bad", "cancelled": "soft", "closed": "soft", "expired": "soft",
	"revoked":  "soft",
	"reversed": "soft", "returned": "bad", "removed": "soft",
}

// stateCell is a cell of a state.
func stateCell(state string) Cell {
	tone := tones[state]
	if tone == "" {
		tone = "soft"
	}
	return Cell{Text: inWords(state), Tone: tone}
}

// inWords turns a name of the interface, such as per_transaction_limit_exceeded, into words.
func inWords(name string) string {
	if name == "" {
		return ""
	}
	text := strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// cardName writes the last four digits of a card, on one line.
func cardName(last4 string) string { return "••••\u00a0" + last4 }

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
