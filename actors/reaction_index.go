package actors

import (
	"slices"
	"sort"
	"sync"

	"purser/persistence"
)

// Limits of a reactionIndex.
const (
	maxCauses = 1024 // positions kept of a shard; earlier ones are forgotten
	wakeEvery = 256  // events without a cause after which the reactions wake to save their cursors
)

// reactionIndex holds, per shard, the positions of events that trigger at least one reaction. The
// follower, which reads every event, fills it, so that swipes and limit changes neither wake the
// reactions nor are read by them: with a reader of every event for each reaction, swipes waited
// some milliseconds behind a burst of their shard. It is safe for concurrent use.
type reactionIndex struct {
	causeTypes     map[string]bool // types of events that trigger a reaction
	mu             sync.Mutex
	unknownThrough uint64        // causes up to this position are not known
	through        uint64        // the last event of the last page
	positions      []uint64      // of the causes between them, ascending
	wokenAt        uint64        // value of through when the reactions were last woken
	wake           chan struct{} // closed to wake the reactions; nil while no reaction waits
}

// typesOfCauses returns the types of events that trigger one of the reactions.
func typesOfCauses(reactions []Reaction) map[string]bool {
	types := make(map[string]bool)
	for _, r := range reactions {
		for _, e := range r.Events {
			types[e.EventType()] = true
		}
	}
	return types
}

// startAfter makes an empty index whose first page begins after a position.
func (c *reactionIndex) startAfter(position uint64) {
	c.unknownThrough, c.through, c.wokenAt = position, position, position
}

// addPage adds the next page of events, of which there is at least one. It wakes the reactions when
// the page has a cause, or wakeEvery events came without one. The follower calls it for each page
// that it has applied.
func (c *reactionIndex) addPage(events []persistence.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := len(c.positions)
	for i := range events {
		if c.causeTypes[events[i].Type] {
			c.positions = append(c.positions, events[i].Position)
		}
	}
	c.through = events[len(events)-1].Position
	news := len(c.positions) > known
	if over := len(c.positions) - maxCauses; over > 0 {
		c.unknownThrough = c.positions[over-1]
		c.positions = slices.Delete(c.positions, 0, over)
	}
	if news || c.through-c.wokenAt >= wakeEvery {
		c.wakeLocked()
	}
}

// needsWake reports whether events were added since the reactions were last woken.
func (c *reactionIndex) needsWake() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wokenAt < c.through
}

// wakeReactions wakes the reactions.
func (c *reactionIndex) wakeReactions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakeLocked()
}

func (c *reactionIndex) wakeLocked() {
	c.wokenAt = c.through
	if c.wake != nil {
		close(c.wake)
		c.wake = nil
	}
}

// nextAfter returns the position of the next event after past that may be a cause. When there is
// none, next is 0, no event up to through is a cause, and woken is closed when the index has more.
// Each reaction calls it before it reads events.
func (c *reactionIndex) nextAfter(past uint64) (next, through uint64, woken <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if past < c.unknownThrough {
		return past + 1, 0, nil
	}
	if i := sort.Search(len(c.positions), func(i int) bool { return c.positions[i] > past }); i < len(c.positions) {
		return c.positions[i], 0, nil
	}
	if c.wake == nil {
		c.wake = make(chan struct{})
	}
	return 0, max(past, c.through), c.wake
}
