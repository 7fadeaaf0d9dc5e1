package pebblejournal_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"purser/persistence"
	"purser/persistence/ident"
	"purser/persistence/journaltest"
	"purser/persistence/pebblejournal"
)

func options(fs vfs.FS) pebblejournal.Options {
	return pebblejournal.Options{FS: fs, Dir: "journal", CacheBytes: cacheBytes, Deployment: deployment,
		SegmentBytes: segmentBytes}
}

func TestOpenStampsTheDeployment(t *testing.T) {
	fs := vfs.NewMem()
	j, err := pebblejournal.Open(options(fs))
	require.NoError(t, err)
	require.Equal(t, deployment, j.Identity().Deployment)
	require.NoError(t, j.Close())

	o := options(fs)
	o.Deployment = ident.Derive(ident.SystemSlot, journaltest.Start, "another deployment")
	_, err = pebblejournal.Open(o)
	require.ErrorIs(t, err, pebblejournal.ErrForeign)

	o.Deployment = ident.UUID{}
	again, err := pebblejournal.Open(o)
	require.NoError(t, err, "a refused Open must leave the directory free")
	require.Equal(t, j.Identity(), again.Identity())
	require.NoError(t, again.Close())
}

func TestOpenDrawsADeployment(t *testing.T) {
	o := options(vfs.NewMem())
	o.Deployment = ident.UUID{}
	j, err := pebblejournal.Open(o)
	require.NoError(t, err)
	require.False(t, j.Identity().Deployment.IsZero())
	require.NoError(t, j.Close())
}

func TestOpenRefuses(t *testing.T) {
	_, err := pebblejournal.Open(pebblejournal.Options{FS: vfs.NewMem()})
	require.ErrorContains(t, err, "Options.Dir")
	_, err = pebblejournal.Open(pebblejournal.Options{FS: vfs.NewMem(), Dir: "journal", CacheBytes: -1})
	require.ErrorContains(t, err, "Options.CacheBytes")

	fs := vfs.NewMem()
	o := options(fs)
	o.MustExist = true
	_, err = pebblejournal.Open(o)
	require.ErrorIs(t, err, pebblejournal.ErrNoStore)
	_, err = fs.Stat("journal")
	require.ErrorIs(t, err, os.ErrNotExist, "a refused Open makes nothing")
	require.NoError(t, fs.MkdirAll("journal", 0o700))
	_, err = pebblejournal.Open(o)
	require.ErrorIs(t, err, pebblejournal.ErrNoStore)
}

// TestOpenRefusesOtherStores opens Pebble stores that are no journal of this program.
func TestOpenRefusesOtherStores(t *testing.T) {
	stamp := func(format, slots, shards byte) []byte {
		return append([]byte{0, 0, 0, format, 0, 0, slots, 0, 0, 0, shards, 0}, make([]byte, 32)...)
	}
	for name, kv := range map[string][2][]byte{
		"no stamp": {[]byte("x"), []byte("y")},
		"an earlier format: its format is 2, this program reads 3: start with an empty directory": {[]byte("m"),
			stamp(2, 16, 1)},
		"a later format: its format is 4, this program reads 3: run the newer program": {[]byte("m"), stamp(4, 16, 1)},
		"another layout": {[]byte("m"), stamp(3, 16, 2)},
		"a torn stamp":   {[]byte("m"), stamp(3, 16, 1)[:20]},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			db, err := pebble.Open("journal", &pebble.Options{FS: fs})
			require.NoError(t, err)
			require.NoError(t, db.Set(kv[0], kv[1], pebble.Sync))
			require.NoError(t, db.Close())
			o := options(fs)
			o.Deployment = ident.UUID{}
			_, err = pebblejournal.Open(o)
			require.ErrorIs(t, err, pebblejournal.ErrForeign)
			_, says, _ := strings.Cut(name, ": ")
			require.ErrorContains(t, err, says)
		})
	}
}

func TestOpenTwice(t *testing.T) {
	fs := vfs.NewMem()
	j, err := pebblejournal.Open(options(fs))
	require.NoError(t, err)
	_, err = pebblejournal.Open(options(fs))
	require.ErrorIs(t, err, pebblejournal.ErrInUse)
	require.NoError(t, j.Close())
	j, err = pebblejournal.Open(options(fs))
	require.NoError(t, err)
	require.NoError(t, j.Close())
}

// TestCloseLeavesNothing: no goroutine outlives a journal that was closed, a refused Open's included.
func TestCloseLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	fs := vfs.NewMem()
	j, err := pebblejournal.Open(options(fs))
	require.NoError(t, err)
	_, err = pebblejournal.Open(options(fs))
	require.Error(t, err)
	require.NoError(t, j.Close())
	o := options(fs)
	o.Deployment = ident.Derive(ident.SystemSlot, journaltest.Start, "another deployment")
	_, err = pebblejournal.Open(o)
	require.ErrorIs(t, err, pebblejournal.ErrForeign)
	require.NoError(t, journaltest.Leaked(before))
}

// TestOpenInAnotherProcess starts this test again as another process, which finds the directory in use.
func TestOpenInAnotherProcess(t *testing.T) {
	const dirKey = "PEBBLEJOURNAL_TEST_DIR"
	if dir := os.Getenv(dirKey); dir != "" {
		_, err := pebblejournal.Open(pebblejournal.Options{Dir: dir})
		require.ErrorIs(t, err, pebblejournal.ErrInUse)
		return
	}
	dir := t.TempDir()
	j, err := pebblejournal.Open(pebblejournal.Options{Dir: dir})
	require.NoError(t, err)
	other := exec.Command(os.Args[0], "-test.run=^TestOpenInAnotherProcess$", "-test.v")
	other.Env = append(os.Environ(), dirKey+"="+dir)
	out, err := other.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestOpenInAnotherProcess")
	require.NoError(t, j.Close())
}

// syncFault fails every sync of a log once it is on, after holding it until the gate opens.
type syncFault struct {
	on      atomic.Bool
	reached chan struct{}
	once    sync.Once
	gate    chan struct{}
	fail    bool
}

func (f *syncFault) String() string { return "syncFault" }

func (f *syncFault) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
	default:
		return nil
	}
	if !f.on.Load() {
		return nil
	}
	f.once.Do(func() { close(f.reached) })
	<-f.gate
	if f.fail {
		return errorfs.ErrInjected
	}
	return nil
}

const slot ident.Slot = 0x123

func write(stream string) *persistence.Batch {
	return &persistence.Batch{
		Workspace: "ws", Slot: slot,
		Events:  []persistence.Event{{Kind: "card", Stream: stream, Version: 1}},
		Records: []persistence.Record{{Kind: "card", ID: stream}},
	}
}

// stalled opens a journal with one batch in it and one more whose sync has begun and not ended.
func stalled(t *testing.T, fail bool) (j *pebblejournal.Journal, f *syncFault, fatal *atomic.Int32, answer chan error) {
	t.Helper()
	f = &syncFault{reached: make(chan struct{}), gate: make(chan struct{}), fail: fail}
	fatal = &atomic.Int32{}
	o := options(errorfs.Wrap(vfs.NewMem(), f))
	o.Fatal = func(error) { fatal.Add(1) }
	j, err := pebblejournal.Open(o)
	require.NoError(t, err)
	heads, err := j.Raise(t.Context(), slot.Shard())
	require.NoError(t, err)
	_, err = j.Append(t.Context(), slot.Shard(), heads[0].Epoch, journaltest.Start, []*persistence.Batch{write("a")})
	require.NoError(t, err)
	f.on.Store(true)
	answer = make(chan error, 1)
	go func() {
		_, err := j.Append(context.Background(), slot.Shard(), heads[0].Epoch, journaltest.Start,
			[]*persistence.Batch{write("b")})
		answer <- err
	}()
	<-f.reached
	return j, f, fatal, answer
}

// TestNothingIsShownBeforeItIsSynced looks at a journal while a sync is under way.
func TestNothingIsShownBeforeItIsSynced(t *testing.T) {
	j, f, _, answer := stalled(t, false)
	require.EqualValues(t, 1, j.Head(slot.Shard()).Position)
	events, err := j.Events(t.Context(), slot.Shard(), 0, 10)
	require.NoError(t, err)
	require.Len(t, events, 1)
	const readers = 8
	begun, shown := make(chan struct{}), make(chan error, readers+1)
	for range readers {
		go func() {
			begun <- struct{}{}
			_, err := j.Record(context.Background(), slot, "card", "b")
			shown <- err
		}()
	}
	go func() { shown <- journaltest.AwaitHead(context.Background(), j, slot.Shard(), 1) }()
	for range readers {
		<-begun
	}
	for range 1000 { // time enough for a reader that does not wait
		_, err = j.Record(t.Context(), 0xfff, "card", "b")
		require.ErrorIs(t, err, persistence.ErrNotFound, "another shard does not wait")
	}
	select {
	case err := <-shown:
		require.Fail(t, "shown before the sync", "%v", err)
	case err := <-answer:
		require.Fail(t, "answered before the sync", "%v", err)
	default:
	}
	close(f.gate)
	require.NoError(t, <-answer)
	for range readers + 1 {
		require.NoError(t, <-shown)
	}
	require.NoError(t, j.Close())
}

// TestAFailedSyncStopsTheJournal: the batch is ambiguous, and no call is answered any more, not
// even a waiting one.
func TestAFailedSyncStopsTheJournal(t *testing.T) {
	j, f, fatal, answer := stalled(t, true)
	shown := make(chan error, 2)
	go func() {
		_, err := j.Record(context.Background(), slot, "card", "b")
		shown <- err
	}()
	go func() { shown <- journaltest.AwaitHead(context.Background(), j, slot.Shard(), 1) }()
	close(f.gate)
	require.ErrorIs(t, <-answer, persistence.ErrAmbiguous)
	require.ErrorIs(t, <-shown, persistence.ErrUnavailable)
	require.ErrorIs(t, <-shown, persistence.ErrUnavailable)
	require.EqualValues(t, 1, fatal.Load())
	require.EqualValues(t, 1, j.Head(slot.Shard()).Position)
	for _, call := range calls(j) {
		require.ErrorIs(t, call(t.Context()), persistence.ErrUnavailable)
	}
	require.EqualValues(t, 1, fatal.Load())
	require.ErrorIs(t, j.Close(), persistence.ErrUnavailable)
}

// TestAFailedSyncEndsTheProcess starts this test again as another process, whose journal fails under a caller that recovers.
func TestAFailedSyncEndsTheProcess(t *testing.T) {
	const key = "PEBBLEJOURNAL_TEST_FAIL"
	if os.Getenv(key) != "" {
		defer func() { _ = recover() }()
		f := &syncFault{reached: make(chan struct{}), gate: make(chan struct{}), fail: true}
		close(f.gate)
		j, err := pebblejournal.Open(options(errorfs.Wrap(vfs.NewMem(), f)))
		require.NoError(t, err)
		f.on.Store(true)
		_, err = j.Raise(t.Context(), slot.Shard())
		require.ErrorIs(t, err, persistence.ErrAmbiguous)
		<-t.Context().Done() // the process does not live to see it
	}
	other := exec.Command(os.Args[0], "-test.run=^TestAFailedSyncEndsTheProcess$", "-test.timeout=1m")
	other.Env = append(os.Environ(), key+"=1")
	out, err := other.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "panic: journal commit failed")
}

// calls are all methods that touch the store.
func calls(j *pebblejournal.Journal) []func(context.Context) error {
	shard := slot.Shard()
	return []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := j.Append(ctx, shard, 1, journaltest.Start, []*persistence.Batch{write("c")})
			return err
		},
		func(ctx context.Context) error { _, err := j.Raise(ctx, shard); return err },
		func(ctx context.Context) error { _, err := j.Events(ctx, shard, 0, 1); return err },
		func(ctx context.Context) error { _, err := j.Record(ctx, slot, "card", "a"); return err },
		func(ctx context.Context) error {
			_, err := j.List(ctx, slot, "card", "ws", "", persistence.Page{})
			return err
		},
		func(ctx context.Context) error { _, err := j.Records(ctx, shard, "card", "", 1); return err },
		func(ctx context.Context) error {
			_, _, err := j.Once(ctx, shard, "s", [32]byte{}, journaltest.Start)
			return err
		},
		func(ctx context.Context) error {
			_, err := j.Timers(ctx, shard, journaltest.Start, persistence.Timer{}, 1)
			return err
		},
		func(ctx context.Context) error { _, err := j.Cursor(ctx, "n", shard); return err },
		func(ctx context.Context) error { return j.SaveCursor(ctx, "n", shard, 1) },
		func(ctx context.Context) error { _, err := j.Sweep(ctx, journaltest.Start, 1); return err },
	}
}
