package dashboard

import (
	"encoding/json"
	"strings"
	"time"

	"purser/persistence/money"
)

const (
	recipientsPath = "/api/treasury/counterparties"
	recipientPath  = recipientsPath + "/{id}"
)

// recipient is a counterparty in the interface.
type recipient struct {
	ID, Kind, Name, AccountLast4, RoutingNumber, BIC, Currency, Country string
	CreatedAt                                                           time.Time
}

// recipientPages are the list of recipients and the page of one recipient.
func recipientPages() []page {
	return []page{
		{path: "recipients", access: member, section: "Recipients", show: showRecipients, actions: []action{
			{name: "save", method: "POST", path: recipientsPath, title: "New recipient in the United States",
				submit: "Save the recipient", then: afterRecipient, fields: []Field{
					{Name: "name", Label: "Name", Kind: fieldText, Required: true},
					{Name: "routingNumber", Label: "Routing number", Kind: fieldText, Required: true,
						Hint: "Nine digits."},
					{Name: "accountNumber", Label: "Account number", Kind: fieldText, Required: true},
					{Name: "accountType", Label: "Account type", Kind: fieldChoice, Default: "checking",
						Options: []Option{
							{Value: "checking", Label: "Checking"}, {Value: "savings", Label: "Savings"}}}}},
			{name: "save-abroad", method: "POST", path: recipientsPath, title: "New recipient abroad",
				submit: "Save the recipient abroad", then: afterRecipient,
				fixed: map[string]any{"kind": "international"},
				body:  addressBody, fields: abroadFields()},
		}},
		{path: "recipients/{id}", access: member, section: "Recipients", show: showRecipient, actions: []action{
			{name: "pay", method: "POST", path: payoutsPath, title: "Pay", submit: "Order the payout",
				then: afterPayout,
				body: func(v *visit) (map[string]any,
					error) {
					return map[string]any{"counterpartyId": v.recordID()}, nil
				},
				fields: []Field{
					{Name: "amountCents", Label: "Amount", Kind: fieldDollars, Required: true},
					{Name: "rail", Label: "Rail", Kind: fieldChoice, Default: "ach", Options: []Option{
						{Value: "ach", Label: "ACH"}, {Value: "wire", Label: "Wire"}, {Value: "realtime",
							Label: "Real time"}}},
					{Name: "description", Label: "Description", Kind: fieldText, Required: true}}},
			quotePayoutAction(),
			{name: "remove", method: "DELETE", path: recipientPath, submit: "Remove the recipient",
				danger: "Remove the recipient? Payouts that are ordered already go on.",
				then:   func(v *visit, _ []byte) (string, error) { return v.addressOf("recipients"), nil }},
		}},
	}
}

// recipientFilter asks for one of the newest recipients by name.
func recipientFilter(v *visit) (Field, error) {
	var list struct{ Data []recipient }
	if err := v.readInto(&list, recipientsPath, "limit", maxChoices); err != nil {
		return Field{}, err
	}
	f := Field{Name: "counterpartyId", Label: "Recipient", Kind: fieldChoice}
	for _, r := range list.Data {
		f.Options = append(f.Options, Option{Value: r.ID, Label: r.Name + " •••• " + r.AccountLast4})
	}
	return f, v.completeChoices(&f, v.recipientCell)
}

// recipientFilters are the parameters of the recipients in the interface and in the page's address.
var recipientFilters = []string{"name", "kind", "from", "to"}

// showRecipients lists the recipients that the address selects, newest first.
func showRecipients(v *visit) (*View, error) {
	var list struct {
		Data       []recipient
		NextCursor *string
	}
	filtered, err := v.readFiltered(&list, recipientsPath, recipientFilters...)
	if err != nil {
		return nil, err
	}
	t := &Table{Caption: "Recipients, newest first", Empty: "No recipients yet.", Columns: []Column{{Name: "Name",
		Role: rolePrimary}, {Name: "Account", Role: roleSecond}, {Name: "Bank"}, {Name: "Currency", Role: roleStatus},
		{Name: "Saved"}}}
	for _, r := range list.Data {
		t.Rows = append(t.Rows, []Cell{linkCell(r.Name, v.addressOf("recipients", r.ID)),
			plainCell("•••• " + r.AccountLast4),
			codeCell(r.RoutingNumber + r.BIC), plainCell(r.Currency), v.dateCell(r.CreatedAt)})
	}
	t.Empty = emptyText(t.Empty, filtered, list.NextCursor)
	t.Filters = v.drawFilters("kind", []Field{
		{Name: "name", Label: "Name begins with", Kind: fieldText, Chip: "Name"},
		{Name: "kind", Label: "Where", Kind: fieldChoice, Options: []Option{{Value: "", Label: "All"},
			{Value: "us", Label: "In the United States"}, {Value: "international", Label: "Abroad"}}},
		{Name: "from", Label: "Saved from day", Kind: fieldDate, Chip: "Saved"},
		{Name: "to", Label: "Saved to day", Kind: fieldDate, Chip: "Saved"},
	})
	forms, err := v.drawForms("save", "save-abroad")
	return &View{Title: "Recipients", Blocks: append([]Block{{Table: v.addPaging(t, list.NextCursor)}},
		forms...)}, err
}

// abroadFields are the fields of a recipient abroad. Those of addressParts are parts of its
// address.
func abroadFields() []Field {
	currency := Field{Name: "currency", Label: "Currency", Kind: fieldChoice, Default: "EUR"}
	for _, c := range money.Codes() {
		if c != money.USD {
			currency.Options = append(currency.Options, Option{Value: string(c), Label: string(c)})
		}
	}
	return []Field{
		{Name: "name", Label: "Legal name", Kind: fieldText, Required: true},
		{Name: "bic", Label: "BIC", Kind: fieldText, Required: true, Hint: "8 or 11 characters."},
		{Name: "iban", Label: "IBAN", Kind: fieldText},
		{Name: "accountNumber", Label: "Local account number", Kind: fieldText, Hint: "Where there is no IBAN."},
		currency,
		{Name: "line1", Label: "Street and number", Kind: fieldText, Required: true},
		{Name: "city", Label: "City", Kind: fieldText, Required: true},
		{Name: "region", Label: "Region", Kind: fieldText},
		{Name: "postalCode", Label: "Postal code", Kind: fieldText, Required: true},
		{Name: "country", Label: "Country", Kind: fieldText, Required: true, Hint: "Two letters, such as DE."},
	}
}

// addressParts are the members of a recipient's address.
var addressParts = []string{"line1", "city", "region", "postalCode", "country"}

// addressBody puts the parts of the address together.
func addressBody(v *visit) (map[string]any, error) {
	address := map[string]any{}
	body := map[string]any{"address": address}
	for _, name := range addressParts {
		if text := strings.TrimSpace(v.Form.Get(name)); text != "" {
			address[name] = text
		}
		body[name] = nil
	}
	return body, nil
}

// showRecipient shows one recipient, with the form of a payout in the United States or of a quote
// for a wire abroad, and the way to its payouts.
func showRecipient(v *visit) (*View, error) {
	r, err := v.readRecipient()
	if err != nil {
		return nil, err
	}
	details := Block{Heading: "Details", Panel: true, Facts: []Fact{{"Account", plainCell("•••• " + r.AccountLast4)},
		{"Bank", codeCell(r.RoutingNumber + r.BIC)}, {"Currency", plainCell(r.Currency)}, {"Country",
			plainCell(r.Country)},
		{"Saved (UTC)", timeCell(r.CreatedAt)}, {"Payouts", linkCell("All to this recipient", v.addressOf("payouts")+
			"?counterpartyId="+r.ID)}, {"Id", idCell(r.ID)}}}
	form := "pay"
	if r.Kind != "us" {
		form = "quote"
	}
	main, err := v.drawForms(form)
	if err != nil {
		return nil, err
	}
	view := &View{Title: r.Name, Up: &Link{"Recipients", v.addressOf("recipients")},
		Blocks: []Block{{Columns: &Columns{MainSide, main, []Block{details}}}}}
	if len(main) == 0 {
		view.Blocks = []Block{details}
	}
	remove, err := v.drawForm("remove")
	if remove != nil {
		view.Forms = []*Form{remove}
	}
	return view, err
}

// readRecipient reads the page's recipient.
func (v *visit) readRecipient() (*recipient, error) {
	var shown struct{ Counterparty recipient }
	err := v.readInto(&shown, recipientPath, "id", v.recordID())
	return &shown.Counterparty, err
}

// recipientCell is a cell of a recipient's name that leads to its page. A recipient that is not
// found, such as a removed one, has a cell of its id. It fails with any other refusal of the read.
func (v *visit) recipientCell(id string) (Cell, error) {
	var shown struct{ Counterparty recipient }
	err := v.readInto(&shown, recipientPath, "id", id)
	if isMissing(err) {
		return codeCell(id), nil
	}
	return linkCell(shown.Counterparty.Name, v.addressOf("recipients", id)), err
}

// afterRecipient returns the address of the page of a new recipient.
func afterRecipient(v *visit, answered []byte) (string, error) {
	var made struct{ Counterparty recipient }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("recipients", made.Counterparty.ID), err
}
