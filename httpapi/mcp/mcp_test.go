package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	limit  = Argument{Name: "limit", Description: "Entries of a page", Min: 1, Max: 100, Example: int64(50)}
	cardID = Argument{Name: "cardId", Description: "The card's id", Required: true, MaxLength: 8, Example: "card_1"}
)

// kiosk is a host with four tools, whose caller may not open the vault.
type kiosk struct{ calls int }

func newKiosk() *Server {
	return New("kiosk", "1", []Tool{{Name: "get_card", Description: "One card", Arguments: []Argument{cardID, limit}},
		{Name: "open_vault", Description: "Not for you"}, {Name: "refuse", Description: "Always refuses"},
		{Name: "break", Description: "Breaks"}})
}

func (k *kiosk) May(tool string) error {
	if tool == "open_vault" {
		return &Error{Code: Unauthorized, Message: "missing_scope:read:vault"}
	}
	return nil
}

func (k *kiosk) Call(tool string, arguments map[string]string) (json.RawMessage, error) {
	k.calls++
	switch tool {
	case "refuse":
		return nil, fmt.Errorf("behind a wrapper: %w", &Error{Code: ToolFailed, Message: "not_found",
			Data: json.RawMessage(`{"error":"not_found"}`)})
	case "break":
		return nil, errors.New("a secret path is on fire")
	}
	return json.Marshal(map[string]any{tool: arguments})
}

// The scenarios are bodies with their answers: of V2024, or with the header fields of the command.
// A status that is not 200 precedes the reply, "(refused)" for 400.
func TestConversations(t *testing.T) {
	server := newKiosk()
	datadriven.RunTest(t, "testdata/conversations.txt", func(t *testing.T, d *datadriven.TestData) string {
		host, head := &kiosk{}, Head{}
		d.MaybeScanArgs(t, "version", &head.Version)
		d.MaybeScanArgs(t, "method", &head.Method)
		d.MaybeScanArgs(t, "name", &head.Name)
		reply, status := server.Answer(head, []byte(strings.ReplaceAll(d.Input, `\xff`, "\xff")), host)
		require.True(t, reply == nil || json.Valid(reply), "%s", reply)
		switch text := string(reply); status {
		case 200:
			return text
		case 202:
			require.Zero(t, host.calls)
			require.Nil(t, reply)
			return "(nothing)"
		case 400:
			return "(refused) " + text
		default:
			return fmt.Sprintf("(%d) %s", status, text)
		}
	})
}

// A batch is bounded: at the limit it is answered whole, and one message more refuses all of it.
func TestBatchesAreBounded(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_card","arguments":{"cardId":"x"}}}`
	host := &kiosk{}
	reply, status := newKiosk().Answer(Head{}, []byte("["+strings.Repeat(call+",", MaxBatch-1)+call+"]"), host)
	require.Equal(t, 200, status)
	require.Equal(t, MaxBatch, host.calls)
	require.Equal(t, MaxBatch, bytes.Count(reply, []byte(`"result"`)))
	reply, status = newKiosk().Answer(Head{}, []byte("["+strings.Repeat(call+",", MaxBatch)+call+"]"), host)
	require.Equal(t, 400, status)
	require.Equal(t, MaxBatch, host.calls)
	require.Equal(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a batch has 1 to 32 messages"}}`,
		string(reply))
}

// An id is echoed byte for byte, in every notation.
func TestIDsAreEchoed(t *testing.T) {
	for _, id := range []string{`0`, `-0`, `1.0`, `1e3`, `12345678901234567890123`, `"a"`, `""`, `"\u00e9<&\/"`, `null`,
		`"7"`} {
		reply, _ := newKiosk().Answer(Head{}, []byte(`{"jsonrpc":"2.0","id": `+id+` ,"method":"ping"}`), &kiosk{})
		require.Equal(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`, string(reply))
		require.Equal(t, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32001,"message":"no"}}`,
			string(Refusal([]byte(`{"jsonrpc":"2.0","method":"ping","id":`+id+`}`),
				&Error{Code: Unauthorized, Message: "no"})))
	}
}

func compiled(t testing.TB, tool *Tool) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(tool.Schema())
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7) // the schema version of protocol 2024-11-05
	require.NoError(t, compiler.AddResource("urn:tool", document))
	schema, err := compiler.Compile("urn:tool")
	require.NoError(t, err)
	return schema
}

// The check of arguments accepts exactly the values that an independent library accepts by the
// schema, when an optional null is left out.
func TestTheSchemaIsTheCheck(t *testing.T) {
	tool := &Tool{Name: "get_card", Arguments: []Argument{cardID, limit}}
	schema := compiled(t, tool)
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		given := map[string]any{}
		for _, name := range []string{"cardId", "limit", "Limit"} {
			fits := map[string]*rapid.Generator[any]{"cardId": rapid.StringN(0, 10, -1).AsAny(),
				"limit": rapid.Int64Range(-1, 102).AsAny()}[name]
			if drawn := rapid.IntRange(0, 9).Draw(t, name+" is"); drawn < 6 && fits != nil {
				given[name] = fits.Draw(t, name)
			} else if drawn == 9 {
				given[name] = rapid.SampledFrom([]any{nil, true, []any{}, 1.5, int64(5), "x"}).Draw(t, name)
			}
		}
		text, err := json.Marshal(given)
		require.NoError(t, err)
		if limit, isGiven := given["limit"]; isGiven && limit == nil {
			delete(given, "limit")
		}
		without, err := json.Marshal(given)
		require.NoError(t, err)
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(without))
		require.NoError(t, err)
		read, refused := tool.readArguments(text)
		if strings.Contains(string(text), `\u0000`) {
			return // a schema cannot express this rule
		}
		require.Equal(t, schema.Validate(document) == nil, refused == nil, "%s: %v", text, refused)
		if refused != nil {
			return
		}
		taken++
		require.Len(t, read, len(given))
		for name, value := range given {
			require.Equal(t, fmt.Sprint(value), read[name])
		}
	})
	require.NotZero(t, taken)
}

// FuzzAnswer answers fuzzed bodies, in each revision. The reply is nil, a response, or an array of
// responses with one for each message with an id.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `[1,{"jsonrpc":"2.0","method":"x"}]`,
		`{"id":{}}`,
		"{\"\xff\":1}", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_card","arguments":{"cardId":"x","limit":1e2}}}`} {
		f.Add("", "", "", []byte(seed))
	}
	f.Add(V2026, "tools/call", "get_card", []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":`+
		`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`+
		`"name":"get_card","arguments":{"cardId":"x"}}}`))
	f.Add(V2025, "", "", []byte(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`))
	server := newKiosk()
	f.Fuzz(func(t *testing.T, version, method, name string, body []byte) {
		reply, status := server.Answer(Head{version, method, name}, body, &kiosk{})
		require.Contains(t, []int{200, 202, 400, 404}, status)
		require.Equal(t, status == 202, reply == nil)
		if reply == nil {
			return
		}
		responses := []response{{}}
		if reply[0] == '[' {
			require.NoError(t, json.Unmarshal(reply, &responses))
		} else {
			require.NoError(t, json.Unmarshal(reply, &responses[0]), "%s", reply)
		}
		require.NotEmpty(t, responses)
		require.LessOrEqual(t, len(responses), MaxBatch)
		for _, r := range responses {
			require.Equal(t, "2.0", r.JSONRPC)
			require.NotEmpty(t, r.ID)
			require.NotEqual(t, r.Result == nil, r.Error == nil, "%s", reply)
		}
		if status != 200 {
			require.NotNil(t, responses[0].Error)
		}
	})
}

type response struct {
	JSONRPC string
	ID      json.RawMessage
	Result  json.RawMessage
	Error   *Error
}

func BenchmarkAnswer(b *testing.B) {
	server, host := newKiosk(), &kiosk{}
	for i := 0; b.Loop(); i++ {
		server.Answer(Head{}, []byte(`{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+`,"method":"tools/call","params":{"name":"get_card","arguments":{"cardId":"x"}}}`), host)
	}
}
