package actors

import (
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Limits of the directory.
const (
	maxPendingPerActor = 4096    // requests of one actor that are not answered yet; over it the answer is unavailable
	maxActors          = 400_000 // actors in memory
	directoryStripes   = 64
	idleBeforePassive  = 30 * time.Second
	passivateEvery     = 5 * time.Second
)

// directory finds the one live actor of a stream, and makes it. protoactor's mailboxes have no bound and its Stop drops what is
// queued; so the count of unanswered requests is kept here, where it refuses the next one (that is the backpressure) and
// pins the actor while it has work.
type directory struct {
	root  *actor.RootContext
	spawn func(key streamKey, e *entry) *actor.Props
	names atomic.Uint64
	alive atomic.Int64
	seed  maphash.Seed
	parts [directoryStripes]directoryPart
}

type directoryPart struct {
	mu      sync.Mutex
	entries map[streamKey]*entry
}

type streamKey struct{ kind, stream string }

// entry is one incarnation of an actor.
type entry struct {
	key     streamKey
	pid     *actor.PID
	pending int
	used    time.Time
	gone    bool
}

func newDirectory(root *actor.RootContext, spawn func(streamKey, *entry) *actor.Props) *directory {
	d := &directory{root: root, spawn: spawn, seed: maphash.MakeSeed()}
	for i := range d.parts {
		d.parts[i].entries = make(map[streamKey]*entry)
	}
	return d
}

func (d *directory) part(key streamKey) *directoryPart {
	return &d.parts[maphash.Comparable(d.seed, key)%directoryStripes]
}

// tell sends a request to the stream's actor, spawning it under a fresh name when it is not in memory. False: over a limit.
func (d *directory) tell(key streamKey, now time.Time, request func(*entry) any) bool {
	part := d.part(key)
	part.mu.Lock()
	defer part.mu.Unlock()
	e := part.entries[key]
	if e == nil {
		if d.alive.Load() >= maxActors {
			return false
		}
		e = &entry{key: key}
		// A name is never used twice: sending to a name while it is being spawned crashes protoactor.
		pid, err := d.root.SpawnNamed(d.spawn(key, e), strconv.FormatUint(d.names.Add(1), 36))
		if err != nil {
			panic("BUG: spawn under a fresh name: " + err.Error())
		}
		e.pid = pid
		part.entries[key] = e
		d.alive.Add(1)
	}
	if e.pending >= maxPendingPerActor {
		return false
	}
	e.pending++
	e.used = now
	d.root.Send(e.pid, request(e))
	return true
}

// answered counts one request of the entry as done.
func (d *directory) answered(e *entry) {
	part := d.part(e.key)
	part.mu.Lock()
	defer part.mu.Unlock()
	e.pending--
	if e.pending < 0 {
		panic("BUG: more answers than requests")
	}
}

// remove forgets an incarnation that fails, so that the next request finds a new one.
func (d *directory) remove(e *entry) {
	part := d.part(e.key)
	part.mu.Lock()
	d.drop(part, e)
	part.mu.Unlock()
}

func (d *directory) drop(part *directoryPart, e *entry) {
	if e.gone {
		return
	}
	e.gone = true
	delete(part.entries, e.key)
	d.alive.Add(-1)
}

// passivate stops the actors that have had no work since before.
func (d *directory) passivate(before time.Time) {
	for i := range d.parts {
		part := &d.parts[i]
		part.mu.Lock()
		for _, e := range part.entries {
			if e.pending == 0 && e.used.Before(before) {
				d.drop(part, e)
				d.root.Stop(e.pid)
			}
		}
		part.mu.Unlock()
	}
}
