package storecare

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"purser/actors"
	"purser/actors/processes"
	"purser/authorizer"
	"purser/cmd/purser/datadir"
	"purser/persistence"
	"purser/persistence/ident"
)

// RebuildCmd rebuilds the authorizer's store from the journal. The log of an old store that
// reaches the journal stays: the next start relays the decisions that the journal lacks.
type RebuildCmd struct {
	datadir.Stores
	Yes        bool `name:"yes" help:"Do it. An authorizer directory that is there is kept beside the new one."`
	DiscardLog bool `name:"discard-log" help:"Lose the decisions of the old log that the journal lacks."`
}

// Run is `purser rebuild-authorizer`: it rebuilds the authorizer's store from the journal beside
// the old store, and replaces the old one only when the new one is whole. It fails while a server
// runs, without --yes, when decisions would be lost without --discard-log, and with an error of the
// stores.
func (r *RebuildCmd) Run(out io.Writer) error {
	unlock, err := datadir.LockExisting(r.DataDir)
	if err != nil {
		return err
	}
	return errors.Join(r.rebuild(context.Background(), out), unlock())
}

// rebuild opens the journal, which must exist, and runs rebuildOn. It fails when the journal cannot
// be opened, and as rebuildOn does.
func (r *RebuildCmd) rebuild(ctx context.Context, out io.Writer) error {
	journal, err := r.OpenJournal(ctx, datadir.JournalOptions{MustExist: true})
	if err != nil {
		return err
	}
	return errors.Join(r.rebuildOn(ctx, journal, out), journal.Close())
}

// rebuildOn keeps the old log where it can. It loses a log that it can read only when DiscardLog
// says so. It prints its plan, and fails before any change without --yes or when a readable log
// would be lost without --discard-log.
func (r *RebuildCmd) rebuildOn(ctx context.Context, journal persistence.Journal, out io.Writer) error {
	old, err := r.readOldLog(ctx, journal)
	if err != nil {
		return err
	}
	old.say(out, r.DiscardLog)
	switch {
	case old.unusable != nil && !r.DiscardLog:
		return fmt.Errorf("the old log cannot be kept: %w; `purser rebuild-authorizer --yes --discard-log` loses the %d decisions of "+
			"the old log that the journal lacks, `purser restore` all that is newer than the backup", old.unusable, old.pending)
	case !r.Yes:
		return errors.New("this replaces the authorizer's store; say --yes")
	}
	if err := r.undoReplace(&old); err != nil {
		return err
	}
	if old.canBeKept() && !r.DiscardLog {
		return r.setBack(ctx, journal, &old, out)
	}
	made, kept, err := r.rebuildFrom(ctx, journal, &old, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d decisions replayed into %s\n", made.decisions, datadir.AuthorizerDir(r.DataDir))
	if made.lost > 0 {
		fmt.Fprintf(out, "%d decisions between them are lost with the old store; `purser audit` names them\n", made.lost)
	}
	if kept != "" {
		fmt.Fprintf(out, "the old store is kept as %s\n", kept)
	}
	return nil
}

// rebuildFrom leaves the journal's relay cursors alone until the new store is in its place: an old
// store that stays must go on from them. The rules of an old store that can be read are kept where
// they are stricter, also when its log is discarded. It fails with an error of the stores or of the
// disk; the old store then stays in place or is restored by the next run.
func (r *RebuildCmd) rebuildFrom(ctx context.Context, journal persistence.Journal, old *oldLog,
	out io.Writer) (made rebuilt,
	kept string, err error) {
	fresh := FreshAuthorizerDir(r.DataDir)
	if made, err = rebuildInto(ctx, journal, fresh); err != nil {
		return made, "", err
	}
	if old.readable() {
		if err := r.keepStricterIn(journal, fresh, out); err != nil {
			return made, "", err
		}
	}
	if kept, err = r.replace(fresh); err != nil {
		return made, kept, err
	}
	return made, kept, actors.SaveRelayed(ctx, journal, made.relayed)
}

// FreshAuthorizerDir is where a new store is made.
func FreshAuthorizerDir(data string) string { return datadir.AuthorizerDir(data) + ".new" }

// oldStore returns the directory of the old store. A replace that was interrupted between its two
// renames has moved the old store aside; then the new store exists, and the authorizer's does not.
func (r *RebuildCmd) oldStore() (dir string, err error) {
	dir = datadir.AuthorizerDir(r.DataDir)
	if !authorizer.Exists(nil, FreshAuthorizerDir(r.DataDir)) || authorizer.Exists(nil, dir) {
		return dir, nil
	}
	kept, err := filepath.Glob(dir + ".old-*")
	if err != nil || len(kept) == 0 {
		return dir, err
	}
	return slices.MaxFunc(kept, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}), nil
}

// undoReplace puts the old store back into its place after an interrupted replace. The old store
// has the log, and the new store is made again. It fails only with the disk's error.
func (r *RebuildCmd) undoReplace(old *oldLog) error {
	if !old.aside {
		return nil
	}
	if err := os.Rename(old.dir, datadir.AuthorizerDir(r.DataDir)); err != nil {
		return err
	}
	return datadir.SyncDir(r.DataDir)
}

// replace puts the new store in its place. A crash between the renames leaves no authorizer
// directory, which stops the next start, and undoReplace takes it back. It fails only with the
// disk's error.
func (r *RebuildCmd) replace(fresh string) (kept string, err error) {
	if _, err := os.Stat(datadir.AuthorizerDir(r.DataDir)); err == nil {
		kept = fmt.Sprintf("%s.old-%d", datadir.AuthorizerDir(r.DataDir), time.Now().Unix())
		if err := os.Rename(datadir.AuthorizerDir(r.DataDir), kept); err != nil {
			return "", err
		}
	}
	if err := os.Rename(fresh, datadir.AuthorizerDir(r.DataDir)); err != nil {
		return kept, err
	}
	return kept, datadir.SyncDir(r.DataDir)
}

// rebuilt are the counts of a new store, and the number of decisions that the journal never had.
type rebuilt struct {
	relayed         actors.Relayed
	decisions, lost uint64
}

// rebuildInto fills a new store. What an earlier attempt left there is removed first. It fails with
// an error of the journal or of the new store.
func rebuildInto(ctx context.Context, journal persistence.Journal, dir string) (made rebuilt, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return made, err
	}
	var failed error
	engine, err := authorizer.Open(authorizer.Options{Dir: dir, Deployment: journal.Identity().Deployment, Clock: time.Now,
		Entropy: rand.Reader, Fatal: func(err error) { failed = err }})
	if err != nil {
		return made, err
	}
	if made.relayed, err = actors.Rebuild(ctx, journal, engine.Rebuilder(), processes.Kinds()); err == nil {
		err = made.count(engine)
	}
	closed := engine.Close() // a commit may still fail in it
	return made, errors.Join(err, failed, closed)
}

// count sets the numbers of rebuilt and of lost decisions of a rebuilt store. It fails with the
// store's error.
func (r *rebuilt) count(engine *authorizer.Engine) error {
	for shard, last := range r.relayed {
		lost, err := engine.Rebuilder().Lost(ident.Shard(shard))
		if err != nil {
			return err
		}
		r.decisions += last
		for _, run := range lost {
			r.lost += run.Last - run.First + 1
		}
	}
	r.decisions -= r.lost
	return nil
}
