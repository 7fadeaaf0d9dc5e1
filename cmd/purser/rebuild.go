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
	fresh := authorizerDir(r.DataDir) + ".new"
	decisions, err := rebuildInto(ctx, journal, fresh)
	if err := errors.Join(err, journal.Close()); err != nil {
		return err
	}
	kept, err := r.replace(fresh)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d decisions replayed into %s\n", decisions, authorizerDir(r.DataDir))
	if kept != "" {
		fmt.Fprintf(out, "the old store is kept as %s\n", kept)
	}
	return nil
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

// rebuildInto fills a new store and returns how many decisions it has. What an earlier attempt left there is removed first.
func rebuildInto(ctx context.Context, journal persistence.Journal, dir string) (decisions uint64, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return 0, err
	}
	var failed error
	engine, err := authorizer.Open(authorizer.Options{Dir: dir, Deployment: journal.Identity().Deployment, Clock: time.Now,
		Entropy: rand.Reader, Fatal: func(err error) { failed = err }})
	if err != nil {
		return 0, err
	}
	err = errors.Join(actors.Rebuild(ctx, journal, engine), failed)
	for shard := range ident.Shards {
		decisions += engine.Synced(ident.Shard(shard))
	}
	return decisions, errors.Join(err, engine.Close())
}
