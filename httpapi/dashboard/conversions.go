package dashboard

import (
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
		return []Block{{Heading: "Convert", Text: "Conversion is not switched on."}}, nil
	}
	options := []Option{}
	for _, a := range list.Accounts {
		if a.Currency != sold.Currency {
			options = append(options, Option{Value: string(a.Currency), Label: string(a.Currency)})
		}
	}
	if len(options) == 0 {
		return []Block{{Heading: "Convert", Text: "Open an account in another currency to convert into it."}}, nil
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
	view := &View{Title: "Quote", Lead: grouped(q.Sell.Display) + " into " + grouped(q.Buy.Display), Live: true,
		Up: &Link{string(q.Sell.Currency) + " account", v.addressOf("currencies", string(q.Sell.Currency))}}
	view.Blocks = append(view.Blocks, Block{Facts: []Fact{
		{"You convert", plainCell(grouped(q.Sell.Display))}, {"You receive", plainCell(grouped(q.Buy.Display))},
		{"Rate, our fee included", plainCell(q.RateDisplay)}, {"State", stateCell(q.Status)},
		{"The rate is locked until (UTC)", lockCell(q.Status, q.LockExpiresAt, q.ServerNow)},
	}})
	switch q.Status {
	case quoteLocked:
		buttons, err := v.drawButtons("convert")
		view.Blocks = append(view.Blocks, buttons...)
		return view, err
	case quoteUsed:
		view.Blocks = append(view.Blocks, Block{Text: "The conversion of this quote is ordered."})
	default:
		view.Blocks = append(view.Blocks, Block{Text: "The lock has ended. Ask for another quote on the account's page."})
	}
	return view, nil
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

// showConversion shows one conversion.
func showConversion(v *visit) (*View, error) {
	var c conversion
	if err := v.readInto(&c, conversionPath, "id", v.recordID()); err != nil {
		return nil, err
	}
	return &View{Title: "Conversion", Lead: c.Label + ".", Live: true,
		Up: &Link{"Conversions", v.addressOf("conversions")}, Blocks: []Block{{Facts: []Fact{
			{"State", stateCell(c.Status)}, {"You convert", plainCell(grouped(c.Sell.Display))},
			{"You receive", plainCell(grouped(c.Buy.Display))}, {"Ordered (UTC)", timeCell(c.CreatedAt)},
			{"Out of", linkCell(string(c.Sell.Currency)+" account", v.addressOf("currencies", string(c.Sell.Currency)))},
			{"Into", linkCell(string(c.Buy.Currency)+" account", v.addressOf("currencies", string(c.Buy.Currency)))},
			{"Id", codeCell(c.ID)}}}}}, nil
}

// showConversions lists the conversions, newest first.
func showConversions(v *visit) (*View, error) {
	var list conversionList
	if err := v.readInto(&list, conversionsPath, "cursor", v.Query.Get("cursor"), "limit", "50"); err != nil {
		return nil, err
	}
	t := conversionTable(v, list.Data, "Conversions, newest first")
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
	if list.NextCursor != nil {
		t.Next = v.addressOf("conversions")
	}
	return []Block{{Table: t}}, nil
}

// conversionTable draws conversions.
func conversionTable(v *visit, conversions []conversion, caption string) *Table {
	t := &Table{Caption: caption, Empty: "No conversions yet.", Columns: []Column{{Name: "Time (UTC)"},
		{Name: "From", Number: true}, {Name: "Into", Number: true}, {Name: "State"}}}
	for _, c := range conversions {
		at := timeCell(c.CreatedAt)
		at.Href = v.addressOf("conversions", c.ID)
		t.Rows = append(t.Rows, []Cell{at, plainCell(grouped(c.Sell.Display)), plainCell(grouped(c.Buy.Display)), stateCell(c.Status)})
	}
	return t
}
