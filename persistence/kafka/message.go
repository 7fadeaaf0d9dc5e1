package kafka

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"purser/persistence"
	"purser/persistence/ident"
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
	headerProof       = "purser-proof"

	contentType    = "application/json"
	specVersion    = "1.0"
	sourceURN      = "urn:purser:"
	headersOfEvent = 13
)

// headerName returns a header's name, and does not allocate for those of an event.
func headerName(b []byte) string {
	for _, name := range eventHeaders {
		if string(b) == name {
			return name
		}
	}
	return string(b)
}

var eventHeaders = [headersOfEvent]string{
	headerContentType, headerSpecVersion, headerID, headerType, headerSource, headerTime, headerStore,
	headerShard, headerPosition, headerKind, headerStream, headerVersion, headerProof,
}

// codec writes events of one journal as messages and reads them. It is for one goroutine.
type codec struct {
	source, store string
	prover        *prover
}

func newCodec(id persistence.Identity, p Proof) *codec {
	return &codec{source: fmt.Sprintf("%s%x", sourceURN, id.Deployment[:]), store: fmt.Sprintf("%x", id.Store[:]),
		prover: newProver(p)}
}

// encodeEvent returns the message of an event, which shares the event's payload.
func (c *codec) encodeEvent(shard ident.Shard, e *persistence.Event) kafkago.Record {
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
	add(headerProof, c.prover.proveEvent(c, shard, e))
	return kafkago.Record{
		Time: e.At, Key: kafkago.NewBytes([]byte(e.Workspace)), Value: kafkago.NewBytes(e.Payload), Headers: headers,
	}
}

// maxMessageSize returns what the message of an event adds to a request, at most.
func (c *codec) maxMessageSize(e *persistence.Event) int {
	const framing = 1 << 10 // names of headers, fixed values, numbers, lengths
	return framing + len(e.Workspace) + len(e.Payload) + len(e.ID) + len(e.Type) + len(e.Kind) + len(e.Stream)
}

// decodeRecord rebuilds the event of a message, and copies its payload once the proof checks. It
// fails with ErrForeign for a message of another journal or form, with ErrForged for a false proof,
// and with ErrUnproven for one without a proof of this run. The event counts only without an error;
// the shard counts with ErrUnproven too.
func (c *codec) decodeRecord(partition int, m *record) (shard ident.Shard, e persistence.Event, err error) {
	e.Workspace, e.Payload = string(m.key), m.value
	store, source, proof, number := "", "", "", uint64(0)
	for _, h := range m.headers {
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
			e.At = e.At.UTC()
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
		case headerProof:
			proof = value
		}
		if err != nil {
			return 0, e, fmt.Errorf("%w: header %s: %w", ErrForeign, h.Key, err)
		}
	}
	shard = ident.Shard(number)
	switch {
	case store != c.store || source != c.source:
		err = fmt.Errorf("%w: of store %q of %q", ErrForeign, store, source)
	case Partition(shard) != partition:
		err = fmt.Errorf("%w: shard %d", ErrForeign, shard)
	case e.Position == 0 || e.At.IsZero():
		err = fmt.Errorf("%w: no position or time", ErrForeign)
	default:
		if err = c.prover.checkEvent(c, proof, shard, &e); err == nil {
			e.Payload = bytes.Clone(e.Payload)
		}
	}
	return shard, e, err
}
