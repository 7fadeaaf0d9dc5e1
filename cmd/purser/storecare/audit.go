// Package storecare has the commands that maintain the stores of a deployment, and their answers on
// the admin port of a running server: audit, backup and restore, the repair of the authorizer's
// store (rebuild), the move of the journal to Postgres, the import of ramp sessions, the rotation
// of secrets and the lists of unmatched reports, set-aside workspaces and overdue orders.
package storecare

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"purser/actors/audit"
	"purser/authorizer"
	"purser/cmd/purser/adminport"
	"purser/cmd/purser/datadir"
	"purser/persistence"
	"purser/persistence/book"
)

// AuditCmd compares the two stores. It asks the server that has the data directory, and opens the stores itself when none has.
type AuditCmd struct{ datadir.Stores }

const (
	AuditPause  = 200 * time.Millisecond // between two looks at stores in use
	auditWithin = 2 * time.Hour
	maxReport   = 16 << 20
)

// ErrUnsound reports that an audit found differences. Its report lists them.
var ErrUnsound = errors.New("the audit found differences")

// Run is `purser audit`: it prints the report of a comparison of all stores. It fails with
// ErrUnsound when anything differs, and when a store cannot be read.
func (a *AuditCmd) Run(out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), auditWithin)
	defer cancel()
	report, err := a.report(ctx)
	if err != nil {
		return err
	}
	if err := report.Print(out); err != nil {
		return err
	}
	if !report.Clean() {
		return ErrUnsound
	}
	return nil
}

// report has the running server audit its stores, or opens the stores when no server has the
// directory. It fails when they cannot be read; a difference is in the report.
func (a *AuditCmd) report(ctx context.Context) (audit.Report, error) {
	unlock, err := datadir.LockUsed(a.DataDir)
	if errors.Is(err, datadir.ErrInUse) {
		return adminport.Ask[audit.Report](ctx, a.DataDir, "audit", struct{}{}, maxReport)
	}
	if err != nil {
		return audit.Report{}, err
	}
	report, err := auditStores(ctx, a.Stores)
	return report, errors.Join(err, unlock())
}

// auditStores opens both stores, which no server has open, and audits them. It fails when a store
// is missing or cannot be read.
func auditStores(ctx context.Context, p datadir.Stores) (report audit.Report, err error) {
	if err := p.RequireStores(); err != nil {
		return audit.Report{}, err
	}
	journal, err := p.ReadJournal(ctx, "an audit")
	if err != nil {
		return audit.Report{}, err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	engine, err := authorizer.Open(authorizer.Options{Dir: datadir.AuthorizerDir(p.DataDir), Deployment: journal.Identity().Deployment,
		Clock: time.Now, Entropy: rand.Reader, Fatal: func(err error) { panic("BUG: an audit writes: " + err.Error()) }})
	if err != nil {
		return audit.Report{}, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	return Audit(ctx, p, journal, engine, 0)
}

// Audit compares the journal with the authorizer's store, and with the ledger in Postgres when
// there is a database. between is the pause between reads. It fails when a store cannot be read; a
// difference is in the report.
func Audit(ctx context.Context, at datadir.Stores, journal persistence.Journal, engine *authorizer.Engine,
	between time.Duration) (r audit.Report, err error) {
	sources := audit.Sources{Journal: journal.(audit.Journal), Authorizer: audit.FromEngine(engine), Pause: between}
	if at.DatabaseURL == "" {
		return audit.Run(ctx, sources)
	}
	ledger, err := book.Open(ctx, book.Options{URL: at.DatabaseURL, Identity: journal.Identity(), Slack: int(at.Slack),
		PoolSize: 1})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	sources.Book = ledger
	return audit.Run(ctx, sources)
}
