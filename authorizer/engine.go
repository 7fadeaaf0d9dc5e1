package authorizer

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"purser/authorizer/hold"
	"purser/persistence/ident"
	"purser/persistence/money"
)

// Limits of the engine.
const (
	// MaxUnsynced bounds the commits that wait for a sync; further callers wait for a place. It is
	// below Pebble's own limit, at which a commit would block under a shard's lock.
	MaxUnsynced = 3584
	// DefaultCacheBytes and DefaultBacklogMax apply where Options sets none.
	DefaultCacheBytes = 512 << 20
	DefaultBacklogMax = 10_000_000
	// approvalsPercent is the part of the backlog at which approvals stop; facts are accepted up to
	// all of it.
	approvalsPercent = 80
	// loadAttempts bounds the reads of cold data before the lock; the last attempt reads under it.
	loadAttempts = 4
	// deciders is the number of concurrent decisions; each may wait for a cold read.
	deciders = 64
)

// Errors of the engine.
var (
	// ErrStopped means that a commit or a sync has failed: the engine decides, answers and writes
	// nothing more.
	ErrStopped = errors.New("authorizer: stopped after a failed commit")
	errLate    = errors.New("authorizer: no sync within the deadline")
	errBusy    = errors.New("authorizer: the message would have to wait")
)

// Options configures an Engine. Dir, Entropy and Fatal are required.
type Options struct {
	FS         FS // nil: the operating system's
	Dir        string
	Deployment ident.UUID // zero: the deployment of the store, which must exist
	CacheBytes int64      // memory for hot rules, spends and funds; 0: DefaultCacheBytes
	OpenTables int        // tables of the store that are kept open; 0: Pebble's default
	BacklogMax int        // entries not yet relayed; 0: DefaultBacklogMax
	NoSync     bool       // answers before decisions are durable: only for comparisons
	Clock      func() time.Time
	// ClockSuspect reports that Clock may be wrong: no card's month turns meanwhile. nil: never.
	ClockSuspect func() bool
	Entropy      io.Reader // read under a lock; need not be safe for concurrent use
	Listener     Listener
	// Fatal is called with the first failed commit or sync. It should end the process; the engine
	// answers nothing afterwards.
	Fatal func(error)
	// Deadline returns the channel that ends an answer's wait; nil: AnswerWithin by the machine's
	// clock. Tests control it.
	Deadline func() <-chan time.Time

	logBytes int // the length of a write-ahead log before its first record; 0: it grows
}

func (o *Options) ensureDefaults() {
	if o.FS == nil {
		o.useDisk()
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.BacklogMax == 0 {
		o.BacklogMax = DefaultBacklogMax
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.ClockSuspect == nil {
		o.ClockSuspect = func() bool { return false }
	}
	if o.Listener == nil {
		o.Listener = silent{}
	}
}

// Validate returns all faults of the options, joined, or nil. Open and FollowAnew call it.
func (o *Options) Validate() error {
	var faults []error
	fault := func(bad bool, text string) {
		if bad {
			faults = append(faults, errors.New("authorizer: "+text))
		}
	}
	fault(o.Dir == "", "no directory")
	fault(o.Entropy == nil, "no entropy")
	fault(o.Fatal == nil, "nobody to tell of a fatal error")
	fault(o.CacheBytes < 0, "negative cache")
	fault(o.BacklogMax < 0, "negative backlog")
	return errors.Join(faults...)
}

// Listener observes the engine, on the goroutine of each event. It must be fast and safe for
// concurrent use.
type Listener interface {
	// Decided is called once per Submit with the answer; took is the time from its call to its
	// answer.
	Decided(kind hold.Kind, decision hold.Decision, reason hold.Reason, took time.Duration)
	// Staged is called when a message is decided, before its sync; took is the time from the call
	// of Submit. It is not called for a message that timed out before.
	Staged(kind hold.Kind, took time.Duration)
	// Repeated is called for a repeated answer, beside Decided.
	Repeated(kind hold.Kind)
	// Synced is called for each durable commit.
	Synced(shard ident.Shard)
	// Followed is called when rules and funds up to a journal position are durable.
	Followed(shard ident.Shard, through uint64)
	// Expired is called with the number of holds that expired in one call of Expire.
	Expired(holds int)
}

type silent struct{}

func (silent) Decided(hold.Kind, hold.Decision, hold.Reason, time.Duration) {}
func (silent) Staged(hold.Kind, time.Duration)                              {}
func (silent) Repeated(hold.Kind)                                           {}
func (silent) Synced(ident.Shard)                                           {}
func (silent) Followed(ident.Shard, uint64)                                 {}
func (silent) Expired(int)                                                  {}

// Engine is the authorizer of one process and one directory. Its methods are safe for concurrent
// use, unless they name a limit of callers.
type Engine struct {
	store    *store
	shards   [ident.Shards]*shard
	claims   *claims
	buckets  *buckets
	listener Listener
	clock    func() time.Time
	suspect  func() bool // Options.ClockSuspect
	deadline func() <-chan time.Time
	entropy  entropy

	slots             chan struct{} // one per admitted commit
	work              chan *ticket  // admitted, to be decided
	queue             chan *ticket  // applied, waiting for the sync
	returns           chan *ticket  // answered "timeout", to be undone
	tickets           *sync.Pool
	deciding, running sync.WaitGroup

	backlog      atomic.Int64 // entries not yet relayed
	backlogMax   int64
	approvalsMax int64
	room         atomic.Uint32 // a Room
	expireFrom   atomic.Uint32 // the shard at which the next Expire begins

	fatal     func(error)
	failOnce  sync.Once
	failedFor atomic.Pointer[error]
	failed    chan struct{} // closed when Fatal has returned
}

// shard is one of the 256 shards, with one lock and one log.
type shard struct {
	id      ident.Shard
	mu      sync.Mutex
	seq     uint64        // last entry
	changes atomic.Uint64 // counts the commits that change the data of decisions
	cache   *cache
	random  randomBits
	follow  uint64 // journal position of the rules and ledgerCents

	synced  atomic.Uint64
	relayed atomic.Uint64
	trimmed uint64 // last trimmed entry; Trim has one caller
	mark    sync.Mutex
	passed  uint64 // entries up to here have left the backlog; guarded by mark
	waiters atomic.Pointer[chan struct{}]
}

// Open opens or creates the store of a directory. It reads a few keys per shard, and no card. It
// fails with the faults of Options.Validate, with ErrInUse, ErrForeign, ErrNoStore, ErrCorrupt or
// ErrHalfAnew, and with the disk's error. The serve command calls it, and so do the commands that
// work on a stopped server's store.
func Open(o Options) (*Engine, error) {
	o.ensureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		claims: newClaims(), listener: o.Listener, clock: o.Clock, suspect: o.ClockSuspect, deadline: o.Deadline,
		fatal:   o.Fatal,
		entropy: entropy{source: o.Entropy},
		slots:   make(chan struct{}, MaxUnsynced), work: make(chan *ticket, MaxUnsynced),
		queue:   make(chan *ticket, MaxUnsynced),
		returns: make(chan *ticket, MaxUnsynced), tickets: newTicketPool(),
		backlogMax: int64(o.BacklogMax), approvalsMax: int64(o.BacklogMax) * approvalsPercent / 100,
		failed: make(chan struct{}),
	}
	s, err := openStore(&o, e.fail)
	if err != nil {
		return nil, err
	}
	if err := s.whole(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	e.store = s
	if err := e.readHeads(o.CacheBytes / ident.Shards); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrCorrupt, err), s.close())
	}
	e.running.Go(e.syncLoop)
	e.running.Go(e.returnLoop)
	for range deciders {
		e.deciding.Go(e.decideLoop)
	}
	return e, nil
}

func (e *Engine) readHeads(cacheBytes int64) (err error) {
	if e.buckets, err = e.store.findBuckets(); err != nil {
		return err
	}
	for i := range e.shards {
		sh := &shard{id: ident.Shard(i), cache: newCache(cacheBytes)}
		if sh.seq, sh.follow, err = e.store.heads(sh.id, &sh.relayed); err != nil {
			return err
		}
		sh.synced.Store(sh.seq)
		sh.passed = sh.relayed.Load()
		e.backlog.Add(int64(sh.seq - sh.passed))
		e.shards[i] = sh
	}
	return nil
}

// Store returns the identity of this store. Every new store has another one.
func (e *Engine) Store() ident.UUID { return e.store.uuid }

// Deployment returns the deployment that the store belongs to.
func (e *Engine) Deployment() ident.UUID { return e.store.deployment }

// Close waits for running calls and closes the store. No method may be called during or after it.
// It returns the store's error.
func (e *Engine) Close() error {
	for range cap(e.slots) {
		e.slots <- struct{}{}
	}
	close(e.work)
	e.deciding.Wait()
	close(e.queue)
	e.running.Wait()
	return e.store.close()
}

// fail stops the engine for good. The first caller's error goes to Fatal.
func (e *Engine) fail(err error) {
	e.failOnce.Do(func() {
		e.failedFor.Store(&err)
		e.fatal(err)
		close(e.failed)
	})
}

// failure returns nil, or ErrStopped with its cause.
func (e *Engine) failure() error {
	if cause := e.failedFor.Load(); cause != nil {
		return fmt.Errorf("%w: %w", ErrStopped, *cause)
	}
	return nil
}

// entropy is the one source of random bits, which the shards share.
type entropy struct {
	mu     sync.Mutex
	source io.Reader
}

// randomBits is a shard's part of the entropy. The shard's lock guards it, so that a decision needs
// no second lock.
type randomBits struct {
	buffer [512]byte
	left   int
}

func (r *randomBits) draw(from *entropy) (b [8]byte, err error) {
	if r.left < len(b) {
		if err := from.fill(r.buffer[:]); err != nil {
			return b, fmt.Errorf("authorizer: entropy: %w", err)
		}
		r.left = len(r.buffer)
	}
	copy(b[:], r.buffer[len(r.buffer)-r.left:])
	r.left -= len(b)
	return b, nil
}

func (s *entropy) fill(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.ReadFull(s.source, b)
	return err
}

// spendable returns the spendable balance for a decision's view, 0 for unknown funds.
func spendable(f *fundsItem) (money.Cents, error) {
	if f == nil {
		return 0, nil
	}
	return f.funds.Spendable()
}
