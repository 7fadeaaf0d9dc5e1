package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// payoutRoutes returns the routes of payouts.
func (h *treasuryHandlers) payoutRoutes() []route {
	const path, read, write = "/api/treasury/payouts", "read:treasury", "write:payouts"
	return []route{
		{method: "POST", path: path, auth: authKey, scope: write, kyb: true, idempotency: keyRequired,
			handle: h.createPayout},
		{method: "GET", path: path, auth: authKey, scope: read, query: slices.Concat(payoutQuery, pageQuery),
			handle: h.listPayouts},
		{method: "GET", path: path + "/{id}", auth: authKey, scope: read, handle: h.getPayout},
		{method: "GET", path: path + "/{id}/tracking", auth: authKey, scope: read, handle: h.trackPayout},
		{method: "POST", path: path + "/{id}/release", auth: authKey, scope: write, kyb: true,
			idempotency: keyOptional,
			handle:      func(c *call) (answer, error) { return h.directPayout(c, true) }},
		{method: "POST", path: path + "/{id}/cancel", onFullDisk: true, auth: authKey, scope: write, kyb: true,
			idempotency: keyOptional,
			handle:      func(c *call) (answer, error) { return h.directPayout(c, false) }},
	}
}

// DefaultPayoutLimits returns the limits that apply unless PURSER_PAYOUT_LIMITS sets others:
// 250,000 dollars a day for a key and 1,000,000 for a workspace.
func DefaultPayoutLimits() balance.PayoutLimits {
	return balance.PayoutLimits{KeyCents: 25_000_000, WorkspaceCents: 100_000_000}
}

// ParsePayoutLimits reads "key,workspace" in whole dollars a day. It fails for any other form and
// for a number below 1 or above the largest amount.
func ParsePayoutLimits(s string) (balance.PayoutLimits, error) {
	const most = int64(money.MaxAmount / money.Dollar)
	var daily [2]money.Cents
	parts := strings.Split(s, ",")
	if len(parts) != len(daily) {
		return balance.PayoutLimits{},
			fmt.Errorf("payout limits %q: want two numbers of dollars a day (key, workspace)", s)
	}
	for i, part := range parts {
		v, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil || v < 1 || v > most {
			return balance.PayoutLimits{}, fmt.Errorf("payout limits %q: want numbers from 1 to %d", s, most)
		}
		daily[i] = money.Cents(v) * money.Dollar
	}
	return balance.PayoutLimits{KeyCents: daily[0], WorkspaceCents: daily[1]}, nil
}

// payoutDocument is a payout in the interface.
type payoutDocument struct {
	ID             string               `json:"id"`
	Rail           string               `json:"rail"`
	Status         string               `json:"status"`
	CounterpartyID string               `json:"counterpartyId"`
	AmountCents    money.Cents          `json:"amountCents"`
	FeeCents       money.Cents          `json:"feeCents"`
	Description    string               `json:"description"`
	SameDay        bool                 `json:"sameDay"`
	QuoteID        *string              `json:"quoteId"`
	Reference      string               `json:"reference"`
	ExpectedOn     string               `json:"expectedOn"`
	CreatedAt      decision.Stamp       `json:"createdAt"`
	UpdatedAt      decision.Stamp       `json:"updatedAt"`
	History        []balance.PayoutStep `json:"history"`
}

func showPayout(p balance.Payout, description string) payoutDocument {
	return payoutDocument{ID: p.ID, Rail: p.Rail, Status: p.Status, CounterpartyID: p.CounterpartyID,
		AmountCents: p.AmountCents,
		FeeCents:    p.FeeCents, Description: description, SameDay: p.SameDay, QuoteID: p.QuoteID,
		Reference:  p.Reference,
		ExpectedOn: p.ExpectedOn, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt, History: p.History}
}

// replyPayout returns a renderer of the payout that a command replies with.
func replyPayout(description string) func(balance.Payout) (answer, error) {
	return func(p balance.Payout) (answer, error) {
		return reply(map[string]any{"payout": showPayout(p, description)})
	}
}

// createPayout handles POST /api/treasury/payouts: it orders a payout. A repeat is answered even if
// the recipient has been removed or the quote has expired since. It fails with invalid_body,
// not_found for an unknown recipient, quote_not_found, and with the balance's refusal: no funds, or
// over the daily limit.
func (h *treasuryHandlers) createPayout(c *call) (answer, error) {
	var body struct {
		Rail           string      `json:"rail"`
		CounterpartyID string      `json:"counterpartyId"`
		AmountCents    money.Cents `json:"amountCents"`
		Description    string      `json:"description"`
		SameDay        bool        `json:"sameDay"`
		QuoteID        string      `json:"quoteId"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	create := balance.CreatePayout{Workspace: c.who.workspace(), Key: c.who.author(), Rail: body.Rail,
		SameDay: body.SameDay, AmountCents: body.AmountCents, Description: body.Description,
		Limits:     h.cfg.PayoutLimits,
		ExpectedOn: h.calendar.ArrivalDay(c.now, body.Rail, body.SameDay).Format(time.DateOnly)}
	if err := create.CheckBody(body.QuoteID != ""); err != nil {
		return answer{}, err
	}
	var err error
	if create.ID, err = h.newID(c, ident.Payout); err != nil {
		return answer{}, err
	}
	uetr, err := uuid.NewRandomFromReader(h.actors.Entropy())
	if err != nil {
		return answer{}, fmt.Errorf("uetr: %w", err)
	}
	create.UETR = uetr.String()
	return askPrepared(h.edge, c, toBalance(create.Workspace, nil),
		func() (_ any, err error) {
			if create.Recipient, err = h.recipientNamed(c, body.CounterpartyID); err != nil {
				return nil, err
			}
			create.Quote, err = h.quoteNamed(c, body.QuoteID)
			return create, err
		}, replyPayout(create.Description))
}

// payoutNamed reads the payout of the path with its description. Another workspace's payout is
// not_found.
func (h *treasuryHandlers) payoutNamed(c *call) (balance.Payout, string, error) {
	p, err := readOwn(h.edge, c, query.Payouts, c.params["id"])
	if err != nil {
		return p, "", err
	}
	description, err := h.payoutDescription(c, p)
	return p, description, err
}

func (h *treasuryHandlers) payoutDescription(c *call, p balance.Payout) (string, error) {
	text, err := query.PayoutTexts.ReadPart(c.ctx, h.actors, c.who.workspace(), p.ID)
	return text.Description, err
}

// payoutQuery holds the query parameters that narrow the list of payouts.
var payoutQuery = slices.Concat(periodQuery, amountQuery, []string{"status", "reference", "counterpartyId"})

// listPayouts handles GET /api/treasury/payouts. The period bounds when a payout was ordered. It
// fails with invalid_query for a bad filter, limit or cursor, with not_found for another
// workspace's recipient, and with the store's error.
func (h *treasuryHandlers) listPayouts(c *call) (answer, error) {
	within, err := c.readListPeriod()
	if err != nil {
		return answer{}, err
	}
	least, most, err := c.readAmounts()
	if err != nil {
		return answer{}, err
	}
	status, ofStatus, err := c.readChoice("status", balance.PayoutStatuses...)
	if err != nil {
		return answer{}, err
	}
	recipient, ofRecipient := c.query["counterpartyId"]
	if ofRecipient {
		if _, err := readOwn(h.edge, c, query.Counterparties, recipient); err != nil {
			return answer{}, err
		}
	}
	reference, ofReference := c.query["reference"]
	list := filteredList[balance.Payout]{of: query.Payouts, filter: c.filterText(payoutQuery...), within: within,
		timeOf: func(p *balance.Payout) time.Time { return p.CreatedAt.Time },
		matches: func(p *balance.Payout) bool {
			return (!ofStatus || p.Status == status) && (!ofRecipient || p.CounterpartyID == recipient) &&
				(!ofReference || p.Reference == reference) && p.AmountCents >= least && p.AmountCents <= most
		},
		show: func(_ json.RawMessage, p *balance.Payout) (any, error) {
			description, err := h.payoutDescription(c, *p)
			return showPayout(*p, description), err
		}}
	return list.answerPage(h.edge, c)
}

func (h *treasuryHandlers) getPayout(c *call) (answer, error) {
	p, description, err := h.payoutNamed(c)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"payout": showPayout(p, description)})
}

// directPayout releases or cancels a wire that is held for review. It fails with not_found, and
// with the balance's refusal of a payout that is not held.
func (h *treasuryHandlers) directPayout(c *call, release bool) (answer, error) {
	p, description, err := h.payoutNamed(c)
	if err != nil {
		return answer{}, err
	}
	workspace := c.who.workspace()
	return askIdempotent(h.edge, c, toBalance(workspace, balance.DirectPayout{ID: p.ID, Release: release}),
		replyPayout(description))
}

// trackingEvent is a step of an international wire.
type trackingEvent struct {
	At     decision.Stamp `json:"at"`
	Status string         `json:"status"`
	Bank   string         `json:"bank"`
}

// Banks of a tracking event.
const (
	bankOurs       = "originator"
	bankRecipients = "beneficiary"
)

// trackPayout handles GET /api/treasury/payouts/{id}/tracking: the tracking of an international
// wire. Any other payout is not_found.
func (h *treasuryHandlers) trackPayout(c *call) (answer, error) {
	p, _, err := h.payoutNamed(c)
	if err != nil {
		return answer{}, err
	}
	if p.Rail != balance.RailIntlWire {
		return answer{}, fault.New(fault.NotFound, "")
	}
	events := make([]trackingEvent, len(p.History))
	for i, step := range p.History {
		events[i] = trackingEvent{At: step.At, Status: step.Status, Bank: bankOurs}
		if step.Status == balance.PayoutSettled || step.Status == balance.PayoutReturned {
			events[i].Bank = bankRecipients
		}
	}
	return reply(map[string]any{"payoutId": p.ID, "uetr": p.UETR, "status": p.Status, "events": events})
}
