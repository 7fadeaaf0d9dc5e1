package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	kafkago "github.com/segmentio/kafka-go"
)

const (
	// maxInflaters is how many batches of a Topic are inflated at a time.
	maxInflaters = 4

	firstInflated = 64 << 10 // bytes after which the records are looked at; then twice as many, and so on

	// A stream of xerial's Snappy, which Java writes: a magic, two versions, and blocks of Snappy
	// behind their lengths.
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = 16
)

// errInflated means that a compressed batch has more bytes than any that a publisher sends.
var errInflated = fmt.Errorf("it inflates to more than %d bytes", MaxMessageBytes)

// inflater inflates the compressed records of batches, one batch at a time, and keeps its memory.
// Kafka compresses what the publisher sent when the topic's compression.type says so.
type inflater struct {
	buffer []byte // holds the last batch
	zstd   *zstd.Decoder
}

// inflate returns the bytes that src inflates to, which count until the next call. It gives pieces
// of growing size to look, and ends with its error. It fails with errInflated for more than
// MaxMessageBytes, and for an unknown or broken compression.
func (in *inflater) inflate(c kafkago.Compression, src []byte, look func(piece []byte) error) ([]byte, error) {
	in.buffer = in.buffer[:0]
	if c == kafkago.Snappy {
		return in.inflateSnappy(src)
	}
	stream, err := in.open(c, src)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	for size := firstInflated; ; size = min(2*size, MaxMessageBytes+1) {
		if cap(in.buffer) < size {
			in.buffer = append(make([]byte, 0, size), in.buffer...)
		}
		had := len(in.buffer)
		n, err := io.ReadFull(stream, in.buffer[had:size])
		in.buffer = in.buffer[:had+n]
		switch {
		case len(in.buffer) > MaxMessageBytes:
			return in.buffer, errInflated
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return in.buffer, nil
		case err != nil:
			return in.buffer, err
		}
		if err := look(in.buffer); err != nil {
			return in.buffer, err
		}
	}
}

// open returns the stream of what src inflates to. A frame of Zstandard may ask for a window of
// MaxMessageBytes at most: levels to 19 ask for 8 MiB, and the decoder would take up to 512 MiB. It
// fails for an unknown compression.
func (in *inflater) open(c kafkago.Compression, src []byte) (io.ReadCloser, error) {
	switch c {
	case kafkago.Gzip, kafkago.Lz4:
		return c.Codec().NewReader(bytes.NewReader(src)), nil
	case kafkago.Zstd:
		if in.zstd == nil {
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxMessageBytes))
			if err != nil {
				return nil, err
			}
			in.zstd = d
		}
		return io.NopCloser(in.zstd), in.zstd.Reset(bytes.NewReader(src))
	}
	return nil, fmt.Errorf("compression %d is unknown", c)
}

// inflateSnappy inflates one block of Snappy, or the blocks of a stream of xerial's. A block names
// its length, which is checked before memory is taken for it.
func (in *inflater) inflateSnappy(src []byte) ([]byte, error) {
	if len(src) < xerialHeader || string(src[:len(xerialMagic)]) != xerialMagic {
		err := in.inflateBlock(src)
		return in.buffer, err
	}
	for src = src[xerialHeader:]; len(src) > 0; {
		if len(src) < 4 || int(binary.BigEndian.Uint32(src)) > len(src)-4 {
			return in.buffer, io.ErrUnexpectedEOF
		}
		end := 4 + int(binary.BigEndian.Uint32(src))
		if err := in.inflateBlock(src[4:end]); err != nil {
			return in.buffer, err
		}
		src = src[end:]
	}
	return in.buffer, nil
}

// inflateBlock appends what a block of Snappy inflates to. It fails with errInflated, or for a
// broken block.
func (in *inflater) inflateBlock(block []byte) error {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return err
	}
	had := len(in.buffer)
	if n > MaxMessageBytes-had {
		return errInflated
	}
	if cap(in.buffer) < had+n {
		in.buffer = append(make([]byte, 0, max(had+n, 2*had)), in.buffer...)
	}
	if _, err := snappy.Decode(in.buffer[had:had:had+n], block); err != nil {
		return err
	}
	in.buffer = in.buffer[:had+n]
	return nil
}
