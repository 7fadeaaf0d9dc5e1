package kafka

import (
	"errors"
	"io"

	"github.com/segmentio/kafka-go/compress"
)

// errInflated: a compressed batch is longer than any that a publisher sends. kafka-go inflates a
// batch whole into memory, so that a few kilobytes of zeros would otherwise end the process.
var errInflated = errors.New("compressed batch is larger than a request of the publisher")

// A broker may compress what a publisher sent, and never joins batches: an honest batch inflates to
// MaxMessageBytes at most.
func init() {
	for i, codec := range compress.Codecs {
		if codec != nil {
			compress.Codecs[i] = boundedCodec{codec}
		}
	}
}

// boundedCodec refuses to inflate more than MaxMessageBytes.
type boundedCodec struct{ compress.Codec }

// NewReader implements compress.Codec.
func (c boundedCodec) NewReader(r io.Reader) io.ReadCloser {
	return &boundedReader{ReadCloser: c.Codec.NewReader(r), left: MaxMessageBytes}
}

type boundedReader struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (r *boundedReader) Read(b []byte) (int, error) {
	if len(b) > r.left+1 {
		b = b[:r.left+1]
	}
	n, err := r.ReadCloser.Read(b)
	if r.left -= n; r.left < 0 {
		return 0, errInflated
	}
	return n, err
}
