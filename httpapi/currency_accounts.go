package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/workspace"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// currencyHandlers serve balances in currencies and their conversions.
type currencyHandlers struct{ *edge }

// mcaRoutes returns the routes of the multi-currency accounts, their onboarding and rates.
func (h *currencyHandlers) mcaRoutes() []route {
	const accounts, onboarding, read = "/api/mca/accounts", "/api/mca/onboarding", "read:treasury"
	return []route{
		{method: "GET", path: accounts, auth: authKeyOrSession, scope: read, roles: anyMember,
			query: pageQuery, handle: h.listCurrencies},
		{method: "GET", path: accounts + "/{currency}/details", auth: authKeyOrSession, scope: read, roles: anyMember,
			currencies: true, handle: h.currencyDetails},
		{method: "POST", path: accounts + "/{currency}", auth: authSession, roles: managers, currencies: true,
			kyb:         true,
			idempotency: keyRequired, handle: h.openCurrency},
		{method: "GET", path: "/api/mca/activity", auth: authKeyOrSession, scope: read, roles: anyMember,
			query: slices.Concat(activityQuery, []string{"currency"}, pageQuery), handle: h.listActivity},
		{method: "GET", path: onboarding, auth: authKeyOrSession, scope: read, roles: anyMember,
			handle: h.getOnboarding},
		{method: "POST", path: onboarding, auth: authSession, roles: managers, currencies: true,
			idempotency: keyOptional,
			handle:      h.startOnboarding},
		{method: "GET", path: "/api/mca/rates", auth: authSession, roles: anyMember, currencies: true,
			query: []string{"from", "to", "amount", "fixedSide"}, handle: h.estimateRate},
		{method: "POST", path: "/api/dev/mca/simulate-payin", auth: authSession, roles: managers, sandboxOnly: true,
			currencies: true, idempotency: keyOptional, handle: h.simulatePayin},
		{method: "POST", path: "/api/mca/payouts/quotes", auth: authSession, roles: managers, unavailable: true,
			idempotency: keyOptional, handle: neverReached},
		{method: "POST", path: "/api/mca/payouts", auth: authSession, roles: managers, unavailable: true,
			idempotency: keyOptional, handle: neverReached},
		{method: "GET", path: "/api/mca/payouts", auth: authKeyOrSession, scope: read, roles: anyMember,
			query: slices.Concat([]string{"status"}, periodQuery, pageQuery), handle: listCurrencyPayouts},
	}
}

// amountView is an amount in a currency in the interface.
type amountView struct {
	amountDocument
	Display string `json:"display"`
}

func newAmountView(a balance.Amount) amountView {
	return amountView{amountDocument: showAmount(a), Display: a.Currency.Display(a.AmountMinor)}
}

// currencyBalance is the balance of a currency account, in smallest units as decimal text.
type currencyBalance struct {
	AvailableMinor string `json:"availableMinor"`
	PendingMinor   string `json:"pendingMinor"`
	Exponent       int    `json:"exponent"`
}

// currencyDocument is a currency account in the interface.
type currencyDocument struct {
	Currency      money.Currency  `json:"currency"`
	Status        string          `json:"status"`
	Balance       currencyBalance `json:"balance"`
	ScopeStatus   string          `json:"scopeStatus"`
	DetailsStatus string          `json:"detailsStatus"`
}

// detailsStatus returns ready when money can be sent to an account, or else pending. The sandbox
// bank's account details are invented, so a live account gets none.
func detailsStatus(who *caller, a balance.CurrencyAccount) string {
	if a.Status == balance.CurrencyOpening || who.access.Mode != modeSandbox {
		return "pending"
	}
	return "ready"
}

// showCurrency shows an account with its available and pending amounts, in smallest units.
func showCurrency(who *caller, a balance.CurrencyAccount, pending money.Minor) currencyDocument {
	exponent, _ := a.Currency.Exponent()
	return currencyDocument{Currency: a.Currency, Status: a.Status, ScopeStatus: a.Scope,
		DetailsStatus: detailsStatus(who, a),
		Balance: currencyBalance{AvailableMinor: money.FormatMinor(a.AvailableMinor),
			PendingMinor: money.FormatMinor(pending), Exponent: exponent}}
}

// coverageDocument lists the operations that a currency supports. Reason is set when no balance can
// be opened in it.
type coverageDocument struct {
	Currency money.Currency `json:"currency"`
	Receive  bool           `json:"receive"`
	Convert  bool           `json:"convert"`
	Reason   fault.Code     `json:"reason,omitempty"`
}

func currencyCoverage() []coverageDocument {
	var all []coverageDocument
	for _, c := range money.Codes() {
		refusal, converts := balance.Covered(c)
		all = append(all, coverageDocument{Currency: c, Receive: refusal == "", Convert: converts, Reason: refusal})
	}
	return all
}

// onboardingDocument is the progress of a workspace's onboarding. In a sandbox one call completes
// it.
type onboardingDocument struct {
	KYBStatus           string `json:"kybStatus"`
	ActionRequired      bool   `json:"actionRequired"`
	ResubmissionAllowed bool   `json:"resubmissionAllowed"`
	SandboxAutoAccepted bool   `json:"sandboxAutoAccepted"`
}

// showOnboarding shows the workspace's own kybStatus. A workspace whose onboarding stopped between
// the acceptance and its own record has one action left: to onboard again.
func showOnboarding(who *caller, onboarded bool) onboardingDocument {
	d := onboardingDocument{KYBStatus: who.access.KYBStatus}
	d.SandboxAutoAccepted = onboarded && who.access.Mode == modeSandbox && d.KYBStatus == kybApproved
	d.ResubmissionAllowed = d.KYBStatus == workspace.Rejected
	d.ActionRequired = !onboarded || d.KYBStatus == workspace.NotStarted || d.ResubmissionAllowed
	return d
}

// readCurrencies asks the workspace's balance for its accounts in currencies. It fails only with an
// error of the store.
func (h *currencyHandlers) readCurrencies(c *call) (balance.CurrenciesView, error) {
	id := c.who.workspace()
	return ask[balance.CurrenciesView](c.ctx, h.actors, toBalance(id, balance.ReadCurrencies{}))
}

// listCurrencies handles GET /api/mca/accounts: the currency accounts of a workspace in the order
// of their opening, and the currencies it could open. It fails like pageInState, and with an error
// of the store.
func (h *currencyHandlers) listCurrencies(c *call) (answer, error) {
	view, err := h.readCurrencies(c)
	if err != nil {
		return answer{}, err
	}
	// An account that is opened later is behind all others, so the places descend from the highest.
	accounts, err := pageInState(c, "currency_account", view.Accounts,
		func(i int) query.Place { return query.Place{Position: math.MaxUint64 - uint64(i)} },
		func(a balance.CurrencyAccount) (any, error) {
			return showCurrency(&c.who, a, view.Pending[a.Currency]), nil
		})
	if err != nil {
		return answer{}, err
	}
	connected := !h.cfg.NoCurrencies
	return reply(map[string]any{
		"preview":  !connected && !view.Onboarded && len(view.Accounts) == 0,
		"kyb":      showOnboarding(&c.who, view.Onboarded),
		"accounts": accounts.Data, "nextCursor": accounts.NextCursor,
		"coverage": map[string]any{"currencies": currencyCoverage()},
		"features": map[string]bool{"convert": connected && h.cfg.Convert, "estimate": connected, "send": false},
	})
}

// currencyNamed returns the currency of the path. A currency that is not served is
// invalid_currency.
func currencyNamed(c *call) (money.Currency, error) {
	currency := money.Currency(c.params["currency"])
	if _, served := currency.Exponent(); !served {
		return "", fault.New(fault.InvalidCurrency, "currency: is not served")
	}
	return currency, nil
}

// receivingDocument is the bank details for payments into an account over one rail.
type receivingDocument struct {
	Rail       string            `json:"rail"`
	HolderName string            `json:"holderName"`
	HolderKind string            `json:"holderKind"`
	Status     string            `json:"status"`
	Fields     map[string]string `json:"fields"`
}

// currencyDetails handles GET /api/mca/accounts/{currency}/details: the bank details for payments
// into a balance. An account that is being opened has none yet. It fails with invalid_currency, and
// with not_found for a currency without an account.
func (h *currencyHandlers) currencyDetails(c *call) (answer, error) {
	currency, err := currencyNamed(c)
	if err != nil {
		return answer{}, err
	}
	view, err := h.readCurrencies(c)
	if err != nil {
		return answer{}, err
	}
	for _, a := range view.Accounts {
		if a.Currency == currency {
			return h.showDetails(c, a)
		}
	}
	return answer{}, fault.New(fault.NotFound, "")
}

// showDetails answers the bank details of an account, none while it is pending. It fails with an
// error of the bank or the store.
func (h *currencyHandlers) showDetails(c *call, a balance.CurrencyAccount) (answer, error) {
	details, id := []receivingDocument{}, c.who.workspace()
	if detailsStatus(&c.who, a) == "ready" {
		holder, err := ask[workspace.View](c.ctx, h.actors, toWorkspace(id, decision.Read{}))
		if err != nil {
			return answer{}, err
		}
		receiving, err := h.actors.Receiving(c.ctx, id, a.Currency)
		if err != nil {
			return answer{}, err
		}
		for _, r := range receiving {
			details = append(details, receivingDocument{Rail: r.Rail, HolderName: holder.Name, HolderKind: "business",
				Status: "ready", Fields: r.Fields})
		}
	}
	return reply(map[string]any{"currency": a.Currency, "status": detailsStatus(&c.who, a), "details": details})
}

// openCurrency handles POST /api/mca/accounts/{currency}: it opens an account in a currency. It
// fails with invalid_currency, and with the balance's refusal.
func (h *currencyHandlers) openCurrency(c *call) (answer, error) {
	currency, err := currencyNamed(c)
	if err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	open := balance.OpenCurrency{Workspace: id, Currency: currency, Delay: h.cfg.DepositDelay}
	return askIdempotent(h.edge, c, toBalance(id, open),
		func(a balance.CurrencyAccount) (answer, error) {
			return reply(map[string]any{"account": showCurrency(&c.who, a, 0)})
		})
}

func (h *currencyHandlers) getOnboarding(c *call) (answer, error) {
	view, err := h.readCurrencies(c)
	if err != nil {
		return answer{}, err
	}
	return reply(showOnboarding(&c.who, view.Onboarded))
}

// startOnboarding handles POST /api/mca/onboarding. A sandbox workspace first records its
// verification as accepted, so a crash never leaves an onboarded workspace unapproved. It fails
// only with the refusal of the workspace or balance.
func (h *currencyHandlers) startOnboarding(c *call) (answer, error) {
	id := c.who.workspace()
	if c.who.access.Mode == modeSandbox && c.who.access.KYBStatus != kybApproved {
		_, err := h.actors.Ask(c.ctx, toWorkspace(id, workspace.SetKYB{Status: kybApproved, BySandbox: true}))
		if err != nil {
			return answer{}, err
		}
		c.who.access.KYBStatus = kybApproved
	}
	return askIdempotent(h.edge, c, toBalance(id, balance.Onboard{Workspace: id}),
		func(view balance.CurrenciesView) (answer, error) {
			return reply(showOnboarding(&c.who, view.Onboarded))
		})
}

// activityDocument is an entry of a currency account in the interface.
type activityDocument struct {
	ID           string         `json:"id"`
	Kind         string         `json:"kind"`
	Direction    string         `json:"direction"`
	Amount       amountView     `json:"amount"`
	Reference    string         `json:"reference"`
	ConversionID *string        `json:"conversionId"`
	CreatedAt    decision.Stamp `json:"createdAt"`
}

// activityQuery holds the query parameters that narrow the entries of a balance.
var activityQuery = slices.Concat(periodQuery, []string{"direction"})

// listActivity handles GET /api/mca/activity: the entries of a balance. A currency without a
// balance has none. It fails with currency_required, with invalid_currency, with invalid_query for
// a bad filter, limit or cursor, and with the store's error.
func (h *currencyHandlers) listActivity(c *call) (answer, error) {
	asked := c.query["currency"]
	if asked == "" {
		return answer{}, fault.New(fault.CurrencyRequired, "currency: name one")
	}
	currency := money.Currency(asked)
	if _, served := currency.Exponent(); !served {
		return answer{}, fault.New(fault.InvalidCurrency, "currency: is not served")
	}
	within, err := c.readListPeriod()
	if err != nil {
		return answer{}, err
	}
	direction, ofDirection, err := c.readChoice("direction", "debit", "credit")
	if err != nil {
		return answer{}, err
	}
	list := filteredList[balance.Activity]{of: query.Activities, parent: asked,
		filter:  c.filterText(activityQuery...),
		within:  within,
		timeOf:  func(a *balance.Activity) time.Time { return a.CreatedAt.Time },
		matches: func(a *balance.Activity) bool { return !ofDirection || a.Direction == direction },
		show:    func(_ json.RawMessage, a *balance.Activity) (any, error) { return h.showActivity(c, *a) }}
	return list.answerPage(h.edge, c)
}

// showActivity shows an entry, with the sender's reference of a payin. It fails only with an error
// of the store.
func (h *currencyHandlers) showActivity(c *call, a balance.Activity) (any, error) {
	d := activityDocument{ID: a.ID, Kind: a.Kind, Direction: a.Direction, CreatedAt: a.CreatedAt,
		Amount: newAmountView(balance.Amount{Currency: a.Currency, AmountMinor: a.AmountMinor})}
	if a.ConversionID != "" {
		d.ConversionID = &a.ConversionID
	}
	if a.PayinID == "" {
		return d, nil
	}
	text, err := query.PayinTexts.ReadPart(c.ctx, h.actors, c.who.workspace(), a.PayinID)
	d.Reference = text.Reference
	return d, err
}

// simulatePayin handles POST /api/dev/mca/simulate-payin of a sandbox workspace: it announces test
// money that arrives after the deposit delay. It fails with invalid_body, and with the balance's
// refusal.
func (h *currencyHandlers) simulatePayin(c *call) (answer, error) {
	var body struct {
		Currency    money.Currency `json:"currency"`
		AmountMinor string         `json:"amountMinor"`
		Reference   string         `json:"reference"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	minor, err := money.ParseMinor(body.AmountMinor)
	if err != nil {
		return answer{}, fault.New(fault.InvalidBody, "amountMinor: "+err.Error())
	}
	payin, err := h.newID(c, ident.Deposit)
	if err != nil {
		return answer{}, err
	}
	id := c.who.workspace()
	return askIdempotent(h.edge, c, toBalance(id, balance.AnnouncePayin{Workspace: id, ID: payin,
		Amount: balance.Amount{Currency: body.Currency, AmountMinor: minor}, Reference: body.Reference,
		ArrivesAt: c.now.Add(h.cfg.DepositDelay)}), func(p balance.Payin) (answer, error) {
		return replyWith(fasthttp.StatusAccepted, map[string]any{"payin": map[string]any{"id": p.ID,
			"status": p.Status,
			"amount": newAmountView(p.Amount), "reference": body.Reference, "expectedAt": p.ExpectedAt}})
	})
}

// Sides of a conversion whose amount is fixed.
const (
	sideSell = "sell"
	sideBuy  = "buy"
)

// estimateRate handles GET /api/mca/rates: it shows both sides of a conversion at the mid rate. It
// locks and reserves nothing. It fails with invalid_query, invalid_currency, invalid_amount or
// same_currency, with the reason for a currency that is not converted, and with the desk's error.
func (h *currencyHandlers) estimateRate(c *call) (answer, error) {
	from, to, side := money.Currency(c.query["from"]), money.Currency(c.query["to"]), c.query["fixedSide"]
	if side == "" {
		side = sideSell
	}
	if side != sideSell && side != sideBuy {
		return answer{}, fault.New(fault.InvalidQuery, "fixedSide: sell or buy")
	}
	fixed := from
	if side == sideBuy {
		fixed = to
	}
	for _, currency := range []money.Currency{from, to} {
		if _, served := currency.Exponent(); !served {
			return answer{}, fault.New(fault.InvalidCurrency, "from, to: currencies that are served")
		}
	}
	minor, err := amountOf(c, fixed)
	if err != nil {
		return answer{}, err
	}
	if from == to {
		return answer{}, unprocessableFault(fault.SameCurrency, "from and to are the same")
	}
	for _, currency := range []money.Currency{from, to} {
		refusal, converts := balance.Covered(currency)
		if refusal == "" && !converts {
			refusal = fault.CurrencyUnavailable
		}
		if refusal != "" {
			return answer{}, fault.New(refusal, string(currency)+" is not converted")
		}
	}
	rate, err := h.actors.MidBetween(c.ctx, from, to)
	if err != nil {
		return answer{}, err
	}
	sell, buy, err := balance.Sides(rate, from, to, side, minor)
	if err != nil {
		return answer{}, unprocessableFault(fault.InvalidAmount, "amount: both sides are 1 to 10^18 smallest units")
	}
	return reply(map[string]any{"from": from, "to": to, "fixedSide": side, "indicative": true, "rate": rate.String(),
		"rateDisplay": displayRate(from, rate.String(), to), "asOf": decision.StampOf(c.now),
		"sell": newAmountView(sell),
		"buy":  newAmountView(buy)})
}

func displayRate(sell money.Currency, rate string, buy money.Currency) string {
	return fmt.Sprintf("1 %s = %s %s", sell, rate, buy)
}

// amountOf reads the amount of the query in the fixed side's currency. The default is one unit.
// Anything else is invalid_amount.
func amountOf(c *call, fixed money.Currency) (money.Minor, error) {
	text, given := c.query["amount"]
	if !given {
		text = "1"
	}
	minor, err := fixed.ParseDecimal(text)
	switch {
	case errors.Is(err, money.ErrDecimal):
		return 0, fault.New(fault.InvalidAmount, "amount: a plain decimal")
	case err != nil:
		return 0, unprocessableFault(fault.InvalidAmount,
			"amount: more than nothing, with the decimals of the currency, at most 10^18 smallest units")
	}
	return minor, nil
}

// listCurrencyPayouts handles GET /api/mca/payouts: the payouts from balances in currencies. There
// are none while sending is not available. It fails with invalid_query for an unknown status or a
// bad period, and like listInState.
func listCurrencyPayouts(c *call) (answer, error) {
	if status, given := c.query["status"]; given && status != "in_progress" {
		return answer{}, fault.New(fault.InvalidQuery, "status: in_progress")
	}
	if _, err := c.readListPeriod(); err != nil {
		return answer{}, err
	}
	return listInState(c, "currency_payout", []struct{}{}, nil, nil)
}
