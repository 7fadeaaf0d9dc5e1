// Package journaltest is the contract of persistence.Journal as a suite: Run is passed by every
// journal, and Load is the workload with which a journal shows that a crash takes nothing that was
// answered.
//
// The suite knows nothing of how a journal stores. It relies on no order that the contract does not
// give, and on no time finer than a millisecond, since a store may keep microseconds only. It
// measures nothing.
package journaltest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/ident"
)

// Start is the instant at which the suite's clock begins.
var Start = time.Date(2026, 1, 31, 23, 59, 59, int(500*time.Millisecond), time.UTC)

// T is what the suite needs of a *testing.T or a *rapid.T.
type T interface {
	require.TestingT
	Helper()
	Cleanup(func())
}

// Factory makes an empty store and returns how to open it. The store goes with the test.
type Factory func(t T) Reopen

// Reopen opens the store. It is called again only after the journal of the call before was closed.
type Reopen func() persistence.Journal

// Run holds a journal against the contract. Each test has a store of its own.
func Run(t *testing.T, open Factory) {
	for name, tests := range map[string]map[string]func(*fixture){
		"identity": identityTests, "events": eventTests, "once": onceTests, "records": recordTests, "timers": timerTests,
		"epochs": epochTests, "limits": limitTests, "context": contextTests, "cursors": cursorTests,
		"concurrency": concurrencyTests, "content": contentTests, "groups": groupTests,
	} {
		t.Run(name, func(t *testing.T) {
			for name, test := range tests {
				t.Run(name, func(t *testing.T) { test(start(t, open)) })
			}
		})
	}
	t.Run("model", func(t *testing.T) { runModel(t, open) })
}

// The tenant of most tests, and another in the same shard.
const (
	slot      ident.Slot = 0x123
	neighbour ident.Slot = 0x124
	workspace            = "ws_one"
	stranger             = "ws_two"
)

// fixture is a journal with the epoch of one shard.
type fixture struct {
	t      T
	open   Factory
	reopen Reopen
	j      persistence.Journal
	ctx    context.Context
	shard  ident.Shard
	epoch  uint64
	now    time.Time
}

func start(t T, open Factory) *fixture {
	f := &fixture{t: t, open: open, reopen: open(t), ctx: context.Background(), shard: slot.Shard(), now: Start}
	f.j = f.reopen()
	t.Cleanup(func() { require.NoError(t, f.j.Close()) })
	f.raise()
	return f
}

func (f *fixture) raise() {
	heads, err := f.j.Raise(f.ctx, f.shard)
	require.NoError(f.t, err)
	require.Len(f.t, heads, 1)
	f.epoch = heads[0].Epoch
}

// again closes the journal and opens it anew.
func (f *fixture) again() {
	f.t.Helper()
	require.NoError(f.t, f.j.Close())
	f.j = f.reopen()
}

func (f *fixture) append(group ...*persistence.Batch) []persistence.Outcome {
	f.t.Helper()
	outcomes, err := f.j.Append(f.ctx, f.shard, f.epoch, f.now, group)
	require.NoError(f.t, err)
	require.Len(f.t, outcomes, len(group))
	return outcomes
}

// must appends batches of which none may lose.
func (f *fixture) must(group ...*persistence.Batch) []persistence.Outcome {
	f.t.Helper()
	outcomes := f.append(group...)
	for _, o := range outcomes {
		require.NoError(f.t, o.Err)
	}
	return outcomes
}

// refused appends one batch and returns why nothing of it was written.
func (f *fixture) refused(b *persistence.Batch) error {
	f.t.Helper()
	before := f.j.Head(f.shard)
	outcome := f.append(b)[0]
	require.Error(f.t, outcome.Err)
	require.Zero(f.t, outcome.First)
	require.Zero(f.t, outcome.Last)
	require.Equal(f.t, before, f.j.Head(f.shard))
	return outcome.Err
}

// events returns the events after a position, and requires that cached and stored ones are equal.
// It fails the test otherwise.
func (f *fixture) events(after uint64, limit int) []persistence.Event {
	f.t.Helper()
	events, err := f.j.Events(f.ctx, f.shard, after, limit)
	require.NoError(f.t, err)
	stored, err := f.j.Events(persistence.AsStored(f.ctx), f.shard, after, limit)
	require.NoError(f.t, err)
	require.Equal(f.t, stored, events, "what is remembered is not what is stored")
	return events
}

// AwaitHead returns when the shard's head is past a position. It fails as WaitAdvance does.
func AwaitHead(ctx context.Context, j persistence.Journal, shard ident.Shard, past uint64) (err error) {
	for seen := uint64(0); err == nil && j.Head(shard).Position <= past; {
		seen, err = j.WaitAdvance(ctx, seen)
	}
	return err
}

// batch builds a batch of the tests' workspace from events, records, once-keys and timers. It
// panics for any other part.
func batch(parts ...any) *persistence.Batch {
	b := &persistence.Batch{Workspace: workspace, Slot: slot}
	for _, part := range parts {
		switch part := part.(type) {
		case persistence.Event:
			b.Events = append(b.Events, part)
		case persistence.Record:
			b.Records = append(b.Records, part)
		case persistence.Once:
			b.Onces = append(b.Onces, part)
		case persistence.Timer:
			b.Timers = append(b.Timers, part)
		default:
			panic(fmt.Sprintf("BUG: a batch has no %T", part))
		}
	}
	return b
}

func event(kind, stream string, version uint64) persistence.Event {
	return persistence.Event{
		ID: fmt.Sprintf("evt_%s_%s_%d", kind, stream, version), Workspace: workspace, Kind: kind, Stream: stream,
		Version: version, Type: kind + ".happened.v1", At: Start.Add(time.Duration(version) * time.Millisecond),
		// The order of the members and the space are the writer's: a payload comes back byte by
		// byte.
		Payload: json.RawMessage(fmt.Sprintf(`{"version": %d, "stream":%q}`, version, stream)),
	}
}

func record(kind, id, parent, document string) persistence.Record {
	return persistence.Record{
		Kind: kind, Workspace: workspace, Parent: parent, ID: id, Slot: slot, Document: json.RawMessage(document), Version: 1,
	}
}

func once(scope, key string, expires time.Time) persistence.Once {
	return persistence.Once{
		Scope: scope, Hash: sha256.Sum256([]byte(key)), Fingerprint: sha256.Sum256([]byte("print " + key)), Expires: expires,
		Answer: []byte("answer to " + key),
	}
}

func timer(stream, key string, due time.Time) persistence.Timer {
	return persistence.Timer{Kind: "card", Stream: stream, Key: key, Workspace: workspace, Slot: slot, Due: due}
}

func sameInstant(t T, want, got time.Time) {
	t.Helper()
	require.True(t, want.Equal(got), "%s is not %s", got, want)
}

// sameEvents compares events with the appended ones, and their positions with first and up.
func sameEvents(t T, want, got []persistence.Event, first uint64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		w, g := want[i], got[i]
		sameInstant(t, w.At, g.At)
		w.At, w.Position = g.At, first+uint64(i)
		require.Equal(t, w, g)
	}
}

func sameOnce(t T, want, got persistence.Once) {
	t.Helper()
	sameInstant(t, want.Expires, got.Expires)
	want.Expires = got.Expires
	require.Equal(t, want, got)
}

// sameTimers requires that two lists of timers are equal; equal instants may be in different zones.
func sameTimers(t T, want, got []persistence.Timer) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		w := want[i]
		sameInstant(t, w.Due, got[i].Due)
		w.Due = got[i].Due
		require.Equal(t, w, got[i])
	}
}
