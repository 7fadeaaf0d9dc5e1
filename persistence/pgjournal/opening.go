package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"purser/persistence"
	"purser/persistence/dataformat"
	"purser/persistence/ident"
	"purser/persistence/postgres"
)

// opening is a journal whose Open has not returned. It reads the state of the store and starts the
// workers.
type opening struct {
	*Journal
	options Options
}

// loadState checks the store and reads its heads and timers into memory. It fails with ErrForeign,
// ErrNoStore, or the server's error.
func (j *opening) loadState(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	if err := j.verifyIdentity(ctx); err != nil {
		return err
	}
	if err := j.refreshHeads(ctx); err != nil {
		return err
	}
	return j.loadDue(ctx)
}

// verifyIdentity checks the schema and the stamp of the store. It stamps a new store. It fails with
// ErrForeign for another deployment, format or number of shards, with ErrNoStore, and with the
// server's error.
func (j *opening) verifyIdentity(ctx context.Context) error {
	if err := j.checkSchema(ctx); err != nil {
		return err
	}
	found, slots, shards, err := j.readStamp(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		if j.options.MustExist {
			return fmt.Errorf("%w in this database", ErrNoStore)
		}
		if err = j.setStamp(ctx); err == nil {
			found, slots, shards, err = j.readStamp(ctx)
		}
	}
	if err != nil {
		return err
	}
	err = dataformat.Require("its format", int64(found), format, "start with an empty database")
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrForeign, err)
	case slots != ident.Slots || shards != ident.Shards:
		return fmt.Errorf("%w: it has %d slots in %d shards, this program %d in %d",
			ErrForeign, slots, shards, ident.Slots, ident.Shards)
	case !j.options.Deployment.IsZero() && j.options.Deployment != j.identity.Deployment:
		return fmt.Errorf("%w: its deployment is %x, not %x", ErrForeign, j.identity.Deployment, j.options.Deployment)
	}
	return nil
}

// checkSchema compares the schema of the database with that of this program. It fails with
// ErrNoStore for a missing or older one, with ErrForeign for a newer one, and with the server's
// error.
func (j *opening) checkSchema(ctx context.Context) error {
	want, err := newestSchema()
	if err != nil {
		return err
	}
	var found int64
	var refusal *pgconn.PgError
	err = j.pool.QueryRow(ctx, sqlSchema).Scan(&found)
	switch {
	case errors.As(err, &refusal) && refusal.Code == undefinedTable:
		return fmt.Errorf("%w in this database: it was not migrated", ErrNoStore)
	case err != nil:
		return err
	}
	err = dataformat.Require("its schema", found, want, "`purser migrate` or a start migrates it")
	switch {
	case found < want:
		return fmt.Errorf("%w of this program: %w", ErrNoStore, err)
	case found > want:
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return nil
}

func (j *opening) readStamp(ctx context.Context) (format, slots, shards int, err error) {
	var deployment, store [16]byte
	err = j.pool.QueryRow(ctx, sqlStamp).Scan(&format, &slots, &shards, &deployment, &store)
	j.identity = persistence.Identity{Deployment: deployment, Store: store}
	return format, slots, shards, err
}

// setStamp stamps a new store. The stamp of another process that comes first stays. It fails
// without entropy and with the server's error.
func (j *opening) setStamp(ctx context.Context) (err error) {
	// Both ids have the same instant: only a later incarnation has a Store later than its
	// Deployment.
	deployment, now := j.options.Deployment, j.options.Clock()
	if deployment.IsZero() {
		if deployment, err = ident.New(ident.SystemSlot, now, j.options.Entropy); err != nil {
			return err
		}
	}
	store, err := ident.New(ident.SystemSlot, now, j.options.Entropy)
	if err != nil {
		return err
	}
	_, err = j.pool.Exec(ctx, sqlSetStamp, format, ident.Slots, ident.Shards, [16]byte(deployment), [16]byte(store))
	return err
}

// startWorkers starts the goroutines of an open journal: the lanes, the record readers, the poll of
// heads and the writer of cursors. They end with Close. Open calls it last.
func (j *opening) startWorkers(config *pgx.ConnConfig) {
	for range j.options.Lanes {
		l := &lane{j: j.Journal, config: config, queue: make(chan *request, laneQueue)}
		j.lanes = append(j.lanes, l)
		j.workers.Go(l.serveQueue)
		j.workers.Go((&lookupReader{j.Journal}).readRecords)
	}
	alive, end := context.WithCancel(context.Background())
	j.done, j.stopWorkers = alive.Done(), end
	j.workers.Go(func() { j.pollHeads(alive) })
	j.workers.Go(func() {
		j.cursors.Run(alive, func(err error) {
			j.reportError(fmt.Errorf("journal cannot write cursors: %w", postgres.NameExhausted(err)))
		})
	})
}

// loadDue reads the time of each shard's first due timer. It fails with the server's error.
func (j *opening) loadDue(ctx context.Context) error {
	rows, err := j.pool.Query(ctx, sqlAllNextDue)
	if err != nil {
		return err
	}
	var id int16
	var first *time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &first}, func() error {
		j.shards[id].due.Observe(0, timeOrZero(first))
		return nil
	})
	return err
}
