package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"purser/actors/ident"
	"purser/persistence"
)

// Headers of a message. ce_ is the prefix of CloudEvents in binary mode.
const (
	headerContentType = "content-type"
	headerSpecVersion = "ce_specversion"
	headerID          = "ce_id"
	headerType        = "ce_type"
	headerSource      = "ce_source"
	headerTime        = "ce_time"
	headerStore       = "purser-store"
	headerShard       = "purser-shard"
	headerPosition    = "purser-position"
	headerKind        = "purser-kind"
	headerStream      = "purser-stream"
	headerVersion     = "purser-version"

	contentType    = "application/json"
	specVersion    = "1.0"
	sourceURN      = "urn:purser:"
	headersOfEvent = 12
)

// errForeign: a message that is none of this journal's events. It is skipped; an event that was lost by it is a gap.
var errForeign = errors.New("foreign message")

// codec writes events of one journal as messages and reads them.
type codec struct{ source, store string }

func newCodec(id persistence.Identity) codec {
	return codec{source: fmt.Sprintf("%s%x", sourceURN, id.Deployment[:]), store: fmt.Sprintf("%x", id.Store[:])}
}

// encode returns the message of an event, which shares the event's payload.
func (c codec) encode(shard ident.Shard, e *persistence.Event) kafkago.Record {
	headers := make([]kafkago.Header, 0, headersOfEvent)
	add := func(key, value string) { headers = append(headers, kafkago.Header{Key: key, Value: []byte(value)}) }
	add(headerContentType, contentType)
	add(headerSpecVersion, specVersion)
	add(headerID, e.ID)
	add(headerType, e.Type)
	add(headerSource, c.source)
	add(headerTime, e.At.UTC().Format(time.RFC3339Nano))
	add(headerStore, c.store)
	add(headerShard, strconv.Itoa(int(shard)))
	add(headerPosition, strconv.FormatUint(e.Position, 10))
	add(headerKind, e.Kind)
	add(headerStream, e.Stream)
	add(headerVersion, strconv.FormatUint(e.Version, 10))
	return kafkago.Record{
		Time: e.At, Key: kafkago.NewBytes([]byte(e.Workspace)), Value: kafkago.NewBytes(e.Payload), Headers: headers,
	}
}

// size returns what the message of an event adds to a request, at most.
func (c codec) size(e *persistence.Event) int {
	const framing = 1 << 10 // names of headers, fixed values, numbers, lengths
	return framing + len(e.Workspace) + len(e.Payload) + len(e.ID) + len(e.Type) + len(e.Kind) + len(e.Stream)
}

// decode rebuilds the event of a message, or returns errForeign.
func (c codec) decode(partition int, m *kafkago.Record) (shard ident.Shard, e persistence.Event, err error) {
	key, err := contents(m.Key)
	if err != nil {
		return 0, e, err
	}
	if e.Payload, err = contents(m.Value); err != nil {
		return 0, e, err
	}
	e.Workspace = string(key)
	store, source, number := "", "", uint64(0)
	for _, h := range m.Headers {
		value := string(h.Value)
		switch h.Key {
		case headerID:
			e.ID = value
		case headerType:
			e.Type = value
		case headerSource:
			source = value
		case headerTime:
			e.At, err = time.Parse(time.RFC3339Nano, value)
		case headerStore:
			store = value
		case headerShard:
			number, err = strconv.ParseUint(value, 10, 8)
		case headerPosition:
			e.Position, err = strconv.ParseUint(value, 10, 64)
		case headerKind:
			e.Kind = value
		case headerStream:
			e.Stream = value
		case headerVersion:
			e.Version, err = strconv.ParseUint(value, 10, 64)
		}
		if err != nil {
			return 0, e, fmt.Errorf("%w: header %s: %w", errForeign, h.Key, err)
		}
	}
	shard = ident.Shard(number)
	switch {
	case store != c.store || source != c.source:
		err = fmt.Errorf("%w: of store %q of %q", errForeign, store, source)
	case Partition(shard) != partition:
		err = fmt.Errorf("%w: shard %d", errForeign, shard)
	case e.Position == 0 || e.At.IsZero():
		err = fmt.Errorf("%w: no position or time", errForeign)
	}
	return shard, e, err
}

// contents reads a key or value and gives its memory back.
func contents(b kafkago.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	bytes, err := protocol.ReadAll(b)
	return bytes, errors.Join(err, b.Close())
}
