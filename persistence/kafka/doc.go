// Package kafka publishes the journal's events to one topic of Apache Kafka and gives them to
// consumers from there: a Publisher (the outbox) and a consumer.Subscription.
//
// # The topic
//
// purser.events.v1 has 32 partitions; the partition of an event is its shard mod 32, and neither
// ever changes on a live topic. The program makes the topic when it is missing and refuses one with
// another number of partitions or too small a message. A message's key is the workspace id, its
// value the payload as stored, byte for byte. Its headers are those of CloudEvents 1.0 in binary
// mode (content-type, ce_specversion, ce_id, ce_type, ce_source, ce_time) and, to rebuild the event
// exactly, purser-store, purser-shard, purser-position, purser-kind, purser-stream and
// purser-version. The header purser-proof is for Purser's own consumers.
//
// # Promises
//
// The topic has every event of a shard, in the order of positions, leaving out repeats. A publisher
// keeps a cursor in the journal. The backlog for Kafka is the journal after that cursor, so no
// queue grows when Kafka is down, and no event is skipped. Kafka acknowledges a request when all
// replicas in sync have it. The cursor is saved after, about every second, so a crash repeats about
// a second of events. A lost acknowledgement repeats a batch. kafka-go has no idempotent producer.
//
// A consumer in another language keeps one position per shard, drops events at or below it, and
// ignores messages of another purser-store: after a restore from a backup a journal is another
// store and gives positions anew.
//
// kafka-go's Writer was not used, for two reasons. It queues batches, and when one has failed for
// good it continues with the next: a gap in the topic. And it holds back every batch that is not
// full for its timeout. Here each partition has one lane with one request in flight; events that
// arrive meanwhile are the next batch. After a request that leaves no event waiting, a lane begins
// none until Linger (100 ms) after its start, so a lone event leaves at once and a stream in
// batches.
//
// # Reading
//
// The subscription reads the partitions without a consumer group: its position is the handler's
// positions alone, a restart waits for no session to expire, and the owner of a shard reads it.
// When it starts on a partition it takes the topic's end, reads each shard from the journal up to
// the head, and continues in the topic from that end: events that are not in the journal then are
// published after it. The topic is thus the live tail, and its retention may be short.
//
// A gap is filled from the journal. So is a shard whose newest events did not come within
// CheckEvery although the reader is at the end or cannot reach Kafka: lost messages and an absent
// Kafka delay a consumer by that time, no more. A shard whose handler fails drops the messages of
// the topic and reads the journal after its pause, so that it delays and keeps nothing. A Handle
// that takes long does delay the seven other shards of its partition.
//
// # Proof
//
// A program that may produce to the topic can write any message. A consumer therefore acts only on
// a message whose proof checks. The header purser-proof is "1", the run of the process that
// published the message, and an HMAC-SHA256 in hexadecimal digits. The HMAC covers the run, the
// deployment, the store, the shard, every field of the event, and the payload. DeriveKey derives
// its key from the data key of the deployment. Reading each event from the journal instead would
// make the topic a mere alarm clock, and would cost the journal one read per consumer; the HMAC
// costs a few microseconds.
//
// A message with a wrong proof is ErrForged and has no effect: it moves no position, so the true
// event is taken when it comes. A message without a proof, or with that of an earlier run, is
// ErrUnproven: the journal may have lost that event since, for example when a standby of Postgres
// was promoted. Its shard is read from the journal once for each page that has such messages. The
// listener counts both kinds.
//
// # Memory
//
// The records of a batch come from its producer. A consumer therefore reads the batches of an
// answer itself, one after another: kafka-go decodes all of them at once into structs, and 874
// bytes of compressed headers become 164 MB. Nothing is allocated by a count or a length before it
// is checked. The bounds:
//
//	bytes from Kafka       fetchBytes for each partition; up to MaxMessageBytes, for one large
//	                       batch, in maxLargeReads readers of a Topic at a time
//	inflated bytes         MaxMessageBytes, in maxInflaters batches of a Topic at a time; besides,
//	                       a window of Zstandard of at most as much
//	records of a batch     fullEvents
//	headers of a record    maxHeaders; the memory of one record's headers serves all of them
//	events of a page       those whose proof checks, from batches of fullBytes as sent and as
//	                       inflated, or of fullEvents records, and one batch more
//
// A page is the events that are decoded at a time and given to the handlers. The rest of an answer
// stays as Kafka sent it. A batch over a bound, or with records that cannot be read, or in a
// message format before version 2, which has no headers, is refused as a whole: the listener gets
// ErrForged once, and the reader continues behind the batch's last offset, for which the broker
// vouches. No true event is in such a batch. When a page had messages without effect, CheckEvery
// holds although the end is not reached: a producer that floods the topic delays a consumer by that
// time.
//
// A batch with a wrong checksum, or with offsets that go backwards, is the broker's fault. The
// reader then takes the events from the journal and continues at the end of the partition.
//
// # A topic that is another one
//
// kafka-go asks for no topic ids. A partition only grows, so the publisher compares the offset of
// each batch with the end of the batch before it, and a reader compares the end of the partition
// with the last offset that it read. When the end has moved back, the topic was made anew or Kafka
// lost acknowledged messages: the listener gets TopicReplaced. Consumers read missing events from
// the journal, and publishing continues with the next event.
//
// # Limits
//
// The journal's largest payload is 8 MiB. The topic's max.message.bytes is set to MaxMessageBytes,
// which holds it with its headers, and a request is at most that. When an operator lowers it on the
// live topic and an event does not fit, its partition stops there, with every try reported to the
// listener, until it is raised: to skip it would break the order for every reader. The broker's
// socket.request.max.bytes (100 MiB by default) has to be larger still.
//
// # Outside its scope
//
// The package decodes no payload, compresses nothing (set compression.type on the topic, with
// compression.zstd.level up to 19) and deletes nothing.
package kafka
