package actors

import (
	"slices"
	"sort"
	"sync"

	"purser/persistence"
)

// Limits of causes.
const (
	maxCauses = 1024 // positions kept of a shard; of those before them nothing is known
	tellAfter = 256  // events that are none after which the reactions are told of them all the same, to write their cursors
)

// causes are where the events of a shard lie that cause some reaction. The follower, who reads every event, notes them, so that
// a swipe or a card's new limit neither wakes the reactions nor is read by each of them: in a shard's burst they were a queue of
// some milliseconds for the swipes behind it.
type causes struct {
	types   map[string]bool // of events that cause some reaction
	mu      sync.Mutex
	from    uint64        // of what lies through here nothing is known
	through uint64        // the last event that was noted
	at      []uint64      // in between, ascending
	told    uint64        // through, when the reactions were last woken
	wake    chan struct{} // closed to wake them; nil when nobody waits
}

// causing is the types of events that cause one of the reactions.
func causing(reactions []Reaction) map[string]bool {
	types := make(map[string]bool)
	for _, r := range reactions {
		for _, e := range r.Events {
			types[e.EventType()] = true
		}
	}
	return types
}

// begin says that the next event to be noted comes after a position.
func (c *causes) begin(position uint64) { c.from, c.through, c.told = position, position, position }

// note takes in a page of events, which must follow on what was noted.
func (c *causes) note(events []persistence.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := len(c.at)
	for i := range events {
		if c.types[events[i].Type] {
			c.at = append(c.at, events[i].Position)
		}
	}
	c.through = events[len(events)-1].Position
	news := len(c.at) > known
	if over := len(c.at) - maxCauses; over > 0 {
		c.from = c.at[over-1]
		c.at = slices.Delete(c.at, 0, over)
	}
	if news || c.through-c.told >= tellAfter {
		c.tellLocked()
	}
}

// untold says whether there are events that the reactions were not woken for.
func (c *causes) untold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told < c.through
}

// tell wakes the reactions.
func (c *causes) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tellLocked()
}

func (c *causes) tellLocked() {
	c.told = c.through
	if c.wake != nil {
		close(c.wake)
		c.wake = nil
	}
}

// after returns the position of the next event that may be a cause, 0 when there is none; then nothing through a position is one,
// and the channel is closed when there is more to say.
func (c *causes) after(past uint64) (next, through uint64, told <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if past < c.from {
		return past + 1, 0, nil
	}
	if i := sort.Search(len(c.at), func(i int) bool { return c.at[i] > past }); i < len(c.at) {
		return c.at[i], 0, nil
	}
	if c.wake == nil {
		c.wake = make(chan struct{})
	}
	return 0, max(past, c.through), c.wake
}
