package actors

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"purser/actors/decision"
	"purser/persistence"
)

// Limits of reactions.
const (
	reactBatch    = 64 // events read at a time, and events kept in memory for each reaction and shard
	reactPause    = 200 * time.Millisecond
	reactPauseMax = 30 * time.Second
	reactTimeout  = 15 * time.Second
	// maxPendingCauses bounds the causes that a reaction has read in a shard and not handled. One
	// workspace cannot reach it alone: it has at most 10,000 open payouts.
	maxPendingCauses = 65_536
	// maxReactWorkers bounds the workspaces of a shard that a reaction serves at a time.
	maxReactWorkers = 8
)

// Reaction turns an event of one actor into a command to another actor or a call of a partner. It
// has a durable cursor in each shard. After a crash between the effect and the cursor it runs again
// for the same event, so that its effects must be repeatable: the ids and idempotency keys of its
// commands derive from the event. An event whose handling fails is handled again until it succeeds.
//
// The causes of one workspace are handled in order. Workspaces are served in turn and concurrently,
// so that a partner that does not answer for one workspace, or a command that fails, delays that
// workspace alone. The cursor is the position before the oldest cause that is not handled.
type Reaction struct {
	Name   string           // name of its stored cursor
	Events []decision.Event // zero values of the event types that cause it
	Handle func(ctx context.Context, e persistence.Event) error
}

func (r *Reaction) causedBy(e *persistence.Event) bool {
	return slices.ContainsFunc(r.Events, func(of decision.Event) bool { return of.EventType() == e.Type })
}

// reacting is the progress of a reaction in a shard. The goroutine of react reads causes, saves the
// cursor, starts workers, and alone uses saved. mu guards the fields below it.
type reacting struct {
	sh       *shard
	reaction Reaction
	saved    uint64        // the cursor in the journal
	changed  chan struct{} // capacity 1: a cause was handled, or a line is ready again

	mu      sync.Mutex
	read    uint64                    // every cause through this position is handled or pending
	pending []*pendingCause           // ascending; the first one is not handled
	lines   map[string]*workspaceLine // lines with pending causes, by workspace
	ready   []*workspaceLine          // lines that wait for a worker
	workers int
}

// pendingCause is an event that was read and not handled.
type pendingCause struct {
	position uint64
	event    *persistence.Event // nil: read again when its turn comes
	handled  bool
}

// workspaceLine is the queue of one workspace's pending causes. A line is in ready, or served by a
// worker, or delayed after a failure.
type workspaceLine struct {
	workspace string
	causes    []*pendingCause
	pause     time.Duration // after the last failure; 0 after a success
	delayed   bool          // the line waits for its next attempt after a failure
}

func newReacting(sh *shard, r Reaction, cursor uint64) *reacting {
	return &reacting{sh: sh, reaction: r, saved: cursor, read: cursor, changed: make(chan struct{}, 1),
		lines: make(map[string]*workspaceLine)}
}

// reactor runs reactions.
type reactor struct {
	*loops
	journal  persistence.Journal
	listener Listener
}

// react handles the causes of a reaction in a shard until the context ends. Start runs it in a
// goroutine for each reaction and shard. Failed reads and saves of the cursor are logged and tried
// again.
func (x *reactor) react(ctx context.Context, sh *shard, r Reaction) {
	cursor, ok := x.reactionCursor(ctx, sh, r)
	for p := newReacting(sh, r, cursor); ok; {
		err := x.reactOnce(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			x.Complain("reaction "+r.Name, err, "shard", sh.id)
			ok = persistence.Pause(ctx, reactPause)
		}
	}
}

// reactOnce starts workers for the ready lines and reads the next page of causes. Without one it
// saves the cursor and waits for new causes or for handled ones. It fails only when the journal
// does; the failure of a cause is the worker's.
func (x *reactor) reactOnce(ctx context.Context, p *reacting) error {
	for range p.takeWorkers() {
		x.Go(func(ctx context.Context) { x.reactWorker(ctx, p) })
	}
	wake, more, err := x.readCauses(ctx, p)
	if err != nil || more {
		return err
	}
	if p.handledThrough() > p.saved {
		if err := x.saveReaction(ctx, p); err != nil {
			return err
		}
	}
	select {
	case <-wake:
	case <-p.changed:
	case <-ctx.Done():
	}
	return nil
}

// readCauses reads the next page of causes into the lines. more is false when there is no next
// cause, in which case wake is closed when there is, or no room. It saves the cursor every
// wakeEvery positions, which bounds the events that are read again after a crash. It fails only
// when the journal does.
func (x *reactor) readCauses(ctx context.Context, p *reacting) (wake <-chan struct{}, more bool, err error) {
	room, read := p.readRoom()
	if room == 0 {
		return nil, false, nil
	}
	next, through, wake := p.sh.causeIndex.nextAfter(read)
	if next == 0 {
		p.skipThrough(through)
		return wake, false, nil
	}
	events, err := x.journal.Events(ctx, p.sh.id, next-1, min(room, reactBatch))
	if err != nil {
		return nil, false, err
	}
	p.addCauses(events)
	if p.handledThrough() >= p.saved+wakeEvery {
		err = x.saveReaction(ctx, p)
	}
	return nil, true, err
}

func (x *reactor) saveReaction(ctx context.Context, p *reacting) error {
	through := p.handledThrough()
	err := x.journal.SaveCursor(ctx, "reaction/"+p.reaction.Name, p.sh.id, through)
	if err == nil {
		p.saved = through
	}
	return err
}

// reactionCursor reads the stored cursor of a reaction. It retries until it succeeds; false means
// that the context has ended.
func (x *reactor) reactionCursor(ctx context.Context, sh *shard, r Reaction) (uint64, bool) {
	for {
		cursor, err := x.journal.Cursor(ctx, "reaction/"+r.Name, sh.id)
		if err == nil {
			return cursor, true
		}
		if ctx.Err() == nil {
			x.Complain("cursor of reaction "+r.Name, err, "shard", sh.id)
		}
		if !persistence.Pause(ctx, reactPause) {
			return 0, false
		}
	}
}

// reactWorker handles causes, one of each ready line in turn, until no line is ready or the System
// stops. It logs a failure; the line's next attempt comes after a pause (settleCause).
func (x *reactor) reactWorker(ctx context.Context, p *reacting) {
	for {
		line, cause := p.nextCause(ctx.Err() != nil)
		if line == nil {
			return
		}
		err := x.reactTo(ctx, p, cause)
		if err != nil && ctx.Err() == nil {
			x.Complain("reaction "+p.reaction.Name, err, "shard", p.sh.id, "workspace", line.workspace)
		}
		p.settleCause(line, err)
	}
}

// reactTo calls the reaction's Handle with one cause, within reactTimeout. It fails with Handle's
// error, or when the event is no longer in memory and cannot be read again. A worker calls it.
func (x *reactor) reactTo(ctx context.Context, p *reacting, cause *pendingCause) error {
	within, cancel := x.Within(ctx, reactTimeout)
	defer cancel()
	event := cause.event
	if event == nil {
		events, err := x.journal.Events(within, p.sh.id, cause.position-1, 1)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return fmt.Errorf("event at position %d: %w", cause.position, persistence.ErrUnavailable)
		}
		event = &events[0]
	}
	err := p.reaction.Handle(within, *event)
	x.listener.Reacted(p.reaction.Name, err)
	return err
}

// readRoom returns the number of causes that may be read, and the position after which to read.
func (p *reacting) readRoom() (room int, read uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, maxPendingCauses-len(p.pending)), p.read
}

// skipThrough notes that no event up to a position is a cause.
func (p *reacting) skipThrough(through uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = max(p.read, through)
}

// addCauses appends the causes of a page to the lines of their workspaces.
func (p *reacting) addCauses(events []persistence.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range events {
		e := &events[i]
		p.read = e.Position
		if !p.reaction.causedBy(e) {
			continue
		}
		cause := &pendingCause{position: e.Position}
		if len(p.pending) < reactBatch {
			kept := *e
			cause.event = &kept
		}
		p.pending = append(p.pending, cause)
		line := p.lines[e.Workspace]
		if line == nil {
			line = &workspaceLine{workspace: e.Workspace}
			p.lines[e.Workspace] = line
			p.ready = append(p.ready, line)
		}
		line.causes = append(line.causes, cause)
	}
}

// takeWorkers returns the number of workers to start for the ready lines, and counts them.
func (p *reacting) takeWorkers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.ready), maxReactWorkers-p.workers)
	p.workers += n
	return n
}

// nextCause returns the line that has waited longest, and its first cause. Without a ready line, or
// when stop is set, it returns nil and subtracts the calling worker, which must end.
func (p *reacting) nextCause(stop bool) (*workspaceLine, *pendingCause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stop || len(p.ready) == 0 {
		p.workers--
		return nil, nil
	}
	line := p.ready[0]
	p.ready[0], p.ready = nil, p.ready[1:]
	return line, line.causes[0]
}

// settleCause removes the first cause of a line after it was handled. After a failure the line is
// ready again after a pause, which doubles up to reactPauseMax.
func (p *reacting) settleCause(line *workspaceLine, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		line.pause, line.delayed = min(max(2*line.pause, reactPause), reactPauseMax), true
		time.AfterFunc(line.pause, func() { p.resumeLine(line) })
		return
	}
	cause := line.causes[0]
	cause.handled, cause.event = true, nil
	line.causes, line.pause = line.causes[1:], 0
	if len(line.causes) > 0 {
		p.ready = append(p.ready, line)
	} else {
		delete(p.lines, line.workspace)
	}
	for len(p.pending) > 0 && p.pending[0].handled {
		p.pending[0], p.pending = nil, p.pending[1:]
	}
	p.signalChange()
}

// resumeLine makes a delayed line ready. It does nothing for another line.
func (p *reacting) resumeLine(line *workspaceLine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !line.delayed {
		return
	}
	line.delayed = false
	p.ready = append(p.ready, line)
	p.signalChange()
}

func (p *reacting) signalChange() {
	select {
	case p.changed <- struct{}{}:
	default: // a signal is already pending
	}
}

// handledThrough returns the position through which every cause is handled.
func (p *reacting) handledThrough() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) > 0 {
		return p.pending[0].position - 1
	}
	return p.read
}
