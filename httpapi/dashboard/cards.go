package dashboard

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"purser/httpapi/web"
	"purser/persistence/money"
)

const cardPath = "/api/cards/{id}"

// card is a card in the interface.
type card struct {
	ID, HolderKind, HolderLabel, State, Last4, PartnerCardToken   string
	MonthlyLimitUsdCents, PerTxnLimitUsdCents, MonthSpendUsdCents money.Cents
	AllowedMccs, AllowedMerchants                                 *[]string // nil allows all
	Physical                                                      bool
	CreatedAt                                                     time.Time
}

type cardList struct {
	Data       []card
	NextCursor *string
}

// cardPages are the list of cards and the page of one card.
func cardPages() []page {
	limits := []Field{
		{Name: "monthlyLimitUsdCents", Label: "Monthly limit", Kind: fieldDollars, Required: true},
		{Name: "perTxnLimitUsdCents", Label: "Limit of one swipe", Kind: fieldDollars, Required: true},
	}
	return []page{
		{path: "cards", access: member, section: "Cards", show: showCards, actions: []action{mintAction("")}},
		{path: "cards/{id}", access: member, section: "Cards", show: showCard, actions: append(cardStates(), []action{
			{name: "limits", method: "PATCH", path: cardPath, title: "Limits", submit: "Change the limits",
				done: "The limits are changed.", fields: limits},
			{name: "merchants", method: "PATCH", path: cardPath, title: "Allowed merchants",
				submit: "Change the merchants",
				done:   "The allowed merchants are changed.", body: withAllowlists, fields: []Field{
					allowChoice("mccs", "Category codes"),
					{Name: "allowedMccs", Label: "Allowed codes", Kind: fieldList, Hint: "Four digits each, separated by commas."},
					allowChoice("names", "Merchants"),
					{Name: "allowedMerchants", Label: "Allowed merchants", Kind: fieldLines,
						Hint: "A name or id on each line."}}},
			{name: "swipe", method: "POST", path: "/api/dev/cards/{id}/simulate/{message}", title: "Swipe it",
				submit:  "Swipe",
				sandbox: true, params: map[string]string{"message": "authorization"}, body: swipeBody,
				then:  afterSwipe,
				fixed: map[string]any{"currency": "USD"}, fields: []Field{
					{Name: "amountCents", Label: "Amount", Kind: fieldDollars, Required: true, Default: "12.50"},
					{Name: "merchant", Label: "Merchant", Kind: fieldText, Required: true, Default: "Cafe Aroma"},
					{Name: "mcc", Label: "Category code", Kind: fieldText, Required: true, Default: "5812"}}},
		}...)},
	}
}

// cardStates are the forms that change a card's state, on its page and on the list.
func cardStates() []action {
	return []action{
		{name: "freeze", method: "PATCH", path: cardPath, submit: "Freeze", then: backToList("cards", "freeze"),
			done: "The card is frozen. Swipes are declined.", fixed: map[string]any{"state": "frozen"}},
		{name: "unfreeze", method: "PATCH", path: cardPath, submit: "Unfreeze", then: backToList("cards", "unfreeze"),
			done: "The card is active again.", fixed: map[string]any{"state": "active"}},
	}
}

// mintAction is the form of a new card, on the home page and on the list of cards. label is the
// label of a fresh form.
func mintAction(label string) action {
	return action{name: "mint", method: "POST", path: "/api/cards", title: "New card", submit: "Create the card",
		then: func(v *visit, body []byte) (string, error) {
			var made struct{ Card card }
			err := json.Unmarshal(body, &made)
			return v.addressOf("cards", made.Card.ID), err
		},
		fields: []Field{
			{Name: "holderKind", Label: "For", Kind: fieldChoice, Default: "agent", Options: []Option{
				{Value: "agent", Label: "An AI agent"}, {Value: "human", Label: "A person"}}},
			{Name: "holderLabel", Label: "Label", Kind: fieldText, Required: true, Default: label},
			{Name: "monthlyLimitUsdCents", Label: "Monthly limit", Kind: fieldDollars, Required: true,
				Default: "500.00"},
			{Name: "perTxnLimitUsdCents", Label: "Limit of one swipe", Kind: fieldDollars, Required: true,
				Default: "200.00"},
		}}
}

// showCards lists the cards, newest first, with what each has spent of its monthly limit.
func showCards(v *visit) (*View, error) {
	fields := []Field{
		{Name: "state", Label: "State", Kind: fieldChoice, Options: choices("active", "frozen", "terminated")},
		{Name: "holderLabel", Label: "Label begins with", Kind: fieldText, Chip: "Label"},
		{Name: "last4", Label: "Last four digits", Kind: fieldText, Chip: "Digits"},
		{Name: "holderKind", Label: "For", Kind: fieldChoice, Options: []Option{{Value: "", Label: "All"},
			{Value: "agent", Label: "Agents"}, {Value: "human", Label: "People"}}},
	}
	params := []string{"cursor", v.Query.Get("cursor"), "limit", strconv.Itoa(rowsWithButton)}
	for _, f := range fields {
		params = append(params, f.Name, v.Query.Get(f.Name))
	}
	var list cardList
	if err := v.readInto(&list, "/api/cards", params...); err != nil {
		return nil, err
	}
	t, err := cardTable(v, list.Data, "Cards, newest first")
	if err != nil {
		return nil, err
	}
	t.Filters = v.drawFilters("state", fields)
	t.Empty = emptyText(t.Empty, t.Filters.Clear != "", list.NextCursor)
	forms, err := v.drawForms("mint")
	view := &View{Title: "Cards", Notice: v.changeNotice(cardStates()),
		Blocks: append([]Block{{Table: v.addPaging(t, list.NextCursor)}}, forms...)}
	if v.API.May("GET", physicalPath) {
		view.Ways = append(view.Ways, Way{Link: Link{"Physical cards", v.addressOf("physical-cards")}})
	}
	if len(forms) > 0 {
		view.Ways = append(view.Ways, Way{Link: Link{"New card", "#f-holderLabel"}, Icon: "plus"})
	}
	return view, err
}

// cardTable draws cards, each with a button that freezes it or makes it active again.
func cardTable(v *visit, cards []card, caption string) (*Table, error) {
	t := &Table{Caption: caption, Empty: "No cards yet.", Columns: []Column{{Name: "Card", Role: rolePrimary},
		{Name: "For", Role: roleSecond}, {Name: "Spent this month", Role: roleAction}, {Name: "Limit of one swipe",
			Number: true},
		{Name: "Created"}, {Name: "State", Role: roleAmount}, {Name: "Change", Number: true, Role: roleStatus}}}
	for i := range cards {
		c := &cards[i]
		change, err := v.drawChange(cardStates(), c.State, v.addressOf("cards", c.ID), c.labelText())
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, []Cell{linkCell(c.labelText(), v.addressOf("cards", c.ID)), plainCell(c.kindName()),
			limitCell(c.MonthSpendUsdCents, c.MonthlyLimitUsdCents), dollarCell(c.PerTxnLimitUsdCents),
			v.dateCell(c.CreatedAt), stateCell(c.State), change})
	}
	return t, nil
}

// labelText is a card's label and last digits.
func (c *card) labelText() string { return c.HolderLabel + " ··\u00a0" + c.Last4 }

// kindName is the kind of a card's holder.
func (c *card) kindName() string {
	if c.HolderKind == "human" {
		return "Person"
	}
	return "Agent"
}

// cardCell is a cell of a card's last digits and label, which leads to its page.
func (v *visit) cardCell(id string) (Cell, error) {
	var shown struct{ Card card }
	err := v.readInto(&shown, cardPath, "id", id)
	return linkCell(shown.Card.labelText(), v.addressOf("cards", id)), err
}

// cardFilter asks for one of the newest cards by name.
func cardFilter(v *visit) (Field, error) {
	var list cardList
	if err := v.readInto(&list, "/api/cards", "limit", maxChoices); err != nil {
		return Field{}, err
	}
	f := Field{Name: "cardId", Label: "Card", Kind: fieldChoice}
	for i := range list.Data {
		f.Options = append(f.Options, Option{Value: list.Data[i].ID, Label: list.Data[i].labelText()})
	}
	return f, v.completeChoices(&f, v.cardCell)
}

// showCard shows one card: its limits, its newest swipes and its forms.
func showCard(v *visit) (*View, error) {
	var shown struct {
		Card                 card
		RecentAuthorizations []authorization
	}
	if err := v.readInto(&shown, cardPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	c := &shown.Card
	view := &View{Title: c.labelText(), Badges: []Cell{stateCell(c.State)}, Up: &Link{"Cards", v.addressOf("cards")},
		Live:   true,
		Notice: swipeNotice(v, shown.RecentAuthorizations)}
	change := map[string]string{"active": "freeze", "frozen": "unfreeze"}[c.State]
	if change != "" {
		form, err := v.drawForm(change)
		if err != nil {
			return nil, err
		}
		if form != nil {
			form.Quiet, view.Forms = true, []*Form{form}
		}
	}
	swipe, err := v.drawForms("swipe")
	if err != nil {
		return nil, err
	}
	swipes, err := swipeTable(v, shown.RecentAuthorizations, nil, "Swipes with this card", true)
	if err != nil {
		return nil, err
	}
	v.prefillForm("limits", "monthlyLimitUsdCents", asEntered(c.MonthlyLimitUsdCents), "perTxnLimitUsdCents",
		asEntered(c.PerTxnLimitUsdCents))
	prefillAllowlists(v, c)
	names := []string{"limits", "merchants"}
	if c.State == "terminated" {
		names = nil
	}
	changes, err := v.drawForms(names...)
	if err != nil {
		return nil, err
	}
	main := append([]Block{{Heading: swipes.Caption, Table: swipes, More: &Link{"All swipes", v.addressOf("swipes") +
		"?cardId=" + c.ID}}, c.scopeBlock()}, changes...)
	view.Blocks = []Block{{Columns: &Columns{SideMain, append(c.limitBlocks(v.Now), swipe...), append(main,
		c.detailsBlock())}}}
	return view, nil
}

// limitBlocks draw the card and the rest of its month.
func (c *card) limitBlocks(now time.Time) []Block {
	left := "Nothing is left"
	if room := c.MonthlyLimitUsdCents - c.MonthSpendUsdCents; room > 0 {
		left = web.Dollars(room) + " left"
	}
	left += " until " + monthOf(now).AddDate(0, 1, 0).Format("2 January, 15:04") + " UTC"
	if c.State == "terminated" {
		left = "The card has ended"
	}
	return []Block{
		{Card: &PaymentCard{Label: c.HolderLabel, Kind: c.kindName(), Last4: c.Last4, Human: c.HolderKind == "human",
			Frozen: c.State == "frozen"}},
		{Limit: &LimitBar{Name: "This month", Used: web.Dollars(c.MonthSpendUsdCents),
			Limit: web.Dollars(c.MonthlyLimitUsdCents),
			Left:  left, Share: shareOf(c.MonthSpendUsdCents, c.MonthlyLimitUsdCents)},
			Sum: []SumLine{{Name: "Per swipe", Amount: web.Dollars(c.PerTxnLimitUsdCents), Ruled: false}}},
	}
}

// scopeBlock shows where the card may be used.
func (c *card) scopeBlock() Block {
	b := Block{Heading: "Where it may be used", Panel: true, Facts: []Fact{{"Categories", tagCell(c.AllowedMccs)},
		{"Merchants", tagCell(c.AllowedMerchants)}}}
	if c.AllowedMccs != nil || c.AllowedMerchants != nil {
		b.Text = "Any other category or merchant is declined."
	}
	return b
}

// detailsBlock shows the ids of the card.
func (c *card) detailsBlock() Block {
	kind := "Virtual"
	if c.Physical {
		kind = "Physical"
	}
	return Block{Heading: "Details", Panel: true, Facts: []Fact{{"Holder", plainCell(c.kindName() + ", " +
		c.HolderLabel)},
		{"Type", plainCell(kind)}, {"Id", idCell(c.ID)}, {"Network token", idCell(c.PartnerCardToken)},
		{"Created", timeCell(c.CreatedAt)}}}
}

// tagCell is a cell of an allowlist.
func tagCell(list *[]string) Cell {
	switch {
	case list == nil:
		return plainCell("All")
	case len(*list) == 0:
		return plainCell("None")
	}
	var cell Cell
	for _, text := range *list {
		cell.Tags = append(cell.Tags, Tag{Text: text})
	}
	return cell
}

// Choices of an allowlist.
const (
	allowAll  = "all"
	allowOnly = "only"
)

// allowChoice asks whether a card allows all or a list. An empty list allows none.
func allowChoice(name, label string) Field {
	return Field{Name: name, Label: label, Kind: fieldChoice, Options: []Option{{Value: allowAll, Label: "All"},
		{Value: allowOnly, Label: "Only the listed ones"}}}
}

// allowlists pairs the choices with the members of the operation's body.
var allowlists = map[string]string{"mccs": "allowedMccs", "names": "allowedMerchants"}

// prefillAllowlists sets the form of the allowlists to those of a card.
func prefillAllowlists(v *visit, c *card) {
	for choice, list := range map[string]*[]string{"mccs": c.AllowedMccs, "names": c.AllowedMerchants} {
		if list == nil {
			v.prefillForm("merchants", choice, allowAll)
			continue
		}
		separator := ", "
		if choice == "names" {
			separator = "\n"
		}
		v.prefillForm("merchants", choice, allowOnly, allowlists[choice], strings.Join(*list, separator))
	}
}

// withAllowlists sends null for an allowlist that allows all, and an empty list for one that allows
// none. The choices are no members of the body.
func withAllowlists(v *visit) (map[string]any, error) {
	body := map[string]any{}
	for choice, member := range allowlists {
		body[choice] = nil
		switch {
		case v.Form.Get(choice) != allowOnly && strings.TrimSpace(v.Form.Get(member)) != "":
			return nil, &fieldError{member, "Choose only the listed ones, or clear this list."}
		case v.Form.Get(choice) != allowOnly:
			body[member] = nil
		case strings.TrimSpace(v.Form.Get(member)) == "":
			body[member] = []string{}
		}
	}
	return body, nil
}

// swipeBody nests the merchant of a simulated swipe, as the interface takes it. The form's key is
// the id of the message, so that sending the form twice swipes once.
func swipeBody(v *visit) (map[string]any, error) {
	if mcc := strings.TrimSpace(v.Form.Get("mcc")); len(mcc) != 4 || !isDigits(mcc) {
		return nil, &fieldError{"mcc", "Category code must have four digits, such as 5812."}
	}
	body := map[string]any{"mcc": nil, "merchant": map[string]any{"name": strings.TrimSpace(v.Form.Get("merchant")),
		"mcc": strings.TrimSpace(v.Form.Get("mcc"))}}
	if key := v.Form.Get(keyField); key != "" {
		body["id"] = key
	}
	return body, nil
}

// afterSwipe returns the address of the card's page, which names the authorization of the swipe, or
// the reason of a decline that has no authorization, such as timeout.
func afterSwipe(v *visit, answered []byte) (string, error) {
	var decided struct{ AuthorizationID, Reason string }
	err := json.Unmarshal(answered, &decided)
	if decided.AuthorizationID != "" {
		return v.addressWith("swiped", decided.AuthorizationID, unstoredParameter, ""), err
	}
	return v.addressWith("swiped", "", unstoredParameter, decided.Reason), err
}

// unstoredParameter is the parameter of the query with the reason of a decline that is not stored.
const unstoredParameter = "unstored"

// swipeNotice shows the decision of the card's swipe in the address, or is nil.
func swipeNotice(v *visit, swipes []authorization) *Notice {
	reason := v.Query.Get(unstoredParameter)
	if reason != "" && strings.Trim(reason, "abcdefghijklmnopqrstuvwxyz_") == "" {
		return &Notice{Text: "The swipe was declined: " + strings.ToLower(reasonName(reason)) +
			". The card network gets this answer, and no swipe is kept. Nothing was charged: swipe again.",
			Refused: true}
	}
	for _, a := range swipes {
		switch {
		case a.ID != v.Query.Get("swiped"):
		case a.Decision == "approved":
			return &Notice{Text: "The swipe was approved."}
		default:
			return &Notice{Text: "The swipe was declined: " + strings.ToLower(reasonName(a.Reason)) + ".",
				Refused: true,
				More:    &Link{"Why", v.addressOf("swipes", a.ID)}}
		}
	}
	return nil
}
