package book

// SQLSTATE codes that the book handles.
const (
	undefinedTable  = "42P01"
	undefinedSchema = "3F000"
	checkViolation  = "23514"
)

// Prepare.
const (
	sqlPrepareLock = `SELECT pg_advisory_xact_lock($1)`

	// CREATE SCHEMA IF NOT EXISTS needs the right to create schemas even when the schema exists.
	sqlCreateSchema = `DO $$ BEGIN IF to_regnamespace('book') IS NULL THEN CREATE SCHEMA book; END IF; END $$`

	sqlStore           = `SELECT deployment, store FROM book.store`
	sqlTakeIncarnation = `INSERT INTO book.incarnation (store) VALUES ($1) ON CONFLICT DO NOTHING`

	// The order of the tables is that of Handle, so that the two cannot deadlock.
	sqlEmpty    = `TRUNCATE book.shard, book.account, book.transfer, book.posting RESTART IDENTITY`
	sqlSetStore = `INSERT INTO book.store (deployment, store) VALUES ($1, $2)
ON CONFLICT (one) DO UPDATE SET store = excluded.store`
	sqlSetShards = `INSERT INTO book.shard (id, store, position) SELECT n, $1, 0 FROM generate_series(0, $2 - 1) n`
)

// sqlLockFree locks those of the given shards that no other session has locked.
const sqlLockFree = `SELECT id FROM book.shard WHERE id = ANY($1::smallint[]) FOR NO KEY UPDATE SKIP LOCKED`

// The statements of a Handle, in this order. An argument in the plural is one array per column.
const (
	// sqlMove locks the shards until the end of the transaction, and matches only when the events
	// are the next ones.
	sqlMove = `UPDATE book.shard s SET position = q.through
FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS q (id, after, until, through)
WHERE s.id = q.id AND s.store = $1 AND s.position BETWEEN q.after AND q.until RETURNING s.id`

	sqlOpenAccounts = `INSERT INTO book.account (shard, workspace, name, currency, side)
SELECT $1, q.* FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS q (workspace, name, currency, side)
ON CONFLICT (workspace, name, currency) DO NOTHING`

	sqlAccounts = `SELECT q.n, a.id, a.balance, a.entries
FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS q (workspace, name, currency, n)
JOIN book.account a ON a.shard = $1 AND a.workspace = q.workspace AND a.name = q.name AND a.currency = q.currency`

	sqlInsertTransfers = `INSERT INTO book.transfer (shard, position, ordinal, id, event, kind, at)
SELECT $1, q.* FROM unnest($2::bigint[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
    AS q (position, ordinal, id, event, kind, at)`

	sqlInsertPostings = `INSERT INTO book.posting (shard, position, leg, ordinal, account, currency, number, at, amount, balance)
SELECT $1, q.* FROM unnest($2::bigint[], $3::integer[], $4::integer[], $5::bigint[], $6::text[], $7::bigint[], $8::timestamptz[],
    $9::bigint[], $10::bigint[]) AS q (position, leg, ordinal, account, currency, number, at, amount, balance)`

	sqlSetBalances = `UPDATE book.account a SET balance = q.balance, entries = q.entries
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS q (id, balance, entries) WHERE a.id = q.id`
)

// Reads.
const (
	sqlShard = `SELECT store, position FROM book.shard WHERE id = $1`

	sqlStanding = `SELECT s.position, COALESCE(a.workspace, ''), COALESCE(a.name, ''), COALESCE(a.currency, ''),
    COALESCE(a.side, ''), COALESCE(a.balance, 0), COALESCE(a.entries, 0)
FROM book.shard s LEFT JOIN book.account a ON a.shard = s.id WHERE s.id = $1`

	entryColumns = `p.position, p.leg, a.workspace, a.name, p.currency, t.id, t.event, t.kind, p.at, p.number, p.amount, p.balance`
	entryTables  = `book.posting p JOIN book.account a ON a.id = p.account
JOIN book.transfer t ON t.shard = p.shard AND t.position = p.position AND t.ordinal = p.ordinal`

	sqlLines = `SELECT ` + entryColumns + ` FROM ` + entryTables + `
WHERE p.shard = $1 AND (p.position, p.leg) > ($2, $3) AND p.position <= $4 ORDER BY p.position, p.leg LIMIT $5`
)
