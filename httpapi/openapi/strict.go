package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a strictly parsed document.
const (
	maxDepth = 32 // nested objects and arrays
	// Limits of a number with a fraction or an exponent, which no amount has. The schema compares
	// it as an exact fraction, whose size grows with the exponent.
	maxFloat      = 1 << 53
	maxFloatChars = 64
	maxExponent   = 99
)

// Fault is the fault of one field of a body. Field is a path such as "shipping.line1" or
// "allowedMccs[3]", or "" for the whole body. Neither part ever contains a value of the body.
type Fault struct {
	Field, Problem string
	OverLimit      bool // the field is an array over a limit of the interface; the rest of the body is valid

	tooMany bool // the array has too many items
}

func (f *Fault) Error() string {
	if f.Field == "" {
		return "the body " + f.Problem
	}
	return f.Field + " " + f.Problem
}

// parseStrict parses one JSON value strictly: no duplicate names, no invalid UTF-8, no U+0000, no
// integer beyond int64, and nothing behind it. Integers become int64, other numbers json.Number in
// their notation, objects map[string]any, arrays []any. In a free-form object all
// numbers are json.Number, of any size. A refusal is a *Fault.
func parseStrict(raw []byte, s *shape) (any, error) {
	if len(bytes.TrimLeft(raw, " \t\r\n")) == 0 {
		return nil, &Fault{Problem: "is empty; a JSON object is required"}
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	value, err := parseValue(dec, s, 0)
	if err != nil {
		return nil, syntaxFault(raw, err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &Fault{Problem: "has data after the JSON value"}
	}
	return value, nil
}

// parseValue parses the next value. It fails with a *Fault for nesting beyond maxDepth, and with
// the decoder's error.
func parseValue(dec *jsontext.Decoder, s *shape, depth int) (any, error) {
	if depth > maxDepth {
		return nil, &Fault{Field: outermostMember(dec.StackPointer()), Problem: "is nested too deeply"}
	}
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		return parseObject(dec, s, depth)
	case '[':
		return parseArray(dec, s, depth)
	case '"':
		return decodeText(dec, token.String())
	case '0':
		if s.isFree() {
			return json.Number(token.String()), nil
		}
		return decodeNumber(dec, token.String())
	case 'n':
		return nil, nil
	default:
		return token.Bool(), nil
	}
}

// Bounds of the input of the schema, which examines all of it and reports every fault: without them
// one body of a megabyte costs seconds. They are far above every limit of the interface.
const (
	maxFields = 256  // per object that is not free-form
	maxItems  = 4096 // per array
)

// parseObject parses the members up to the closing brace. It fails with a *Fault for more than
// maxFields members, and like parseValue.
func parseObject(dec *jsontext.Decoder, s *shape, depth int) (any, error) {
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
		if object[key], err = parseValue(dec, s.member(key), depth+1); err != nil {
			return nil, err
		}
		if len(object) > maxFields && !s.isFree() {
			return nil, &Fault{Field: fieldOf(dec.StackPointer().Parent()), Problem: "has too many fields"}
		}
	}
	_, err := dec.ReadToken()
	return object, err
}

// parseArray parses the items up to the closing bracket. It fails with a *Fault for more than
// maxItems items, and like parseValue.
func parseArray(dec *jsontext.Decoder, s *shape, depth int) (any, error) {
	array := []any{}
	for dec.PeekKind() != ']' {
		item, err := parseValue(dec, s.item(), depth+1)
		if err != nil {
			return nil, err
		}
		array = append(array, item)
		if len(array) > maxItems {
			return nil, &Fault{Field: fieldOf(dec.StackPointer().Parent()), Problem: "has too many items",
				tooMany: true}
		}
	}
	_, err := dec.ReadToken()
	return array, err
}

func decodeText(dec *jsontext.Decoder, s string) (any, error) {
	if strings.ContainsRune(s, 0) {
		return nil, &Fault{Field: fieldOf(dec.StackPointer()), Problem: "holds the character U+0000"}
	}
	return s, nil
}

// decodeNumber returns an integer as int64 and any other number as json.Number. It fails with a
// *Fault for an integer beyond 64 bits, and for a number out of range.
func decodeNumber(dec *jsontext.Decoder, s string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, &Fault{Field: fieldOf(dec.StackPointer()), Problem: "must fit in 64 bits"}
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.Abs(f) > maxFloat || !isPlainDecimal(s) {
		return nil, &Fault{Field: fieldOf(dec.StackPointer()), Problem: "is out of range"}
	}
	return json.Number(s), nil
}

// isPlainDecimal reports whether a number is short and has a small exponent.
func isPlainDecimal(s string) bool {
	at := strings.IndexAny(s, "eE")
	if at < 0 {
		return len(s) <= maxFloatChars
	}
	exponent, err := strconv.Atoi(s[at+1:])
	return err == nil && len(s) <= maxFloatChars && -maxExponent <= exponent && exponent <= maxExponent
}

// syntaxFault turns an error of the decoder into a *Fault that names the field.
func syntaxFault(raw []byte, err error) error {
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
	if at := syntax.ByteOffset; at < int64(len(raw)) {
		if r, size := utf8.DecodeRune(raw[at:]); r == utf8.RuneError && size == 1 {
			return &Fault{Field: fieldOf(syntax.JSONPointer), Problem: "is not valid UTF-8"}
		}
	}
	return &Fault{Field: fieldOf(syntax.JSONPointer), Problem: "is not valid JSON"}
}

// maxOutermost is deeper than any described field.
const maxOutermost = 4

// outermostMember names the field that contains a deep value: the start of its path, up to the
// first item of a list.
func outermostMember(pointer jsontext.Pointer) string {
	var path []string
	for part := range pointer.Tokens() {
		if len(path) == maxOutermost || isIndex(part) {
			break
		}
		path = append(path, part)
	}
	return fieldPath(path)
}

// fieldOf converts a JSON pointer to a field path.
func fieldOf(pointer jsontext.Pointer) string {
	var path []string
	for part := range pointer.Tokens() {
		path = append(path, part)
	}
	return fieldPath(path)
}

// fieldPath returns the name of a field in a fault, such as items[2].amount. Characters that do not
// print are replaced.
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
		b.WriteString(printableName(part))
	}
	return b.String()
}

func isIndex(part string) bool {
	return part != "" && strings.Trim(part, "0123456789") == "" && len(part) < 8
}

// maxName bounds the name of a field that a message repeats.
const maxName = 40

// printableName hides a name that is not shaped like a field, because the caller may have sent an
// id or a secret. A field may have digits (line1, last4); an id or a secret has an underscore as
// well.
func printableName(name string) string {
	if name == "" || len(name) > maxName {
		return "(field)"
	}
	snake := strings.ContainsRune(name, '_')
	for i, c := range name {
		if i > 0 && !snake && c >= '0' && c <= '9' {
			continue
		}
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' {
			return "(field)"
		}
	}
	return name
}
