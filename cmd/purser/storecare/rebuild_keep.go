package storecare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"purser/actors"
	"purser/actors/processes"
	"purser/authorizer"
	"purser/authorizer/hold"
	"purser/cmd/purser/datadir"
	"purser/persistence"
	"purser/persistence/dataformat"
	"purser/persistence/ident"
)

// The most cards and decisions that a rebuild prints by id.
const (
	cardsNamed     = 100
	decisionsNamed = 100
)

// oldLog is the authorizer's log that a rebuild finds.
type oldLog struct {
	dir      string // the directory of its store
	aside    bool   // an interrupted repair has moved the store there
	there    bool
	unread   error // the store cannot be opened, or is another deployment's
	pending  uint64
	named    []hold.Entry // the first of the pending decisions
	told     actors.Relayed
	unusable error // the log does not reach the journal
}

// readable reports that the old store is there and can be opened.
func (l *oldLog) readable() bool { return l.there && l.unread == nil }

// canBeKept reports that the log can be set back to the journal, so that the next start relays it.
func (l *oldLog) canBeKept() bool { return l.readable() && l.unusable == nil }

func (r *RebuildCmd) engineOptions(dir string, journal persistence.Journal, failed *error) authorizer.Options {
	return authorizer.Options{Dir: dir, Deployment: journal.Identity().Deployment, Clock: time.Now,
		Entropy: rand.Reader,
		Fatal:   func(err error) { *failed = err }}
}

// readOldLog counts the decisions that the old log has and the journal lacks, names the first of
// them, and finds whether the log reaches the journal. An old store that cannot be opened is not an
// error but in the result, unless a newer program wrote it. It fails with an error of the journal,
// or of a store that opens and cannot be read.
func (r *RebuildCmd) readOldLog(ctx context.Context, journal persistence.Journal) (l oldLog, err error) {
	if l.told, err = actors.RelayedInJournal(ctx, journal); err != nil {
		return l, err
	}
	if l.dir, err = r.oldStore(); err != nil {
		return l, err
	}
	l.aside = l.dir != datadir.AuthorizerDir(r.DataDir)
	if l.there = authorizer.Exists(nil, l.dir); !l.there {
		return l, nil
	}
	var failed error
	engine, err := authorizer.Open(r.engineOptions(l.dir, journal, &failed))
	if other, is := errors.AsType[*dataformat.Other](err); is && other.IsNewer() {
		return l, err
	}
	if err != nil {
		l.unread = err
		return l, nil
	}
	l.unusable = engine.Rebuilder().Reaches(l.told)
	if errors.Is(l.unusable, authorizer.ErrCorrupt) {
		err, l.unusable = l.unusable, nil
	}
	if err == nil {
		err = l.readPending(engine)
	}
	return l, errors.Join(err, engine.Close(), failed)
}

// readPending counts the decisions that the journal lacks, and reads the first of them. It fails
// when the old store's log cannot be read.
func (l *oldLog) readPending(engine *authorizer.Engine) error {
	for i, told := range l.told {
		shard := ident.Shard(i)
		l.pending += engine.Synced(shard) - min(engine.Synced(shard), told)
		if len(l.named) == decisionsNamed {
			continue
		}
		first, err := engine.ReadLog(shard, told, decisionsNamed-len(l.named))
		if err != nil {
			return err
		}
		l.named = append(l.named, first...)
	}
	return nil
}

// say prints how the rebuild uses the old log.
func (l *oldLog) say(out io.Writer, discard bool) {
	if l.aside {
		fmt.Fprintf(out, "an earlier repair was interrupted: %s is the old store, and --yes puts it back\n", l.dir)
	}
	switch {
	case !l.there:
		fmt.Fprintln(out, "there is no old store: decisions that were not relayed are lost")
	case l.unread != nil:
		fmt.Fprintf(out, "the old store cannot be read, and its decisions that were not relayed are lost: %v\n",
			l.unread)
	case discard || l.unusable != nil:
		fmt.Fprintf(out, "%d decisions of the old log that the journal lacks are lost with --discard-log:\n", l.pending)
		l.nameDecisions(out)
		if l.unusable != nil {
			fmt.Fprintf(out, "decisions that neither the old log nor the journal has are lost too and not counted: %v\n",
				l.unusable)
		}
	default:
		fmt.Fprintf(out, "%d decisions of the old log that the journal lacks are kept; the next start relays them\n",
			l.pending)
	}
}

// nameDecisions prints the decisions that are lost with the log.
func (l *oldLog) nameDecisions(out io.Writer) {
	for i := range l.named {
		n := &l.named[i]
		fmt.Fprintf(out, "  %s %s %s %s, asked %d cents, approved %d cents, %s\n",
			time.UnixMilli(n.At).UTC().Format(time.RFC3339),
			n.Kind, n.NetworkID, n.Decision, n.Amount, n.Approved, n.Card.Format(ident.Card))
	}
	if more := l.pending - uint64(len(l.named)); more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}

// setBack makes the new store of a copy of the old one: it follows the journal anew, keeps its log,
// and keeps the stricter of two rules. It fails with an error of the stores or of the disk, and the
// old store then stays.
func (r *RebuildCmd) setBack(ctx context.Context, journal persistence.Journal, l *oldLog, out io.Writer) (err error) {
	fresh := FreshAuthorizerDir(r.DataDir)
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := checkpointAuthorizer(datadir.AuthorizerDir(r.DataDir), fresh); err != nil {
		return err
	}
	var failed error
	err = authorizer.FollowAnew(r.engineOptions(fresh, journal, &failed), l.told)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	engine, err := authorizer.Open(r.engineOptions(fresh, journal, &failed))
	if err != nil {
		return err
	}
	err = actors.CatchUp(ctx, journal, engine, processes.Kinds())
	if err := errors.Join(err, engine.Close(), failed); err != nil {
		return err
	}
	if err := r.keepStricterIn(journal, fresh, out); err != nil {
		return err
	}
	kept, err := r.replace(fresh)
	if err == nil {
		fmt.Fprintf(out, "the old store is kept as %s\n", kept)
	}
	return err
}

// keepStricterIn keeps the stricter rule of the old store and a new one. It fails with an error of
// either store.
func (r *RebuildCmd) keepStricterIn(journal persistence.Journal, fresh string, out io.Writer) error {
	var failed error
	found, err := keepStricter(r.engineOptions(fresh, journal, &failed),
		r.engineOptions(datadir.AuthorizerDir(r.DataDir), journal, &failed))
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	sayStricter(out, &found)
	return nil
}

// keepStricter keeps the stricter rule of an earlier authorizer's store and a fresh one that has
// followed its journal. It fails with an error of either store.
func keepStricter(fresh, earlier authorizer.Options) (found authorizer.Stricter, err error) {
	engine, err := authorizer.Open(fresh)
	if err != nil {
		return found, err
	}
	old, err := authorizer.Open(earlier)
	if err != nil {
		return found, errors.Join(err, engine.Close())
	}
	found, err = engine.Rebuilder().KeepStricter(old, cardsNamed)
	return found, errors.Join(err, old.Close(), engine.Close())
}

// sayStricter prints the cards whose last changes the journal has lost.
func sayStricter(out io.Writer, found *authorizer.Stricter) {
	if found.Unknown > 0 {
		fmt.Fprintf(out, "%d cards are not in the journal: swipes on them are declined\n", found.Unknown)
	}
	if found.Changed > 0 {
		fmt.Fprintf(out, "the journal has lost changes of %d cards: the stricter rule holds until each is changed again\n", found.Changed)
	}
	for _, card := range found.Cards {
		fmt.Fprintf(out, "  %s\n", card.Format(ident.Card))
	}
	if more := found.Changed - len(found.Cards); more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}
