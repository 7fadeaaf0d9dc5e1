package actors

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Limits of Health and Ready.
const (
	// followerTolerance is how long the follower of a shard may fail to reach a position before
	// Ready fails. The follower of a busy shard is always a few milliseconds behind.
	followerTolerance = 2 * time.Second
	// maxExposureRead bounds the log entries that one call of Health reads. After a start with a
	// long backlog the sum is complete only after several calls.
	maxExposureRead = 1 << 18
	// maxReservationsCounted is the count at which Health stops to count reservations.
	maxReservationsCounted = 100_000
)

// Health is the backlog of the runtime at one moment. Sums are over all shards.
type Health struct {
	Actors  int64 // in memory
	Pending int   // unanswered requests

	LostShards                int // shards whose last commit is unresolved
	LaneQueued, LaneQueuedMax int // ops that wait for a commit: of all shards; of the longest queue

	Reactions int // events that a reaction has not handled

	FollowerLag, FollowerLagMax uint64        // journal positions not applied: of all shards; of the worst
	FollowerLate                time.Duration // the longest time that a follower has not reached a position

	// RelayAge is the age of the oldest decision that the journal does not have. RelayCents sums
	// the absolute amounts that those decisions held or released: the exposure if the authorizer's
	// log were lost now.
	RelayAge   time.Duration
	RelayCents money.Cents

	// SetAside is the number of workspaces that the relay skips because their entries are refused;
	// SetAsideEntries is the number of their waiting entries.
	SetAside, SetAsideEntries int64

	Reservations   int // reserved debits that the authorizer has not followed
	ReservationAge time.Duration
}

// Health measures every shard. It reads the new log entries, so callers poll it every few seconds
// and not per request. The error joins the failed reads of the authorizer's store; the other fields
// are valid.
func (s *System) Health() (Health, error) {
	h, now := Health{Actors: s.directory.activations.Load(), Pending: s.directory.pendingRequests()}, s.clock()
	var faults []error
	reads := maxExposureRead
	for _, sh := range s.shards {
		if sh.lost.Load() {
			h.LostShards++
		}
		queued := len(sh.lane.queue)
		h.Reactions += sh.reactions.pendingCount()
		h.LaneQueued, h.LaneQueuedMax = h.LaneQueued+queued, max(h.LaneQueuedMax, queued)
		lag, late := sh.followerLagAt(s.journal.Head(sh.id).Position, now)
		h.FollowerLag, h.FollowerLagMax = h.FollowerLag+lag, max(h.FollowerLagMax, lag)
		h.FollowerLate = max(h.FollowerLate, late)
		cents, err := sh.sumUnrelayed(s.authorizer, &reads)
		h.RelayCents += cents
		oldest, found, errAge := sh.oldestUnrelayed(s.authorizer)
		if found {
			h.RelayAge = max(h.RelayAge, now.Sub(oldest))
		}
		for _, one := range sh.asides.list(sh.id) {
			h.SetAside, h.SetAsideEntries = h.SetAside+1, h.SetAsideEntries+one.Entries
		}
		faults = append(faults, err, errAge)
	}
	return h, errors.Join(append(faults, h.countReservations(s.authorizer, now))...)
}

// followerLagAt returns how many positions the authorizer is behind the journal's head, and how
// long it has failed to reach one position.
func (sh *shard) followerLagAt(head uint64, now time.Time) (lag uint64, late time.Duration) {
	followed := sh.followed.load()
	return head - min(head, followed), sh.lag.observePositions(followed, head, now)
}

// followerLag remembers a head that the follower was behind. A lag is normal under load; a position
// that stays unreached is not.
type followerLag struct {
	mu    sync.Mutex
	mark  uint64 // the head; 0: not behind
	since time.Time
}

// observePositions takes the follower's position and the head of the shard at a time. It returns
// how long the follower has failed to reach the head that was first seen ahead of it, 0 when it has
// reached that head.
func (l *followerLag) observePositions(followed, head uint64, now time.Time) time.Duration {
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

// relayExposure sums the cents of a shard's decisions that are not relayed.
type relayExposure struct {
	mu      sync.Mutex
	through uint64      // the last entry that is counted
	cents   money.Cents // of entries that are counted and not relayed
}

func movedCents(n *hold.Entry) money.Cents { return max(n.CardDelta, -n.CardDelta) }

// subtractRelayed subtracts the amounts of relayed entries from the sum.
func (d *relayExposure) subtractRelayed(entries []hold.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range entries {
		if n := &entries[i]; n.Seq > d.through {
			d.through, d.cents = n.Seq, 0 // every counted entry is relayed, and this one was not counted
		} else {
			d.cents -= movedCents(n)
		}
	}
}

// sumUnrelayed adds the amounts of decisions since the last call, at most reads entries, and
// returns the sum in cents of a shard's decisions that are not relayed. It subtracts the entries
// read from reads. It fails only when the log cannot be read; the sum then covers the entries
// before.
func (sh *shard) sumUnrelayed(authorizer Authorizer, reads *int) (money.Cents, error) {
	d := &sh.exposure
	d.mu.Lock()
	defer d.mu.Unlock()
	if relayed := sh.relayed.load(); d.through < relayed {
		d.through, d.cents = relayed, 0
	}
	for *reads > 0 {
		entries, err := authorizer.ReadLog(sh.id, d.through, min(*reads, relayRead))
		if err != nil {
			return d.cents, fmt.Errorf("shard %d: decision log: %w", sh.id, err)
		}
		if len(entries) == 0 {
			break
		}
		for i := range entries {
			d.cents += movedCents(&entries[i])
		}
		d.through = entries[len(entries)-1].Seq
		*reads -= len(entries)
	}
	return d.cents, nil
}

func (sh *shard) oldestUnrelayed(authorizer Authorizer) (at time.Time, found bool, err error) {
	entries, err := authorizer.ReadLog(sh.id, sh.relayed.load(), 1)
	if err != nil || len(entries) == 0 {
		return time.Time{}, false, err
	}
	return time.UnixMilli(entries[0].At), true, nil
}

var errCountedEnough = errors.New("counted enough reservations")

// countReservations counts the authorizer's reservations, at most maxReservationsCounted, and their
// greatest age. It fails only when the authorizer's store cannot be read.
func (h *Health) countReservations(authorizer Authorizer, now time.Time) error {
	err := authorizer.WalkReservations(func(_, reservation ident.UUID, _ money.Cents) error {
		h.Reservations++
		h.ReservationAge = max(h.ReservationAge, now.Sub(reservation.Time()))
		if h.Reservations >= maxReservationsCounted {
			return errCountedEnough
		}
		return nil
	})
	if errors.Is(err, errCountedEnough) {
		return nil
	}
	return err
}

// pendingRequests returns the number of requests that actors have not answered.
func (d *directory) pendingRequests() (n int) {
	for i := range d.stripes {
		part := &d.stripes[i]
		part.mu.Lock()
		for _, e := range part.activations {
			n += e.pending
		}
		part.mu.Unlock()
	}
	return n
}

// Ready returns nil when the journal answers, the shards are held and the authorizer follows the
// journal. The error joins every condition that fails. Before Start has ended and after Stop the
// error says only that. A workspace that is set aside from the relay is an alarm (Health) and no
// reason to take the server out of traffic.
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
		if _, behind := sh.followerLagAt(s.journal.Head(sh.id).Position, now); behind > followerTolerance {
			late = append(late, sh.id)
		}
	}
	return errors.Join(
		s.outage.current(),
		shardsNotReady(lost, "the last commit is being resolved"),
		shardsNotReady(late, fmt.Sprintf("the authorizer is more than %s behind the journal", followerTolerance)))
}

func shardsNotReady(shards []ident.Shard, why string) error {
	if len(shards) == 0 {
		return nil
	}
	return fmt.Errorf("%d shards, the first of them %d: %s", len(shards), shards[0], why)
}
