package httpapi

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// conversionRoutes returns the routes of currency conversions and their quotes.
func (h *currencyHandlers) conversionRoutes() []route {
	return []route{
		{method: "POST", path: "/api/mca/quotes", auth: authKeyOrSession, scope: "write:treasury", roles: managers,
			converts: true, idempotency: keyRequired, handle: h.createConversionQuote},
		{method: "GET", path: "/api/mca/quotes/{id}", auth: authKeyOrSession, scope: "read:treasury",
			roles: anyMember, handle: h.getConversionQuote},
		{method: "GET", path: "/api/mca/conversions", auth: authKeyOrSession, scope: "read:treasury",
			roles: anyMember, query: slices.Concat(conversionQuery, pageQuery), handle: h.listConversions},
		{method: "POST", path: "/api/mca/conversions", auth: authKeyOrSession, scope: "write:treasury",
			roles:    managers,
			converts: true, kyb: true, idempotency: keyRequired, handle: h.createConversion},
		{method: "GET", path: "/api/mca/conversions/{id}", auth: authKeyOrSession, scope: "read:treasury",
			roles:  anyMember,
			handle: h.getConversion},
	}
}

// conversionQuoteDocument is a conversion quote in the interface. Hold is the amount that the
// conversion reserves.
type conversionQuoteDocument struct {
	ID             string         `json:"id"`
	Status         string         `json:"status"`
	Sell           amountView     `json:"sell"`
	Buy            amountView     `json:"buy"`
	Rate           string         `json:"rate"`
	RateDisplay    string         `json:"rateDisplay"`
	IncludesOurFee bool           `json:"includesOurFee"`
	Hold           amountView     `json:"hold"`
	LockExpiresAt  decision.Stamp `json:"lockExpiresAt"`
	ServerNow      decision.Stamp `json:"serverNow"`
}

// createConversionQuote handles POST /api/mca/quotes: it locks the desk's rate for a conversion
// between two currencies. A repeat is answered without asking the desk again. It fails with
// invalid_body, with the balance's refusal, with the desk's refusal, and with rate_limited.
func (h *currencyHandlers) createConversionQuote(c *call) (answer, error) {
	var body struct {
		SellCurrency money.Currency `json:"sellCurrency"`
		BuyCurrency  money.Currency `json:"buyCurrency"`
		AmountMinor  string         `json:"amountMinor"`
		FixedSide    string         `json:"fixedSide"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	minor, err := money.ParseMinor(body.AmountMinor)
	if err != nil {
		return answer{}, fault.New(fault.InvalidBody, "amountMinor: "+err.Error())
	}
	pair := balance.QuotePair{Sell: body.SellCurrency, Buy: body.BuyCurrency, FixedSide: body.FixedSide,
		AmountMinor: minor}
	if pair.FixedSide == "" {
		pair.FixedSide = sideSell
	}
	if err := pair.CheckPair(); err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	quote := balance.QuoteConversion{Workspace: id, Pair: pair}
	if quote.ID, err = h.newID(c, ident.CurrencyQuote); err != nil {
		return answer{}, err
	}
	return askPrepared(h.edge, c, toBalance(id, nil), func() (_ any, err error) {
		if quote.NoOffer = h.limits.countQuote(c, "quotes"); quote.NoOffer != nil {
			// The balance's own refusals take precedence.
			return quote, nil
		}
		quote.Rate, quote.Firm, err = h.actors.Offer(c.ctx, pair)
		if refusal := (*fault.Error)(nil); errors.As(err, &refusal) {
			// The balance's own refusals take precedence.
			quote.NoOffer, err = refusal, nil
		}
		return quote, err
	}, func(q balance.ConversionQuote) (answer, error) {
		return replyWith(fasthttp.StatusCreated, showConversionQuote(q, q.Status, q.CreatedAt))
	})
}

// showConversionQuote shows a quote in a status at a time of the server.
func showConversionQuote(q balance.ConversionQuote, status string, now decision.Stamp) conversionQuoteDocument {
	return conversionQuoteDocument{ID: q.ID, Status: status, Sell: newAmountView(q.Sell), Buy: newAmountView(q.Buy),
		Rate: q.Rate, RateDisplay: displayRate(q.Sell.Currency, q.Rate, q.Buy.Currency), IncludesOurFee: true,
		Hold: newAmountView(q.Sell), LockExpiresAt: q.LockExpiresAt, ServerNow: now}
}

// getConversionQuote handles GET /api/mca/quotes/{id}: the quote is locked, used or expired at the
// time of the request. Another workspace's quote is not_found.
func (h *currencyHandlers) getConversionQuote(c *call) (answer, error) {
	q, err := readOwn(h.edge, c, query.ConversionQuotes, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(showConversionQuote(q, q.StatusAt(c.now), decision.StampOf(c.now)))
}

// createConversion handles POST /api/mca/conversions: it orders a conversion at a quote. A repeat
// is answered although the quote is used. It fails with quote_not_found for an unknown quote, and
// with the balance's refusal of an expired or used one.
func (h *currencyHandlers) createConversion(c *call) (answer, error) {
	var body struct {
		QuoteID string `json:"quoteId"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	create := balance.CreateConversion{Workspace: id}
	var err error
	if create.ID, err = h.newID(c, ident.Conversion); err != nil {
		return answer{}, err
	}
	return askPrepared(h.edge, c, toBalance(id, nil), func() (_ any, err error) {
		create.Quote, err = readQuote(h.edge, c, query.ConversionQuotes, body.QuoteID)
		return create, err
	}, func(v balance.Conversion) (answer, error) {
		return replyWith(fasthttp.StatusAccepted, map[string]string{"orderId": v.ID, "status": v.Status})
	})
}

// conversionLabels maps a conversion's status to its label for people.
var conversionLabels = map[string]string{
	balance.ConversionHeld:      "Set aside, about to be converted",
	balance.ConversionSubmitted: "Being converted",
	balance.ConversionUnknown:   "Waiting to hear from our partner",
	balance.ConversionCompleted: "Converted",
	balance.ConversionRejected:  "Not accepted; the money is back in the balance",
	balance.ConversionFailed:    "Failed; the money is back in the balance",
	balance.ConversionCancelled: "Cancelled; the money is back in the balance",
	balance.ConversionAbandoned: "No answer from our partner; the money is back in the balance",
}

// conversionDocument is a conversion in the interface.
type conversionDocument struct {
	ID        string         `json:"id"`
	Status    string         `json:"status"`
	Label     string         `json:"label"`
	Sell      amountView     `json:"sell"`
	Buy       amountView     `json:"buy"`
	CreatedAt decision.Stamp `json:"createdAt"`
}

// showConversion shows a conversion. The bought amount is 0 once the conversion has ended without
// buying.
func showConversion(v balance.Conversion) (any, error) {
	switch v.Status {
	case balance.ConversionRejected, balance.ConversionFailed, balance.ConversionCancelled,
		balance.ConversionAbandoned:
		v.Buy.AmountMinor = 0
	}
	return conversionDocument{ID: v.ID, Status: v.Status, Label: conversionLabels[v.Status],
		Sell: newAmountView(v.Sell), Buy: newAmountView(v.Buy), CreatedAt: v.CreatedAt}, nil
}

// conversionQuery holds the query parameters that narrow the list of conversions.
var conversionQuery = slices.Concat(periodQuery, []string{"status"})

// conversionStatuses are the statuses by which conversions are listed.
var conversionStatuses = slices.Sorted(maps.Keys(conversionLabels))

// listConversions handles GET /api/mca/conversions, newest first. The period bounds when a
// conversion was ordered. It fails with invalid_query for a bad filter, limit or cursor, and with
// the store's error.
func (h *currencyHandlers) listConversions(c *call) (answer, error) {
	within, err := c.readListPeriod()
	if err != nil {
		return answer{}, err
	}
	status, ofStatus, err := c.readChoice("status", conversionStatuses...)
	if err != nil {
		return answer{}, err
	}
	list := filteredList[balance.Conversion]{of: query.Conversions, filter: c.filterText(conversionQuery...),
		within:  within,
		timeOf:  func(v *balance.Conversion) time.Time { return v.CreatedAt.Time },
		matches: func(v *balance.Conversion) bool { return !ofStatus || v.Status == status },
		show:    func(_ json.RawMessage, v *balance.Conversion) (any, error) { return showConversion(*v) }}
	return list.answerPage(h.edge, c)
}

// getConversion handles GET /api/mca/conversions/{id}. Another workspace's conversion is not_found.
func (h *currencyHandlers) getConversion(c *call) (answer, error) {
	v, err := readOwn(h.edge, c, query.Conversions, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	shown, err := showConversion(v)
	if err != nil {
		return answer{}, err
	}
	return reply(shown)
}
