package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"purser/actors/partner"
)

// Limits of the lists in a node's answer. maxAnswer bounds the bytes of an answer, and these bound
// the memory that the bytes become: "{}," is three bytes and can be a struct of a hundred. Each
// limit is above what a valid answer of maxAnswer bytes or a valid block can have.
const (
	maxLogs         = 120_000 // in an answer; a true log has more than 560 bytes
	maxTransactions = 100_000 // of a block; the gas of the largest block pays for 20,000
	maxOutputs      = 120_000 // of a bitcoin block: 4 million units of weight, 36 for an output
	maxBalances     = 256     // of a solana transaction, which numbers its accounts in one byte
	maxTransfers    = 500_000 // in one result of Transfers, of all its answers together
	// maxIdentifier is the longest hash or address in bytes. A solana signature has 88.
	maxIdentifier = 128
	// maxCached bounds the transfers in a blockCache, which the node's blocks fill for a whole
	// span.
	maxCached = 250_000
)

// member reads one JSON value, the next of the decoder.
type member func(d *json.Decoder) error

// members reads the members of an object by name. Names match as in encoding/json, in any case.
type members map[string]member

// decodeInto decodes the value as json.Unmarshal does. The type of into must have no list without a
// limit and no value of any type.
func decodeInto(into any) member { return func(d *json.Decoder) error { return d.Decode(into) } }

// listOf decodes a list element by element and passes each to take, which copies the parts it
// needs. Null is an empty list. It fails for another value, with the error of take, and with
// errTooLong at the first element beyond the limit; nothing after that is decoded.
func listOf[T any](limit int, take func(one *T) error) member {
	return func(d *json.Decoder) error {
		null, err := openValue(d, '[')
		if null || err != nil {
			return err
		}
		for n := 0; d.More(); n++ {
			if n == limit {
				return fmt.Errorf("%w: a list of over %d elements", errTooLong, limit)
			}
			var one T
			if err := d.Decode(&one); err != nil {
				return err
			}
			if err := take(&one); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
}

// readObject reads an object member by member and skips the members without a reader. null reports
// the value null instead of an object. It fails for another value and with the errors of the
// readers.
func readObject(d *json.Decoder, readers members) (null bool, err error) {
	if null, err = openValue(d, '{'); null || err != nil {
		return null, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return false, err
		}
		read := decodeInto(new(skipped))
		for known, reader := range readers {
			if text, ok := name.(string); ok && strings.EqualFold(text, known) {
				read = reader
			}
		}
		if err := read(d); err != nil {
			return false, err
		}
	}
	_, err = d.Token()
	return false, err
}

// openValue reads the first token of a list or an object. null reports the value null.
func openValue(d *json.Decoder, want json.Delim) (null bool, err error) {
	token, err := d.Token()
	switch {
	case err == nil && token == nil:
		return true, nil
	case err == nil && token != want:
		err = fmt.Errorf("a value that does not begin with %q", rune(want))
	}
	return false, err
}

// decodeWhole reads one JSON value and fails when more than white space follows it.
func decodeWhole(from io.Reader, read member) error {
	d := json.NewDecoder(from)
	if err := read(d); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("the answer goes on after its end"), err)
	}
	return nil
}

// skipped is a value of which nothing is kept.
type skipped struct{}

// UnmarshalJSON never fails.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// present says whether a value is there and not null. It keeps none of it.
type present bool

// UnmarshalJSON never fails.
func (p *present) UnmarshalJSON(text []byte) error {
	*p = string(text) != "null"
	return nil
}

// boundedReader reads at most most bytes and fails with errTooLong at the next one.
type boundedReader struct {
	from       io.Reader
	left, most int64
}

// Read implements io.Reader.
func (r *boundedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > r.left+1 {
		p = p[:r.left+1]
	}
	n, err := r.from.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, fmt.Errorf("%w: over %d bytes", errTooLong, r.most)
	}
	return n, err
}

// appendFound adds a transfer to a result of Transfers. It fails with errTooLong beyond
// maxTransfers.
func appendFound(found []partner.Observation, more ...partner.Observation) ([]partner.Observation, error) {
	if len(found)+len(more) > maxTransfers {
		return nil, fmt.Errorf("%w: over %d transfers", errTooLong, maxTransfers)
	}
	return append(found, more...), nil
}
