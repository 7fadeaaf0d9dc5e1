package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/persistence"
	"purser/persistence/ident"
)

// ErrNotEmpty: Load got a database that already has a journal.
var ErrNotEmpty = errors.New("the database has a journal already")

var _ persistence.Archiver = (*Journal)(nil)

// Snapshot implements persistence.Archiver: it returns the content as of now, for a backup or an
// audit, which must close it. It is a read-only transaction over a connection of its own and blocks
// no writes. Changed cursors are written first, so that the archive is not behind Cursor. It fails
// with ErrUnavailable, or with ErrFenced when that write does.
func (j *Journal) Snapshot(ctx context.Context) (persistence.Snapshot, error) {
	if err := j.beginCall(ctx); err != nil {
		return nil, err
	}
	defer j.endCall()
	// The write has a bound of its own: a cancelled backup must not count as a failed write.
	if err := j.cursors.Flush(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, j.pool.Config().ConnConfig)
	if err != nil {
		j.noteUnreachable(err)
		return nil, unavailableError(err)
	}
	s := &snapshot{conn: conn, closeTimeout: j.slack * rollbackTimeout}
	if err := s.readHeads(ctx); err != nil {
		return nil, unavailableError(errors.Join(err, s.Close()))
	}
	return s, nil
}

// StoredBytes implements persistence.Archiver: it returns the bytes of the tables, without indexes.
// It fails only with ErrUnavailable. A backup compares it with the free space.
func (j *Journal) StoredBytes(ctx context.Context) (bytes int64, err error) {
	if err := j.beginCall(ctx); err != nil {
		return 0, err
	}
	defer j.endCall()
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	if err := j.pool.QueryRow(ctx, sqlStoredBytes).Scan(&bytes); err != nil {
		j.noteUnreachable(err)
		return 0, unavailableError(err)
	}
	return bytes, nil
}

type snapshot struct {
	conn         *pgx.Conn
	closeTimeout time.Duration // bounds Close
	heads        []persistence.ShardHead
}

// readHeads begins the transaction and reads the heads. Its first query fixes the instant of the
// snapshot. It fails with the server's error.
func (s *snapshot) readHeads(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, sqlBeginSnapshot); err != nil {
		return err
	}
	rows, err := s.conn.Query(ctx, sqlAllHeads)
	if err != nil {
		return err
	}
	s.heads, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (persistence.ShardHead, error) {
		var id int16
		var epoch, position, ordinal int64
		err := row.Scan(&id, &epoch, &position, &ordinal)
		return persistence.ShardHead{Shard: ident.Shard(id), Ordinal: uint32(ordinal),
			Head: persistence.Head{Position: uint64(position), Epoch: uint64(epoch)}}, err
	})
	return err
}

// Close implements persistence.Snapshot: it ends the snapshot's connection. It fails when the
// server does not answer in time.
func (s *snapshot) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.closeTimeout)
	defer cancel()
	return s.conn.Close(ctx)
}

// Events implements persistence.Snapshot: it returns events after a position as of the snapshot. It
// fails only with ErrUnavailable.
func (s *snapshot) Events(ctx context.Context, id ident.Shard, past uint64, limit int) ([]persistence.Event, error) {
	at := slices.IndexFunc(s.heads, func(h persistence.ShardHead) bool { return h.Shard == id })
	if at < 0 || past >= s.heads[at].Position {
		return nil, nil
	}
	last := min(s.heads[at].Position, past+uint64(persistence.PageLimit(limit)))
	rows, err := s.conn.Query(ctx, sqlEvents, int16(id), int64(past), int64(last), eventBytes)
	if err != nil {
		return nil, unavailableError(err)
	}
	events, err := collectEvents(rows, past)
	if err != nil {
		return nil, unavailableError(err)
	}
	return events, nil
}

// Records implements persistence.Snapshot: it returns records after an id as of the snapshot. It
// fails only with ErrUnavailable.
func (s *snapshot) Records(
	ctx context.Context, id ident.Shard, kind, past string, limit int,
) ([]persistence.Record, error) {
	rows, err := s.conn.Query(ctx, sqlRecords, int16(id), kind, past, persistence.PageLimit(limit))
	if err != nil {
		return nil, unavailableError(err)
	}
	records, err := collectRecords(rows, kind)
	if err != nil {
		return nil, unavailableError(err)
	}
	return records, nil
}

// Content implements persistence.Snapshot: it iterates over all parts, shard after shard. It ends
// with one ErrUnavailable when the server cannot be read or the context ends.
func (s *snapshot) Content(ctx context.Context) persistence.Content {
	return func(yield func(persistence.Part, error) bool) {
		for i := range s.heads {
			if !yield(&s.heads[i], nil) {
				return
			}
			for _, t := range contentTables() {
				err := s.yieldTable(ctx, s.heads[i].Shard, t, yield)
				if errors.Is(err, errStopped) {
					return
				}
				if err != nil {
					yield(nil, unavailableError(fmt.Errorf("shard %d: %w", i, err)))
					return
				}
			}
		}
	}
}

// errStopped: the consumer has stopped the iteration.
var errStopped = errors.New("stopped")

// yieldTable yields a shard's rows of one table. It fails with the server's error, and with
// errStopped when the caller wants no more.
func (s *snapshot) yieldTable(
	ctx context.Context, id ident.Shard, t contentTable, yield func(persistence.Part, error) bool,
) error {
	rows, err := s.conn.Query(ctx, t.sql, int16(id))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		p, err := t.scan(rows)
		if err != nil {
			return err
		}
		if !yield(p, nil) {
			return errStopped
		}
	}
	return rows.Err()
}

// contentTable maps one kind of part to its table: how it is read and written.
type contentTable struct {
	name    string
	columns []string
	sql     string
	scan    func(row pgx.Rows) (persistence.Part, error)
	// values returns the columns of a part, nil for a part of another table.
	values func(shard ident.Shard, p persistence.Part) []any
}

// contentTables lists the tables in the order in which a snapshot yields their rows and a load
// expects them.
func contentTables() []contentTable {
	return []contentTable{
		{"journal_event", eventColumns(), sqlAllEvents, scanEvent, eventValues},
		{"journal_record", []string{"shard", "kind", "id", "workspace", "parent", "slot", "version", "position", "ordinal",
			"document"}, sqlAllRecords, scanRecord, recordValues},
		{"journal_once", []string{"shard", "scope", "hash", "fingerprint", "expires", "answer"}, sqlAllOnces, scanOnce,
			onceValues},
		{"journal_timer", []string{"shard", "kind", "stream", "key", "workspace", "slot", "due"}, sqlAllTimers, scanTimer,
			timerValues},
		{"journal_cursor", []string{"shard", "name", "position"}, sqlAllCursors, scanCursor, cursorValues},
	}
}

func scanEvent(row pgx.Rows) (persistence.Part, error) {
	var e persistence.Event
	var position, version int64
	err := row.Scan(&position, &e.ID, &e.Workspace, &e.Kind, &e.Stream, &version, &e.Type, &e.At, (*[]byte)(&e.Payload))
	e.Position, e.Version, e.At = uint64(position), uint64(version), e.At.UTC()
	return &e, err
}

func eventValues(shard ident.Shard, p persistence.Part) []any {
	e, ok := p.(*persistence.Event)
	if !ok {
		return nil
	}
	return []any{int16(shard), int64(e.Position), e.ID, e.Workspace, e.Kind, e.Stream, int64(e.Version), e.Type, e.At,
		int32(len(e.Payload)), nullableJSON(e.Payload)}
}

// nullableJSON returns NULL for an empty document, which is not JSON.
func nullableJSON(document []byte) any {
	if len(document) == 0 {
		return nil
	}
	return document
}

func scanRecord(row pgx.Rows) (persistence.Part, error) {
	var r persistence.Record
	var slot int16
	var version, position, ordinal int64
	err := row.Scan(&r.Kind, &r.ID, &r.Workspace, &r.Parent, &slot, &version, &position, &ordinal, (*[]byte)(&r.Document))
	r.Slot, r.Version, r.Position, r.Ordinal = ident.Slot(slot), uint64(version), uint64(position), uint32(ordinal)
	return &r, err
}

func recordValues(shard ident.Shard, p persistence.Part) []any {
	r, ok := p.(*persistence.Record)
	if !ok {
		return nil
	}
	return []any{int16(shard), r.Kind, r.ID, r.Workspace, r.Parent, int16(r.Slot), int64(r.Version), int64(r.Position),
		int64(r.Ordinal), nullableJSON(r.Document)}
}

func scanOnce(row pgx.Rows) (persistence.Part, error) {
	var scope string
	var hash, fingerprint, answer []byte
	var expires *time.Time
	err := row.Scan(&scope, &hash, &fingerprint, &expires, &answer)
	once := newOnce(scope, hash, fingerprint, expires, answer)
	return &once, err
}

func onceValues(shard ident.Shard, p persistence.Part) []any {
	o, ok := p.(*persistence.Once)
	if !ok {
		return nil
	}
	return []any{int16(shard), o.Scope, o.Hash[:], o.Fingerprint[:], nullableTime(o.Expires), o.Answer}
}

func scanTimer(row pgx.Rows) (persistence.Part, error) {
	var t persistence.Timer
	var slot int16
	err := row.Scan(&t.Kind, &t.Stream, &t.Key, &t.Workspace, &slot, &t.Due)
	t.Slot, t.Due = ident.Slot(slot), t.Due.UTC()
	return &t, err
}

func timerValues(shard ident.Shard, p persistence.Part) []any {
	t, ok := p.(*persistence.Timer)
	if !ok {
		return nil
	}
	return []any{int16(shard), t.Kind, t.Stream, t.Key, t.Workspace, int16(t.Slot), t.Due}
}

func scanCursor(row pgx.Rows) (persistence.Part, error) {
	var c persistence.Cursor
	var position int64
	err := row.Scan(&c.Name, &position)
	c.Position = uint64(position)
	return &c, err
}

func cursorValues(shard ident.Shard, p persistence.Part) []any {
	c, ok := p.(*persistence.Cursor)
	if !ok {
		return nil
	}
	return []any{int16(shard), c.Name, int64(c.Position)}
}

// Load fills the journal of a database from content and stamps it with the identity, in one
// transaction: a crash or an error leaves nothing. It fails with ErrNotEmpty when the database has
// a journal, and with the errors of the content and the server, such as for a database that is not
// migrated. Of the options only URL, AllowUnsafe and Slack are used.
func Load(ctx context.Context, o Options, identity persistence.Identity, content persistence.Content) (err error) {
	if o, err = o.withDefaults(); err != nil {
		return err
	}
	config, err := connectionConfig(o, &connectBackoff{})
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("load journal: %w", err)
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.Background(), time.Duration(o.Slack)*rollbackTimeout)
		defer cancel()
		err = errors.Join(err, conn.Close(ending))
	}()
	next, stop := iter.Pull2(content)
	defer stop()
	l := &loader{conn: conn, next: next}
	if err := l.loadAll(ctx, identity); err != nil {
		return fmt.Errorf("load journal: %w", err)
	}
	return nil
}

// loader copies content part by part into the tables.
type loader struct {
	conn  *pgx.Conn
	next  func() (persistence.Part, error, bool)
	part  persistence.Part // nil at the end
	err   error            // error of the content
	shard ident.Shard
	heads []persistence.ShardHead
}

// loadAll writes the whole journal in one transaction. It fails with ErrNotEmpty, and with the
// errors of the content and the server.
func (l *loader) loadAll(ctx context.Context, identity persistence.Identity) error {
	if _, err := l.conn.Exec(ctx, sqlBeginLoad); err != nil {
		return err
	}
	tag, err := l.conn.Exec(ctx, sqlSetStamp, format, ident.Slots, ident.Shards, [16]byte(identity.Deployment),
		[16]byte(identity.Store))
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return ErrNotEmpty
	}
	if err := l.copyAll(ctx); err != nil {
		return err
	}
	if err := l.setHeads(ctx); err != nil {
		return err
	}
	if _, err := l.conn.Exec(ctx, sqlVersionsOfEvents); err != nil {
		return err
	}
	_, err = l.conn.Exec(ctx, sqlCommit)
	return err
}

// nextPart reads the next part of the content.
func (l *loader) nextPart() {
	var more bool
	if l.part, l.err, more = l.next(); !more || l.err != nil {
		l.part = nil
	}
}

// copyAll copies all parts of the content into the tables, and keeps the heads of the shards. It
// fails with the content's error and the server's.
func (l *loader) copyAll(ctx context.Context) error {
	l.nextPart()
	for l.part != nil {
		if h, ok := l.part.(*persistence.ShardHead); ok {
			l.shard, l.heads = h.Shard, append(l.heads, *h)
			l.nextPart()
			continue
		}
		if err := l.copyRun(ctx); err != nil {
			return errors.Join(l.err, err)
		}
	}
	return l.err
}

// copyRun copies the next parts that belong to one table. It fails with the server's error.
func (l *loader) copyRun(ctx context.Context) error {
	for _, t := range contentTables() {
		if t.values(l.shard, l.part) != nil {
			_, err := l.conn.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, &tableRun{l: l, table: t})
			return err
		}
	}
	panic(fmt.Sprintf("BUG: a journal has no %T", l.part))
}

// tableRun yields consecutive parts of one table to CopyFrom.
type tableRun struct {
	l       *loader
	table   contentTable
	started bool
	values  []any
}

// Next implements pgx.CopyFromSource.
func (r *tableRun) Next() bool {
	if r.started {
		r.l.nextPart()
	}
	r.started = true
	if r.l.part == nil {
		return false
	}
	r.values = r.table.values(r.l.shard, r.l.part)
	return r.values != nil
}

// Values implements pgx.CopyFromSource.
func (r *tableRun) Values() ([]any, error) { return r.values, nil }

// Err implements pgx.CopyFromSource.
func (r *tableRun) Err() error { return r.l.err }

// setHeads stores the heads of the content. It fails when the content lacks a shard, and with the
// server's error.
func (l *loader) setHeads(ctx context.Context) error {
	if len(l.heads) != ident.Shards {
		return fmt.Errorf("%d of %d shards", len(l.heads), ident.Shards)
	}
	id, epoch, position, ordinal := make([]int16, ident.Shards), make([]int64, ident.Shards), make([]int64, ident.Shards),
		make([]int64, ident.Shards)
	for i, h := range l.heads {
		id[i], epoch[i], position[i], ordinal[i] = int16(h.Shard), int64(h.Epoch), int64(h.Position), int64(h.Ordinal)
	}
	_, err := l.conn.Exec(ctx, sqlSetHeads, id, epoch, position, ordinal)
	return err
}
