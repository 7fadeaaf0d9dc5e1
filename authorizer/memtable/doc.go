// Package memtable holds the authorizer's changes that its write-ahead log has and its Pebble store
// does not have yet: the last value of each key, and the entries of the decision log in order.
//
// # Contract
//
// A Table has two generations. Commits write to the active one. A projector freezes it, writes the
// frozen one into the store, and drops it. A reader asks the Table before the store: what the Table
// has is newer. A key that was dropped is in the store, so a reader that asks in this order misses
// nothing.
//
// A commit brackets its record in the write-ahead log and its keys with Begin and End. Freeze waits
// for the commits that have begun, so a generation holds whole commits: all those up to one number
// of the write-ahead log, and none after it.
//
// The caller orders the writes of one key, by the lock of a shard or the claim of a network id. The
// Table orders nothing: the last write of a key counts.
//
// # Memory
//
// Keys and values lie in the arenas of stripes, which the next generation uses again. The garbage
// collector sees a few slices instead of a map's million entries, and a write allocates nothing
// once the arenas have grown. Bytes returns the size of both generations. The caller bounds it: a
// Table has no limit of its own.
//
// # Files
//
//	table.go       generations, commits, the life of a frozen one
//	stripe.go      the hash table of one stripe
//	entries.go     the decision log of a shard
//	sorted.go      the keys of a frozen generation in order
package memtable
