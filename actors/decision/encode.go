package decision

import (
	"bytes"
	"encoding/json"
	"sync"
)

// Appender is an event or document that writes its own JSON, byte for byte as package json would.
// The events of every swipe are Appenders.
type Appender interface {
	AppendJSON(dst []byte) ([]byte, error)
}

// maxKeptBuffer is the size in bytes up to which Encode reuses a buffer.
const maxKeptBuffer = 1 << 20

// encodeBuffers are the buffers into which Encode writes before it knows the length of the result.
// Growing a fresh buffer would copy an event of hundreds of entries several times, and the length
// of an entry cannot be estimated.
var encodeBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Encode returns the stored form of an event or document, in memory of its own. It is safe for
// concurrent use. It fails when the value cannot be encoded as JSON.
func Encode(v any) ([]byte, error) {
	a, ok := v.(Appender)
	if !ok {
		return json.Marshal(v)
	}
	scratch := encodeBuffers.Get().(*[]byte)
	defer encodeBuffers.Put(scratch)
	written, err := a.AppendJSON((*scratch)[:0])
	if err != nil {
		return nil, err
	}
	if cap(written) <= maxKeptBuffer {
		*scratch = written
	}
	return bytes.Clone(written), nil
}

// Append appends the stamp as MarshalJSON writes it.
func (s Stamp) Append(dst []byte) []byte { return s.UTC().AppendFormat(dst, stampLayout) }
