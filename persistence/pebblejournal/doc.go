// Package pebblejournal keeps the journal of package persistence in one Pebble store in a
// directory: the journal of a Purser that runs without Postgres.
//
// # Promises
//
// One Append is one batch of package pebblelog (more than one only above 32 MiB), so a batch of
// the journal is there whole or not at all. Nothing is shown before it is durable: not the head,
// not an event, not a record. Pebble shows an applied batch at once, before its sync, so the
// package has to hide it. Three ways were weighed:
//
//   - take a snapshot before each apply and let reads use it until the sync is done: reads never wait,
//     but every commit takes Pebble's one mutex twice more, and closing a snapshot looks for a
//     compaction;
//   - keep commits in flight in an overlay: fast, but a second copy of every table's logic;
//   - hold the shard's lock from the checks to the end of the sync, and let a read take that lock
//     shared for the moment in which it opens its view of the store.
//
// The package does the last. A read of a shard therefore waits for at most the one commit that
// is under way there, an Append of a shard for the one before it, and the 256 shards share the
// groups of the log. Events are never rewritten, so they are read without the lock, up to the
// published head. Measured on two cores: a record of an idle shard 0.8 µs; of a shard that
// commits without a pause 150 µs (99th percentile 300), where one commit took 165.
//
// Append asks the store only for keys that its group has not read yet: groupCache holds the lookups
// and the staged writes, which no other writer can change under the shard's lock, so the Pebble
// batch needs no index. Keys that are mostly new (once-keys, timers, streams that begin) are looked
// up through one iterator over the Bloom filters of all levels, which is closed before the sync.
// Keys that mostly exist (records, later events of a stream) are read by Pebble's Get, which ends
// at the newest level: the iterator would read a block of every level that has the key. A record
// whose writer says that it is new is not looked up. "go test -bench AppendRelayed" measures it.
//
// A failed commit stops the journal for good: the batch is answered ErrAmbiguous, every later one
// ErrUnavailable, and Options.Fatal is called, which should end the process. Pebble keeps a failed
// batch visible in memory, so a later read would show it. Some failures end the process by Pebble
// itself: it panics in its own goroutine when it cannot sync the directory or close a log.
//
// # Keys
//
// The first byte is the table, the second the shard. "lp" is a string after its length as a uvarint: such a part is only
// ever compared for equality. A part without it is last and keeps the order of its bytes. Integers are big-endian, times
// are seconds (sign bit flipped) and nanoseconds, "^" is the complement, for newest first. An event's payload of
// 1 KiB or more is an S2 block (layout 2 of its value), unless that saves less than an eighth.
//
//	m                                                     format, layout, deployment, store
//	h shard                                               position, epoch, last ordinal
//	e shard position                                      an event
//	v shard lp(kind) stream                               the stream's version
//	r shard lp(kind) id                                   a record
//	l shard lp(kind) lp(workspace) lp(parent) ^position ^ordinal   the id of a record, for lists
//	o shard lp(scope) hash                                a once
//	x shard expires lp(scope) hash                        onces by expiry, for Sweep
//	t shard lp(kind) lp(stream) key                       a timer's due time
//	d shard due lp(kind) lp(stream) key                   a timer, by due time
//	c shard name                                          a cursor
//	w                                                     where the journal went, once it has moved
//
// A record's position is that of its batch's last event, or the head's when it has none; its ordinal counts from 1 the records
// first written at that position, so that no two records of a shard share both and neither pair is the zero Page.
//
// # Outside its scope
//
// The package does not decode payloads, keep a batch back, retry, or replicate. Two processes
// cannot open one directory.
package pebblejournal
