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
	"purser/persistence/ident"
)

// maxSimulatedID bounds the message ids of a simulation. The network allows 64 characters; the rest holds the workspace's mark.
const maxSimulatedID = 36

func (h *cardHandlers) simulateRoutes() []route {
	return []route{{method: "POST", path: "/api/dev/cards/{id}/simulate/{message}", onFullDisk: true, auth: authKey,
		scope:       "write:cards",
		sandboxOnly: true, handle: h.simulate}}
}

// simulate sends the network's message about one of the caller's cards. What leaves for the authorizer is a real message; the
// network's ids are global, though, and must not let one tenant's test meet another's: see mark.
func (h *cardHandlers) simulate(c *call) (answer, error) {
	message, known := networkRoutes[c.params["message"]]
	if !known {
		return answer{}, fault.New(fault.NotFound, "")
	}
	body, err := h.parse(c)
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
	status, told, err := h.cfg.Network.Submit(c.ctx, message.route, text)
	if err != nil {
		return answer{}, err
	}
	return answer{status: status, body: c.unmark(told)}, nil
}

// networkRoute says where a simulated message goes. byAuthorization: it names no card but an authorization.
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

// checkExpiry holds an expiry against what it may say. It is no message of the network, so the authorizer does not.
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

// simulateExpiry ends a hold as if its time had come.
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
	a, err := replyWith(fasthttp.StatusOK, map[string]any{"id": id, "authorizationId": text, "heldAmountCents": 0})
	a.body = c.unmark(a.body)
	return a, err
}

// mark opens the network ids of a workspace's simulations. A message id is the same for all of the network: without the
// mark, one tenant could hit, or find out, another's.
func (c *call) mark() string {
	return strings.TrimPrefix(c.who.workspace(), ident.Workspace+"_") + "."
}

// markIDs marks the ids of a message; one is drawn when it has none. An originalId that is no string stays: the authorizer judges
// it.
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
			return fault.New(fault.InvalidBody, fmt.Sprintf("%s must have at most %d characters", field, maxSimulatedID))
		}
		body[field] = c.mark() + id
	}
	return nil
}

// unmark gives a JSON document its ids back as the tenant wrote them: the mark opens no string but those of markIDs.
func (c *call) unmark(document []byte) []byte {
	return bytes.ReplaceAll(document, []byte(`"`+c.mark()), []byte(`"`))
}

// ownAuthorization is the wall in front of messages that name an authorization and no card.
func (h *cardHandlers) ownAuthorization(c *call, card string, body map[string]any) error {
	id, given := body["authorizationId"].(string)
	if !given {
		return nil
	}
	h.actors.WaitRelayed(c.ctx, c.who.workspace())
	record, err := h.actors.Record(c.ctx, balance.RecordAuthorization, c.who.workspace(), id)
	if err != nil {
		return err
	}
	if record.Parent != card {
		return fault.New(fault.NotFound, "")
	}
	return nil
}
