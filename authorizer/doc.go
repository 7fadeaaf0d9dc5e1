// Package authorizer answers the card network. It decides swipes from memory, a write-ahead log and
// a local Pebble store, without a database, broker or actor, and keeps the decision log, the source
// of every decision for the rest of the system.
//
// # Contract
//
// An Engine is the only writer of its directory. Submit decides one message, and its answer may be
// sent once the decision is durable. An answered decision survives a crash, and a repeat of the
// message gets the same answer for RepeatDays. Only the answer "timeout", after AnswerWithin, is
// sent without a sync. It promises nothing: an entry of its own undoes the approval, and repeats
// are then answered "timeout" too. When a write or a sync of the log fails, the engine stops for
// good (Options.Fatal) and sends no answer, because later decisions may depend on the lost one. A
// message whose data cannot be read is declined.
//
// Rules and dollars arrive from the journal through Follow, which is durable when it returns: no
// later approval uses an older rule. Entries leave to the journal through OnSynced, ReadLog and
// MarkRelayed. A debit of the journal calls Reserve first. The three terms of a workspace's funds
// have one writer each (see Funds).
//
// The decision itself is the pure package authorizer/hold. Relaying, following, expiry and trimming
// belong to the caller's loops, which call ReadLog, Follow, Expire and Trim. The package knows no
// journal, and of tenants only their ids.
//
// # The life of a message
//
// Submit takes a place among MaxUnsynced, which bounds the records that wait for a sync. It then
// claims the message's network id, and that of the authorization it names. A second message with an
// id waits until the first is durable and finds its answer in the store. A new authorization whose
// data is in memory is decided on the caller's goroutine, which waits for no lock there. Any other
// message gets a goroutine, so that a slow read of the disk blocks no caller: it looks for a repeat,
// finds the shard, and takes the shard's lock. That one lock covers the rule, the spend, the funds,
// the sequence numbers and the commit. It keeps the log gapless and every decision up to date; with
// a lock per card, readers of the log saw holes. The log (persistence/wal) syncs the records of all
// shards in groups, outside the locks and in commit order.
//
// # The log and its projection
//
// A commit makes its changes visible in a table in memory (authorizer/memtable) and appends one
// record to the log, which is what the answer waits for. A decision's record is its entry of the
// decision log, with the few numbers that its effects need beside it; all other records are keys and
// values. When the table has projectBytes, its durable changes are written as sorted tables that
// Pebble takes over whole, with the number of the log's last record in them (projection.go). Pebble
// has no write-ahead log of its own. A start opens Pebble, replays the records behind its number
// and projects them. Of a key that was written many times Pebble gets the last value alone. The
// entries of one projection are a chunk, in a table of its own (chunks.go): they never overlap older
// ones, so no compaction writes them again.
//
// Readers ask the table first and Pebble then. What scans keys, such as Snapshot and Trim, projects
// first. Beside projections only deletions of old data reach Pebble directly. Their loss in a crash
// repeats them.
//
// Data outside the cache is read before the lock. Each shard counts its commits, and the data is
// valid while the counter is unchanged, so a freeze that overtakes a load is detected. After
// loadAttempts the read is made under the lock.
//
// # Files
//
// An Engine is the package's face: each exported method stands beside the part that does the work.
//
//	engine.go, options.go           the parts of an Engine, Open and Close
//	submit.go, claims.go            intake: a message from call to answer, claims of network ids
//	decide.go, answer.go            decider: a repeat, or a decision under the shard's lock
//	ticket.go, commit.go            committer: a place among MaxUnsynced, the commit, its record
//	returns.go                      returner: undoes approvals that were answered "timeout"
//	shard.go, log.go, cache.go      a shard's lock and inputs, its log, its hot cards and funds
//	change.go, record.go            an entry's stored effects, and the records of the log
//	keys.go, repeats.go, filter.go  the keys, the network ids, what memory knows of them
//	follow.go, reserve.go, funds.go the journal's rules and dollars, reservations, the three terms
//	required.go                     the positions that the journal must reach
//	expiry.go, retention.go         holds that are due, data whose time is over
//	snapshot.go                     the store at one moment, for the audit
//	rebuild.go, stricter.go         Rebuilder: fills a new store from the journal
//	anew.go                         FollowAnew: sets a closed store back to another journal
//	store.go, cold.go               log, table and Pebble as one store, the reads of cold data
//	projection.go, chunks.go        what Pebble gets of the table, the decision log in it
//	failstop.go, backlog.go, room.go, entropy.go
//	                                the stop after a failed commit, limits, random bits
//
// # Keys
//
// Numbers are big-endian; the values of b to e are authorizer/hold's encodings.
//
//	a                                        identity: format, shards, deployment, store
//	b chunk shard seq                        entry of the decision log
//	c hold                                   state of an authorization
//	d card                                   spend of the card's month
//	e token                                  rule
//	f workspace 0                            ledgerCents, written by Follow
//	f workspace 1                            cardCents and the workspace's sequence, written by decisions
//	f workspace 2                            reservedCents, the sum of g, written by Reserve, Release and Follow
//	g workspace reservation                  cents
//	h bucket route hash                      fingerprint, place in the log and answer of a message, the rest
//	                                         of an increment, or a tombstone
//	i shard expiry hold                      due index of the holds
//	j shard                                  journal position followed
//	k shard hour                             sequence relayed up to in that hour
//	l shard first                            last sequence of a run lost at a rebuild, and its time
//	m                                        present while FollowAnew is incomplete
//	n                                        for each shard the position that the journal must reach
//	o                                        number of the last record of the log that Pebble has
//	p chunk                                  last sequence of each shard with this chunk, its newest time
//
// A swipe writes at most six keys: b, c, d, f1, h, i. A moved expiry leaves its old i, which Expire
// drops at its time. A reversal that arrives before its authorization is an entry of the system's
// workspace. It writes the authorization's h as a tombstone, so that the look-up for a repeat finds
// it.
//
// # Repeats
//
// A bucket covers repeatBucketDays, so that at most four are live. Each has a Bloom filter in memory
// (filter.go), which knows that an id is new without a look-up: one was a quarter of a decision's
// processor time. After a start a goroutine reads the stored ids into the filters. Until it has read
// a bucket, and for buckets beyond maxFilterBytes, Pebble is asked, whose tables have filters too.
// One range deletion drops an old bucket, so an id is remembered for 30 to 40 days. The answer is
// stored with the id, because the log is trimmed earlier.
//
// # Retention
//
// Trim drops the entries of a shard in a chunk KeepRelayed after the last of them was relayed,
// buckets of network ids, and authorizations without a held amount that are older than KeepHolds.
// Ids are in time order, so it reads only the dropped ones. BenchmarkBytesPerSwipe (-benchtime
// 500000x) measures the bytes of an approval of ordinary size in the compacted store: 88 of log, 62
// of repeats, 42 of hold, 11 of due index, 203 together. So 50 million swipes are 10.1 GB on the
// day, 2.1 GB after log, repeats and due index are trimmed, and nothing after KeepHolds. The journal
// keeps their events and records for good.
//
// # Start
//
// Open reads the identity, one key per live bucket and two per shard, and replays at most the
// records of maxUnprojected bytes of changes. It reads no card, so its time does not depend on their
// number. All visible data is durable when it returns.
package authorizer
