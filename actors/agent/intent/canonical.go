package intent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNumber reports a number that JSON readers interpret differently: it has no double, or is an
// integer beyond 2^53 - 1, where doubles skip integers.
var ErrNumber = errors.New("a number is out of range")

// ErrDepth reports JSON that is nested deeper than MaxDepth.
var ErrDepth = errors.New("nested too deeply")

// MaxDepth is the most levels of nested objects and arrays.
const MaxDepth = 32

const maxInteger = 1<<53 - 1

// Canonical returns the canonical form of one JSON value by RFC 8785. The value must be I-JSON: no
// duplicate names in an object, valid UTF-8 and no lone surrogate. The value is not changed. Any
// other text is an error, with ErrDepth for values nested deeper than MaxDepth and ErrNumber for a
// number out of range.
func Canonical(value []byte) ([]byte, error) {
	if err := checkJSON(value); err != nil {
		return nil, err
	}
	canonical := jsontext.Value(slices.Clone(value))
	if err := canonical.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return canonical, nil
}

// checkJSON fails for a text that is not I-JSON, with ErrDepth for values nested deeper than
// MaxDepth, and with ErrNumber for an integer beyond 2^53 - 1 or another number beyond a float64.
func checkJSON(value []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("canonical JSON: %w", err)
		}
		if d.StackDepth() > MaxDepth {
			return ErrDepth
		}
		if token.Kind() == '0' && !isSafeNumber(token.String()) {
			return ErrNumber
		}
	}
}

func isSafeNumber(text string) bool {
	if !strings.ContainsAny(text, ".eE") {
		n, err := strconv.ParseInt(text, 10, 64)
		return err == nil && n >= -maxInteger && n <= maxInteger
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}
