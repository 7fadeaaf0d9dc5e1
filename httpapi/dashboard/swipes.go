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
	CardIDs    []string // in the order of Data
	NextCursor *string
}

// swipeFilters are the parameters of the list of swipes in the interface and in the page's address.
var swipeFilters = []string{"cardId", "decision", "reason", "merchant", "amountFromCents", "amountToCents", "from",
	"to"}

// enteredAmounts are the fields in which a person enters dollars, and the parameters that hold
// their cents.
var enteredAmounts = map[string]string{"amountFrom": "amountFromCents", "amountTo": "amountToCents"}

// showSwipes lists the swipes that the address selects, newest first.
func showSwipes(v *visit) (*View, error) {
	var list authorizationList
	filtered, err := v.readFiltered(&list, authorizationsPath, swipeFilters...)
	if err != nil {
		return nil, err
	}
	table, err := swipeTable(v, list.Data, list.CardIDs, "Swipes, newest first", false)
	if err != nil {
		return nil, err
	}
	v.addPaging(table, list.NextCursor)
	switch {
	case filtered && list.NextCursor != nil:
		table.Empty = "None of the 1,000 swipes that were looked at matches. Go on with the older ones."
	case filtered:
		table.Empty = "No swipe matches."
	default:
		table.EmptyWay = &Link{"Go to the cards", v.addressOf("cards")}
	}
	card, err := cardFilter(v)
	if err != nil {
		return nil, err
	}
	table.Filters = v.drawFilters("decision", append(swipeFilterFields(v), card))
	return &View{Title: "Swipes", Lead: "Newest first. Times are UTC.", Live: v.Query.Get("cursor") == "",
		Blocks: []Block{{Table: table}}}, nil
}

// withCents returns the list's address with the entered dollars as cents, and without empty
// parameters. An amount that cannot be read stays, for the interface to refuse.
func withCents(v *visit, filters []string) string {
	var pairs []string
	for _, name := range filters {
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

// swipeFilterFields are the fields of the list's filters but for its card, with the values of the
// address.
func swipeFilterFields(v *visit) []Field {
	reason := Field{Name: "reason", Label: "Reason", Kind: fieldChoice, Options: []Option{{Value: "", Label: "All"}}}
	for _, r := range reasons {
		reason.Options = append(reason.Options, Option{Value: r.name, Label: reasonName(r.name)})
	}
	fields := []Field{
		{Name: "decision", Label: "Decision", Kind: fieldChoice, Options: []Option{{Value: "", Label: "All"},
			{Value: "approved", Label: "Approved"}, {Value: "declined", Label: "Declined"}}},
		reason,
		{Name: "merchant", Label: "Merchant begins with", Kind: fieldText, Chip: "Merchant"},
		v.amountField("amountFrom", "Amount from"), v.amountField("amountTo", "Amount to"),
		{Name: "from", Label: "From day", Kind: fieldDate, Chip: "Time"},
		{Name: "to", Label: "To day", Kind: fieldDate, Chip: "Time"},
	}
	return fields
}

// amountField asks for an amount of enteredAmounts in dollars.
func (v *visit) amountField(name, label string) Field {
	return Field{Name: name, Label: label, Kind: fieldDollars, Chip: "Amount",
		Value: v.enteredFilter(enteredAmounts[name])}
}

// enteredFilter returns a filter's cents in dollars, as a person enters them.
func (v *visit) enteredFilter(name string) string {
	cents, ok := parseCents(v.Query.Get(name))
	if !ok {
		return v.Query.Get(name)
	}
	return asEntered(cents)
}

// swipeTable draws swipes under headings of their days. Each leads to its page. cards are their
// cards, or nil to leave these out. short has the reason in
// place of the decision.
func swipeTable(v *visit, swipes []authorization, cards []string, caption string, short bool) (*Table, error) {
	t := &Table{Caption: caption, Empty: "No swipes yet. A swipe appears here the moment a card is used.",
		Columns: []Column{
			{Name: "Time (UTC)", Role: roleSecond}, {Name: "Merchant", Role: rolePrimary}}}
	if cards != nil {
		t.Columns = append(t.Columns, Column{Name: "Card", Role: roleSecond})
	}
	if !short {
		t.Columns = append(t.Columns, Column{Name: "Decision"})
	}
	t.Columns = append(t.Columns, Column{Name: "State or reason", Role: roleStatus},
		Column{Name: "Amount", Number: true, Role: roleAmount})
	cardOf := oncePerID(v.cardCell)
	for i := range swipes {
		a := &swipes[i]
		cells := []Cell{t.addDay(v.Now, a.At), linkCell(cmp.Or(a.Merchant.Name, cutID(a.ID)), v.addressOf("swipes",
			a.ID))}
		if cards != nil {
			cell, err := cardOf(cards[i])
			if err != nil {
				return nil, err
			}
			cells = append(cells, cell)
		}
		amount := dollarCell(a.AmountCents)
		state := namedState(a.Status, statusNames[a.Status])
		switch {
		case a.Decision == "declined" && short:
			state, amount.Mark = namedState("declined", reasonName(a.Reason)), "soft"
		case a.Decision == "declined":
			state, amount.Mark = plainCell(reasonName(a.Reason)), "soft"
		case a.Status == "reversed" || a.Status == "expired" || a.RefundedCents >= a.AmountCents && a.AmountCents > 0:
			amount.Mark = "void"
		}
		if a.RefundedCents > 0 && a.Status == "cleared" {
			state = namedState("refunded", a.refundName())
		}
		if !short {
			cells = append(cells, stateCell(a.Decision))
		}
		t.Rows = append(t.Rows, append(cells, state, amount))
	}
	return t, nil
}

// statusNames are the names of the states of swipes.
var statusNames = map[string]string{"held": "Held", "partially_cleared": "Partly cleared", "cleared": "Cleared",
	"reversed": "Reversed", "expired": "Expired", "declined": "Declined"}

// refundName says how much of a swipe was refunded.
func (a *authorization) refundName() string {
	if a.RefundedCents < a.ClearedCents {
		return "Partly refunded"
	}
	return "Refunded"
}

// showSwipe shows one swipe: its life, the sum behind its decision, its JSON, and in the sandbox
// what the card network may send next.
func showSwipe(v *visit) (*View, error) {
	a, card, err := v.readSwipe()
	if err != nil {
		return nil, err
	}
	cell, err := v.cardCell(card)
	if err != nil {
		return nil, err
	}
	view := &View{Title: web.Dollars(a.AmountCents), Amount: true, Badges: []Cell{stateCell(a.Decision)},
		Lead: cmp.Or(a.Merchant.Name, "No merchant's name") + ", " +
			a.At.UTC().Format("2 January 2006 at 15:04:05") + " UTC",
		Up: &Link{"Swipes", v.addressOf("swipes")}, Live: true, Notice: simulationNotice(v),
		Ways: []Way{{Link: cellLink(cell), Icon: "card"}}}
	if a.Decision != "declined" {
		view.Badges = append(view.Badges, namedState(a.Status, statusNames[a.Status]))
	}
	simulations, err := drawSimulations(v, a)
	if err != nil {
		return nil, err
	}
	main := []Block{{Heading: "Life of this swipe", Steps: a.lifeSteps()}, a.whyBlock(), {Code: &Code{ID: "json",
		Label: "JSON", Folded: true, Language: "json", Text: indentJSON(a.Raw)}}}
	view.Blocks = []Block{{Columns: &Columns{MainSide, main, append([]Block{a.moneyBlock(), a.detailsBlock(cell)},
		simulations...)}}}
	return view, nil
}

// cellLink returns the link of a cell.
func cellLink(c Cell) Link { return Link{c.Text, c.Href} }

// moneyBlock is the sum of a swipe: approved, cleared, refunded, and still held.
func (a *authorization) moneyBlock() Block {
	name, asked := "Approved", a.AmountCents
	switch {
	case a.Decision == "declined":
		asked = 0
	case a.ResponseCode == partialApproval:
		name = "Asked for"
	}
	return Block{Heading: "Money", Panel: true, Sum: []SumLine{{Name: name, Amount: web.Dollars(asked)},
		{Name: "Cleared", Amount: web.Dollars(a.ClearedCents)}, {Name: "Refunded",
			Amount: web.Dollars(a.RefundedCents)},
		{Name: "Held now", Amount: web.Dollars(a.HeldCents), Ruled: true}}}
}

// detailsBlock is the merchant, the card and the ids of a swipe.
func (a *authorization) detailsBlock(card Cell) Block {
	facts := []Fact{{"Merchant", plainCell(a.Merchant.Name)}, {"Category", plainCell(a.Merchant.MCC)}}
	if a.Merchant.Country != "" {
		facts = append(facts, Fact{"Country", plainCell(a.Merchant.Country)})
	}
	return Block{Heading: "Details", Panel: true, Facts: append(facts, Fact{"Card", card},
		Fact{"Answer", plainCell(strings.TrimSpace(a.ResponseCode + " " + reasonName(a.Reason)))},
		Fact{"Id", idCell(a.ID)}, Fact{"Network id", idCell(a.NetworkID)})}
}

// whyBlock is the sum that the decision compared, or the reason in words.
func (a *authorization) whyBlock() Block {
	b := Block{Heading: "Why it was approved", Panel: true, Text: reasonSentence(a.Reason)}
	switch {
	case a.ResponseCode == partialApproval:
		b.Text = "The merchant takes less than it asks for, and the card's limit or the balance had less."
		return b
	case a.Reason == "approved":
		b.Text = "The card is active, and the amount fits its limits and the balance."
	case a.Decision == "declined":
		b.Heading, b.Text = "Why it was declined", b.Text+" "+reasonAdvice[a.Reason]
	}
	c := a.Checked
	if c == nil {
		return b
	}
	b.Sum = []SumLine{{Name: cmp.Or(limitNames[a.Reason], "Monthly limit of the card"),
		Amount: web.Dollars(c.LimitCents)}}
	room := c.LimitCents - c.SpentCents
	if c.SpentCents > 0 {
		b.Sum = append(b.Sum, SumLine{Name: "Spent and held before", Amount: minusDollars(c.SpentCents)},
			SumLine{Name: "Room", Amount: web.Dollars(room), Ruled: true})
	}
	last := SumLine{Name: "Left after it", Amount: web.Dollars(room - c.AskedCents), Ruled: true, Result: true}
	if c.AskedCents > room {
		last.Name, last.Amount, last.Bad = "Over by", web.Dollars(c.AskedCents-room), true
	}
	b.Sum = append(b.Sum, SumLine{Name: "Asked for", Amount: minusDollars(c.AskedCents)}, last)
	return b
}

// limitNames name the amount that a decision compared, by its reason.
var limitNames = map[string]string{"per_transaction_limit_exceeded": "Limit of one swipe",
	"insufficient_funds": "Dollars available"}

// minusDollars writes cents that are taken from a sum.
func minusDollars(cents money.Cents) string {
	if cents == 0 {
		return web.Dollars(0)
	}
	return "\u2212" + web.Dollars(cents)
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
		return []Step{{Name: "Declined", Amount: web.Dollars(a.AmountCents), At: &at,
			Text: reasonSentence(a.Reason), Bad: true}}
	}
	first := a.AmountCents
	if a.Checked != nil {
		first = a.Checked.AskedCents
	}
	name, text := "Authorized", ""
	switch {
	case a.Reason == "forced_post":
		name = "Cleared without an authorization"
	case a.ResponseCode == partialApproval:
		name, text = "Authorized in part", "The merchant asked for "+web.Dollars(first)+"."
	}
	steps := []Step{{Name: name, Amount: web.Dollars(first), At: &at, Text: text}}
	if text != "" {
		steps[0].Amount = "" // of which the record keeps no amount
	}
	add := func(name string, known bool, amount, text string) {
		if known {
			steps = append(steps, Step{Name: name, Amount: amount, Text: text})
		}
	}
	add("Incremented", a.AmountCents > first, "+"+web.Dollars(a.AmountCents-first), "The merchant asked for more.")
	name, text = "Cleared", "Taken from the ledger."
	if a.HeldCents > 0 {
		name, text = "Cleared in part", "Taken from the ledger. The rest is still held."
	}
	add(name, a.ClearedCents > 0 && a.Reason != "forced_post", minusDollars(a.ClearedCents), text)
	rest := a.AmountCents - a.ClearedCents - a.HeldCents
	add("Rest released", a.Status == "cleared" && rest > 0 && a.ResponseCode != partialApproval, minusDollars(rest),
		"What was not cleared is free again.")
	add("Reversed", a.Status == "reversed", "", "The merchant gave the hold back.")
	add("Expired", a.Status == "expired", "", "Nothing more was cleared in time. The hold has ended.")
	add("Refunded", a.RefundedCents > 0, "+"+web.Dollars(a.RefundedCents), "Given back to the ledger.")
	if a.HeldCents > 0 {
		steps = append(steps, Step{Name: "Still held", Amount: web.Dollars(a.HeldCents), Next: true,
			Text: "Until it clears, is reversed or expires."})
	}
	return steps
}

// partialApproval is the response code of an approval of less than was asked.
const partialApproval = "10"
