package kafka

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"

	kafkago "github.com/segmentio/kafka-go"
)

// Helpers of the tests in package kafka_test.

// FetchedPartition returns the partition that a request reads.
func FetchedPartition(request kafkago.Request) (partition int, ok bool) {
	q, ok := request.(*fetchRequest)
	if !ok {
		return 0, false
	}
	return int(q.Topics[0].Partitions[0].Partition), true
}

// FullEvents is how many records a batch may have.
const FullEvents = fullEvents

// RawRecord returns the bytes of a record in format 2. headers are n headers as bytes.
func RawRecord(delta int, value []byte, n int, headers []byte) []byte {
	b := []byte{0, 0}
	b = binary.AppendVarint(b, int64(delta))
	b = binary.AppendVarint(b, -1)
	b = append(binary.AppendVarint(b, int64(len(value))), value...)
	b = append(binary.AppendVarint(b, int64(n)), headers...)
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

// RawBatch returns the bytes of a batch in format 2. The contents are those of count records, and
// are compressed already when the attributes say so.
func RawBatch(first int64, attributes uint16, count int, contents []byte) []byte {
	be := binary.BigEndian
	b := be.AppendUint64(nil, uint64(first))
	b = be.AppendUint32(b, uint32(batchHeader-atLength-4+len(contents)))
	b = be.AppendUint32(b, 0)
	b = append(b, batchMagic)
	b = be.AppendUint32(b, 0)
	b = be.AppendUint16(b, attributes)
	b = be.AppendUint32(b, uint32(count-1))
	b = append(b, make([]byte, 2*8)...)             // times
	b = append(b, bytes.Repeat([]byte{255}, 14)...) // no producer
	b = be.AppendUint32(b, uint32(count))
	return Checksummed(append(b, contents...))
}

// Checksummed sets the checksum of a batch.
func Checksummed(b []byte) []byte {
	if len(b) >= batchHeader {
		binary.BigEndian.PutUint32(b[atChecksum:], crc32.Checksum(b[atAttributes:], castagnoli))
	}
	return b
}

// Compress compresses with kafka-go.
func Compress(c kafkago.Compression, b []byte) []byte {
	if c == 0 {
		return b
	}
	var out bytes.Buffer
	w := c.Codec().NewWriter(&out)
	for _, err := range []error{second(io.Copy(w, bytes.NewReader(b))), w.Close()} {
		if err != nil {
			panic(err)
		}
	}
	return out.Bytes()
}

func second(_ int64, err error) error { return err }

// HeaderBomb is a batch of one record with n empty headers.
func HeaderBomb(c kafkago.Compression, n int) []byte {
	record := RawRecord(0, nil, n, bytes.Repeat([]byte{0, 1}, n))
	return RawBatch(0, uint16(c), 1, Compress(c, record))
}

// RecordBomb is a batch of n records without contents.
func RecordBomb(c kafkago.Compression, n int) []byte {
	var all []byte
	for i := range n {
		all = append(all, RawRecord(i, nil, 0, nil)...)
	}
	return RawBatch(0, uint16(c), n, Compress(c, all))
}

// ByteBomb is a batch of one record of n zeros.
func ByteBomb(c kafkago.Compression, n int) []byte {
	return RawBatch(0, uint16(c), 1, Compress(c, RawRecord(0, make([]byte, n), 0, nil)))
}

// WindowBomb is a batch whose frame of Zstandard asks for a window of 1 << log bytes.
func WindowBomb(log int) []byte {
	record := RawRecord(0, []byte("{}"), 0, nil)
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(log-10) << 3}
	const last = 1
	frame = append(frame, byte(len(record)<<3|last), 0, 0)
	return RawBatch(0, uint16(kafkago.Zstd), 1, append(frame, record...))
}
