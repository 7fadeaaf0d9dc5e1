package dashboard

import (
	"encoding/json"
	"fmt"
	"time"

	"purser/httpapi/web"
	"purser/persistence/money"
)

const (
	payoutsPath = "/api/treasury/payouts"
	payoutPath  = payoutsPath + "/{id}"
)

// payout is a payout in the interface.
type payout struct {
	ID, Rail, Status, CounterpartyID, Description, Reference, ExpectedOn string
	AmountCents, FeeCents                                                money.Cents
	QuoteID                                                              *string
	CreatedAt                                                            time.Time
	History                                                              []struct {
		Status string
		At     time.Time
	}
}

type payoutList struct {
	Data       []payout
	NextCursor *string
}

// payoutPages are the list of payouts and the page of one payout. A recipient's page orders them.
func payoutPages() []page {
	return []page{
		{path: "payouts", access: member, section: "Payouts", show: showPayouts},
		{path: "payouts/{id}", access: member, section: "Payouts", show: showPayout, actions: []action{
			{name: "release", method: "POST", path: payoutPath + "/release", submit: "Release",
				done:    "The payout is released.",
				confirm: "Release the payout to the bank?"},
			{name: "cancel", method: "POST", path: payoutPath + "/cancel", submit: "Cancel",
				done:   "The payout is cancelled.",
				danger: "Cancel the payout? Its dollars become available again."},
		}},
	}
}

// payoutFilters are the parameters of the payouts in the interface and in the page's address.
var payoutFilters = []string{"status", "counterpartyId", "reference", "from", "to"}

// showPayouts lists the payouts that the address selects, newest first.
func showPayouts(v *visit) (*View, error) {
	var list payoutList
	filtered, err := v.readFiltered(&list, payoutsPath, payoutFilters...)
	if err != nil {
		return nil, err
	}
	t, err := payoutTable(v, list.Data, "Payouts, newest first")
	if err != nil {
		return nil, err
	}
	v.addPaging(t, list.NextCursor)
	t.Empty = emptyText("No payouts yet.", filtered, list.NextCursor)
	t.Filters = &Filters{Action: v.ownAddress(), Fields: v.fillFilters([]Field{
		{Name: "status", Label: "State", Kind: fieldChoice, Options: payoutChoices()},
		{Name: "from", Label: "From day", Kind: fieldDate},
		{Name: "to", Label: "To day", Kind: fieldDate},
		{Name: "reference", Label: "Reference", Kind: fieldText},
		{Name: "counterpartyId", Label: "Recipient's id", Kind: fieldText},
	})}
	return &View{Title: "Payouts", Live: v.Query.Get("cursor") == "", Lead: "A recipient's page orders a payout.",
		Blocks: []Block{{Table: t}}}, nil
}

// payoutTable draws payouts.
func payoutTable(v *visit, payouts []payout, caption string) (*Table, error) {
	t := &Table{Caption: caption, Empty: "No payouts yet.", Columns: []Column{{Name: "Time (UTC)"},
		{Name: "Description"}, {Name: "Recipient"},
		{Name: "Rail"}, {Name: "State"}, {Name: "Amount", Number: true}, {Name: "Fee", Number: true},
		{Name: "Expected"}}}
	recipientOf := oncePerID(v.recipientCell)
	for _, p := range payouts {
		recipient, err := recipientOf(p.CounterpartyID)
		if err != nil {
			return nil, err
		}
		name := p.Description
		if name == "" {
			name = p.ID
		}
		t.Rows = append(t.Rows, []Cell{timeCell(p.CreatedAt), linkCell(name, v.addressOf("payouts", p.ID)),
			recipient, plainCell(rails[p.Rail]), stateCell(p.Status), dollarCell(p.AmountCents), dollarCell(p.FeeCents),
			dayCell(p.ExpectedOn)})
	}
	return t, nil
}

// railAbroad is the rail of a wire abroad, which is held for a person and can be tracked.
const railAbroad = "intl_wire"

// rails are the names of the rails of payouts.
var rails = map[string]string{"ach": "ACH", "wire": "Wire", "realtime": "Real time",
	railAbroad: "International wire"}

// payoutStates are the states of payouts, and what each means for the bank and for the dollars.
var payoutStates = []struct{ name, meaning string }{
	{"held", "It waits for you to release or cancel it. The dollars are reserved."},
	{"reserved", "It is on its way to the bank. The dollars are reserved."},
	{"submitting", "It is on its way to the bank. The dollars are reserved."},
	{"submitted", "The bank has it. The dollars are reserved."},
	{"outcome_unknown", "The bank has not answered. The dollars are reserved, and it is not sent twice."},
	{"settled", "It is paid."},
	{"failed", "The bank did not pay it. The dollars are available again."},
	{"returned", "It came back after it was paid. The dollars are available again."},
	{"cancelled", "It was not sent. The dollars are available again."},
	{"released", "The bank did not have it 24 hours after it was sent. The dollars are available again."},
}

// payoutChoices are the states of payouts to choose from.
func payoutChoices() []Option {
	var names []string
	for _, state := range payoutStates {
		names = append(names, state.name)
	}
	return choices(names...)
}

// payoutMeaning returns what a state means, or "" for a state that is not listed.
func payoutMeaning(status string) string {
	for _, state := range payoutStates {
		if state.name == status {
			return state.meaning
		}
	}
	return ""
}

// showPayout shows one payout and the states that it has had, with their times. A wire abroad has
// its amount abroad and its tracking reference besides, a held payout the buttons that release and
// cancel it.
func showPayout(v *visit) (*View, error) {
	var shown struct{ Payout payout }
	if err := v.readInto(&shown, payoutPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	p := &shown.Payout
	recipient, err := v.recipientCell(p.CounterpartyID)
	if err != nil {
		return nil, err
	}
	view := &View{Title: "Payout", Lead: p.Description, Up: &Link{"Payouts", v.addressOf("payouts")}, Live: true}
	view.Blocks = append(view.Blocks, Block{Facts: []Fact{
		{"State", stateCell(p.Status)}, {"Which means", plainCell(payoutMeaning(p.Status))},
		{"Amount", dollarCell(p.AmountCents)}, {"Fee", dollarCell(p.FeeCents)}, {"Rail", plainCell(rails[p.Rail])},
		{"Recipient", recipient}, {"Expected", dayCell(p.ExpectedOn)}, {"Reference", codeCell(p.Reference)}, {"Id", codeCell(p.ID)},
	}})
	arrives := ""
	if p.Rail == railAbroad {
		if arrives, err = v.addWire(view, p); err != nil {
			return nil, err
		}
	}
	life := Block{Heading: "Life (UTC)"}
	for _, step := range p.History {
		at := timeCell(step.At)
		life.Steps = append(life.Steps, Step{Name: inWords(step.Status), At: &at})
	}
	view.Blocks = append(view.Blocks, life)
	if p.Status != "held" {
		return view, nil
	}
	buttons, err := v.drawButtons("release", "cancel")
	if len(buttons) > 0 {
		buttons[0].Heading = "Waits for you to release or cancel it"
		buttons[0].Buttons[0].Confirm = fmt.Sprintf("Release %s%s to %s?", web.Dollars(p.AmountCents), arrives, recipient.Text)
	}
	view.Blocks = append(buttons, view.Blocks...)
	return view, err
}

// addWire adds what arrives by a wire abroad, its rate and its tracking reference to the payout's
// view. arrives is the amount in the recipient's currency in parentheses, or "" once the quote is
// deleted.
func (v *visit) addWire(view *View, p *payout) (arrives string, err error) {
	var tracked struct{ UETR string }
	if err := v.readInto(&tracked, payoutPath+"/tracking", "id", p.ID); err != nil {
		return "", err
	}
	view.Blocks = append(view.Blocks, Block{Code: &Code{ID: "uetr", Text: tracked.UETR,
		Label: "Tracking reference (UETR), which every bank on the way knows"}})
	if p.QuoteID == nil {
		return "", nil
	}
	q, err := v.readQuoteOfPayout(*p.QuoteID)
	if err != nil || q == nil {
		return "", err
	}
	gets := grouped(q.Buy.Currency.Display(q.Buy.AmountMinor))
	view.Blocks[0].Facts = append(view.Blocks[0].Facts, Fact{"The recipient gets", plainCell(gets)},
		Fact{"Rate", plainCell(q.RateDisplay)})
	return " (" + gets + ")", nil
}

// afterPayout returns the address of the page of a new payout.
func afterPayout(v *visit, answered []byte) (string, error) {
	var made struct{ Payout payout }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("payouts", made.Payout.ID), err
}
