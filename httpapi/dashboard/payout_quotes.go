package dashboard

import (
	"encoding/json"
	"time"

	"purser/httpapi/web"
	"purser/persistence/money"
)

const (
	payoutQuotesPath = "/api/treasury/fx-quotes"
	payoutQuotePath  = payoutQuotesPath + "/{id}"
)

// payoutQuote is the firm rate of a wire abroad in the interface.
type payoutQuote struct {
	ID, Status, CounterpartyID, RateDisplay string
	Sell, Buy                               struct {
		Currency    money.Currency
		AmountMinor money.Minor `json:",string"`
	}
	LockExpiresAt, ServerNow time.Time
}

// payoutQuotePages is the page of a quote, which orders its wire. A recipient's page asks for a
// quote.
func payoutQuotePages() []page {
	return []page{{path: "payout-quotes/{id}", access: member, section: "Payouts", show: showPayoutQuote,
		actions: []action{{name: "pay", method: "POST", path: payoutsPath, title: "Order the wire",
			submit: "Order the wire",
			body:   quotedPayoutBody, then: afterPayout, fields: []Field{
				{Name: "description", Label: "Description", Kind: fieldText, Required: true}}}}}}
}

// quotePayoutAction is the form of a quote, on the page of a recipient abroad.
func quotePayoutAction() action {
	return action{name: "quote", method: "POST", path: payoutQuotesPath, title: "Pay abroad",
		submit: "Get a firm quote",
		body:   payoutQuoteBody, then: afterPayoutQuote, fields: []Field{
			{Name: "amountMinor", Label: "Amount that arrives", Kind: fieldText, Required: true,
				Hint: "In the recipient's currency, such as 250."}}}
}

// payoutQuoteBody names the page's recipient, and gives the amount in the smallest units of its
// currency.
func payoutQuoteBody(v *visit) (map[string]any, error) {
	r, err := v.readRecipient()
	if err != nil {
		return nil, err
	}
	minor, err := parseAmount(v.Form.Get("amountMinor"), money.Currency(r.Currency), "amountMinor")
	return map[string]any{"counterpartyId": r.ID, "currency": r.Currency, "amountMinor": minor}, err
}

// afterPayoutQuote returns the address of the page of a new quote.
func afterPayoutQuote(v *visit, answered []byte) (string, error) {
	var made struct{ Quote payoutQuote }
	err := json.Unmarshal(answered, &made)
	return v.addressOf("payout-quotes", made.Quote.ID), err
}

// readQuoteOfPayout reads the quote that a payout was ordered with, or nil when it is deleted.
func readQuoteOfPayout(v *visit, id string) (*payoutQuote, error) {
	var shown struct{ Quote payoutQuote }
	err := v.readInto(&shown, payoutQuotePath, "id", id)
	if isMissing(err) {
		return nil, nil
	}
	return &shown.Quote, err
}

// readPayoutQuote reads the page's quote.
func readPayoutQuote(v *visit) (*payoutQuote, error) {
	var shown struct{ Quote payoutQuote }
	err := v.readInto(&shown, payoutQuotePath, "id", v.recordID())
	return &shown.Quote, err
}

// quotedPayoutBody orders the wire of the page's quote at its price.
func quotedPayoutBody(v *visit) (map[string]any, error) {
	q, err := readPayoutQuote(v)
	return map[string]any{"rail": railAbroad, "counterpartyId": q.CounterpartyID, "quoteId": q.ID,
		"amountCents": q.Sell.AmountMinor.Cents()}, err
}

// showPayoutQuote shows a quote with the end of its lock, and orders the wire while the rate is
// locked.
func showPayoutQuote(v *visit) (*View, error) {
	q, err := readPayoutQuote(v)
	if err != nil {
		return nil, err
	}
	cents, buys := q.Sell.AmountMinor.Cents(), grouped(q.Buy.Currency.Display(q.Buy.AmountMinor))
	recipientPage := v.addressOf("recipients", q.CounterpartyID)
	view := &View{Title: "Quote", Lead: web.Dollars(cents) + " for " + buys, Live: true,
		Up: &Link{"The recipient", recipientPage}, Blocks: []Block{{Facts: []Fact{
			{"You pay", dollarCell(cents)}, {"The recipient gets", plainCell(buys)}, {"Rate",
				plainCell(q.RateDisplay)},
			{"State", stateCell(q.Status)},
			{"The rate is locked until (UTC)", lockCell(q.Status, q.LockExpiresAt, q.ServerNow)},
		}}}}
	switch q.Status {
	case quoteLocked:
		forms, err := v.drawForms("pay")
		view.Blocks = append(view.Blocks, forms...)
		return view, err
	case quoteUsed:
		view.Blocks = append(view.Blocks, Block{Text: "The wire of this quote is ordered.", Facts: []Fact{{"Payouts",
			linkCell("All payouts to the recipient", v.addressOf("payouts")+"?counterpartyId="+q.CounterpartyID)}}})
	default:
		view.Blocks = append(view.Blocks, Block{Text: "The lock has ended. Ask for another quote on the recipient's page."})
	}
	return view, nil
}
