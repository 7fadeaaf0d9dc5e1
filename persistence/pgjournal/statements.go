package pgjournal

// SQLSTATE codes that the journal handles. A class is the first two characters.
const (
	undefinedTable = "42P01"

	classData       = "22" // a value is malformed
	classConstraint = "23"
	classLimit      = "54" // a value or an index key is too large
)

// The stamp of a store.
const (
	sqlStamp    = `SELECT format, slots, shards, deployment, store FROM journal_store`
	sqlSchema   = `SELECT COALESCE(max(version_id), 0) FROM journal_version WHERE is_applied`
	sqlSetStamp = `INSERT INTO journal_store (format, slots, shards, deployment, store)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
)

// The statements of a lane's transaction, in this order. Arguments are one array per column.
const (
	sqlBegin = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`

	// sqlLockShards waits for the row locks of the shards. Under READ COMMITTED, later statements
	// see every commit before they begin. The order by id excludes deadlocks.
	sqlLockShards = `SELECT id, epoch, head, ordinal FROM journal_shard WHERE id = ANY($1::smallint[]) ORDER BY id FOR NO KEY UPDATE`

	sqlVersions = `SELECT s.shard, s.kind, s.stream, s.version
FROM unnest($1::smallint[], $2::text[], $3::text[]) AS q (shard, kind, stream)
JOIN journal_stream s ON s.shard = q.shard AND s.kind = q.kind AND s.stream = q.stream`

	sqlClaims = `SELECT o.shard, o.scope, o.hash, o.fingerprint, o.expires, o.answer
FROM unnest($1::smallint[], $2::text[], $3::bytea[]) AS q (shard, scope, hash)
JOIN journal_once o ON o.shard = q.shard AND o.scope = q.scope AND o.hash = q.hash`

	sqlMoveHeads = `UPDATE journal_shard s SET head = q.head, ordinal = q.ordinal
FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS q (id, epoch, was, head, ordinal)
WHERE s.id = q.id AND s.epoch = q.epoch AND s.head = q.was`

	sqlInsertEvents = `INSERT INTO journal_event (shard, position, id, workspace, kind, stream, version, type, at, size, payload)
SELECT shard, position, id, workspace, kind, stream, version, type, at, size, NULLIF(payload, '')::json
FROM unnest($1::smallint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::timestamptz[],
    $10::integer[], $11::text[]) AS q (shard, position, id, workspace, kind, stream, version, type, at, size, payload)`

	sqlSetVersions = `INSERT INTO journal_stream (shard, kind, stream, version)
SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[])
ON CONFLICT (shard, kind, stream) DO UPDATE SET version = excluded.version`

	sqlDeleteRecords = `DELETE FROM journal_record r USING unnest($1::smallint[], $2::text[], $3::text[]) AS q (shard, kind, id)
WHERE r.shard = q.shard AND r.kind = q.kind AND r.id = q.id`

	// A stored record keeps its position and ordinal.
	sqlSetRecords = `INSERT INTO journal_record AS r (shard, kind, id, workspace, parent, slot, version, position, ordinal, document)
SELECT shard, kind, id, workspace, parent, slot, version, position, ordinal, NULLIF(document, '')::json
FROM unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::text[]) AS q (shard, kind, id, workspace, parent, slot, version, position, ordinal, document)
ON CONFLICT (shard, kind, id) DO UPDATE SET workspace = excluded.workspace, parent = excluded.parent, slot = excluded.slot,
    version = excluded.version, document = excluded.document`

	sqlSetOnces = `INSERT INTO journal_once (shard, scope, hash, fingerprint, expires, answer)
SELECT * FROM unnest($1::smallint[], $2::text[], $3::bytea[], $4::bytea[], $5::timestamptz[], $6::bytea[])
ON CONFLICT (shard, scope, hash) DO UPDATE
SET fingerprint = excluded.fingerprint, expires = excluded.expires, answer = excluded.answer`

	sqlDeleteTimers = `DELETE FROM journal_timer t
USING unnest($1::smallint[], $2::text[], $3::text[], $4::text[]) AS q (shard, kind, stream, key)
WHERE t.shard = q.shard AND t.kind = q.kind AND t.stream = q.stream AND t.key = q.key`

	sqlSetTimers = `INSERT INTO journal_timer (shard, kind, stream, key, workspace, slot, due)
SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::timestamptz[])
ON CONFLICT (shard, kind, stream, key) DO UPDATE SET workspace = excluded.workspace, slot = excluded.slot, due = excluded.due`

	sqlCommit = `COMMIT`
)

// Raise.
const (
	sqlRaise = `UPDATE journal_shard SET epoch = epoch + 1 WHERE id = ANY($1::smallint[]) RETURNING id, epoch, head`

	// sqlEvict terminates the journal's sessions that block session $1, and waits up to $3
	// milliseconds for the end of each.
	sqlEvict = `SELECT a.pid, pg_terminate_backend(a.pid, $3) FROM pg_stat_activity a
WHERE a.pid = ANY(pg_blocking_pids($1)) AND a.application_name = $2 AND a.datname = current_database()`
)

// Reads.
const (
	sqlHeads = `SELECT id, epoch, head, pg_is_in_recovery() FROM journal_shard`
	sqlHead  = `SELECT id, epoch, head, pg_is_in_recovery() FROM journal_shard WHERE id = $1`

	// The running sum is over sizes, so that no payload beyond the limit is decompressed.
	sqlEvents = `SELECT position, id, workspace, kind, stream, version, type, at, payload FROM (
    SELECT *, sum(size) OVER (ORDER BY position) AS total FROM journal_event
    WHERE shard = $1 AND position > $2 AND position <= $3 ORDER BY position
) e WHERE total <= $4 OR position = $2 + 1 ORDER BY position`

	recordColumns = `id, workspace, parent, slot, version, position, ordinal, document`

	sqlLookUp = `SELECT q.n, r.id, r.workspace, r.parent, r.slot, r.version, r.position, r.ordinal, r.document
FROM unnest($1::smallint[], $2::text[], $3::text[]) WITH ORDINALITY AS q (shard, kind, id, n)
JOIN journal_record r ON r.shard = q.shard AND r.kind = q.kind AND r.id = q.id`

	sqlHeadsOf = `SELECT id, epoch, head, pg_is_in_recovery() FROM journal_shard WHERE id = ANY($1::smallint[])`

	sqlList = `SELECT ` + recordColumns + ` FROM journal_record WHERE shard = $1 AND kind = $2 AND workspace = $3 AND parent = $4
ORDER BY position DESC, ordinal DESC LIMIT $5`

	sqlListAfter = `SELECT ` + recordColumns + ` FROM journal_record
WHERE shard = $1 AND kind = $2 AND workspace = $3 AND parent = $4 AND (position, ordinal) < ($6, $7) ORDER BY position DESC, ordinal DESC LIMIT $5`

	// All ids follow the empty one, the empty id included.
	sqlRecords = `SELECT ` + recordColumns + ` FROM journal_record
WHERE shard = $1 AND kind = $2 AND id >= $3 AND (id > $3 OR $3 = '') ORDER BY id LIMIT $4`

	sqlOnce = `SELECT fingerprint, expires, answer FROM journal_once WHERE shard = $1 AND scope = $2 AND hash = $3`

	sqlTimers = `SELECT kind, stream, key, workspace, slot, due FROM journal_timer WHERE shard = $1 AND due <= $2
ORDER BY due, kind, stream, key LIMIT $3`

	sqlTimersAfter = `SELECT kind, stream, key, workspace, slot, due FROM journal_timer WHERE shard = $1 AND due <= $2
AND due >= $4 AND (due, kind, stream, key) > ($4, $5, $6, $7) ORDER BY due, kind, stream, key LIMIT $3`

	sqlNextDue = `SELECT min(due) FROM journal_timer WHERE shard = $1`

	sqlAllNextDue = `SELECT s.id, (SELECT min(due) FROM journal_timer t WHERE t.shard = s.id) FROM journal_shard s`

	sqlCursor = `SELECT position FROM journal_cursor WHERE shard = $1 AND name = $2`

	sqlSaveCursors = `INSERT INTO journal_cursor (shard, name, position)
SELECT * FROM unnest($1::smallint[], $2::text[], $3::bigint[])
ON CONFLICT (shard, name) DO UPDATE SET position = excluded.position`

	// A key that was claimed again while the DELETE waited has a later expiry, which the outer
	// condition checks.
	sqlSweep = `DELETE FROM journal_once o USING (
    SELECT c.shard, c.scope, c.hash FROM journal_shard s CROSS JOIN LATERAL (
        SELECT shard, scope, hash FROM journal_once WHERE shard = s.id AND expires <= $3 ORDER BY expires LIMIT $4
    ) c WHERE s.id >= $1 AND s.id < $2
) d WHERE o.shard = d.shard AND o.scope = d.scope AND o.hash = d.hash AND o.expires <= $3`
)

// Statements of Snapshot and Load. A string before the last of a key is ordered by its length as a
// uvarint first, as in package archive.
const (
	sqlBeginSnapshot = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`

	sqlStoredBytes = `SELECT coalesce(sum(pg_table_size(oid)), 0)::bigint FROM pg_class
WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'journal_store'::regclass)
    AND relname LIKE 'journal\_%'`

	sqlAllHeads = `SELECT id, epoch, head, ordinal FROM journal_shard ORDER BY id`

	sqlAllEvents = `SELECT position, id, workspace, kind, stream, version, type, at, payload FROM journal_event
WHERE shard = $1 ORDER BY position`

	sqlAllRecords = `SELECT kind, id, workspace, parent, slot, version, position, ordinal, document FROM journal_record
WHERE shard = $1 ORDER BY octet_length(kind) & 127 | least(octet_length(kind) & -128, 128), octet_length(kind) >> 7, kind, id`

	sqlAllOnces = `SELECT scope, hash, fingerprint, expires, answer FROM journal_once
WHERE shard = $1 ORDER BY octet_length(scope) & 127 | least(octet_length(scope) & -128, 128), octet_length(scope) >> 7, scope, hash`

	sqlAllTimers = `SELECT kind, stream, key, workspace, slot, due FROM journal_timer
WHERE shard = $1 ORDER BY octet_length(kind) & 127 | least(octet_length(kind) & -128, 128), octet_length(kind) >> 7, kind,
    octet_length(stream) & 127 | least(octet_length(stream) & -128, 128), octet_length(stream) >> 7, stream, key`

	sqlAllCursors = `SELECT name, position FROM journal_cursor WHERE shard = $1 ORDER BY name`

	sqlBeginLoad = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
LOCK TABLE journal_store, journal_shard IN ACCESS EXCLUSIVE MODE`

	sqlSetHeads = `UPDATE journal_shard s SET epoch = q.epoch, head = q.head, ordinal = q.ordinal
FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS q (id, epoch, head, ordinal) WHERE s.id = q.id`

	sqlVersionsOfEvents = `INSERT INTO journal_stream (shard, kind, stream, version)
SELECT shard, kind, stream, max(version) FROM journal_event GROUP BY shard, kind, stream`
)
