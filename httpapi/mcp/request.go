package mcp

import (
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// request is a message with a method. ID has its original notation, and is nil for a notification.
type request struct {
	JSONRPC jsontext.Value `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  jsontext.Value `json:"method"`
	Params  jsontext.Value `json:"params"`

	method string
}

// readRequest reads one message. It fails with InvalidRequest for text that is not a message of
// JSON-RPC 2.0, and then returns the id, if the text has one.
func readRequest(text jsontext.Value) (request, *Error) {
	var r request
	invalid := func(message string) (request, *Error) {
		return request{ID: r.ID}, &Error{Code: InvalidRequest, Message: message}
	}
	if text.Kind() != '{' || jsonv2.Unmarshal(text, &r) != nil {
		return invalid("a message is an object")
	}
	if !usableID(r.ID) {
		r.ID = nil
		return invalid("id must be a string, a number or null")
	}
	var version string
	if r.JSONRPC.Kind() != '"' || jsonv2.Unmarshal(r.JSONRPC, &version) != nil || version != "2.0" {
		return invalid(`jsonrpc must be "2.0"`)
	}
	if r.Method.Kind() != '"' || jsonv2.Unmarshal(r.Method, &r.method) != nil {
		return invalid("method must be a string")
	}
	switch r.Params.Kind() {
	case 0, 'n', '{', '[':
		return r, nil
	}
	return invalid("params must be an object")
}

// usableID reports whether an id can be echoed: a number must be one that every reader of JSON can
// hold.
func usableID(id jsontext.Value) bool {
	switch id.Kind() {
	case 0, '"', 'n':
		return true
	case '0':
		_, err := strconv.ParseFloat(string(id), 64)
		return err == nil
	}
	return false
}

func invalidParams(message string) *Error { return &Error{Code: InvalidParams, Message: message} }

// readParams reads the known members and ignores others, such as _meta. It fails with InvalidParams
// for parameters of a wrong type.
func readParams(params jsontext.Value, into any) error {
	switch params.Kind() {
	case 0, 'n':
		return nil
	case '{':
		if jsonv2.Unmarshal(params, into) == nil {
			return nil
		}
		return invalidParams("a parameter is not of the right type")
	}
	return invalidParams("params must be an object")
}
