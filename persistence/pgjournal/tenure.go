package pgjournal

import (
	"errors"
	"fmt"
	"time"

	"purser/persistence"
	"purser/persistence/ident"
)

// What Options.Fatal is told. Calls that meet one of them fail with ErrFenced.
var (
	// ErrTaken: another process has taken a shard that this one held.
	ErrTaken = errors.New("another process has taken the journal: one alone may serve a deployment")
	// ErrBehind: the database no longer has what it had committed. It was set back, or a standby took over that lacked it.
	ErrBehind = errors.New("the database has lost what it had committed")
)

// tenure is what this process knows of its hold on a shard: the epoch may be so much beyond that of its last Raise by its own
// doing.
type tenure struct {
	held    uint64 // by the last Raise that succeeded; 0: the shard was not taken by this process
	trying  uint64 // Raises under way
	unknown uint64 // Raises since whose answer was lost, each of which may have moved the epoch
}

func (s *shard) beginRaise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tenure.trying++
}

// endRaise is told of the new epoch, or why there is none.
func (s *shard) endRaise(epoch uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.tenure
	t.trying--
	switch {
	case err == nil:
		t.held, t.unknown = max(t.held, epoch), 0
	case errors.Is(err, persistence.ErrAmbiguous):
		t.unknown++
	}
}

// takenBy tells whether an epoch that was read is the doing of another process. Before its first Raise everything is.
func (s *shard) takenBy(epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenure
	return t.held > 0 && epoch > t.held+t.trying+t.unknown
}

// heldAt tells whether an epoch is that of this process's last Raise.
func (s *shard) heldAt(epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held > 0 && epoch == s.held
}

// judge looks at a head that was read under its row's lock, so that nothing newer can be known of it than it says itself.
func (j *Journal) judge(id ident.Shard, found persistence.Head) error {
	s := &j.shards[id]
	known := s.tip.Head().Position
	switch {
	case found.Position < known:
		return j.refuse(errBehind(id, found, known))
	case s.takenBy(found.Epoch):
		return j.refuse(errTaken(id, found))
	}
	return nil
}

func errTaken(id ident.Shard, found persistence.Head) error {
	return fmt.Errorf("%w: shard %d is at epoch %d", ErrTaken, id, found.Epoch)
}

func errBehind(id ident.Shard, found persistence.Head, known uint64) error {
	return fmt.Errorf("%w: shard %d ends at %d, it was at %d", ErrBehind, id, found.Position, known)
}

// meet shows a head that the server, a standby perhaps, was asked for at a time. It tells whether the shard was this process's
// for sure by then.
func (j *Journal) meet(id ident.Shard, found persistence.Head, recovering bool, asked time.Time) (sure bool) {
	s := &j.shards[id]
	s.tip.Advance(found)
	if sure = !recovering && s.heldAt(found.Epoch); sure {
		j.known.trust(id, asked)
	}
	return sure
}

// refuse tells that nothing may go on over this journal.
func (j *Journal) refuse(err error) error {
	j.fatal(err)
	return fmt.Errorf("%w: %w", persistence.ErrFenced, err)
}
