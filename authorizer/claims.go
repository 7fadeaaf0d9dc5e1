package authorizer

import (
	"bytes"
	"sync"
	"time"

	"purser/authorizer/hold"
)

const claimStripes = 256

// claims serialize the messages of one network id: the second message waits until the first is
// durable and then finds its answer in the store. There are at most two per admitted ticket.
type claims struct{ stripes [claimStripes]stripe }

type stripe struct {
	mu   sync.Mutex
	held map[networkID]*claim
}

type claim struct {
	id      networkID
	owner   *ticket
	waiters []chan struct{}
}

func newClaims() *claims {
	c := &claims{}
	for i := range c.stripes {
		c.stripes[i].held = make(map[networkID]*claim)
	}
	return c
}

// takeMessage claims the message's own id, and that of the authorization it names.
func (c *claims) takeMessage(t *ticket, m *hold.Message) bool {
	own := networkIDOf(routeOf(m.Kind), m.ID)
	t.own = own
	if m.OriginalID == "" {
		return c.take(t, own)
	}
	t.original = networkIDOf(routeAuthorizations, m.OriginalID)
	return c.take(t, own, t.original)
}

// take claims the ids in one order for all, so that no two tickets wait for each other. It is false
// when the deadline comes first; it has then taken nothing.
func (c *claims) take(t *ticket, ids ...networkID) bool {
	if len(ids) == 2 && bytes.Compare(ids[0][:], ids[1][:]) > 0 {
		ids[0], ids[1] = ids[1], ids[0]
	}
	for i := range ids {
		if i == 1 && ids[1] == ids[0] {
			break
		}
		t.claims[i].id = ids[i]
		if !c.acquire(&t.claims[i]) {
			c.release(t)
			return false
		}
		t.claimed++
	}
	return true
}

func (c *claims) acquire(own *claim) bool {
	s := &c.stripes[own.id[1]]
	for {
		s.mu.Lock()
		first := s.held[own.id]
		if first == nil {
			s.held[own.id] = own
			s.mu.Unlock()
			return true
		}
		freed := make(chan struct{})
		first.waiters = append(first.waiters, freed)
		s.mu.Unlock()
		select {
		case <-freed:
		case <-own.owner.deadline:
			if s.doomClaim(own.id) {
				return false
			}
			own.owner.deadline = passed
		}
	}
}

// doomClaim makes the holder of a claim answer timeout, as the waiter is about to. It is false when
// the holder is already durable: its claim is then free in a moment.
func (s *stripe) doomClaim(id networkID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.held[id]
	if first == nil {
		return false
	}
	return first.owner.state.CompareAndSwap(pending, doomed) || first.owner.state.Load() != synced
}

func (c *claims) release(t *ticket) {
	for i := range t.claims[:t.claimed] {
		own := &t.claims[i]
		s := &c.stripes[own.id[1]]
		s.mu.Lock()
		delete(s.held, own.id)
		for _, w := range own.waiters {
			close(w)
		}
		clear(own.waiters)
		own.waiters = own.waiters[:0]
		s.mu.Unlock()
	}
	t.claimed = 0
}

// passed is a deadline in the past.
var passed = func() <-chan time.Time { c := make(chan time.Time); close(c); return c }()
