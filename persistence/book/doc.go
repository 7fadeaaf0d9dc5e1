// Package book is the ledger consumer: a double-entry read model of all balance streams in Postgres, for reporting. The streams
// are the book of record; what is here can be thrown away and is made again from them.
//
// # What it keeps
//
// Accounts (workspace, name, currency), transfers (the part of a transfer group that one event moved: group, event, position,
// time, the event's type) and postings (amount in minor units, the account's gapless number, the account's balance after it). A
// credit is positive, a debit negative, as in the events: "usd" is what is owed to the workspace, and grows by a credit. It
// keeps what the balance streams say and nothing of a person.
//
// The server itself holds the rules: postings are inserted whole transfers at a time and a trigger refuses those that do not
// sum to zero in each currency; what is booked is never updated or deleted; foreign keys tie a posting to its transfer and its
// account. Anybody with psql can check the rest:
//
//	SELECT * FROM book.trial_balance; -- debits and credits per account and currency, added up from the postings
//	SELECT * FROM book.difference;    -- what contradicts itself; no rows in a sound book
//
// # How it follows
//
// Book is a persistence.Handler. Handle is one transaction: it moves the shard's position, which must be the one before the
// first event and which locks the shard, reads the accounts that are moved, numbers the postings and adds them up in memory,
// and writes all of them with one INSERT of arrays per table. So a repeat, a second process or a lost answer to COMMIT ends in
// ErrMoved and books nothing.
//
// A page that has nothing to book is passed over. The first of a shard moves the position in a round trip of its own, later ones
// are kept in memory and written every postgres.BehindEvery, all shards in one statement, and by Close; none waits for the disk.
// A shard that somebody holds is left for the next time.
// The next booking moves the position from wherever in what was passed the server has it: nothing in between books anything,
// whoever handles it. So a position that is stored is never before a posting that is in the book. Another process sees what was
// passed a moment late; what a crash takes away of it is delivered again. While it cannot be written, Handle passes nothing and
// answers why.
//
// An event with postings that cannot be read, or a transfer that does not balance, stops its shard with ErrUnsound, for ever:
// the subscription tells its listener, and the lag grows.
//
// # Whose journal
//
// The book remembers the deployment and the incarnation of the journal. Another deployment's is refused with ErrForeign. A new
// incarnation (a restore) may have lost events that are booked: in one transaction the book is emptied and starts again at
// position 0. An incarnation that was left is never followed again (ErrRetired), so that a process of before the restore cannot
// empty it once more.
//
// # What it does not do
//
// It decides nothing and no request depends on it. It does not know what an account means, apart from the side on which it
// normally stands.
package book
