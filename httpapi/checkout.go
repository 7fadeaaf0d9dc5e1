package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"purser/actors"
	"purser/actors/checkout"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/workspace"
	"purser/persistence"
	"purser/persistence/ident"
)

// shownSessions is how many of a workspace's checkout sessions are listed.
const shownSessions = 50

// serviceCancelledAt is the key under which a cancelled link's metadata says when that was.
const serviceCancelledAt = "service_cancelled_at"

func (s *Server) checkoutRoutes() []route {
	const path, one = "/api/v1/checkout/sessions", "/api/v1/checkout/sessions/{id}"
	const read, write = "read:checkout", "write:checkout"
	return []route{
		{method: "POST", path: path, auth: authKey, scope: write, idempotency: keyOptional, handle: s.createCheckout},
		{method: "GET", path: path, auth: authKey, scope: read, handle: s.listCheckouts},
		{method: "GET", path: one, auth: authKey, scope: read, handle: s.getCheckout},
		{method: "GET", path: one + "/status", auth: authNone, handle: s.checkoutStatus},
		{method: "POST", path: one + "/select", auth: authNone, handle: s.selectCheckout},
		{method: "POST", path: one + "/simulate", auth: authKey, scope: write, sandboxOnly: true, idempotency: keyOptional,
			handle: s.simulateCheckout},
		{method: "POST", path: "/api/dashboard/checkout/sessions/{id}/cancel", onFullDisk: true, auth: authSession,
			roles: []string{workspace.Owner, workspace.Admin, workspace.Member}, idempotency: keyOptional,
			handle: s.cancelCheckout},
	}
}

// checkoutDocument is a session as the merchant sees it.
type checkoutDocument struct {
	checkout.View
	HostedURL         string         `json:"hostedUrl"`
	SuccessURL        string         `json:"successUrl"`
	CancelURL         *string        `json:"cancelUrl"`
	MerchantReference *string        `json:"merchantReference"`
	Description       *string        `json:"description"`
	Metadata          map[string]any `json:"metadata"`
}

// showCheckout puts a session and the merchant's words together. The words of a cancelled link say when it was cancelled.
func (s *Server) showCheckout(v checkout.View, text checkout.Text) checkoutDocument {
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
	return checkoutDocument{View: v, HostedURL: s.cfg.BaseURL + "/checkout/" + v.ID, SuccessURL: text.SuccessURL,
		CancelURL: given(text.CancelURL), MerchantReference: given(text.MerchantReference), Description: given(text.Description),
		Metadata: metadata}
}

// replyCheckout renders the view that a command answered.
func (s *Server) replyCheckout(text checkout.Text) func(any) (answer, error) {
	return func(answered any) (answer, error) {
		view, ok := answered.(checkout.View)
		if !ok {
			return answer{}, fmt.Errorf("checkout answered %T", answered)
		}
		return reply(map[string]any{"session": s.showCheckout(view, text)})
	}
}

func (s *Server) createCheckout(c *call) (answer, error) {
	var body struct {
		AmountUsdCents    int64                      `json:"amountUsdCents"`
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
	if err := s.decode(c, &body); err != nil {
		return answer{}, err
	}
	create := checkout.Create{Workspace: c.who.workspace(), AmountUsdCents: body.AmountUsdCents, Expires: checkout.DefaultExpires,
		SettlementOption: body.SettlementOption, Tolerance: s.cfg.CheckoutTolerance,
		Text: checkout.Text{SuccessURL: body.SuccessURL, CancelURL: body.CancelURL,
			MerchantReference: body.MerchantReference, Description: body.Description, Metadata: body.Metadata}}
	if body.ExpiresInSeconds != nil {
		create.Expires = time.Duration(*body.ExpiresInSeconds) * time.Second
	}
	if create.SettlementOption == "" {
		create.SettlementOption = checkout.HoldStablecoin
	}
	var err error
	if create.ID, err = s.newID(c, ident.Checkout); err != nil {
		return answer{}, err
	}
	live := c.who.access.Mode != modeSandbox
	return s.perform(c, actors.Envelope{Kind: "checkout", Stream: create.ID, Workspace: create.Workspace,
		Prepare: func(ctx context.Context) (any, error) {
			return s.actors.PrepareCheckout(ctx, create, body.AcceptedAssets, body.AcceptedChains, live)
		}}, s.replyCheckout(create.Text))
}

func (s *Server) listCheckouts(c *call) (answer, error) {
	records, err := s.actors.List(c.ctx, "checkout", c.who.workspace(), "", persistence.Page{Limit: shownSessions})
	if err != nil {
		return answer{}, err
	}
	shown := make([]checkoutDocument, len(records))
	for i, r := range records {
		var state checkout.State
		if err := json.Unmarshal(r.Document, &state); err != nil {
			return answer{}, fmt.Errorf("checkout session's record: %w", err)
		}
		text, err := s.checkoutText(c, c.who.workspace(), r.ID)
		if err != nil {
			return answer{}, err
		}
		shown[i] = s.showCheckout(state.View(c.now), text)
	}
	return reply(map[string]any{"data": shown})
}

// checkoutText reads the merchant's words of a session that is known to exist.
func (s *Server) checkoutText(c *call, workspace, id string) (text checkout.Text, err error) {
	record, err := s.actors.Record(c.ctx, checkout.RecordText, workspace, id)
	if err != nil {
		return text, fmt.Errorf("words of a checkout session: %v", err) // not to be taken for a session that is not found
	}
	if err := json.Unmarshal(record.Document, &text); err != nil {
		return text, fmt.Errorf("words of a checkout session: %w", err)
	}
	return text, nil
}

// toCheckout addresses a command to the session of the path; another workspace's answers not_found.
func (c *call) toCheckout(command any) (actors.Envelope, error) {
	if _, err := ident.Parse(ident.Checkout, c.params["id"]); err != nil {
		return actors.Envelope{}, fault.New(fault.NotFound, "")
	}
	return actors.Envelope{Kind: "checkout", Stream: c.params["id"], Workspace: c.who.workspace(), Command: command}, nil
}

func (s *Server) getCheckout(c *call) (answer, error) { return s.askCheckout(c, decision.Read{}) }

func (s *Server) simulateCheckout(c *call) (answer, error) {
	return s.askCheckout(c, checkout.Simulate{})
}

func (s *Server) cancelCheckout(c *call) (answer, error) { return s.askCheckout(c, checkout.Cancel{}) }

// askCheckout sends a command of the merchant's to a session and shows it as it is then.
func (s *Server) askCheckout(c *call, command any) (answer, error) {
	e, err := c.toCheckout(command)
	if err != nil {
		return answer{}, err
	}
	if _, err := s.actors.Record(c.ctx, "checkout", e.Workspace, e.Stream); err != nil {
		return answer{}, err
	}
	text, err := s.checkoutText(c, e.Workspace, e.Stream)
	if err != nil {
		return answer{}, err
	}
	return s.perform(c, e, s.replyCheckout(text))
}

// publicCheckout reads the session of the path for somebody who has the link and no key. Its id, which nobody guesses, is the
// proof.
func (s *Server) publicCheckout(c *call) (checkout.State, error) {
	var state checkout.State
	u, err := ident.Parse(ident.Checkout, c.params["id"])
	if err != nil {
		return state, fault.New(fault.NotFound, "")
	}
	record, err := s.actors.Find(c.ctx, u.Slot(), "checkout", c.params["id"])
	if err != nil {
		return state, err
	}
	if err := json.Unmarshal(record.Document, &state); err != nil {
		return state, fmt.Errorf("checkout session's record: %w", err)
	}
	return state, nil
}

func (s *Server) checkoutStatus(c *call) (answer, error) {
	state, err := s.publicCheckout(c)
	if err != nil {
		return answer{}, err
	}
	return reply(state.CustomerView(c.now))
}

// selectCheckout is the customer's pick of a coin and a network. A refusal may be 404 for a link that is not, 400 for a pair that
// it does not take, 409 when it was paid, 410 when it has ended.
func (s *Server) selectCheckout(c *call) (answer, error) {
	var body struct {
		Asset string `json:"asset"`
		Chain string `json:"chain"`
	}
	if err := s.decode(c, &body); err != nil {
		return answer{}, err
	}
	state, err := s.publicCheckout(c)
	if err != nil {
		return answer{}, err
	}
	answered, err := s.actors.Ask(c.ctx, actors.Envelope{Kind: "checkout", Stream: state.ID, Workspace: state.Workspace,
		Command: checkout.Select{Asset: body.Asset, Chain: body.Chain}})
	if err != nil {
		return answer{}, err
	}
	picked, ok := answered.(checkout.Picked)
	if !ok {
		return answer{}, fmt.Errorf("checkout answered %T", answered)
	}
	return reply(map[string]any{"asset": picked.Pair.Asset, "chain": picked.Pair.Chain, "address": picked.Pair.Address,
		"amount": picked.Coins, "amountUnits": picked.Units, "expiresAt": picked.View.ExpiresAt, "sandbox": picked.View.Sandbox})
}
