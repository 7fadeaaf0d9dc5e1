package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"purser/httpapi/web"
	"purser/persistence/money"
)

const (
	authorizationsPath = "/api/authorizations"
	authorizationPath  = authorizationsPath + "/{id}"
	totalsPath         = authorizationsPath + "/totals"
)

// swipePages are the list of swipes and the page of one swipe.
func swipePages() []page {
	return []page{
		{path: "swipes", access: member, section: "Swipes", show: showSwipes},
		{path: "swipes/{id}", access: member, section: "Swipes", show: showSwipe, actions: swipeActions()},
	}
}

// authorization is a swipe in the interface. Raw is its JSON.
type authorization struct {
	ID, NetworkID, Decision, Reason, ResponseCode, Status string
	AmountCents, HeldCents, ClearedCents, RefundedCents   money.Cents
	Checked                                               *struct{ LimitCents, SpentCents, AskedCents money.Cents }
	Merchant                                              struct{ ID, Name, MCC, Country string }
	At                                                    time.Time
	Raw                                                   json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps the JSON beside its fields. It fails for a document that is no authorization.
func (a *authorization) UnmarshalJSON(text []byte) error {
	type fields authorization
	if err := json.Unmarshal(text, (*fields)(a)); err != nil {
		return err
	}
	a.Raw = bytes.Clone(text)
	return nil
}

type authorizationList struct {
	Data       []authorization
	NextCursor *string
}

// swipeFilters are the parameters of the list of swipes in the interface and in the page's address.
var swipeFilters = []string{"cardId", "decision", "reason", "merchant", "amountFromCents", "amountToCents", "from",
	"to"}

// enteredAmounts are the fields in which a person enters dollars, and the parameters that hold
// their cents.
var enteredAmounts = map[string]string{"amountFrom": "amountFromCents", "amountTo": "amountToCents"}

// showSwipes lists the swipes that the address selects, newest first. It moves amounts that a
// person entered in dollars to the parameters of the interface.
func showSwipes(v *visit) (*View, error) {
	if v.Query.Has("amountFrom") || v.Query.Has("amountTo") {
		return nil, &moved{v.withCents()}
	}
	params, filtered := []string{"cursor", v.Query.Get("cursor"), "limit", "50"}, false
	for _, name := range swipeFilters {
		params = append(params, name, v.Query.Get(name))
		filtered = filtered || v.Query.Get(name) != ""
	}
	var list authorizationList
	if err := v.readInto(&list, authorizationsPath, params...); err != nil {
		return nil, err
	}
	table := v.addPaging(swipeTable(v, list.Data, "Swipes, newest first"), list.NextCursor)
	switch {
	case filtered && list.NextCursor != nil:
		table.Empty = "None of the 1,000 swipes that were looked at matches. Go on with the older ones."
	case filtered:
		table.Empty = "No swipe matches."
	}
	table.Filters = &Filters{Action: v.ownAddress(), Fields: v.swipeFilterFields()}
	return &View{Title: "Swipes", Live: v.Query.Get("cursor") == "", Blocks: []Block{{Table: table}}}, nil
}

// withCents returns the list's address with the entered dollars as cents, and without empty
// parameters. An amount that cannot be read stays, for the interface to refuse.
func (v *visit) withCents() string {
	var pairs []string
	for _, name := range swipeFilters {
		pairs = append(pairs, name, v.Query.Get(name))
	}
	for entered, name := range enteredAmounts {
		text := strings.TrimSpace(v.Query.Get(entered))
		if cents, err := parseDollars(text); err == nil {
			text = centsText(cents)
		}
		pairs = append(pairs, entered, "", name, text)
	}
	return v.addressWith(append(pairs, "cursor", "")...)
}

// swipeFilterFields are the fields of the list's filters, with the values of the address.
func (v *visit) swipeFilterFields() []Field {
	reason := Field{Name: "reason", Label: "Reason", Kind: fieldChoice, Options: []Option{{Value: "", Label: "All"}}}
	for _, r := range reasons {
		reason.Options = append(reason.Options, Option{Value: r.name, Label: inWords(r.name)})
	}
	fields := []Field{
		{Name: "decision", Label: "Decision", Kind: fieldChoice, Options: []Option{{Value: "", Label: "All"},
			{Value: "approved", Label: "Approved"}, {Value: "declined", Label: "Declined"}}},
		reason,
		{Name: "merchant", Label: "Merchant begins with", Kind: fieldText},
		{Name: "amountFrom", Label: "Amount from", Kind: fieldDollars, Value: v.enteredFilter("amountFromCents")},
		{Name: "amountTo", Label: "Amount to", Kind: fieldDollars, Value: v.enteredFilter("amountToCents")},
		{Name: "from", Label: "From day", Kind: fieldDate},
		{Name: "to", Label: "To day", Kind: fieldDate},
		{Name: "cardId", Label: "Card id", Kind: fieldText},
	}
	return v.fillFilters(fields)
}

// enteredFilter returns a filter's cents in dollars, as a person enters them.
func (v *visit) enteredFilter(name string) string {
	cents, ok := parseCents(v.Query.Get(name))
	if !ok {
		return v.Query.Get(name)
	}
	return asEntered(cents)
}

// swipeTable draws swipes. Each leads to its page.
func swipeTable(v *visit, swipes []authorization, caption string) *Table {
	t := &Table{Caption: caption, Empty: "No swipes yet.", Columns: []Column{{Name: "Time (UTC)"}, {Name: "Merchant"},
		{Name: "Decision"}, {Name: "Reason"}, {Name: "Amount", Number: true}, {Name: "Held", Number: true},
		{Name: "Cleared", Number: true}, {Name: "State"}}}
	for i := range swipes {
		a := &swipes[i]
		reason := ""
		if a.Decision != "approved" {
			reason = a.reasonText()
		}
		t.Rows = append(t.Rows, []Cell{timeCell(a.At), linkCell(cmp.Or(a.Merchant.Name, a.ID), v.addressOf("swipes",
			a.ID)), stateCell(a.Decision), plainCell(reason),
			dollarCell(a.AmountCents), dollarCell(a.HeldCents), dollarCell(a.ClearedCents), stateCell(a.Status)})
	}
	return t
}

// reasonText returns the reason in words with its response code.
func (a *authorization) reasonText() string {
	if a.ResponseCode == "" {
		return inWords(a.Reason)
	}
	return inWords(a.Reason) + " (" + a.ResponseCode + ")"
}

// showSwipe shows one swipe: its life, its amounts, its reason, its JSON, and in the sandbox what
// the card network may send next.
func showSwipe(v *visit) (*View, error) {
	a, card, err := v.readSwipe()
	if err != nil {
		return nil, err
	}
	cell, err := v.cardCell(card)
	if err != nil {
		return nil, err
	}
	view := &View{Title: "Swipe", Lead: a.Merchant.Name, Up: &Link{"Swipes", v.addressOf("swipes")}, Live: true,
		Notice: v.simulationNotice()}
	facts := []Fact{{"Decision", stateCell(a.Decision)}, {"Reason", plainCell(a.reasonText())},
		{"State", stateCell(a.Status)}, {"Amount", dollarCell(a.AmountCents)}, {"Held", dollarCell(a.HeldCents)},
		{"Cleared", dollarCell(a.ClearedCents)}, {"Refunded", dollarCell(a.RefundedCents)}}
	if a.Checked != nil {
		facts = append(facts, Fact{"Compared", plainCell(web.Dollars(a.Checked.AskedCents) + " asked, with " +
			web.Dollars(a.Checked.SpentCents) + " spent of " + web.Dollars(a.Checked.LimitCents))})
	}
	facts = append(facts, Fact{"Merchant", plainCell(a.Merchant.Name)},
		Fact{"Category code", plainCell(a.Merchant.MCC)})
	if a.Merchant.Country != "" {
		facts = append(facts, Fact{"Country", plainCell(a.Merchant.Country)})
	}
	facts = append(facts, Fact{"Card", cell},
		Fact{"Network id", codeCell(a.NetworkID)}, Fact{"Id", codeCell(a.ID)})
	first := Block{Facts: facts}
	if a.Decision == "declined" || a.HeldCents > 0 || a.Reason != "approved" {
		first.Text = reasonSentence(a.Reason) // an approved amount is held only until it clears or is released
	}
	view.Blocks = append(view.Blocks, first, Block{Heading: "Life (UTC)", Steps: a.lifeSteps()})
	simulations, err := v.drawSimulations(a)
	view.Blocks = append(view.Blocks, simulations...)
	view.Blocks = append(view.Blocks, Block{Heading: "JSON", Code: &Code{ID: "json",
		Label: "The record in the interface", Text: indentJSON(a.Raw)}})
	return view, err
}

// readSwipe reads the swipe of the page and the id of its card.
func (v *visit) readSwipe() (*authorization, string, error) {
	var shown struct {
		Authorization authorization
		CardID        string
	}
	err := v.readInto(&shown, authorizationPath, "id", v.recordID())
	return &shown.Authorization, shown.CardID, err
}

// lifeSteps returns the steps of a swipe that its record knows. It has the sum of each kind of
// step, and the time of the decision alone.
func (a *authorization) lifeSteps() []Step {
	at := timeCell(a.At)
	if a.Decision == "declined" {
		return []Step{{Name: "Declined", Note: web.Dollars(a.AmountCents), At: &at}}
	}
	first := a.AmountCents
	if a.Checked != nil {
		first = a.Checked.AskedCents
	}
	name := "Authorized"
	switch {
	case a.Reason == "forced_post":
		name = "Cleared without an authorization"
	case a.ResponseCode == partialApproval:
		name = "Authorized in part"
	}
	steps := []Step{{Name: name, Note: web.Dollars(first), At: &at}}
	add := func(name string, known bool, cents money.Cents) {
		if known {
			steps = append(steps, Step{Name: name, Note: web.Dollars(cents)})
		}
	}
	add("Incremented", a.AmountCents > first, a.AmountCents-first)
	add("Cleared", a.ClearedCents > 0 && a.Reason != "forced_post", a.ClearedCents)
	switch a.Status {
	case "reversed", "expired":
		steps = append(steps, Step{Name: inWords(a.Status)})
	}
	add("Refunded", a.RefundedCents > 0, a.RefundedCents)
	add("Still held", a.HeldCents > 0, a.HeldCents)
	return steps
}

// partialApproval is the response code of an approval of less than was asked.
const partialApproval = "10"
