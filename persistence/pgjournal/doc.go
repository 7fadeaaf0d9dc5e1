// Package pgjournal keeps the journal of package persistence in a Postgres database (14 or later).
//
// # A commit
//
// Shards are dealt to one to four lanes, by the number of processors: a transaction costs about the same whatever is in it. A
// lane has one connection and commits one transaction after another; all that was appended to its shards meanwhile goes into the
// next (group commit), up to commitBatches batches or commitBytes bytes. A transaction is three round trips, and two more when
// there are so many events that CopyFrom is faster than an INSERT of arrays:
//
//  1. BEGIN; lock the rows of its shards in journal_shard, in the order of their numbers; read the versions of the streams and
//     the once-keys that its batches name, one query each;
//  2. drop the batches that lose, in memory; move the heads (UPDATE … WHERE id, epoch and head are those of the locked rows),
//     then write events, versions, records, once-keys and timers;
//  3. COMMIT.
//
// Moving the heads at once, without locking them first, would save nothing: how far they move is known only when the losers are
// dropped, and by the lock everything that is read after it is the newest. The locked row is fence, lease and gapless position
// in one: a transaction of another epoch finds a row that is not its own.
//
// When Postgres refuses what is in a transaction (malformed JSON, a string with U+0000 or that is not UTF-8: SQLSTATE classes
// 22, 23 and 54) its batches are committed again one by one, and the bad one alone gets ErrRefused. Any other error before
// COMMIT was sent is ErrUnavailable, and nothing was changed. From the moment at which COMMIT is handed to the connection, only
// COMMIT's own answer or a plain ERROR says what happened; everything else is ErrAmbiguous, and the lane tries nothing again.
//
// # The fence
//
// Raise waits for the same row locks, so for every transaction of an earlier epoch that was let in, and whoever comes later
// finds the new epoch. A transaction whose client is gone, or whose COMMIT is still on its way, holds its locks; after
// evictAfter the server is asked who stands in the way (pg_blocking_pids) and ends those sessions if they are a journal's. The
// alternative, a process id kept in the shard's row, would be read after its session ended and be another's by then. When Raise
// returns, a COMMIT that was delayed anywhere meets a session that no longer exists.
//
// Two processes that take the same shards in turn would each go on from what it has in memory, and their authorizers would spend
// the same money twice. So a process takes a shard over only the first time. Later it knows which epochs are its own; what it
// finds beyond them, in a lane, in a Raise, or in the heads that are read anyway every pollInterval, is another's and is told to
// Options.Fatal. So is a head that is behind what this process has seen committed: a standby took over that lacked it.
//
// # Tables
//
// journal_event is partitioned by ranges of 16 shards. By ranges of positions it would need new partitions for ever, and a write
// that finds none fails; events are never removed, so that there is nothing to gain from dropping an old one. By shard the
// partitions are complete on the first day, a read touches one, and a node that owns some shards touches its own.
//
// Payloads and documents are json, not jsonb: they come back byte by byte, "\u0000" and repeated members included. The journal is
// read by index only, and its sessions tell the planner so. Times are kept to the microsecond. Payloads that are long enough to
// be packed are so by lz4, where the server was built with it when the schema was brought up to date.
//
// # Reads
//
// Postgres shows a commit to others before its own client hears of it. So a read of documents reads the shard's head after them,
// in the same round trip, and shows it first: nothing that is seen is above the head. Head itself answers from memory. Wait is
// woken by this process's appends at once; for those of others the heads are read every pollInterval while somebody waits.
// NOTIFY would be quicker, but all commits that notify take one lock of the whole server in turn.
//
// Single records, of which an answer needs one or two, are read by as many readers as there are lanes, a round trip at a time:
// what is asked for meanwhile goes into the next. A round trip costs about the same whatever is in it. One that the server
// refuses is repeated lookup by lookup, so that a malformed id fails alone.
//
// Those that were asked for of late, in shards that this process holds, are kept in memory with what it commits to them
// (records.go): the epoch makes that nobody else does. They are answered only while the server has said within recordsTrusted
// that the epoch is still this process's, as every read of a head does: whoever is cut off from it shows nothing of before its
// successor for longer. What is there is nothing under AsStored, and in a process that holds no shard.
//
// The newest events are kept in memory as they were committed (persistence.RecentEvents): whoever follows the head asks the server for
// none.
//
// Timers asks the server only past an instant kept in memory (persistence.TimerHorizon), before which nothing is due; a process knows the
// timers of the shards it has raised.
//
// # Cursors
//
// The places of subscribers are written behind: the first save of a place by this process waits for the server, later ones are
// kept in memory and written every postgres.BehindEvery, all that have moved in one statement, without a sync. Close and Snapshot
// write them too. While they cannot be written a save is refused: a subscriber that went on would leave its place behind for as
// long. A crash loses the last moments of them, which the contract allows. Cursor knows what is kept; under AsStored, and in
// another process, it shows what was written. Before a write the heads are read: who was succeeded puts back nothing.
//
// # What is refused
//
// Connecting sets synchronous_commit=on, and refuses a server with fsync or full_page_writes off. Besides the limits of the
// contract, the strings of one index key together may have indexBytes bytes: kind, workspace and parent of a record; kind,
// stream and key of a timer.
//
// # What it does not do
//
// It does not decode payloads, remove events, choose who owns a shard, or retry an Append; it makes a lost connection anew when
// the next call needs it.
package pgjournal
