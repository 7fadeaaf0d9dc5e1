package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

const (
	// fetchBytes is how many bytes of batches a read asks for. Kafka gives one whole batch at
	// least.
	fetchBytes = 1 << 20
	// maxLargeReads is how many readers of a Topic may hold more than fetchBytes from Kafka.
	maxLargeReads = 4

	firstFetchWithBatches = 4 // versions of Fetch below it carry message sets without headers
	fetchWithLogStart     = 5
	fetchWithSession      = 7
	fetchWithReplica      = 11
	correlation           = 1 // a connection has one request at a time
)

// fetchRequest is a read of one partition whose batches are not decoded. kafka-go's Client.Fetch
// decodes all batches of an answer into structs, whose memory the bytes of the answer do not bound:
// a record of 874 bytes, compressed, becomes 164 MB of headers. The Transport routes it to the
// partition's leader and gives it the connection.
type fetchRequest struct {
	*fetch.Request
	keep    int   // bytes of batches that the answer keeps, at most; more are read and dropped
	version int16 // of the connection
}

// fetchAnswer is Kafka's answer to a fetchRequest.
type fetchAnswer struct {
	highWatermark int64
	size          int    // bytes of batches that Kafka sent
	batches       []byte // the first of them, as many as the request keeps
	err           error  // of the partition, from Kafka
}

var (
	_ protocol.BrokerMessage   = (*fetchRequest)(nil)
	_ protocol.PreparedMessage = (*fetchRequest)(nil)
	_ protocol.RawExchanger    = (*fetchRequest)(nil)
)

// ApiKey implements protocol.Message.
func (*fetchAnswer) ApiKey() protocol.ApiKey { return protocol.Fetch }

// Prepare implements protocol.PreparedMessage.
func (q *fetchRequest) Prepare(version int16) { q.version = version }

// Required implements protocol.RawExchanger.
func (q *fetchRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange implements protocol.RawExchanger: it sends the request and reads the answer. It fails
// when the connection fails, for a broker older than Kafka 0.11, and for an answer of another form.
// kafka-go then closes the connection.
func (q *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if q.version < firstFetchWithBatches {
		return nil, fmt.Errorf("fetch version %d of the broker has no record batches", q.version)
	}
	if err := protocol.WriteRequest(rw, q.version, correlation, clientID, q.Request); err != nil {
		return nil, err
	}
	r := &answerReader{from: rw, left: 4}
	r.left = int(r.readInt(4))
	if id := r.readInt(4); r.err == nil && id != correlation {
		return nil, fmt.Errorf("fetch: the answer is to request %d", id)
	}
	answer := q.readAnswer(r)
	r.skip(r.left)
	return answer, r.err
}

// readAnswer reads the body of an answer with one partition. Its fields are those of Kafka's
// protocol, versions 4 to 11. The error of the reading is in r.
func (q *fetchRequest) readAnswer(r *answerReader) *fetchAnswer {
	answer := &fetchAnswer{}
	r.skip(4) // throttle time
	if q.version >= fetchWithSession {
		answer.err = brokerError(r.readInt(2))
		r.skip(4) // session
	}
	if answer.err != nil && r.err == nil {
		return answer
	}
	r.expectOne("topics")
	r.skip(int(r.readInt(2)))
	r.expectOne("partitions")
	r.skip(4) // partition
	answer.err = brokerError(r.readInt(2))
	answer.highWatermark = r.readInt(8)
	r.skip(8) // last stable offset
	if q.version >= fetchWithLogStart {
		r.skip(8)
	}
	const abortedTransaction = 16
	r.skip(abortedTransaction * max(0, int(r.readInt(4))))
	if q.version >= fetchWithReplica {
		r.skip(4)
	}
	answer.size = max(0, int(r.readInt(4)))
	answer.batches = r.readBytes(min(answer.size, q.keep))
	return answer
}

// brokerError returns Kafka's error of a code; zero is nil.
func brokerError(code int64) error {
	if code == 0 {
		return nil
	}
	return kafkago.Error(code)
}

// answerReader reads the bytes of one answer and keeps the first error.
type answerReader struct {
	from io.Reader
	left int // bytes of the answer that are not read
	err  error
}

// readBytes returns the next n bytes. It returns none after an error, or when fewer are left.
func (r *answerReader) readBytes(n int) []byte {
	if r.err == nil && (n < 0 || n > r.left) {
		r.err = errors.New("fetch: the answer is too short for its contents")
	}
	if r.err != nil {
		return nil
	}
	b := make([]byte, n)
	if _, r.err = io.ReadFull(r.from, b); r.err != nil {
		return nil
	}
	r.left -= n
	return b
}

// readInt returns the next big-endian number of 2, 4 or 8 bytes; zero after an error.
func (r *answerReader) readInt(bytes int) int64 {
	b := r.readBytes(bytes)
	switch len(b) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b)))
	case 8:
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// skip drops the next n bytes, without keeping them in memory. None is no bytes, nor is a negative
// n.
func (r *answerReader) skip(n int) {
	if r.err != nil || n <= 0 {
		return
	}
	if n > r.left {
		r.err = errors.New("fetch: the answer is too short for its contents")
		return
	}
	if _, r.err = io.CopyN(io.Discard, r.from, int64(n)); r.err == nil {
		r.left -= n
	}
}

// expectOne reads the length of a list and refuses any but one.
func (r *answerReader) expectOne(list string) {
	if n := r.readInt(4); r.err == nil && n != 1 {
		r.err = fmt.Errorf("fetch: the answer has %d %s", n, list)
	}
}

// fetchBatches reads a partition from an offset, and waits up to wait for a message. The answer has
// the first keep bytes of its batches. It fails only with Kafka's error.
func (t *Topic) fetchBatches(ctx context.Context, partition int, offset int64, wait time.Duration, keep int) (*fetchAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout+wait)
	defer cancel()
	message, err := t.o.Transport.RoundTrip(ctx, t.client.Addr, &fetchRequest{keep: keep, Request: &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(wait.Milliseconds()), MinBytes: 1, MaxBytes: fetchBytes,
		SessionID: -1, SessionEpoch: -1,
		Topics: []fetch.RequestTopic{{Topic: t.o.Topic, Partitions: []fetch.RequestPartition{{
			Partition: int32(partition), CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1,
			PartitionMaxBytes: fetchBytes,
		}}}},
	}})
	answer, ok := message.(*fetchAnswer)
	switch {
	case err != nil:
	case !ok:
		err = fmt.Errorf("an answer of type %T", message)
	default:
		err = answer.err
	}
	if err != nil {
		return nil, fmt.Errorf("reading partition %d at %d: %w", partition, offset, err)
	}
	return answer, nil
}
