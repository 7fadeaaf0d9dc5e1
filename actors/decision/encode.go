package decision

import "encoding/json"

// Appender is an event or document that writes its own JSON, the same bytes as package json would. Those of every swipe do.
type Appender interface {
	AppendJSON(dst []byte) ([]byte, error)
}

// Encode writes an event or document as it is stored.
func Encode(v any) ([]byte, error) {
	if a, ok := v.(Appender); ok {
		return a.AppendJSON(nil)
	}
	return json.Marshal(v)
}

// Append appends the stamp as MarshalJSON writes it.
func (s Stamp) Append(dst []byte) []byte { return s.UTC().AppendFormat(dst, stampLayout) }
