package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/bankday"
	"purser/actors/card"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// recentAuthorizations is the number of authorizations in the answer for one card.
const recentAuthorizations = 20

// cardDocument is a card in the interface.
type cardDocument struct {
	card.View
	HolderLabel        string      `json:"holderLabel"`
	MonthSpendUsdCents money.Cents `json:"monthSpendUsdCents"`
}

// cardHandlers serve cards, cardholders, physical cards, authorizations and their simulation.
type cardHandlers struct {
	*edge
	calendar *bankday.Calendar
}

// cardRoutes returns the routes of cards.
func (h *cardHandlers) cardRoutes() []route {
	return []route{
		{method: "POST", path: "/api/cards", auth: authKey, scope: "write:cards", kyb: true, idempotency: keyOptional,
			maxBody: wideBody,
			handle:  h.mintCard},
		{method: "GET", path: "/api/cards", auth: authKey, scope: "read:cards",
			query: slices.Concat(cardQuery, pageQuery), handle: h.listCards},
		{method: "GET", path: "/api/cards/{id}", auth: authKey, scope: "read:cards", handle: h.getCard},
		{method: "PATCH", path: "/api/cards/{id}", onFullDisk: true, auth: authKey, scope: "write:cards",
			maxBody: wideBody, handle: h.updateCard},
	}
}

// mintCard handles POST /api/cards: it creates a virtual card. It fails with invalid_body, with
// limit_exceeded, and like cardholderFor. A repeat with the same Idempotency-Key returns the first
// answer.
func (h *cardHandlers) mintCard(c *call) (answer, error) {
	var body struct {
		HolderKind           string      `json:"holderKind"`
		HolderLabel          string      `json:"holderLabel"`
		CardholderID         string      `json:"cardholderId"`
		MonthlyLimitUsdCents money.Cents `json:"monthlyLimitUsdCents"`
		PerTxnLimitUsdCents  money.Cents `json:"perTxnLimitUsdCents"`
		AllowedMccs          *[]string   `json:"allowedMccs"`
		AllowedMerchants     *[]string   `json:"allowedMerchants"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	mint := card.Mint{Workspace: c.who.workspace(), HolderKind: body.HolderKind, HolderLabel: body.HolderLabel,
		MonthlyLimitUsdCents: body.MonthlyLimitUsdCents, PerTxnLimitUsdCents: body.PerTxnLimitUsdCents,
		AllowedMccs: body.AllowedMccs, AllowedMerchants: body.AllowedMerchants, Fixture: h.cfg.Issuer == IssuerFixture}
	if err := h.newCardIdentity(c, &mint); err != nil {
		return answer{}, err
	}
	return askPrepared(h.edge, c, c.toCard(mint.ID, nil),
		func() (_ any, err error) {
			mint.CardholderID, err = h.cardholderFor(c, body.CardholderID)
			return mint, err
		},
		func(view card.View) (answer, error) {
			return reply(map[string]any{"card": cardDocument{View: view, HolderLabel: body.HolderLabel},
				"fixture": view.Fixture})
		})
}

// newCardIdentity draws the id, token and last four digits of a new card. A full card number never
// exists. It fails only without entropy.
func (h *cardHandlers) newCardIdentity(c *call, mint *card.Mint) error {
	slot, err := c.slot()
	if err != nil {
		return err
	}
	entropy := h.actors.Entropy()
	u, err := ident.New(slot, c.now, entropy)
	if err != nil {
		return err
	}
	token, err := ident.NewToken(slot, entropy)
	if err != nil {
		return err
	}
	last4, err := drawDigits(4, entropy)
	if err != nil {
		return err
	}
	mint.ID, mint.Token, mint.Last4 = u.Format(ident.Card), token.String(), last4
	return nil
}

// drawDigits draws n uniformly distributed decimal digits. It fails only without entropy.
func drawDigits(n int, entropy io.Reader) (string, error) {
	const fair = 250 // the multiple of ten below which a byte's remainder is uniform
	text := make([]byte, 0, n)
	var b [1]byte
	for len(text) < n {
		if _, err := io.ReadFull(entropy, b[:]); err != nil {
			return "", fmt.Errorf("digits: %w", err)
		}
		if b[0] < fair {
			text = append(text, '0'+b[0]%10)
		}
	}
	return string(text), nil
}

// cardQuery holds the query parameters that narrow the list of cards.
var cardQuery = []string{"state", "holderKind", "holderLabel", "last4"}

// listCards handles GET /api/cards. holderLabel is the start of a label in any case. It fails with
// invalid_query for a bad filter, limit or cursor, and with the store's error.
func (h *cardHandlers) listCards(c *call) (answer, error) {
	state, ofState, err := c.readChoice("state", card.StateActive, card.StateFrozen, card.StateTerminated)
	if err != nil {
		return answer{}, err
	}
	kind, ofKind, err := c.readChoice("holderKind", "agent", "human")
	if err != nil {
		return answer{}, err
	}
	label, ofLabel := c.query["holderLabel"]
	if ofLabel && (label == "" || utf8.RuneCountInString(label) > maxFilterText) {
		return answer{}, fault.New(fault.InvalidQuery, "holderLabel must have between 1 and 200 characters")
	}
	last4, ofLast4 := c.query["last4"]
	if ofLast4 && (len(last4) != 4 || strings.Trim(last4, "0123456789") != "") {
		return answer{}, fault.New(fault.InvalidQuery, "last4 must have four digits")
	}
	h.actors.WaitRelayed(c.ctx, c.who.workspace())
	var unread error // the failure of reading a label
	list := filteredList[card.State]{of: query.Cards, filter: c.filterText(cardQuery...),
		timeOf: func(s *card.State) time.Time { return s.CreatedAt.Time },
		matches: func(s *card.State) bool {
			if ofState && s.State != state || ofKind && s.HolderKind != kind || ofLast4 && s.Last4 != last4 {
				return false
			}
			if !ofLabel || unread != nil {
				return unread == nil
			}
			shown, err := query.CardLabels.ReadPart(c.ctx, c.countingReader(h.actors), c.who.workspace(), s.Card)
			unread = err
			return err == nil && strings.HasPrefix(strings.ToLower(shown.HolderLabel), strings.ToLower(label))
		},
		show: func(_ json.RawMessage, s *card.State) (any, error) { return h.showCard(c, s.View()) }}
	out, err := list.answerPage(h.edge, c)
	return out, cmp.Or(unread, err)
}

// toCard addresses a command to a card; another workspace's card is not_found.
func (c *call) toCard(id string, command any) actors.Envelope {
	return actors.Envelope{Kind: actors.KindCard, Stream: id, Workspace: c.who.workspace(), Command: command}
}

// readCard asks the card's actor for its state. It fails with not_found for an unknown or another
// workspace's card.
func (h *cardHandlers) readCard(c *call, id string) (card.View, error) {
	return ask[card.View](c.ctx, h.actors, c.toCard(id, decision.Read{}))
}

// showCard adds the card's label and its spend of this month to a view. It fails only with an error
// of the store.
func (h *cardHandlers) showCard(c *call, view card.View) (cardDocument, error) {
	spent, err := h.monthSpend(c.ctx, c.who.workspace(), view.ID, c.now)
	if err != nil {
		return cardDocument{}, err
	}
	label, err := query.CardLabels.ReadPart(c.ctx, h.actors, c.who.workspace(), view.ID)
	if err != nil {
		return cardDocument{}, err
	}
	return cardDocument{View: view, HolderLabel: label.HolderLabel, MonthSpendUsdCents: spent}, nil
}

// monthSpend returns the cents that a card has authorized and cleared in the calendar month of now.
// A card without a spend has 0. It fails only with an error of the store.
func (h *cardHandlers) monthSpend(ctx context.Context, workspace, id string, now time.Time) (money.Cents, error) {
	spend, err := query.CardSpends.Read(ctx, h.actors, workspace, id)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return spentInMonth(spend, now), nil
}

// spentInMonth returns the cents of a spend in the calendar month of now.
func spentInMonth(spend balance.CardSpend, now time.Time) money.Cents {
	if money.Month(spend.Month) < money.MonthOf(now.UnixMilli()) {
		return 0
	}
	return spend.Cents
}

// getCard handles GET /api/cards/{id}: it shows the card and its newest recentAuthorizations
// authorizations. It fails with not_found for another workspace's card. Answered decisions that the
// journal does not have yet come from the authorizer; when they are many it waits for the journal.
func (h *cardHandlers) getCard(c *call) (answer, error) {
	id, workspace := c.params["id"], c.who.workspace()
	view, err := h.readCard(c, id)
	if err != nil {
		return answer{}, err
	}
	pending, known := h.actors.PendingOfCard(id)
	if !known {
		h.actors.WaitRelayed(c.ctx, workspace)
	}
	shown, err := h.showCard(c, view)
	if err != nil {
		return answer{}, err
	}
	if n := len(pending); n > 0 {
		shown.MonthSpendUsdCents = spentInMonth(pending[n-1].Spend, c.now)
	}
	records, err := query.Authorizations.AsStored().List(c.ctx, h.actors, workspace, id,
		query.Page{Limit: recentAuthorizations})
	if err != nil {
		return answer{}, err
	}
	recent, err := addPending(records, pending)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"card": shown, "recentAuthorizations": recent})
}

// addPending returns the documents of a card's newest authorizations, newest first, with the
// decisions that the journal may lack. It fails only when one cannot be encoded.
func addPending(
	records []query.Record[json.RawMessage], pending []balance.CardDecision,
) (recent []json.RawMessage, err error) {
	ids, documents := make([]string, len(records)), make(map[string]json.RawMessage, len(records))
	for i, r := range records {
		ids[len(ids)-1-i], documents[r.ID] = r.ID, r.Document
	}
	changes := make(map[string]*balance.Authorization)
	for _, p := range pending {
		if p.Authorization == nil {
			continue
		}
		id := p.Authorization.ID
		if p.Created && documents[id] == nil && changes[id] == nil && !isBehind(records, id) {
			ids = append(ids, id) // oldest first
		}
		changes[id] = p.Authorization
	}
	recent = make([]json.RawMessage, 0, recentAuthorizations)
	for _, id := range slices.Backward(ids[max(0, len(ids)-recentAuthorizations):]) {
		document := documents[id]
		if change := changes[id]; change != nil {
			if document, err = decision.Encode(*change); err != nil {
				return nil, fmt.Errorf("authorization %s: %w", id, err)
			}
		}
		recent = append(recent, document)
	}
	return recent, nil
}

// isBehind reports whether an authorization is older than all of a full page, by the time in its id:
// the journal has it by now.
func isBehind(page []query.Record[json.RawMessage], id string) bool {
	return len(page) == recentAuthorizations && id < page[len(page)-1].ID
}

// updateCard handles PATCH /api/cards/{id}: it changes a card's state, limits or scopes. It fails
// with invalid_body, with not_found, and with the card's refusal of a change of state.
func (h *cardHandlers) updateCard(c *call) (answer, error) {
	var change card.Update
	if err := h.decode(c, &change); err != nil {
		return answer{}, err
	}
	view, err := ask[card.View](c.ctx, h.actors, c.toCard(c.params["id"], change))
	if err != nil {
		return answer{}, err
	}
	shown, err := h.showCard(c, view)
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"card": shown})
}
