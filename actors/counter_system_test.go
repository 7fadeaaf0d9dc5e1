package actors_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"purser/actors"
	"purser/actors/decision"
	"purser/actors/fault"
	"purser/actors/partner"
	"purser/actors/processes"
	"purser/actors/seal"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/money"
	"purser/persistence/pebblejournal"
)

// Tests wait for a condition with these arguments of require.Eventually. eventuallyWithin only ends
// a test that would hang.
const (
	eventuallyWithin = time.Minute
	pollEvery        = time.Millisecond
)

// counter is a domain of one integer. It exercises the runtime without business rules.
type counter struct {
	Total int64 `json:"total"`
	Fired int   `json:"fired"`
}

type added struct {
	By    int64  `json:"by"`
	Fired string `json:"fired,omitempty"`
	Bad   any    `json:"bad,omitempty"` // a func value fails to encode as JSON
}

func (added) EventType() string { return "counter.added.v1" }

type (
	add   struct{ By int64 }
	debit struct{ Reservation string }
	claim struct{ Name string }
	alarm struct {
		At  time.Time
		Key string // "": alarm
	}
	panicInDecide struct{}
	writeNote     struct {
		Name string
		New  bool
	}
	addUnencodable struct{}
)

func (s *counter) Decide(m decision.Meta, command any) (decision.Decision, error) {
	switch c := command.(type) {
	case add:
		if c.By <= 0 {
			return decision.Decision{}, fault.New(fault.InvalidBody, "by must be positive")
		}
		return decision.Decision{Events: []decision.Event{added{By: c.By}}, Reply: s.Total + c.By}, nil
	case debit:
		return decision.Decision{Events: []decision.Event{added{By: 1}}, Reply: s.Total + 1,
			Debit: &decision.Debit{Reservation: c.Reservation, Cents: 1}}, nil
	case claim:
		return decision.Decision{Events: []decision.Event{added{By: 1}}, Reply: s.Total + 1,
			Onces: []decision.Once{{Scope: "name", Key: c.Name, Code: "email_taken"}}}, nil
	case alarm:
		return decision.Decision{Events: []decision.Event{added{By: 1}}, Reply: s.Total + 1,
			Timers: []decision.Timer{{Key: cmp.Or(c.Key, "alarm"), Due: c.At}}}, nil
	case writeNote:
		return decision.Decision{Records: []decision.Record{{Kind: "note", ID: c.Name, Document: s.Total, New: c.New}},
			Reply: s.Total}, nil
	case decision.Fire:
		return decision.Decision{Events: []decision.Event{added{Fired: c.Key}}}, nil
	case decision.Read:
		return decision.Decision{Reply: *s}, nil
	case addUnencodable:
		return decision.Decision{Events: []decision.Event{added{By: 1000, Bad: func() {}}}, Reply: s.Total + 1000}, nil
	case panicInDecide:
		panic("a bug in a domain package")
	}
	panic("BUG: unknown command")
}

func (s *counter) Apply(e decision.Event) {
	a := e.(added)
	s.Total += a.By
	if a.Fired != "" {
		s.Fired++
	}
}

// faultyJournal is a journal whose methods a test can replace, delay or make fail.
type faultyJournal struct {
	persistence.Journal
	mu         sync.Mutex
	onAppend   func(commit func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error)
	onRaise    func() error
	onRecord   func() error
	onList     func() error
	onEvents   func() error
	appends    atomic.Int64
	appendGate chan struct{} // when set, Append waits until it is closed
}

func (f *faultyJournal) Append(ctx context.Context, shard ident.Shard, epoch uint64, now time.Time,
	group []*persistence.Batch) ([]persistence.Outcome, error) {
	f.appends.Add(1)
	f.mu.Lock()
	inject, gate := f.onAppend, f.appendGate
	f.mu.Unlock()
	if gate != nil {
		<-gate
	}
	commit := func() ([]persistence.Outcome, error) {
		return f.Journal.Append(context.WithoutCancel(ctx), shard, epoch, now, group)
	}
	if inject != nil {
		return inject(commit)
	}
	return commit()
}

func (f *faultyJournal) Raise(ctx context.Context, shards ...ident.Shard) ([]persistence.Head, error) {
	f.mu.Lock()
	inject := f.onRaise
	f.mu.Unlock()
	if inject != nil {
		if err := inject(); err != nil {
			return nil, err
		}
	}
	return f.Journal.Raise(ctx, shards...)
}

func (f *faultyJournal) Record(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error) {
	f.mu.Lock()
	inject := f.onRecord
	f.mu.Unlock()
	if inject != nil {
		if err := inject(); err != nil {
			return persistence.Record{}, err
		}
	}
	return f.Journal.Record(ctx, slot, kind, id)
}

func (f *faultyJournal) List(ctx context.Context, slot ident.Slot, kind, workspace, parent string,
	page persistence.Page) ([]persistence.Record, error) {
	f.mu.Lock()
	inject := f.onList
	f.mu.Unlock()
	if inject != nil {
		if err := inject(); err != nil {
			return nil, err
		}
	}
	return f.Journal.List(ctx, slot, kind, workspace, parent, page)
}

func (f *faultyJournal) Events(
	ctx context.Context, shard ident.Shard, after uint64, limit int,
) ([]persistence.Event, error) {
	f.mu.Lock()
	inject := f.onEvents
	f.mu.Unlock()
	if inject != nil {
		if err := inject(); err != nil {
			return nil, err
		}
	}
	return f.Journal.Events(ctx, shard, after, limit)
}

func (f *faultyJournal) configure(change func(*faultyJournal)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// reservingAuthorizer is an authorizer that stores reservations and does nothing else.
type reservingAuthorizer struct {
	mu       sync.Mutex
	refuse   bool
	fail     error
	reserved map[ident.UUID]money.Cents
}

func (b *reservingAuthorizer) Reserve(_, id ident.UUID, cents money.Cents) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil || b.refuse {
		return false, b.fail
	}
	b.reserved[id] = cents
	return true, nil
}

func (b *reservingAuthorizer) Release(_, id ident.UUID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reserved, id)
	return nil
}

func (b *reservingAuthorizer) RequireJournal(*[ident.Shards]uint64) error { return nil }

func (b *reservingAuthorizer) RequiredJournal() (positions [ident.Shards]uint64, err error) { return }

func (b *reservingAuthorizer) reservationCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.reserved)
}

func (b *reservingAuthorizer) WalkReservations(visit func(ws, id ident.UUID, cents money.Cents) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, cents := range b.reserved {
		if err := visit(ident.System, id, cents); err != nil {
			return err
		}
	}
	return nil
}

func (*reservingAuthorizer) Follow(ident.Shard, authorizer.Follow) error            { return nil }
func (*reservingAuthorizer) Followed(ident.Shard) uint64                            { return 0 }
func (*reservingAuthorizer) Synced(ident.Shard) uint64                              { return 0 }
func (*reservingAuthorizer) OnSynced(func(ident.Shard))                             {}
func (*reservingAuthorizer) ReadLog(ident.Shard, uint64, int) ([]hold.Entry, error) { return nil, nil }
func (*reservingAuthorizer) Relayed(ident.Shard) uint64                             { return 0 }
func (*reservingAuthorizer) MarkRelayed(ident.Shard, uint64) error                  { return nil }
func (*reservingAuthorizer) PassRelayed(ident.Shard, uint64) error                  { return nil }
func (*reservingAuthorizer) Expire(time.Time) (int, error)                          { return 0, nil }
func (*reservingAuthorizer) Trim(time.Time) error                                   { return nil }

type unavailableBank struct{ partner.Payments }

func (unavailableBank) Expect(context.Context, partner.Deposit) error {
	return errors.New("no bank in this test")
}

// clock is a manual clock: it moves only when a test turns it.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time       { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *clock) turn(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// counterSystem is a runtime of counters over a faultyJournal and a reservingAuthorizer. The
// smaller of the two fixtures: testStack runs the real stores.
type counterSystem struct {
	t          *testing.T
	database   string
	fs         vfs.FS
	clock      *clock
	journal    *faultyJournal
	authorizer *reservingAuthorizer
	system     *processes.Product
	config     func(*actors.Config)
	poster     processes.Poster
}

// counterKinds returns the table of kinds of a counterSystem.
func counterKinds() []actors.Kind {
	return []actors.Kind{{Name: "counter", New: func() actors.State { return new(counter) }}}
}

func newCounterSystem(t *testing.T, config func(*actors.Config)) *counterSystem {
	return newCounterSystemOn(t, "", config)
}

// newCounterSystemOn starts a counterSystem whose journal is in the Postgres database of that URL,
// or in memory when database is empty.
func newCounterSystemOn(t *testing.T, database string, config func(*actors.Config)) *counterSystem {
	r := &counterSystem{t: t, database: database, fs: vfs.NewMem(), clock: newClock(),
		authorizer: &reservingAuthorizer{reserved: map[ident.UUID]money.Cents{}},
		config:     config}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *counterSystem) start() {
	journal, err := openJournal(r.database, pebblejournal.Options{FS: r.fs, Dir: "journal", Clock: r.clock.now,
		Entropy: rand.Reader})
	require.NoError(r.t, err)
	r.journal = &faultyJournal{Journal: journal}
	c := actors.Config{Journal: r.journal, Authorizer: r.authorizer,
		Sealer: testSealer(r.t), Clock: r.clock.now,
		Entropy:    rand.Reader,
		TimerEvery: time.Millisecond,
		Kinds:      counterKinds()}
	if r.config != nil {
		r.config(&c)
	}
	product := processes.Config{Config: c, Bank: unavailableBank{}, Poster: r.poster}
	product.Listener, _ = c.Listener.(processes.Listener)
	r.system, err = processes.Start(r.t.Context(), product)
	require.NoError(r.t, err)
	r.journal.appends.Store(0)
}

func testSealer(t testing.TB) *seal.Sealer {
	t.Helper()
	s, err := seal.New(make([]byte, seal.KeyBytes), rand.Reader)
	require.NoError(t, err)
	return s
}

func (r *counterSystem) stop() {
	r.system.Stop()
	require.NoError(r.t, r.journal.Close())
}

func (r *counterSystem) restart() {
	r.stop()
	r.start()
}

// counterID returns the id of counter i, in a slot that depends on i.
func counterID(i int) string {
	return ident.Derive(ident.Slot(i*37%ident.Slots), time.UnixMilli(int64(i)), "counter").Format(ident.Workspace)
}

func (r *counterSystem) ask(id string, command any, key *actors.Key) (any, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), eventuallyWithin)
	defer cancel()
	for {
		reply, err := r.system.Ask(ctx, actors.Envelope{Kind: "counter", Stream: id, Workspace: id,
			Command: command, Key: key})
		// Postgres on a slow machine does not commit every batch in time.
		if r.database == "" || !fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
			return reply, err
		}
	}
}

func (r *counterSystem) readTotal(id string) int64 {
	reply, err := r.ask(id, decision.Read{}, nil)
	require.NoError(r.t, err)
	return reply.(counter).Total
}

func (r *counterSystem) idempotencyKey(name, body string) *actors.Key {
	k := &actors.Key{Scope: "http", Key: name, Expires: r.clock.now().Add(24 * time.Hour),
		Seal: func(reply any) ([]byte, error) { return json.Marshal(reply) }}
	copy(k.Fingerprint[:], body)
	return k
}
