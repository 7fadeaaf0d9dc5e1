// Package mcp is the server's side of the Model Context Protocol over HTTP: it takes the body and
// the protocol's header fields of a POST, and returns the body and the status of the answer. It
// reads JSON-RPC 2.0, implements the methods of three revisions of the protocol, and checks the
// arguments of a tool before the call. The Host implements the tools and authorizes their callers.
//
// Bodies are read strictly. Invalid JSON, a duplicate name and invalid UTF-8 included, is a
// ParseError. JSON that is not a request is an InvalidRequest, and a parameter or argument of
// another form is InvalidParams. An id is echoed byte for byte.
//
// The package is independent of HTTP and the clock, and has no sessions and no goroutines. A server
// is immutable and each message is independent of the others, so initialize may be left out.
package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxBatch bounds the messages of a batch; a longer one is refused whole.
const MaxBatch = 32

// Codes of errors.
const (
	ParseError     = -32700 // not JSON
	InvalidRequest = -32600 // JSON, but not a request
	MethodNotFound = -32601 // no such method, or no such tool
	InvalidParams  = -32602
	InternalError  = -32603
	Unauthorized   = -32001 // key missing, invalid, or without the scope
	ToolFailed     = -32010 // the called tool answered with a refusal
	HeaderMismatch = -32020 // a header field is not that of the body
	BadRevision    = -32022 // no such revision
)

// Error is an error of JSON-RPC. Data is JSON, or nil.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// text returns what a model is told of an error.
func (e *Error) text() string {
	if e.Data != nil {
		return string(e.Data)
	}
	return e.Message
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Host implements the tools for one caller. Both methods are called with the name of a tool of New.
// An error that is not an *Error answers InternalError without its text.
type Host interface {
	// May returns nil when the caller may call a tool, or else the refusal of a call.
	May(tool string) error
	// Call returns a tool's answer as JSON. The arguments have been checked. Integers are in
	// decimal, and arguments that were not given are missing.
	Call(tool string, arguments map[string]string) (json.RawMessage, error)
}

// Server answers messages. Make it with New; it is immutable and safe for concurrent use.
type Server struct {
	info  object // name and version
	tools map[string]*offered
	order []*offered
}

// object is a result, or a part of one.
type object = map[string]any

// offered is a tool with its entry in tools/list: that of V2024, and that of later revisions.
type offered struct {
	Tool
	brief, full json.RawMessage
}

// entry is a tool in tools/list.
type entry struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"`
	InputSchema  object          `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  object          `json:"annotations,omitempty"`
}

// New makes a server with a name and a version for initialize, and with tools in the order of
// tools/list. It panics for two tools of one name.
func New(name, version string, tools []Tool) *Server {
	s := &Server{info: object{"name": name, "version": version}, tools: map[string]*offered{}}
	for _, tool := range tools {
		if s.tools[tool.Name] != nil {
			panic("BUG: two tools are called " + tool.Name)
		}
		entry := entry{Name: tool.Name, Description: tool.Description, InputSchema: tool.Schema()}
		one := &offered{Tool: tool, brief: mustJSON(entry)}
		entry.Title, entry.OutputSchema, entry.Annotations = tool.Title, tool.Answer, object{"readOnlyHint": true}
		one.full = mustJSON(entry)
		s.tools[tool.Name], s.order = one, append(s.order, one)
	}
	return s
}

func mustJSON(document any) json.RawMessage {
	text, err := json.Marshal(document)
	if err != nil {
		panic("BUG: a document of ours that is no JSON: " + err.Error())
	}
	return text
}

// Answer answers a body with a reply and a status of HTTP: 202 without a reply when the body has
// notifications only, 400 when no part of the body was a message. The reply shares no memory with
// the body. It never fails: an error of a message is in the reply.
func (s *Server) Answer(head Head, body []byte, h Host) (reply []byte, status int) {
	switch text := jsontext.Value(body); {
	case !text.IsValid():
		return renderError(nil, &Error{Code: ParseError, Message: "the body is not valid JSON"}), statusBadRequest
	case text.Kind() == '[' && (head.Version == "" || head.Version == V2024):
		return s.answerBatch(head, text, h)
	default:
		return s.answerOne(head, text, h)
	}
}

// answerBatch answers the messages of an array in their order. An empty batch, or one of more than
// MaxBatch messages, is refused as a whole.
func (s *Server) answerBatch(head Head, text jsontext.Value, h Host) (reply []byte, status int) {
	var batch []jsontext.Value
	if err := jsonv2.Unmarshal(text, &batch); err != nil || len(batch) == 0 || len(batch) > MaxBatch {
		return renderError(nil, &Error{Code: InvalidRequest,
			Message: fmt.Sprintf("a batch has 1 to %d messages", MaxBatch)}), statusBadRequest
	}
	var replies [][]byte
	for _, message := range batch {
		if one, _ := s.answerOne(head, message, h); one != nil {
			replies = append(replies, one)
		}
	}
	if replies == nil {
		return nil, statusAccepted
	}
	return slices.Concat([]byte("["), bytes.Join(replies, []byte(",")), []byte("]")), statusOK
}

// answerOne answers a message, or refuses a text that is not a message of the head's revision.
func (s *Server) answerOne(head Head, text jsontext.Value, h Host) (reply []byte, status int) {
	r, fault := readRequest(text)
	if fault == nil {
		fault = head.check(r)
	}
	if fault != nil {
		return renderError(r.ID, fault), statusBadRequest
	}
	if r.ID == nil {
		// A notification changes nothing here, so it needs no action.
		return nil, statusAccepted
	}
	result, err := s.runMethod(head.Version, r, h)
	if err != nil {
		e := asError(err)
		return renderError(r.ID, e), statusOf(head.Version, e)
	}
	if head.Version == V2026 {
		result["resultType"], result["_meta"] = "complete", object{metaServer: s.info}
	}
	return renderResponse(r.ID, "result", mustJSON(result)), statusOK
}

// asError returns the error that the caller may see.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: InternalError, Message: "internal error"}
}

// renderResponse renders a response; a nil id is null.
func renderResponse(id jsontext.Value, member string, value json.RawMessage) []byte {
	if id == nil {
		id = jsontext.Value("null")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%q:%s}`, id, member, value)
}

func renderError(id jsontext.Value, e *Error) []byte { return renderResponse(id, "error", mustJSON(e)) }

// Refusal renders the refusal of a body whatever its content, with the id of its message if it has
// one.
func Refusal(body []byte, e *Error) []byte {
	if text := jsontext.Value(body); text.IsValid() {
		r, _ := readRequest(text)
		return renderError(r.ID, e)
	}
	return renderError(nil, e)
}

// runMethod runs one method of a revision. An unknown method is MethodNotFound; other errors are
// those of the method.
func (s *Server) runMethod(revision string, r request, h Host) (object, error) {
	stateless := revision == V2026
	switch method := r.method; {
	case method == "tools/list":
		return s.listTools(revision, r.Params, h)
	case method == "tools/call":
		return s.callTool(revision, r.Params, h)
	case method == "server/discover" && stateless:
		return object{"supportedVersions": revisions, "capabilities": capabilities,
			"ttlMs": cacheMillis, "cacheScope": "private"}, nil
	case method == "initialize" && !stateless:
		return s.initialize(r.Params)
	case (method == "ping" || method == "notifications/initialized") && !stateless:
		return object{}, nil
	}
	return nil, &Error{Code: MethodNotFound, Message: "method not found"}
}

// capabilities are those of the server: tools that do not change.
var capabilities = object{"tools": struct{}{}}

// initialize answers the revision of the session: V2025 to a client that asks for it, or else
// V2024. Malformed parameters are an error.
func (s *Server) initialize(params jsontext.Value) (object, error) {
	var asked struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	revision := V2024
	if err := readParams(params, &asked); err != nil {
		return nil, err
	}
	if asked.ProtocolVersion == V2025 {
		revision = V2025
	}
	return object{"protocolVersion": revision, "capabilities": capabilities, "serverInfo": s.info}, nil
}

// listTools lists the tools that the caller may call, on one page. It fails with InvalidParams for
// parameters of a wrong type and for any cursor.
func (s *Server) listTools(revision string, params jsontext.Value, h Host) (object, error) {
	var asked struct {
		Cursor *string `json:"cursor"`
	}
	if err := readParams(params, &asked); err != nil {
		return nil, err
	}
	if asked.Cursor != nil {
		return nil, invalidParams("cursor is not of this list, which has one page")
	}
	tools := []json.RawMessage{}
	for _, tool := range s.order {
		switch {
		case h.May(tool.Name) != nil:
		case revision >= V2025:
			tools = append(tools, tool.full)
		default:
			tools = append(tools, tool.brief)
		}
	}
	result := object{"tools": tools}
	if revision == V2026 {
		result["ttlMs"], result["cacheScope"] = cacheMillis, "private"
	}
	return result, nil
}

// callTool calls a tool and returns its answer. It fails with InvalidParams, and with
// MethodNotFound for an unknown tool. A refusal of the call is an error in V2024, and a result with
// isError in later revisions, unless it is Unauthorized or an InternalError.
func (s *Server) callTool(revision string, params jsontext.Value, h Host) (object, error) {
	var asked struct {
		Name      *string        `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := readParams(params, &asked); err != nil {
		return nil, err
	}
	if asked.Name == nil {
		return nil, invalidParams("name is required")
	}
	tool, isKnown := s.tools[*asked.Name]
	switch {
	case !isKnown && revision >= V2025:
		return nil, invalidParams("tool not found")
	case !isKnown:
		return nil, &Error{Code: MethodNotFound, Message: "tool not found"}
	}
	answer, err := tool.call(asked.Arguments, h)
	if e, ok := errors.AsType[*Error](err); ok && revision >= V2025 && (e.Code == InvalidParams || e.Code == ToolFailed) {
		return object{"content": content(e.text()), "isError": true}, nil
	}
	result := object{"content": content(string(answer))}
	if revision >= V2025 {
		result["structuredContent"] = answer
	}
	return result, err
}

// call checks the caller and the arguments and calls the tool. It fails with InvalidParams, and
// with the errors of the host's May and Call.
func (t *offered) call(arguments jsontext.Value, h Host) (json.RawMessage, error) {
	if err := h.May(t.Name); err != nil {
		return nil, err
	}
	read, err := t.readArguments(arguments)
	if err != nil {
		return nil, err
	}
	return h.Call(t.Name, read)
}

func content(text string) []object { return []object{{"type": "text", "text": text}} }
