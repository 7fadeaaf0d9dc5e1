package pgjournal

import (
	"errors"
	"fmt"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// Errors that Options.Fatal receives. A call that meets one of them fails with ErrFenced.
var (
	// ErrTaken: another process has raised the epoch of a shard that this one owned.
	ErrTaken = errors.New("another process has taken the journal: one alone may serve a deployment")
	// ErrBehind: the database lacks events that it had committed. It was restored, or a standby
	// without them took over.
	ErrBehind = errors.New("the database has lost what it had committed")
)

// shardLease is the ownership of a shard by this process. Raises that are pending or ambiguous may
// each have moved the epoch by one beyond raisedEpoch.
type shardLease struct {
	raisedEpoch     uint64 // result of the last successful Raise; 0: this process has not raised the shard
	raisesPending   uint64 // number of Raises under way
	raisesAmbiguous uint64 // number of Raises with an unknown outcome since the last successful one
}

func (s *shard) beginRaise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shardLease.raisesPending++
}

// endRaise records the new epoch of a Raise, or its error.
func (s *shard) endRaise(epoch uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.shardLease
	t.raisesPending--
	switch {
	case err == nil:
		t.raisedEpoch, t.raisesAmbiguous = max(t.raisedEpoch, epoch), 0
	case errors.Is(err, persistence.ErrAmbiguous):
		t.raisesAmbiguous++
	}
}

// isForeignEpoch reports whether another process has raised the epoch. It is false before the first
// Raise of this process.
func (s *shard) isForeignEpoch(epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.shardLease
	return t.raisedEpoch > 0 && epoch > t.raisedEpoch+t.raisesPending+t.raisesAmbiguous
}

// ownsEpoch reports whether the epoch is that of the last Raise of this process.
func (s *shard) ownsEpoch(epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raisedEpoch > 0 && epoch == s.raisedEpoch
}

// checkLockedHead checks a head read under its row lock. A head behind the one in memory is
// ErrBehind, a foreign epoch ErrTaken; both are ErrFenced and reported to Options.Fatal.
func (j *Journal) checkLockedHead(id ident.Shard, found persistence.Head) error {
	known := j.heads.Head(id).Position
	switch {
	case found.Position < known:
		return j.failFenced(errBehind(id, found, known))
	case j.shards[id].isForeignEpoch(found.Epoch):
		return j.failFenced(errTaken(id, found))
	}
	return nil
}

func errTaken(id ident.Shard, found persistence.Head) error {
	return fmt.Errorf("%w: shard %d is at epoch %d", ErrTaken, id, found.Epoch)
}

func errBehind(id ident.Shard, found persistence.Head, known uint64) error {
	return fmt.Errorf("%w: shard %d ends at %d, it was at %d", ErrBehind, id, found.Position, known)
}

// showHead publishes a head from a query sent at asked. It reports whether this process certainly
// owned the shard then: a standby proves nothing.
func (j *Journal) showHead(id ident.Shard, found persistence.Head, recovering bool, asked time.Time) (owned bool) {
	j.heads.Advance(id, found)
	if owned = !recovering && j.shards[id].ownsEpoch(found.Epoch); owned {
		j.recordCache.confirmOwnership(id, asked)
	}
	return owned
}

// failFenced reports err to Options.Fatal and returns it as ErrFenced.
func (j *Journal) failFenced(err error) error {
	j.reportFatal(err)
	return fmt.Errorf("%w: %w", persistence.ErrFenced, err)
}
