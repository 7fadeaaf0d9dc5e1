package openapi

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a document that is read strictly.
const (
	maxDepth = 32      // nested objects and arrays
	maxFloat = 1 << 53 // size of a number with a fraction or an exponent: it never becomes money
)

// Fault says what is wrong with a body. Field is a path such as "shipping.line1" or "allowedMccs[3]", "" for the whole
// body. Neither part ever holds a value of the body.
type Fault struct{ Field, Problem string }

func (f *Fault) Error() string {
	if f.Field == "" {
		return "the body " + f.Problem
	}
	return f.Field + " " + f.Problem
}

// parse reads one JSON value strictly: no duplicate names, no invalid UTF-8, no U+0000, no integer that leaves int64,
// nothing after it. Integers become int64, other numbers float64, objects map[string]any, arrays []any.
func parse(raw []byte) (any, error) {
	if len(bytes.TrimLeft(raw, " \t\r\n")) == 0 {
		return nil, &Fault{Problem: "is empty; a JSON object is required"}
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	value, err := parseValue(dec, 0)
	if err != nil {
		return nil, syntaxFault(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &Fault{Problem: "has data after the JSON value"}
	}
	return value, nil
}

func parseValue(dec *jsontext.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, &Fault{Problem: "is nested too deeply"}
	}
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		return parseObject(dec, depth)
	case '[':
		return parseArray(dec, depth)
	case '"':
		return text(dec, token.String())
	case '0':
		return number(dec, token.String())
	case 'n':
		return nil, nil
	default:
		return token.Bool(), nil
	}
}

func parseObject(dec *jsontext.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		if strings.ContainsRune(key, 0) {
			return nil, &Fault{Problem: "holds the character U+0000"}
		}
		if object[key], err = parseValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.ReadToken()
	return object, err
}

func parseArray(dec *jsontext.Decoder, depth int) (any, error) {
	array := []any{}
	for dec.PeekKind() != ']' {
		item, err := parseValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		array = append(array, item)
	}
	_, err := dec.ReadToken()
	return array, err
}

func text(dec *jsontext.Decoder, s string) (any, error) {
	if strings.ContainsRune(s, 0) {
		return nil, &Fault{Field: fieldOf(dec.StackPointer()), Problem: "holds the character U+0000"}
	}
	return s, nil
}

func number(dec *jsontext.Decoder, s string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, &Fault{Field: fieldOf(dec.StackPointer()), Problem: "must fit in 64 bits"}
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.Abs(f) > maxFloat {
		return nil, &Fault{Field: fieldOf(dec.StackPointer()), Problem: "is out of range"}
	}
	return f, nil
}

func syntaxFault(err error) error {
	if _, ok := errors.AsType[*Fault](err); ok {
		return err
	}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return &Fault{Problem: "is not valid JSON"}
	}
	if errors.Is(syntax.Err, jsontext.ErrDuplicateName) {
		return &Fault{Field: fieldOf(syntax.JSONPointer), Problem: "is given twice"}
	}
	return &Fault{Problem: "is not valid JSON"}
}

// fieldOf writes a JSON pointer the way a person names a field.
func fieldOf(pointer jsontext.Pointer) string {
	var path []string
	for part := range pointer.Tokens() {
		path = append(path, part)
	}
	return fieldPath(path)
}

func fieldPath(path []string) string {
	var b strings.Builder
	for _, part := range path {
		if isIndex(part) {
			b.WriteString("[" + part + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(printable(part))
	}
	return b.String()
}

func isIndex(part string) bool {
	return part != "" && strings.Trim(part, "0123456789") == "" && len(part) < 8
}

// maxName bounds the name of a field that is repeated in a message.
const maxName = 40

// printable hides a name the caller chose when it is not shaped like a field: it may be an id or a secret.
func printable(name string) string {
	if name == "" || len(name) > maxName {
		return "(field)"
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' {
			return "(field)"
		}
	}
	return name
}
