package actors

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// Limits of looking at the health.
const (
	// followerTolerance is how long a shard's rules and funds may stay behind a journal position before the server says that it
	// is not ready. A busy shard is always a few milliseconds behind.
	followerTolerance = 2 * time.Second
	// maxOwedRead is how many entries of all logs one look reads; after a start with a long backlog it takes several looks until
	// all cents are counted.
	maxOwedRead = 1 << 18
	// maxReservationsSeen is where a look stops counting reservations.
	maxReservationsSeen = 100_000
)

// Health is how far the runtime is behind, at one moment. Sums are over all shards.
type Health struct {
	Actors  int64 // in memory
	Pending int   // requests that actors have not answered

	LostShards                int // whose last commit is unresolved
	LaneQueued, LaneQueuedMax int // ops that wait for a commit; of the longest queue

	FollowerLag, FollowerLagMax uint64        // journal positions the authorizer has not applied; of the worst shard
	FollowerLate                time.Duration // the longest time that a shard has not reached a position it was seen behind

	// RelayAge is the age of the oldest decision that the journal does not have. RelayCents is the sum of what those decisions
	// moved, each as a positive amount, held or given back: the exposure if the authorizer's log were lost now.
	RelayAge   time.Duration
	RelayCents int64

	// SetAside is how many workspaces the relay passes by because their entries are refused,
	// SetAsideEntries how many entries of theirs wait.
	SetAside, SetAsideEntries int64

	Overdue int64 // orders that the bank has and does not report, about which a person has to decide

	Reservations   int // debits that are reserved and not yet followed
	ReservationAge time.Duration
}

// Health looks at every shard. It reads what is new in the logs, so ask every few seconds, not for every request. The error
// says what could not be read; the rest is there.
func (s *System) Health() (Health, error) {
	h, now := Health{Actors: s.directory.alive.Load(), Pending: s.directory.pending()}, s.clock()
	var faults []error
	reads := maxOwedRead
	for _, sh := range s.shards {
		if sh.lost.Load() {
			h.LostShards++
		}
		queued := len(sh.lane.queue)
		h.LaneQueued, h.LaneQueuedMax = h.LaneQueued+queued, max(h.LaneQueuedMax, queued)
		lag, late := s.behind(sh, now)
		h.FollowerLag, h.FollowerLagMax = h.FollowerLag+lag, max(h.FollowerLagMax, lag)
		h.FollowerLate = max(h.FollowerLate, late)
		cents, err := s.owed(sh, &reads)
		h.RelayCents += cents
		oldest, found, errAge := s.oldestUnrelayed(sh)
		if found {
			h.RelayAge = max(h.RelayAge, now.Sub(oldest))
		}
		for _, one := range sh.asides.listOf(sh.id) {
			h.SetAside, h.SetAsideEntries = h.SetAside+1, h.SetAsideEntries+one.Entries
		}
		faults = append(faults, err, errAge)
	}
	h.Overdue = s.overdueCount()
	return h, errors.Join(append(faults, s.lookAtReservations(&h, now))...)
}

// behind tells how many positions the authorizer is behind a shard's journal, and since when it has not reached one.
func (s *System) behind(sh *shard, now time.Time) (lag uint64, late time.Duration) {
	head, followed := s.journal.Head(sh.id).Position, sh.followed.load()
	return head - min(head, followed), sh.late.look(followed, head, now)
}

// lateness remembers the head that a follower was last seen behind. Being behind is normal under load; not to reach a position
// that was there some time ago is not.
type lateness struct {
	mu    sync.Mutex
	mark  uint64 // 0: not behind
	since time.Time
}

// look returns how long the mark has not been reached.
func (l *lateness) look(followed, head uint64, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case followed >= head:
		l.mark = 0
		return 0
	case l.mark == 0 || followed >= l.mark:
		l.mark, l.since = head, now
		return 0
	}
	return now.Sub(l.since)
}

// debt is what the relay of a shard owes the journal, in cents.
type debt struct {
	mu      sync.Mutex
	through uint64 // the entries up to here are counted
	cents   int64  // of those that are counted and not relayed
}

func moved(n *hold.Entry) int64 { return max(n.CardDelta, -n.CardDelta) }

// paid takes off what was relayed.
func (d *debt) paid(entries []hold.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range entries {
		if n := &entries[i]; n.Seq > d.through {
			d.through, d.cents = n.Seq, 0 // all that was counted is relayed, and this one never was counted
		} else {
			d.cents -= moved(n)
		}
	}
}

// owed adds what was decided since the last look, at most reads entries, and returns the debt.
func (s *System) owed(sh *shard, reads *int) (int64, error) {
	d := &sh.debt
	d.mu.Lock()
	defer d.mu.Unlock()
	if relayed := sh.relayed.load(); d.through < relayed {
		d.through, d.cents = relayed, 0
	}
	for *reads > 0 {
		entries, err := s.authorizer.ReadLog(sh.id, d.through, min(*reads, relayRead))
		if err != nil {
			return d.cents, fmt.Errorf("shard %d: decision log: %w", sh.id, err)
		}
		if len(entries) == 0 {
			break
		}
		for i := range entries {
			d.cents += moved(&entries[i])
		}
		d.through = entries[len(entries)-1].Seq
		*reads -= len(entries)
	}
	return d.cents, nil
}

func (s *System) oldestUnrelayed(sh *shard) (at time.Time, found bool, err error) {
	entries, err := s.authorizer.ReadLog(sh.id, sh.relayed.load(), 1)
	if err != nil || len(entries) == 0 {
		return time.Time{}, false, err
	}
	return time.UnixMilli(entries[0].At), true, nil
}

var errSeenEnough = errors.New("seen enough")

func (s *System) lookAtReservations(h *Health, now time.Time) error {
	err := s.authorizer.WalkReservations(func(_, reservation ident.UUID, _ int64) error {
		h.Reservations++
		h.ReservationAge = max(h.ReservationAge, now.Sub(reservation.Time()))
		if h.Reservations >= maxReservationsSeen {
			return errSeenEnough
		}
		return nil
	})
	if errors.Is(err, errSeenEnough) {
		return nil
	}
	return err
}

// pending counts the requests that are not answered.
func (d *directory) pending() (n int) {
	for i := range d.parts {
		part := &d.parts[i]
		part.mu.Lock()
		for _, e := range part.entries {
			n += e.pending
		}
		part.mu.Unlock()
	}
	return n
}

// Ready returns nil when the journal answers, the shards are held and the authorizer follows the
// journal. A workspace that is set aside from the relay is an alarm (Health) and no reason to take
// the server out of traffic. The error joins all that is not so.
func (s *System) Ready() error {
	switch {
	case s.stopping.Load():
		return errors.New("stopping")
	case !s.ready.Load():
		return errors.New("not started")
	}
	var lost, late []ident.Shard
	now := s.clock()
	for _, sh := range s.shards {
		if sh.lost.Load() {
			lost = append(lost, sh.id)
		}
		if _, behind := s.behind(sh, now); behind > followerTolerance {
			late = append(late, sh.id)
		}
	}
	return errors.Join(
		s.away.err(),
		notReady(lost, "the last commit is being resolved"),
		notReady(late, fmt.Sprintf("the authorizer is more than %s behind the journal", followerTolerance)))
}

func notReady(shards []ident.Shard, why string) error {
	if len(shards) == 0 {
		return nil
	}
	return fmt.Errorf("%d shards, the first of them %d: %s", len(shards), shards[0], why)
}
