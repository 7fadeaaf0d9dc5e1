package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	kafkago "github.com/segmentio/kafka-go"
)

const (
	// maxHeaders is how many headers a record may have. The publisher writes headersOfEvent.
	maxHeaders = 64

	// The record batch of Kafka's message format, version 2: a header of fixed size, whose numbers
	// are big-endian, and the records, which may be compressed together. An entry of the formats
	// before it has the first five fields, without a leader epoch.
	batchHeader     = 61
	atLength        = 8 // bytes after it
	atMagic         = 16
	atChecksum      = 17 // CRC-32C of all bytes after it
	atAttributes    = 21
	atLastDelta     = 23 // the last offset, from the first one
	atCount         = 57
	batchMagic      = 2
	compressionBits = 7
	controlBit      = 1 << 5
)

var (
	// errRefused means that a batch has more bytes, records or headers than any that a publisher
	// sends, or no records that can be read. The broker vouches for the offsets of a batch alone;
	// its records come from its producer.
	errRefused = errors.New("batch is not one of the publisher")
	// errBroker means that the batches of an answer are not those that a broker gives.
	errBroker = errors.New("batches of the answer cannot be read")

	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// recordBatch is one batch of a partition, or one entry of an older format. A broker gives a batch
// whole as it came in one request, and never joins two.
type recordBatch struct {
	raw         []byte // with its header; shares the answer
	first, last int64  // offsets
	length      int    // bytes, of which raw may have the first ones only
}

// splitBatch returns the first batch of the bytes and the bytes behind it. A batch of more than
// MaxMessageBytes may be cut: it has its header and its length. Any other batch that is cut is the
// end of the answer, and ok is false. It fails with errBroker.
func splitBatch(b []byte) (first recordBatch, rest []byte, ok bool, err error) {
	if len(b) < batchHeader && (len(b) <= atMagic || b[atMagic] >= batchMagic) {
		return first, nil, false, nil
	}
	first.first = int64(binary.BigEndian.Uint64(b))
	first.length = atLength + 4 + int(int32(binary.BigEndian.Uint32(b[atLength:])))
	first.last = first.first
	switch magic := b[atMagic]; {
	case magic > batchMagic:
		return first, nil, false, fmt.Errorf("%w: message format %d at %d", errBroker, magic, first.first)
	case magic == batchMagic:
		first.last += int64(int32(binary.BigEndian.Uint32(b[atLastDelta:])))
	}
	if first.length <= atMagic || first.first < 0 || first.last < first.first {
		return first, nil, false, fmt.Errorf("%w: %d bytes at %d to %d", errBroker, first.length, first.first, first.last)
	}
	if first.length > len(b) && first.length <= MaxMessageBytes {
		return first, nil, false, nil
	}
	end := min(first.length, len(b))
	first.raw = b[:end]
	return first, b[end:], true, nil
}

// checkHeader fails with errRefused for a batch that no publisher sends, as far as its header
// shows, and with errBroker for one that is not as the broker stored it.
func (b *recordBatch) checkHeader() error {
	switch {
	case b.length > MaxMessageBytes:
		return fmt.Errorf("%w: %d bytes", errRefused, b.length)
	case b.raw[atMagic] != batchMagic:
		return fmt.Errorf("%w: message format %d has no headers", errRefused, b.raw[atMagic])
	case b.length < batchHeader:
		return fmt.Errorf("%w: %d bytes at %d", errBroker, b.length, b.first)
	case crc32.Checksum(b.raw[atAttributes:], castagnoli) != binary.BigEndian.Uint32(b.raw[atChecksum:]):
		return fmt.Errorf("%w: wrong checksum of the batch at %d", errBroker, b.first)
	case b.count() < 0 || b.count() > fullEvents:
		return fmt.Errorf("%w: %d records", errRefused, b.count())
	}
	return nil
}

// A control batch marks the end of a transaction. It has no messages.
func (b *recordBatch) isControl() bool {
	return b.length >= batchHeader && b.raw[atMagic] == batchMagic &&
		binary.BigEndian.Uint16(b.raw[atAttributes:])&controlBit != 0
}

func (b *recordBatch) count() int { return int(int32(binary.BigEndian.Uint32(b.raw[atCount:]))) }

func (b *recordBatch) compression() kafkago.Compression {
	return kafkago.Compression(binary.BigEndian.Uint16(b.raw[atAttributes:]) & compressionBits)
}

// records returns the records of a batch that checkHeader passes, and checks them all. They share
// the batch's memory, or that of the inflater, which is nil for a batch without compression. bytes
// counts the inflated bytes, also of a refused batch. It fails with errRefused.
func (b *recordBatch) records(in *inflater, headers *[maxHeaders]kafkago.Header) (all records, bytes int, err error) {
	all = records{b: b.raw[batchHeader:], left: b.count(), batch: b, headers: headers}
	if in != nil {
		all.b, err = in.inflate(b.compression(), all.b, func(piece []byte) error { return all.withBytes(piece).check(true) })
		bytes = len(all.b)
	}
	if err == nil {
		err = all.check(false)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errRefused, err)
	}
	return all, bytes, err
}

var (
	errShort  = errors.New("records are cut off")
	errRecord = errors.New("record of another form")
)

// records are the records of a batch that are not read yet, in message format 2.
type records struct {
	b       []byte
	left    int
	batch   *recordBatch
	headers *[maxHeaders]kafkago.Header // the last record's
}

// record is a message as the batch has it. Its memory counts until the next one is read.
type record struct {
	offset     int64
	key, value []byte
	headers    []kafkago.Header
}

// withBytes returns the same records in other bytes.
func (r records) withBytes(b []byte) records {
	r.b = b
	return r
}

// check reads a copy of the records to the end. It fails when one is not as it should be, when some
// are missing, or when bytes are behind the last one. In a piece, the missing may still come.
func (r records) check(piece bool) error {
	for r.left > 0 {
		if _, err := r.next(); err != nil {
			if piece && errors.Is(err, errShort) {
				return nil
			}
			return err
		}
	}
	if len(r.b) > 0 {
		return fmt.Errorf("%w: bytes behind the last one", errRecord)
	}
	return nil
}

// next returns the next record. left has to be more than zero. It fails with errShort or errRecord.
func (r *records) next() (record, error) {
	f := fields{b: r.b}
	length := f.readVarint()
	if f.err == nil && (length < 0 || length > MaxMessageBytes) {
		f.err = fmt.Errorf("%w: %d bytes", errRecord, length)
	}
	if f.err != nil {
		return record{}, f.err
	}
	whole := int(length) <= len(f.b)
	end := min(int(length), len(f.b))
	rest := f.b[end:]
	f.b = f.b[:end]
	one := r.readRecord(&f)
	switch {
	case errors.Is(f.err, errShort) && whole:
		f.err = fmt.Errorf("%w: its fields are longer than itself", errRecord)
	case f.err == nil && !whole:
		f.err = errShort
	case f.err == nil && len(f.b) > 0:
		f.err = fmt.Errorf("%w: bytes behind its headers", errRecord)
	}
	r.b, r.left = rest, r.left-1
	return one, f.err
}

// readRecord reads the fields of one record. Its error is in f.
func (r *records) readRecord(f *fields) record {
	f.take(1)      // attributes, which are unused
	f.readVarint() // time: an event has its own
	delta := f.readVarint()
	if f.err == nil && (delta < 0 || delta > r.batch.last-r.batch.first) {
		f.err = fmt.Errorf("%w: offset %d behind the first one", errRecord, delta)
	}
	one := record{offset: r.batch.first + delta, key: f.readBytes(), value: f.readBytes()}
	count := f.readVarint()
	if f.err == nil && (count < 0 || count > maxHeaders) {
		f.err = fmt.Errorf("%w: %d headers", errRecord, count)
	}
	if f.err != nil {
		return one
	}
	for i := range count {
		r.headers[i] = kafkago.Header{Key: headerName(f.readBytes()), Value: f.readBytes()}
	}
	one.headers = r.headers[:count]
	return one
}

// fields reads the fields of a record one after another and keeps the first error, which is
// errShort or errRecord.
type fields struct {
	b   []byte
	err error
}

// take returns the next n bytes, which it shares.
func (f *fields) take(n int) []byte {
	if f.err == nil && n > len(f.b) {
		f.err = errShort
	}
	if f.err != nil {
		return nil
	}
	taken := f.b[:n:n]
	f.b = f.b[n:]
	return taken
}

// readVarint reads a signed number in zigzag encoding.
func (f *fields) readVarint() int64 {
	if f.err != nil {
		return 0
	}
	v, n := binary.Varint(f.b)
	switch {
	case n > 0:
		f.b = f.b[n:]
	case n == 0:
		f.err = errShort
	default:
		f.err = fmt.Errorf("%w: a number of more than 64 bits", errRecord)
	}
	return v
}

// readBytes reads bytes behind their length. A length below zero is nil.
func (f *fields) readBytes() []byte {
	n := f.readVarint()
	if f.err == nil && n > MaxMessageBytes {
		f.err = fmt.Errorf("%w: a field of %d bytes", errRecord, n)
	}
	if n < 0 || f.err != nil {
		return nil
	}
	return f.take(int(n))
}
