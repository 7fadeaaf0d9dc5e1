package audit

import (
	"encoding/json"

	"purser/persistence"
	"purser/persistence/money"
)

// conversion is the state of a conversion by its events; its record must equal it.
type conversion struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Sell   amount `json:"sell"`
	Buy    amount `json:"buy"`
}

// conversionQuote is a firm rate by its events; its record must equal it.
type conversionQuote struct {
	ID            string `json:"id"`
	Status        string `json:"status"`
	Sell          amount `json:"sell"`
	Buy           amount `json:"buy"`
	Rate          string `json:"rate"`
	LockExpiresAt string `json:"lockExpiresAt"`
	CreatedAt     string `json:"createdAt"`
}

// conversionQuoted folds a new quote. It fails when the payload does not decode.
func (cb *currencyTotals) conversionQuoted(e *persistence.Event) error {
	var p struct{ Quote conversionQuote }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	cb.expectEqual("conversion_quote", p.Quote.ID, "made before", conversionQuote{}, cb.quotes[p.Quote.ID])
	cb.expectEqual("conversion_quote", p.Quote.ID, "made", "locked", p.Quote.Status)
	cb.quotes[p.Quote.ID] = p.Quote
	return nil
}

// useQuote marks the quote of a new conversion as used. A conversion of other amounts than the
// quote's is a finding.
func (cb *currencyTotals) useQuote(id string, c conversion) {
	q := cb.quotes[id]
	cb.expectEqual("conversion", c.ID, "quote used before", "", cb.users[id])
	cb.expectEqual("conversion", c.ID, "amounts of its quote", [2]amount{q.Sell, q.Buy}, [2]amount{c.Sell, c.Buy})
	cb.users[id] = c.ID
	q.ID, q.Status = id, "used"
	cb.quotes[id] = q
}

// conversionOpen reports whether money is held for a conversion of a status.
func conversionOpen(status string) bool {
	return status == "held" || status == "provider_submitted" || status == "outcome_unknown"
}

// conversionMoveAllowed is the audit's own transition table of a conversion. conversionMoved
// reports a move outside it as a finding.
func conversionMoveAllowed(from, to string) bool {
	switch from + " " + to {
	case "held provider_submitted", "held cancelled", "provider_submitted rejected",
		"provider_submitted outcome_unknown",
		"outcome_unknown abandoned", "abandoned completed":
		return true
	}
	return (to == "completed" || to == "failed") && (from == "provider_submitted" || from == "outcome_unknown")
}

// conversionCreated folds a new conversion: its sale is held and its purchase is expected. It fails
// when the payload does not decode.
func (cb *currencyTotals) conversionCreated(e *persistence.Event) error {
	var p struct {
		Conversion struct {
			conversion
			QuoteID string
		}
		Postings []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	c := p.Conversion.conversion
	cb.expectEqual("conversion", c.ID, "created before", conversion{}, cb.conversions[c.ID])
	cb.expectEqual("conversion", c.ID, "created", "held", c.Status)
	cb.useQuote(p.Conversion.QuoteID, c)
	cb.conversions[c.ID] = c
	cb.addOpen(e.Workspace, 0, 1)
	cb.addIncoming(e.Workspace, c.Buy, false)
	cb.expectCurrencyPostings(e, p.Postings, map[bookAccount]money.Minor{
		{"", "currency", c.Sell.Currency}: -c.Sell.AmountMinor, {"", "currency_held",
			c.Sell.Currency}: c.Sell.AmountMinor,
	})
	return nil
}

// conversionMoved folds a move: the held amount is sold or freed; an abandoned conversion can still
// sell. It fails when the payload does not decode.
func (cb *currencyTotals) conversionMoved(e *persistence.Event) error {
	var p struct {
		Conversion, From, To string
		Sell, Buy            amount
		Postings             []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	cb.expectEqual("conversion", p.Conversion, "moved from", conversion{p.Conversion, p.From, p.Sell, p.Buy},
		cb.conversions[p.Conversion])
	cb.expectEqual("conversion", p.Conversion, "may go from "+p.From+" to "+p.To, true, conversionMoveAllowed(p.From,
		p.To))
	cb.conversions[p.Conversion] = conversion{p.Conversion, p.To, p.Sell, p.Buy}
	want := map[bookAccount]money.Minor{}
	if conversionOpen(p.From) && !conversionOpen(p.To) {
		cb.addOpen(e.Workspace, 0, -1)
		cb.addIncoming(e.Workspace, p.Buy.negated(), false)
		want[bookAccount{"", "currency_held", p.Sell.Currency}] -= p.Sell.AmountMinor
		want[bookAccount{"", "currency", p.Sell.Currency}] += p.Sell.AmountMinor
	}
	if p.To == "completed" {
		want[bookAccount{"", "currency", p.Sell.Currency}] -= p.Sell.AmountMinor
		want[bookAccount{"", "fx", p.Sell.Currency}] += p.Sell.AmountMinor
		want[bookAccount{"", "fx", p.Buy.Currency}] -= p.Buy.AmountMinor
		want[bookAccount{"", "currency", p.Buy.Currency}] += p.Buy.AmountMinor
	}
	cb.expectCurrencyPostings(e, p.Postings, want)
	return nil
}
