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

// ErrNumber says that a number of the JSON is none that every reader reads alike: it has no double, or is written as an integer
// beyond 2^53 - 1, where doubles leave integers out.
var ErrNumber = errors.New("a number is out of range")

// ErrDepth says that the JSON is nested deeper than MaxDepth.
var ErrDepth = errors.New("nested too deeply")

// MaxDepth bounds the objects and arrays that stand in each other.
const MaxDepth = 32

const maxInteger = 1<<53 - 1

// Canonical returns the canonical form of one JSON value, as RFC 8785 defines it. The value must be I-JSON: no name twice in an
// object, valid UTF-8 and no half of a surrogate pair. The value is not changed.
func Canonical(value []byte) ([]byte, error) {
	if err := check(value); err != nil {
		return nil, err
	}
	canonical := jsontext.Value(slices.Clone(value))
	if err := canonical.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return canonical, nil
}

func check(value []byte) error {
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
