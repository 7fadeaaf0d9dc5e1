package actors

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/persistence"
	"purser/persistence/ident"
)

// errUnreadable: a stored document does not decode, and a retry would read the same.
var errUnreadable = errors.New("the stored document does not decode")

// maxDecideTries bounds the decisions of one command when other commits move its stream.
const maxDecideTries = 4

// State is implemented by the domain packages: a document that decides commands and applies events.
// See package decision.
type State interface {
	Decide(m decision.Meta, command any) (decision.Decision, error)
	Apply(e decision.Event)
}

// Envelope addresses a command to an actor. Workspace is the caller's: an actor of another
// workspace answers not_found.
type Envelope struct {
	Kind, Stream, Workspace string
	Command                 any
	Key                     *Key
}

type request struct {
	ctx    context.Context
	env    Envelope
	entry  *activation
	answer chan answer // capacity 1: sending never blocks
	tries  int
	done   atomic.Bool
}

type answer struct {
	reply any
	err   error
}

// op is one decided command. It is staged behind earlier ones and answered after them.
type op struct {
	req     *request
	batch   *persistence.Batch // nil: nothing to commit
	onces   []decision.Once    // the claims of batch.Onces with their error codes
	tallies []decision.Tally
	debit   *decision.Debit
	reply   any
	err     error
	pid     *actor.PID
	settled bool
	outcome persistence.Outcome
	done    chan struct{} // closed with the outcome, for an op of commitBatch, which has no actor
}

type phase uint8

const (
	unloaded  phase = iota // the state record is not read, or failed to be: the next request reads it
	loading                // the state record is being read
	open                   // commands are decided on arrival
	fetching               // a command's order is being read
	reserving              // a debit waits for the authorizer
	draining               // every staged op must be settled before the next decision
	dead                   // after a panic: answer queued requests, then stop
)

// Messages that an entity or its lane sends to the entity.
type (
	loaded struct {
		state    State
		record   persistence.Record
		position uint64
		err      error
	}
	reserved struct {
		req *request
		d   decision.Decision
		ok  bool
		err error
	}
	committed   struct{ ops []*op }
	stopMessage struct{}
)

// entity is the event-sourced actor of every kind. It is the only writer of its stream. It decides
// against the staged state, so that many commands share one commit, and answers in order after the
// commit. Receive never blocks.
type entity struct {
	sys       *System
	kind      *Kind
	key       streamKey
	slot      ident.Slot
	shard     *shard
	entry     *activation
	self      *actor.PID
	phase     phase
	state     State
	workspace string
	version   uint64 // version of the newest staged event
	position  uint64 // position of the newest committed event, or the shard's head when the record was read
	waiting   []*request
	deciding  *request // removed from waiting and not yet staged
	staged    []*op
	unsettled int // staged ops that carry events and are not settled
	failed    bool
	retry     []*request
}

// Receive handles a request, or a message from the entity's own goroutines or its lane. It must be
// called with one message at a time. It never blocks. A panic is recovered (recoverPanic).
func (n *entity) Receive(c actor.Context) {
	defer n.recoverPanic(c)
	switch m := c.Message().(type) {
	case *actor.Started:
		n.self = c.Self()
		n.startLoading()
	case *request:
		n.waiting = append(n.waiting, m)
		n.decideWaiting()
	case *loaded:
		n.onLoaded(m)
	case *reserved:
		n.onReserved(m)
	case *fetched:
		n.onFetched(m)
	case *committed:
		for _, o := range m.ops {
			o.settled = true
		}
		n.settleStaged()
	case stopMessage:
		c.Stop(c.Self())
	}
}

// startLoading reads the state record in a goroutine, which sends the result to the entity. An
// entity loads when it starts, at a request after a failed load, and after a failed commit.
func (n *entity) startLoading() {
	n.phase = loading
	go func() { n.sys.root.Send(n.self, n.readState()) }()
}

// readState reads the state record. A stream without a record has the zero state. It fails with
// ErrUnavailable while the shard's last commit is unresolved, because that commit could still
// change the record; with errUnreadable when the document does not decode; and with the store's
// error.
func (n *entity) readState() *loaded {
	if n.shard.lost.Load() {
		return &loaded{err: persistence.ErrUnavailable}
	}
	ctx, cancel := n.sys.Within(n.sys.laneCtx, loadTimeout)
	defer cancel()
	state := n.kind.New()
	record, err := n.sys.journal.Record(ctx, n.slot, n.key.kind, n.key.stream)
	if err == nil {
		if err = json.Unmarshal(record.Document, state); err != nil {
			err = fmt.Errorf("%w: %w", errUnreadable, err)
		}
	} else if errors.Is(err, persistence.ErrNotFound) {
		err = nil
	}
	// The head is read after the record, so that an answer waits for every event that the record
	// shows.
	return &loaded{state: state, record: record, position: n.sys.journal.Head(n.shard.id).Position, err: err}
}

// onLoaded takes the state that readState read, and decides the waiting commands. After a failed
// read it answers them unavailable, or internal when the document does not decode; the next request
// reads again.
func (n *entity) onLoaded(m *loaded) {
	if n.phase == dead {
		n.decideWaiting()
		return
	}
	if m.err != nil {
		n.sys.Complain("actor not loaded", m.err, "kind", n.key.kind)
		n.phase = unloaded
		refusal := fault.New(fault.Unavailable, "The record could not be read; nothing changed.")
		if errors.Is(m.err, errUnreadable) {
			refusal = fault.New(fault.Internal, "The stored record cannot be decoded; nothing changed.")
		}
		n.failWaiting(refusal)
		return
	}
	n.state, n.version, n.workspace = m.state, m.record.Version, m.record.Workspace
	n.position = max(n.position, m.position)
	n.phase = open
	n.decideWaiting()
}

func (n *entity) failWaiting(err error) {
	for _, r := range n.waiting {
		n.answerOnce(r, nil, err)
	}
	n.waiting = n.waiting[:0]
}

// decideWaiting decides waiting commands in order while the phase is open. After a panic it answers
// them unavailable. It is called after every message that may change the phase.
func (n *entity) decideWaiting() {
	if n.phase == dead {
		n.failWaiting(fault.New(fault.Unavailable, "The actor has stopped; nothing changed."))
		return
	}
	for n.phase == open && len(n.waiting) > 0 {
		r := n.waiting[0]
		n.waiting[0] = nil
		n.waiting = n.waiting[1:]
		n.deciding = r
		n.decideRequest(r)
		n.deciding = nil
	}
	switch {
	case n.phase == unloaded && len(n.waiting) > 0:
		n.startLoading()
	case n.phase == draining && len(n.staged) == 0:
		n.resumeDeciding()
	}
}

// decideRequest decides one command on the staged state, and stages its answer or submits its
// batch. The answer is unavailable when the caller's context has ended, not_found for another
// workspace's actor, or else the error of Decide. A command may also wait: for its order, for the
// authorizer, or for the staged ops before it.
func (n *entity) decideRequest(r *request) {
	switch {
	case r.ctx.Err() != nil:
		n.stageAnswer(&op{req: r, err: fault.New(fault.Unavailable, "The request waited too long; nothing changed.")})
		return
	case n.workspace != "" && r.env.Workspace != n.workspace:
		n.stageAnswer(&op{req: r, err: fault.New(fault.NotFound, "")})
		return
	}
	if !n.ordersLoaded(r) {
		return
	}
	if n.version == 0 {
		// Streams that begin at once get their places in lists in the order of their times.
		n.shard.births.Lock()
		defer n.shard.births.Unlock()
	}
	d, err := n.state.Decide(decision.Meta{At: n.sys.clock()}, r.env.Command)
	if err != nil {
		n.stageAnswer(&op{req: r, err: err})
		return
	}
	if fire, ok := r.env.Command.(decision.Fire); ok {
		d.Timers = removeFiredTimer(d.Timers, fire)
	}
	switch empty := len(d.Events)+len(d.Records)+len(d.Timers)+len(d.Onces) == 0 && r.env.Key == nil; {
	case empty:
		n.stageAnswer(&op{req: r, reply: d.Reply})
	case len(d.Events) == 0 && n.unsettled > 0:
		// The decision depends on staged events that the journal may refuse, and has no event whose
		// version would make the journal refuse it with them.
		n.waiting = append([]*request{r}, n.waiting...)
		n.phase = draining
	case d.Debit != nil:
		n.startReserving(r, d)
	default:
		n.stageAndSubmit(r, d)
	}
}

// removeFiredTimer removes the fired timer, unless the decision sets it again.
func removeFiredTimer(timers []decision.Timer, fired decision.Fire) []decision.Timer {
	for _, t := range timers {
		if t.Key == fired.Key {
			return timers
		}
	}
	return append(timers, decision.Timer{Key: fired.Key})
}

// startReserving asks the authorizer to reserve the dollars of a debit. No later command is decided
// before its answer.
func (n *entity) startReserving(r *request, d decision.Decision) {
	n.phase = reserving
	go func() {
		ok, err := n.sys.reserve(r.env.Workspace, d.Debit)
		n.sys.root.Send(n.self, &reserved{req: r, d: d, ok: ok, err: err})
	}()
}

// onReserved takes the authorizer's answer to a debit. It submits a reserved debit; a refused one
// is answered insufficient_funds, a failed one with the authorizer's error. When an earlier commit
// has failed, it releases the reservation and the command is decided again.
func (n *entity) onReserved(m *reserved) {
	if n.phase != reserving { // a panic came in between
		if m.ok {
			n.sys.releaseDebit(m.req.env.Workspace, m.d.Debit)
		}
		n.answerOnce(m.req, nil, outcomeUnknown())
		return
	}
	n.phase = open
	switch {
	case n.failed:
		if m.ok {
			n.sys.releaseDebit(m.req.env.Workspace, m.d.Debit)
		}
		n.retry = append(n.retry, m.req)
		n.phase = draining
	case m.err != nil:
		n.stageAnswer(&op{req: m.req, err: m.err})
	case !m.ok:
		n.stageAnswer(&op{req: m.req, err: fault.New(fault.InsufficientFunds,
			"The balance does not cover the amount.")})
	default:
		n.stageAndSubmit(m.req, m.d)
	}
	n.decideWaiting()
}

// stageAndSubmit applies a decision's events to the staged state and submits its batch to the
// shard's lane. The batch counts in the CommitMeter of the command's context. A full lane queue is
// answered unavailable. A decision that cannot be encoded is answered internal. Both make the
// entity load its state again.
func (n *entity) stageAndSubmit(r *request, d decision.Decision) {
	o := &op{req: r, reply: d.Reply, debit: d.Debit, onces: d.Onces, tallies: d.Tallies, pid: n.self}
	for _, e := range d.Events {
		n.state.Apply(e)
	}
	batch, err := n.buildBatch(r, d)
	if err != nil {
		// The decision was applied to the staged state and cannot be encoded: answer, and reload
		// the state.
		n.sys.log.Error("decision not encoded", "kind", n.key.kind, "err", err)
		o.settled, o.outcome.Err = true, err
		n.failed, n.phase = true, draining // no command may be decided on this state
		n.appendStaged(o)
		n.settleStaged()
		return
	}
	o.batch = batch
	countCommit(r.ctx, batch)
	n.appendStaged(o)
	if !n.shard.lane.submit(o) {
		o.settled, o.outcome.Err = true, persistence.ErrUnavailable
		n.failed, n.phase = true, draining // as above
		n.settleStaged()
	}
}

func (n *entity) appendStaged(o *op) {
	n.staged = append(n.staged, o)
	if o.batch != nil && len(o.batch.Events) > 0 {
		n.unsettled++
	}
}

// stageAnswer makes a read or a refusal wait for the ops staged before it, on which it may depend.
func (n *entity) stageAnswer(o *op) {
	o.settled = true
	if len(n.staged) == 0 {
		n.answerWhenFollowed(o)
		return
	}
	n.staged = append(n.staged, o)
}

// buildBatch returns a decision as the batch that the lane commits: events, records, idempotency
// records and timers. It fails when a value cannot be encoded or sealed, or the random source
// fails.
func (n *entity) buildBatch(r *request, d decision.Decision) (*persistence.Batch, error) {
	now := n.sys.clock()
	b := &persistence.Batch{Workspace: r.env.Workspace, Slot: n.slot}
	b.Records = make([]persistence.Record, 0, 1+len(d.Records)) // with the state's
	if err := n.addEvents(b, d, now); err != nil {
		return nil, err
	}
	for _, rec := range d.Records {
		doc, err := n.sys.documents.encode(rec)
		if err != nil {
			return nil, err
		}
		b.Records = append(b.Records, persistence.Record{Kind: rec.Kind, Workspace: b.Workspace,
			Parent: rec.Parent, ID: rec.ID,
			Slot: n.slot, Document: doc, Deleted: rec.Delete, New: rec.New})
	}
	if err := n.sys.reactor.addReactions(b); err != nil {
		return nil, err
	}
	if err := n.addOnces(b, r, d); err != nil {
		return nil, err
	}
	for _, t := range d.Timers {
		b.Timers = append(b.Timers, persistence.Timer{Kind: n.key.kind, Stream: n.key.stream, Key: t.Key,
			Workspace: b.Workspace, Slot: n.slot, Due: t.Due})
	}
	return b, nil
}

// addEvents adds a decision's events, with new ids and the stream's next versions, and the record
// of the state after them. It fails when an event or the state cannot be encoded, or the random
// source fails.
func (n *entity) addEvents(b *persistence.Batch, d decision.Decision, now time.Time) error {
	for _, e := range d.Events {
		payload, err := decision.Encode(e)
		if err != nil {
			return fmt.Errorf("event %s: %w", e.EventType(), err)
		}
		id, err := ident.New(n.slot, now, n.sys.entropy)
		if err != nil {
			return err
		}
		n.version++
		b.Events = append(b.Events, persistence.Event{ID: id.Format(ident.Event), Workspace: b.Workspace,
			Kind:   n.key.kind,
			Stream: n.key.stream, Version: n.version, Type: e.EventType(), At: now, Payload: payload})
	}
	if len(b.Events) == 0 {
		return nil
	}
	doc, err := json.Marshal(n.state)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	b.Records = append(b.Records, persistence.Record{Kind: n.key.kind, Workspace: b.Workspace, ID: n.key.stream,
		Slot:     n.slot,
		Document: doc, Version: n.version})
	return nil
}

// addOnces adds the idempotency record of the request's Key, with the sealed reply, and the claims
// of the decision. It fails only when the Key's Seal fails.
func (n *entity) addOnces(b *persistence.Batch, r *request, d decision.Decision) error {
	if k := r.env.Key; k != nil {
		once := persistence.Once{Scope: k.Scope, Hash: onceHash(k.Scope, k.Key), Fingerprint: k.Fingerprint,
			Expires: k.Expires}
		if k.Seal != nil {
			sealed, err := k.Seal(d.Reply)
			if err != nil {
				return fmt.Errorf("seal answer: %w", err)
			}
			once.Answer = sealed
		}
		b.Onces = append(b.Onces, once)
	}
	for _, c := range d.Onces {
		fingerprint := c.Fingerprint
		if fingerprint == [32]byte{} {
			fingerprint = sha256.Sum256([]byte(c.Key))
		}
		b.Onces = append(b.Onces, persistence.Once{Scope: c.Scope, Hash: onceHash(c.Scope, c.Key),
			Fingerprint: fingerprint,
			Expires:     c.Expires, Answer: c.Answer})
	}
	return nil
}

// settleStaged answers the settled ops at the head of staged, in order. After a failed commit the
// staged state is invalid: commands decided on it are decided again on the stored state.
func (n *entity) settleStaged() {
	for len(n.staged) > 0 && n.staged[0].settled {
		o := n.staged[0]
		n.staged[0] = nil
		n.staged = n.staged[1:]
		if o.batch != nil && len(o.batch.Events) > 0 {
			n.unsettled--
		}
		n.settleOne(o)
	}
	if n.failed && n.phase != dead && n.phase != reserving && n.phase != fetching {
		n.phase = draining
	}
	n.decideWaiting()
}

// settleOne answers one settled op: after a successful commit with its reply, once the authorizer
// has followed it; after a failed one as answerFailedCommit says. An op without a batch that
// follows a failed one is decided again.
func (n *entity) settleOne(o *op) {
	switch {
	case o.outcome.Err == nil && n.failed && o.batch == nil:
		n.decideAgain(o)
	case o.outcome.Err == nil:
		if o.outcome.Last > 0 {
			n.position = max(n.position, o.outcome.Last)
		}
		if n.workspace == "" && o.batch != nil && len(o.batch.Events) > 0 {
			n.workspace = o.batch.Workspace
		}
		n.answerWhenFollowed(o)
	default:
		n.failed = true
		n.answerFailedCommit(o)
	}
}

// answerFailedCommit answers a command whose commit failed: a taken claim as claimConflict says, a
// tally over its limit with limit_exceeded, an unknown outcome with outcome_unknown, an unavailable
// or fenced journal with unavailable, any other refusal with internal. After a version conflict the
// command is decided again. It releases the debit's reservation unless the outcome is unknown; the
// lane releases that one once it is resolved.
func (n *entity) answerFailedCommit(o *op) {
	var taken *persistence.OnceError
	var limit *fault.Error
	err := o.outcome.Err
	if o.debit != nil && !errors.Is(err, persistence.ErrAmbiguous) {
		n.sys.releaseDebit(o.req.env.Workspace, o.debit)
	}
	switch {
	case errors.Is(err, persistence.ErrVersion):
		n.decideAgain(o)
	case errors.As(err, &limit):
		n.answerOnce(o.req, nil, limit)
	case errors.As(err, &taken):
		// Another stream's event may hold the key; the answer reports it.
		n.position = max(n.position, n.sys.journal.Head(n.shard.id).Position)
		o.reply, o.err = n.claimConflict(o, taken.Existing)
		n.answerWhenFollowed(o)
	case errors.Is(err, persistence.ErrAmbiguous):
		n.answerOnce(o.req, nil, outcomeUnknown())
	case errors.Is(err, persistence.ErrUnavailable), errors.Is(err, persistence.ErrFenced):
		n.answerOnce(o.req, nil, fault.New(fault.Unavailable, "The journal did not take the change; nothing changed."))
	default: // ErrRefused, ErrTooLarge: a retry would be refused again
		n.sys.log.Error("commit refused", "kind", n.key.kind, "err", err)
		n.answerOnce(o.req, nil, fault.New(fault.Internal, "The journal can not keep the change; nothing changed."))
	}
}

// decideAgain queues a command for another decision on the stored state. After maxDecideTries tries
// the answer is unavailable.
func (n *entity) decideAgain(o *op) {
	o.req.tries++
	if o.req.tries >= maxDecideTries {
		n.answerOnce(o.req, nil, fault.New(fault.Unavailable, "The record is changing too fast; nothing changed."))
		return
	}
	n.retry = append(n.retry, o.req)
}

// claimConflict returns the answer to a command one of whose claims is already taken. For its
// idempotency key it is the first answer (Replayed), or idempotency_key_mismatch when the request
// differs. For a claim with a code it is that error; for one without, the Replayed answer.
func (n *entity) claimConflict(o *op, existing persistence.Once) (any, error) {
	if k := o.req.env.Key; k != nil && k.Scope == existing.Scope && onceHash(k.Scope, k.Key) == existing.Hash {
		return replayedAnswer(existing, k.Fingerprint)
	}
	for _, c := range o.onces {
		if c.Scope == existing.Scope && onceHash(c.Scope, c.Key) == existing.Hash && c.Code != "" {
			return nil, fault.New(fault.Code(c.Code), c.Message)
		}
	}
	return Replayed{Answer: existing.Answer}, nil
}

// replayedAnswer returns the first answer to a request with the same idempotency key. It fails with
// idempotency_key_mismatch when the fingerprint of the request body differs.
func replayedAnswer(existing persistence.Once, fingerprint [32]byte) (any, error) {
	if existing.Fingerprint != fingerprint {
		return nil, fault.New(fault.IdempotencyKeyMismatch, "The Idempotency-Key was used with another request body.")
	}
	return Replayed{Answer: existing.Answer}, nil
}

// resumeDeciding continues after every staged op is answered. When one failed, it loads the stored
// state first and then decides the commands to retry before the waiting ones.
func (n *entity) resumeDeciding() {
	n.phase = open
	if !n.failed {
		n.decideWaiting()
		return
	}
	n.failed = false
	n.waiting = append(n.retry, n.waiting...)
	n.retry, n.unsettled = nil, 0
	n.startLoading()
}

// answerWhenFollowed answers a command once the authorizer has followed the events that the answer
// reports.
func (n *entity) answerWhenFollowed(o *op) {
	if !n.kind.Rules {
		n.answerOnce(o.req, o.reply, o.err)
		return
	}
	n.shard.followed.whenReached(n.position, func() { n.answerOnce(o.req, o.reply, o.err) })
}

// answerOnce answers a request, unless it is already answered, which happens after a panic.
func (n *entity) answerOnce(r *request, reply any, err error) {
	if r.done.CompareAndSwap(false, true) {
		r.answer <- answer{reply, err}
		n.sys.directory.noteAnswered(r.entry)
	}
}

func outcomeUnknown() error {
	return fault.New(fault.OutcomeUnknown, "The outcome is not known; retry with the same Idempotency-Key.")
}

// recoverPanic must be deferred; without a panic it does nothing. After one it answers every
// request that the actor has with outcome_unknown, and the directory forgets the activation, which
// stops when the requests queued before are answered too.
func (n *entity) recoverPanic(c actor.Context) {
	cause := recover()
	if cause == nil {
		return
	}
	n.sys.log.Error("actor panic", "kind", n.key.kind, slog.Any("cause", cause), "stack", stack())
	n.phase = dead
	n.sys.directory.forget(n.entry)
	switch m := c.Message().(type) {
	case *request:
		n.answerOnce(m, nil, outcomeUnknown())
	case *reserved:
		n.answerOnce(m.req, nil, outcomeUnknown())
	case *fetched:
		n.answerOnce(m.req, nil, outcomeUnknown())
	}
	if n.deciding != nil {
		n.answerOnce(n.deciding, nil, outcomeUnknown())
	}
	for _, o := range n.staged {
		n.answerOnce(o.req, nil, outcomeUnknown())
	}
	for _, r := range append(n.waiting, n.retry...) {
		n.answerOnce(r, nil, outcomeUnknown())
	}
	n.staged, n.waiting, n.retry, n.deciding = nil, nil, nil, nil
	c.Send(c.Self(), stopMessage{})
}
