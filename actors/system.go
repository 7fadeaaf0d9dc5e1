package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"purser/actors/decision"
	"purser/actors/fault"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Authorizer is the part of authorizer.Engine that the runtime uses.
type Authorizer interface {
	Follow(shard ident.Shard, f authorizer.Follow) error
	Followed(shard ident.Shard) uint64
	RequireJournal(positions *[ident.Shards]uint64) error
	RequiredJournal() (positions [ident.Shards]uint64, err error)
	Reserve(workspace, reservation ident.UUID, cents money.Cents) (bool, error)
	Release(workspace, reservation ident.UUID) error
	Synced(shard ident.Shard) uint64
	OnSynced(call func(shard ident.Shard))
	ReadLog(shard ident.Shard, after uint64, limit int) ([]hold.Entry, error)
	Relayed(shard ident.Shard) uint64
	MarkRelayed(shard ident.Shard, seq uint64) error
	PassRelayed(shard ident.Shard, seq uint64) error
	Expire(now time.Time) (int, error)
	Trim(now time.Time) error
	WalkReservations(visit func(workspace, reservation ident.UUID, cents money.Cents) error) error
}

// Listener is called about the runtime's work, for metrics. Its methods must not block and are safe
// for concurrent use.
type Listener interface {
	// Committed is called after each group of ops that a lane has appended, or failed to. took is
	// the time of the append.
	Committed(ops int, took time.Duration, err error)
	// Relayed is called after each round of the relay, with the number of entries that the journal
	// has accepted and the time of the oldest.
	Relayed(entries int, oldest time.Time)
	// Reacted is called after each attempt of a reaction to handle an event.
	Reacted(name string, err error)
	// Fired is called after each timer whose actor was woken, with the actor's kind.
	Fired(kind string, err error)
}

type silent struct{}

func (silent) Committed(int, time.Duration, error) {}
func (silent) Relayed(int, time.Time)              {}
func (silent) Reacted(string, error)               {}
func (silent) Fired(string, error)                 {}

// Sealer encrypts personal documents for storage; package seal implements it. A sealed document
// opens only under the name of its own record.
type Sealer interface {
	Seal(record string, document []byte) ([]byte, error)
	Open(record string, sealed []byte) ([]byte, error)
	// KeyID is the id of the key that seals. Stale reports whether a document may be sealed under
	// another key, Rotating whether there is another key.
	KeyID() string
	Stale(sealed []byte) bool
	Rotating() bool
}

// Config is what Start needs. Journal, Authorizer, Kinds, Sealer, Clock and Entropy are required.
type Config struct {
	Journal    persistence.Journal
	Authorizer Authorizer
	Sealer     Sealer
	Secrets    []Secret // the deployment's; none: the stored ones are not compared
	Clock      func() time.Time
	// ClockSuspect reports that Clock may be wrong: nothing expires, lapses or is swept meanwhile.
	// nil: never.
	ClockSuspect func() bool
	// WallTime is the time of other machines: of the signatures that they make and check. Clock is
	// ahead of it for a while after a wall clock that was ahead has been set right. nil: Clock.
	WallTime func() time.Time
	Entropy  io.Reader // safe for concurrent use
	Logger   *slog.Logger
	Listener Listener
	// Fatal is called when the process must end: the authorizer cannot apply an event of the
	// journal. nil panics.
	Fatal func(error)
	// Still is for commands that maintain the stores while no server runs. Commands are answered
	// and the authorizer follows the journal; no relay, timer, reaction or other loop runs.
	Still bool
	// Kinds is the table of actors.
	Kinds []Kind
	// Attach builds the processes over a new System and returns what the runtime calls of them.
	// Start calls it once, before the System answers any request. nil: there are no processes.
	Attach func(*System) Hooks
	// These are the intervals of the loops; zero means the default.
	TimerEvery, ExpireEvery, HousekeepEvery, RelayEvery, AsideEvery time.Duration
	// FenceWithin bounds how long a commit may stay ambiguous. Then its callers get
	// outcome_unknown.
	FenceWithin time.Duration
	// RelayWithin bounds how long a round of the relay waits until its entries are accepted.
	RelayWithin time.Duration
	// FollowedWithin bounds how long a refused debit waits for credits that the authorizer has not
	// followed.
	FollowedWithin time.Duration
	// RelayedWithin bounds how long a read waits for the relay of decisions made before it.
	RelayedWithin time.Duration
	// Slack multiplies the time that commits, reads, timers, reactions and partners' calls may
	// take, and what of the bounds above is not set: for slow machines. Zero is 1.
	Slack int
	// IdleAfter is how long an idle actor stays in memory.
	IdleAfter time.Duration
}

// Defaults of the intervals and waits of Config, and the waits of Start and Stop.
const (
	defaultTimerEvery     = 250 * time.Millisecond
	defaultExpireEvery    = time.Second
	defaultHousekeepEvery = time.Minute
	relayedWait           = 250 * time.Millisecond
	followedWait          = 250 * time.Millisecond
	drainWait             = 10 * time.Second
	catchUpWait           = 5 * time.Minute
)

// ensureDefaults sets the fields of Config that are zero and have a default. It fails when a
// required field is missing, and names each.
func (c *Config) ensureDefaults() error {
	var faults []error
	for name, missing := range map[string]bool{"Journal": c.Journal == nil, "Authorizer": c.Authorizer == nil,
		"Kinds": c.Kinds == nil, "Sealer": c.Sealer == nil, "Clock": c.Clock == nil, "Entropy": c.Entropy == nil} {
		if missing {
			faults = append(faults, fmt.Errorf("actors.Config.%s is required", name))
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Listener == nil {
		c.Listener = silent{}
	}
	if c.ClockSuspect == nil {
		c.ClockSuspect = func() bool { return false }
	}
	if c.WallTime == nil {
		c.WallTime = c.Clock
	}
	if c.Fatal == nil {
		c.Fatal = func(err error) { panic(err) }
	}
	c.TimerEvery = max(cmp.Or(c.TimerEvery, defaultTimerEvery), timerTurns*time.Nanosecond)
	c.ExpireEvery = cmp.Or(c.ExpireEvery, defaultExpireEvery)
	c.HousekeepEvery = cmp.Or(c.HousekeepEvery, defaultHousekeepEvery)
	c.Slack = cmp.Or(c.Slack, 1)
	slack := time.Duration(c.Slack)
	c.FenceWithin = cmp.Or(c.FenceWithin, fenceTimeout)
	c.RelayEvery = cmp.Or(c.RelayEvery, relayEvery)
	c.RelayWithin = cmp.Or(c.RelayWithin, slack*relayWithin)
	c.AsideEvery = cmp.Or(c.AsideEvery, asideEvery)
	c.FollowedWithin = cmp.Or(c.FollowedWithin, slack*followedWait)
	c.RelayedWithin = cmp.Or(c.RelayedWithin, slack*relayedWait)
	c.IdleAfter = cmp.Or(c.IdleAfter, idleBeforePassive)
	return errors.Join(faults...)
}

// System is the running set of actors and loops.
type System struct {
	*loops
	journal    persistence.Journal
	authorizer Authorizer
	documents  *documentSealer
	entropy    io.Reader
	listener   Listener
	config     Config

	actors    *actor.ActorSystem
	root      *actor.RootContext
	directory *directory
	kinds     map[string]*Kind
	hooks     Hooks
	resealer  *resealer
	relayer   *relayer
	reactor   *reactor
	keys      keysInFlight
	follower  *follower
	shards    [ident.Shards]*shard

	pendingKept atomic.Int64 // decisions in all pendingCards

	laneCtx  context.Context // ends the lanes and followers, after the requests that wait for them
	stopLane context.CancelFunc
	lanes    sync.WaitGroup
	stopping atomic.Bool
	asking   sync.RWMutex // held shared by each request, exclusively by Stop
	ready    atomic.Bool

	outage journalOutage
}

// shard is the state of one of the 256 shards.
type shard struct {
	id     ident.Shard
	lane   *lane
	births sync.Mutex  // held from the time of a stream's first decision to its place in the lane
	firing atomic.Bool // a round of timers is still running
	// timersAfter is the timer after which the next round reads; only a running round uses it
	timersAfter persistence.Timer
	lost        atomic.Bool // the last commit is unresolved: no read and no write before the fence
	following   sync.Mutex
	isFollowing bool          // the follower runs
	followed    progress      // position through which the authorizer has applied the journal
	own         atomic.Uint64 // position of the newest followed event that the decision log cannot restore
	reactions   pendingReactions
	passed      int         // payload bytes since the authorizer's stored position; of the follower
	relaying    atomic.Bool // the relay runs
	relayed     progress    // entry through which the journal has the log, except of workspaces set aside
	asides      asides      // workspaces that the relay skips
	pending     pendingCards
	wanted      chan struct{} // capacity 1: a read waits, so the relay ends its pause
	lag         followerLag
	exposure    relayExposure
}

// Start takes the shards, checks that both stores belong together, brings the authorizer to the
// journal's head and starts the loops. The returned System answers at once; Ready reports when
// reads are current. It fails for an incomplete Config, with ErrStores when the stores, data keys
// or secrets do not fit each other, and with the error of a store that does not answer. After an
// error other than the first two the caller may try again.
func Start(ctx context.Context, c Config) (*System, error) {
	if err := c.ensureDefaults(); err != nil {
		return nil, err
	}
	s := &System{loops: newLoops(&c), config: c, journal: c.Journal, authorizer: c.Authorizer,
		documents: newDocumentSealer(c.Sealer, c.Kinds), kinds: kindsByName(c.Kinds), entropy: c.Entropy,
		listener: c.Listener}
	s.keys.keys = make(map[[32]byte]chan struct{})
	s.laneCtx, s.stopLane = context.WithCancel(context.Background())
	s.actors = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return c.Logger.With("lib", "actor")
	}))
	s.root = s.actors.Root
	s.directory = newDirectory(s.root, s.actorProps)
	if c.Attach != nil {
		s.hooks = c.Attach(s)
	}
	s.relayer = newRelayer(s)
	s.reactor = newReactor(s.loops, s.journal, s.listener, s.hooks.Reactions)
	s.resealer = newResealer(s)
	s.follower = &follower{loops: s.loops, journal: s.journal, authorizer: s.authorizer, kinds: s.kinds, fatal: c.Fatal,
		lanes: &s.lanes, laneCtx: s.laneCtx}
	if err := s.takeCheckedShards(ctx); err != nil {
		s.end()
		s.stopLane()
		return nil, err
	}
	s.lanes.Add(1) // lanes and followers start with their work, until Stop
	if err := s.catchUp(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	if s.hooks.BeforeLoops != nil && !c.Still {
		s.hooks.BeforeLoops(ctx)
	}
	if !c.Still {
		if err := s.reactor.findAll(ctx, s.shards[:]); err != nil {
			s.Stop()
			return nil, err
		}
	}
	s.startLoops()
	s.ready.Store(true)
	return s, nil
}

// takeCheckedShards takes the shards of stores that belong together, and checks the data keys and
// the secrets. It fails with ErrStores when one does not fit the stores, and with the store's
// error. It must be called before any loop runs.
func (s *System) takeCheckedShards(ctx context.Context) error {
	check := &startCheck{journal: s.journal, authorizer: s.authorizer, documents: s.documents,
		secrets: s.config.Secrets, log: s.log}
	if err := check.checkStores(ctx); err != nil {
		return err
	}
	s.follower.required = check.required
	if err := s.takeShards(ctx, check); err != nil {
		return err
	}
	system := s.shards[ident.SystemSlot.Shard()]
	if err := check.checkDataKeys(ctx, system); err != nil {
		return err
	}
	return check.checkSecrets(ctx, system)
}

// takeShards raises the epochs of all shards, which fences every earlier owner, and makes their
// state in memory. It fails when the journal does not raise them, or a shard's stores do not belong
// together (startCheck.checkShard).
func (s *System) takeShards(ctx context.Context, check *startCheck) error {
	all := make([]ident.Shard, ident.Shards)
	for i := range all {
		all[i] = ident.Shard(i)
	}
	heads, err := s.journal.Raise(ctx, all...)
	if err != nil {
		return fmt.Errorf("take the shards: %w", err)
	}
	for i, head := range heads {
		sh := &shard{id: ident.Shard(i), wanted: make(chan struct{}, 1),
			pending: pendingCards{kept: &s.pendingKept}, reactions: newPendingReactions(maxPendingReactions)}
		sh.lane = newLane(s, sh, head.Epoch)
		sh.followed.value = s.authorizer.Followed(sh.id)
		sh.own.Store(s.follower.required[i])
		s.shards[i] = sh
		if err := check.checkShard(ctx, sh); err != nil {
			return err
		}
	}
	return nil
}

// catchUp makes the authorizer follow the journal to its heads, and then releases reservations
// without a debit: the raised epochs exclude a later event for them. It fails when the journal
// cannot be read within catchUpWait, or the authorizer cannot store a change.
func (s *System) catchUp(ctx context.Context) error {
	ctx, cancel := s.Within(ctx, catchUpWait)
	defer cancel()
	for _, sh := range s.shards {
		head := s.journal.Head(sh.id).Position
		for sh.followed.load() < head {
			if err := s.follower.followOnce(ctx, sh); err != nil {
				return fmt.Errorf("shard %d: follow the journal: %w", sh.id, err)
			}
		}
	}
	type orphan struct{ workspace, reservation ident.UUID }
	var orphans []orphan
	err := s.authorizer.WalkReservations(func(workspace, reservation ident.UUID, _ money.Cents) error {
		orphans = append(orphans, orphan{workspace, reservation})
		return nil
	})
	for _, o := range orphans {
		if err == nil {
			err = s.authorizer.Release(o.workspace, o.reservation)
		}
	}
	if err != nil {
		return fmt.Errorf("release orphan reservations: %w", err)
	}
	return nil
}

// startLoops starts, unless Config.Still, the relays, timers and other loops.
func (s *System) startLoops() {
	s.Every(requireEvery, func(context.Context) { s.follower.requireJournal(s.shards[:]) })
	if s.config.Still {
		return
	}
	s.authorizer.OnSynced(func(id ident.Shard) { s.relayer.wake(s.shards[id]) })
	for _, sh := range s.shards {
		if s.relayer.hasUnrelayed(sh) {
			s.relayer.wake(sh)
		}
	}
	timers := &timerLoop{s.loops, s.journal, s.kinds, s.config.ClockSuspect, s.FireTimer, make(chan struct{}, timerReads)}
	s.Every(s.config.TimerEvery/timerTurns, timers.turns(s.shards[:]))
	retention := &retention{s.loops, s.journal, s.authorizer, s.config.ClockSuspect}
	s.Every(s.config.ExpireEvery, retention.expireHolds)
	s.Every(s.config.HousekeepEvery, func(ctx context.Context) {
		if s.hooks.Housekeep != nil {
			s.hooks.Housekeep(ctx)
		}
		retention.trim(ctx)
	})
	s.Every(probeEvery, func(ctx context.Context) { s.outage.probe(ctx, s.loops, s.journal) })
	s.Every(s.config.AsideEvery, s.retryAsides)
	for _, run := range s.hooks.Loops {
		s.Go(run)
	}
	s.Go(s.resealer.run)
	s.Every(passivateEvery, func(context.Context) { s.Passivate() })
}

// FireTimer has the actor of a due timer decide it, and passes the actor's answer to
// Hooks.TimerAnswered, nil after a failure. A failure is logged; the timer stays in the journal and
// fires again.
func (s *System) FireTimer(ctx context.Context, t persistence.Timer) {
	ctx, cancel := s.Within(ctx, timerTimeout)
	defer cancel()
	reply, err := s.Ask(ctx, Envelope{Kind: t.Kind, Stream: t.Stream, Workspace: t.Workspace,
		Command: decision.Fire{Key: t.Key, Due: t.Due}})
	s.listener.Fired(t.Kind, err)
	if err != nil && ctx.Err() == nil {
		s.Complain("timer of a "+t.Kind, err, "key", t.Key)
	}
	if s.hooks.TimerAnswered != nil {
		s.hooks.TimerAnswered(t.Workspace, reply)
	}
}

// actorProps returns how to spawn the actor of a stream. It panics for a stream whose id does not
// parse.
func (s *System) actorProps(key streamKey, e *activation) *actor.Props {
	slot, err := ident.SlotOf(key.stream)
	if err != nil {
		panic("BUG: stream id without a slot: " + key.kind)
	}
	return actor.PropsFromProducer(func() actor.Actor {
		return &entity{sys: s, kind: s.kinds[key.kind], key: key, slot: slot, shard: s.shards[slot.Shard()], entry: e}
	}, actor.WithMailbox(actor.UnboundedLockfree()), actor.WithGuardian(stopOnFailure))
}

// stopOnFailure stops an actor that panics outside its own recovery. It is never restarted with an
// incomplete state.
var stopOnFailure = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

// Ask sends a command to an actor and waits for its committed answer. The actor's refusal is a
// *fault.Error with its code, such as not_found for another workspace's actor. Otherwise the error
// is unavailable when nothing changed (an overloaded or stopping server, a journal that does not
// answer), outcome_unknown when the context ended or a commit was lost, or idempotency_key_mismatch
// for a Key that was used with another request. A repeat of a Key is answered Replayed. An unknown
// Kind panics.
func (s *System) Ask(ctx context.Context, e Envelope) (any, error) {
	if _, _, err := s.route(e); err != nil {
		return nil, err
	}
	if s.stopping.Load() { // before the lock, which Stop waits for
		return nil, fault.New(fault.Unavailable, "The server is stopping; nothing changed.")
	}
	s.asking.RLock()
	defer s.asking.RUnlock()
	if s.stopping.Load() {
		return nil, fault.New(fault.Unavailable, "The server is stopping; nothing changed.")
	}
	if e.Key != nil && !e.Key.acquired {
		release, reply, err := s.AcquireKey(ctx, e)
		if release == nil {
			return reply, err
		}
		defer release()
	}
	return s.send(ctx, e)
}

// AcquireKey makes the caller the only one that uses an envelope's idempotency key until it calls
// release. The envelope needs no Command yet, so that the caller prepares it only for a new key;
// Ask acquires a key that is not acquired. A nil release means that there is nothing to ask: the
// key has an answer, which reply is (Replayed), or err is set. It fails with
// idempotency_key_mismatch, unavailable, outcome_unknown and not_found, as Ask does.
func (s *System) AcquireKey(ctx context.Context, e Envelope) (release func(), reply any, err error) {
	kind, slot, err := s.route(e)
	if err != nil {
		return nil, nil, err
	}
	hash := onceHash(e.Key.Scope, e.Key.Key)
	if !s.keys.acquire(ctx, hash) {
		return nil, nil, fault.New(fault.Unavailable,
			"The first request with this key is still running, or too many are; nothing changed.")
	}
	sh := s.shards[slot.Shard()]
	existing, found, err := s.once(ctx, sh, e.Key.Scope, hash)
	if err == nil && !found {
		e.Key.acquired = true
		return func() { s.keys.release(hash) }, nil, nil
	}
	s.keys.release(hash)
	if err == nil && kind.Rules && sh.followed.wait(ctx, s.journal.Head(sh.id).Position) != nil {
		err = outcomeUnknown()
	}
	if err != nil {
		return nil, nil, err
	}
	reply, err = replayedAnswer(existing, e.Key.Fingerprint)
	return nil, reply, err
}

// route returns the kind of an envelope and the slot of its stream. It fails with not_found for a
// stream that is no id. An unknown kind panics.
func (s *System) route(e Envelope) (*Kind, ident.Slot, error) {
	kind := s.kinds[e.Kind]
	if kind == nil {
		panic("BUG: unknown kind of actor " + e.Kind)
	}
	slot, err := ident.SlotOf(e.Stream)
	if err != nil {
		return nil, 0, fault.New(fault.NotFound, "")
	}
	return kind, slot, nil
}

// once returns the stored idempotency record of a key, and whether there is one. It fails with
// unavailable while the shard's last commit is unresolved, and when the journal does not answer.
func (s *System) once(ctx context.Context, sh *shard, scope string, hash [32]byte) (persistence.Once, bool, error) {
	if sh.lost.Load() {
		return persistence.Once{}, false, fault.New(fault.Unavailable,
			"The last commit is being resolved; nothing changed.")
	}
	existing, ok, err := s.journal.Once(ctx, sh.id, scope, hash, s.clock())
	if err != nil {
		return existing, false, fault.New(fault.Unavailable, "The idempotency key could not be read; nothing changed.")
	}
	return existing, ok, nil
}

// TenantSlot returns the slot of a workspace or user that is created under a name; see
// ident.TenantSlot.
func (s *System) TenantSlot(name string) ident.Slot {
	return ident.TenantSlot(s.journal.Identity().Deployment, name)
}

// send sends a command to its actor and waits for the answer. It fails with unavailable when too
// many requests wait, with outcome_unknown when the context ends first, and with the actor's error.
func (s *System) send(ctx context.Context, e Envelope) (any, error) {
	reply := make(chan answer, 1)
	sent := s.directory.dispatch(streamKey{e.Kind, e.Stream}, s.clock(), func(en *activation) any {
		return &request{ctx: ctx, env: e, entry: en, answer: reply}
	})
	if !sent {
		return nil, fault.New(fault.Unavailable, "Too many requests are waiting; nothing changed.")
	}
	select {
	case a := <-reply:
		return a.reply, a.err
	case <-ctx.Done():
		return nil, outcomeUnknown()
	}
}

// Clock returns the trusted time, WallTime the time of other machines, for signatures that they
// make or check, and Entropy the source of randomness.
func (s *System) Clock() time.Time    { return s.clock() }
func (s *System) WallTime() time.Time { return s.config.WallTime() }
func (s *System) Entropy() io.Reader  { return s.entropy }

// Stop refuses new requests and ends the loops. It waits up to drainWait for running requests, and
// then ends the lanes and followers. It must be called once, after Start has succeeded. The stores
// stay open.
func (s *System) Stop() {
	s.stopping.Store(true)
	s.end()
	drained := make(chan struct{})
	go func() {
		s.running.Wait()
		s.asking.Lock()
		defer s.asking.Unlock() // no request is running
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(time.Duration(s.slack) * drainWait):
	}
	s.stopLane()
	s.lanes.Done()
	s.lanes.Wait()
	s.follower.requireJournal(s.shards[:])
	s.actors.Shutdown()
}

// reserve asks the authorizer to reserve the dollars of a debit. It returns false when they are not
// there, also after it has waited up to Config.FollowedWithin for credits that the authorizer has
// not followed. It fails for an id that does not parse, and with the authorizer's error. It must be
// called before the debit is committed.
func (s *System) reserve(workspace string, d *decision.Debit) (bool, error) {
	ws, err := ident.Parse(ident.Workspace, workspace)
	if err != nil {
		return false, err
	}
	reservation, err := ident.Parse(ident.Reservation, d.Reservation)
	if err != nil {
		return false, err
	}
	sh := s.shards[ws.Slot().Shard()]
	followed := sh.followed.load()
	ok, err := s.authorizer.Reserve(ws, reservation, d.Cents)
	if ok || err != nil || followed >= s.journal.Head(sh.id).Position {
		return ok, err
	}
	// The balance may already show a credit that the authorizer has not followed: a refused debit
	// is tried once more when it has.
	ctx, cancel := context.WithTimeout(context.Background(), s.config.FollowedWithin)
	defer cancel()
	if sh.followed.wait(ctx, s.journal.Head(sh.id).Position) != nil {
		return false, nil
	}
	return s.authorizer.Reserve(ws, reservation, d.Cents)
}

// releaseDebit releases the reservation of a debit whose commit failed or was not tried. A failed
// release is logged and stops the authorizer; after a crash the next start releases the
// reservation.
func (s *System) releaseDebit(workspace string, d *decision.Debit) {
	ws, errWS := ident.Parse(ident.Workspace, workspace)
	reservation, errID := ident.Parse(ident.Reservation, d.Reservation)
	if err := errors.Join(errWS, errID); err != nil {
		s.log.Error("reservation not released", "err", err)
		return
	}
	if err := s.authorizer.Release(ws, reservation); err != nil {
		s.log.Error("reservation not released", "err", err)
	}
}

func stack() string { return string(debug.Stack()) }

// Passivate stops the actors that are idle for Config.IdleAfter.
func (s *System) Passivate() { s.directory.passivate(s.clock().Add(-s.config.IdleAfter)) }
