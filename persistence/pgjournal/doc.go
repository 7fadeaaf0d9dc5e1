// Package pgjournal keeps the journal of package persistence in a Postgres database (14 or later).
//
// # Commit
//
// Shards are divided among one to four lanes, by the number of processors: a transaction costs
// about the same whatever its size. A lane has one connection and commits one transaction after
// another. Appends that arrive during a transaction share the next one (group commit), up to
// commitBatches batches or commitBytes bytes. A transaction is three round trips, and two more when
// there are so many events that CopyFrom is faster than an INSERT of arrays:
//
//  1. BEGIN; lock the rows of its shards in journal_shard, in the order of their numbers; read the
//     versions of the streams and the idempotency keys that its batches name, one query each;
//  2. drop the batches that lose, in memory; move the heads (UPDATE … WHERE id, epoch and head are
//     those of the locked rows), then write events, versions, records, idempotency keys and timers;
//  3. COMMIT.
//
// Moving the heads without locking them first would save nothing: the new heads are known only
// after the losers are dropped, and the lock makes every later read current. The locked row is
// fence, lease and gapless position in one: a transaction of another epoch finds a row that does
// not match.
//
// Postgres may refuse a value (malformed JSON, a string with U+0000 or that is not UTF-8: SQLSTATE
// classes 22, 23 and 54). Then the batches of the transaction are committed one by one, and only
// the bad one gets ErrRefused. Any other error before COMMIT is ErrUnavailable, and nothing was
// changed. After COMMIT is handed to the connection, only its own answer or a plain ERROR shows the
// outcome. Everything else is ErrAmbiguous, and the lane does not retry.
//
// # Fencing
//
// Raise waits for the same row locks, hence for every transaction of an earlier epoch that holds
// them. A later transaction finds the new epoch. A transaction whose client is gone, or whose
// COMMIT is delayed, keeps its locks. After Options.EvictAfter the server names the blocking sessions
// (pg_blocking_pids) and ends those of a journal. The alternative, a process id in the shard's row,
// could belong to another session by the time it is read. When Raise returns, a COMMIT that was
// delayed anywhere meets a session that no longer exists.
//
// Two processes that take the same shards in turn would each continue from their own memory, and
// their authorizers would spend the same money twice. So a process takes a shard over only once.
// After that it knows its own epochs. A higher one, found by a lane, a Raise or the heads read
// every pollInterval, belongs to another process and is reported to Options.Fatal. A head behind
// the commits that this process has seen is reported too: a standby without them took over.
//
// # Tables
//
// journal_event is partitioned by ranges of 16 shards. Ranges of positions would need new
// partitions for ever, and a write without a partition fails; events are never removed, so that no
// partition could be dropped. By shard, all partitions exist from the first day, a read touches
// one, and a node that owns some shards touches its own.
//
// Payloads and documents are json, not jsonb: they come back byte by byte, "\u0000" and repeated
// members included. All reads use an index, and the sessions turn other plans off. Times are kept
// to the microsecond. Long payloads are compressed by lz4, if the server supported it when the
// schema was migrated.
//
// # Reads
//
// Postgres shows a commit to others before its own client learns of it. So a read of documents
// reads the head of the shard after them, in the same round trip, and publishes it first: no
// returned document is newer than the head. Head itself answers from memory. An append of this
// process wakes WaitAdvance at once. For appends of other processes the heads are read every
// pollInterval during a WaitAdvance. NOTIFY would be faster, but all commits that notify take one
// lock of the whole server in turn.
//
// Single records, of which an answer needs one or two, are read by as many readers as there are
// lanes, one round trip at a time. Lookups that arrive meanwhile share the next round trip, because
// a round trip costs about the same whatever its size. If the server refuses one, it is repeated
// lookup by lookup, so that only a malformed id fails.
//
// recordCache (record_cache.go) holds recently read records of the shards that this process owns,
// including its own later commits. The epoch excludes other writers. A cached record is served only
// within recordsTrustedFor after the server has confirmed the epoch, as every read of a head does.
// So a process that is cut off from the server shows data from before its successor for no longer
// than that. The cache is not used under AsStored, nor by a process that owns no shard.
//
// The newest events stay in memory after their commit (tail.RecentEvents), so that a reader
// near the head needs no query.
//
// Timers queries the server only past an instant kept in memory (tail.TimerHorizon), before
// which no timer is due. A process knows the timers of the shards that it has raised.
//
// # Cursors
//
// Cursors are written behind. The first save of a cursor by this process waits for the server.
// Later ones stay in memory and are written every Options.CursorInterval, all changed ones in one
// statement, without a sync. Close and Snapshot write them too. While a write fails, saves are
// refused, so that a subscriber does not get further ahead of its stored cursor. A crash loses the
// cursors of the last interval, which the contract allows. Cursor returns the value in memory;
// under AsStored, and in another process, it returns the stored one. Before a write the heads are
// read, so that a fenced process does not overwrite its successor's cursors.
//
// # Refusals
//
// Connecting sets synchronous_commit=on, and refuses a server with fsync or full_page_writes off.
// Besides the limits of the contract, the strings of one index key together may have indexBytes
// bytes: kind, workspace and parent of a record; kind, stream and key of a timer.
//
// # Non-goals
//
// The package does not decode payloads, remove events, choose the owner of a shard, or retry an
// Append. It replaces a lost connection when the next call needs it.
package pgjournal
