package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"purser/actors"
	"purser/actors/ident"
	"purser/authorizer"
	"purser/persistence"
)

// cardsNamed is the most cards that a rebuild prints by id.
const cardsNamed = 100

// oldLog is the authorizer's log that a rebuild finds.
type oldLog struct {
	there    bool
	unread   error // the store cannot be opened, or is another deployment's
	pending  uint64
	told     actors.Relayed
	unusable error // the log does not reach the journal
}

// keeps reports that the log can be set back to the journal, so that the next start relays it.
func (l *oldLog) keeps() bool { return l.there && l.unread == nil && l.unusable == nil }

func (r *RebuildCmd) engineOptions(dir string, journal persistence.Journal, failed *error) authorizer.Options {
	return authorizer.Options{Dir: dir, Deployment: journal.Identity().Deployment, Clock: time.Now, Entropy: rand.Reader,
		Fatal: func(err error) { *failed = err }}
}

// readOldLog counts the decisions that the old log has and the journal lacks.
func (r *RebuildCmd) readOldLog(ctx context.Context, journal persistence.Journal) (l oldLog, err error) {
	if l.told, err = actors.ToldBy(ctx, journal); err != nil {
		return l, err
	}
	if l.there = authorizer.Exists(nil, authorizerDir(r.DataDir)); !l.there {
		return l, nil
	}
	var failed error
	engine, err := authorizer.Open(r.engineOptions(authorizerDir(r.DataDir), journal, &failed))
	if err != nil {
		l.unread = err
		return l, nil
	}
	for shard := range l.told {
		l.pending += engine.Synced(ident.Shard(shard)) - min(engine.Synced(ident.Shard(shard)), l.told[shard])
	}
	return l, errors.Join(engine.Close(), failed)
}

// say prints how the rebuild treats the old log.
func (l *oldLog) say(out io.Writer, discard bool) {
	switch {
	case !l.there:
		fmt.Fprintln(out, "there is no old store: decisions that were not relayed are lost")
	case l.unread != nil:
		fmt.Fprintf(out, "the old store cannot be read, and its decisions that were not relayed are lost: %v\n", l.unread)
	case discard:
		fmt.Fprintf(out, "%d decisions of the old log that the journal lacks are discarded\n", l.pending)
	default:
		fmt.Fprintf(out, "%d decisions of the old log that the journal lacks are kept; the next start relays them\n", l.pending)
	}
}

// setBack makes the new store of a copy of the old one: it follows the journal anew, keeps its log,
// and keeps the stricter of two rules.
func (r *RebuildCmd) setBack(ctx context.Context, journal persistence.Journal, l *oldLog, out io.Writer) (err error) {
	fresh := authorizerDir(r.DataDir) + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := checkpointAuthorizer(authorizerDir(r.DataDir), fresh); err != nil {
		return err
	}
	var failed error
	err = authorizer.FollowAnew(r.engineOptions(fresh, journal, &failed), l.told)
	if errors.Is(err, authorizer.ErrHole) || errors.Is(err, authorizer.ErrLogBehind) {
		l.unusable = err
		return errors.Join(os.RemoveAll(fresh), failed)
	}
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	engine, err := authorizer.Open(r.engineOptions(fresh, journal, &failed))
	if err != nil {
		return err
	}
	if err = actors.CatchUp(ctx, journal, engine); err == nil {
		err = r.keepStricter(journal, engine, out)
	}
	if err := errors.Join(err, engine.Close(), failed); err != nil {
		return err
	}
	kept, err := r.replace(fresh)
	if err == nil {
		fmt.Fprintf(out, "the old store is kept as %s\n", kept)
	}
	return err
}

// keepStricter names the cards whose last changes the journal has lost.
func (r *RebuildCmd) keepStricter(journal persistence.Journal, engine *authorizer.Engine, out io.Writer) error {
	var failed error
	old, err := authorizer.Open(r.engineOptions(authorizerDir(r.DataDir), journal, &failed))
	if err != nil {
		return err
	}
	cards, unknown, err := engine.KeepStricter(old)
	if err := errors.Join(err, old.Close(), failed); err != nil {
		return err
	}
	if unknown > 0 {
		fmt.Fprintf(out, "%d cards are not in the journal: swipes on them are declined\n", unknown)
	}
	if len(cards) > 0 {
		fmt.Fprintf(out, "the journal has lost changes of %d cards: the stricter rule holds until each is changed again\n", len(cards))
	}
	for i, card := range cards {
		if i == cardsNamed {
			fmt.Fprintf(out, "  and %d more\n", len(cards)-cardsNamed)
			break
		}
		fmt.Fprintf(out, "  %s\n", card.Format(ident.Card))
	}
	return nil
}
