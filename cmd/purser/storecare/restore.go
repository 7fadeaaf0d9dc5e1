package storecare

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"purser/actors"
	"purser/actors/partner/sandbox"
	"purser/actors/processes"
	"purser/authorizer"
	"purser/cmd/purser/datadir"
	"purser/cmd/purser/settings"
	"purser/persistence"
	"purser/persistence/archive"
	"purser/persistence/dataformat"
	"purser/persistence/ident"
	"purser/persistence/kafka"
	"purser/persistence/pebblegate"
	"purser/persistence/pebblejournal"
	"purser/persistence/pgjournal"
)

// RestoreCmd makes the stores of a place from a backup. The journal is a new incarnation of the
// same deployment: consumers start again.
type RestoreCmd struct {
	datadir.Stores
	From           string `arg:"" name:"directory" help:"The backup."`
	KeepAuthorizer bool   `name:"keep-authorizer" help:"Keep the log, the card funds and the holds of the authorizer that is there; the journal is sent what it lacks."`
}

// Run is `purser restore`: it checks the whole backup before it changes anything, builds the stores
// beside their places and moves them. It fails with ErrDamaged, while a server runs, when a store
// is in the way, and with the disk's error. The same command run again completes an interrupted
// restore.
func (r *RestoreCmd) Run(out io.Writer) error {
	from, err := CheckBackup(r.From)
	if err != nil {
		return err
	}
	if err := pebblegate.MakeDir(vfs.Default, r.DataDir); err != nil {
		return err
	}
	unlock, err := datadir.LockUnfinished(r.DataDir)
	if err != nil {
		return err
	}
	s := &Restoration{Stores: r.Stores, From: from, keep: r.KeepAuthorizer}
	err = r.restore(context.Background(), s)
	if err = errors.Join(err, unlock()); err != nil {
		return err
	}
	sayStricter(out, &s.stricter)
	fmt.Fprintf(out, "%s restored to %s: %s\n", r.DataDir, from.At.Format(time.RFC3339), from.Counts)
	fmt.Fprintf(out, "put the deployment's secrets in place before the start: %s; consumers will start again from 0\n",
		settings.SecretsToKeep)
	return nil
}

// restore builds the stores, unless an interrupted restore has built them, and moves them into
// place. It fails like ReadPlan, Build and place.
func (r *RestoreCmd) restore(ctx context.Context, s *Restoration) error {
	plan, err := s.ReadPlan()
	if err != nil {
		return err
	}
	if !plan.Ready {
		if err := s.Build(ctx, plan); err != nil {
			return err
		}
	}
	return s.place()
}

// Restoration is one restore. It builds the stores in a directory of its own within the data
// directory. When they are whole and synced, the plan is stored as ready, and they are only
// moved. While the directory exists, no other command takes the data directory.
type Restoration struct {
	datadir.Stores
	From *CheckedBackup
	keep bool
	// touched: the database may have been filled, by this run or an interrupted one.
	touched bool
	// stricter are the cards whose last changes only the kept authorizer had.
	stricter authorizer.Stricter
}

// planForm is the format of the plan.
var planForm = datadir.Form{Name: "purser-restore", Number: 1,
	Older: "finish it with the program that began it"}

// RestorePlan is stored in the restoration's directory, in a file that datadir.WriteChecksummed
// writes.
type RestorePlan struct {
	Backup string     `json:"backup"` // checksum of its manifest
	Keep   bool       `json:"keepAuthorizer"`
	Store  ident.UUID `json:"store"` // of the new incarnation: a database that has it was loaded by this restore
	Ready  bool       `json:"ready"`
}

func (s *Restoration) planFile() string {
	return filepath.Join(datadir.RestoringDir(s.DataDir), "plan")
}

// ReadPlan returns the plan of a restore that was not finished, or a new one. It fails for a
// damaged plan, and for one of another backup or another --keep-authorizer.
func (s *Restoration) ReadPlan() (RestorePlan, error) {
	plan := RestorePlan{Backup: s.From.sum, Keep: s.keep}
	text, _, err := datadir.ReadChecksummed(s.planFile(), planForm)
	if errors.Is(err, fs.ErrNotExist) {
		plan.Store, err = ident.New(ident.SystemSlot, time.Now(), rand.Reader)
		return plan, err
	}
	var begun RestorePlan
	if err == nil {
		err = json.Unmarshal(text, &begun)
	}
	if _, other := errors.AsType[*dataformat.Other](err); other {
		return plan, fmt.Errorf("a restore into %s was begun and not finished: %w", s.DataDir, err)
	}
	if err != nil {
		return plan, fmt.Errorf("%s is damaged: %w; remove %s, and begin with an empty database if there is one",
			s.planFile(), err, datadir.RestoringDir(s.DataDir))
	}
	if begun.Backup != plan.Backup || begun.Keep != plan.Keep {
		return plan, fmt.Errorf("another restore into %s was begun and not finished: run that one again, or remove %s",
			s.DataDir, datadir.RestoringDir(s.DataDir))
	}
	s.touched = true
	return begun, nil
}

func (s *Restoration) writePlan(plan RestorePlan) error {
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	return datadir.WriteChecksummed(s.planFile(), planForm, text)
}

// Build makes the stores. When it fails before a database was filled, the data directory is left as
// it was. It fails when a store is in the way, and like BuildAuthorizer and BuildJournal.
func (s *Restoration) Build(ctx context.Context, plan RestorePlan) error {
	if err := s.requireRoom(); err != nil {
		return err
	}
	if err := s.Begin(plan); err != nil {
		return err
	}
	err := s.BuildAuthorizer()
	if err == nil {
		err = s.BuildJournal(ctx, plan)
	}
	if err != nil && (s.DatabaseURL == "" || !s.touched) {
		return errors.Join(err, os.RemoveAll(datadir.RestoringDir(s.DataDir)))
	}
	if err != nil {
		return err
	}
	plan.Ready = true
	return s.writePlan(plan)
}

// requireRoom refuses to put a store where one is.
func (s *Restoration) requireRoom() error {
	there := func(dir string) bool { _, err := os.Lstat(dir); return err == nil }
	switch {
	case s.DatabaseURL == "" && there(datadir.JournalDir(s.DataDir)):
		return fmt.Errorf("%s is there: move it away first", datadir.JournalDir(s.DataDir))
	case s.keep && !authorizer.Exists(nil, datadir.AuthorizerDir(s.DataDir)):
		return fmt.Errorf("there is no authorizer to keep: %s is missing", datadir.AuthorizerDir(s.DataDir))
	case !s.keep && there(datadir.AuthorizerDir(s.DataDir)):
		return fmt.Errorf(
			"%s is there: restore with --keep-authorizer if it is newer than the backup, or move it away first",
			datadir.AuthorizerDir(s.DataDir),
		)
	case !s.keep && there(datadir.SandboxDir(s.DataDir)):
		return fmt.Errorf("%s is there: move it away first", datadir.SandboxDir(s.DataDir))
	}
	return nil
}

// Begin removes what an interrupted restore has left, but its plan. It fails only with the disk's
// error.
func (s *Restoration) Begin(plan RestorePlan) error {
	dir := datadir.RestoringDir(s.DataDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := errors.Join(datadir.SyncDir(s.DataDir), s.writePlan(plan)); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(datadir.JournalDir(dir)), os.RemoveAll(datadir.AuthorizerDir(dir)),
		os.RemoveAll(datadir.SandboxDir(dir)))
}

// BuildAuthorizer makes the authorizer's store, set back to follow the journal from 0, and the
// sandbox's. Kept stores are copied too, because a restore that fails must not have changed them.
// It fails when the authorizer is of another deployment, older than the backup, or too new for it,
// and with the disk's error.
func (s *Restoration) BuildAuthorizer() error {
	dir := datadir.RestoringDir(s.DataDir)
	var err error
	if s.keep {
		err = checkpointAuthorizer(datadir.AuthorizerDir(s.DataDir), datadir.AuthorizerDir(dir))
	} else {
		err = CopyTree(datadir.AuthorizerDir(s.From.Dir), datadir.AuthorizerDir(dir))
	}
	if err != nil {
		return err
	}
	err = authorizer.FollowAnew(s.authorizerOptions(dir), s.From.told)
	_, other := errors.AsType[*dataformat.Other](err)
	switch {
	case other:
		return fmt.Errorf("the authorizer cannot be restored: %w", err)
	case errors.Is(err, authorizer.ErrForeign):
		return fmt.Errorf("the authorizer is not of the backup's deployment: %w", err)
	case errors.Is(err, authorizer.ErrHole):
		return fmt.Errorf(
			"the backup is too old for this authorizer: %w; restore without it and lose what it decided since",
			err,
		)
	case errors.Is(err, authorizer.ErrLogBehind):
		return fmt.Errorf("the authorizer is older than the backup: %w; restore without it", err)
	case err != nil:
		return err
	}
	return s.buildSandbox()
}

// authorizerOptions returns the options of the authorizer's store in a data directory: the one that
// is being restored, or the one whose authorizer is kept. A failure of the store panics.
func (s *Restoration) authorizerOptions(dataDir string) authorizer.Options {
	return authorizer.Options{
		Dir:        datadir.AuthorizerDir(dataDir),
		Deployment: s.From.DeploymentID,
		Clock:      time.Now,
		Entropy:    rand.Reader,
		Fatal:      func(err error) { panic(fmt.Sprintf("the authorizer's store has failed: %v", err)) },
	}
}

// checkpointAuthorizer copies an authorizer's store, of any deployment, that no process has open.
// It fails when the store cannot be opened or copied.
func checkpointAuthorizer(from, to string) error {
	engine, err := authorizer.Open(authorizer.Options{Dir: from, Clock: time.Now, Entropy: rand.Reader,
		Fatal: func(err error) { panic("BUG: a copy writes: " + err.Error()) }})
	if err != nil {
		return err
	}
	return errors.Join(engine.Checkpoint(to), engine.Close())
}

// buildSandbox copies the sandbox's store: the present one when it is kept and exists, and else the
// backup's, if it has one. The bank and the ramp then report again, because the journal is older
// than their reports. The chains need not: watchers go on from the journal's own cursors. It fails
// with an error of the disk or of the store.
func (s *Restoration) buildSandbox() (err error) {
	kept, saved := datadir.SandboxDir(s.DataDir), datadir.SandboxDir(s.From.Dir)
	built := datadir.SandboxDir(datadir.RestoringDir(s.DataDir))
	switch {
	case s.keep && sandbox.Exists(nil, kept):
		err = sandbox.Checkpoint(nil, kept, built)
	case sandbox.Exists(nil, saved):
		err = CopyTree(saved, built)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return sandbox.ReportAgain(nil, built)
}

// BuildJournal loads the journal and lets the authorizer follow it. Where a kept authorizer had
// newer rules of cards than the backup, the stricter rule holds. It fails with an error of the
// archive, of a database or of the disk.
func (s *Restoration) BuildJournal(ctx context.Context, plan RestorePlan) (err error) {
	identity := persistence.Identity{Deployment: s.From.DeploymentID, Store: plan.Store}
	if err := s.LoadJournal(ctx, identity); err != nil {
		return err
	}
	built := datadir.Stores{DataDir: datadir.RestoringDir(s.DataDir), DatabaseURL: s.DatabaseURL, Slack: s.Slack}
	journal, err := built.ReadJournal(ctx, "a restore")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	restoring := s.authorizerOptions(built.DataDir)
	engine, err := authorizer.Open(restoring)
	if err != nil {
		return err
	}
	err = errors.Join(actors.CatchUp(ctx, journal, engine, processes.Kinds()), engine.Close())
	if err == nil && s.keep {
		s.stricter, err = keepStricter(restoring, s.authorizerOptions(s.DataDir))
	}
	return err
}

// LoadJournal loads the backup's journal into the data directory or the database. A database must
// be empty, or filled by this very restore. It fails with pgjournal.ErrNotEmpty otherwise, and with
// an error of the archive or the store.
func (s *Restoration) LoadJournal(ctx context.Context, identity persistence.Identity) error {
	if s.DatabaseURL == "" {
		return s.From.archive(func(r *archive.Reader) error {
			return pebblejournal.Load(
				ctx,
				pebblejournal.Options{Dir: datadir.JournalDir(datadir.RestoringDir(s.DataDir))},
				identity,
				NextIncarnation(r.Content()),
			)
		})
	}
	if err := pgjournal.Migrate(ctx, s.DatabaseURL); err != nil {
		return err
	}
	resumed := s.touched
	s.touched = true
	err := s.From.archive(func(r *archive.Reader) error {
		return pgjournal.Load(ctx, pgjournal.Options{URL: s.DatabaseURL, Slack: int(s.Slack)}, identity,
			NextIncarnation(r.Content()))
	})
	if errors.Is(err, pgjournal.ErrNotEmpty) {
		err = s.requireOwn(ctx, identity, err)
		s.touched = resumed || !errors.Is(err, pgjournal.ErrNotEmpty)
	}
	return err
}

// requireOwn accepts a database that this very restore has filled before it was interrupted. For
// any other database it fails with the refusal.
func (s *Restoration) requireOwn(ctx context.Context, identity persistence.Identity, refusal error) error {
	journal, err := pgjournal.Open(ctx, pgjournal.Options{URL: s.DatabaseURL, Slack: int(s.Slack)})
	if err != nil {
		return err
	}
	found := journal.Identity()
	if err := journal.Close(); err != nil {
		return err
	}
	if found != identity {
		return fmt.Errorf("%w: name an empty one", refusal)
	}
	return nil
}

// NextIncarnation returns the content with which the next incarnation begins. Events and positions
// are the same, but other events will follow them than before, so an outside consumer that has
// handled more must start again from 0. Consumers keep their positions by the store's identity. The
// outbox keeps its positions in the journal, and they are dropped, because the topic has no event
// of this incarnation. All other cursors are the runtime's: the relay continues where this
// journal has the log.
func NextIncarnation(content persistence.Content) persistence.Content {
	return func(yield func(persistence.Part, error) bool) {
		for part, err := range content {
			if c, ok := part.(*persistence.Cursor); ok && c.Name == kafka.CursorName {
				continue
			}
			if !yield(part, err) {
				return
			}
		}
	}
}

// place moves the prepared stores into the data directory, the journal last. It skips stores that
// were moved before. It fails with the disk's error, and a repeated restore then continues from
// there.
func (s *Restoration) place() error {
	dir := datadir.RestoringDir(s.DataDir)
	for _, of := range []func(string) string{datadir.AuthorizerDir, datadir.SandboxDir, datadir.JournalDir} {
		if _, err := os.Lstat(of(dir)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := setAside(of(s.DataDir)); err != nil {
			return err
		}
		if err := os.Rename(of(dir), of(s.DataDir)); err != nil {
			return err
		}
	}
	if err := datadir.SyncDir(s.DataDir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return datadir.SyncDir(s.DataDir)
}

// setAside renames a directory to one with the suffix .old and the time, so that the new store can
// take its place. A directory that does not exist is no error.
func setAside(dir string) error {
	err := os.Rename(dir, fmt.Sprintf("%s.old-%d", dir, time.Now().UnixNano()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// CopyTree copies a directory of files, synced. It fails when a file exists at its target, and with
// the disk's error.
func CopyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if !d.IsDir() {
			return CopyFile(path, target)
		}
		if err := os.MkdirAll(target, 0o700); err != nil {
			return err
		}
		return datadir.SyncDir(filepath.Dir(target))
	})
}

// CopyFile copies a file to a new one of mode 0600 and syncs it. It fails when the target exists,
// and with the disk's error.
func CopyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close(), in.Close(), datadir.SyncDir(filepath.Dir(to)))
}
