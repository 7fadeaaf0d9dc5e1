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

// commit writes the items in one transaction of three round trips: hold the shards and read what is checked; write; COMMIT.
// (CopyFrom, when there are many events, takes two more.) The outcomes are set when it has committed. The error is ErrRefused,
// ErrUnavailable or ErrAmbiguous; in the first two nothing was written. Requests that are fenced have failed when it returns.
func (l *lane) commit(items []item) error {
	if len(items) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.j.slack*commitTimeout)
	defer cancel()
	committed := false
	asked := l.j.known.now()
	s, conn, err := l.begin(ctx, items)
	if err == nil {
		s.judge(l.j, asked)
		s.decide()
		if s.empty() {
			l.rollback()
			s.settle(l.j)
			return nil
		}
		was := l.j.known.begin(s.records)
		defer func() { l.j.known.end(s.records, was, committed) }()
		err = s.write(ctx, conn)
	}
	if err != nil {
		l.rollback()
		err = l.failure(err)
		l.j.noteCommit(err)
		return err
	}
	err = l.end(ctx, conn)
	l.j.noteCommit(err)
	if err != nil {
		if errors.Is(err, persistence.ErrAmbiguous) {
			s.doubt(l.j)
		}
		return err
	}
	s.settle(l.j)
	committed = true
	return nil
}

// begin begins a transaction in which the shards are held. A connection that was idle may have been lost meanwhile, which shows
// only when it is used: then it is made anew, once. Nothing was asked of the server by then that a repeat could do twice.
func (l *lane) begin(ctx context.Context, items []item) (*staging, *pgx.Conn, error) {
	for idle := l.conn != nil; ; idle = false {
		conn, err := l.connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		s := newStaging(items)
		err = s.hold(ctx, conn)
		if err == nil || !idle || !conn.IsClosed() || ctx.Err() != nil {
			return s, conn, err
		}
	}
}

// failure names an error that came before COMMIT was sent.
func (l *lane) failure(err error) error {
	l.j.lost(err)
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		switch refusal.Code[:2] {
		case classData, classConstraint, classLimit:
			return fmt.Errorf("%w: %w", persistence.ErrRefused, err)
		}
	}
	return unavailable(err)
}

// rollback ends a transaction that is not wanted. A connection on which that fails is closed, which ends it too.
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

// end commits the lane's transaction.
func (l *lane) end(ctx context.Context, conn *pgx.Conn) error {
	err := sendCommit(ctx, conn)
	if err == nil {
		return nil
	}
	if !errors.Is(err, persistence.ErrAmbiguous) {
		l.rollback()
		return err
	}
	l.disconnect()
	l.j.note(fmt.Errorf("journal lost the answer to COMMIT: %w", err))
	return err
}

// sendCommit sends COMMIT. Once it is on its way only a plain refusal says that nothing was committed: a server that goes down
// may tell so instead of answering, and have committed. pgconn.SafeToRetry is not asked: it says yes to "conn closed", which pgx
// returns also for a connection that it lost while it waited for the answer.
func sendCommit(ctx context.Context, conn *pgx.Conn) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	if conn.IsClosed() {
		return unavailable(net.ErrClosed)
	}
	results, err := conn.PgConn().Exec(ctx, sqlCommit).ReadAll()
	switch {
	case err == nil && len(results) == 1 && results[0].CommandTag.String() == sqlCommit:
		return nil
	case err == nil && len(results) == 1:
		return unavailable(fmt.Errorf("COMMIT was answered %s", results[0].CommandTag))
	case refused(err):
		return unavailable(err)
	}
	return ambiguous(err)
}

// refused tells of an error that the server answered with and that ended the transaction, not the session.
func refused(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.SeverityUnlocalized == "ERROR"
}

// hold begins the transaction, waits for its shards, and reads their heads and what the batches are checked against.
func (s *staging) hold(ctx context.Context, conn *pgx.Conn) error {
	b := &pgx.Batch{}
	b.Queue(sqlBegin)
	b.Queue(sqlHold, s.shardIDs())
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
		at.was, at.head, at.ordinal = uint64(head), uint64(head), uint32(ordinal)
		return nil
	})
	return err
}

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
		o := onceOf(scope, hash, fingerprint, expires, answer)
		s.claims[claimKey{ident.Shard(id), scope, o.Hash}] = claim{once: o}
		return nil
	})
	return err
}

func onceOf(scope string, hash, fingerprint []byte, expires *time.Time, answer []byte) persistence.Once {
	o := persistence.Once{Scope: scope, Answer: answer}
	copy(o.Hash[:], hash)
	copy(o.Fingerprint[:], fingerprint)
	if expires != nil {
		o.Expires = expires.UTC()
	}
	return o
}

// write moves the heads and writes what was staged.
func (s *staging) write(ctx context.Context, conn *pgx.Conn) error {
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
