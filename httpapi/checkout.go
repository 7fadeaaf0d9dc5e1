package httpapi

import (
	"encoding/json"
	"math/big"
	"slices"
	"time"

	"purser/actors"
	"purser/actors/checkout"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/httpapi/guides"
	"purser/httpapi/web"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// serviceCancelledAt is the metadata key of a cancelled link's time of cancellation.
const serviceCancelledAt = "service_cancelled_at"

// checkoutHandlers serve checkout sessions and their hosted pages.
type checkoutHandlers struct {
	*edge
	site      *web.Site
	library   *guides.Library
	reference *apiReference
	pages     keptPages // the guides and the reference
}

// checkoutRoutes returns the routes of checkout sessions. Those under authNone are for the
// customer's page.
func (h *checkoutHandlers) checkoutRoutes() []route {
	const path, one = "/api/v1/checkout/sessions", "/api/v1/checkout/sessions/{id}"
	const read, write = "read:checkout", "write:checkout"
	return []route{
		{method: "POST", path: path, auth: authKey, scope: write, idempotency: keyOptional, handle: h.createCheckout},
		{method: "GET", path: path, auth: authKey, scope: read, query: slices.Concat(checkoutQuery, pageQuery),
			handle: h.listCheckouts},
		{method: "GET", path: one, auth: authKey, scope: read, handle: h.getCheckout},
		{method: "GET", path: one + "/status", auth: authNone, handle: h.checkoutStatus},
		{method: "POST", path: one + "/select", auth: authNone, handle: h.selectCheckout},
		{method: "POST", path: one + "/simulate", auth: authKey, scope: write, sandboxOnly: true,
			idempotency: keyOptional,
			handle:      h.simulateCheckout},
		{method: "POST", path: "/api/dashboard/checkout/sessions/{id}/cancel", onFullDisk: true, auth: authSession,
			roles: managers, idempotency: keyOptional, handle: h.cancelCheckout},
	}
}

// checkoutDocument is a session in the merchant's view.
type checkoutDocument struct {
	checkout.View
	Payments          []paymentDocument `json:"payments"`
	HostedURL         string            `json:"hostedUrl"`
	SuccessURL        string            `json:"successUrl"`
	CancelURL         *string           `json:"cancelUrl"`
	MerchantReference *string           `json:"merchantReference"`
	Description       *string           `json:"description"`
	Metadata          map[string]any    `json:"metadata"`
}

// paymentDocument is a payment in the merchant's view. Coins is "" for a token whose decimals are
// not known. ExplorerURL is null for a sandbox link.
type paymentDocument struct {
	checkout.PaymentView
	Coins       string  `json:"coins"`
	ExplorerURL *string `json:"explorerUrl"`
}

// showPayments adds to the payments of a link their coins and their pages in public explorers.
func showPayments(v *checkout.View) []paymentDocument {
	shown := []paymentDocument{}
	for _, p := range v.Payments {
		d := paymentDocument{PaymentView: p}
		units, whole := new(big.Int).SetString(p.Units, 10)
		if whole && slices.Contains(checkout.Assets(), p.Asset) {
			d.Coins = checkout.CoinsOf(p.Asset, units)
		}
		if page := explorerLink(v.Sandbox, p.Chain, p.TxHash); page != "" {
			d.ExplorerURL = &page
		}
		shown = append(shown, d)
	}
	return shown
}

// showCheckout joins a session and the merchant's text. The metadata of a cancelled link has its
// time of cancellation.
func (h *checkoutHandlers) showCheckout(v checkout.View, text checkout.Text) checkoutDocument {
	given := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	metadata := map[string]any{}
	for name, value := range text.Metadata {
		metadata[name] = value
	}
	if v.Cancelled {
		metadata[serviceCancelledAt] = v.ExpiresAt
	}
	return checkoutDocument{View: v, Payments: showPayments(&v), HostedURL: h.cfg.BaseURL + "/checkout/" + v.ID,
		SuccessURL: text.SuccessURL,
		CancelURL:  given(text.CancelURL), MerchantReference: given(text.MerchantReference),
		Description: given(text.Description),
		Metadata:    metadata}
}

// replyCheckout returns a renderer of the view that a session replies with.
func (h *checkoutHandlers) replyCheckout(text checkout.Text) func(checkout.View) (answer, error) {
	return func(view checkout.View) (answer, error) {
		return reply(map[string]any{"session": h.showCheckout(view, text)})
	}
}

// createCheckout handles POST /api/v1/checkout/sessions: it creates a payment link. It fails with
// invalid_body, with the faults of PrepareCheckout (unknown coins or networks, no price), and with
// the store's error.
func (h *checkoutHandlers) createCheckout(c *call) (answer, error) {
	var body struct {
		AmountUsdCents    money.Cents                `json:"amountUsdCents"`
		SuccessURL        string                     `json:"successUrl"`
		CancelURL         string                     `json:"cancelUrl"`
		MerchantReference string                     `json:"merchantReference"`
		Description       string                     `json:"description"`
		AcceptedAssets    []string                   `json:"acceptedAssets"`
		AcceptedChains    []string                   `json:"acceptedChains"`
		ExpiresInSeconds  *int64                     `json:"expiresInSeconds"`
		SettlementOption  string                     `json:"settlementOption"`
		Metadata          map[string]json.RawMessage `json:"metadata"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	create := checkout.Create{Workspace: c.who.workspace(), AmountUsdCents: body.AmountUsdCents,
		Expires:          checkout.DefaultExpires,
		SettlementOption: body.SettlementOption, Tolerance: h.cfg.CheckoutTolerance,
		Text: checkout.Text{SuccessURL: body.SuccessURL, CancelURL: body.CancelURL,
			MerchantReference: body.MerchantReference, Description: body.Description, Metadata: body.Metadata}}
	if body.ExpiresInSeconds != nil {
		create.Expires = time.Duration(*body.ExpiresInSeconds) * time.Second
	}
	if create.SettlementOption == "" {
		create.SettlementOption = checkout.HoldStablecoin
	}
	var err error
	if create.ID, err = h.newID(c, ident.Checkout); err != nil {
		return answer{}, err
	}
	live := c.who.access.Mode != modeSandbox
	to := actors.Envelope{Kind: actors.KindCheckout, Stream: create.ID, Workspace: create.Workspace}
	return askPrepared(h.edge, c, to, func() (any, error) {
		return h.actors.PrepareCheckout(c.ctx, create, body.AcceptedAssets, body.AcceptedChains, live)
	}, h.replyCheckout(create.Text))
}

// checkoutQuery holds the query parameters that narrow the list of links.
var checkoutQuery = slices.Concat(periodQuery, []string{"status", "reference", "amountFromCents", "amountToCents"})

// checkoutStatuses are the statuses by which links are listed.
var checkoutStatuses = []string{checkout.Pending, checkout.Awaiting, checkout.Confirming, checkout.Completed,
	checkout.Underpaid, checkout.Failed, checkout.Expired}

// listCheckouts handles GET /api/v1/checkout/sessions. The period bounds when a link was made, the
// reference is the merchant's. It fails with invalid_query for a bad filter, limit or cursor, and
// with the store's error.
func (h *checkoutHandlers) listCheckouts(c *call) (answer, error) {
	within, err := c.readListPeriod()
	if err != nil {
		return answer{}, err
	}
	status, ofStatus, err := c.readChoice("status", checkoutStatuses...)
	if err != nil {
		return answer{}, err
	}
	least, most, err := c.readAmounts()
	if err != nil {
		return answer{}, err
	}
	reference, ofReference := c.query["reference"]
	list := filteredList[checkout.State]{of: query.Checkouts, filter: c.filterText(checkoutQuery...), within: within,
		timeOf: func(s *checkout.State) time.Time { return s.CreatedAt.Time },
		matches: func(s *checkout.State) bool {
			if ofStatus && s.StatusAt(c.now) != status || s.AmountUsdCents < least || s.AmountUsdCents > most {
				return false
			}
			if !ofReference {
				return true
			}
			text, err := query.CheckoutReferences.ReadPart(c.ctx, c.countingReader(h.actors), c.who.workspace(), s.ID)
			return err != nil || text.MerchantReference == reference // show reports the error
		},
		show: func(_ json.RawMessage, s *checkout.State) (any, error) {
			text, err := query.CheckoutTexts.ReadPart(c.ctx, h.actors, c.who.workspace(), s.ID)
			return h.showCheckout(s.View(c.now), text), err
		}}
	return list.answerPage(h.edge, c)
}

// toCheckout addresses a command to the session of the path. It fails with not_found for a
// malformed id; another workspace's session is not_found when the command is sent.
func (c *call) toCheckout(command any) (actors.Envelope, error) {
	if _, err := ident.Parse(ident.Checkout, c.params["id"]); err != nil {
		return actors.Envelope{}, fault.New(fault.NotFound, "")
	}
	return actors.Envelope{Kind: actors.KindCheckout, Stream: c.params["id"], Workspace: c.who.workspace(),
			Command: command},
		nil
}

func (h *checkoutHandlers) getCheckout(c *call) (answer, error) {
	return h.askCheckout(c, decision.Read{})
}

func (h *checkoutHandlers) simulateCheckout(c *call) (answer, error) {
	return h.askCheckout(c, checkout.Simulate{})
}

func (h *checkoutHandlers) cancelCheckout(c *call) (answer, error) {
	return h.askCheckout(c, checkout.Cancel{})
}

// askCheckout sends a merchant's command to a session and answers the session after it. It fails
// with not_found for another workspace's session, and with the session's refusal.
func (h *checkoutHandlers) askCheckout(c *call, command any) (answer, error) {
	e, err := c.toCheckout(command)
	if err != nil {
		return answer{}, err
	}
	if _, err := query.Checkouts.AsStored().Read(c.ctx, h.actors, e.Workspace, e.Stream); err != nil {
		return answer{}, err
	}
	text, err := query.CheckoutTexts.ReadPart(c.ctx, h.actors, e.Workspace, e.Stream)
	if err != nil {
		return answer{}, err
	}
	return askIdempotent(h.edge, c, e, h.replyCheckout(text))
}

// publicCheckout reads the session of the path for a caller with the link and without a key. The
// session's id is unguessable and authorizes the read. An unknown id is not_found.
func (h *checkoutHandlers) publicCheckout(c *call) (checkout.State, error) {
	record, err := query.Checkouts.FindRecord(c.ctx, h.actors, c.params["id"])
	return record.Document, err
}

// checkoutStatus handles GET of a link's public status. It fails with not_found for an unknown
// link.
func (h *checkoutHandlers) checkoutStatus(c *call) (answer, error) {
	state, err := h.publicCheckout(c)
	if err != nil {
		return answer{}, err
	}
	return reply(state.CustomerView(c.now))
}

// selectCheckout handles POST of a link's public select: it sets the customer's coin and network.
// It answers 404 for an unknown link, 400 for a pair that the link does not accept, 409 when the
// link is paid and 410 when it has ended.
func (h *checkoutHandlers) selectCheckout(c *call) (answer, error) {
	var body struct {
		Asset string `json:"asset"`
		Chain string `json:"chain"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	state, err := h.publicCheckout(c)
	if err != nil {
		return answer{}, err
	}
	picked, err := ask[checkout.Selection](c.ctx, h.actors, actors.Envelope{Kind: actors.KindCheckout,
		Stream: state.ID, Workspace: state.Workspace,
		Command: checkout.Select{Asset: body.Asset, Chain: body.Chain}})
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"asset": picked.Pair.Asset, "chain": picked.Pair.Chain,
		"address": picked.Pair.Address,
		"amount":  picked.Coins, "amountUnits": picked.Units, "expiresAt": picked.View.ExpiresAt,
		"sandbox": picked.View.Sandbox})
}
