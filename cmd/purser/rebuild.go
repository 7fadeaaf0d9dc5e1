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
	"purser/authorizer"
	"purser/persistence"
	"purser/persistence/pebblejournal"
)

// RebuildCmd makes the authorizer's store anew from the journal. Decisions that were not yet relayed are lost with the old store.
type RebuildCmd struct {
	DataDir string `name:"data-dir" env:"PURSER_DATA_DIR" default:"./data" help:"Directory of both stores."`
	Yes     bool   `name:"yes" help:"Do it. An authorizer directory that is there is kept beside the new one."`
}

// Run rebuilds beside the old store and takes the old one away only when the new one is whole.
func (r *RebuildCmd) Run(out io.Writer) error {
	if !r.Yes {
		return errors.New("this replaces the authorizer's store, and decisions it has not relayed are lost; say --yes")
	}
	unlock, err := lockExisting(r.DataDir)
	if err != nil {
		return err
	}
	return errors.Join(r.rebuild(context.Background(), out), unlock())
}

func (r *RebuildCmd) rebuild(ctx context.Context, out io.Writer) error {
	journal, err := pebblejournal.Open(pebblejournal.Options{Dir: journalDir(r.DataDir), MustExist: true})
	if err != nil {
		return err
	}
	decisions, kept, err := r.rebuildFrom(ctx, journal)
	if err := errors.Join(err, journal.Close()); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d decisions replayed into %s\n", decisions, authorizerDir(r.DataDir))
	if kept != "" {
		fmt.Fprintf(out, "the old store is kept as %s\n", kept)
	}
	return nil
}

// rebuildFrom leaves the journal's relay cursors alone until the new store is in its place: an old store that stays must go on from them.
func (r *RebuildCmd) rebuildFrom(ctx context.Context, journal persistence.Journal) (decisions uint64, kept string, err error) {
	fresh := authorizerDir(r.DataDir) + ".new"
	relayed, err := rebuildInto(ctx, journal, fresh)
	if err != nil {
		return 0, "", err
	}
	if kept, err = r.replace(fresh); err != nil {
		return 0, kept, err
	}
	for _, n := range relayed {
		decisions += n
	}
	return decisions, kept, actors.SaveRelayed(ctx, journal, relayed)
}

// replace puts the new store in its place. A crash in between leaves no authorizer directory, which stops the next start.
func (r *RebuildCmd) replace(fresh string) (kept string, err error) {
	if _, err := os.Stat(authorizerDir(r.DataDir)); err == nil {
		kept = fmt.Sprintf("%s.old-%d", authorizerDir(r.DataDir), time.Now().Unix())
		if err := os.Rename(authorizerDir(r.DataDir), kept); err != nil {
			return "", err
		}
	}
	if err := os.Rename(fresh, authorizerDir(r.DataDir)); err != nil {
		return kept, err
	}
	return kept, syncDir(r.DataDir)
}

// rebuildInto fills a new store. What an earlier attempt left there is removed first.
func rebuildInto(ctx context.Context, journal persistence.Journal, dir string) (relayed actors.Relayed, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return relayed, err
	}
	var failed error
	engine, err := authorizer.Open(authorizer.Options{Dir: dir, Deployment: journal.Identity().Deployment, Clock: time.Now,
		Entropy: rand.Reader, Fatal: func(err error) { failed = err }})
	if err != nil {
		return relayed, err
	}
	relayed, err = actors.Rebuild(ctx, journal, engine)
	return relayed, errors.Join(err, failed, engine.Close())
}
