package journaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/persistence"
	"purser/persistence/archive"
	"purser/persistence/ident"
)

// Loader makes an empty store and loads content into it. It returns the error of the load, and how
// to open the store.
type Loader func(t T, identity persistence.Identity, content persistence.Content) (Reopen, error)

// Dump is the archive of a journal as it is now.
func Dump(t T, j persistence.Journal) []byte {
	t.Helper()
	var out bytes.Buffer
	s, err := j.(persistence.Archiver).Snapshot(context.Background())
	require.NoError(t, err)
	_, err = archive.Write(&out, j.Identity(), s.Content(context.Background()))
	require.NoError(t, errors.Join(err, s.Close()))
	return out.Bytes()
}

// RunLoad holds the content of a journal and what a loader makes of it against each other: it must
// be the same to the byte, and the new journal must go on where the old one stood.
func RunLoad(t *testing.T, open Factory, load Loader) {
	t.Run("same bytes", func(t *testing.T) {
		f := start(t, open)
		f.fill()
		dump := Dump(t, f.j)
		reopen, err := loadArchive(t, dump, load)
		require.NoError(t, err)
		copied := &fixture{t: t, reopen: reopen, ctx: f.ctx, shard: f.shard, now: f.now, j: reopen()}
		defer func() { require.NoError(t, copied.j.Close()) }()
		require.Equal(t, f.j.Identity(), copied.j.Identity())
		require.True(t, bytes.Equal(dump, Dump(t, copied.j)), "the content differs")
		for _, g := range []*fixture{f, copied} {
			require.ErrorIs(t, g.goOn(f.epoch), persistence.ErrFenced, "the epoch is past")
			g.raise()
			require.NoError(t, g.goOn(g.epoch))
			swept, err := g.j.Sweep(g.ctx, g.now.Add(2*time.Hour), 100)
			require.NoError(t, err)
			require.Equal(t, 10, swept)
		}
		require.True(t, bytes.Equal(Dump(t, f.j), Dump(t, copied.j)), "they went on differently")
	})
	t.Run("empty", func(t *testing.T) {
		dump := Dump(t, start(t, open).j)
		reopen, err := loadArchive(t, dump, load)
		require.NoError(t, err)
		j := reopen()
		require.True(t, bytes.Equal(dump, Dump(t, j)))
		require.NoError(t, j.Close())
	})
	t.Run("cut short", func(t *testing.T) {
		f := start(t, open)
		f.fill()
		dump := Dump(t, f.j)
		_, err := loadArchive(t, dump[:len(dump)/2], load)
		require.ErrorIs(t, err, archive.ErrDamaged)
	})
}

func loadArchive(t T, dump []byte, load Loader) (Reopen, error) {
	r, err := archive.NewReader(bytes.NewReader(dump))
	require.NoError(t, err)
	return load(t, r.Identity(), r.Content())
}

// fill appends something of every sort: names of more than 127 bytes, empty documents, replaced and
// removed ones, and a cursor without events. It leaves the epoch of f.shard raised once more.
func (f *fixture) fill() {
	long, longer := strings.Repeat("k", 257), strings.Repeat("k", 384) // as uvarints the second is the lesser
	for version := uint64(1); version <= 3; version++ {
		for _, kind := range []string{"card", "balance", "b", long, longer} {
			f.must(batch(event(kind, "s", version), record(kind, "r", "p", fmt.Sprintf(`{"version": %d}`, version)),
				record(kind, fmt.Sprintf("r%d", version), "", ""),
				once(kind, fmt.Sprint(version), f.now.Add(time.Duration(version)*time.Hour)),
				timer(kind, "k", f.now.Add(time.Hour))))
		}
	}
	forever, unanswered := once("forever", "x", time.Time{}), once("z", "y", time.Time{})
	unanswered.Answer = nil
	gone := record("card", "r2", "", "")
	gone.Deleted = true
	f.must(batch(forever, unanswered, gone, timer("card", "k", time.Time{}), timer(longer, "other", f.now)))
	bare := event("bare", "s", 1)
	bare.Payload = nil
	f.must(batch(bare))
	f.must(batch(record("after", "the events", "", ""))) // it has the first ordinal of the head's position
	require.NoError(f.t, f.j.SaveCursor(f.ctx, "relay", f.shard, 7))
	require.NoError(f.t, f.j.SaveCursor(f.ctx, "kafka", 255, 9))
	heads, err := f.j.Raise(f.ctx, 255)
	require.NoError(f.t, err)
	b := batch(event("card", "t", 1))
	b.Slot = ident.Slots - 1
	_, err = f.j.Append(f.ctx, 255, heads[0].Epoch, f.now, []*persistence.Batch{b})
	require.NoError(f.t, err)
	f.raise()
	f.epoch--
}

// goOn appends batches that only a journal with the versions, ordinals and once-keys of fill takes.
// It fails with the reason why another journal does not.
func (f *fixture) goOn(epoch uint64) error {
	group := []*persistence.Batch{
		batch(event("card", "s", 3)), batch(once("forever", "x", time.Time{})),
		batch(record("new", "n", "", "")), batch(event("card", "s", 4), record("new", "m", "", "")),
	}
	outcomes, err := f.j.Append(f.ctx, f.shard, epoch, f.now, group)
	if err != nil {
		return err
	}
	var taken *persistence.OnceError
	require.ErrorIs(f.t, outcomes[0].Err, persistence.ErrVersion)
	require.ErrorAs(f.t, outcomes[1].Err, &taken)
	return errors.Join(outcomes[2].Err, outcomes[3].Err)
}

var contentTests = map[string]func(*fixture){
	"a snapshot reads its instant": snapshotReads,
	"a snapshot is of one instant": snapshotInstant,
	"a context ends a walk":        snapshotContext,
}

// snapshotInstant: each batch moves two counters of one shard together; no snapshot may see them
// apart, at any moment.
func snapshotInstant(f *fixture) {
	var appending sync.WaitGroup
	stop := make(chan struct{})
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	var failed error
	appending.Go(func() {
		defer begin()
		for version := uint64(1); ; version++ {
			value := fmt.Sprint(version)
			outcomes, err := f.j.Append(f.ctx, f.shard, f.epoch, f.now, []*persistence.Batch{
				batch(event("card", "s", version), record("one", "x", "", value), record("two", "x", "", value))})
			if err == nil {
				err = outcomes[0].Err
			}
			if err != nil {
				failed = err
				return
			}
			begin()
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	<-begun
	for range 10 {
		before := f.j.Head(f.shard).Position
		r, err := archive.NewReader(bytes.NewReader(Dump(f.t, f.j)))
		require.NoError(f.t, err)
		var position uint64
		documents := map[string]json.RawMessage{}
		for part, err := range r.Content() {
			require.NoError(f.t, err)
			switch p := part.(type) {
			case *persistence.Event:
				position = p.Position
			case *persistence.Record:
				documents[p.Kind] = bytes.Clone(p.Document)
			}
		}
		require.GreaterOrEqual(f.t, position, before, "what was answered before is in it")
		require.Equal(f.t, fmt.Sprint(position), string(documents["one"]))
		require.Equal(f.t, documents["one"], documents["two"])
	}
	close(stop)
	appending.Wait()
	require.NoError(f.t, failed)
}

// snapshotReads: Events and Records of a snapshot show the journal before later commits, in pages.
func snapshotReads(f *fixture) {
	f.must(batch(event("card", "s", 1), record("card", "a", "", `"old"`), record("card", "b", "", `"b"`)))
	f.must(batch(event("card", "s", 2)))
	s, err := f.j.(persistence.Archiver).Snapshot(f.ctx)
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, s.Close()) }()
	f.must(batch(event("card", "s", 3), record("card", "a", "", `"new"`), record("card", "c", "", `"c"`)))

	first, err := s.Events(f.ctx, f.shard, 0, 1)
	require.NoError(f.t, err)
	require.Len(f.t, first, 1)
	rest, err := s.Events(f.ctx, f.shard, 1, 100)
	require.NoError(f.t, err)
	require.Len(f.t, rest, 1)
	require.Equal(f.t, "evt_card_s_2", rest[0].ID)
	none, err := s.Events(f.ctx, f.shard, 2, 100)
	require.NoError(f.t, err)
	require.Empty(f.t, none)

	var documents []string
	for after := ""; ; {
		page, err := s.Records(f.ctx, f.shard, "card", after, 1)
		require.NoError(f.t, err)
		if len(page) == 0 {
			break
		}
		documents, after = append(documents, string(page[0].Document)), page[0].ID
	}
	require.Equal(f.t, []string{`"old"`, `"b"`}, documents)
}

// snapshotContext tests that the content of a snapshot ends with the error of its context when that
// is cancelled.
func snapshotContext(f *fixture) {
	f.must(batch(event("card", "s", 1)))
	stored, err := f.j.(persistence.Archiver).StoredBytes(f.ctx)
	require.NoError(f.t, err)
	require.Positive(f.t, stored)
	s, err := f.j.(persistence.Archiver).Snapshot(f.ctx)
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	var ended error
	for _, err := range s.Content(ctx) {
		cancel()
		ended = err
	}
	require.ErrorIs(f.t, ended, context.Canceled)
	require.NoError(f.t, s.Close())
}
