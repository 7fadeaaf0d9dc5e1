package dashboard

import (
	"time"
)

const physicalPath = "/api/physical-cards"

// physicalCard is an ordered card in the interface.
type physicalCard struct {
	Card  card
	Order struct {
		ID, Finish, UnlockMethod, Status string
		Shipping                         struct{ City, Country string }
		CreatedAt                        time.Time
	}
	ETA struct{ From, To string }
}

type physicalList struct {
	Data       []physicalCard
	NextCursor *string
}

// physicalCardPages is the list of physical cards. The list of cards leads to it.
func physicalCardPages() []page {
	return []page{{path: "physical-cards", access: member, section: "Cards", show: showPhysicalCards,
		actions: []action{{name: "order", method: "POST", path: physicalPath, title: "Order a physical card",
			submit: "Order the card", done: "The card is ordered.",
			body: nestMembers("shipping", "line1", "city", "region", "postalCode", "country"),
			fields: append([]Field{
				{Name: "holderLabel", Label: "Label", Kind: fieldText, Required: true},
				{Name: "finish", Label: "Finish", Kind: fieldChoice, Default: "metal", Options: []Option{
					{Value: "metal", Label: "Metal"}, {Value: "standard", Label: "Standard"}}},
				{Name: "unlockMethod", Label: "Unlocked by", Kind: fieldChoice, Default: "premium_99",
					Options: []Option{{Value: "premium_99", Label: unlockNames["premium_99"]},
						{Value: "balance_commit_5000", Label: unlockNames["balance_commit_5000"]}}},
				{Name: "monthlyLimitUsdCents", Label: "Monthly limit", Kind: fieldDollars, Required: true,
					Default: "500.00"},
				{Name: "perTxnLimitUsdCents", Label: "Limit of one swipe", Kind: fieldDollars, Required: true,
					Default: "200.00"}}, addressFields(true)...)}}}}
}

// unlockNames are the names of the ways to unlock a physical card.
var unlockNames = map[string]string{"premium_99": "$99 from the balance",
	"balance_commit_5000": "A balance of at least $5,000"}

// showPhysicalCards lists the physical cards, newest first.
func showPhysicalCards(v *visit) (*View, error) {
	var list physicalList
	if err := v.readInto(&list, physicalPath, "cursor", v.Query.Get("cursor"), "limit", "50"); err != nil {
		return nil, err
	}
	t := &Table{Caption: "Physical cards, newest first", Empty: "No physical cards yet.", Columns: []Column{
		{Name: "Card", Role: rolePrimary}, {Name: "State", Role: roleAmount}, {Name: "Order", Role: roleStatus},
		{Name: "Finish"}, {Name: "Unlocked by"},
		{Name: "Sent to"}, {Name: "Arrives", Role: roleSecond}, {Name: "Ordered (UTC)"}}}
	for i := range list.Data {
		p := &list.Data[i]
		t.Rows = append(t.Rows, []Cell{linkCell(p.Card.labelText(), v.addressOf("cards", p.Card.ID)),
			stateCell(p.Card.State), stateCell(p.Order.Status),
			plainCell(inWords(p.Order.Finish)), plainCell(unlockNames[p.Order.UnlockMethod]),
			plainCell(p.Order.Shipping.City + ", " + p.Order.Shipping.Country),
			plainCell(p.ETA.From + " to " + p.ETA.To), timeCell(p.Order.CreatedAt)})
	}
	forms, err := v.drawForms("order")
	return &View{Title: "Physical cards", Up: &Link{"Cards", v.addressOf("cards")},
		Lead:   "A physical card is sent by post, 5 to 7 business days.",
		Blocks: append([]Block{{Table: v.addPaging(t, list.NextCursor)}}, forms...)}, err
}
