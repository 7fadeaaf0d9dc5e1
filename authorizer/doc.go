// Package authorizer answers the card network: it decides swipes from memory and a local Pebble store, with no database,
// broker or actor on the way, and keeps the decision log from which everything else learns of them.
//
// # Contract
//
// An Engine is the only writer of its directory. Submit decides one message; its answer leaves when the decision is durable.
// What was answered survives a crash, and a repeat of the message is answered the same for RepeatDays. There is one answer
// that is given without a sync: "timeout", after AnswerWithin. It promises nothing; what had been approved is taken back by
// an entry of its own, after which repeats are answered "timeout" as well. When a commit or a sync fails the engine stops
// for good (Options.Fatal) and no answer leaves, because Pebble keeps a failed batch visible and whatever is decided after
// it may rest on what is lost. What cannot be read is declined.
//
// Rules and dollars come in from the journal through Follow, which is durable when it returns: no approval is decided
// against an older rule afterwards. Entries go out to the journal through WaitSynced, ReadLog and MarkRelayed. A debit of
// the journal asks Reserve first. The three terms of a workspace's funds have one writer each (see Funds).
//
// The package does not decide: what follows from a message is authorizer/hold's, pure. It does not relay, follow, expire or
// trim by itself: the caller's loops call ReadLog, Follow, Expire and Trim. It knows no journal and no tenant beyond the
// ids.
//
// # The life of a message
//
// Submit takes a place among MaxUnsynced (one limit for the store, so that Pebble never blocks a commit under a lock), then
// claims the message's network id, and that of the authorization it names. Who comes second with an id waits until the first
// is durable and then finds its answer in the store. A decider takes the ticket from there, so that a stalled disk holds up
// no caller; it looks for a repeat, finds the shard, and takes the shard's lock. Under the one lock lie the rule, the spend,
// the funds, the sequence numbers and the commit, which makes the log gapless and every decision as new as the last: with a
// lock per card a reader of the log saw holes. The sync is waited for outside, by one goroutine for all shards: commits are
// synced in the order in which they were applied.
//
// What is not in the cache is read before the lock. Each shard counts its commits; what was read holds if the counter stands
// where it stood, so a freeze that overtakes a load is seen. After loadAttempts the read is made under the lock.
//
// # Keys
//
// Numbers are big-endian; the values of b to e are authorizer/hold's encodings.
//
//	a                                        identity: format, shards, deployment, store
//	b shard seq                              entry of the decision log
//	c hold                                   authorization as it stands
//	d card                                   spend of the card's month
//	e token                                  rule
//	f workspace 0                            ledgerCents, written by Follow
//	f workspace 1                            cardCents and the workspace's sequence, written by decisions
//	f workspace 2                            reservedCents, the sum of g, written by Reserve, Release and Follow
//	g workspace reservation                  cents
//	h bucket route hash                      fingerprint, place in the log and answer of a message, or a tombstone
//	i shard expiry hold                      due index of the holds
//	j shard                                  journal position followed
//	k shard hour                             sequence relayed up to in that hour
//	l shard first                            last of a run of sequences that a rebuild found lost, and when
//	m                                        there while FollowAnew is not through
//
// A swipe writes at most six: b, c, d, f1, h, i. A moved expiry leaves its old i behind, which Expire drops when its time
// comes. A reversal that comes before its authorization is an entry of the system's workspace and writes the h of the
// authorization as a tombstone: the one look-up for a repeat finds it.
//
// # Repeats
//
// The obvious design is a bucket per day with a Bloom filter of each in memory. It costs 12 bits per message of a month, or
// a scan of all of them at every start. Here a bucket is repeatBucketDays long, so that at most four are alive, and the
// filters are those of Pebble's tables, which are read as they are needed: a new message costs one look-up per bucket that
// holds anything. An old bucket is dropped by one range deletion; an id is thus remembered for 30 to 40 days. The answer is
// kept with the id, for the log is trimmed earlier.
//
// # Retention
//
// Trim drops log entries KeepRelayed after they were relayed, buckets of network ids, and authorizations that hold nothing any
// more and are older than KeepHolds; ids are in the order of time, so that it reads what it drops. BenchmarkBytesPerSwipe
// (-benchtime 500000x) has what an approval of ordinary size leaves in this store, compacted: 88 bytes of log, 62 of repeats, 42
// of hold, 11 of due index, 203 together. So 50 million swipes are 10.1 GB here on the day, 2.1 GB once log, repeats and due
// index have had their time, and nothing after KeepHolds. The journal has their events and records besides, for good.
//
// # Start
//
// Open reads the identity, one key per live bucket and three per shard; no card is read, be there ten or ten million. What
// Pebble recovers from its write-ahead log it syncs before Open returns: all that is visible then is durable.
package authorizer
