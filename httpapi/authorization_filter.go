package httpapi

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/rfc3339"
)

const maxFilterText = 200 // characters of the start of a merchant's name

// authorizationFilters are the query parameters that narrow the list of authorizations.
var authorizationFilters = []string{"decision", "reason", "merchant", "amountFromCents", "amountToCents", "from",
	"to"}

// authorizationFilter selects authorizations. Each field that is zero selects all.
type authorizationFilter struct {
	decision, reason string
	merchant         string // the start of the merchant's name, in lower case
	least, most      money.Cents
	from, until      time.Time // from is within the filter, until is not
}

// readAuthorizationFilter reads the filter of the query. It fails with invalid_query, and names the
// parameter.
func (c *call) readAuthorizationFilter() (f authorizationFilter, err error) {
	given := func(name string) bool { _, there := c.query[name]; return there }
	f.decision, f.reason, f.merchant = c.query["decision"], c.query["reason"], strings.ToLower(c.query["merchant"])
	switch {
	case given("decision") && !slices.Contains([]string{"approved", "declined"}, f.decision):
		return f, fault.New(fault.InvalidQuery, "decision must be approved or declined")
	case given("reason") && !isReasonName(f.reason):
		return f, fault.New(fault.InvalidQuery, "reason must be the name of a reason, such as card_frozen")
	case given("merchant") && (f.merchant == "" || utf8.RuneCountInString(f.merchant) > maxFilterText):
		return f, fault.New(fault.InvalidQuery, "merchant must have between 1 and 200 characters")
	}
	if f.least, f.most, err = c.readAmounts(); err != nil {
		return f, err
	}
	if f.from, err = c.readMoment("from"); err != nil {
		return f, err
	}
	if f.until, err = c.readMomentBehind("to"); err != nil {
		return f, err
	}
	if !f.until.IsZero() && !f.from.Before(f.until) {
		return f, fault.New(fault.InvalidQuery, "to must be after from")
	}
	return f, nil
}

// amountQuery holds the query parameters of a list that is narrowed to amounts.
var amountQuery = []string{"amountFromCents", "amountToCents"}

// readAmounts reads the parameters amountFromCents and amountToCents, which both include their
// amount. Without them every amount is between least and most. It fails with invalid_query, which
// names the parameter.
func (c *call) readAmounts() (least, most money.Cents, err error) {
	if least, err = c.readCents(amountQuery[0], 0); err != nil {
		return least, most, err
	}
	if most, err = c.readCents(amountQuery[1], money.MaxAmount); err == nil && most < least {
		err = fault.New(fault.InvalidQuery, "amountToCents must not be less than amountFromCents")
	}
	return least, most, err
}

// isReasonName reports whether a text has the form of a decision's reason.
func isReasonName(text string) bool {
	return text != "" && len(text) <= 64 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// readCents reads an optional amount of the query. It fails with invalid_query for a text that is
// not a whole number of cents between 0 and money.MaxAmount.
func (c *call) readCents(name string, absent money.Cents) (money.Cents, error) {
	text, given := c.query[name]
	if !given {
		return absent, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > int64(money.MaxAmount) || strconv.FormatInt(n, 10) != text {
		return 0, fault.New(fault.InvalidQuery, name+" must be a whole number of cents from 0 to 1000000000000")
	}
	return money.Cents(n), nil
}

// readMoment reads an optional time of the query: an RFC 3339 timestamp, or a day for its beginning
// in UTC. Without one it is the zero time. It fails with invalid_query.
func (c *call) readMoment(name string) (time.Time, error) {
	at, _, err := c.readDayOrTime(name)
	return at, err
}

// readMomentBehind reads an optional end of a period, which the period does not include: an RFC
// 3339 timestamp, or a day that the period includes whole. Without one it is the zero time. It
// fails with invalid_query.
func (c *call) readMomentBehind(name string) (time.Time, error) {
	at, isDay, err := c.readDayOrTime(name)
	if isDay {
		at = at.AddDate(0, 0, 1)
	}
	return at, err
}

func (c *call) readDayOrTime(name string) (at time.Time, isDay bool, err error) {
	text, given := c.query[name]
	if !given {
		return at, false, nil
	}
	if at, err = time.Parse(time.DateOnly, text); err == nil {
		return at, true, nil
	}
	if at, err = rfc3339.Parse([]byte(text)); err != nil {
		return at, false, fault.New(fault.InvalidQuery, name+" must be a day (YYYY-MM-DD) or an RFC 3339 timestamp")
	}
	return at, false, nil
}

// filterMark returns the text that binds a cursor to the filters of the query. Without filters it
// is "", and with a decision alone the decision.
func (c *call) filterMark() string {
	parts := []string{c.query["decision"]}
	for _, name := range authorizationFilters[1:] {
		if text, given := c.query[name]; given {
			parts = append(parts, name+"="+strconv.Quote(text))
		}
	}
	return strings.Join(parts, "|")
}

// isWithin reports whether an authorization that was made at a time is within the filter's period.
func (f *authorizationFilter) isWithin(at time.Time) bool {
	return !at.Before(f.from) && (f.until.IsZero() || at.Before(f.until))
}

// isBehind reports whether an authorization that was made at a time, and all behind it, are older
// than the period.
func (f *authorizationFilter) isBehind(at time.Time) bool {
	return at.Before(f.from.Add(-maxClockStep))
}

// matchesDocument reports whether the record of an authorization is selected, its time aside. It
// fails for a document that cannot be decoded.
func (f *authorizationFilter) matchesDocument(document json.RawMessage) (bool, error) {
	if f.decision == "" && f.reason == "" && f.merchant == "" && f.least == 0 && f.most == money.MaxAmount {
		return true, nil
	}
	a, err := query.AuthorizationTraits.Decode(document)
	if err != nil {
		return false, err
	}
	return (f.decision == "" || a.Decision == f.decision) && (f.reason == "" || a.Reason == f.reason) &&
		strings.HasPrefix(strings.ToLower(a.Merchant.Name), f.merchant) &&
		a.AmountCents >= f.least && a.AmountCents <= f.most, nil
}

// madeAt returns the time of an authorization, which its id carries.
func madeAt(id string) (time.Time, error) {
	u, err := ident.Parse(ident.Authorization, id)
	return u.Time(), err
}
