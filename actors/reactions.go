package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"purser/actors/decision"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/retry"
)

// Limits of reactions.
const (
	reactPause    = 200 * time.Millisecond
	reactPauseMax = 30 * time.Second
	reactTimeout  = 15 * time.Second
	// maxPendingReactions bounds the pending reactions of a shard in memory. One workspace cannot
	// reach it alone: it has at most 10,000 open payouts. The records of more are read once these
	// are handled.
	maxPendingReactions = 65_536
	keptEvents          = 64 // events of a line in memory; those of later places are read again
	maxReactWorkers     = 64 // workspaces that a reaction serves at a time
	reactionReads       = 16 // shards whose records are read at a time at a start
)

// recordReaction is the kind of the records of pending reactions.
const recordReaction = "reaction"

// Reaction turns an event of one actor into a command to another actor or a call of a partner. A
// record that it is pending is committed with the event, and removed once Handle has succeeded.
// After a crash in between it runs again for the same event, so that its effects must be
// repeatable: the ids and idempotency keys of its commands derive from the event. An event whose
// handling fails is handled again until it succeeds.
//
// The events of one workspace are handled in order. Workspaces are served in turn and concurrently,
// so that a partner that does not answer for one workspace, or a command that fails, delays that
// workspace alone.
type Reaction struct {
	Name   string           // in the ids of its records, so that it must not change
	Events []decision.Event // zero values of the event types that cause it
	Handle func(ctx context.Context, e persistence.Event) error
}

// reactor runs the reactions of all shards.
type reactor struct {
	*loops
	journal  persistence.Journal
	listener Listener
	causes   map[string][]string // names of reactions, by event type
	handlers map[string]*handler // by name of the reaction
	commit   func(context.Context, *shard, *persistence.Batch) error
}

// handler is a reaction with a place for each workspace that it serves.
type handler struct {
	Reaction
	places chan struct{}
}

func newReactor(l *loops, j persistence.Journal, to Listener, reactions []Reaction) *reactor {
	x := &reactor{loops: l, journal: j, listener: to, causes: map[string][]string{}, handlers: map[string]*handler{},
		commit: func(ctx context.Context, sh *shard, b *persistence.Batch) error { return sh.lane.commitBatch(ctx, b) }}
	for _, r := range reactions {
		x.handlers[r.Name] = &handler{r, make(chan struct{}, maxReactWorkers)}
		for _, e := range r.Events {
			x.causes[e.EventType()] = append(x.causes[e.EventType()], r.Name)
		}
	}
	return x
}

// pendingReaction is an event that one reaction has not handled.
type pendingReaction struct {
	id        string // the record's: the event's, a slash and the reaction's name
	workspace string
	slot      ident.Slot
	position  uint64             // the event's
	event     *persistence.Event // nil: read when its turn comes
	handled   bool               // only its record is left
}

// reactionName returns the name of the reaction.
func (p *pendingReaction) reactionName() string {
	_, name, _ := strings.Cut(p.id, "/")
	return name
}

// reactionDocument is the document of a pending reaction's record, whose position is that of the
// last event of its batch. Behind is the number of events between the cause and that one.
type reactionDocument struct {
	Behind uint64 `json:"behind"`
}

// addReactions adds to a batch a record for each reaction that its events cause. It fails only when
// a document cannot be encoded.
func (x *reactor) addReactions(b *persistence.Batch) error {
	for i := range b.Events {
		e := &b.Events[i]
		for _, name := range x.causes[e.Type] {
			document, err := json.Marshal(reactionDocument{uint64(len(b.Events) - 1 - i)})
			if err != nil {
				return err
			}
			b.Records = append(b.Records, persistence.Record{Kind: recordReaction, Workspace: b.Workspace,
				ID: e.ID + "/" + name, Slot: b.Slot, Document: document, New: true})
		}
	}
	return nil
}

// noteCommitted queues the reactions that the events of a committed batch cause. It never blocks.
func (x *reactor) noteCommitted(sh *shard, b *persistence.Batch, first uint64) {
	for i := range b.Events {
		for _, name := range x.causes[b.Events[i].Type] {
			e := b.Events[i]
			e.Position, e.Workspace = first+uint64(i), b.Workspace
			p := &pendingReaction{id: e.ID + "/" + name, workspace: b.Workspace, slot: b.Slot, position: e.Position,
				event: &e}
			if line, begins := sh.reactions.addNew(p); begins {
				x.Go(func(ctx context.Context) { x.runLine(ctx, sh, line) })
			}
		}
	}
}

// findAll reads the pending reactions of all shards. It fails when the journal does.
func (x *reactor) findAll(ctx context.Context, shards []*shard) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reactionReads)
	for _, sh := range shards {
		group.Go(func() error {
			if err := x.findPending(ctx, sh); err != nil {
				return fmt.Errorf("shard %d: pending reactions: %w", sh.id, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// findPending reads the pending reactions that are left in the journal, once none is in memory, and
// starts their lines. It fails when the journal does, and for a record that does not decode.
func (x *reactor) findPending(ctx context.Context, sh *shard) error {
	for sh.reactions.beginFind() {
		found, err := x.readPending(ctx, sh)
		for _, line := range sh.reactions.endFind(found, err == nil) {
			x.Go(func(ctx context.Context) { x.runLine(ctx, sh, line) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readPending reads the pending reactions of a shard, in the order of their events.
func (x *reactor) readPending(ctx context.Context, sh *shard) (found []*pendingReaction, err error) {
	for after := ""; ; {
		records, err := x.journal.Records(ctx, sh.id, recordReaction, after, persistence.MaxPage)
		if err != nil {
			return nil, err
		}
		for i := range records {
			r := &records[i]
			var document reactionDocument
			if err := json.Unmarshal(r.Document, &document); err != nil {
				return nil, fmt.Errorf("reaction %s: %w", r.ID, err)
			}
			found = append(found, &pendingReaction{id: r.ID, workspace: r.Workspace, slot: r.Slot,
				position: r.Position - document.Behind})
			after = r.ID
		}
		if len(records) < persistence.MaxPage {
			break
		}
	}
	slices.SortFunc(found, func(a, b *pendingReaction) int { return cmp.Compare(a.position, b.position) })
	return found, nil
}

// runLine handles the events of a line until none is left or the context ends. It logs a failure
// and pauses, twice as long after each further one. The last line of a shard reads the records that
// are left in the journal.
func (x *reactor) runLine(ctx context.Context, sh *shard, line reactionLine) {
	pause := time.Duration(0)
	for p := sh.reactions.firstOf(line); p != nil; {
		err := x.handlePending(ctx, sh, p)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			p, pause = sh.reactions.removeFirst(line), 0
			continue
		}
		x.Complain("reaction "+line.reaction, err, "shard", sh.id, "workspace", line.workspace)
		pause = min(max(2*pause, reactPause), reactPauseMax)
		if !retry.Pause(ctx, pause) {
			return
		}
	}
	for err := x.findPending(ctx, sh); err != nil; err = x.findPending(ctx, sh) {
		x.Complain("pending reactions", err, "shard", sh.id)
		if !retry.Pause(ctx, reactPause) {
			return
		}
	}
}

// handlePending has the reaction handle one event and removes the record. It fails with Handle's
// error, when the event cannot be read, for a reaction that this version does not have, and when
// the removal is not committed.
func (x *reactor) handlePending(ctx context.Context, sh *shard, p *pendingReaction) error {
	h := x.handlers[p.reactionName()]
	if h == nil {
		return fmt.Errorf("no reaction of this version has the record %s", p.id)
	}
	select {
	case h.places <- struct{}{}:
		defer func() { <-h.places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := x.Within(ctx, reactTimeout)
	defer cancel()
	if !p.handled {
		if err := x.callHandle(ctx, sh, h, p); err != nil {
			return err
		}
		p.handled, p.event = true, nil
	}
	return x.commit(ctx, sh, &persistence.Batch{Workspace: p.workspace, Slot: p.slot,
		Records: []persistence.Record{{Kind: recordReaction, Workspace: p.workspace, ID: p.id, Slot: p.slot,
			Deleted: true}}})
}

// callHandle calls Handle with an event. It fails with Handle's error, and when the event is no
// longer in memory and cannot be read.
func (x *reactor) callHandle(ctx context.Context, sh *shard, h *handler, p *pendingReaction) error {
	event := p.event
	if event == nil {
		events, err := x.journal.Events(ctx, sh.id, p.position-1, 1)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return fmt.Errorf("event at position %d: %w", p.position, persistence.ErrUnavailable)
		}
		event = &events[0]
	}
	err := h.Handle(ctx, *event)
	x.listener.Reacted(h.Name, err)
	return err
}

// reactionLine names the queue of one workspace's events for one reaction.
type reactionLine struct{ reaction, workspace string }

// pendingReactions are the pending reactions of a shard in memory. It is safe for concurrent use.
type pendingReactions struct {
	most  int // maxPendingReactions
	mu    sync.Mutex
	count int
	lines map[reactionLine][]*pendingReaction // the first of each is being handled
	// left: the journal has records of others. No line takes another meanwhile, so that the order
	// is kept. finding: they are being read. missed: one was committed since the reading began.
	left, finding, missed bool
}

func newPendingReactions(most int) pendingReactions {
	return pendingReactions{most: most, lines: map[reactionLine][]*pendingReaction{}, left: true}
}

// addNew queues a reaction in its line. It does not when the memory is full, or the journal has
// reactions that are not in memory; the reaction is then read from the journal later. begins
// reports that the line was empty: the caller must run it.
func (q *pendingReactions) addNew(p *pendingReaction) (line reactionLine, begins bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left || q.count >= q.most {
		q.left, q.missed = true, true
		return reactionLine{}, false
	}
	return q.addLocked(p)
}

func (q *pendingReactions) addLocked(p *pendingReaction) (line reactionLine, begins bool) {
	line = reactionLine{p.reactionName(), p.workspace}
	if len(q.lines[line]) >= keptEvents {
		p.event = nil
	}
	q.lines[line] = append(q.lines[line], p)
	q.count++
	return line, len(q.lines[line]) == 1
}

// beginFind reports whether the caller must read the records that are left, and then call endFind.
func (q *pendingReactions) beginFind() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.left || q.count > 0 || q.finding {
		return false
	}
	q.finding, q.missed = true, false
	return true
}

// endFind queues the reactions that were read, in order, and returns the lines that begin. all
// reports that the reading succeeded.
func (q *pendingReactions) endFind(found []*pendingReaction, all bool) (begin []reactionLine) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finding = false
	if !all {
		return nil
	}
	for _, p := range found[:min(len(found), q.most)] {
		if line, begins := q.addLocked(p); begins {
			begin = append(begin, line)
		}
	}
	q.left = q.missed || len(found) > q.most
	return begin
}

// firstOf returns the first of a line; nil without one.
func (q *pendingReactions) firstOf(line reactionLine) *pendingReaction {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines[line]) == 0 {
		return nil
	}
	return q.lines[line][0]
}

// removeFirst removes the first of a line and returns the next; nil when the line has ended.
func (q *pendingReactions) removeFirst(line reactionLine) *pendingReaction {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count--
	waiting := q.lines[line]
	waiting[0], waiting = nil, waiting[1:]
	if len(waiting) == 0 {
		delete(q.lines, line)
		return nil
	}
	q.lines[line] = waiting
	return waiting[0]
}

func (q *pendingReactions) pendingCount() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}
