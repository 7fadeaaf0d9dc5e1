package audit

import (
	"context"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// An audit of a running server competes with swipes for processors and for the disk. It therefore
// pauses between pieces of its work, for pauseShare times as long as the piece took. Otherwise one
// audit of a large store keeps a processor busy for minutes.
const (
	pauseShare   = 3
	shortestWork = 2 * time.Millisecond // shorter work gets no pause
	longestPause = 100 * time.Millisecond
	visitsPerRun = 256 // items of a walk between two pauses
)

// pacer inserts the pauses of one audit. It is not safe for concurrent use.
type pacer struct {
	ctx    context.Context
	clock  func() time.Time
	sleep  func(context.Context, time.Duration) error
	began  time.Time // start of the current piece of work
	visits int
}

// pauseIfDue ends a piece of work and pauses in proportion to it, once the piece is long enough. It
// fails with the context's error.
func (p *pacer) pauseIfDue() error {
	worked := p.clock().Sub(p.began)
	if worked < shortestWork {
		return nil
	}
	err := p.sleep(p.ctx, min(pauseShare*worked, longestPause))
	p.began = p.clock()
	return err
}

// countVisit counts a visited item. After every visitsPerRun of them it pauses if a pause is due.
// It fails only when the context ends in a pause.
func (p *pacer) countVisit() error {
	if p.visits++; p.visits%visitsPerRun != 0 {
		return nil
	}
	return p.pauseIfDue()
}

// withPauses returns the sources with pauses in the reads of the journal's snapshots and in the
// walks of the authorizer's.
func (s Sources) withPauses(p *pacer) Sources {
	s.Journal, s.Authorizer = pacedJournal{s.Journal, p}, pacedAuthorizer{s.Authorizer, p}
	return s
}

type pacedJournal struct {
	Journal
	pace *pacer
}

// Snapshot is Journal's, with pauses. It fails as Journal's does.
func (j pacedJournal) Snapshot(ctx context.Context) (persistence.Snapshot, error) {
	snapshot, err := j.Journal.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return pacedSnapshot{snapshot, j.pace}, nil
}

type pacedSnapshot struct {
	persistence.Snapshot
	pace *pacer
}

// Events is persistence.Snapshot's, with a pause when one is due. It fails as that does, or with
// the context's error.
func (s pacedSnapshot) Events(ctx context.Context, shard ident.Shard, after uint64, limit int) ([]persistence.Event,
	error) {
	if err := s.pace.pauseIfDue(); err != nil {
		return nil, err
	}
	return s.Snapshot.Events(ctx, shard, after, limit)
}

// Records is persistence.Snapshot's, with a pause when one is due. It fails as that does, or with
// the context's error.
func (s pacedSnapshot) Records(
	ctx context.Context, shard ident.Shard, kind, after string, limit int,
) ([]persistence.Record, error) {
	if err := s.pace.pauseIfDue(); err != nil {
		return nil, err
	}
	return s.Snapshot.Records(ctx, shard, kind, after, limit)
}

type pacedAuthorizer struct {
	Authorizer
	pace *pacer
}

// Snapshot is Authorizer's, with pauses.
func (a pacedAuthorizer) Snapshot() AuthorizerSnapshot {
	return pacedWalks{a.Authorizer.Snapshot(), a.pace}
}

type pacedWalks struct {
	AuthorizerSnapshot
	pace *pacer
}

// pacedVisit returns visit that first pauses when a pause is due. The result fails with visit's
// error or the context's.
func pacedVisit[T any](p *pacer, visit func(T) error) func(T) error {
	return func(item T) error {
		if err := p.countVisit(); err != nil {
			return err
		}
		return visit(item)
	}
}

func (a pacedWalks) Log(shard ident.Shard, after uint64, visit func(entry []byte) error) error {
	return a.AuthorizerSnapshot.Log(shard, after, pacedVisit(a.pace, visit))
}

func (a pacedWalks) WalkFunds(visit func(Funds) error) error {
	return a.AuthorizerSnapshot.WalkFunds(pacedVisit(a.pace, visit))
}

func (a pacedWalks) WalkHolds(visit func(Hold) error) error {
	return a.AuthorizerSnapshot.WalkHolds(pacedVisit(a.pace, visit))
}

func (a pacedWalks) WalkRules(visit func(Rule) error) error {
	return a.AuthorizerSnapshot.WalkRules(pacedVisit(a.pace, visit))
}

func (a pacedWalks) WalkSpends(visit func(Spend) error) error {
	return a.AuthorizerSnapshot.WalkSpends(pacedVisit(a.pace, visit))
}

func (a pacedWalks) WalkReservations(visit func(Reservation) error) error {
	return a.AuthorizerSnapshot.WalkReservations(pacedVisit(a.pace, visit))
}

func (a pacedWalks) WalkDue(visit func(Due) error) error {
	return a.AuthorizerSnapshot.WalkDue(pacedVisit(a.pace, visit))
}
