// Package mcp is the server's side of the Model Context Protocol, version 2024-11-05, over HTTP: it
// takes the body of a POST and returns the body of the answer. It reads JSON-RPC 2.0, alone or in a
// batch, implements the methods (initialize, ping, tools/list, tools/call and notifications) and
// checks the arguments of a tool before the call. The Host implements the tools and authorizes
// their callers.
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

// Version is the protocol version that initialize answers to every client. A client that does not
// support it disconnects.
const Version = "2024-11-05"

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
)

// Error is an error of JSON-RPC. Data is JSON, or nil.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
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
	initialized json.RawMessage // the result of initialize
	tools       map[string]*offered
	order       []*offered
}

// offered is a tool with its entry in tools/list.
type offered struct {
	Tool
	shown json.RawMessage
}

// New makes a server with a name and a version for initialize, and with tools in the order of
// tools/list. It panics for two tools of one name. The REST server calls it at the start.
func New(name, version string, tools []Tool) *Server {
	s := &Server{tools: map[string]*offered{}}
	s.initialized = mustJSON(map[string]any{"protocolVersion": Version,
		"capabilities": map[string]any{"tools": struct{}{}},
		"serverInfo":   map[string]string{"name": name, "version": version}})
	for _, tool := range tools {
		if s.tools[tool.Name] != nil {
			panic("BUG: two tools are called " + tool.Name)
		}
		one := &offered{Tool: tool, shown: mustJSON(struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			InputSchema any    `json:"inputSchema"`
		}{tool.Name, tool.Description, tool.Schema()})}
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

// Answer answers a body. The reply is nil when the body has notifications only. refused reports
// that no part of the body was a message; the reply is then one error. The reply shares no memory
// with the body. It never fails: an error of a message is in the reply. The route POST /api/mcp
// calls it.
func (s *Server) Answer(body []byte, h Host) (reply []byte, refused bool) {
	switch text := jsontext.Value(body); {
	case !text.IsValid():
		return renderError(nil, &Error{Code: ParseError, Message: "the body is not valid JSON"}), true
	case text.Kind() == '[':
		return s.answerBatch(text, h)
	default:
		return s.answerOne(text, h)
	}
}

// answerBatch answers the messages of an array in their order. An empty batch, or one of more than
// MaxBatch messages, is refused as a whole.
func (s *Server) answerBatch(text jsontext.Value, h Host) (reply []byte, refused bool) {
	var batch []jsontext.Value
	if err := jsonv2.Unmarshal(text, &batch); err != nil || len(batch) == 0 || len(batch) > MaxBatch {
		return renderError(nil, &Error{Code: InvalidRequest,
			Message: fmt.Sprintf("a batch has 1 to %d messages", MaxBatch)}), true
	}
	var replies [][]byte
	for _, message := range batch {
		if one, _ := s.answerOne(message, h); one != nil {
			replies = append(replies, one)
		}
	}
	if replies == nil {
		return nil, false
	}
	return slices.Concat([]byte("["), bytes.Join(replies, []byte(",")), []byte("]")), false
}

// answerOne answers a message; refused reports that the text was not a message.
func (s *Server) answerOne(text jsontext.Value, h Host) (reply []byte, refused bool) {
	r, fault := readRequest(text)
	if fault != nil {
		return renderError(r.ID, fault), true
	}
	if r.ID == nil {
		// A notification changes nothing here, so it needs no action.
		return nil, false
	}
	result, err := s.runMethod(r, h)
	if err != nil {
		return renderError(r.ID, asError(err)), false
	}
	return renderResponse(r.ID, "result", result), false
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

// runMethod runs one method of the protocol. An unknown method is MethodNotFound; other errors are
// those of the method.
func (s *Server) runMethod(r request, h Host) (json.RawMessage, error) {
	switch r.method {
	case "initialize":
		return s.initialize(r.Params)
	case "ping", "notifications/initialized":
		return json.RawMessage("{}"), nil
	case "tools/list":
		return s.listTools(r.Params, h)
	case "tools/call":
		return s.callTool(r.Params, h)
	}
	return nil, &Error{Code: MethodNotFound, Message: "method not found"}
}

// initialize answers the MCP method "initialize" with the supported version and the capability of
// tools. Malformed parameters are an error.
func (s *Server) initialize(params jsontext.Value) (json.RawMessage, error) {
	var asked struct {
		ProtocolVersion *string `json:"protocolVersion"`
	}
	return s.initialized, readParams(params, &asked)
}

// listTools lists the tools that the caller may call, on one page. It fails with InvalidParams for
// parameters of a wrong type and for any cursor.
func (s *Server) listTools(params jsontext.Value, h Host) (json.RawMessage, error) {
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
		if h.May(tool.Name) == nil {
			tools = append(tools, tool.shown)
		}
	}
	return mustJSON(map[string]any{"tools": tools}), nil
}

// callTool calls a tool and returns its answer as text. It fails with InvalidParams, with
// MethodNotFound for an unknown tool, and with the errors of the host's May and Call.
func (s *Server) callTool(params jsontext.Value, h Host) (json.RawMessage, error) {
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
	tool := s.tools[*asked.Name]
	if tool == nil {
		return nil, &Error{Code: MethodNotFound, Message: "tool not found"}
	}
	if err := h.May(tool.Name); err != nil {
		return nil, err
	}
	arguments, err := tool.readArguments(asked.Arguments)
	if err != nil {
		return nil, err
	}
	result, err := h.Call(tool.Name, arguments)
	if err != nil {
		return nil, err
	}
	return mustJSON(map[string]any{"content": []map[string]string{{"type": "text", "text": string(result)}}}), nil
}
