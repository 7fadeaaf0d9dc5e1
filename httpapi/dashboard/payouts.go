package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
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
var payoutFilters = []string{"status", "counterpartyId", "reference", "from", "to", "amountFromCents",
	"amountToCents"}

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
	recipient, err := recipientFilter(v)
	if err != nil {
		return nil, err
	}
	t.Filters = v.drawFilters("", []Field{
		{Name: "status", Label: "State", Kind: fieldChoice, Options: payoutChoices()},
		{Name: "from", Label: "From day", Kind: fieldDate, Chip: "Time"},
		{Name: "to", Label: "To day", Kind: fieldDate, Chip: "Time"},
		v.amountField("amountFrom", "Amount from"), v.amountField("amountTo", "Amount to"),
		{Name: "reference", Label: "Reference", Kind: fieldText},
		recipient,
	})
	view := &View{Title: "Payouts", Live: v.Query.Get("cursor") == "", Blocks: []Block{{Table: t}}}
	if v.API.May("POST", payoutsPath) {
		view.Ways = []Way{{Link: Link{"Pay someone", v.addressOf("recipients")}, Icon: "plus", Primary: true}}
		t.EmptyWay = &Link{"Choose a recipient", v.addressOf("recipients")}
	}
	return view, nil
}

// payoutTable draws payouts.
func payoutTable(v *visit, payouts []payout, caption string) (*Table, error) {
	t := &Table{Caption: caption, Empty: "No payouts yet.", Columns: []Column{{Name: "Recipient",
		Role: rolePrimary}, {Name: "For", Role: roleSecond}, {Name: "Rail"}, {Name: "Steps"}, {Name: "State",
		Role: roleStatus},
		{Name: "Ordered"}, {Name: "Amount", Number: true, Role: roleAmount}}}
	recipientOf := oncePerID(v.recipientCell)
	for i := range payouts {
		p := &payouts[i]
		recipient, err := recipientOf(p.CounterpartyID)
		if err != nil {
			return nil, err
		}
		amount := dollarCell(p.AmountCents)
		if p.isUndone() {
			amount.Mark = "void"
		}
		t.Rows = append(t.Rows, []Cell{linkCell(cmp.Or(recipient.Text, cutID(p.ID)), v.addressOf("payouts", p.ID)),
			plainCell(p.Description),
			plainCell(rails[p.Rail]), {Dashes: p.stepperSteps()}, p.stateCell(), v.dateCell(p.CreatedAt), amount})
	}
	return t, nil
}

// railAbroad is the rail of a wire abroad, which is held for a person and can be tracked.
const railAbroad = "intl_wire"

// rails are the names of the rails of payouts.
var rails = map[string]string{"ach": "ACH", "wire": "Wire", "realtime": "Real time",
	railAbroad: "Wire abroad"}

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
	options := choices(names...)
	for i := range options {
		options[i].Label = nameOf(payoutNames, cmp.Or(options[i].Value, options[i].Label))
	}
	return options
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

// payoutNames name the states of payouts that a person knows by other words.
var payoutNames = map[string]string{"held": "Waits for release", "reserved": "Reserved", "submitting": "Being sent",
	"submitted": "With the bank", "released": "Not at the bank"}

// stateCell is a cell of the payout's state.
func (p *payout) stateCell() Cell {
	switch p.Status {
	case "held":
		return namedState("waits_for_release", payoutNames["held"])
	case "released":
		return namedState("returned", payoutNames["released"])
	}
	return namedState(p.Status, nameOf(payoutNames, p.Status))
}

// isUndone reports whether the dollars are available again.
func (p *payout) isUndone() bool {
	switch p.Status {
	case "failed", "returned", "cancelled", "released":
		return true
	}
	return false
}

// payoutWays are the states in which the stepper of a payout stands, by the payout's state: one for
// each of ordered, released, with the bank and settled.
var payoutWays = map[string][4]string{
	"held":            {"done", "waits"},
	"reserved":        {"done", "done", "current"},
	"submitting":      {"done", "done", "current"},
	"submitted":       {"done", "done", "done", "current"},
	"outcome_unknown": {"done", "done", "waits"},
	"settled":         {"done", "done", "done", "done"},
	"failed":          {"done", "done", "done", "failed"},
	"returned":        {"done", "done", "done", "failed"},
	"cancelled":       {"done", "failed"},
	"released":        {"done", "done", "failed"},
}

// stepperSteps are the steps of a payout with the times that its history has. A payout in the United
// States needs no release.
func (p *payout) stepperSteps() []StepperStep {
	states := payoutWays[p.Status]
	steps := []StepperStep{{"Ordered", p.timeOf("held", "reserved"), states[0]}, {"Release", "", states[1]},
		{"With the bank", p.timeOf("submitted"), states[2]}, {"Settled", p.timeOf("settled"), states[3]}}
	switch p.Status {
	case "held":
		steps[1].Note = "Waits for you"
	case "cancelled", "failed", "returned", "released", "outcome_unknown":
		i := slices.IndexFunc(steps, func(s StepperStep) bool { return s.State == "failed" || s.State == "waits" })
		steps[i].Name, steps[i].Note = nameOf(payoutNames, p.Status), p.timeOf(p.Status)
	case "submitted":
		steps[3].Note = "Expected " + dayCell(p.ExpectedOn).Text
	}
	if steps[1].Name == "Release" && steps[1].State == "done" {
		steps[1].Name = "Released"
		steps[1].Note = p.timeOf("reserved")
	}
	if p.Rail != railAbroad && p.Status != "held" && p.Status != "cancelled" {
		return slices.Delete(steps, 1, 2)
	}
	return steps
}

// timeOf returns the time at which the payout came into one of some states, or "".
func (p *payout) timeOf(states ...string) string {
	for _, step := range p.History {
		if slices.Contains(states, step.Status) {
			return step.At.UTC().Format("2 Jan, 15:04")
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
	way := Block{Heading: payoutMeaning(p.Status), Panel: true, Stepper: p.stepperSteps()}
	details := Block{Heading: "Details", Panel: true, Facts: []Fact{{"Recipient", recipient}, {"Rail",
		plainCell(rails[p.Rail])},
		{"Fee", dollarCell(p.FeeCents)}, {"Id", idCell(p.ID)}}}
	if p.Status != "settled" && !p.isUndone() {
		details.Facts = append(details.Facts, Fact{"Expected", dayCell(p.ExpectedOn)})
	}
	if p.Reference != p.ID {
		details.Facts = append(details.Facts, Fact{"Reference", idCell(p.Reference)})
	}
	if p.isUndone() && p.Status != "cancelled" && v.Sandbox {
		way.Text, way.More = "In the sandbox the cents of an amount choose its outcome.", &Link{"Which ones",
			"/docs/sandbox"}
	}
	wire := &wireAbroad{}
	if p.Rail == railAbroad {
		if wire, err = readWire(v, p); err != nil {
			return nil, err
		}
		details.Facts = append(wire.amountFacts(), details.Facts...)
	}
	if p.Status == "held" {
		buttons, err := v.drawButtons("release", "cancel")
		if err != nil {
			return nil, err
		}
		if len(buttons) > 0 {
			way.Buttons = buttons[0].Buttons
			way.Buttons[0].Primary, way.Buttons[0].Submit = true, "Release "+web.Dollars(p.AmountCents)
			way.Buttons[0].Confirm = fmt.Sprintf("Release %s%s to %s? The bank gets the order at once. It cannot be taken back.",
				web.Dollars(p.AmountCents), wire.arrivalText(), recipient.Text)
		}
	}
	life := Block{Heading: "Life of this payout (UTC)", Panel: true}
	for i, step := range p.History {
		at := timeCell(step.At)
		drawn := Step{Name: nameOf(payoutNames, step.Status), At: &at}
		if i == len(p.History)-1 {
			drawn.Text = payoutMeaning(step.Status)
		}
		life.Steps = append(life.Steps, drawn)
	}
	main := []Block{way, life}
	if wire.uetr != "" {
		main = append(main, Block{Code: &Code{ID: "uetr", Text: wire.uetr,
			Label: "Tracking reference (UETR), which every bank on the way knows"}})
	}
	return &View{Title: web.Dollars(p.AmountCents), Amount: true, Badges: []Cell{p.stateCell()}, Live: true,
		Lead: p.Description, Up: &Link{"Payouts", v.addressOf("payouts")},
		Blocks: []Block{{Columns: &Columns{MainSide, main, []Block{details}}}}}, nil
}

// wireAbroad is what arrives by a wire abroad, its rate and its tracking reference. gets is "" once
// the quote is deleted.
type wireAbroad struct{ uetr, gets, rate string }

// readWire reads the wire of a payout abroad.
func readWire(v *visit, p *payout) (*wireAbroad, error) {
	var tracked struct{ UETR string }
	if err := v.readInto(&tracked, payoutPath+"/tracking", "id", p.ID); err != nil {
		return nil, err
	}
	w := &wireAbroad{uetr: tracked.UETR}
	if p.QuoteID == nil {
		return w, nil
	}
	q, err := readQuoteOfPayout(v, *p.QuoteID)
	if err == nil && q != nil {
		w.gets, w.rate = grouped(q.Buy.Currency.Display(q.Buy.AmountMinor)), q.RateDisplay
	}
	return w, err
}

// arrivalText is the amount in the recipient's currency in parentheses, or "".
func (w *wireAbroad) arrivalText() string {
	if w.gets == "" {
		return ""
	}
	return " (" + w.gets + ")"
}

func (w *wireAbroad) amountFacts() []Fact {
	if w.gets == "" {
		return nil
	}
	return []Fact{{"Recipient gets", plainCell(w.gets)}, {"Rate", plainCell(w.rate)}}
}

// afterPayout returns the address of the page of a new payout.
func afterPayout(v *visit, answered []byte) (string, error) {
	var made struct{ Payout payout }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("payouts", made.Payout.ID), err
}
