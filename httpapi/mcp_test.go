package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"purser/actors"
	"purser/actors/balance"
	"purser/actors/decision"
	"purser/actors/workspace"
	"purser/httpapi/mcp"
)

// rpc posts a body to the endpoint and returns the answer, which may be empty or an array.
func (w *world) rpc(who as, body string) (status int, answered string) {
	w.t.Helper()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://purser.test/api/mcp")
	req.Header.SetMethod("POST")
	req.Header.SetContentType("application/json")
	req.SetBodyString(body)
	for name, value := range who {
		req.Header.Set(name, value)
	}
	require.NoError(w.t, w.client.Do(req, resp))
	suiteLog.recordExchange(who, "", body, string(resp.Body()))
	return resp.StatusCode(), string(resp.Body())
}

// called calls a tool and returns the text of its answer, or its error.
func (w *world) called(who as, tool, arguments string) (text string, fault *mcp.Error) {
	w.t.Helper()
	status, answered := w.rpc(who,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool,
			arguments))
	require.Equal(w.t, 200, status, answered)
	var response struct {
		Result struct{ Content []struct{ Type, Text string } }
		Error  *mcp.Error
	}
	require.NoError(w.t, json.Unmarshal([]byte(answered), &response))
	if response.Error != nil {
		return "", response.Error
	}
	require.Len(w.t, response.Result.Content, 1)
	require.Equal(w.t, "text", response.Result.Content[0].Type)
	return response.Result.Content[0].Text, nil
}

// listed returns the names of the tools that a caller may call.
func (w *world) listed(who as) []string {
	w.t.Helper()
	status, answered := w.rpc(who, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	require.Equal(w.t, 200, status, answered)
	var response struct {
		Result struct{ Tools []struct{ Name string } }
	}
	require.NoError(w.t, json.Unmarshal([]byte(answered), &response))
	names := []string{}
	for _, tool := range response.Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// keyOf makes a key of a tenant with some scopes.
func (w *world) keyOf(tn tenant, scopes ...string) as {
	w.t.Helper()
	made := w.ok(w.post(session(tn.cookie), "/api/auth/keys",
		`{"label":"k","scopes":["`+strings.Join(scopes, `","`)+`"]}`))
	return key(made.text("secret"))
}

// argumentsOf returns the required arguments of a tool, for an estate's records.
func (e *estate) argumentsOf(tool string) string {
	switch tool {
	case "get_card":
		return `{"cardId":"` + e.id("card") + `"}`
	case "list_agent_intents":
		return `{"agentId":"` + e.id("agent") + `"}`
	case "get_checkout_session":
		return `{"sessionId":"` + e.id("checkout_session") + `"}`
	}
	return `{}`
}

// pathOf returns the path of the GET behind a tool.
func (e *estate) pathOf(t tool) string {
	switch t.Name {
	case "get_card":
		return "/api/cards/" + e.id("card")
	case "list_agent_intents":
		return "/api/agents/" + e.id("agent") + "/intents"
	case "get_checkout_session":
		return "/api/v1/checkout/sessions/" + e.id("checkout_session")
	}
	return t.route.path
}

// A tool is listed for and answers exactly the keys that hold its scope.
func TestEveryToolNeedsItsScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	e := w.newEstate(tn)
	scopes := map[string]string{"get_treasury": "read:treasury", "list_ledger_entries": "read:treasury",
		"list_payouts": "read:treasury", "list_counterparties": "read:treasury",
		"list_currency_accounts": "read:treasury",
		"list_ramp_orders":       "read:treasury",
		"get_fx_rates":           "read:treasury", "list_cards": "read:cards", "get_card": "read:cards",
		"list_cardholders": "read:cards",
		"list_agents":      "read:agents", "list_agent_intents": "read:agents",
		"list_checkout_sessions": "read:checkout",
		"get_checkout_session":   "read:checkout"}
	require.ElementsMatch(t, slices.Collect(maps.Keys(scopes)), w.listed(tn.all))
	checked := 0
	for _, scope := range workspace.Scopes() {
		who, others := w.keyOf(tn, scope), []string{}
		for name, needed := range scopes {
			_, fault := w.called(who, name, e.argumentsOf(name))
			checked++
			if needed == scope {
				require.Nil(t, fault, "%s with %s", name, scope)
				others = append(others, name)
				continue
			}
			require.Equal(t, mcp.Unauthorized, fault.Code, "%s with %s", name, scope)
			require.Equal(t, "missing_scope:"+needed, fault.Message)
		}
		require.ElementsMatch(t, others, w.listed(who), "shown with %s", scope)
	}
	t.Logf("%d pairs of tool and scope", checked)
}

// compiledSchema compiles a tool's schema of JSON with an independent library.
func compiledSchema(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("urn:tool", document))
	schema, err := compiler.Compile("urn:tool")
	require.NoError(t, err)
	return schema
}

// A tool's answer equals that of its GET, byte for byte and without white space, and is of the
// tool's schema of answers.
func TestToolAnswerEqualsItsRoutesAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.fund(tn, 100_000)
	e := w.newEstate(tn)
	for _, kind := range []string{"authorization", "cardholder", "payout", "checkout_session", "ramp_order"} {
		e.id(kind)
	}
	w.refusesIntent(tn, e.id("agent"), `{}`, 400, "invalid_body", "invalid_body")
	w.settled() // or the ramp's partner may take the order between two reads
	for _, tool := range w.server.tools.byName {
		text, fault := w.called(tn.all, tool.Name, e.argumentsOf(tool.Name))
		require.Nil(t, fault, tool.Name)
		require.Equal(t, w.ok(w.get(tn.all, e.pathOf(tool))).raw, text, tool.Name)
		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, []byte(text)))
		require.Equal(t, compact.String(), text, tool.Name)
		answered, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		require.Contains(t, string(tool.Answer), `"type":"object"`, tool.Name)
		require.Error(t, compiledSchema(t, tool.Answer).Validate(map[string]any{}), tool.Name)
		require.NoError(t, compiledSchema(t, tool.Answer).Validate(answered), tool.Name)
	}
}

// Every schema is valid and accepts its own examples. The tool accepts them too, and answers about
// the records.
func TestEveryToolTakesItsExamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	for _, tool := range w.server.tools.byName {
		text, err := json.Marshal(tool.Schema())
		require.NoError(t, err)
		schema := compiledSchema(t, text)
		examples := map[string]any{}
		for _, a := range tool.Arguments {
			require.NotEmpty(t, a.Description, "%s %s", tool.Name, a.Name)
			examples[a.Name] = a.Example
		}
		text, err = json.Marshal(examples)
		require.NoError(t, err)
		given, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(given), tool.Name)
		if _, fault := w.called(tn.all, tool.Name, string(text)); fault != nil {
			require.Contains(t, []string{"invalid_query", "not_found"}, fault.Message,
				"%s: the cursor of another list, an unknown id", tool.Name)
		}
	}
}

// limit and cursor page through a list to its end.
func TestToolsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	for range 5 {
		w.fund(tn, 100)
	}
	seen, cursor := map[string]bool{}, ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		arguments := `{"limit":2}`
		if cursor != "" {
			arguments = fmt.Sprintf(`{"limit":2,"cursor":%q}`, cursor)
		}
		text, fault := w.called(tn.all, "list_ledger_entries", arguments)
		require.Nil(t, fault)
		var page struct {
			Data       []balance.LedgerEntry
			NextCursor string
		}
		require.NoError(t, json.Unmarshal([]byte(text), &page))
		for _, entry := range page.Data {
			require.False(t, seen[entry.ID])
			seen[entry.ID] = true
		}
		require.LessOrEqual(t, len(page.Data), 2)
		cursor = page.NextCursor
	}
	require.Len(t, seen, 5)
	_, fault := w.called(tn.all, "list_cards", fmt.Sprintf(`{"cursor":%q}`, "AAAA"))
	require.Equal(t, mcp.InvalidParams, fault.Code)
	require.JSONEq(t, `{"error":"invalid_query","message":"cursor must be a nextCursor of this list"}`,
		string(fault.Data))
}

// A tool reads another workspace's record as not found.
func TestToolsReadOnlyTheirWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, other := w.newTenant("mine"), w.newTenant("other")
	for _, tool := range []string{"get_card", "list_agent_intents", "get_checkout_session"} {
		anothers := w.newEstate(other).argumentsOf(tool)
		_, fault := w.called(mine.all, tool, anothers)
		require.Equal(t, &mcp.Error{Code: mcp.ToolFailed, Message: "not_found",
			Data: json.RawMessage(`{"error":"not_found",` +
				`"message":"no such record in this workspace"}`)}, fault)
		name, _, _ := strings.Cut(anothers, ":")
		for _, id := range []string{"x", "card_" + strings.Repeat("z", 26), "../cards", "a/b", "%2e",
			"ws_" + strings.Repeat("0", 26)} {
			_, unknown := w.called(mine.all, tool, fmt.Sprintf(`%s:%q}`, name, id))
			require.Equal(t, fault, unknown, id)
		}
	}
}

// A refused caller gets the common status and an error of JSON-RPC.
func TestRPCRefusesCallersWithoutAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	for _, who := range []as{{}, key("apk_nonsense"), key(tn.secret[:len(tn.secret)-4] + "zzzz"), session(tn.cookie)} {
		status, answered := w.rpc(who, ping)
		require.Equal(t, 401, status)
		require.JSONEq(t, `{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"unauthorized",
			"data":{"error":"unauthorized","message":"a valid API key is required"}}}`, answered)
		_, answered = w.rpc(who, "{")
		require.Contains(t, answered, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001`)
	}
	for _, method := range []string{"GET", "DELETE", "PUT"} {
		r := w.do(tn.all, method, "/api/mcp", "")
		w.fails(r, 405, "method_not_allowed")
		require.Equal(t, "POST", r.header("Allow"))
	}
	w.fails(w.do(tn.all.with("Content-Type", "text/plain"), "POST", "/api/mcp", ping), 415, "unsupported_media_type")
	for accept, status := range map[string]int{"application/json": 200, "application/json, text/event-stream": 200,
		"*/*":               200,
		"text/event-stream": 406, "application/json;q=0": 406, "application/json; q=0.0, text/html": 406,
		"application/*;q=0.5": 200, "Application/JSON;q=0.01": 200, "text/html,*/*;q=0.8": 200, " ": 200} {
		got, answered := w.rpc(tn.all.with("Accept", accept), ping)
		require.Equal(t, status, got, "%q: %s", accept, answered)
	}
}

// A key's permissions are checked for every message: a revoked key stops. Live mode restricts a
// tool as it restricts its route, and a route that only reads is not restricted.
func TestToolsFollowTheKeyAndTheMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	made := w.ok(w.post(session(tn.cookie), "/api/auth/keys", `{"label":"k","scopes":["read:cards"]}`))
	who := key(made.text("secret"))
	w.askWorkspace(tn, workspace.SetMode{Mode: workspace.Live})
	require.NotEmpty(t, w.listed(who))
	text, fault := w.called(who, "list_cards", `{}`)
	require.Nil(t, fault)
	require.Equal(t, w.ok(w.get(who, "/api/cards")).raw, text)
	w.ok(w.do(tn.all, "DELETE", "/api/auth/keys?id="+made.text("apiKey", "id"), ""))
	status, answered := w.rpc(who, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	require.Equal(t, 401, status, answered)
}

// Notifications get an empty 202.
func TestNotificationsAreAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	const note = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	for _, body := range []string{note, "[" + note + "," + note + "]",
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"get_treasury"}}`} {
		status, answered := w.rpc(tn.all, body)
		require.Equal(t, 202, status)
		require.Empty(t, answered)
	}
}

// Each call of a batch counts like a request.
func TestBatchesCountAgainstTheLimits(t *testing.T) {
	t.Parallel()
	const perKey = 10
	w := newWorld(t, func(c *Config) {
		c.RateLimits = RateLimits{PerKey: perKey, PerWorkspace: 1000,
			PerAddress: 1000}
	})
	tn := w.newTenant("ada")
	who := w.keyOf(tn, "read:treasury")
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_treasury"}}`
	status, answered := w.rpc(who, "["+strings.Repeat(call+",", perKey+4)+call+"]")
	require.Equal(t, 200, status)
	require.Equal(t, perKey, strings.Count(answered, `"result":`), answered)
	require.Equal(t, 5, strings.Count(answered, `"error":{"code":-32010,"message":"rate_limited"`), answered)
	r := w.do(who, "POST", "/api/mcp", call)
	w.fails(r, 429, "rate_limited")
	require.NotEmpty(t, r.header("Retry-After"))
}

// through returns a transport of the official SDK that sends a caller's headers to the world.
// mangle may change a body.
func (w *world) through(who as, mangle func(body string) string) *sdk.StreamableClientTransport {
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return w.listen.Dial() }}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &sdk.StreamableClientTransport{Endpoint: "http://purser.test/api/mcp", MaxRetries: -1,
		HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			for name, value := range who {
				r.Header.Set(name, value)
			}
			if r.Body != nil && mangle != nil {
				sent, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				text := mangle(string(sent))
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader([]byte(text))), int64(len(text))
			}
			return transport.RoundTrip(r)
		})}}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *world) connect(who as, mangle func(body string) string) (*sdk.ClientSession, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	return client.Connect(w.t.Context(), w.through(who, mangle), nil)
}

// The official client connects in the newest revision, lists tools and calls one.
func TestTheOfficialClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	card := w.mint(tn, "").text("card", "id")
	c, err := w.connect(tn.all, nil)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, mcp.V2026, c.InitializeResult().ProtocolVersion)
	require.Equal(t, "purser", c.InitializeResult().ServerInfo.Name)
	require.Equal(t, w.ok(w.get(nil, "/api/v1/openapi.json")).text("info", "version"),
		c.InitializeResult().ServerInfo.Version)
	names := []string{}
	for tool, err := range c.Tools(t.Context(), nil) {
		require.NoError(t, err)
		require.NotEmpty(t, tool.Title)
		require.NotEmpty(t, tool.Description)
		require.True(t, tool.Annotations.ReadOnlyHint)
		names = append(names, tool.Name)
	}
	require.Equal(t, w.listed(tn.all), names)
	result, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_card",
		Arguments: map[string]any{"cardId": card}})
	require.NoError(t, err)
	require.False(t, result.IsError)
	text, ok := result.Content[0].(*sdk.TextContent)
	require.True(t, ok)
	require.Equal(t, w.ok(w.get(tn.all, "/api/cards/"+card)).raw, text.Text)
	structured, err := json.Marshal(result.StructuredContent)
	require.NoError(t, err)
	require.JSONEq(t, text.Text, string(structured))
}

// The official client receives every error code, and a refusal of a tool as a result.
func TestTheOfficialClientSeesEachCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	whole, err := w.connect(tn.all, nil)
	require.NoError(t, err)
	defer whole.Close()
	f := func(c *sdk.ClientSession, code int64, tool string, arguments map[string]any) {
		t.Helper()
		_, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
		e, isRPC := errors.AsType[*jsonrpc.Error](err)
		require.True(t, isRPC, "%v", err)
		require.Equal(t, code, e.Code, "%v", err)
	}
	f(whole, mcp.InvalidParams, "list_nothing", nil)
	for tool, arguments := range map[string]map[string]any{"get_card": {"cardId": "card_unknown"},
		"list_agent_intents": {}, "list_cards": {"limit": 101}} {
		result, err := whole.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
		require.NoError(t, err)
		require.True(t, result.IsError, tool)
	}
	_, err = whole.ListPrompts(t.Context(), nil)
	e, isRPC := errors.AsType[*jsonrpc.Error](err)
	require.True(t, isRPC, "%v", err)
	require.EqualValues(t, mcp.MethodNotFound, e.Code)

	narrow, err := w.connect(w.keyOf(tn, "read:cards"), nil)
	require.NoError(t, err)
	defer narrow.Close()
	f(narrow, mcp.Unauthorized, "get_treasury", nil)

	w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
		if _, reads := e.Command.(decision.Read); reads {
			return nil, errBroken
		}
		return w.system.Ask(ctx, e)
	})
	f(whole, mcp.InternalError, "get_treasury", nil)
	w.actors.hook(nil)

	_, err = w.connect(key("apk_nonsense"), nil)
	e, isRPC = errors.AsType[*jsonrpc.Error](err)
	require.True(t, isRPC, "%v", err)
	require.EqualValues(t, mcp.Unauthorized, e.Code)
	spoilt := false
	c, err := w.connect(tn.all, func(body string) string {
		if spoilt {
			return strings.Replace(body, `"2.0"`, `"1.0"`, 1)
		}
		return body
	})
	require.NoError(t, err)
	spoilt = true
	f(c, mcp.InvalidRequest, "get_treasury", nil)
	require.NoError(t, c.Close())
	status, answered := w.rpc(tn.all, `{"jsonrpc":"2.0","id":1`) // which no client sends
	require.Equal(t, 400, status)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the body is not valid JSON"}}`,
		answered)
}

// An internal error is logged under the request's id, and the answer does not contain its text.
func TestInternalErrorOfAToolIsLoggedUnderItsRequestID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tn := w.newTenant("ada")
	w.actors.hook(func(ctx context.Context, e actors.Envelope) (any, error) {
		if _, reads := e.Command.(decision.Read); reads {
			return nil, errBroken
		}
		return w.system.Ask(ctx, e)
	})
	_, fault := w.called(tn.all.with(requestIDHeader, "find-me"), "get_treasury", `{}`)
	require.Equal(t, mcp.InternalError, fault.Code)
	require.JSONEq(t, `{"error":"internal","message":"quote this when asking for help: find-me"}`, string(fault.Data))
}

// FuzzRPC posts fuzzed bodies. No answer is 500, and every answer is a response or an array of
// responses.
func FuzzRPC(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `[]`,
		`{"jsonrpc":"2.0","id":null,"method":"tools/list","params":{}}`,
		`[{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"get_card","arguments":{"cardId":"x"}}},1]`,
		`{"jsonrpc":"2.0","id":1e400,"method":"tools/call","params":{"name":"list_cards","arguments":{"limit":1,"cursor":"AAAA"}}}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}`, "{\"\xff\":1}", `{"id":{},"id":1}`} {
		f.Add(seed)
	}
	w := newFuzzWorld(f)
	defer w.close()
	who := w.names.Replace("{key}")
	f.Fuzz(func(t *testing.T, body string) {
		head := fmt.Sprintf("POST /api/mcp HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", who,
			len(body))
		got := answersTo(t, w.server, []byte(head+body))
		require.Len(t, got, 1)
		require.Contains(t, []int{200, 202, 400}, got[0].StatusCode(), "%q: %s", body, got[0].Body())
		require.Equal(t, got[0].StatusCode() == 202, len(got[0].Body()) == 0)
		require.NotContains(t, string(got[0].Body()), fmt.Sprint(`"code":`, mcp.InternalError), body)
	})
}
