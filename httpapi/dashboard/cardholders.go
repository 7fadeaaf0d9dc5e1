package dashboard

import (
	"strings"
	"time"
)

const cardholdersPath = "/api/cardholders"

// cardholder is a cardholder in the interface.
type cardholder struct {
	ID, DisplayName, Kind, State, FirstName, LastName, Email string
	CreatedAt                                                time.Time
}

type cardholderList struct {
	Data       []cardholder
	NextCursor *string
}

// cardholderPages is the list of cardholders.
func cardholderPages() []page {
	return []page{{path: "cardholders", access: member, section: "Cardholders", show: showCardholders,
		actions: []action{{name: "create", method: "POST", path: cardholdersPath, title: "New cardholder",
			submit: "Save the cardholder", done: "The cardholder is saved.",
			body: nestMembers("shippingAddress", "line1", "city", "region", "postalCode", "country"),
			fields: append([]Field{
				{Name: "displayName", Label: "Name to show", Kind: fieldText, Required: true},
				{Name: "kind", Label: "Kind", Kind: fieldChoice, Default: "employee", Options: []Option{
					{Value: "employee", Label: "Employee"}, {Value: "agent", Label: "AI agent"},
					{Value: "control_person", Label: "Control person"}}},
				{Name: "firstName", Label: "First name", Kind: fieldText, Hint: "The issuing partner needs it."},
				{Name: "lastName", Label: "Last name", Kind: fieldText, Hint: "The issuing partner needs it."},
				{Name: "email", Label: "Email", Kind: fieldEmail, Hint: "The issuing partner needs it."},
				{Name: "phoneNumber", Label: "Phone number", Kind: fieldText, Hint: "Such as +14155550100."}},
				append(addressFields(false),
					Field{Name: "dateOfBirth", Label: "Date of birth", Kind: fieldDate,
						Hint: "It is not shown again."},
					Field{Name: "ssnLast4", Label: "Last 4 digits of the SSN", Kind: fieldText,
						Hint: "They are not shown again."})...)}}}}
}

// addressFields ask for a postal address.
func addressFields(required bool) []Field {
	return []Field{
		{Name: "line1", Label: "Street", Kind: fieldText, Required: required},
		{Name: "city", Label: "City", Kind: fieldText, Required: required},
		{Name: "region", Label: "State or region", Kind: fieldText, Required: required},
		{Name: "postalCode", Label: "Postal code", Kind: fieldText, Required: required},
		{Name: "country", Label: "Country", Kind: fieldText, Required: required, Hint: "Two letters, such as US."},
	}
}

// showCardholders lists the cardholders, newest first.
func showCardholders(v *visit) (*View, error) {
	var list cardholderList
	filtered, err := v.readFiltered(&list, cardholdersPath, "state")
	if err != nil {
		return nil, err
	}
	t := &Table{Caption: "Cardholders, newest first", Empty: "No cardholders yet.", Columns: []Column{{Name: "Name",
		Role: rolePrimary},
		{Name: "Kind", Role: roleSecond}, {Name: "State", Role: roleAmount}, {Name: "Legal name"}, {Name: "Email"},
		{Name: "Created (UTC)"}, {Name: "Id"}}}
	for _, h := range list.Data {
		t.Rows = append(t.Rows, []Cell{plainCell(h.DisplayName), plainCell(inWords(h.Kind)), stateCell(h.State),
			plainCell(strings.TrimSpace(h.FirstName + " " + h.LastName)), plainCell(h.Email), timeCell(h.CreatedAt),
			codeCell(h.ID)})
	}
	blocks := []Block{{Table: v.addPaging(t, list.NextCursor)}, {Facts: []Fact{{"Cards by post",
		linkCell("Physical cards", v.addressOf("physical-cards"))}}}}
	t.Empty = emptyText(t.Empty, filtered, list.NextCursor)
	t.Filters = v.drawFilters("state", []Field{{Name: "state", Label: "State", Kind: fieldChoice,
		Options: choices("active", "pending", "rejected")}})
	forms, err := v.drawForms("create")
	return &View{Title: "Cardholders", Lead: "The people for whom cards are issued. Without a connected issuing " +
		"partner they stay pending, and cards are issued without them.",
		Blocks: append(blocks, forms...)}, err
}
