package decision

import (
	"bytes"
	"encoding/json"
	"sync"
)

// Appender is an event or document that writes its own JSON, the same bytes as package json would. Those of every swipe do.
type Appender interface {
	AppendJSON(dst []byte) ([]byte, error)
}

// maxScratch is the longest buffer, in bytes, that Encode keeps for the next time.
const maxScratch = 1 << 20

// scratches are buffers that Encode writes into before it knows how long the result is. An event of hundreds of entries would be
// copied several times while it grew, and the length of an entry is not to be guessed.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// Encode writes an event or document as it is stored.
func Encode(v any) ([]byte, error) {
	a, ok := v.(Appender)
	if !ok {
		return json.Marshal(v)
	}
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	written, err := a.AppendJSON((*scratch)[:0])
	if err != nil {
		return nil, err
	}
	if cap(written) <= maxScratch {
		*scratch = written
	}
	return bytes.Clone(written), nil
}

// Append appends the stamp as MarshalJSON writes it.
func (s Stamp) Append(dst []byte) []byte { return s.UTC().AppendFormat(dst, stampLayout) }
