package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"purser/persistence"
	"purser/persistence/ident"
)

// commitTransaction writes items in one transaction of three round trips: lock the shards and read
// what the checks need; write; COMMIT. CopyFrom, for many events, takes two more. It sets the
// outcomes after the commit. The error is ErrRefused, ErrUnavailable or ErrAmbiguous; after the
// first two nothing was written. Fenced requests have failed when it returns.
func (l *lane) commitTransaction(items []item) error {
	if len(items) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.j.timeout)
	defer cancel()
	committed := false
	asked := l.j.recordCache.now()
	s, conn, err := l.beginTransaction(ctx, items)
	if err == nil {
		s.checkHeads(l.j, asked)
		s.stageAll()
		if s.writesNothing() {
			l.rollback()
			s.publishCommit(l.j)
			return nil
		}
		cached := l.j.recordCache.beginCommit(s.records)
		defer func() { l.j.recordCache.endCommit(s.records, cached, committed) }()
		err = s.writeStaged(ctx, conn)
	}
	if err != nil {
		l.rollback()
		err = l.classifyFailure(err)
		l.j.noteCommit(err)
		return err
	}
	err = l.finishCommit(ctx, conn)
	l.j.noteCommit(err)
	if err != nil {
		if errors.Is(err, persistence.ErrAmbiguous) {
			s.forgetShards(l.j)
		}
		return err
	}
	s.publishCommit(l.j)
	committed = true
	return nil
}

// beginTransaction begins a transaction that holds the locks of the shards. It fails with the
// server's error, before anything is written. An idle connection may be lost, which shows only when
// it is used; it is replaced once.
func (l *lane) beginTransaction(ctx context.Context, items []item) (*staging, *pgx.Conn, error) {
	for idle := l.conn != nil; ; idle = false {
		conn, err := l.connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		s := newStaging(items)
		err = s.lockShards(ctx, conn)
		if err == nil || !idle || !conn.IsClosed() || ctx.Err() != nil {
			return s, conn, err
		}
	}
}

// classifyFailure turns an error from before COMMIT into ErrRefused, when the server refuses a
// value of the batch, or else ErrUnavailable.
func (l *lane) classifyFailure(err error) error {
	l.j.noteUnreachable(err)
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		switch refusal.Code[:2] {
		case classData, classConstraint, classLimit:
			return fmt.Errorf("%w: %w", persistence.ErrRefused, err)
		}
	}
	return unavailableError(err)
}

// rollback ends the transaction. If that fails it closes the connection, which has the same effect.
func (l *lane) rollback() {
	if l.conn == nil || l.conn.IsClosed() {
		l.conn = nil
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.j.slack*rollbackTimeout)
	defer cancel()
	if _, err := l.conn.PgConn().Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
		l.disconnect()
	}
}

// finishCommit sends COMMIT. It fails with ErrUnavailable when nothing was committed. When the
// outcome is unknown it closes the connection, reports it to Options.Note and fails with
// ErrAmbiguous.
func (l *lane) finishCommit(ctx context.Context, conn *pgx.Conn) error {
	err := sendCommit(ctx, conn)
	if err == nil {
		return nil
	}
	if !errors.Is(err, persistence.ErrAmbiguous) {
		l.rollback()
		return err
	}
	l.disconnect()
	l.j.reportError(fmt.Errorf("journal lost the answer to COMMIT: %w", err))
	return err
}

// sendCommit sends COMMIT. It fails with ErrUnavailable when nothing was committed: COMMIT was not
// sent, or the server answered a plain ERROR. Any other failure is ErrAmbiguous, as a server that
// shuts down may report it and have committed. pgconn.SafeToRetry is not used: it returns true for
// "conn closed", which pgx also returns for a connection lost while it waited for the answer.
func sendCommit(ctx context.Context, conn *pgx.Conn) error {
	if err := ctx.Err(); err != nil {
		return unavailableError(err)
	}
	if conn.IsClosed() {
		return unavailableError(net.ErrClosed)
	}
	results, err := conn.PgConn().Exec(ctx, sqlCommit).ReadAll()
	switch {
	case err == nil && len(results) == 1 && results[0].CommandTag.String() == sqlCommit:
		return nil
	case err == nil && len(results) == 1:
		return unavailableError(fmt.Errorf("COMMIT was answered %s", results[0].CommandTag))
	case isStatementError(err):
		return unavailableError(err)
	}
	return ambiguousError(err)
}

// isStatementError reports whether err is an ERROR of the server, which ends the transaction but
// not the session.
func isStatementError(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.SeverityUnlocalized == "ERROR"
}

// lockShards begins the transaction, locks its shards, and reads their heads and the rows that the
// batches are checked against. It fails only with the server's error.
func (s *staging) lockShards(ctx context.Context, conn *pgx.Conn) error {
	b := &pgx.Batch{}
	b.Queue(sqlBegin)
	b.Queue(sqlLockShards, s.shardIDs())
	streams, claims := s.streamKeys(), s.claimKeys()
	if len(streams.kind) > 0 {
		b.Queue(sqlVersions, streams.shard, streams.kind, streams.stream)
	}
	if len(claims.scope) > 0 {
		b.Queue(sqlClaims, claims.shard, claims.scope, claims.hash)
	}
	results := conn.SendBatch(ctx, b)
	_, err := results.Exec()
	if err == nil {
		err = s.readShards(results)
	}
	if err == nil && len(streams.kind) > 0 {
		err = s.readVersions(results)
	}
	if err == nil && len(claims.scope) > 0 {
		err = s.readClaims(results)
	}
	return errors.Join(err, results.Close())
}

// readShards reads the epoch, head and next ordinal of the locked shards. It fails with the
// server's error.
func (s *staging) readShards(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	var id int16
	var epoch, head, ordinal int64
	_, err = pgx.ForEachRow(rows, []any{&id, &epoch, &head, &ordinal}, func() error {
		at := s.shards[ident.Shard(id)]
		at.found, at.epoch = true, uint64(epoch)
		at.lockedHead, at.head, at.ordinal = uint64(head), uint64(head), uint32(ordinal)
		return nil
	})
	return err
}

// readVersions reads the stored versions of the batches' streams. It fails with the server's error.
func (s *staging) readVersions(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	var id int16
	var kind, stream string
	var version int64
	_, err = pgx.ForEachRow(rows, []any{&id, &kind, &stream, &version}, func() error {
		s.streams[streamKey{ident.Shard(id), kind, stream}] = streamState{version: uint64(version)}
		return nil
	})
	return err
}

// readClaims reads the stored idempotency keys that the batches claim again. It fails with the
// server's error.
func (s *staging) readClaims(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	var id int16
	var scope string
	var hash, fingerprint, answer []byte
	var expires *time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &scope, &hash, &fingerprint, &expires, &answer}, func() error {
		o := newOnce(scope, hash, fingerprint, expires, answer)
		s.claims[claimKey{ident.Shard(id), scope, o.Hash}] = claim{once: o}
		return nil
	})
	return err
}

// newOnce returns the idempotency key of a row. A nil expires never expires.
func newOnce(scope string, hash, fingerprint []byte, expires *time.Time, answer []byte) persistence.Once {
	o := persistence.Once{Scope: scope, Answer: answer}
	copy(o.Hash[:], hash)
	copy(o.Fingerprint[:], fingerprint)
	if expires != nil {
		o.Expires = expires.UTC()
	}
	return o
}

// writeStaged moves the heads and writes the staged rows. It fails with the server's error, before
// the commit.
func (s *staging) writeStaged(ctx context.Context, conn *pgx.Conn) error {
	b := &pgx.Batch{}
	moved := s.queueMove(b)
	s.queueEvents(b)
	s.queueStreams(b)
	s.queueRecords(b)
	s.queueOnces(b)
	s.queueTimers(b)
	results := conn.SendBatch(ctx, b)
	tag, err := results.Exec()
	if err = errors.Join(err, results.Close()); err != nil {
		return err
	}
	if tag.RowsAffected() != int64(moved) {
		return fmt.Errorf("%d of %d heads could be moved under their locks", tag.RowsAffected(), moved)
	}
	if len(s.events) < copyMin {
		return nil
	}
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"journal_event"}, eventColumns(), s.eventRows())
	return err
}
