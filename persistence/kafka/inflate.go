package kafka

import (
	"errors"
	"io"

	"github.com/segmentio/kafka-go/compress"
)

// errInflated means that a compressed batch has more bytes or records than any that a publisher
// sends. kafka-go inflates a batch whole into memory and adds up to 184 bytes for each record, so
// that a few kilobytes would otherwise end the process.
var errInflated = errors.New("compressed batch is larger than a request of the publisher")

// A broker may compress what a publisher sent, and never joins batches: an honest batch inflates to
// MaxMessageBytes and fullEvents records at most.
func init() {
	for i, codec := range compress.Codecs {
		if codec != nil {
			compress.Codecs[i] = boundedCodec{codec}
		}
	}
}

// boundedCodec refuses to inflate more than MaxMessageBytes or fullEvents records.
type boundedCodec struct{ compress.Codec }

// NewReader implements compress.Codec.
func (c boundedCodec) NewReader(r io.Reader) io.ReadCloser {
	return &boundedReader{ReadCloser: c.Codec.NewReader(r), left: MaxMessageBytes}
}

type boundedReader struct {
	io.ReadCloser
	left    int
	records recordCount
}

// Read implements io.Reader.
func (r *boundedReader) Read(b []byte) (int, error) {
	if len(b) > r.left+1 {
		b = b[:r.left+1]
	}
	n, err := r.ReadCloser.Read(b)
	if r.left -= n; r.left < 0 || r.records.countRecords(b[:n]) > fullEvents {
		return 0, errInflated
	}
	return n, err
}

// recordCount counts the records of a batch whose bytes come in pieces. Each record begins with its
// length, a zigzag varint.
type recordCount struct {
	begun  int    // records of which at least one byte has come
	length uint64 // the bits of a length that is not complete
	shift  uint
	skip   uint64 // bytes of the current record that are still to come
}

// countRecords takes a piece and returns how many records have begun.
func (c *recordCount) countRecords(piece []byte) int {
	for len(piece) > 0 && c.begun <= fullEvents {
		if c.skip > 0 {
			n := min(c.skip, uint64(len(piece)))
			c.skip, piece = c.skip-n, piece[n:]
			continue
		}
		if c.shift == 0 {
			c.begun++
		}
		b := piece[0]
		piece = piece[1:]
		c.length |= uint64(b&0x7f) << min(c.shift, 63)
		if c.shift += 7; b&0x80 == 0 {
			c.skip, c.length, c.shift = c.length>>1, 0, 0
		}
	}
	return c.begun
}
