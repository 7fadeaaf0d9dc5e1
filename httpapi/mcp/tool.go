package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Tool is a tool of the server, which only reads. Its schema is made of its arguments, and calls
// are checked against them. Answer is the schema of its answer, an object.
type Tool struct {
	Name, Title, Description string
	Arguments                []Argument
	Answer                   json.RawMessage
}

// Argument is a named argument: a string, or an integer when Max is not 0.
type Argument struct {
	Name, Description string
	Required          bool
	MaxLength         int   // bounds a string, in characters
	Min, Max          int64 // bound an integer
	Example           any   // a valid value: a string or an int64
}

// Schema returns the JSON Schema of the arguments, with an example of each.
func (t *Tool) Schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, a := range t.Arguments {
		p := map[string]any{"description": a.Description, "examples": []any{a.Example}}
		if a.Max != 0 {
			p["type"], p["minimum"], p["maximum"] = "integer", a.Min, a.Max
		} else {
			p["type"], p["minLength"], p["maxLength"] = "string", 1, a.MaxLength
		}
		properties[a.Name] = p
		if a.Required {
			required = append(required, a.Name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required,
		"additionalProperties": false}
}

// readArguments checks the arguments of a call. An optional argument that is null counts as absent.
// It accepts the values that the schema accepts, except integers in another notation (1.0, 1e2) and
// U+0000 in a string. It fails with InvalidParams for a missing, unknown or bad argument.
func (t *Tool) readArguments(arguments jsontext.Value) (map[string]string, error) {
	var given map[string]jsontext.Value
	switch arguments.Kind() {
	case 0, 'n':
	case '{':
		if err := jsonv2.Unmarshal(arguments, &given); err != nil {
			return nil, invalidParams("arguments must be an object")
		}
	default:
		return nil, invalidParams("arguments must be an object")
	}
	read := map[string]string{}
	for _, a := range t.Arguments {
		value, isGiven := given[a.Name]
		delete(given, a.Name)
		switch {
		case !isGiven && a.Required:
			return nil, invalidParams(a.Name + " is required")
		case !isGiven, value.Kind() == 'n' && !a.Required:
			continue
		}
		text, problem := a.readValue(value)
		if problem != "" {
			return nil, invalidParams(a.Name + " " + problem)
		}
		read[a.Name] = text
	}
	if len(given) > 0 {
		return nil, invalidParams("an argument is not known; " + t.argumentNames())
	}
	return read, nil
}

// argumentNames lists the arguments for an error. The given names stay out, because they may be a
// secret.
func (t *Tool) argumentNames() string {
	if len(t.Arguments) == 0 {
		return t.Name + " takes none"
	}
	names := make([]string, len(t.Arguments))
	for i, a := range t.Arguments {
		names[i] = a.Name
	}
	return t.Name + " takes " + strings.Join(slices.Sorted(slices.Values(names)), ", ")
}

// readValue returns a value as text, or its fault.
func (a *Argument) readValue(value jsontext.Value) (text, problem string) {
	if a.Max != 0 {
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < a.Min || n > a.Max {
			return "", fmt.Sprintf("must be an integer from %d to %d", a.Min, a.Max)
		}
		return strconv.FormatInt(n, 10), ""
	}
	if value.Kind() != '"' || jsonv2.Unmarshal(value, &text) != nil || text == "" ||
		utf8.RuneCountInString(text) > a.MaxLength ||
		strings.ContainsRune(text, 0) {
		return "", fmt.Sprintf("must be a string of 1 to %d characters", a.MaxLength)
	}
	return text, ""
}
