package dashboard

import (
	"cmp"
	"encoding/json"
	"time"

	"purser/persistence/money"
)

const (
	conversionsPath     = "/api/mca/conversions"
	conversionPath      = conversionsPath + "/{id}"
	conversionQuotePath = "/api/mca/quotes/{id}"
)

// conversion is a conversion between currencies in the interface.
type conversion struct {
	ID, Status, Label string
	Sell, Buy         shownAmount
	CreatedAt         time.Time
}

// conversionQuote is a quote of a conversion in the interface.
type conversionQuote struct {
	ID, Status, RateDisplay  string
	Sell, Buy                shownAmount
	LockExpiresAt, ServerNow time.Time
}

type conversionList struct {
	Data       []conversion
	NextCursor *string
}

// Sides of a conversion whose amount a person gives.
const (
	sideSell = "sell"
	sideBuy  = "buy"
)

// conversionPages are the page of a quote, which orders the conversion, and that of a conversion.
// An account's page asks for a quote.
func conversionPages() []page {
	return []page{
		{path: "conversions", access: member, section: "Currencies", show: showConversions},
		{path: "conversions/{id}", access: member, section: "Currencies", show: showConversion},
		{path: "conversion-quotes/{id}", access: member, section: "Currencies", show: showConversionQuote,
			actions: []action{{name: "convert", method: "POST", path: conversionsPath, submit: "Convert",
				body: quoteBody, then: afterConversion}}},
	}
}

// quoteAction is the form of a quote, on the page of the account that is sold.
func quoteAction() action {
	return action{name: "quote", method: "POST", path: "/api/mca/quotes", title: "Convert", submit: "Get a quote",
		body: conversionBody, then: afterConversionQuote, fields: []Field{
			{Name: "buyCurrency", Label: "Into", Kind: fieldChoice, Required: true},
			{Name: "fixedSide", Label: "The amount is", Kind: fieldChoice, Default: sideSell, Options: []Option{
				{Value: sideSell, Label: "what is converted"}, {Value: sideBuy, Label: "what is received"}}},
			{Name: "amountMinor", Label: "Amount", Kind: fieldText, Required: true,
				Hint: "In the currency of that side, such as 250."}}}
}

// convertBlocks offers a quote on an account's page, when conversion is on and there is another
// account to convert into.
func convertBlocks(v *visit, list *currencyList, sold *currencyAccount) ([]Block, error) {
	if !list.Features.Convert {
		return []Block{{Heading: "Convert", Panel: true, Text: "Conversion is not switched on."}}, nil
	}
	options := []Option{}
	for _, a := range list.Accounts {
		if a.Currency != sold.Currency {
			options = append(options, Option{Value: string(a.Currency), Label: string(a.Currency)})
		}
	}
	if len(options) == 0 {
		return []Block{{Heading: "Convert", Panel: true,
			Text: "Open an account in another currency to convert into it."}}, nil
	}
	v.offerOptions("quote", "buyCurrency", options)
	return v.drawForms("quote")
}

// conversionBody names the page's currency as the one that is sold, and gives the amount in the
// smallest units of the currency of its side.
func conversionBody(v *visit) (map[string]any, error) {
	sell, fixed := money.Currency(v.params["currency"]), money.Currency(v.params["currency"])
	if v.Form.Get("fixedSide") == sideBuy {
		fixed = money.Currency(v.Form.Get("buyCurrency"))
	}
	minor, err := parseAmount(v.Form.Get("amountMinor"), fixed, "amountMinor")
	return map[string]any{"sellCurrency": sell, "amountMinor": minor}, err
}

// afterConversionQuote returns the address of the page of a new quote.
func afterConversionQuote(v *visit, answered []byte) (string, error) {
	var made conversionQuote
	err := json.Unmarshal(answered, &made)
	return v.addressOf("conversion-quotes", made.ID), err
}

// showConversionQuote shows a quote while its rate is locked, and orders the conversion.
func showConversionQuote(v *visit) (*View, error) {
	var q conversionQuote
	if err := v.readInto(&q, conversionQuotePath, "id", v.recordID()); err != nil {
		return nil, err
	}
	view := &View{Title: grouped(q.Sell.Display) + " into " + grouped(q.Buy.Display), Amount: true, Live: true,
		Lead: "Quote", Badges: []Cell{stateCell(q.Status)},
		Up: &Link{string(q.Sell.Currency) + " account", v.addressOf("currencies", string(q.Sell.Currency))}}
	order, err := v.drawQuote(q.Status, "convert", "Convert "+grouped(q.Sell.Display),
		"The conversion of this quote is ordered.", "The lock has ended. Ask for another quote on the account's page.")
	order.Facts = []Fact{{"Locked until (UTC)", lockCell(q.Status, q.LockExpiresAt, q.ServerNow)}}
	order.Sum = []SumLine{{Name: "You convert", Amount: grouped(q.Sell.Display)},
		{Name: "Rate, our fee included", Amount: q.RateDisplay},
		{Name: "You receive", Amount: grouped(q.Buy.Display), Ruled: true, Result: true}}
	view.Blocks = []Block{{Columns: &Columns{MainSide, []Block{order}, []Block{{Heading: "Details", Panel: true,
		Facts: []Fact{{"Out of", linkCell(string(q.Sell.Currency)+" account", view.Up.Href)},
			{"Into", linkCell(string(q.Buy.Currency)+" account", v.addressOf("currencies", string(q.Buy.Currency)))},
			{"Id", idCell(q.ID)}}}}}}}
	return view, err
}

// drawQuote is the block of a quote in a state, with the button of an action while its rate is
// locked. Once it is used or has ended, the block says so.
func (v *visit) drawQuote(status, action, submit, used, ended string) (Block, error) {
	b := Block{Panel: true}
	switch status {
	case quoteLocked:
		buttons, err := v.drawButtons(action)
		if len(buttons) > 0 {
			b.Buttons = buttons[0].Buttons
			b.Buttons[0].Submit, b.Buttons[0].Primary = submit, true
		}
		return b, err
	case quoteUsed:
		b.Text = used
	default:
		b.Text = ended
	}
	return b, nil
}

// Statuses of quotes.
const (
	quoteLocked = "locked"
	quoteUsed   = "used"
)

// lockCell is a cell of the end of a lock. While it lasts, the script counts the seconds down.
func lockCell(status string, end, now time.Time) Cell {
	cell := timeCell(end)
	if status == quoteLocked {
		cell.Left = max(1, int64(end.Sub(now)/time.Second))
	}
	return cell
}

// quoteBody names the page's quote.
func quoteBody(v *visit) (map[string]any, error) {
	return map[string]any{"quoteId": v.recordID()}, nil
}

// afterConversion returns the address of the page of a new conversion.
func afterConversion(v *visit, answered []byte) (string, error) {
	var made struct{ OrderID string }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("conversions", made.OrderID), err
}

// conversionWays are the states in which the stepper of a conversion stands, by its state: one for
// each of ordered, with the partner and converted.
var conversionWays = map[string][3]string{
	"held":               {"done", "current"},
	"provider_submitted": {"done", "done", "current"},
	"outcome_unknown":    {"done", "done", "waits"},
	"completed":          {"done", "done", "done"},
	"cancelled":          {"done", "failed"},
	"rejected":           {"done", "done", "failed"},
	"failed":             {"done", "done", "failed"},
	"abandoned":          {"done", "done", "failed"},
}

// conversionNames name the states of conversions that a person knows by other words.
var conversionNames = map[string]string{"held": "Set aside", "provider_submitted": "Being converted"}

// stateCell is a cell of the conversion's state.
func (c *conversion) stateCell() Cell {
	if c.Status == "held" {
		return namedState("reserved", conversionNames[c.Status])
	}
	return namedState(c.Status, nameOf(conversionNames, c.Status))
}

// stepperSteps are the steps of a conversion.
func (c *conversion) stepperSteps() []StepperStep {
	states := conversionWays[c.Status]
	steps := []StepperStep{{"Ordered", c.CreatedAt.UTC().Format("2 Jan, 15:04"), states[0]},
		{"With the partner", "", states[1]}, {"Converted", "", states[2]}}
	for i := range steps {
		if steps[i].State == "failed" || steps[i].State == "waits" {
			steps[i].Name = nameOf(conversionNames, c.Status)
		}
	}
	return steps
}

// showConversion shows one conversion.
func showConversion(v *visit) (*View, error) {
	var c conversion
	if err := v.readInto(&c, conversionPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	way := Block{Heading: c.Label + ".", Panel: true, Stepper: c.stepperSteps()}
	sum := Block{Heading: "Money", Panel: true, Sum: []SumLine{{Name: "You convert", Amount: grouped(c.Sell.Display)},
		{Name: "You receive", Amount: grouped(c.Buy.Display), Ruled: true}}}
	details := Block{Heading: "Details", Panel: true, Facts: []Fact{{"Ordered (UTC)", timeCell(c.CreatedAt)},
		{"Out of", linkCell(string(c.Sell.Currency)+" account", v.addressOf("currencies", string(c.Sell.Currency)))},
		{"Into", linkCell(string(c.Buy.Currency)+" account", v.addressOf("currencies", string(c.Buy.Currency)))},
		{"Id", idCell(c.ID)}}}
	return &View{Title: grouped(c.Sell.Display), Amount: true, Badges: []Cell{c.stateCell()}, Live: true,
		Lead: "Conversion into " + string(c.Buy.Currency), Up: &Link{"Conversions", v.addressOf("conversions")},
		Blocks: []Block{{Columns: &Columns{MainSide, []Block{way, sum}, []Block{details}}}}}, nil
}

// conversionFilters are the parameters of the conversions in the interface and in the page's
// address.
var conversionFilters = []string{"status", "from", "to"}

// showConversions lists the conversions that the address selects, newest first.
func showConversions(v *visit) (*View, error) {
	var list conversionList
	filtered, err := v.readFiltered(&list, conversionsPath, conversionFilters...)
	if err != nil {
		return nil, err
	}
	t := conversionTable(v, list.Data, "Conversions, newest first")
	t.Empty = emptyText(t.Empty, filtered, list.NextCursor)
	states := choices("held", "provider_submitted", "outcome_unknown", "completed", "rejected", "failed", "cancelled",
		"abandoned")
	for i := range states {
		states[i].Label = cmp.Or(conversionNames[states[i].Value], states[i].Label)
	}
	t.Filters = v.drawFilters("", []Field{{Name: "status", Label: "State", Kind: fieldChoice, Options: states},
		{Name: "from", Label: "From day", Kind: fieldDate, Chip: "Time"},
		{Name: "to", Label: "To day", Kind: fieldDate, Chip: "Time"}})
	return &View{Title: "Conversions", Up: &Link{"Currencies", v.addressOf("currencies")},
		Live: v.Query.Get("cursor") == "", Lead: "The page of an account orders a conversion from it.",
		Blocks: []Block{{Table: v.addPaging(t, list.NextCursor)}}}, nil
}

// newestConversions is the number of conversions on the page of the accounts.
const newestConversions = "5"

// conversionBlocks shows the newest conversions on the page of the accounts, and none before the
// first.
func conversionBlocks(v *visit) ([]Block, error) {
	var list conversionList
	if err := v.readInto(&list, conversionsPath, "limit", newestConversions); err != nil || len(list.Data) == 0 {
		return nil, err
	}
	t := conversionTable(v, list.Data, "Newest conversions")
	t.Named = true
	return []Block{{Heading: t.Caption, Table: t, More: &Link{"All conversions", v.addressOf("conversions")}}}, nil
}

// conversionTable draws conversions under headings of their days. Each leads to its page.
func conversionTable(v *visit, conversions []conversion, caption string) *Table {
	t := &Table{Caption: caption, Empty: "No conversions yet.", Columns: []Column{{Name: "Time (UTC)",
		Role: roleSecond}, {Name: "Conversion", Role: rolePrimary}, {Name: "Steps"}, {Name: "State",
		Role: roleStatus},
		{Name: "From", Number: true}, {Name: "Into", Number: true, Role: roleAmount}}}
	for i := range conversions {
		c := &conversions[i]
		t.Rows = append(t.Rows, []Cell{t.addDay(v.Now, c.CreatedAt),
			linkCell(string(c.Sell.Currency)+" into "+string(c.Buy.Currency), v.addressOf("conversions", c.ID)),
			{Dashes: c.stepperSteps()}, c.stateCell(), plainCell(grouped(c.Sell.Display)),
			plainCell(grouped(c.Buy.Display))})
	}
	return t
}
