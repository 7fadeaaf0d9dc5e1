package authorizer

import (
	"sync"
	"sync/atomic"
	"time"

	"purser/authorizer/hold"
	"purser/persistence/ident"
)

// ticket is one commit on its way: admitted, decided under the shard's lock, visible, and waiting
// for the log. Tickets are pooled with everything they need, so that a decision allocates nothing.
//
// Who owns a ticket: Submit; beside a decision that may read the disk the goroutine of the decision;
// the log, once it has the record. The log hands it back to Submit, or to the returner when Submit
// has left because its deadline passed.
type ticket struct {
	shard   *shard
	act     act
	began   time.Time    // act decide: when Submit was called
	message hold.Message // act decide; its strings lie in text
	answer  hold.Answer
	view    hold.View
	entry   hold.Entry

	own, original networkID  // act decide: the message's id, and that of the message it names
	named         remembered // the store's record of original
	originalSeen  bool       // named is an answer, not a tombstone
	moved         bool       // nothing known is concerned: it is for the system's workspace
	approval      hold.Entry // act return: the approval to undo
	due           int64      // act expire: the time in the due index
	stale         bool       // act expire: the index was behind the hold, nothing was logged

	byToken bool
	token   ident.Token
	holdID  ident.UUID // zero when no hold is concerned

	// Inputs of the decision, valid under the lock.
	card  *cardItem
	funds *fundsItem
	load  loaded

	logged bool // the record is that of entry
	queued bool // the log has it, or had
	state  atomic.Uint32
	done   chan struct{}
	err    error // the sync's

	claims   [2]claim
	claimed  int
	admitted bool
	timer    *time.Timer
	deadline <-chan time.Time
	scratch
}

// scratch has the buffers of keys, values and texts, which are used again.
type scratch struct{ key, val, text, record []byte }

// act is what a ticket does under the lock.
type act uint8

const (
	actDecide act = 1 + iota
	actExpire
	actReturn
	actWrite // Follow, Reserve, Release: the batch is all
)

// States of a ticket. The log moves pending to synced, and doomed to doomedSynced; the owner at
// its deadline pending or doomed to left. A repeat that waits for this ticket and reaches its own
// deadline dooms it: both then answer timeout.
const (
	pending uint32 = iota
	synced
	doomed
	doomedSynced
	left
)

// loaded has the inputs that were read from the store before the lock. They are valid as long as
// the shard's change counter equals at.
type loaded struct {
	done      bool
	at        uint64
	rule      *hold.Rule // nil for an unknown card
	hold      hold.Hold
	holdFound bool
	spend     hold.Spend
	funds     *fundsItem
}

func newTicketPool() *sync.Pool {
	return &sync.Pool{New: func() any {
		t := &ticket{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
		t.timer.Stop()
		for i := range t.claims {
			t.claims[i].owner = t
		}
		return t
	}}
}

// newTicket takes a ticket from the pool. Release it.
func (c *committer) newTicket(a act) *ticket {
	t := c.pool.Get().(*ticket)
	t.act = a
	return t
}

// armTicket starts the deadline of an answer to a message that has waited before.
func (c *committer) armTicket(t *ticket, waited time.Duration) {
	if c.deadline != nil {
		t.deadline = c.deadline()
		return
	}
	t.timer.Reset(max(0, c.answerWithin-waited))
	t.deadline = t.timer.C
}

// admitTicket takes one of the places for unsynced commits, false when the deadline comes first. A
// free place is taken even after the deadline. A ticket without a deadline waits.
func (c *committer) admitTicket(t *ticket) bool {
	select {
	case c.slots <- struct{}{}:
		t.admitted = true
		return true
	default:
	}
	select {
	case c.slots <- struct{}{}:
		t.admitted = true
		return true
	case <-t.deadline:
		return false
	}
}

// release gives back all that the ticket holds, and the ticket.
func (c *committer) release(t *ticket) {
	c.claims.release(t)
	if t.admitted {
		<-c.slots
	}
	t.timer.Stop()
	*t = ticket{done: t.done, timer: t.timer, claims: t.claims, scratch: t.scratch}
	c.pool.Put(t)
}

// wait returns nil when the commit is durable, or there is none. errLate says that the deadline
// came first; the ticket then belongs to others.
func (c *committer) wait(t *ticket) error {
	select {
	case <-t.done:
	case <-t.deadline:
		if t.state.CompareAndSwap(pending, left) || t.state.CompareAndSwap(doomed, left) {
			return errLate
		}
		<-t.done
	}
	if t.err != nil {
		return t.err
	}
	if t.state.Load() == doomedSynced && t.logged || t.late() {
		c.settleLate(t)
		return errLate
	}
	return nil
}

// late reports that the deadline has passed. A process that did not run for a while finds commit
// and deadline at once.
func (t *ticket) late() bool {
	select {
	case <-t.deadline:
		return true
	default:
		return false
	}
}

// settleLate gives up a synced ticket whose answer comes too late.
func (c *committer) settleLate(t *ticket) {
	if t.logged {
		c.takeBack(t)
		return
	}
	c.release(t)
}
