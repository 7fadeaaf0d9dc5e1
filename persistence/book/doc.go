// Package book is the ledger consumer: a double-entry read model of all balance streams in
// Postgres, for reporting. The streams are the book of record; the read model can be deleted and is
// then rebuilt from them.
//
// # Contents
//
// Accounts (workspace, name, currency), transfers (the part of a transfer group that one event
// moved: group, event, position, time, the event's type) and postings (amount in minor units, the
// account's gapless number, the account's balance after it). A credit is positive, a debit
// negative, as in the events: "usd" is the amount owed to the workspace, and grows by a credit. The
// book stores the content of the balance streams and no personal data.
//
// The database enforces the rules. Postings are inserted whole transfers at a time, and a trigger
// refuses transfers that do not sum to zero in each currency. Booked rows are never updated or
// deleted. Foreign keys tie a posting to its transfer and its account. Views show the rest in psql:
//
//	SELECT * FROM book.trial_balance; -- debits and credits per account and currency, added up from the postings
//	SELECT * FROM book.difference;    -- contradictions in the book; no rows in a sound book
//
// # Position
//
// Book is a consumer.Handler. Handle is one transaction. It moves the shard's position, which
// must be the one before the first event and which locks the shard. It reads the accounts, numbers
// the postings and adds them up in memory, and writes all of them with one INSERT of arrays per
// table. So a repeat, a second process or a lost answer to COMMIT ends in ErrMoved and books
// nothing.
//
// A page without postings is skipped. The first skip of a shard moves the position in a round trip
// of its own. Later skips stay in memory; they are written every Options.SkippedInterval, all
// shards in one statement, and by Close, without a sync. A shard that another session has locked is
// written the next time.
//
// The next booking accepts a stored position anywhere in the skipped range, because no event in it
// has postings. So a stored position never precedes a posting in the book. Another process sees
// skips up to one interval late. After a crash the lost skips are delivered again. While a write
// fails, Handle skips nothing and returns the error.
//
// An event with unreadable postings, or a transfer that does not balance, stops its shard for good
// with ErrUnsound. The subscription reports it to its listener, and the lag grows.
//
// # Incarnations
//
// The book stores the deployment and the incarnation of the journal. Another deployment's journal
// is refused with ErrForeign. A new incarnation (a restore) may lack events that are booked: in one
// transaction the book is emptied and starts again at position 0. An incarnation that the book has
// left is never followed again (ErrRetired), so that a process from before the restore cannot empty
// it.
//
// # Non-goals
//
// The book decides nothing and no request depends on it. It knows nothing of an account except its
// normal side.
package book
