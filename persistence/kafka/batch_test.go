package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"purser/persistence"
)

var codecs = []kafkago.Compression{0, kafkago.Gzip, kafkago.Snappy, kafkago.Lz4, kafkago.Zstd}

// skips are the errors of the messages that a reader skipped, by offset.
type skips map[int64]error

func (s skips) Skipped(_ int, offset int64, err error) { s[offset] = err }
func (skips) TopicReplaced(int, int64, int64)          {}

// readerOf returns a reader of partition 5 with batches that Kafka gave.
func readerOf(t testing.TB, batches []byte, end int64) (*reader, skips) {
	topic, err := New(Options{Brokers: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	s := skips{}
	return &reader{s: &subscription{topic: topic, listener: s}, partition: 5, codec: testCodec, unread: batches, end: end}, s
}

// trueRecords are the messages of n events of shard 5 from a position.
func trueRecords(position uint64, n int) []kafkago.Record {
	records := make([]kafkago.Record, n)
	for i := range records {
		records[i] = testCodec.encodeEvent(5, &persistence.Event{ID: fmt.Sprintf("evt_%d", i), At: time.Unix(1, 0).UTC(),
			Payload: []byte(`{}`), Position: position + uint64(i), Version: 1})
	}
	return records
}

// trueBatch is a batch of the publisher with n events of shard 5 from a position.
func trueBatch(t testing.TB, c kafkago.Compression, first int64, position uint64, n int) []byte {
	return encodeBatch(t, c, first, trueRecords(position, n))
}

// encodeBatch encodes records with kafka-go, as the publisher does.
func encodeBatch(t require.TestingT, c kafkago.Compression, first int64, records []kafkago.Record) []byte {
	var out bytes.Buffer
	set := protocol.RecordSet{Version: 2, Attributes: protocol.Attributes(c), Records: kafkago.NewRecordReader(records...)}
	_, err := set.WriteTo(&out)
	require.NoError(t, err)
	b := out.Bytes()[4:]
	binary.BigEndian.PutUint64(b, uint64(first))
	return b
}

// readAll decodes pages until nothing is unread, and returns the events of shard 5.
func readAll(t testing.TB, r *reader) (events []persistence.Event) {
	for len(r.unread) > 0 {
		p, err := r.decodePage()
		require.NoError(t, err)
		require.Less(t, p.records, 2*fullEvents)
		require.Less(t, p.bytes, fullBytes+2*MaxMessageBytes+1)
		events = append(events, p.events[0]...)
		r.offset = p.next
	}
	return events
}

// TestRecordsAreThoseThatKafkaGoWrites: whatever kafka-go encodes is read back, in every codec.
func TestRecordsAreThoseThatKafkaGoWrites(t *testing.T) {
	in := new(inflater)
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.SliceOfN(rapid.Byte(), 0, 300)
		name := rapid.OneOf(rapid.String(), rapid.SampledFrom(eventHeaders[:]))
		c := rapid.SampledFrom(codecs).Draw(t, "compression")
		var want []record
		var messages []kafkago.Record
		for i := range rapid.IntRange(1, 50).Draw(t, "records") {
			one := record{offset: 1000 + int64(i), key: content.Draw(t, "key"), value: content.Draw(t, "value"), headers: []kafkago.Header{}}
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				one.headers = append(one.headers, kafkago.Header{Key: name.Draw(t, "name"), Value: content.Draw(t, "header")})
			}
			want = append(want, one)
			messages = append(messages, kafkago.Record{Key: kafkago.NewBytes(one.key), Value: kafkago.NewBytes(one.value), Headers: one.headers})
		}
		b, rest, ok, err := splitBatch(append(encodeBatch(t, c, 1000, messages), 1, 2, 3))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, []byte{1, 2, 3}, rest)
		require.Equal(t, want[len(want)-1].offset, b.last)
		require.NoError(t, b.checkHeader())
		require.Equal(t, c, b.compression())
		from := in
		if c == 0 {
			from = nil
		}
		all, _, err := b.records(from, new([maxHeaders]kafkago.Header))
		require.NoError(t, err)
		for _, one := range want {
			got, err := all.next()
			require.NoError(t, err)
			require.Equal(t, one, got)
		}
		require.Zero(t, all.left)
	})
}

// TestPlacesWithoutTrueMessagesAreSteppedOver: each is reported once, and no true event is lost.
func TestPlacesWithoutTrueMessagesAreSteppedOver(t *testing.T) {
	at := func(first int64, b []byte) []byte {
		binary.BigEndian.PutUint64(b, uint64(first))
		return b
	}
	oldMessage := make([]byte, 34) // message format 1
	binary.BigEndian.PutUint32(oldMessage[atLength:], 22)
	oldMessage[atMagic] = 1
	control := RawBatch(0, controlBit, 1, RawRecord(0, nil, 0, nil))
	tooLarge := RawBatch(0, 0, 3, make([]byte, MaxMessageBytes))[:MaxMessageBytes]
	many := HeaderBomb(kafkago.Zstd, 4<<20)
	var set []byte
	for _, b := range [][]byte{
		trueBatch(t, 0, 10, 1, 3), at(13, control), at(14, oldMessage), trueBatch(t, kafkago.Zstd, 15, 4, 2),
		at(17, many), trueBatch(t, kafkago.Snappy, 18, 6, 1), at(19, RawBatch(0, 7, 1, nil)),
		at(20, RawBatch(0, uint16(kafkago.Zstd), 1, []byte("no frame"))), at(21, RawBatch(0, 0, 1, []byte{2})),
		trueBatch(t, 0, 22, 7, fullEvents), trueBatch(t, 0, 22+fullEvents, 7+fullEvents, 5)[:100],
	} {
		set = append(set, b...)
	}
	r, skipped := readerOf(t, set, 2000)
	r.offset = 11
	events := readAll(t, r)
	require.Len(t, events, 2+2+1+fullEvents)
	for i, e := range events {
		require.EqualValues(t, 2+i, e.Position)
	}
	require.EqualValues(t, 22+fullEvents, r.offset)
	require.Len(t, skipped, 5)
	for _, offset := range []int64{14, 17, 19, 20, 21} {
		require.ErrorIs(t, skipped[offset], ErrForged, "%d", offset)
	}

	r, skipped = readerOf(t, at(30, tooLarge), 40)
	r.offset = 31
	require.Empty(t, readAll(t, r))
	require.EqualValues(t, 33, r.offset)
	require.ErrorIs(t, skipped[30], ErrForged)
}

// TestABrokersFaultEndsTheReading: the reader then begins at the end of the partition.
func TestABrokersFaultEndsTheReading(t *testing.T) {
	damaged := trueBatch(t, 0, 0, 1, 3)
	damaged[70] ^= 1
	future := trueBatch(t, 0, 0, 1, 3)
	future[atMagic] = 3
	backwards := trueBatch(t, 0, 0, 1, 3)
	binary.BigEndian.PutUint32(backwards[atLastDelta:], 1<<31)
	negative := trueBatch(t, 0, 0, 1, 3)
	binary.BigEndian.PutUint32(negative[atLength:], 1<<31)
	for name, b := range map[string][]byte{"checksum": damaged, "format": future, "offsets": backwards, "length": negative} {
		r, _ := readerOf(t, b, 3)
		_, err := r.decodePage()
		require.ErrorIs(t, err, errBroker, name)
	}
	for _, b := range [][]byte{trueBatch(t, 0, 0, 1, 3)[:100], {1, 2, 3}} {
		r, _ := readerOf(t, nil, 3)
		_, err := r.decodeAnswer(&fetchAnswer{size: len(b), batches: b, highWatermark: 3})
		require.ErrorIs(t, err, errBroker)
	}
}

// TestAFetchOfBombsTakesLittleMemory: a read may have 1,200 batches of 874 bytes with 4 M headers
// each. kafka-go takes 164 MB for each of them, at the same time. Under the race detector (short
// mode) a sync.Pool drops a quarter of the buffers that it gets.
func TestAFetchOfBombsTakesLittleMemory(t *testing.T) {
	limit := uint64(64 << 20)
	if testing.Short() {
		limit *= 2
	}
	for _, c := range codecs[1:] {
		bomb := HeaderBomb(c, 4<<20)
		var set []byte
		for i := int64(0); len(set)+len(bomb) < fetchBytes; i++ {
			binary.BigEndian.PutUint64(bomb, uint64(i))
			set = append(set, bomb...)
		}
		r, skipped := readerOf(t, set, 1<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Empty(t, readAll(t, r))
		runtime.ReadMemStats(&after)
		require.Len(t, skipped, len(set)/len(bomb))
		t.Logf("%v: %d batches, %d MB allocated", c, len(skipped), (after.TotalAlloc-before.TotalAlloc)/1e6)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, limit+uint64(len(skipped))*64<<10, "%v", c)
	}
}

// TestABlockOfSnappyTellsTheTruth: its length is no reason to take 4 GiB.
func TestABlockOfSnappyTellsTheTruth(t *testing.T) {
	block := append(binary.AppendUvarint(nil, 1<<32-1), 0)
	for _, src := range [][]byte{block, append(append([]byte(xerialMagic), make([]byte, 8)...), append([]byte{0, 0, 0, 6}, block...)...)} {
		_, err := new(inflater).inflate(kafkago.Snappy, src, nil)
		require.ErrorIs(t, err, errInflated)
	}
	cut := append(append([]byte(xerialMagic), make([]byte, 8)...), 255, 255, 255, 255)
	_, err := new(inflater).inflate(kafkago.Snappy, cut, nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestAnswersOfEveryVersionAreRead: as kafka-go writes them.
func TestAnswersOfEveryVersionAreRead(t *testing.T) {
	batch := trueBatch(t, 0, 7, 1, 3)
	for version := int16(firstFetchWithBatches); version <= 11; version++ {
		for _, keep := range []int{0, 100, fetchBytes} {
			var answered bytes.Buffer
			require.NoError(t, protocol.WriteResponse(&answered, version, correlation, &fetch.Response{
				Topics: []fetch.ResponseTopic{{Topic: "t", Partitions: []fetch.ResponsePartition{{Partition: 5, HighWatermark: 99,
					AbortedTransactions: []fetch.ResponseTransaction{{ProducerID: 1}, {ProducerID: 2}},
					RecordSet:           protocol.RecordSet{Version: 2, Records: kafkago.NewRecordReader(trueRecords(1, 3)...)}}}}}}))
			answered.WriteString("next")
			q := &fetchRequest{Request: &fetch.Request{}, keep: keep}
			q.Prepare(version)
			m, err := q.RawExchange(struct {
				io.Reader
				io.Writer
			}{&answered, io.Discard})
			require.NoError(t, err)
			answer := m.(*fetchAnswer)
			require.EqualValues(t, 99, answer.highWatermark)
			require.Equal(t, len(batch), answer.size)
			require.Equal(t, batch[batchHeader:][:max(0, min(keep, len(batch))-batchHeader)], answer.batches[min(keep, batchHeader):])
			require.Equal(t, "next", answered.String(), "the connection is behind the answer")
		}
	}
}

func FuzzBatches(f *testing.F) {
	for _, c := range codecs {
		f.Add(trueBatch(f, c, 0, 1, 3))
		f.Add(HeaderBomb(c, 100))
		f.Add(RecordBomb(c, 3))
	}
	f.Add(WindowBomb(27))
	f.Fuzz(func(t *testing.T, set []byte) {
		r, _ := readerOf(t, Checksummed(bytes.Clone(set)), 1<<40)
		for len(r.unread) > 0 {
			had := len(r.unread)
			p, err := r.decodePage()
			if err != nil {
				return
			}
			if len(r.unread) >= had || p.next < r.offset || p.records >= 2*fullEvents || p.bytes > fullBytes+2*MaxMessageBytes {
				t.Fatalf("unread %d of %d, next %d after %d, %d records, %d bytes",
					len(r.unread), had, p.next, r.offset, p.records, p.bytes)
			}
			r.offset = p.next
		}
	})
}

func FuzzInflate(f *testing.F) {
	for _, c := range codecs[1:] {
		f.Add(byte(c), Compress(c, []byte("abcabcabc")))
		f.Add(byte(c), Compress(c, make([]byte, 200<<10)))
	}
	f.Fuzz(func(t *testing.T, c byte, src []byte) {
		pieces := 0
		b, err := new(inflater).inflate(kafkago.Compression(c&compressionBits), src, func([]byte) error { pieces++; return nil })
		if err == nil && len(b) > MaxMessageBytes || len(b) > MaxMessageBytes+1 || pieces > 9 {
			t.Fatalf("%d bytes in %d pieces, %v", len(b), pieces, err)
		}
	})
}
