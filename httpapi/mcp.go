package httpapi

import (
	"encoding/json"
	"strings"

	"github.com/valyala/fasthttp"

	"purser/actors/fault"
	"purser/httpapi/mcp"
)

// toolsVersion is the version that the tool server reports, that of the OpenAPI description.
const toolsVersion = "0.1.0"

// maxArgument bounds a string argument of a tool, in characters. Ids and cursors are shorter.
const maxArgument = 64

// tool is a GET of this interface that a Model Context Protocol client may call. It has the route's
// scope and handler.
type tool struct {
	mcp.Tool
	route *route
}

// toolHandlers serve the Model Context Protocol.
type toolHandlers struct {
	*edge
	protocol *mcp.Server
	byName   map[string]tool
}

func (h *toolHandlers) mcpRoutes() []route {
	return []route{{method: "POST", path: "/api/mcp", auth: authKey, rpc: true, onFullDisk: true, handle: h.answerRPC}}
}

// toolTable lists the tools. Each reads through the handler of a GET of the table.
func (h *toolHandlers) toolTable(table []route) []tool {
	row := func(name, title, path, description string, arguments ...mcp.Argument) tool {
		return h.newTool(table, path, mcp.Tool{Name: name, Title: title, Description: description, Arguments: arguments})
	}
	return []tool{
		row("get_treasury", "Treasury", "/api/treasury",
			"Dollar and stablecoin balances, the month's spend and the newest 25 ledger entries. "+
				"Amounts are in cents."),
		row("list_ledger_entries", "Ledger entries", "/api/treasury/ledger",
			"Credits and debits of the dollar ledger with their sources, newest first. Amounts are in cents."),
		row("list_payouts", "Payouts", "/api/treasury/payouts",
			"Payouts with their rail, status and history, newest first."),
		row("list_counterparties", "Counterparties", "/api/treasury/counterparties",
			"Saved recipients of payouts, newest first."),
		row("list_currency_accounts", "Currency accounts", "/api/mca/accounts",
			"Balances in currencies, in smallest units, in the order of their opening, and what can be done in which."),
		row("list_ramp_orders", "Ramp orders", "/api/ramp/orders",
			"Orders between dollars and USDC, and withdrawals of USDC, with their status and fee, newest first. Amounts are in dollars."),
		row("get_fx_rates", "Exchange rates", "/api/treasury/fx-rates",
			"Indicative exchange rates: units of a currency for one US dollar."),
		row("list_cards", "Cards", "/api/cards",
			"Cards with their state, limits, scopes and the month's spend, newest first."),
		row("get_card", "Card", "/api/cards/{id}",
			"One card and its newest 20 authorizations, each with the reason of its decision.",
			idOf("cardId", "The card's id", "card_01m7wd7tg0fk6s8by2t41d8sn5")),
		row("list_cardholders", "Cardholders", "/api/cardholders", "The people that cards are issued under, newest first."),
		row("list_agents", "Agents", "/api/agents", "AI agents with their state and public key, newest first."),
		row("list_agent_intents", "Agent intents", "/api/agents/{id}/intents",
			"Payment intents an agent has submitted, newest first, refused ones with the reason.",
			idOf("agentId", "The agent's id", "agt_01kagj5fkve16r6sydcvyx2dnv")),
		row("list_checkout_sessions", "Checkout sessions", "/api/v1/checkout/sessions",
			"Checkout sessions, newest first, with their status and what was "+
				"received and is due. Amounts are in cents."),
		row("get_checkout_session", "Checkout session", "/api/v1/checkout/sessions/{id}",
			"One checkout session with its addresses and payments.",
			idOf("sessionId", "The session's id", "cs_01kagj5fkve16r6sydcvyx2dnv")),
	}
}

// pageArguments holds the arguments of every list.
var pageArguments = []mcp.Argument{
	{Name: "limit", Description: "Entries of a page", Min: minLimit, Max: maxLimit, Example: int64(defaultLimit)},
	{Name: "cursor", Description: "The nextCursor of the page before", MaxLength: maxArgument,
		Example: "qvzqfgAAAAAAAAAqAAAAAA"},
}

// idOf returns the argument for the {id} of a route's path.
func idOf(name, description, example string) mcp.Argument {
	return mcp.Argument{Name: name, Description: description, Required: true, MaxLength: maxArgument, Example: example}
}

// newTool completes a tool of a GET of the table. A list takes limit and cursor. It panics when the
// table has no such route.
func (h *toolHandlers) newTool(table []route, path string, t mcp.Tool) tool {
	for i := range table {
		if r := &table[i]; r.method == fasthttp.MethodGet && r.path == path {
			if len(r.query) > 0 {
				t.Arguments = append(t.Arguments, pageArguments...)
			}
			t.Answer = h.openapi.AnswerSchema(r.describedOperation())
			return tool{t, r}
		}
	}
	panic("BUG: tool " + t.Name + " reads a route that is not there")
}

// addTools adds the tools that read through a table of routes. Call it once, before the first
// request.
func (h *toolHandlers) addTools(table []route) {
	h.byName = map[string]tool{}
	var shown []mcp.Tool
	for _, t := range h.toolTable(table) {
		h.byName[t.Name] = t
		shown = append(shown, t.Tool)
	}
	h.protocol = mcp.New("purser", toolsVersion, shown)
}

// answerRPC handles POST /api/mcp: it answers messages of the Model Context Protocol. A body that
// is not a message answers 400, an error of a message is in its response, and messages without a
// response answer 202. It fails with origin_refused for a page of another origin, with
// not_acceptable for a caller that does not accept JSON, and with unsupported_media_type.
func (h *toolHandlers) answerRPC(c *call) (answer, error) {
	if from := c.header.origin; from != "" && from != h.origin {
		return answer{}, fault.New(fault.OriginRefused, "a page of another origin may not call tools")
	}
	if !c.acceptsJSON() {
		return answer{}, fault.New(notAcceptable, "the answer is application/json")
	}
	if err := c.jsonOnly(); err != nil {
		return answer{}, err
	}
	body, status := h.protocol.Answer(c.header.rpc, c.body, &toolCaller{handlers: h, call: c})
	a := answer{status: status, body: body}
	if status >= fasthttp.StatusBadRequest {
		a.code = fault.InvalidBody
	}
	return a, nil
}

// acceptsJSON reports whether the caller accepts application/json. A missing Accept header accepts
// every type.
func (c *call) acceptsJSON() bool {
	if strings.TrimSpace(c.header.accept) == "" {
		return true
	}
	for part := range strings.SplitSeq(c.header.accept, ",") {
		media, parameters, _ := strings.Cut(part, ";")
		refused := strings.Trim(strings.ReplaceAll(parameters, " ", ""), "0.") == "q="
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "application/json", "application/*", "*/*":
			if !refused {
				return true
			}
		}
	}
	return false
}

// toolCaller calls the tools of one request on behalf of its caller.
type toolCaller struct {
	handlers *toolHandlers
	call     *call
	calls    int
}

// May implements mcp.Host. A tool is refused for the same reasons as its route. The error is of
// type *mcp.Error.
func (t *toolCaller) May(name string) error {
	if err := t.handlers.checkPermissions(t.routeCall(name, nil)); err != nil {
		return t.toolError(err)
	}
	return nil
}

// Call implements mcp.Host. The request is counted already; each further call of a batch counts
// like another request. It fails with the errors of the route, as *mcp.Error. It must be called
// after May.
func (t *toolCaller) Call(name string, arguments map[string]string) (json.RawMessage, error) {
	if t.calls++; t.calls > 1 {
		if err := t.handlers.limits.countAgain(t.call); err != nil {
			return nil, t.toolError(err)
		}
	}
	c := t.routeCall(name, arguments)
	a, err := c.route.handle(c)
	t.handlers.limits.chargeTool(t.call, len(a.body), c.readBytes())
	if err != nil {
		return nil, t.toolError(err)
	}
	return a.body, nil
}

// routeCall returns the GET of a tool: the argument with a record's id fills the path, the others
// the query.
func (t *toolCaller) routeCall(name string, arguments map[string]string) *call {
	c := *t.call
	c.route, c.method, c.body, c.key = t.handlers.byName[name].route, fasthttp.MethodGet, nil, ""
	c.read, c.passed = 0, 0
	c.path, c.params, c.query = c.route.path, map[string]string{}, map[string]string{}
	for argument, value := range arguments {
		if argument == "limit" || argument == "cursor" {
			c.query[argument] = value
			continue
		}
		c.params["id"] = value
	}
	return &c
}

// toolError turns an error of the interface into an error of the protocol, with the response body
// as its data.
func (t *toolCaller) toolError(err error) error {
	return rpcError(t.handlers.refusalOf(t.call.id, fasthttp.MethodGet, err))
}

// rpcError turns a refusal of a route into an error of JSON-RPC.
func rpcError(refused answer) *mcp.Error {
	code := mcp.ToolFailed
	switch {
	case refused.code == fault.OriginRefused:
		code = mcp.InvalidRequest
	case refused.status == fasthttp.StatusUnauthorized || refused.status == fasthttp.StatusForbidden:
		code = mcp.Unauthorized
	case refused.code == fault.InvalidQuery:
		code = mcp.InvalidParams
	case refused.code == fault.Internal:
		code = mcp.InternalError
	}
	return &mcp.Error{Code: code, Message: string(refused.code), Data: refused.body}
}

// asRPC converts a 401 or 403 into an error of JSON-RPC. Every other refusal keeps the form that
// all routes share.
func asRPC(refused answer, body []byte) answer {
	if refused.status == fasthttp.StatusUnauthorized || refused.status == fasthttp.StatusForbidden {
		refused.body = mcp.Refusal(body, rpcError(refused))
	}
	return refused
}
