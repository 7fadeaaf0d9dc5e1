package mcp

import (
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Revisions of the protocol. V2024 and V2025 begin with initialize. V2024 has batches, and a
// refused call of a tool is an error of JSON-RPC; from V2025 on it is a result with isError, so
// that the model sees it. V2026 has no initialize: each message repeats its revision in _meta, and
// header fields repeat its method and its tool.
const (
	V2024 = "2024-11-05"
	V2025 = "2025-11-25"
	V2026 = "2026-07-28"
)

var revisions = []string{V2026, V2025, V2024}

// cacheMillis bounds the time for which a client of V2026 may keep a list of tools. The mode of a
// workspace may change what is listed.
const cacheMillis = 60_000

// Statuses of HTTP.
const (
	statusOK         = 200
	statusAccepted   = 202
	statusBadRequest = 400
	statusNotFound   = 404
)

// Members of _meta in V2026.
const (
	metaRevision     = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServer       = "io.modelcontextprotocol/serverInfo"
)

// Head holds the header fields MCP-Protocol-Version, Mcp-Method and Mcp-Name of a request; "" for
// one that is missing. A request without MCP-Protocol-Version is of V2024.
type Head struct{ Version, Method, Name string }

// check refuses a message that is not of the head's revision. It fails with HeaderMismatch for
// fields that differ from the message, with BadRevision unless the message is initialize, which
// negotiates, and with InvalidParams for a call of V2026 without the members of _meta that it
// requires.
func (h Head) check(r request) *Error {
	var params struct {
		Name jsontext.Value            `json:"name"`
		Meta map[string]jsontext.Value `json:"_meta"`
	}
	_ = jsonv2.Unmarshal(r.Params, &params) // parameters of another form have no such members
	isCall, revision, isGiven := r.ID != nil, textOf(params.Meta[metaRevision]), params.Meta[metaRevision] != nil
	switch {
	case h.Version == V2026 && isCall && !isGiven:
		return invalidParams("_meta needs " + metaRevision)
	case isGiven && revision != h.Version:
		return &Error{Code: HeaderMismatch, Message: "MCP-Protocol-Version must be that of _meta"}
	case h.Version != "" && h.Version != V2024 && h.Version != V2025 && h.Version != V2026 && r.method != "initialize":
		return &Error{Code: BadRevision, Message: "the protocol has no such revision here",
			Data: mustJSON(object{"supported": revisions, "requested": h.Version})}
	case h.Version != V2026:
		return nil
	case isCall && params.Meta[metaCapabilities].Kind() != '{':
		return invalidParams("_meta needs " + metaCapabilities)
	case h.Method != r.method:
		return &Error{Code: HeaderMismatch, Message: "Mcp-Method must be the method"}
	case r.method == "tools/call" && h.Name != textOf(params.Name):
		return &Error{Code: HeaderMismatch, Message: "Mcp-Name must be the name of the tool"}
	}
	return nil
}

// textOf returns the text of a string, "" for any other value.
func textOf(value jsontext.Value) (text string) {
	_ = jsonv2.Unmarshal(value, &text) // fails for a value that has no text
	return text
}

// statusOf returns the status of the answer to a message with an error. V2026 prescribes two.
func statusOf(revision string, e *Error) int {
	switch {
	case revision == V2026 && e.Code == MethodNotFound:
		return statusNotFound
	case revision == V2026 && e.Code == InvalidParams:
		return statusBadRequest
	}
	return statusOK
}
