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
	"purser/actors/seal"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/pebblejournal"
)

// counter is the smallest domain there can be: it shows what the shell does without a business rule in the way.
type counter struct {
	Total int64 `json:"total"`
	Fired int   `json:"fired"`
}

type added struct {
	By    int64  `json:"by"`
	Fired string `json:"fired,omitempty"`
	Bad   any    `json:"bad,omitempty"` // a function cannot be written as JSON
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
	explode  struct{}
	noteOnly struct {
		Name string
		New  bool
	}
	unwritable struct{}
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
	case noteOnly:
		return decision.Decision{Records: []decision.Record{{Kind: "note", ID: c.Name, Document: s.Total, New: c.New}},
			Reply: s.Total}, nil
	case decision.Fire:
		return decision.Decision{Events: []decision.Event{added{Fired: c.Key}}}, nil
	case decision.Read:
		return decision.Decision{Reply: *s}, nil
	case unwritable:
		return decision.Decision{Events: []decision.Event{added{By: 1000, Bad: func() {}}}, Reply: s.Total + 1000}, nil
	case explode:
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

// faults is a journal that can be told to fail.
type faults struct {
	persistence.Journal
	mu      sync.Mutex
	append  func(commit func() ([]persistence.Outcome, error)) ([]persistence.Outcome, error)
	raise   func() error
	read    func() error
	appends atomic.Int64
	gate    chan struct{} // when set, Append waits for it
}

func (f *faults) Append(ctx context.Context, shard ident.Shard, epoch uint64, now time.Time,
	group []*persistence.Batch) ([]persistence.Outcome, error) {
	f.appends.Add(1)
	f.mu.Lock()
	inject, gate := f.append, f.gate
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

func (f *faults) Raise(ctx context.Context, shards ...ident.Shard) ([]persistence.Head, error) {
	f.mu.Lock()
	inject := f.raise
	f.mu.Unlock()
	if inject != nil {
		if err := inject(); err != nil {
			return nil, err
		}
	}
	return f.Journal.Raise(ctx, shards...)
}

func (f *faults) Record(ctx context.Context, slot ident.Slot, kind, id string) (persistence.Record, error) {
	f.mu.Lock()
	inject := f.read
	f.mu.Unlock()
	if inject != nil {
		if err := inject(); err != nil {
			return persistence.Record{}, err
		}
	}
	return f.Journal.Record(ctx, slot, kind, id)
}

func (f *faults) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// books is an authorizer that keeps reservations and nothing else.
type books struct {
	mu       sync.Mutex
	refuse   bool
	fail     error
	reserved map[ident.UUID]int64
}

func (b *books) Reserve(_, id ident.UUID, cents int64) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil || b.refuse {
		return false, b.fail
	}
	b.reserved[id] = cents
	return true, nil
}

func (b *books) Release(_, id ident.UUID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reserved, id)
	return nil
}

func (b *books) held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.reserved)
}

func (b *books) WalkReservations(visit func(ws, id ident.UUID, cents int64) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, cents := range b.reserved {
		if err := visit(ident.System, id, cents); err != nil {
			return err
		}
	}
	return nil
}

func (*books) Follow(ident.Shard, authorizer.Follow) error { return nil }
func (*books) Followed(ident.Shard) uint64                 { return 0 }
func (*books) Synced(ident.Shard) uint64                   { return 0 }
func (*books) WaitSynced(ctx context.Context, _ ident.Shard, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}
func (*books) ReadLog(ident.Shard, uint64, int) ([]hold.Entry, error) { return nil, nil }
func (*books) Relayed(ident.Shard) uint64                             { return 0 }
func (*books) MarkRelayed(ident.Shard, uint64) error                  { return nil }
func (*books) PassRelayed(ident.Shard, uint64) error                  { return nil }
func (*books) Expire(time.Time) (int, error)                          { return 0, nil }
func (*books) Trim(time.Time) error                                   { return nil }

type noBank struct{ partner.Payments }

func (noBank) Expect(context.Context, partner.Deposit) error {
	return errors.New("no bank in this test")
}

// clock is turned by hand.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time       { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *clock) turn(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// rig is a system of counters over an in-memory Pebble, with a journal that can fail.
type rig struct {
	t        *testing.T
	database string
	fs       vfs.FS
	clock    *clock
	journal  *faults
	books    *books
	system   *actors.System
	config   func(*actors.Config)
}

func newRig(t *testing.T, config func(*actors.Config)) *rig { return newRigOn(t, "", config) }

// newRigOn is a rig whose journal is in a database; in memory when that is empty.
func newRigOn(t *testing.T, database string, config func(*actors.Config)) *rig {
	r := &rig{t: t, database: database, fs: vfs.NewMem(), clock: newClock(), books: &books{reserved: map[ident.UUID]int64{}},
		config: config}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) start() {
	journal, err := openJournal(r.database, pebblejournal.Options{FS: r.fs, Dir: "journal", Clock: r.clock.now,
		Entropy: rand.Reader})
	require.NoError(r.t, err)
	r.journal = &faults{Journal: journal}
	c := actors.Config{Journal: r.journal, Authorizer: r.books, Bank: noBank{}, Sealer: testSealer(r.t), Clock: r.clock.now,
		Entropy:    rand.Reader,
		TimerEvery: time.Millisecond,
		Kinds:      []actors.Kind{{Name: "counter", New: func() actors.State { return new(counter) }}}}
	if r.config != nil {
		r.config(&c)
	}
	r.system, err = actors.Start(r.t.Context(), c)
	require.NoError(r.t, err)
	r.journal.appends.Store(0)
}

func testSealer(t testing.TB) *seal.Sealer {
	t.Helper()
	s, err := seal.New(make([]byte, seal.KeyBytes), rand.Reader)
	require.NoError(t, err)
	return s
}

func (r *rig) stop() {
	r.system.Stop()
	require.NoError(r.t, r.journal.Close())
}

func (r *rig) restart() {
	r.stop()
	r.start()
}

// stream names a counter in its own slot.
func stream(i int) string {
	return ident.Derive(ident.Slot(i*37%ident.Slots), time.UnixMilli(int64(i)), "counter").Format(ident.Workspace)
}

func (r *rig) ask(id string, command any, key *actors.Key) (any, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), comesWithin)
	defer cancel()
	for {
		reply, err := r.system.Ask(ctx, actors.Envelope{Kind: "counter", Stream: id, Workspace: id, Command: command, Key: key})
		// A slow machine's Postgres does not take every commit in time.
		if r.database == "" || !fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
			return reply, err
		}
	}
}

func (r *rig) total(id string) int64 {
	reply, err := r.ask(id, decision.Read{}, nil)
	require.NoError(r.t, err)
	return reply.(counter).Total
}

func (r *rig) key(name, body string) *actors.Key {
	k := &actors.Key{Scope: "http", Key: name, Expires: r.clock.now().Add(24 * time.Hour),
		Seal: func(reply any) ([]byte, error) { return json.Marshal(reply) }}
	copy(k.Fingerprint[:], body)
	return k
}
