package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"purser/persistence"
	"purser/persistence/ident"
)

// ErrNotEmpty: Load was asked to fill a database that has a journal.
var ErrNotEmpty = errors.New("the database has a journal already")

var _ persistence.Archiver = (*Journal)(nil)

// Snapshot implements persistence.Archiver. It is a read-only transaction over a connection of its own, and holds up nobody. The
// cursors that have moved are written first: what is archived is not behind what Cursor has answered.
func (j *Journal) Snapshot(ctx context.Context) (persistence.Snapshot, error) {
	if err := j.enter(ctx); err != nil {
		return nil, err
	}
	defer j.leave()
	// Bounded by itself: that a backup is given up says nothing of the server.
	if err := j.cursors.Flush(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, j.pool.Config().ConnConfig)
	if err != nil {
		j.lost(err)
		return nil, unavailable(err)
	}
	s := &snapshot{conn: conn, closing: j.slack * rollbackTimeout}
	if err := s.begin(ctx); err != nil {
		return nil, unavailable(errors.Join(err, s.Close()))
	}
	return s, nil
}

// StoredBytes implements persistence.Archiver. Indexes are not counted.
func (j *Journal) StoredBytes(ctx context.Context) (bytes int64, err error) {
	if err := j.enter(ctx); err != nil {
		return 0, err
	}
	defer j.leave()
	ctx, cancel := context.WithTimeout(ctx, j.slack*queryTimeout)
	defer cancel()
	if err := j.pool.QueryRow(ctx, sqlStoredBytes).Scan(&bytes); err != nil {
		j.lost(err)
		return 0, unavailable(err)
	}
	return bytes, nil
}

type snapshot struct {
	conn    *pgx.Conn
	closing time.Duration // bounds Close
	heads   []persistence.ShardHead
}

// begin reads the heads: the first question of the transaction is what fixes its instant.
func (s *snapshot) begin(ctx context.Context) error {
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

// Close implements persistence.Snapshot.
func (s *snapshot) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.closing)
	defer cancel()
	return s.conn.Close(ctx)
}

// Content implements persistence.Snapshot.
func (s *snapshot) Content(ctx context.Context) persistence.Content {
	return func(yield func(persistence.Part, error) bool) {
		for i := range s.heads {
			if !yield(&s.heads[i], nil) {
				return
			}
			for _, t := range contentTables() {
				err := s.table(ctx, s.heads[i].Shard, t, yield)
				if errors.Is(err, errEnough) {
					return
				}
				if err != nil {
					yield(nil, unavailable(fmt.Errorf("shard %d: %w", i, err)))
					return
				}
			}
		}
	}
}

// errEnough: who walks the content wants no more of it.
var errEnough = errors.New("enough")

func (s *snapshot) table(ctx context.Context, id ident.Shard, t contentTable, yield func(persistence.Part, error) bool) error {
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
			return errEnough
		}
	}
	return rows.Err()
}

// contentTable is where the parts of one letter are, how they are read, and how written.
type contentTable struct {
	name    string
	columns []string
	sql     string
	scan    func(row pgx.Rows) (persistence.Part, error)
	// values are those of the columns; nil for a part of another table.
	values func(shard ident.Shard, p persistence.Part) []any
}

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
		int32(len(e.Payload)), orNoJSON(e.Payload)}
}

// orNoJSON is null where there is no document: nothing is no JSON.
func orNoJSON(document []byte) any {
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
		int64(r.Ordinal), orNoJSON(r.Document)}
}

func scanOnce(row pgx.Rows) (persistence.Part, error) {
	var scope string
	var hash, fingerprint, answer []byte
	var expires *time.Time
	err := row.Scan(&scope, &hash, &fingerprint, &expires, &answer)
	once := onceOf(scope, hash, fingerprint, expires, answer)
	return &once, err
}

func onceValues(shard ident.Shard, p persistence.Part) []any {
	o, ok := p.(*persistence.Once)
	if !ok {
		return nil
	}
	return []any{int16(shard), o.Scope, o.Hash[:], o.Fingerprint[:], orNull(o.Expires), o.Answer}
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

// Load makes the journal of a database from content and stamps it with the identity, in one transaction: a crash or an error
// leaves nothing. The database must be migrated and have no journal (ErrNotEmpty). Only URL, AllowUnsafe and Slack of the
// options are looked at.
func Load(ctx context.Context, o Options, identity persistence.Identity, content persistence.Content) (err error) {
	if o, err = o.withDefaults(); err != nil {
		return err
	}
	config, err := configure(o, &gate{})
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
	l := &loading{conn: conn, next: next}
	if err := l.load(ctx, identity); err != nil {
		return fmt.Errorf("load journal: %w", err)
	}
	return nil
}

// loading reads content part by part into the tables.
type loading struct {
	conn  *pgx.Conn
	next  func() (persistence.Part, error, bool)
	part  persistence.Part // nil at the end
	err   error            // of the content
	shard ident.Shard
	heads []persistence.ShardHead
}

func (l *loading) load(ctx context.Context, identity persistence.Identity) error {
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

// advance goes to the next part.
func (l *loading) advance() {
	var more bool
	if l.part, l.err, more = l.next(); !more || l.err != nil {
		l.part = nil
	}
}

func (l *loading) copyAll(ctx context.Context) error {
	l.advance()
	for l.part != nil {
		if h, ok := l.part.(*persistence.ShardHead); ok {
			l.shard, l.heads = h.Shard, append(l.heads, *h)
			l.advance()
			continue
		}
		if err := l.copyRun(ctx); err != nil {
			return errors.Join(l.err, err)
		}
	}
	return l.err
}

// copyRun copies the parts that come now and are of one table.
func (l *loading) copyRun(ctx context.Context) error {
	for _, t := range contentTables() {
		if t.values(l.shard, l.part) != nil {
			_, err := l.conn.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, &run{l: l, table: t})
			return err
		}
	}
	panic(fmt.Sprintf("BUG: a journal has no %T", l.part))
}

// run is the parts of one table in a row, for CopyFrom.
type run struct {
	l       *loading
	table   contentTable
	started bool
	values  []any
}

// Next implements pgx.CopyFromSource.
func (r *run) Next() bool {
	if r.started {
		r.l.advance()
	}
	r.started = true
	if r.l.part == nil {
		return false
	}
	r.values = r.table.values(r.l.shard, r.l.part)
	return r.values != nil
}

// Values implements pgx.CopyFromSource.
func (r *run) Values() ([]any, error) { return r.values, nil }

// Err implements pgx.CopyFromSource.
func (r *run) Err() error { return r.l.err }

func (l *loading) setHeads(ctx context.Context) error {
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
