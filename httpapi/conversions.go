package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// quotesPerMinute bounds the quotes of a workspace: those between currencies, and those of the ramp.
const quotesPerMinute = 30

func (s *Server) conversionRoutes() []route {
	return []route{
		{method: "POST", path: "/api/mca/quotes", auth: authKeyOrSession, scope: "write:treasury", roles: managers,
			converts: true, idempotency: keyRequired, handle: s.createConversionQuote},
		{method: "POST", path: "/api/mca/conversions", auth: authKeyOrSession, scope: "write:treasury", roles: managers,
			converts: true, kyb: true, idempotency: keyRequired, handle: s.createConversion},
		{method: "GET", path: "/api/mca/conversions/{id}", auth: authKeyOrSession, scope: "read:treasury", roles: anyMember,
			handle: s.getConversion},
	}
}

// conversionQuoteDocument is a quote as the interface shows it. Hold is what converting sets aside.
type conversionQuoteDocument struct {
	ID             string         `json:"id"`
	Status         string         `json:"status"`
	Sell           shownAmount    `json:"sell"`
	Buy            shownAmount    `json:"buy"`
	Rate           string         `json:"rate"`
	RateDisplay    string         `json:"rateDisplay"`
	IncludesOurFee bool           `json:"includesOurFee"`
	Hold           shownAmount    `json:"hold"`
	LockExpiresAt  decision.Stamp `json:"lockExpiresAt"`
	ServerNow      decision.Stamp `json:"serverNow"`
}

// createConversionQuote locks the desk's rate. A repeat is answered without asking the desk again.
func (s *Server) createConversionQuote(c *call) (answer, error) {
	var body struct {
		SellCurrency money.Currency `json:"sellCurrency"`
		BuyCurrency  money.Currency `json:"buyCurrency"`
		AmountMinor  string         `json:"amountMinor"`
		FixedSide    string         `json:"fixedSide"`
	}
	if err := s.decode(c, &body); err != nil {
		return answer{}, err
	}
	minor, err := money.ParseMinor(body.AmountMinor)
	if err != nil {
		return answer{}, fault.New(fault.InvalidBody, "amountMinor: "+err.Error())
	}
	pair := balance.QuotePair{Sell: body.SellCurrency, Buy: body.BuyCurrency, FixedSide: body.FixedSide, AmountMinor: minor}
	if pair.FixedSide == "" {
		pair.FixedSide = sideSell
	}
	if err := pair.CheckPair(); err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	quote := balance.QuoteConversion{Workspace: id, Pair: pair}
	if quote.ID, err = s.newID(c, ident.CurrencyQuote); err != nil {
		return answer{}, err
	}
	return s.perform(c, actors.Envelope{Kind: "balance", Stream: id, Workspace: id,
		Prepare: func(ctx context.Context) (any, error) {
			if quote.NoOffer = s.limitQuotes(c, "quotes"); quote.NoOffer != nil {
				return quote, nil // what is wrong with the workspace's own balances is told before
			}
			var err error
			quote.Rate, quote.Firm, err = s.actors.Offer(ctx, pair)
			if refusal := (*fault.Error)(nil); errors.As(err, &refusal) {
				quote.NoOffer, err = refusal, nil // what is wrong with the workspace's own balances is told before
			}
			return quote, err
		}}, func(quoted any) (answer, error) {
		q, ok := quoted.(balance.ConversionQuote)
		if !ok {
			return answer{}, fmt.Errorf("quote answered %T", quoted)
		}
		return replyWith(fasthttp.StatusCreated, conversionQuoteDocument{ID: q.ID, Status: q.Status, Sell: showMinor(q.Sell),
			Buy: showMinor(q.Buy), Rate: q.Rate, RateDisplay: displayRate(q.Sell.Currency, q.Rate, q.Buy.Currency),
			IncludesOurFee: true, Hold: showMinor(q.Sell), LockExpiresAt: q.LockExpiresAt, ServerNow: q.CreatedAt})
	})
}

// limitQuotes counts a quote among those of its kind.
func (s *Server) limitQuotes(c *call, kind string) error {
	if s.cfg.RateLimits.Off {
		return nil
	}
	return s.limit(kind+"/"+c.who.workspace(), quotesPerMinute)
}

// createConversion uses a quote. A repeat is answered though the quote is used.
func (s *Server) createConversion(c *call) (answer, error) {
	var body struct {
		QuoteID string `json:"quoteId"`
	}
	if err := s.decode(c, &body); err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	create := balance.CreateConversion{Workspace: id}
	var err error
	if create.ID, err = s.newID(c, ident.Conversion); err != nil {
		return answer{}, err
	}
	return s.perform(c, actors.Envelope{Kind: "balance", Stream: id, Workspace: id, Prepare: func(context.Context) (any, error) {
		err := s.readQuote(c, balance.RecordConversionQuote, ident.CurrencyQuote, body.QuoteID, &create.Quote)
		return create, err
	}}, func(created any) (answer, error) {
		v, ok := created.(balance.Conversion)
		if !ok {
			return answer{}, fmt.Errorf("conversion answered %T", created)
		}
		return replyWith(fasthttp.StatusAccepted, map[string]string{"orderId": v.ID, "status": v.Status})
	})
}

// readOwn reads a record of the caller's workspace, by an id that must have the prefix.
func (s *Server) readOwn(c *call, kind, prefix, id string, into any) error {
	if _, err := ident.Parse(prefix, id); err != nil {
		return fault.New(fault.NotFound, "")
	}
	record, err := s.actors.Record(c.ctx, kind, c.who.workspace(), id)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(record.Document, into); err != nil {
		return fmt.Errorf("%s's record: %w", kind, err)
	}
	return nil
}

// readQuote reads a quote that the caller is about to use.
func (s *Server) readQuote(c *call, kind, prefix, id string, into any) error {
	err := s.readOwn(c, kind, prefix, id, into)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.QuoteNotFound, "quoteId")
	}
	return err
}

// conversionLabels say in plain words what a conversion's status means.
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

// getConversion shows a conversion. What it bought is shown as long as it arrives or has arrived; 0 once nothing will.
func (s *Server) getConversion(c *call) (answer, error) {
	var v balance.Conversion
	if err := s.readOwn(c, balance.RecordConversion, ident.Conversion, c.params["id"], &v); err != nil {
		return answer{}, err
	}
	switch v.Status {
	case balance.ConversionRejected, balance.ConversionFailed, balance.ConversionCancelled, balance.ConversionAbandoned:
		v.Buy.AmountMinor = 0
	}
	return reply(map[string]any{"id": v.ID, "status": v.Status, "label": conversionLabels[v.Status], "sell": showMinor(v.Sell),
		"buy": showMinor(v.Buy), "createdAt": v.CreatedAt})
}

// reportConversion brings a conversion what became of it. One that completes after it was abandoned is an alarm: what it sold
// had been given back.
func (s *Server) reportConversion(ctx context.Context, r report, outcome string) error {
	var data struct {
		ConversionID string `json:"conversionId"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := s.findNamed(ctx, balance.RecordConversion, ident.Conversion, data.ConversionID)
	if err != nil {
		return err
	}
	if err := s.claim(ctx, PartnerBank, r, record.ID); err != nil {
		return err
	}
	reply, err := s.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.Workspace, Workspace: record.Workspace,
		Command: balance.ReportConversion{EventID: r.ID, ID: record.ID, Outcome: outcome}})
	if reported, ok := reply.(balance.ReportedConversion); ok && reported.Late {
		s.metrics.late.Inc()
		s.log.Error("a conversion completed after it was abandoned", "conversion", record.ID)
	}
	return err
}

// reportCurrency brings a balance what it may do from now on.
func (s *Server) reportCurrency(ctx context.Context, r report) error {
	var data struct {
		WorkspaceID string         `json:"workspaceId"`
		Currency    money.Currency `json:"currency"`
		Status      string         `json:"status"`
		ScopeStatus string         `json:"scopeStatus"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil {
		return fault.New(fault.InvalidBody, "data")
	}
	record, err := s.findNamed(ctx, "workspace", ident.Workspace, data.WorkspaceID)
	if err != nil {
		return err
	}
	if err := s.claim(ctx, PartnerBank, r, record.ID+" "+string(data.Currency)); err != nil {
		return err
	}
	_, err = s.actors.Ask(ctx, actors.Envelope{Kind: "balance", Stream: record.ID, Workspace: record.ID,
		Command: balance.ReportCurrency{
			EventID: r.ID, Workspace: record.ID, Currency: data.Currency, Status: data.Status, Scope: data.ScopeStatus}})
	return err
}
