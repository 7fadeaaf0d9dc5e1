package httpapi

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"purser/actors/balance"
	"purser/actors/fault"
	"purser/actors/query"
	"purser/persistence/ident"
)

// maxSimulatedID bounds the message ids of a simulation, in characters. The network allows 64; the
// rest holds the workspace's prefix.
const maxSimulatedID = 36

func (h *cardHandlers) simulateRoutes() []route {
	return []route{{method: "POST", path: "/api/dev/cards/{id}/simulate/{message}", onFullDisk: true, auth: authKey,
		scope:       "write:cards",
		sandboxOnly: true, handle: h.simulateMessage}}
}

// simulateMessage handles POST /api/dev/cards/{id}/simulate/{message} of a sandbox workspace: it
// sends a network message about one of the caller's cards to the authorizer. Network ids are
// global, so balance.SimulatedID keeps one tenant's test messages apart from another's. It fails
// with not_found for an unknown message, card or authorization, and with invalid_body.
func (h *cardHandlers) simulateMessage(c *call) (answer, error) {
	message, known := networkRoutes[c.params["message"]]
	if !known {
		return answer{}, fault.New(fault.NotFound, "")
	}
	body, err := h.decodeTree(c)
	if err != nil {
		return answer{}, err
	}
	if err := h.markIDs(c, body); err != nil {
		return answer{}, err
	}
	if message.route == "" {
		if err := checkExpiry(body); err != nil {
			return answer{}, err
		}
	}
	view, err := h.readCard(c, c.params["id"])
	if err != nil {
		return answer{}, err
	}
	if message.byAuthorization {
		if err := h.ownAuthorization(c, view.ID, body); err != nil {
			return answer{}, err
		}
	} else {
		body["cardToken"] = view.PartnerCardToken
	}
	if message.kind != "" {
		body["kind"] = message.kind
	}
	if message.route == "" {
		return h.simulateExpiry(c, body)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, fmt.Errorf("network message: %w", err)
	}
	status, decided, err := h.cfg.Network.Submit(c.ctx, message.route, text)
	if err != nil {
		return answer{}, err
	}
	marked := []byte(`"id":"` + balance.SimulatedID(c.who.workspace(), ""))
	return answer{status: status, body: bytes.Replace(decided, marked, []byte(`"id":"`), 1)}, nil
}

// networkRoute is the network route and kind of a simulated message. byAuthorization messages name
// an authorization and no card.
type networkRoute struct {
	route, kind     string
	byAuthorization bool
}

var networkRoutes = map[string]networkRoute{
	"authorization": {route: "authorizations"},
	"incremental":   {route: "authorizations", kind: "incremental"},
	"reversal":      {route: "reversals", byAuthorization: true},
	"clearing":      {route: "clearings"},
	"refund":        {route: "refunds"},
	"expiry":        {byAuthorization: true},
}

// checkExpiry checks the fields of an expiry and fails with invalid_body. The authorizer does not
// check them, because an expiry is no network message.
func checkExpiry(body map[string]any) error {
	for _, field := range slices.Sorted(maps.Keys(body)) {
		if field != "id" && field != "authorizationId" {
			return fault.New(fault.InvalidBody, field+" is not a field of an expiry")
		}
	}
	if id, ok := body["authorizationId"].(string); !ok || id == "" {
		return fault.New(fault.InvalidBody, "authorizationId is required, a string")
	}
	return nil
}

// simulateExpiry expires the authorization of a body, which releases its held amount. It does not
// check whose authorization it is: the body has passed checkExpiry and ownAuthorization. It fails
// with not_found for a malformed id, and with the authorizer's error.
func (h *cardHandlers) simulateExpiry(c *call, body map[string]any) (answer, error) {
	text, _ := body["authorizationId"].(string)
	u, err := ident.Parse(ident.Authorization, text)
	if err != nil {
		return answer{}, fault.New(fault.NotFound, "")
	}
	if err := h.cfg.Network.Expire(c.ctx, u); err != nil {
		return answer{}, err
	}
	id, _ := body["id"].(string)
	return replyWith(fasthttp.StatusOK, map[string]any{
		"id":              strings.TrimPrefix(id, balance.SimulatedID(c.who.workspace(), "")),
		"authorizationId": text, "heldAmountCents": 0})
}

// markIDs marks the ids of a message as simulated, and draws an id for a message without one. An
// originalId that is not a string stays, for the authorizer to refuse. It fails with invalid_body
// for an id of more than maxSimulatedID characters.
func (h *cardHandlers) markIDs(c *call, body map[string]any) error {
	if _, given := body["id"]; !given {
		var b [8]byte
		if _, err := io.ReadFull(h.actors.Entropy(), b[:]); err != nil {
			return fmt.Errorf("message id: %w", err)
		}
		body["id"] = "sim-" + hex.EncodeToString(b[:])
	}
	for _, field := range []string{"id", "originalId"} {
		id, ok := body[field].(string)
		if !ok || id == "" {
			continue
		}
		if utf8.RuneCountInString(id) > maxSimulatedID {
			return fault.New(fault.InvalidBody, fmt.Sprintf("%s must have at most %d characters", field,
				maxSimulatedID))
		}
		body[field] = balance.SimulatedID(c.who.workspace(), id)
	}
	return nil
}

// ownAuthorization refuses with not_found a message whose authorization belongs to another card or
// workspace. A message passes that names none, or by originalId one that has not come.
func (h *cardHandlers) ownAuthorization(c *call, card string, body map[string]any) error {
	id, given := body["authorizationId"].(string)
	if !given {
		original, _ := body["originalId"].(string)
		named, found, err := h.cfg.Network.FindAuthorization(original)
		if err != nil || !found {
			return err
		}
		id = named.Format(ident.Authorization)
	}
	h.actors.WaitRelayed(c.ctx, c.who.workspace())
	record, err := query.Authorizations.AsStored().ReadRecord(c.ctx, h.actors, c.who.workspace(), id)
	if err != nil {
		return err
	}
	if record.Parent != card {
		return fault.New(fault.NotFound, "")
	}
	return nil
}
