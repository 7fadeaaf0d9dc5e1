package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/actors/webhook"
	"purser/persistence/ident"
)

// endpointHandlers serve webhook endpoints and their deliveries.
type endpointHandlers struct{ *edge }

// webhookEndpointRoutes returns the routes of webhook endpoints and their deliveries.
func (h *endpointHandlers) webhookEndpointRoutes() []route {
	const path = "/api/webhooks/endpoints"
	return []route{
		{method: "POST", path: path, auth: authSession, roles: managers, idempotency: keyOptional,
			handle: h.createEndpoint},
		{method: "GET", path: path, auth: authSession, roles: managers, query: pageQuery, handle: h.listEndpoints},
		{method: "GET", path: path + "/{id}", auth: authSession, roles: managers, handle: h.getEndpoint},
		{method: "DELETE", path: path + "/{id}", auth: authSession, roles: managers, handle: h.removeEndpoint},
		{method: "GET", path: path + "/{id}/deliveries", auth: authSession, roles: managers,
			query: slices.Concat(deliveryQuery, pageQuery), handle: h.listDeliveries},
		{method: "POST", path: path + "/{id}/test", auth: authSession, roles: managers, idempotency: keyOptional,
			handle: h.pingEndpoint},
		{method: "GET", path: "/api/webhooks/deliveries/{id}", auth: authSession, roles: managers,
			handle: h.getDelivery},
		{method: "POST", path: "/api/webhooks/deliveries/{id}/replay", auth: authSession, roles: managers,
			idempotency: keyOptional,
			handle:      h.replayDelivery},
	}
}

// createEndpoint handles POST /api/webhooks/endpoints: it registers an endpoint. Only this answer
// holds the signing secret. It fails with invalid_body for unknown events and for a URL that
// deliveries may not go to, and with the refusal of the endpoint.
func (h *endpointHandlers) createEndpoint(c *call) (answer, error) {
	var body struct {
		URL    string   `json:"url"`
		Events []string `json:"events"`
	}
	if err := h.decode(c, &body); err != nil {
		return answer{}, err
	}
	if err := webhook.CheckEvents(body.Events); err != nil {
		return answer{}, err
	}
	slot, err := c.slot()
	if err != nil {
		return answer{}, err
	}
	id, err := h.newID(c, ident.Endpoint)
	if err != nil {
		return answer{}, err
	}
	secret, err := ident.NewSecret(ident.SigningSecret, slot, h.actors.Entropy())
	if err != nil {
		return answer{}, err
	}
	register := webhook.Register{ID: id, Workspace: c.who.workspace(), URL: body.URL, Secret: secret,
		Events: body.Events, By: c.who.user}
	return askPrepared(h.edge, c, c.askEndpoint(id, nil), func() (any, error) {
		if err := h.cfg.WebhookGuard.Check(c.ctx, register.URL); err != nil {
			return nil, fault.New(fault.InvalidBody, "url "+err.Error())
		}
		return register, nil
	}, func(registered webhook.View) (answer, error) {
		return reply(map[string]any{"endpoint": registered, "secret": secret})
	})
}

func (h *endpointHandlers) listEndpoints(c *call) (answer, error) {
	return listRecords(h.edge, c, query.Endpoints, "",
		func(endpoint webhook.Endpoint) (any, error) { return endpoint.View, nil })
}

// askEndpoint returns the envelope of a command to an endpoint of the session's workspace.
func (c *call) askEndpoint(id string, command any) actors.Envelope {
	return actors.Envelope{Kind: actors.KindWebhook, Stream: id, Workspace: c.who.workspace(), Command: command}
}

// endpointID returns the endpoint id of the path. A malformed one is not_found.
func (c *call) endpointID() (string, error) {
	if _, err := ident.Parse(ident.Endpoint, c.params["id"]); err != nil {
		return "", fault.New(fault.NotFound, "")
	}
	return c.params["id"], nil
}

func (h *endpointHandlers) getEndpoint(c *call) (answer, error) {
	endpoint, err := readOwn(h.edge, c, query.Endpoints, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return reply(map[string]any{"endpoint": endpoint.View})
}

// removeEndpoint handles DELETE /api/webhooks/endpoints/{id}: no delivery attempt begins after the
// answer. Removing an endpoint again answers the same. A malformed or unknown id is not_found.
// Other failures are those of the journal.
func (h *endpointHandlers) removeEndpoint(c *call) (answer, error) {
	id, err := c.endpointID()
	if err != nil {
		return answer{}, err
	}
	if _, err := h.actors.Ask(c.ctx, c.askEndpoint(id, webhook.Remove{})); err != nil {
		return answer{}, err
	}
	return reply(map[string]bool{"removed": true})
}

// deliveryQuery holds the query parameters that narrow the deliveries of an endpoint.
var deliveryQuery = append([]string{"status"}, periodQuery...)

// listDeliveries handles GET /api/webhooks/endpoints/{id}/deliveries. An unknown endpoint is
// not_found. It fails with invalid_query for a bad filter, limit or cursor.
func (h *endpointHandlers) listDeliveries(c *call) (answer, error) {
	id, err := c.endpointID()
	if err != nil {
		return answer{}, err
	}
	if _, err := h.actors.Ask(c.ctx, c.askEndpoint(id, decision.Read{})); err != nil {
		return answer{}, err
	}
	status, ofStatus, err := c.readChoice("status", webhook.StatusPending, webhook.StatusDelivered,
		webhook.StatusFailed)
	if err != nil {
		return answer{}, err
	}
	within, err := c.readListPeriod()
	if err != nil {
		return answer{}, err
	}
	list := filteredList[webhook.Delivery]{of: query.Deliveries, parent: id, filter: c.filterText(deliveryQuery...),
		within:  within,
		timeOf:  func(d *webhook.Delivery) time.Time { return d.CreatedAt.Time },
		matches: func(d *webhook.Delivery) bool { return !ofStatus || d.Status == status },
		show:    func(_ json.RawMessage, d *webhook.Delivery) (any, error) { return d.View(), nil }}
	return list.answerPage(h.edge, c)
}

// getDelivery handles GET /api/webhooks/deliveries/{id}, also for a delivery of a removed endpoint.
// An unknown delivery is not_found.
func (h *endpointHandlers) getDelivery(c *call) (answer, error) {
	d, err := readOwn(h.edge, c, query.Deliveries, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	return replyDelivery(d.View())
}

func replyDelivery(delivery webhook.DeliveryView) (answer, error) {
	return reply(map[string]any{"delivery": delivery})
}

// pingEndpoint handles POST /api/webhooks/endpoints/{id}/test: it queues a ping, which is delivered
// like every other event. An unknown endpoint is not_found.
func (h *endpointHandlers) pingEndpoint(c *call) (answer, error) {
	endpoint, err := c.endpointID()
	if err != nil {
		return answer{}, err
	}
	id, err := h.newID(c, ident.Delivery)
	if err != nil {
		return answer{}, err
	}
	body, err := json.Marshal(map[string]any{"type": webhook.PingEvent, "endpointId": endpoint,
		"at": decision.StampOf(c.now)})
	if err != nil {
		return answer{}, fmt.Errorf("render ping: %w", err)
	}
	return askIdempotent(h.edge, c, c.askEndpoint(endpoint, webhook.Ping{ID: id, Body: string(body)}), replyDelivery)
}

// maxReplayReads bounds how often a replay reads its delivery because the delivery has changed. An
// endpoint answers after its records are committed, so the second read has that change. Each
// further one needs another change in between.
const maxReplayReads = 4

// replayDelivery handles POST /api/webhooks/deliveries/{id}/replay: it starts a new run of a
// finished delivery. A pending delivery is answered unchanged. An unknown delivery is not_found. It
// fails with unavailable for a delivery that changes with each read.
func (h *endpointHandlers) replayDelivery(c *call) (answer, error) {
	for range maxReplayReads {
		d, err := readOwn(h.edge, c, query.Deliveries, c.params["id"])
		if err != nil {
			return answer{}, err
		}
		a, err := askIdempotent(h.edge, c, c.askEndpoint(d.EndpointID, webhook.Replay{Delivery: d}), replyDelivery)
		if !fault.Is(err, fault.Stale) {
			return a, err
		}
	}
	return answer{}, fault.New(fault.Unavailable, "The delivery is changing too fast; nothing changed.")
}
