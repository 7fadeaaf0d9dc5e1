package audit

import (
	"encoding/json"

	"purser/persistence"
)

// conversion is what the events say of a conversion, and what its record must say.
type conversion struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Sell   amount `json:"sell"`
	Buy    amount `json:"buy"`
}

// setsAside says whether money is held for a conversion of a status.
func setsAside(status string) bool {
	return status == "held" || status == "provider_submitted" || status == "outcome_unknown"
}

// mayTurn is the auditor's own reading of a conversion's life.
func mayTurn(from, to string) bool {
	switch from + " " + to {
	case "held provider_submitted", "held cancelled", "provider_submitted rejected", "provider_submitted outcome_unknown",
		"outcome_unknown abandoned", "abandoned completed":
		return true
	}
	return (to == "completed" || to == "failed") && (from == "provider_submitted" || from == "outcome_unknown")
}

func (cb *currencyBooks) conversionCreated(e *persistence.Event) error {
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
	cb.differs("conversion", c.ID, "created before", conversion{}, cb.conversions[c.ID])
	cb.differs("conversion", c.ID, "created", "held", c.Status)
	cb.differs("conversion", c.ID, "quote used before", "", cb.quotes[p.Conversion.QuoteID])
	cb.conversions[c.ID], cb.quotes[p.Conversion.QuoteID] = c, c.ID
	cb.opened(e.Workspace, 0, 1)
	cb.addIncoming(e.Workspace, c.Buy, false, 1)
	cb.movedMinor(e, p.Postings, map[booking]int64{
		{"", "currency", c.Sell.Currency}: -c.Sell.AmountMinor, {"", "currency_held", c.Sell.Currency}: c.Sell.AmountMinor,
	})
	return nil
}

// conversionMoved adds up what a move does: what was held is sold or free again; what was free is sold after all.
func (cb *currencyBooks) conversionMoved(e *persistence.Event) error {
	var p struct {
		Conversion, From, To string
		Sell, Buy            amount
		Postings             []posting
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return err
	}
	cb.differs("conversion", p.Conversion, "moved from", conversion{p.Conversion, p.From, p.Sell, p.Buy},
		cb.conversions[p.Conversion])
	cb.differs("conversion", p.Conversion, "may go from "+p.From+" to "+p.To, true, mayTurn(p.From, p.To))
	cb.conversions[p.Conversion] = conversion{p.Conversion, p.To, p.Sell, p.Buy}
	want := map[booking]int64{}
	if setsAside(p.From) && !setsAside(p.To) {
		cb.opened(e.Workspace, 0, -1)
		cb.addIncoming(e.Workspace, p.Buy, false, -1)
		want[booking{"", "currency_held", p.Sell.Currency}] -= p.Sell.AmountMinor
		want[booking{"", "currency", p.Sell.Currency}] += p.Sell.AmountMinor
	}
	if p.To == "completed" {
		want[booking{"", "currency", p.Sell.Currency}] -= p.Sell.AmountMinor
		want[booking{"", "fx", p.Sell.Currency}] += p.Sell.AmountMinor
		want[booking{"", "fx", p.Buy.Currency}] -= p.Buy.AmountMinor
		want[booking{"", "currency", p.Buy.Currency}] += p.Buy.AmountMinor
	}
	cb.movedMinor(e, p.Postings, want)
	return nil
}
