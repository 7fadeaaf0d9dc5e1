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
	maxPendingPerActor = 4096    // unanswered requests of one actor; the next one is answered unavailable
	maxActors          = 400_000 // actors in memory
	directoryStripes   = 64
	idleBeforePassive  = 30 * time.Second
	passivateEvery     = 5 * time.Second
)

// directory maps each stream to its only live actor, and spawns it on demand. protoactor's
// mailboxes have no bound, and its Stop drops queued messages. Therefore the directory counts
// unanswered requests: the count refuses requests over the limit (backpressure), and keeps a busy
// actor in memory. It is safe for concurrent use.
type directory struct {
	root        *actor.RootContext
	spawn       func(key streamKey, e *activation) *actor.Props
	names       atomic.Uint64
	activations atomic.Int64
	seed        maphash.Seed
	stripes     [directoryStripes]directoryStripe
}

type directoryStripe struct {
	mu          sync.Mutex
	activations map[streamKey]*activation
}

type streamKey struct{ kind, stream string }

// activation is one incarnation of an actor in memory.
type activation struct {
	key     streamKey
	pid     *actor.PID
	pending int
	used    time.Time
	gone    bool
}

func newDirectory(root *actor.RootContext, spawn func(streamKey, *activation) *actor.Props) *directory {
	d := &directory{root: root, spawn: spawn, seed: maphash.MakeSeed()}
	for i := range d.stripes {
		d.stripes[i].activations = make(map[streamKey]*activation)
	}
	return d
}

func (d *directory) stripeOf(key streamKey) *directoryStripe {
	return &d.stripes[maphash.Comparable(d.seed, key)%directoryStripes]
}

// dispatch sends a request to the stream's actor, which it spawns when it is not in memory. It
// returns false, with nothing sent, when the actor has maxPendingPerActor unanswered requests, or
// memory has maxActors actors.
func (d *directory) dispatch(key streamKey, now time.Time, request func(*activation) any) bool {
	part := d.stripeOf(key)
	part.mu.Lock()
	defer part.mu.Unlock()
	e := part.activations[key]
	if e == nil {
		if d.activations.Load() >= maxActors {
			return false
		}
		e = &activation{key: key}
		// A name is never used twice: protoactor crashes on a message to a name that is being
		// spawned.
		pid, err := d.root.SpawnNamed(d.spawn(key, e), strconv.FormatUint(d.names.Add(1), 36))
		if err != nil {
			panic("BUG: spawn under a fresh name: " + err.Error())
		}
		e.pid = pid
		part.activations[key] = e
		d.activations.Add(1)
	}
	if e.pending >= maxPendingPerActor {
		return false
	}
	e.pending++
	e.used = now
	d.root.Send(e.pid, request(e))
	return true
}

// noteAnswered subtracts one request from an activation's unanswered ones. It must be called once
// for each request that is answered.
func (d *directory) noteAnswered(e *activation) {
	part := d.stripeOf(e.key)
	part.mu.Lock()
	defer part.mu.Unlock()
	e.pending--
	if e.pending < 0 {
		panic("BUG: more answers than requests")
	}
}

// forget removes a failed activation, so that the next request spawns a new one.
func (d *directory) forget(e *activation) {
	part := d.stripeOf(e.key)
	part.mu.Lock()
	d.forgetLocked(part, e)
	part.mu.Unlock()
}

func (d *directory) forgetLocked(part *directoryStripe, e *activation) {
	if e.gone {
		return
	}
	e.gone = true
	delete(part.activations, e.key)
	d.activations.Add(-1)
}

// passivate stops actors without unanswered requests whose last request came before a time.
func (d *directory) passivate(before time.Time) {
	for i := range d.stripes {
		part := &d.stripes[i]
		part.mu.Lock()
		for _, e := range part.activations {
			if e.pending == 0 && e.used.Before(before) {
				d.forgetLocked(part, e)
				d.root.Stop(e.pid)
			}
		}
		part.mu.Unlock()
	}
}
